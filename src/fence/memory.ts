// The guard of what is in this process.
import { stale } from "./errors.ts";
import { admits, type Fenced, fenceOf, nameOf } from "./fence.ts";
import { checkWrite, type Synchronous, synchronous } from "./sqlite.ts";

/**
 * Guards what is kept in memory: a cache, a map, a connection to a device. It keeps one number per name for as
 * long as it lives itself.
 */
export function memoryFence(): MemoryFence {
  return new MemoryFence();
}

export class MemoryFence {
  /** @internal */
  static readonly name = "MemoryFence";

  readonly #newest = new Map<string, number>();

  /**
   * From now on every older fence is refused. What follows in the same turn of the event loop is guarded: nobody
   * else is admitted in between.
   *
   * Throws a FenceError: `stale_fence`, `invalid_argument`.
   */
  admit(name: string, lease: Fenced): void {
    const fence = fenceOf(lease);
    const newest = this.#newest.get(nameOf(name)) ?? 0;
    if (!admits(newest, fence)) throw stale(name, fence, newest);
    this.#newest.set(name, fence);
  }

  /** Admits, then calls `write`, which must not be asynchronous, and returns what it returns. */
  run<T>(name: string, lease: Fenced, write: () => Synchronous<T>): T {
    checkWrite(write);
    this.admit(name, lease);
    return synchronous(write());
  }
}
