// The store in this process: the engine of the Durable Object, without storage.
import { type Call as Asked, type Core, Turns } from "../worker/turns.ts";
import type { Call, Listener, Push } from "./carrier.ts";
import { type Clock, injected } from "./clock.ts";
import { enter, instance, Store } from "./core.ts";
import { invalid } from "./errors.ts";
import { soon } from "./host.ts";

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
  readonly #spaces = new Map<string, Turns<unknown, Push>>();
  /** Whom it can tell something, by their numbers. It keeps nobody from being forgotten. */
  readonly #listeners = new Map<number, WeakRef<Listener>>();
  readonly #numbers = new WeakMap<Listener, number>();
  #lastNumber = 0;

  /** @internal */
  constructor(now?: () => number) {
    if (now !== undefined && typeof now !== "function") throw invalid("now", "a function");
    this.#now = now ?? Date.now;
    if (now) this.clock = injected(now);
  }

  /** @internal */
  async call({ space, op, lock, fields, listener }: Call): Promise<unknown> {
    const from = [lock, listener ? this.#number(listener) : 0];
    const [, reply] = await this.#turns(space).call(op, from, fields);
    return reply;
  }

  /** @internal */
  leave(listener: Listener): void {
    const number = this.#numbers.get(listener);
    if (number === undefined) return;
    this.#numbers.delete(listener);
    this.#listeners.delete(number);
    for (const turns of this.#spaces.values()) void turns.call("close", [undefined, number], {});
  }

  #turns(space: string): Turns<unknown, Push> {
    let turns = this.#spaces.get(space);
    if (!turns) {
      const tell = (number: number, push: Push) =>
        this.#listeners.get(number)?.deref()?.onPush(space, push);
      const core = new MemoryCore(space, this.#now, this.clock?.patienceMs ?? Infinity, tell);
      turns = new Turns<unknown, Push>(core, (...push) => soon(() => tell(...push)), soon);
      this.#spaces.set(space, turns);
    }
    return turns;
  }

  #number(listener: Listener): number {
    let number = this.#numbers.get(listener);
    if (number === undefined) {
      number = ++this.#lastNumber;
      this.#numbers.set(listener, number);
      this.#listeners.set(number, new WeakRef(listener));
    }
    return number;
  }
}

const UNAVAILABLE = {
  status: 503,
  code: "unavailable",
  title: "The lease store was lost in a fault",
};

class MemoryCore implements Core<unknown, Push> {
  readonly unavailable = [UNAVAILABLE.status, UNAVAILABLE] as const;
  readonly #made = instance();
  readonly #store: Store;
  readonly #now: () => number;
  readonly #patienceMs: number;
  readonly #tell: (number: number, push: Push) => void;

  constructor(
    space: string,
    now: () => number,
    patienceMs: number,
    tell: (number: number, push: Push) => void,
  ) {
    this.#store = enter((rust) => new rust.Store(space));
    this.#now = now;
    this.#patienceMs = patienceMs;
    this.#tell = tell;
  }

  turn(calls: readonly Asked[]) {
    const lines = calls.map(([ticket, op, from, fields]) => {
      const [lock, number] = from as readonly [lock: unknown, number: number];
      return [ticket, op, lock, fields, number];
    });
    const { answers, pushes, wakeInMs } = this.#carryOut(lines);
    // Those who waited hear of their grants before newcomers, who are answered: in the order of the grants.
    for (const [number, push] of pushes) if (push.push === "granted") this.#tell(number, push);
    return {
      answers,
      pushes: pushes.filter(([, { push }]) => push !== "granted"),
      // Waiters of a clock that is turned by hand are served when it has been turned.
      wakeInMs: wakeInMs === undefined ? null : Math.min(wakeInMs, this.#patienceMs),
    };
  }

  /** A store whose memory was lost in a trap says so for ever: a new one would give its fences again. */
  #carryOut(lines: unknown[]) {
    const now = this.#now();
    return enter(() => {
      const [answers, pushes] = this.#store.turn(lines, now) as [
        [number, number, unknown][],
        [number, Push][],
      ];
      return { answers, pushes, wakeInMs: this.#store.wakeInMs };
    }, this.#made);
  }
}
