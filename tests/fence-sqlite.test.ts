// What only SQLite has: several processes on one file, drivers that differ, transactions that are not asynchronous.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { promisify } from "node:util";
import { fenceSql, memoryFence, sqliteFence } from "leasehold/fence";
import { SQLITE_TABLES } from "./support/guarded.ts";

function openInMemory(options = {}): DatabaseSync {
  const database = new DatabaseSync(":memory:", options);
  database.exec(SQLITE_TABLES);
  sqliteFence(database).createTable();
  return database;
}

function rows(database: DatabaseSync, table: string): unknown[] {
  return database.prepare(`SELECT * FROM ${table}`).all();
}

test("processes of Node and Bun on one file: the order of their writes is that of their fences", async () => {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-sqlite-"));
  const file = join(folder, "shared.sqlite");
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec(SQLITE_TABLES);
  sqliteFence(database).createTable();

  const script = resolve(import.meta.dirname, "support/fence-process.ts");
  const bun = resolve(import.meta.dirname, "node_modules/.bin/bun");
  const outputs = await Promise.all([
    promisify(execFile)(process.execPath, [script, file, "2"]),
    promisify(execFile)(bun, [script, file, "3"]),
  ]);
  const [node, other] = outputs.map(({ stdout }) => JSON.parse(stdout));
  assert.deepEqual([node.driver, other.driver], ["node:sqlite", "bun:sqlite"]);
  const fences = database
    .prepare("SELECT fence FROM journal ORDER BY at")
    .all()
    .map(({ fence }) => fence as number);
  assert.deepEqual(
    fences,
    fences.toSorted((a, b) => a - b),
  );
  assert.equal(fences.length + node.refused + other.refused, 99);
  assert.equal(fences.at(-1), 100);
  database.close();
  await rm(folder, { recursive: true });
});

test("what is thrown undoes everything, the fence included, and is what the caller is told", () => {
  const database = openInMemory();
  const guard = sqliteFence(database);
  const failure = new Error("no");
  const run = () =>
    guard.run("failed", 9, () => {
      database.exec("INSERT INTO documents VALUES ('failed', 'half done')");
      throw failure;
    });
  assert.throws(run, (error) => error === failure);
  assert.deepEqual(rows(database, "documents"), []);
  guard.admit("failed", 1);
});

test("a write that is asynchronous is refused and undone, as far as it has come", () => {
  const database = openInMemory();
  const run = () =>
    sqliteFence(database).run("late", 1, (() => {
      database.exec("INSERT INTO documents VALUES ('late', 'half done')");
      return Promise.resolve();
    }) as () => any);
  assert.throws(run, { name: "TypeError", message: /asynchronous/ });
  assert.deepEqual(rows(database, "documents"), []);
  const late = (() => Promise.resolve()) as () => any;
  assert.throws(() => memoryFence().run("late", 1, late), /asynchronous/);
});

test("an async function wrote all the same, after it was refused, and its end was an unhandled rejection", async () => {
  const database = openInMemory();
  const rejections: unknown[] = [];
  const onRejection = (reason: unknown) => rejections.push(reason);
  process.on("unhandledRejection", onRejection);
  const write = async () => {
    await Promise.resolve();
    database.exec("INSERT INTO documents VALUES ('late', 'unguarded')");
    throw new Error("nobody hears this");
  };
  function* generator() {
    database.exec("INSERT INTO documents VALUES ('late', 'never done')");
  }
  for (const late of [write, generator, () => Promise.reject(new Error("nor this")), undefined]) {
    const memory = memoryFence();
    for (const guard of [sqliteFence(database), memory]) {
      assert.throws(() => guard.run("late", 1, late as () => any), /asynchronous/);
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 10));
  process.off("unhandledRejection", onRejection);
  assert.deepEqual(rejections, []);
  assert.deepEqual([rows(database, "documents"), rows(database, "leasehold_fences")], [[], []]);
});

test("in a transaction of one's own, admit belongs to it, and run is refused", () => {
  const database = openInMemory();
  const guard = sqliteFence(database);
  guard.admit("own", 5);
  database.exec("BEGIN");
  database.exec("INSERT INTO documents VALUES ('own', 'refused')");
  assert.throws(() => guard.run("own", 6, () => {}), /within a transaction/);
  assert.throws(() => guard.admit("own", 4), { code: "stale_fence", newest: 5 });
  database.exec("ROLLBACK");
  assert.deepEqual(rows(database, "documents"), []);
});

test("drivers that are set to BigInts or to arrays", () => {
  for (const options of [{ readBigInts: true }, { returnArrays: true }]) {
    const guard = sqliteFence(openInMemory(options));
    guard.admit("a", Number.MAX_SAFE_INTEGER);
    const refusal = { code: "stale_fence", fence: 5, newest: Number.MAX_SAFE_INTEGER };
    assert.throws(() => guard.admit("a", 5), refusal);
  }
});

test("a fence is stored as an integer", () => {
  const database = openInMemory();
  sqliteFence(database).admit("a", Number.MAX_SAFE_INTEGER);
  const [row] = database.prepare("SELECT typeof(fence) AS type FROM leasehold_fences").all();
  assert.equal(row?.type, "integer");
});

test("tables of other names; and names that are none", () => {
  const database = openInMemory();
  for (const table of ["order", "Fences_2", "main.fences", "_"]) {
    const guard = sqliteFence(database, { table });
    guard.createTable();
    guard.admit("a", 1);
  }
  for (const table of ["", "a b", 'a"b', "a.b.c", "a;", "1a", ".a", "a.", "ü", "a".repeat(64), 7]) {
    assert.throws(() => fenceSql("sqlite", { table: table as string }), {
      code: "invalid_argument",
      field: "table",
    });
  }
});
