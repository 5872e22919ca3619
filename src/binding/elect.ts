// An election: whoever holds the lock leads.
import { LeaseError, type LeaseErrorCode, mayPass } from "./errors.ts";
import type { Lease } from "./lease.ts";
import { checkSignal, known, TERMS } from "./plain.ts";
import type { AcquireOptions, ElectOptions } from "./types.ts";

/** Between campaigns, ms: half of it at least. */
const PAUSE_MS = 100;

/** The same after the store could not be asked. */
const TROUBLE_MS = 2_000;

export async function elected(
  given: ElectOptions,
  callback: (term: Lease) => unknown,
  acquire: (options: AcquireOptions) => Promise<Lease>,
): Promise<never> {
  const options = known(given, [...TERMS, "renew", "requestId", "signal"]);
  const { signal } = options;
  checkSignal(signal);
  if (typeof callback !== "function") throw new TypeError("the callback must be a function");
  for (;;) {
    const lease = await campaign(options, acquire);
    if (lease) await lead(lease, callback, signal);
    signal?.throwIfAborted();
    await pause(lease ? PAUSE_MS : TROUBLE_MS, signal);
  }
}

/** Undefined where the store could not be asked, and may be again. */
async function campaign(
  options: ElectOptions,
  acquire: (options: AcquireOptions) => Promise<Lease>,
): Promise<Lease | undefined> {
  try {
    return await acquire(options as AcquireOptions);
  } catch (error) {
    if (error instanceof LeaseError && isPassing(error.code)) return undefined;
    throw error;
  }
}

function isPassing(code: LeaseErrorCode): boolean {
  return mayPass(code) || code === "queue_full" || code === "space_full" || code === "lost";
}

async function lead(
  lease: Lease,
  callback: (term: Lease) => unknown,
  signal: AbortSignal | undefined,
): Promise<void> {
  const onAbort = () => lease.stepDown(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    await callback(lease);
  } catch (error) {
    if (lease.held && !lease.signal.aborted && !isStale(error)) throw error;
    // Most likely how it was told that its term is over: by the signal, by the time, by a resource that knows a later one.
  } finally {
    signal?.removeEventListener("abort", onAbort);
    await lease.release().catch(() => {});
  }
}

/** A `FenceError` of that code, from whatever copy of the package. */
function isStale(error: unknown): boolean {
  return (error as { code?: unknown } | null | undefined)?.code === "stale_fence";
}

function pause(lengthMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, lengthMs * (0.5 + Math.random() / 2));
    signal?.addEventListener("abort", end, { once: true });
  });
}
