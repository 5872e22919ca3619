// What Leasehold is measured against: a Durable Object written by hand for the same row, in plain JavaScript.
//
// It does less: no queue, no renewal, no memory of ended leases, no check of what it is given. What it does, it does in
// the fewest steps that keep the promises: one look-up by primary key, one row written per acquire and one deleted per
// release, fences reserved in blocks, statements that SQLite prepares once. The runtime makes the writes of a call
// durable before its reply leaves, as it does for Leasehold.
import { DurableObject } from "cloudflare:workers";

/** Fences reserved at a time, as many as Leasehold reserves: one row written for so many grants. */
const RESERVE = 4_096;

export class Reference extends DurableObject {
  #sql;
  #fence;
  #reserved;

  constructor(ctx, env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#sql.exec(`
      CREATE TABLE IF NOT EXISTS lease (
        lock TEXT PRIMARY KEY, token TEXT NOT NULL, fence INTEGER NOT NULL, expires_at INTEGER NOT NULL
      ) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS space (id INTEGER PRIMARY KEY CHECK (id = 1), fence INTEGER NOT NULL)`);
    const [row] = this.#sql.exec("SELECT fence FROM space").toArray();
    this.#fence = this.#reserved = row?.fence ?? 0;
  }

  /** `{ fence, expiresAt }`, or `{ held: true }`. */
  acquire(lock, token, ttlMs) {
    const now = Date.now();
    // A cursor that was read to its end gives its statement back to the cache.
    const [lease] = this.#sql.exec("SELECT expires_at FROM lease WHERE lock = ?", lock).toArray();
    if (lease && now < lease.expires_at) return { held: true };
    const fence = this.#nextFence();
    const expiresAt = now + ttlMs;
    this.#sql.exec(
      "INSERT OR REPLACE INTO lease (lock, token, fence, expires_at) VALUES (?, ?, ?, ?)",
      lock,
      token,
      fence,
      expiresAt,
    );
    return { fence, expiresAt };
  }

  /** Whether there was such a lease. */
  release(lock, token, fence) {
    const { rowsWritten } = this.#sql.exec(
      "DELETE FROM lease WHERE lock = ? AND token = ? AND fence = ? AND expires_at > ?",
      lock,
      token,
      fence,
      Date.now(),
    );
    return rowsWritten > 0;
  }

  #nextFence() {
    this.#fence += 1;
    if (this.#fence > this.#reserved) {
      this.#reserved = this.#fence + RESERVE;
      this.#sql.exec("INSERT OR REPLACE INTO space (id, fence) VALUES (1, ?)", this.#reserved);
    }
    return this.#fence;
  }
}

/** The same, with what makes many at once quick: the calls of one turn of the event loop share a commit. */
export class GroupedReference extends Reference {
  #calls = [];

  acquire(...fields) {
    return this.#inTurn(() => super.acquire(...fields));
  }

  release(...fields) {
    return this.#inTurn(() => super.release(...fields));
  }

  #inTurn(call) {
    return new Promise((resolve) => {
      if (this.#calls.push(() => resolve(call())) === 1) setTimeout(() => this.#turn(), 0);
    });
  }

  #turn() {
    const calls = this.#calls;
    this.#calls = [];
    for (const call of calls) call();
  }
}
