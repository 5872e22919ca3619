// A cache whose misses are loaded once: one caller loads, the others wait for the cache or take what is stale.
import { type Leasehold, LeaseError } from "leasehold";

export interface Entry<T> {
  readonly value: T;
  readonly loadedAt: number;
}

export interface Settings<T> {
  readonly locks: Leasehold;
  readonly cache: {
    get(key: string): Promise<Entry<T> | undefined>;
    set(key: string, entry: Entry<T>): Promise<unknown>;
  };
  /** Younger than that, an entry is returned as it is. */
  readonly freshMs: number;
  /** Younger than that, it is returned while one caller loads it anew; `freshMs` for never. */
  readonly usableMs: number;
  /** What nobody waits for: in a Worker `(work) => ctx.waitUntil(work)`, elsewhere `() => {}`. */
  readonly later: (work: Promise<unknown>) => void;
}

type Load<T> = (signal?: AbortSignal) => Promise<T>;

export function singleFlight<T>({ locks, cache, freshMs, usableMs, later }: Settings<T>) {
  const loadOnce = (key: string, load: Load<T>, waitMs: number): Promise<T> =>
    locks.request(`cache:${key}`, { ttlMs: 5_000, waitMs }, async ({ signal }) => {
      const entry = await cache.get(key); // again: it was filled while this caller waited
      if (entry && ageMs(entry) < freshMs) return entry.value;
      const loadedAt = Date.now(); // before it is loaded: who is paused here does not pass old for new
      const value = await load(signal);
      await cache.set(key, { value, loadedAt });
      return value;
    });

  return async function cached(key: string, load: Load<T>): Promise<T> {
    const entry = await cache.get(key);
    if (entry && ageMs(entry) < freshMs) return entry.value;
    if (entry && ageMs(entry) < usableMs) {
      later(loadOnce(key, load, 0).catch(unless("held"))); // somebody else is at it
      return entry.value;
    }
    return loadOnce(key, load, 20_000).catch((error) => {
      // The lock saves work and protects nothing: without its store the work is done once too often.
      if (error instanceof LeaseError && error.code === "unavailable") return load();
      throw error;
    });
  };
}

function ageMs(entry: Entry<unknown>): number {
  return Date.now() - entry.loadedAt;
}

function unless(code: string): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof LeaseError && error.code === code)) console.error(error);
  };
}
