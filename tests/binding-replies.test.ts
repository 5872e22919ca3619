// What comes from elsewhere is looked at before it is handed on: codes, and answers to questions.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Leasehold, LeaseError } from "leasehold";
import { rejectsWith } from "./support/cases.ts";

const root = join(import.meta.dirname, "..");

/** Answers everything with this, as something may that is no lease store. */
let answer: unknown;
let status = 200;
let asked = 0;
const server = createServer((_, response) => {
  asked += 1;
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(answer));
});
let locks: Leasehold;

before(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  locks = new Leasehold(`http://127.0.0.1:${port}`, { WebSocket: false });
});
after(async () => {
  await locks.close();
  server.close();
});

test("every code that the interface document knows is in the type", async () => {
  const document = JSON.parse(await readFile(join(root, "src/worker/openapi.json"), "utf8")) as {
    components: { schemas: { Problem: { properties: { code: { enum: string[] } } } } };
  };
  const types = await readFile(join(root, "dist/types/binding/errors.d.ts"), "utf8");
  const union = /type LeaseErrorCode =([^]*?)";/.exec(types)![1]!;
  const known = new Set([...union.matchAll(/"(\w+)/g)].map(([, code]) => code));
  const codes = document.components.schemas.Problem.properties.code.enum;
  assert.ok(codes.length >= 15);
  assert.deepEqual(
    codes.filter((code) => !known.has(code)),
    [],
  );
});

const holder = { fence: 1, mode: "exclusive", expiresInMs: 1, heldMs: 1 };

test("what is no answer to inspect, list or revoke is not handed on", async () => {
  const bad = {
    inspect: [
      {},
      [],
      { lock: "a", holders: [] },
      { lock: "a", holders: [{}], waiters: [] },
      // Of another lock.
      { lock: "b", holders: [], waiters: [] },
    ],
    list: [{}, { locks: {} }, { locks: [{ lock: "a" }] }, { locks: [], cursor: 1 }, { locks: [1] }],
    revoke: [{}, { revoked: "1" }],
  };
  for (answer of bad.inspect) await rejectsWith("unavailable", locks.inspect("a"));
  for (answer of bad.list) await rejectsWith("unavailable", locks.list());
  for (answer of bad.list) await rejectsWith("unavailable", locks.query());
  for (answer of bad.revoke) await rejectsWith("unavailable", locks.revoke("a"));
});

test("a list of other locks than those asked for was handed on", async () => {
  answer = { locks: [{ lock: "b", holders: [], queue: 0 }] };
  await rejectsWith("unavailable", locks.list({ prefix: "a" }));
  assert.deepEqual(await locks.list({ prefix: "b" }), answer);
});

test(
  "a page that is followed by itself was asked for without end",
  { timeout: 20_000 },
  async () => {
    answer = { locks: [], cursor: "a" };
    await rejectsWith("unavailable", locks.query());
  },
);

test("the address was not in the error, nor whether it was the key that is wrong", async () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const told = async (key?: string) => {
    const client = new Leasehold(url, { WebSocket: false, key });
    const error = await client.inspect("a").catch((error: unknown) => error);
    assert.ok(error instanceof LeaseError);
    return [error.code, error.message];
  };
  const problem = { code: "unauthorized", title: "A key is needed", detail: "send a key" };
  [answer, status] = [problem, 401];
  assert.deepEqual(await told(), ["unauthorized", `the lease store at ${url} wants a key`]);
  const known = `the lease store at ${url} does not know this key`;
  assert.deepEqual(await told("k"), ["unauthorized", known]);
  [answer, status] = ["<html>", 404];
  const [code, message] = await told();
  assert.equal(code, "not_found");
  assert.ok(message!.includes(url), message);
  status = 200;
  const nobody = new Leasehold("http://127.0.0.1:1/a/", { WebSocket: false });
  const error = (await nobody.revoke("a").catch((error: unknown) => error)) as LeaseError;
  const unreached = "the lease store at http://127.0.0.1:1/a could not be reached";
  assert.deepEqual([error.code, error.message], ["unavailable", unreached]);
  assert.ok(error.cause instanceof Error);
});

test("what is one is handed on as it is, with members that are not known yet", async () => {
  answer = { lock: "a", holders: [holder], waiters: [{ mode: "shared", waitedMs: 1 }], more: 1 };
  assert.deepEqual(await locks.inspect("a"), answer);
  answer = { locks: [{ lock: "a", holders: [holder], queue: 0 }], cursor: "a" };
  assert.deepEqual(await locks.list(), answer);
});

test("holders that are none are not in the error", async () => {
  for (const holders of [1, [1], [{}], undefined]) {
    [answer, status] = [{ status: "held", holders, queue: 0, retryAfterMs: 1 }, 409];
    const error = await locks.acquire("a", { waitMs: 0 }).catch((error: unknown) => error);
    assert.ok(error instanceof LeaseError);
    assert.deepEqual([error.code, error.holders], ["held", undefined]);
  }
  status = 200;
});

test("who is asked too much is asked again, and it is said in the end", async () => {
  [answer, status, asked] = [{ code: "too_many_requests", title: "Too much" }, 429, 0];
  await rejectsWith("too_many_requests", locks.inspect("a"));
  assert.equal(asked, 3);
  status = 200;
});
