// What only Postgres has: several connections, transactions of one's own, and holders that are paused in one.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type FenceError, postgresFence } from "leasehold/fence";
import pg from "pg";
import postgres from "postgres";
import { until } from "./support/store.ts";
import { Postgres } from "./support/postgres.ts";

let server: Postgres;
let pool: pg.Pool;
let sql: postgres.Sql;

before(async () => {
  server = await Postgres.start();
  pool = new pg.Pool({ ...server.connection, max: 8 }).on("error", () => {});
  sql = postgres({ ...server.connection, max: 8, onnotice: () => {} });
  await pool.query("CREATE TABLE documents (name text PRIMARY KEY, value text)");
  await postgresFence(pool).createTable();
});
// The server ends the connections too. To end them first would wait for those that a failed test has kept.
after(() => server?.[Symbol.asyncDispose]());

const PUT = `INSERT INTO documents VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value`;

async function read(name: string): Promise<string | undefined> {
  return (await pool.query("SELECT value FROM documents WHERE name = $1", [name])).rows[0]?.value;
}

/** How many connections wait for a lock. */
async function waiting(): Promise<number> {
  const { rows } = await pool.query(
    "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
  );
  return Number(rows[0].n);
}

for (const isolation of ["read committed", "repeatable read", "serializable"]) {
  test(`a holder paused in its transaction is waited for, and nothing is mixed: ${isolation}`, async () => {
    const name = `paused ${isolation}`;
    await postgresFence(pool).admit(name, 1);
    // Another process, with its connections as it likes them.
    const other = new pg.Pool({
      ...server.connection,
      options: `-c default_transaction_isolation=${isolation.replace(" ", "\\ ")}`,
    });
    const older = Promise.withResolvers<void>();
    const isIn = Promise.withResolvers<void>();
    const first = postgresFence(other).run(name, 2, async (client) => {
      await client.query(PUT, [name, "older"]);
      isIn.resolve();
      await older.promise;
    });
    await isIn.promise;
    const second = postgresFence(other).run(name, 3, (client) =>
      client.query(PUT, [name, "newer"]),
    );
    const third = postgresFence(other).run(name, 1, (client) => client.query(PUT, [name, "late"]));
    const ends = Promise.allSettled([second, third]);
    await until(async () => (await waiting()) === 2, 10_000);
    older.resolve();
    await first;
    const [newer, late] = await ends;
    if (isolation === "read committed") {
      assert.equal(newer.status, "fulfilled");
      assert.equal(late.status === "rejected" && late.reason.code, "stale_fence");
    } else {
      // Their snapshots are too old to judge by: Postgres says so, and they may try again.
      for (const end of [newer, late]) {
        assert.equal(end.status === "rejected" && end.reason.code, "40001");
      }
      await assert.rejects(
        postgresFence(other).run(name, 1, (client) => client.query(PUT, [name, "late"])),
        { code: "stale_fence", fence: 1, newest: 2 },
      );
      await postgresFence(other).run(name, 3, (client) => client.query(PUT, [name, "newer"]));
    }
    assert.equal(await read(name), "newer");
    await other.end();
  });
}

test("one that is paused for too long loses its connection, its process lives, its successor goes on", async () => {
  const impatient = new pg.Pool({
    ...server.connection,
    options: "-c idle_in_transaction_session_timeout=300",
  });
  const older = Promise.withResolvers<void>();
  const isIn = Promise.withResolvers<void>();
  const paused = postgresFence(impatient).run("stuck", 2, async (client) => {
    await client.query(PUT, ["stuck", "older"]);
    isIn.resolve();
    await older.promise;
    await client.query(PUT, ["stuck", "older still"]);
  });
  const end = assert.rejects(paused);
  await isIn.promise;
  await postgresFence(pool).run("stuck", 3, (client) => client.query(PUT, ["stuck", "newer"]));
  older.resolve();
  await end;
  assert.equal(await read("stuck"), "newer");
  // The broken connection is out of its pool.
  await assert.rejects(postgresFence(impatient).admit("stuck", 2), { code: "stale_fence" });
  await impatient.end();
});

test("what fails undoes everything, the fence included, and is what the caller is told", async () => {
  const failure = new Error("no");
  for (const guard of [postgresFence(pool), postgresFence(sql)]) {
    const run = guard.run("failed", 9, async (handle: any) => {
      await (handle.query ?? handle.unsafe)
        .call(handle, PUT, ["failed", "half done"])
        .then(() => {});
      throw failure;
    });
    await assert.rejects(run, (error) => error === failure);
    assert.equal(await read("failed"), undefined);
    await guard.admit("failed", 1);
  }
});

test("a statement that failed unnoticed is no success", async () => {
  const run = postgresFence(pool).run("unnoticed", 1, async (client) => {
    await client.query(PUT, ["unnoticed", "half done"]);
    await client.query("SELECT 1/0").catch(() => {});
  });
  await assert.rejects(run, /had failed/);
  assert.equal(await read("unnoticed"), undefined);
});

test("in a transaction of one's own, what came before the refusal is undone too", async () => {
  await postgresFence(pool).run("own", 5, (client) => client.query(PUT, ["own", "five"]));
  const client = await pool.connect();
  await client.query("BEGIN");
  await client.query(PUT, ["own", "refused"]);
  await assert.rejects(postgresFence(client).admit("own", 4), { code: "stale_fence", newest: 5 });
  await client.query("ROLLBACK");
  client.release();
  assert.equal(await read("own"), "five");

  const run = sql.begin(async (sql) => {
    await sql.unsafe(PUT, ["own", "refused"]);
    await postgresFence(sql).admit("own", 4);
  });
  await assert.rejects(run, { code: "stale_fence", newest: 5 });
  assert.equal(await read("own"), "five");
});

test("within a transaction of postgres, a refusal undoes what it was asked about and no more", async () => {
  await postgresFence(sql).admit("inner", 5);
  await sql.begin(async (sql) => {
    await sql.unsafe(PUT, ["outer", "kept"]);
    const refused = postgresFence(sql).run("inner", 4, (sql) =>
      sql.unsafe(PUT, ["inner", "refused"]),
    );
    await assert.rejects(refused, { code: "stale_fence" });
    await postgresFence(sql).run("inner", 6, (sql) => sql.unsafe(PUT, ["inner", "six"]));
  });
  assert.deepEqual([await read("outer"), await read("inner")], ["kept", "six"]);
});

test("a client in a transaction of its own is not begun or committed for", async () => {
  const client = await pool.connect();
  const guard = postgresFence(client);
  assert.equal(await guard.run("client", 1, () => "done"), "done");
  await client.query("BEGIN");
  await client.query(PUT, ["client", "undone"]);
  await assert.rejects(
    guard.run("client", 2, () => {}),
    /has begun already/,
  );
  await client.query("ROLLBACK");
  client.release();
  assert.equal(await read("client"), undefined);
});

test("200 transactions on eight connections of two drivers: their order is that of their fences", async () => {
  await pool.query(
    "CREATE TABLE log (at bigint GENERATED ALWAYS AS IDENTITY, name text, fence bigint)",
  );
  const guards = [postgresFence(pool), postgresFence(sql)];
  const outcomes = await Promise.all(
    Array.from({ length: 200 }, async (_, at) => {
      const [fence, name] = [1 + Math.floor(Math.random() * 50), `many ${at % 3}`];
      const write = async (handle: any) =>
        (handle.query ?? handle.unsafe)
          .call(handle, "INSERT INTO log (name, fence) VALUES ($1, $2)", [name, fence])
          .then(() => "written");
      return guards[at % 2]!.run(name, fence, write).catch((error: FenceError) => error.code);
    }),
  );
  const written = outcomes.filter((outcome) => outcome === "written").length;
  const stale = outcomes.filter((outcome) => outcome === "stale_fence").length;
  assert.equal(written + stale, 200, String(outcomes));
  assert.ok(stale > 0);
  const { rows } = await pool.query("SELECT name, fence FROM log ORDER BY at");
  assert.equal(rows.length, written);
  for (const name of ["many 0", "many 1", "many 2"]) {
    const fences = rows.filter((row) => row.name === name).map(({ fence }) => Number(fence));
    assert.deepEqual(
      fences,
      fences.toSorted((a, b) => a - b),
    );
  }
});

test("a table of another name, in a schema of its own", async () => {
  await pool.query('CREATE SCHEMA "App"');
  const guard = postgresFence(pool, { table: "App.fences_2" });
  await guard.createTable();
  await guard.createTable();
  await guard.admit("a", 2);
  await assert.rejects(guard.admit("a", 1), { code: "stale_fence", newest: 2 });
  assert.equal((await pool.query('SELECT * FROM "App".fences_2')).rows.length, 1);
});
