// The guard of D1. It has no transactions that one could look into, only batches: one that is refused must fail.
import { stale } from "./errors.ts";
import { admits, type Fenced, fenceOf, having, nameOf } from "./fence.ts";
import { type FenceSql, fenceSql, newestIn, type TableOptions } from "./sql.ts";

/** As much of a `D1Database`, or of a session of one, as is used. */
export interface D1Like {
  prepare(sql: string): {
    bind(...values: unknown[]): any;
    run(): PromiseLike<unknown>;
  };
  batch(statements: any[]): PromiseLike<readonly unknown[]>;
}

/** Guards what is in a D1 database. */
export function d1Fence<Database extends D1Like>(
  database: Database,
  options: TableOptions = {},
): D1Fence<Database> {
  return new D1Fence(
    having(database, "database", ["prepare", "batch"]),
    fenceSql("sqlite", options),
  );
}

/** A statement, and what a batch resolves with. */
type Statement<Database extends D1Like> = Parameters<Database["batch"]>[0][number];
type Results<Database extends D1Like> = Awaited<ReturnType<Database["batch"]>>;

export class D1Fence<Database extends D1Like> {
  /** @internal */
  static readonly name = "D1Fence";

  readonly #database: Database;
  readonly #sql: FenceSql;

  /** @internal */
  constructor(database: Database, sql: FenceSql) {
    this.#database = database;
    this.#sql = sql;
  }

  /** Makes the table of fences where there is none. */
  async createTable(): Promise<void> {
    await this.#database.prepare(this.#sql.createTable).run();
  }

  /**
   * From now on every older fence is refused.
   *
   * Rejects with a FenceError: `stale_fence`, `invalid_argument`; or as D1 does.
   */
  async admit(name: string, lease: Fenced): Promise<void> {
    await this.run(name, lease, []);
  }

  /**
   * Admits and runs the statements, prepared and bound, as one batch: all of it is done, or nothing. Resolves with
   * their results.
   *
   * Rejects as {@link admit} does.
   */
  async run(
    name: string,
    lease: Fenced,
    statements: readonly Statement<Database>[],
  ): Promise<Results<Database>> {
    const fence = fenceOf(lease);
    const guard = this.#database.prepare(this.#sql.admitOrFail).bind(nameOf(name), fence);
    try {
      const results = await this.#database.batch([guard, ...statements]);
      return results.slice(1) as Results<Database>;
    } catch (error) {
      // Whether it was the guard that failed is asked of the table: the words of an error may change.
      const newest = await this.#newest(name).catch(() => 0);
      throw admits(newest, fence) ? error : stale(name, fence, newest, error);
    }
  }

  async #newest(name: string): Promise<number> {
    const [found] = await this.#database.batch([
      this.#database.prepare(this.#sql.newest).bind(name),
    ]);
    return newestIn((found as { results: unknown[] }).results[0]);
  }
}
