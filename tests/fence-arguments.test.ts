// What the guards are set up with is judged before anything is asked of a database.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  d1Fence,
  durableObjectFence,
  fenceSql,
  postgresFence,
  r2Fence,
  sqliteFence,
} from "leasehold/fence";

const unasked = () => assert.fail("nothing is asked of it");
const names = ["prepare", "exec", "batch", "query", "transactionSync", "get", "head", "put"];
const database = Object.fromEntries(names.map((name) => [name, unasked])) as never;

function refuses(field: string, attempt: () => unknown): void {
  assert.throws(attempt, { name: "FenceError", code: "invalid_argument", field }, String(attempt));
}

test("an option that does not exist was overlooked", async () => {
  const guards = [
    (options: object) => sqliteFence(database, options),
    (options: object) => durableObjectFence(database, options),
    (options: object) => d1Fence(database, options),
    (options: object) => postgresFence(database, options),
    (options: object) => fenceSql("postgres", options),
  ];
  for (const guard of guards) {
    guard({ table: "fences", other: undefined });
    refuses("tables", () => guard({ tables: "fences" }));
    for (const options of [null, []]) refuses("options", () => guard(options as never));
  }
  refuses("dialect", () => fenceSql("mysql" as never));
  const condition = { onlyIf: { etagMatches: "e" } };
  const put = r2Fence(database).put("a", 1, "text" as never, condition as never);
  await assert.rejects(put, { code: "invalid_argument", field: "onlyIf" });
});

test("a binding that was forgotten was told of only when it was first used, and not by its name", () => {
  for (const missing of [undefined, null, {}, "leases", Promise.resolve(database)] as never[]) {
    refuses("database", () => sqliteFence(missing));
    refuses("database", () => d1Fence(missing));
    refuses("database", () => postgresFence(missing));
    refuses("storage", () => durableObjectFence(missing));
    refuses("bucket", () => r2Fence(missing));
  }
});
