// The guard of Postgres, over the driver `pg` or the driver `postgres`.
import { stale } from "./errors.ts";
import { type Fenced, fenceOf, having, nameOf } from "./fence.ts";
import { type FenceSql, fenceSql, newestIn, type TableOptions } from "./sql.ts";

/** As much of a client of `pg` as is used. */
export interface PgClientLike {
  query(text: string, values?: any[]): PromiseLike<{ rows: any[]; command?: string }>;
  /** `I`: in no transaction. Older versions do not tell. */
  getTransactionStatus?(): string | null;
}

/** As much of a pool of `pg` as is used. */
export interface PgPoolLike<Client> {
  readonly totalCount: number;
  query(text: string, values?: any[]): PromiseLike<{ rows: any[] }>;
  connect: { (): PromiseLike<Client>; (callback: any): void };
}

/** As much of the `sql` of `postgres` as is used. */
export interface PostgresJsLike<Transaction> {
  unsafe(text: string, values?: any[]): PromiseLike<readonly any[]>;
  begin: {
    (body: (transaction: Transaction) => any): PromiseLike<any>;
    (options: string, body: (transaction: Transaction) => any): PromiseLike<any>;
  };
}

/** As much of the `sql` that `postgres` gives within a transaction as is used. */
export interface PostgresJsTransactionLike<Transaction> {
  unsafe(text: string, values?: any[]): PromiseLike<readonly any[]>;
  savepoint: {
    (body: (transaction: Transaction) => any): PromiseLike<any>;
    (name: string, body: (transaction: Transaction) => any): PromiseLike<any>;
  };
}

/**
 * Guards what is in a Postgres database. It takes a pool or a client of `pg`, or the `sql` of `postgres`; within a
 * transaction of the caller's, the client or `sql` of that transaction.
 */
export function postgresFence<Client extends PgClientLike & Released>(
  pool: PgPoolLike<Client>,
  options?: TableOptions,
): PostgresFence<Client>;
export function postgresFence<Transaction>(
  sql: PostgresJsLike<Transaction> | PostgresJsTransactionLike<Transaction>,
  options?: TableOptions,
): PostgresFence<Transaction>;
export function postgresFence<Client extends PgClientLike>(
  client: Client,
  options?: TableOptions,
): PostgresFence<Client>;
export function postgresFence(database: any, options: TableOptions = {}): PostgresFence<any> {
  const sql = fenceSql("postgres", options);
  if (typeof database?.unsafe === "function")
    return new PostgresFence(database, sql, ofPostgresJs(database));
  having(database, "database", ["query"]);
  return new PostgresFence(
    database,
    sql,
    "totalCount" in database ? ofPool(database) : ofClient(database),
  );
}

interface Driver {
  /** The rows of a statement. */
  query(handle: any, text: string, values: readonly unknown[]): Promise<readonly unknown[]>;
  transaction<T>(body: (transaction: any) => Promise<T>): Promise<T>;
}

export class PostgresFence<Transaction> {
  /** @internal */
  static readonly name = "PostgresFence";

  readonly #database: unknown;
  readonly #sql: FenceSql;
  readonly #driver: Driver;

  /** @internal */
  constructor(database: unknown, sql: FenceSql, driver: Driver) {
    this.#database = database;
    this.#sql = sql;
    this.#driver = driver;
  }

  /** Makes the table of fences where there is none. Two at once may get in each other's way: it is for migrations. */
  async createTable(): Promise<void> {
    await this.#driver.query(this.#database, this.#sql.createTable, []);
  }

  /**
   * From now on every older fence is refused. Where the guard was made of a transaction it belongs to that, and its
   * rejection has to undo that.
   *
   * Rejects with a FenceError: `stale_fence`, `invalid_argument`; or as the driver does.
   */
  async admit(name: string, lease: Fenced): Promise<void> {
    await this.#admit(this.#database, nameOf(name), fenceOf(lease));
  }

  /**
   * Admits and writes in one transaction: `write` is given the client, or the `sql`, of that transaction. While it
   * lasts, others who ask about the same name wait. What `write` rejects with undoes everything. Resolves with what
   * `write` resolves with, after the commit.
   *
   * Rejects as {@link admit} does, before `write` is called.
   */
  async run<T>(
    name: string,
    lease: Fenced,
    write: (transaction: Transaction) => T | PromiseLike<T>,
  ): Promise<T> {
    const [checked, fence] = [nameOf(name), fenceOf(lease)];
    return this.#driver.transaction(async (transaction: Transaction) => {
      await this.#admit(transaction, checked, fence);
      return write(transaction);
    });
  }

  async #admit(handle: unknown, name: string, fence: number): Promise<void> {
    const admitted = await this.#driver.query(handle, this.#sql.admit, [name, fence]);
    if (admitted.length > 0) return;
    const [newest] = await this.#driver.query(handle, this.#sql.newest, [name]);
    throw stale(name, fence, newestIn(newest));
  }
}

function ofPostgresJs(sql: any): Driver {
  return {
    query: (handle, text, values) => handle.unsafe(text, values),
    async transaction(body) {
      // Within a transaction there are savepoints. In an object: of an array `postgres` would await each element.
      const begin = sql.begin ?? sql.savepoint;
      const { result } = await begin(async (transaction: unknown) => ({
        result: await body(transaction),
      }));
      return result;
    },
  };
}

/** What clients of a pool have in addition. */
interface Released {
  release(error?: any): void;
}

function ofPool(pool: any): Driver {
  return {
    query: rows,
    async transaction(body) {
      const client = await pool.connect();
      // A connection that breaks while nothing is asked of it says so here only; unheard, it would end the process.
      let broken: unknown;
      const onBroken = (error: unknown) => (broken = error);
      client.on("error", onBroken);
      try {
        return await inTransaction(client, body, onBroken);
      } finally {
        if (!broken) client.off("error", onBroken);
        client.release(broken);
      }
    },
  };
}

function ofClient(client: any): Driver {
  return { query: rows, transaction: (body) => inTransaction(client, body, () => {}) };
}

async function rows(handle: PgClientLike, text: string, values: readonly unknown[]) {
  return (await handle.query(text, [...values])).rows;
}

async function inTransaction<T>(
  client: PgClientLike,
  body: (transaction: any) => Promise<T>,
  onBroken: (error: unknown) => void,
): Promise<T> {
  // Postgres would only warn, and what is committed would be the caller's transaction.
  const status = client.getTransactionStatus?.() ?? "I";
  if (status !== "I") throw new Error("a transaction has begun already: within one, use admit");
  await client.query("BEGIN");
  try {
    const result = await body(client);
    // Where a statement has failed and nobody minded, this undoes everything, and is no error.
    const { command } = await client.query("COMMIT");
    if (command === "ROLLBACK") throw new Error("a statement of the transaction had failed");
    return result;
  } catch (error) {
    await client.query("ROLLBACK").then(null, onBroken);
    throw error;
  }
}
