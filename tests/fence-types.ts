// Compiled, never run: every driver is taken as it is, and what cannot be right does not compile.
import { DatabaseSync } from "node:sqlite";
import type {
  D1Database,
  D1Result,
  DurableObjectStorage,
  R2Bucket,
  R2Object,
} from "@cloudflare/workers-types";
import { type Lease } from "leasehold";
import {
  d1Fence,
  durableObjectFence,
  type FenceError,
  type Fenced,
  memoryFence,
  postgresFence,
  r2Fence,
  sqliteFence,
} from "leasehold/fence";
import pg from "pg";
import postgres from "postgres";

interface Env {
  readonly DB: D1Database;
  readonly BUCKET: R2Bucket;
}

export async function compiles(lease: Lease, env: Env, storage: DurableObjectStorage) {
  const fenced: Fenced[] = [1, lease, lease.toJSON(), { fence: 1 }];
  const answer: number = memoryFence().run("a", lease, () => 42);

  const found: unknown = sqliteFence(new DatabaseSync(":memory:")).run("a", lease, (database) =>
    database.prepare("SELECT 1").get(),
  );
  const one: number = durableObjectFence(storage, { table: "fences" }).run("a", lease, (sql) => {
    return sql.exec<{ one: number }>("SELECT 1 AS one").one().one;
  });

  const statement = env.DB.prepare("SELECT 1").bind();
  const results: D1Result[] = await d1Fence(env.DB).run("a", lease, [statement]);
  await d1Fence(env.DB.withSession()).admit("a", 7);

  const object: R2Object = await r2Fence(env.BUCKET).put("a", lease, new Uint8Array(1), {
    httpMetadata: { contentType: "text/plain" },
  });
  await r2Fence(env.BUCKET).run("a", lease, async (object) => `${await object?.text()}!`);

  const pool = new pg.Pool();
  const count: number | null = await postgresFence(pool).run("a", lease, async (client) => {
    const { rowCount } = await client.query("SELECT 1");
    return rowCount;
  });
  const client = await pool.connect();
  const rows: unknown[] = await postgresFence(client).run(
    "a",
    lease,
    async (client) => (await client.query("SELECT 1")).rows,
  );
  await postgresFence(new pg.Client()).admit("a", lease);
  const sql = postgres();
  const first: postgres.Row | undefined = await postgresFence(sql).run("a", lease, async (sql) => {
    const [row] = await sql`SELECT 1`;
    return row;
  });
  await sql.begin(async (sql) => {
    await postgresFence(sql).admit("a", lease);
    await postgresFence(sql).run("a", lease, (sql) => sql`SELECT 1`);
  });
  return [fenced, answer, found, one, results, object, count, rows, first];
}

export async function doesNotCompile(env: Env, storage: DurableObjectStorage, error: FenceError) {
  // @ts-expect-error: a number, not its text
  memoryFence().admit("a", "7");
  // @ts-expect-error: tryAcquire may have been refused
  memoryFence().admit("a", null);
  // @ts-expect-error: what writes must be done when it returns
  memoryFence().run("a", 1, async () => {});
  // @ts-expect-error: so it must in a transaction that ends when the function returns
  durableObjectFence(storage).run("a", 1, async () => 5);
  // @ts-expect-error: a batch takes statements, not a function
  await d1Fence(env.DB).run("a", 1, () => {});
  // @ts-expect-error: the condition is the guard's
  await r2Fence(env.BUCKET).put("a", 1, "text", { onlyIf: { etagMatches: "e" } });
  // @ts-expect-error: there is no such code
  return error.code === "stale";
}
