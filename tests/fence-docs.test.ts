// docs/fence.md prints SQL and JavaScript that work as printed, and so does the README.
import assert from "node:assert/strict";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { after, before, test } from "node:test";
import { Leasehold, memoryStore } from "leasehold";
import { fenceSql, memoryFence, postgresFence, sqliteFence } from "leasehold/fence";
import pg from "pg";
import { blocksOf } from "./support/documentation.ts";
import { FenceWorker } from "./support/fence-worker.ts";
import { Postgres } from "./support/postgres.ts";

const readme = blocksOf("README.md");
const blocks = blocksOf("docs/fence.md");

/** Statements by the comment above them. */
const statements = new Map(
  blocks
    .filter(({ language }) => language === "sql")
    .flatMap(({ text }) => [...text.matchAll(/^-- (.*)\n((?:(?!--).*\n)+)/gm)])
    .map(([, title, sql]) => [title!, sql!.trim().replace(/;$/, "")]),
);

const lease = { fence: 34 };
const late = { fence: 33 };

let server: Postgres;
let pool: pg.Pool;

before(async () => {
  server = await Postgres.start();
  pool = new pg.Pool(server.connection).on("error", () => {});
});
// It ends the connections too.
after(() => server?.[Symbol.asyncDispose]());

test("the statements of the table of fences are those that the guards use", () => {
  let compared = 0;
  for (const dialect of ["postgres", "sqlite"] as const) {
    for (const [name, sql] of Object.entries(fenceSql(dialect))) {
      const title = `${dialect === "postgres" ? "Postgres" : "SQLite"}: ${name}`;
      // One of them is printed once for both.
      if (title === "SQLite: admitOrFail") continue;
      assert.equal(statements.get(title), sql.replaceAll('"', ""), title);
      compared += 1;
    }
  }
  assert.equal(compared, 7);
});

test("the statements work in Postgres", async () => {
  const run = async (name: string, ...values: unknown[]) =>
    (await pool.query(statements.get(`Postgres: ${name}`)!, values)).rows;
  await run("createTable");
  assert.deepEqual(await run("newest", "a"), []);
  assert.equal((await run("admit", "a", 34)).length, 1);
  assert.equal((await run("admit", "a", 34)).length, 1);
  assert.equal((await run("admit", "a", 33)).length, 0);
  await run("admitOrFail", "a", 34);
  await assert.rejects(run("admitOrFail", "a", 33), { code: "23502" });
  assert.deepEqual(await run("newest", "a"), [{ fence: "34" }]);

  await pool.query(
    "CREATE TABLE invoices (id INT PRIMARY KEY, total INT, fence BIGINT NOT NULL DEFAULT 0)",
  );
  await ownColumn(run);
});

test("the statements work in SQLite", async () => {
  const database = new DatabaseSync(":memory:");
  const run = async (name: string, ...values: SQLInputValue[]) =>
    database.prepare(statements.get(`SQLite: ${name}`)!).all(...values);
  await run("createTable");
  assert.deepEqual(await run("newest", "a"), []);
  assert.equal((await run("admit", "a", 34)).length, 1);
  assert.equal((await run("admit", "a", 34)).length, 1);
  assert.equal((await run("admit", "a", 33)).length, 0);
  const orFail = statements.get("Postgres: admitOrFail")!.replace("$1, $2", "?, ?");
  database.prepare(orFail).run("a", 34);
  assert.throws(() => database.prepare(orFail).run("a", 33), /NOT NULL/);
  assert.equal((await run("newest", "a"))[0]?.fence, 34);

  database.exec(
    "CREATE TABLE invoices (id INT PRIMARY KEY, total INT, fence BIGINT NOT NULL DEFAULT 0)",
  );
  await ownColumn(run);
});

/** A row with a fence of its own, whichever the database. */
async function ownColumn(
  run: (name: string, ...values: any[]) => Promise<unknown[]>,
): Promise<void> {
  const rows = async (name: string, ...values: unknown[]) => (await run(name, ...values)).length;
  assert.equal(await rows("update", 1, 5, 100), 0, "there is no row yet");
  assert.equal(await rows("insert or update", 1, 5, 100), 1);
  assert.equal(await rows("insert or update", 1, 4, 400), 0);
  assert.equal(await rows("insert or update", 1, 5, 500), 1);
  assert.equal(await rows("update", 1, 4, 400), 0);
  assert.equal(await rows("update", 1, 6, 600), 1);
  assert.equal(await rows("insert or update", 1, 5, 500), 0);
}

test("the example of memory", async () => {
  const invoices = new Map();
  // The same guard for both holders.
  const guard = memoryFence();
  const example = { invoices, memoryFence: () => guard };
  await run("memoryFence(", { ...example, lease });
  assert.equal(invoices.get(42), "paid");
  await assert.rejects(run("memoryFence(", { ...example, lease: late }), { code: "stale_fence" });
});

test("the example of SQLite", async () => {
  const database = new DatabaseSync(":memory:");
  database.exec("CREATE TABLE invoices (id INTEGER PRIMARY KEY, total INTEGER)");
  database.exec("INSERT INTO invoices VALUES (42, 0)");
  await run("sqliteFence(", { database, sqliteFence, lease });
  assert.equal(database.prepare("SELECT total FROM invoices").get()?.total, 100);
  await assert.rejects(run("sqliteFence(", { database, sqliteFence, lease: late }), {
    code: "stale_fence",
  });
});

test("the example of Postgres", async () => {
  await pool.query("INSERT INTO invoices (id, total) VALUES (42, 0)");
  await run("postgresFence(pool)", { pool, postgresFence, lease });
  const { rows } = await pool.query("SELECT total FROM invoices WHERE id = 42");
  assert.equal(rows[0].total, 100);
  await assert.rejects(run("postgresFence(pool)", { pool, postgresFence, lease: late }), {
    code: "stale_fence",
  });
});

test("the example of the README", async () => {
  await pool.query("ALTER TABLE invoices ADD paid BOOLEAN");
  // The fences of a store in this process begin at 1.
  await pool.query("DELETE FROM leasehold_fences");
  const example = block("leasehold/fence", readme).replace(/^import .*$/m, "");
  const locks = new Leasehold(memoryStore());
  await runText(example, { locks, pool, postgresFence });
  const { rows } = await pool.query("SELECT paid FROM invoices WHERE id = 42");
  assert.deepEqual(rows, [{ paid: true }]);
});

test("the examples of D1, R2 and a Durable Object", async () => {
  await using worker = await FenceWorker.start(`
    import { DurableObject } from "cloudflare:workers";
    import { d1Fence, durableObjectFence, r2Fence } from "./fence.js";
    ${block("extends DurableObject").replace("class Invoices", "class Documents")}
    const places = {
      async d1(env, lease) {
        await env.DB.exec("CREATE TABLE IF NOT EXISTS invoices (id INTEGER PRIMARY KEY, total INTEGER)");
        await env.DB.exec("INSERT OR IGNORE INTO invoices VALUES (42, 0)");
        ${block("d1Fence(")}
        return env.DB.prepare("SELECT * FROM invoices").all().then(({ results }) => results);
      },
      async r2(env, lease) {
        ${block("r2Fence(")}
        return (await env.BUCKET.get("invoice:42.json")).json();
      },
      object: (env, lease) => env.DOCUMENTS.getByName("invoices").pay(42, 100, lease.fence),
    };
    export default {
      async fetch(request, env) {
        const [place, , lease] = await request.json();
        try {
          return Response.json((await places[place](env, lease)) ?? null);
        } catch (error) {
          return Response.json({ ...error, message: error.message }, { status: 500 });
        }
      },
    };`);
  const stale = { code: "stale_fence", fence: 33, newest: 34 };
  assert.deepEqual(await worker.call("d1", "", lease), [{ id: 42, total: 100 }]);
  await assert.rejects(worker.call("d1", "", late), stale);
  assert.deepEqual(await worker.call("r2", "", lease), { total: 100, paid: true });
  await assert.rejects(worker.call("r2", "", late), stale);
  await worker.call("object", "", lease);
  await assert.rejects(worker.call("object", "", late), stale);
});

/** The one example that has this text in it. */
function block(part: string, among = blocks): string {
  const found = among.filter(({ language, text }) => language === "js" && text.includes(part));
  assert.equal(found.length, 1, part);
  return found[0]!.text;
}

function run(part: string, known: Record<string, unknown>): Promise<void> {
  return runText(block(part), known);
}

/** Runs an example with these words known to it. */
async function runText(text: string, known: Record<string, unknown>): Promise<void> {
  const AsyncFunction = (async () => {}).constructor as new (
    ...texts: string[]
  ) => (...values: unknown[]) => Promise<void>;
  await new AsyncFunction(...Object.keys(known), text)(...Object.values(known));
}
