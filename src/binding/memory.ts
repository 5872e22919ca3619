// The store in this process: the engine of the Durable Object, without storage.
import { type Core, Turns } from "../worker/turns.ts";
import type { Call } from "./carrier.ts";
import { type Clock, injected } from "./clock.ts";
import { enter, instance, Store } from "./core.ts";
import { invalid } from "./errors.ts";

export interface MemoryStoreOptions {
  /**
   * Epoch milliseconds: `Date.now` unless given. The store and its holders go by this clock; for holders time
   * passes also while it stands.
   */
  readonly now?: (() => number) | undefined;
}

/**
 * A lease store in this process, for tests and single nodes: same rules, same replies, nothing kept.
 * Clients share it by being made with the same one.
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  return new MemoryStore(options.now);
}

export class MemoryStore {
  /** Of the holders, where the clock is the caller's own. @internal */
  readonly clock?: Clock;
  readonly #now: () => number;
  readonly #spaces = new Map<string, Turns<unknown>>();

  /** @internal */
  constructor(now?: () => number) {
    if (now !== undefined && typeof now !== "function") throw invalid("now", "a function");
    this.#now = now ?? Date.now;
    if (now) this.clock = injected(now);
  }

  /** @internal */
  async call({ space, op, lock, fields }: Call): Promise<unknown> {
    let turns = this.#spaces.get(space);
    if (!turns) {
      turns = new Turns(new MemoryCore(space, this.#now, this.clock?.patienceMs ?? Infinity));
      this.#spaces.set(space, turns);
    }
    const [, reply] = await turns.call(op, lock, fields);
    return reply;
  }
}

const UNAVAILABLE = {
  status: 503,
  code: "unavailable",
  title: "The lease store was lost in a fault",
};

class MemoryCore implements Core<unknown> {
  readonly unavailable = [UNAVAILABLE.status, UNAVAILABLE] as const;
  readonly #made = instance();
  readonly #store: Store;
  readonly #now: () => number;
  readonly #patienceMs: number;

  constructor(space: string, now: () => number, patienceMs: number) {
    this.#store = enter((rust) => new rust.Store(space));
    this.#now = now;
    this.#patienceMs = patienceMs;
  }

  /** A store whose memory was lost in a trap says so for ever: a new one would give its fences again. */
  turn(calls: readonly unknown[]) {
    const now = this.#now();
    return enter(() => {
      const answers = this.#store.turn(calls as unknown[], now) as [number, number, unknown][];
      const wakeInMs = this.#store.wakeInMs;
      // Waiters of a clock that is turned by hand are served when it has been turned.
      return {
        answers,
        wakeInMs: wakeInMs === undefined ? null : Math.min(wakeInMs, this.#patienceMs),
      };
    }, this.#made);
  }
}
