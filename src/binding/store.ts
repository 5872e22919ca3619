// What `memoryStore()` loads: the engine of the Durable Object, without storage. A script of its own with a WebAssembly
// module of its own, so that nobody loads it who has another store. It shares nothing with the client but types.

// First, and so first in the script: gzip makes less of it between two pieces of code.
import { wasm } from "#wasm";
import { __wbg_reset_state, initSync, Store } from "#glue/memory.js";
import { type Call as Asked, type Core, Turns } from "../worker/turns.ts";
import type { Call, Listener, Push } from "./carrier.ts";
import { soon } from "./host.ts";

/** All spaces of one in-process store. */
export class Spaces {
  readonly #now: () => number;
  readonly #patienceMs: number;
  readonly #turns = new Map<string, Turns<unknown, Push>>();
  /** Whom it can tell something, by their numbers. It keeps nobody from being forgotten. */
  readonly #listeners = new Map<number, WeakRef<Listener>>();
  readonly #numbers = new WeakMap<Listener, number>();
  #lastNumber = 0;

  /** `patienceMs`: so often the clock is looked at while somebody waits. */
  constructor(now: () => number, patienceMs: number) {
    this.#now = now;
    this.#patienceMs = patienceMs;
  }

  call({ space, op, lock, fields, listener }: Call): Promise<unknown> {
    const from = [lock, listener ? this.#number(listener) : 0];
    return new Promise((resolve) => {
      this.#turnsOf(space).post(op, from, fields, ([, reply]) => resolve(reply));
    });
  }

  leave(listener: Listener): void {
    const number = this.#numbers.get(listener);
    if (number === undefined) return;
    this.#numbers.delete(listener);
    this.#listeners.delete(number);
    for (const turns of this.#turns.values()) void turns.call("close", [undefined, number], {});
  }

  #turnsOf(space: string): Turns<unknown, Push> {
    let turns = this.#turns.get(space);
    if (!turns) {
      const tell = (number: number, push: Push) =>
        this.#listeners.get(number)?.deref()?.onPush(space, push);
      const core = new MemoryCore(space, this.#now, this.#patienceMs, tell);
      turns = new Turns<unknown, Push>(core, (...push) => soon(() => tell(...push)), soon);
      this.#turns.set(space, turns);
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

/** One space. */
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
    this.#store = enter(() => new Store(space, now()), this.#made);
    this.#now = now;
    this.#patienceMs = patienceMs;
    this.#tell = tell;
  }

  turn(calls: readonly Asked[]) {
    const lines = calls.map(([ticket, op, from, fields]) => {
      const [lock, number] = from as readonly [lock: unknown, number: number];
      return [ticket, op, lock, fields, number];
    });
    const now = this.#now();
    // A store whose memory was lost in a trap says so for ever: a new one would give its fences again.
    const [answers, pushes, wakeInMs] = enter(
      () => [...this.#store.turn(lines, now), this.#store.wakeInMs],
      this.#made,
    ) as [[number, number, unknown][], [number, Push][], number | undefined];
    // Those who waited hear of their grants before newcomers, who are answered: in the order of the grants.
    for (const [number, push] of pushes) if (push.push === "granted") this.#tell(number, push);
    return {
      answers,
      pushes: pushes.filter(([, { push }]) => push !== "granted"),
      // Waiters of a clock that is turned by hand are served when it has been turned.
      wakeInMs: wakeInMs === undefined ? null : Math.min(wakeInMs, this.#patienceMs),
    };
  }
}

let generation = 0;

/** Which instance of the module it is: what was made by an earlier one is void. */
function instance(): number {
  if (generation === 0) {
    initSync({ module: wasm() });
    generation = 1;
  }
  return generation;
}

/** Calls into Rust. What throws there has trapped, and the memory of an instance that trapped cannot be trusted. */
function enter<T>(call: () => T, made: number): T {
  if (made !== generation) throw new Error("what this belongs to was lost in a fault");
  try {
    return call();
  } catch (error) {
    __wbg_reset_state();
    generation += 1;
    throw error;
  }
}
