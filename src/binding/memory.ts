// The store in this process, as far as everybody has it: what it is made of is loaded when it is first used.
import { type Call, type Listener, NoAnswer } from "./carrier.ts";
import { type Clock, injected } from "./clock.ts";
import { invalid, unavailable } from "./errors.ts";
import { known } from "./plain.ts";
import type { Spaces } from "./store.ts";

export interface MemoryStoreOptions {
  /**
   * Epoch milliseconds: `Date.now` unless given. The store and its holders go by this clock; for holders time
   * passes also while it stands. When it throws or gives no number it stands.
   */
  readonly now?: (() => number) | undefined;
}

/**
 * A lease store in this process, for tests and single nodes: same rules, same replies, nothing kept. Its fences begin at
 * the clock times 1 000, so that those of a later process are larger.
 * Clients share it by being made with the same one.
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  return new MemoryStore(known(options, ["now"]).now);
}

export class MemoryStore {
  /** Of the holders, where the clock is the caller's own. @internal */
  readonly clock?: Clock;
  readonly #now: () => number;
  #loading: Promise<Spaces> | undefined;
  #spaces: Spaces | undefined;

  /** @internal */
  constructor(now?: () => number) {
    this.#now = now === undefined ? Date.now : steady(now);
    if (now) this.clock = injected(this.#now);
  }

  /** @internal */
  call(call: Call): Promise<unknown> {
    return this.#spaces?.call(call) ?? this.#load().then((spaces) => spaces.call(call));
  }

  /** @internal */
  leave(listener: Listener): void {
    // A store that could not be loaded knows nobody.
    this.#loading?.then(
      (spaces) => spaces.leave(listener),
      () => {},
    );
  }

  #load(): Promise<Spaces> {
    if (this.#loading) return this.#loading;
    this.#loading = import("#store").then(
      ({ Spaces }) => new Spaces(this.#now, this.clock?.patienceMs ?? Infinity),
      (error: unknown) => {
        this.#loading = undefined;
        throw new NoAnswer(unavailable("the in-process store could not be loaded", error), true);
      },
    );
    // Before anybody who waits for it: what is called from then on comes after what was called before.
    this.#loading.then(
      (spaces) => (this.#spaces = spaces),
      () => {},
    );
    return this.#loading;
  }
}

/** The clock of a caller, of whose mistakes others with the same client know nothing. */
function steady(now: () => number): () => number {
  let latest = NaN;
  const read = () => {
    try {
      const reading = now();
      if (Number.isFinite(reading)) latest = reading;
    } catch {
      // It stands.
    }
    return latest;
  };
  if (!(read() >= 0)) throw invalid("now", "a function that gives epoch milliseconds");
  return read;
}
