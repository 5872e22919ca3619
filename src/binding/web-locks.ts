// What the Web Locks API (https://w3c.github.io/web-locks/) says of the arguments and the outcome of
// `request`, and what leases make of it.
import { LeaseError, lost } from "./errors.ts";
import type { Lease } from "./lease.ts";
import { isSignal } from "./plain.ts";
import type { AcquireOptions, RequestOptions } from "./types.ts";

export interface Asked {
  readonly name: string;
  readonly options: AcquireOptions;
  readonly ifAvailable: boolean;
  readonly callback: (lease: Lease | null) => unknown;
}

/**
 * Converts and checks the arguments in the order of the specification, and throws what it says. Members of the
 * options that it does not know are those of {@link AcquireOptions}, and judged as such: none is overlooked.
 */
export function asked(rest: readonly unknown[]): Asked {
  if (rest.length < 2) throw new TypeError("request needs a name and a callback");
  const name = text(rest[0]);
  const [given, callback] = rest.length === 2 ? [{}, rest[1]] : [rest[1] ?? {}, rest[2]];
  if (typeof given !== "object" && typeof given !== "function") {
    throw new TypeError("the options must be an object");
  }
  // As Web IDL does: in this order, and each once.
  const { ifAvailable, mode: sharing = "exclusive", signal, steal, ...ours } = given as Untyped;
  const mode = text(sharing);
  if (mode !== "exclusive" && mode !== "shared") throw new TypeError(`there is no mode "${mode}"`);
  if (signal !== undefined && !isSignal(signal))
    throw new TypeError("signal must be an AbortSignal");
  if (typeof callback !== "function") throw new TypeError("the callback must be a function");
  const notSupported = (message: string) => new DOMException(message, "NotSupportedError");
  if (name.startsWith("-")) throw notSupported("names that start with - are reserved");
  if (steal && ifAvailable) throw notSupported("steal and ifAvailable exclude each other");
  if (steal && mode !== "exclusive") throw notSupported("only an exclusive lock can be stolen");
  if (signal && (steal || ifAvailable)) {
    throw notSupported("a request that does not wait takes no signal");
  }
  const waitMs = ifAvailable ? 0 : ours.waitMs;
  return {
    name,
    options: { ...ours, mode, signal, waitMs, steal: steal ? true : undefined } as AcquireOptions,
    ifAvailable: !!ifAvailable,
    callback: callback as Asked["callback"],
  };
}

type Untyped = { readonly [Name in keyof RequestOptions]: unknown };

/** As Web IDL converts a DOMString. */
function text(value: unknown): string {
  if (typeof value === "symbol") throw new TypeError("the name must be a string");
  return String(value);
}

/**
 * Calls back and gives the leases back. The callback's own error wins over whatever else goes wrong; a lease that
 * is lost meanwhile rejects, once the callback has had the chance to react.
 */
export async function holding(leases: readonly Lease[], callback: () => unknown): Promise<unknown> {
  const loss = lossOf(leases);
  const release = () => Promise.allSettled(leases.map((lease) => lease.release()));
  let result: unknown;
  try {
    result = await Promise.race([invoke(callback), loss.promise]);
  } catch (error) {
    await release();
    throw error;
  } finally {
    loss.ignore();
  }
  for (const released of await release()) {
    // What could not be given back expires: that is no reason to keep the caller from the result.
    if (released.status === "rejected") continue;
    const { value } = released;
    if (value.status === "lost") throw asWebLocksDo(lost(value.reason));
  }
  for (const { signal } of leases) if (signal.aborted) throw asWebLocksDo(signal.reason);
  return result;
}

async function invoke(callback: () => unknown): Promise<unknown> {
  return callback();
}

/** How long a callback has to end once a lease is lost: what it throws meanwhile is what is told. */
const GRACE_MS = 1_000;

/** Rejects when a lease is lost and the callback has had the time to react; if it is stolen, as good as at once. */
function lossOf(leases: readonly Lease[]): { promise: Promise<never>; ignore: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const listeners: (() => void)[] = [];
  const promise = new Promise<never>((_, reject) => {
    for (const { signal } of leases) {
      const onAbort = () => {
        const error = signal.reason as LeaseError;
        const graceMs = error.reason === "stolen" ? 0 : GRACE_MS;
        timer ??= setTimeout(() => reject(asWebLocksDo(error)), graceMs);
      };
      if (signal.aborted) onAbort();
      else signal.addEventListener("abort", onAbort, { once: true });
      listeners.push(() => signal.removeEventListener("abort", onAbort));
    }
  });
  const ignore = () => {
    for (const remove of listeners) remove();
    clearTimeout(timer);
  };
  return { promise, ignore };
}

/** The specification has its own error for a lock that was stolen. */
function asWebLocksDo(error: LeaseError): Error {
  if (error.reason !== "stolen") return error;
  const abort = new DOMException("the lock was stolen", "AbortError");
  return Object.defineProperty(abort, "cause", { value: error });
}
