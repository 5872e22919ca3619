// The statements, for whoever has a driver, an ORM or a language of his own. docs/fence.md prints them.
import { invalid } from "./errors.ts";

export interface TableOptions {
  /**
   * The table that keeps the newest fence of each name: `leasehold_fences` unless given. Letters, digits and `_`,
   * with or without a schema before a dot. It is quoted, so its case counts in Postgres.
   */
  readonly table?: string | undefined;
}

/** The first parameter is always the name, the second the fence. */
export interface FenceSql {
  /** Makes the table. It may be there already. */
  readonly createTable: string;
  /** Admits a fence: a row comes back. Refuses it: none does, and nothing has changed. */
  readonly admit: string;
  /**
   * The same where nobody can look at what comes back before the next statement runs, as in a batch: a fence that
   * is refused breaks the constraint NOT NULL, and with it the statement and the transaction.
   */
  readonly admitOrFail: string;
  /** The newest fence that was admitted, if any. Its one parameter is the name. */
  readonly newest: string;
}

/** The statements in the words of Postgres, or of SQLite, a Durable Object's and D1 included. */
export function fenceSql(dialect: "postgres" | "sqlite", options: TableOptions = {}): FenceSql {
  const words = {
    postgres: ["BIGINT", "", "$1", "$2"],
    sqlite: ["INTEGER", " WITHOUT ROWID", "?", "?"],
  }[dialect];
  if (!words) throw invalid("dialect", '"postgres" or "sqlite"');
  const [integer, suffix, name, fence] = words;
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw invalid("options", "an object");
  }
  for (const [name, value] of Object.entries(options)) {
    const isKnown = name === "table" || value === undefined;
    if (!isKnown) throw invalid(name, "left out: there is no such option");
  }
  const table = quoted(options.table ?? "leasehold_fences");
  const upsert = `INSERT INTO ${table} AS seen (name, fence) VALUES (${name}, ${fence})
ON CONFLICT (name) DO UPDATE SET fence =`;
  return {
    createTable: `CREATE TABLE IF NOT EXISTS ${table} (name TEXT NOT NULL PRIMARY KEY, fence ${integer} NOT NULL)${suffix}`,
    admit: `${upsert} excluded.fence WHERE seen.fence <= excluded.fence
RETURNING fence`,
    admitOrFail: `${upsert} CASE WHEN seen.fence <= excluded.fence THEN excluded.fence END`,
    newest: `SELECT fence FROM ${table} WHERE name = ${name}`,
  };
}

/** Of a row of the statement `newest`, whether its driver gives objects or arrays, numbers, BigInts or text. */
export function newestIn(row: unknown): number {
  return row == null ? 0 : Number(Object.values(row)[0]);
}

function quoted(table: unknown): string {
  const word = "[A-Za-z_][A-Za-z0-9_]{0,62}";
  if (typeof table !== "string" || !new RegExp(`^(${word}\\.)?${word}$`).test(table)) {
    throw invalid("table", 'letters, digits and "_", with or without a schema before a dot');
  }
  return table
    .split(".")
    .map((part) => `"${part}"`)
    .join(".");
}
