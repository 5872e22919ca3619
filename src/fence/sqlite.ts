// The guard of SQLite where statements answer at once: by a driver of Node, Bun or Deno, or in a Durable Object.
import { stale } from "./errors.ts";
import { type Fenced, fenceOf, having, nameOf } from "./fence.ts";
import { type FenceSql, fenceSql, newestIn, type TableOptions } from "./sql.ts";

/** What `node:sqlite`, `better-sqlite3` and `bun:sqlite` have in common. */
export interface SqliteLike {
  prepare(sql: string): { get(...values: any[]): unknown };
  exec(sql: string): unknown;
}

/** As much of a Durable Object's `ctx.storage` as is used. */
export interface DurableObjectStorageLike {
  readonly sql: { exec(sql: string, ...values: any[]): { toArray(): unknown[] } };
  transactionSync<T>(closure: () => T): T;
}

/** Guards what is in a SQLite database of this machine. Several processes may have it open. */
export function sqliteFence<Database extends SqliteLike>(
  database: Database,
  options: TableOptions = {},
): SqliteFence<Database> {
  return new SqliteFence(fenceSql("sqlite", options), {
    handle: having(database, "database", ["prepare", "exec"]),
    first: (sql, ...values) => database.prepare(sql).get(...values),
    execute: (sql) => database.exec(sql),
    transaction(body) {
      database.exec("BEGIN");
      try {
        const result = body();
        database.exec("COMMIT");
        return result;
      } catch (error) {
        // Some errors end a transaction by themselves.
        attempt(() => database.exec("ROLLBACK"));
        throw error;
      }
    },
  });
}

/** Guards what is in the SQLite database of a Durable Object. */
export function durableObjectFence<Storage extends DurableObjectStorageLike>(
  storage: Storage,
  options: TableOptions = {},
): SqliteFence<Storage["sql"]> {
  return new SqliteFence(fenceSql("sqlite", options), {
    handle: having(storage, "storage", ["transactionSync"]).sql,
    first: (sql, ...values) => storage.sql.exec(sql, ...values).toArray()[0],
    execute: (sql) => storage.sql.exec(sql),
    transaction: (body) => storage.transactionSync(body),
  });
}

interface Driver<Handle> {
  readonly handle: Handle;
  first(sql: string, ...values: readonly unknown[]): unknown;
  execute(sql: string): unknown;
  transaction<T>(body: () => T): T;
}

export class SqliteFence<Handle> {
  /** @internal */
  static readonly name = "SqliteFence";

  readonly #sql: FenceSql;
  readonly #driver: Driver<Handle>;

  /** @internal */
  constructor(sql: FenceSql, driver: Driver<Handle>) {
    this.#sql = sql;
    this.#driver = driver;
  }

  /** Makes the table of fences where there is none. */
  createTable(): void {
    this.#driver.execute(this.#sql.createTable);
  }

  /**
   * From now on every older fence is refused. Within a transaction of the caller's it belongs to that, and what it
   * throws has to undo that.
   *
   * Throws a FenceError: `stale_fence`, `invalid_argument`; or what the driver throws.
   */
  admit(name: string, lease: Fenced): void {
    this.#admit(nameOf(name), fenceOf(lease));
  }

  /**
   * Admits and writes in one transaction. `write` is given the database and must not be asynchronous; what it
   * throws undoes everything and is thrown again. Returns what `write` returns.
   *
   * Throws as {@link admit} does, before `write` is called; and a TypeError where that is asynchronous.
   */
  run<T>(name: string, lease: Fenced, write: (database: Handle) => Synchronous<T>): T {
    const [checked, fence] = [nameOf(name), fenceOf(lease)];
    checkWrite(write);
    return this.#driver.transaction(() => {
      this.#admit(checked, fence);
      return synchronous(write(this.#driver.handle));
    });
  }

  #admit(name: string, fence: number): void {
    const admitted = this.#driver.first(this.#sql.admit, name, fence);
    // Where there is no row, Bun says null.
    if (admitted != null) return;
    throw stale(name, fence, newestIn(this.#driver.first(this.#sql.newest, name)));
  }
}

/** What a promise brings would come too late: by then a newer fence may have been admitted. */
export type Synchronous<T> = T extends PromiseLike<unknown> ? never : T;

/** Before it has written anything: what it does after its first `await` nobody could undo. */
export function checkWrite(write: unknown): void {
  // Async functions have such a tag, and generators, which would do nothing at all; ordinary functions have none.
  if (typeof write !== "function" || Symbol.toStringTag in write) throw asynchronous();
}

export function synchronous<T>(result: Synchronous<T>): T {
  if (typeof (result as { then?: unknown } | null | undefined)?.then === "function") {
    // How it ends is of no use to anybody. Other thenables than promises may not have begun: asking would begin them.
    if (result instanceof Promise) result.catch(() => {});
    throw asynchronous();
  }
  return result;
}

function asynchronous(): TypeError {
  return new TypeError("what writes must be a function that is not asynchronous");
}

function attempt(action: () => unknown): void {
  try {
    action();
  } catch {}
}
