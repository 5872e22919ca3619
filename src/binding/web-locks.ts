// What the Web Locks API (https://w3c.github.io/web-locks/) says of the arguments and the outcome of
// `request`, and what leases make of it.
import { LeaseError, lost } from "./errors.ts";
import type { Lease } from "./lease.ts";
import type { AcquireOptions, RequestOptions } from "./types.ts";

export interface Asked {
  readonly name: string;
  readonly options: AcquireOptions;
  readonly ifAvailable: boolean;
  readonly callback: (lease: Lease | null) => unknown;
}

/** Members that Web IDL converts; the others are those of {@link AcquireOptions} and judged as such. */
const OURS = [
  "ttlMs",
  "waitMs",
  "limit",
  "info",
  "maxHoldMs",
  "lockDelayMs",
  "renew",
  "token",
  "requestId",
] as const;

/** Converts and checks the arguments in the order of the specification, and throws what it says. */
export function asked(rest: readonly unknown[]): Asked {
  if (rest.length < 2) throw new TypeError("request needs a name and a callback");
  const name = text(rest[0]);
  const [given, callback] = rest.length === 2 ? [undefined, rest[1]] : [rest[1], rest[2]];
  const { ifAvailable, mode, signal, steal, ...ours } = converted(given);
  if (typeof callback !== "function") throw new TypeError("the callback must be a function");
  const notSupported = (message: string) => new DOMException(message, "NotSupportedError");
  if (name.startsWith("-")) throw notSupported("names that start with - are reserved");
  if (steal && ifAvailable) throw notSupported("steal and ifAvailable exclude each other");
  if (steal && mode !== "exclusive") throw notSupported("only an exclusive lock can be stolen");
  if (signal && (steal || ifAvailable)) {
    throw notSupported("a request that does not wait takes no signal");
  }
  const options = {
    ...ours,
    mode,
    signal,
    ...(steal && { steal }),
    ...(ifAvailable && { waitMs: 0 }),
  };
  return {
    name,
    options: options as AcquireOptions,
    ifAvailable,
    callback: callback as Asked["callback"],
  };
}

/** As Web IDL converts a DOMString. */
function text(value: unknown): string {
  if (typeof value === "symbol") throw new TypeError("the name must be a string");
  return String(value);
}

/** As Web IDL converts the dictionary: members are read once, in this order, and others are not looked at. */
function converted(given: unknown) {
  if (given === undefined || given === null) {
    return { ifAvailable: false, mode: "exclusive", signal: undefined, steal: false };
  }
  if (typeof given !== "object" && typeof given !== "function") {
    throw new TypeError("the options must be an object");
  }
  const options = given as { [Name in keyof RequestOptions]: unknown };
  const ifAvailable = Boolean(options.ifAvailable);
  const mode = options.mode === undefined ? "exclusive" : text(options.mode);
  if (mode !== "exclusive" && mode !== "shared") throw new TypeError(`there is no mode "${mode}"`);
  const signal = options.signal;
  if (signal !== undefined && !isSignal(signal))
    throw new TypeError("signal must be an AbortSignal");
  const steal = Boolean(options.steal);
  const ours = Object.fromEntries(OURS.map((name) => [name, options[name]]));
  return { ...ours, ifAvailable, mode, signal, steal };
}

export function isSignal(value: unknown): value is AbortSignal {
  return typeof (value as AbortSignal | null)?.throwIfAborted === "function";
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
  return Object.defineProperty(abort, "cause", {
    value: error,
    configurable: true,
    writable: true,
  });
}
