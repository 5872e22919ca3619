// Each request over HTTP/1.1 takes a connection, and a store's machine has only so many files open.
import { Timer } from "./clock.ts";

/** Requests under way. */
const AT_ONCE = 64;

/** One that takes longer, ms, is not waited for: it may never be answered, and others have their own hurry. */
const PATIENCE_MS = 1_000;

export class Turnstile {
  #inside = 0;
  readonly #waiting: (() => void)[] = [];

  /** Sends at once while few are under way, otherwise when its turn comes. */
  async run<T>(send: () => Promise<T>): Promise<T> {
    if (this.#inside < AT_ONCE) this.#inside += 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const timer = new Timer();
    let isInside = true;
    const leave = () => {
      if (isInside) this.#next();
      isInside = false;
    };
    timer.set(PATIENCE_MS, leave);
    try {
      return await send();
    } finally {
      timer.clear();
      leave();
    }
  }

  #next(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#inside -= 1;
  }
}
