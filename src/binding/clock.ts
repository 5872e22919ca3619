// Clocks and timers. A holder counts on a monotonic clock; a timer may fire late, and never keeps a
// process alive unless somebody awaits what it will do.

export interface Clock {
  /** Milliseconds that never run back. */
  now(): number;
  /** Timers look at the clock again after so many ms, also where it says that there is time. */
  readonly patienceMs: number;
}

/** Longer timers fire at once. */
const LONGEST_MS = 2 ** 31 - 1;

export const monotonic: Clock = { now: () => performance.now(), patienceMs: LONGEST_MS };

/**
 * A clock that somebody else turns: it may stand, leap and be set back, and no timer knows when it leaps.
 * While it stands, time passes here all the same: otherwise whoever pauses would pause for ever.
 */
export function injected(read: () => number): Clock {
  let reading = NaN;
  let ahead = 0;
  let changedAt = 0;
  let latest = -Infinity;
  return {
    now() {
      const before = reading;
      reading = read();
      if (reading < before) ahead += before - reading;
      if (reading !== before) changedAt = performance.now();
      latest = Math.max(latest, reading + ahead + performance.now() - changedAt);
      return latest;
    },
    patienceMs: 10,
  };
}

export class Timer {
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** What {@link by} was told. */
  #at = Infinity;
  #isKept = true;

  /** Calls back once, in place of what was set before. */
  set(lengthMs: number, callback: () => void): void {
    clearTimeout(this.#timer);
    this.#at = Infinity;
    this.#isKept = true;
    this.#timer = setTimeout(callback, Math.min(Math.max(lengthMs, 0), LONGEST_MS));
  }

  /**
   * Calls back once by `at`, an instant of `clock`; sooner, where it was to do so already: to be called in vain now and
   * then costs less than to move a timer with every message.
   */
  by(at: number, clock: Clock, callback: () => void): void {
    if (at >= this.#at) return;
    this.set(Math.min(Math.ceil(at - clock.now()), clock.patienceMs), () => {
      this.#at = Infinity;
      callback();
    });
    this.#at = at;
  }

  /** Only what is awaited keeps a process alive: Node's timers do, others know nothing of it. */
  keepAlive(isAwaited: boolean): void {
    if (isAwaited === this.#isKept) return;
    this.#isKept = isAwaited;
    const timer = this.#timer as { ref?: () => void; unref?: () => void } | undefined;
    if (isAwaited) timer?.ref?.();
    else timer?.unref?.();
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#at = Infinity;
  }
}
