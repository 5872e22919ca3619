// An API that lets its customer make five calls at once, or five a second, whoever of it calls.
import type { Leasehold } from "leasehold";

const LIMIT = 5;

/** At most `LIMIT` calls at once. Resolves with the body, since a response that is being read is still a call. */
export function callAtOnce(locks: Leasehold, url: string, signal?: AbortSignal): Promise<string> {
  const terms = { mode: "shared", limit: LIMIT, ttlMs: 10_000, waitMs: 60_000, signal } as const;
  return locks.request("api at once", terms, async (lease) => {
    // A permit that is lost is somebody else's: then this call has to end, or there would be six.
    const signals = [lease.signal, AbortSignal.timeout(30_000), ...(signal ? [signal] : [])];
    const response = await fetch(url, { signal: AbortSignal.any(signals) });
    if (!response.ok) throw new Error(`${url} was answered ${response.status}`);
    return response.text();
  });
}

/** Resolves when a call may be made: at most `LIMIT` times in any second. */
export async function awaitTurn(locks: Leasehold, signal?: AbortSignal): Promise<void> {
  // Neither renewed nor given back: the permit is used up for one second, and then ends by itself.
  await locks.acquire("api per second", {
    mode: "shared",
    limit: LIMIT,
    ttlMs: 1_000,
    renew: false,
    waitMs: 60_000,
    signal,
  });
}
