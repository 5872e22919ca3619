// Things that are guarded by a fence, one like the other: documents by name, and a journal of who wrote, in the order
// in which it happened. Where there are transactions, a write is two statements.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { memoryFence, postgresFence, sqliteFence } from "leasehold/fence";
import pg from "pg";
import postgres from "postgres";
import type { Postgres } from "./postgres.ts";

/** Names, fences and leases are whatever the test says: also what is none. */
export interface Guarded extends AsyncDisposable {
  write(name: any, lease: any, value: string): unknown;
  read(name: string): unknown;
  /** Absent where only writing tells the resource of a fence. */
  admit?(name: any, lease: any): unknown;
  /** The fences of the writes of a document, in their order; absent where nothing keeps them. */
  journal?(name: string): unknown;
}

export function guardedMemory(): Guarded {
  const documents = new Map<string, string>();
  const journal: { name: string; fence: number }[] = [];
  const guard = memoryFence();
  return {
    write: (name, lease, value) =>
      guard.run(name, lease, () => {
        journal.push({ name, fence: lease.fence ?? lease });
        documents.set(name, value);
      }),
    read: (name) => documents.get(name),
    admit: (name, lease) => guard.admit(name, lease),
    journal: (name) => journal.filter((entry) => entry.name === name).map(({ fence }) => fence),
    async [Symbol.asyncDispose]() {},
  };
}

/** The tables of every SQLite here. */
export const SQLITE_TABLES = `
CREATE TABLE documents (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE journal (at INTEGER PRIMARY KEY, name TEXT, fence INTEGER);
`;

export async function guardedSqlite(): Promise<Guarded> {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-sqlite-"));
  const database = new DatabaseSync(join(folder, "documents.sqlite"));
  database.exec(SQLITE_TABLES);
  const guard = sqliteFence(database);
  guard.createTable();
  return {
    write: (name, lease, value) =>
      guard.run(name, lease, (database) => {
        database
          .prepare("INSERT INTO journal (name, fence) VALUES (?, ?)")
          .run(name, lease.fence ?? lease);
        database.prepare("INSERT OR REPLACE INTO documents VALUES (?, ?)").run(name, value);
      }),
    read: (name) => database.prepare("SELECT value FROM documents WHERE name = ?").get(name)?.value,
    admit: (name, lease) => guard.admit(name, lease),
    journal: (name) =>
      database
        .prepare("SELECT fence FROM journal WHERE name = ? ORDER BY at")
        .all(name)
        .map(({ fence }) => fence),
    async [Symbol.asyncDispose]() {
      database.close();
      await rm(folder, { recursive: true });
    },
  };
}

const POSTGRES_TABLES = `
CREATE TABLE documents (name text PRIMARY KEY, value text);
CREATE TABLE journal (at serial PRIMARY KEY, name text, fence bigint);
`;
const INTO_JOURNAL = "INSERT INTO journal (name, fence) VALUES ($1, $2)";
const INTO_DOCUMENTS = `INSERT INTO documents VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value`;

/** By the driver `pg`, over eight connections. */
export async function guardedPg(server: Postgres): Promise<Guarded> {
  const options = "-c search_path=by_pg";
  const pool = new pg.Pool({ ...server.connection, options, max: 8 });
  await pool.query(`CREATE SCHEMA by_pg; ${POSTGRES_TABLES}`);
  const guard = postgresFence(pool);
  await guard.createTable();
  return {
    write: (name, lease, value) =>
      guard.run(name, lease, async (client) => {
        await client.query(INTO_JOURNAL, [name, lease.fence ?? lease]);
        await client.query(INTO_DOCUMENTS, [name, value]);
      }),
    read: async (name) =>
      (await pool.query("SELECT value FROM documents WHERE name = $1", [name])).rows[0]?.value,
    admit: (name, lease) => guard.admit(name, lease),
    journal: async (name) =>
      (await pool.query("SELECT fence FROM journal WHERE name = $1 ORDER BY at", [name])).rows.map(
        ({ fence }) => Number(fence),
      ),
    [Symbol.asyncDispose]: () => pool.end(),
  };
}

/** By the driver `postgres`, over eight connections. */
export async function guardedPostgresJs(server: Postgres): Promise<Guarded> {
  const connection = { search_path: "by_postgres" };
  const sql = postgres({ ...server.connection, connection, max: 8 });
  await sql.unsafe(`CREATE SCHEMA by_postgres; ${POSTGRES_TABLES}`);
  const guard = postgresFence(sql);
  await guard.createTable();
  return {
    write: (name, lease, value) =>
      guard.run(name, lease, async (sql) => {
        await sql.unsafe(INTO_JOURNAL, [name, lease.fence ?? lease]);
        await sql.unsafe(INTO_DOCUMENTS, [name, value]);
      }),
    read: async (name) => (await sql`SELECT value FROM documents WHERE name = ${name}`)[0]?.value,
    admit: (name, lease) => guard.admit(name, lease),
    journal: async (name) =>
      (await sql`SELECT fence FROM journal WHERE name = ${name} ORDER BY at`).map(({ fence }) =>
        Number(fence),
      ),
    [Symbol.asyncDispose]: () => sql.end(),
  };
}
