// What a lease is asked for with, the same for `run` and `acquire`.
import type { AcquireOptions, Lease, Leasehold } from "leasehold";
import { lookOut } from "./client.ts";
import { misused } from "./exit.ts";
import { durationMs, integer, json } from "./values.ts";
import type { Options, Words } from "./words.ts";

export const TERMS: Options = {
  exclusive: { short: "x", help: "alone; so it is unless --shared" },
  shared: { short: "s", help: "together with others who ask for the same" },
  limit: {
    value: "n",
    help: "shared, and at most n at once: a semaphore; all must say the same n",
  },
  nonblock: { short: "n", help: "do not wait" },
  wait: { short: "w", value: "duration", help: "wait at most so long; else without end" },
  "conflict-exit-code": {
    short: "E",
    value: "n",
    help: "exit code where the lock is not to be had; else 1",
  },
  ttl: { value: "duration", help: "length of the lease, 50ms to 24h; else 30s" },
  "max-hold": { value: "duration", help: "renewals do not carry it further than this" },
  "lock-delay": { value: "duration", help: "if it expires, the lock stays closed so long" },
  info: { value: "json", help: "public: inspect and ls show it" },
};

const DEFAULT_TTL_MS = 30_000;

/** What the options ask for. */
export interface Wish {
  readonly lock: string;
  readonly ttlMs: number;
  readonly maxHoldMs: number | undefined;
  /** Whether the lease may be one that was waited for. */
  readonly waits: boolean;
  readonly options: AcquireOptions;
}

export function wishOf(words: Words): Wish {
  const lock = words.only("<lock>");
  const waitMs = words.value("wait", durationMs);
  if (words.has("nonblock") && waitMs !== undefined) {
    throw misused("--nonblock and --wait: give one of them");
  }
  const limit = words.value("limit", integer);
  const isShared = words.has("shared") || limit !== undefined;
  if (isShared && words.has("exclusive")) {
    throw misused(
      `--exclusive and --${words.has("shared") ? "shared" : "limit"}: give one of them`,
    );
  }
  const ttlMs = words.value("ttl", durationMs);
  const maxHoldMs = words.value("max-hold", durationMs);
  const patience = words.has("nonblock") ? 0 : waitMs;
  return {
    lock,
    ttlMs: ttlMs ?? DEFAULT_TTL_MS,
    maxHoldMs,
    waits: patience !== 0,
    options: {
      ...(isShared && { mode: "shared" as const, limit }),
      waitMs: patience,
      ttlMs,
      maxHoldMs,
      lockDelayMs: words.value("lock-delay", durationMs),
      info: words.value("info", json),
    },
  };
}

/** Asks for the lease at `url`. Rejects with the reason of `signal` where that has aborted. */
export async function granted(
  locks: Leasehold,
  url: string,
  { lock, options }: Wish,
  how: { readonly signal: AbortSignal; readonly renew: boolean },
): Promise<Lease> {
  const look = lookOut(url);
  try {
    return await locks.acquire(lock, { ...options, ...how } as AcquireOptions);
  } catch (error) {
    how.signal.throwIfAborted();
    throw error;
  } finally {
    look.stop();
  }
}
