// The client.
import { type Carrier, NoAnswer } from "./carrier.ts";
import { enter, mint } from "./core.ts";
import { Driver, type Line } from "./driver.ts";
import { errorOf, invalid, isProblem, LeaseError, unavailable } from "./errors.ts";
import { HttpCarrier } from "./http.ts";
import { Lease } from "./lease.ts";
import type { MemoryStore } from "./memory.ts";
import { checked, fieldsOf, scalar } from "./plain.ts";
import { StubCarrier } from "./stub.ts";
import type {
  AcquireOptions,
  AttachOptions,
  Fetch,
  Inspection,
  LeaseholdOptions,
  LeaseNamespace,
  Listing,
  ListOptions,
  RequestOptions,
  RevokeOptions,
  ServiceBinding,
} from "./types.ts";
import { asked, holding, isSignal } from "./web-locks.ts";

/**
 * Where the leases are: a Durable Object namespace, a service binding or the URL of a Worker that serves
 * them over HTTP, or a store in this process.
 */
export type Target = LeaseNamespace | ServiceBinding | string | URL | MemoryStore;

/** How often a question that changes nothing is asked, and how far apart at least, ms. */
const ATTEMPTS = 3;
const PAUSE_MS = 100;

/** A client of a lease store. */
export class Leasehold {
  readonly #carrier: Carrier;
  readonly #space: string | ((lock: string) => string);
  readonly #live = new Set<Driver>();
  readonly #asks = new Set<AbortController>();
  #clientId: string | undefined;
  #isClosed = false;

  /** Throws a LeaseError, `invalid_argument`, where an argument is wrong. Reaches for nothing yet. */
  constructor(target: Target, options: LeaseholdOptions = {}) {
    const { space = "default", key, clientId, fetch } = checked(options);
    this.#carrier = carrierTo(target, fetch, key);
    this.#space = space;
    if (typeof space !== "function") checkedSpace(space);
    if (clientId !== undefined) this.#clientId = checkedClientId(clientId);
  }

  /** Names this client in inspect. */
  get clientId(): string {
    // On first use: a Worker's global scope has no randomness.
    return (this.#clientId ??= mint());
  }

  /**
   * Resolves with a lease once it is granted: waits as long as `waitMs` says, without end unless that is given.
   *
   * Rejects with a LeaseError: `held` (with `waitMs: 0`), `timeout`, `invalid_argument`, `limit_mismatch`,
   * `queue_full`, `unauthorized`, `forbidden`, `unavailable`, `closed`; or with `signal.reason`.
   */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    return this.#acquire(name, options);
  }

  /** As {@link acquire}, but waits only if `waitMs` is given, and resolves with null where somebody else has the lock. */
  async tryAcquire(name: string, options: AcquireOptions = {}): Promise<Lease | null> {
    const { waitMs = 0 } = checked(options);
    return this.#tryAcquire(name, { ...options, waitMs });
  }

  /**
   * Runs `callback` with the lease and gives it back, as `navigator.locks.request` does: same arguments,
   * same errors, same result. A lease that is lost before the callback is done rejects with a LeaseError,
   * `lost`, once the callback has ended or a second has passed; one that is stolen with an `AbortError` at once.
   * An error of the callback's own wins.
   */
  request<T>(name: string, callback: (lease: Lease) => T): Promise<Awaited<T>>;
  request<T>(
    name: string,
    options: RequestOptions & { readonly ifAvailable: true },
    callback: (lease: Lease | null) => T,
  ): Promise<Awaited<T>>;
  request<T>(
    name: string,
    options: RequestOptions & { readonly ifAvailable?: false | undefined },
    callback: (lease: Lease) => T,
  ): Promise<Awaited<T>>;
  request<T>(
    name: string,
    options: RequestOptions,
    callback: (lease: Lease | null) => T,
  ): Promise<Awaited<T>>;
  async request(...rest: unknown[]): Promise<unknown> {
    const { name, options, ifAvailable, callback } = asked(rest);
    const lease = await (ifAvailable
      ? this.#tryAcquire(name, options)
      : this.#acquire(name, options));
    return lease ? holding(lease, callback) : callback(null);
  }

  /**
   * Goes on with a lease that was granted elsewhere: another process, another client. It is not `held` until
   * its first renewal, which starts by itself unless `renew` is false.
   *
   * Throws a LeaseError, `invalid_argument`.
   */
  attach(options: AttachOptions): Lease {
    const { lock, renew, token, fence, ttlMs } = checked(options);
    const fields = fieldsOf({ token, fence, ttlMs });
    const driver = Driver.attach(this.#line(lock), fields as { fence: unknown }, renewalOf(renew));
    const lease = new Lease(driver);
    this.#start(driver);
    return lease;
  }

  /** Who holds the lock, who waits for it. Rejects with a LeaseError. */
  async inspect(name: string): Promise<Inspection> {
    const { space, lock } = this.#line(name);
    return (await this.#ask("inspect", space, lock, {})) as Inspection;
  }

  /** A page of the locks that are held or awaited, in the order of their names. Rejects with a LeaseError. */
  async list(options: ListOptions = {}): Promise<Listing> {
    const { space, ...rest } = checked(options);
    const fields = fieldsOf(rest);
    return (await this.#ask("list", this.#spaceToList(space), undefined, fields)) as Listing;
  }

  /**
   * Ends a lease of somebody else, or every one of the lock; its holder is told. Over HTTP it needs the
   * right `admin`. Rejects with a LeaseError.
   */
  async revoke(name: string, options: RevokeOptions = {}): Promise<{ readonly revoked: number }> {
    const { space, lock } = this.#line(name);
    const reply = await this.#ask("revoke", space, lock, fieldsOf(options));
    this.#lookAfter(space, lock);
    return reply as { revoked: number };
  }

  /**
   * Leaves every queue and gives back every lease; calls that wait, and all later ones, reject with
   * `closed`. Resolves when nothing is left to do, and never rejects.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const ask of this.#asks) ask.abort();
    await Promise.allSettled([...this.#live].map((driver) => driver.release()));
  }

  async #tryAcquire(name: string, options: AcquireOptions): Promise<Lease | null> {
    try {
      return await this.#acquire(name, options);
    } catch (error) {
      const isTaken =
        error instanceof LeaseError && (error.code === "held" || error.code === "timeout");
      if (isTaken) return null;
      throw error;
    }
  }

  #acquire(name: string, options: AcquireOptions): Promise<Lease> {
    const { signal, waitMs, renew, ...rest } = checked(options);
    if (signal !== undefined && !isSignal(signal)) throw invalid("signal", "an AbortSignal");
    signal?.throwIfAborted();
    const fields = { token: mint(), requestId: mint(), clientId: this.clientId, ...fieldsOf(rest) };
    const line = this.#line(name);
    const driver = Driver.acquire(line, fields, wait(waitMs), renewalOf(renew));
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        driver.onAnswer = undefined;
        reject(signal?.reason);
        // Goes on in the background until the place, or the lease that crossed this, is given back.
        void driver.release();
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      driver.onAnswer = (error) => {
        signal?.removeEventListener("abort", onAbort);
        if (error) reject(error);
        else resolve(new Lease(driver));
        if (!error && rest.steal) this.#lookAfter(line.space, line.lock, driver);
      };
      this.#start(driver);
    });
  }

  #start(driver: Driver): void {
    this.#live.add(driver);
    driver.onOver = () => this.#live.delete(driver);
    driver.start();
  }

  /** Some leases of a lock may have ended: those of this client learn it at once and not at their next renewal. */
  #lookAfter(space: string, lock: string, except?: Driver): void {
    for (const driver of this.#live) {
      const isOfLock = driver.line.space === space && driver.line.lock === lock;
      if (isOfLock && driver !== except && driver.isHeld) void driver.renew().catch(() => {});
    }
  }

  #line(name: unknown): Line & { lock: string } {
    if (this.#isClosed) throw new LeaseError("closed", "this client was closed");
    // What is no name is refused by the store's own rule for names.
    const lock = scalar(name) as string;
    enter((rust) => rust.check("inspect", lock, {}));
    const space = this.#space;
    return {
      carrier: this.#carrier,
      space: typeof space === "function" ? checkedSpace(space(lock)) : space,
      lock,
    };
  }

  #spaceToList(given: unknown): string {
    if (this.#isClosed) throw new LeaseError("closed", "this client was closed");
    if (given !== undefined) return checkedSpace(given);
    if (typeof this.#space === "string") return this.#space;
    throw invalid("space", "given, since it depends on the lock");
  }

  /** Asks once what changes something, and some times what does not. */
  async #ask(
    op: string,
    space: string,
    lock: string | undefined,
    fields: Record<string, unknown>,
  ): Promise<unknown> {
    enter((rust) => rust.check(op, lock ?? null, fields));
    const ask = new AbortController();
    this.#asks.add(ask);
    try {
      for (let left = op === "revoke" ? 1 : ATTEMPTS; ; left -= 1) {
        const call = { space, op, fields, signal: ask.signal, ...(lock !== undefined && { lock }) };
        const [reply, error, isFinal] = await answer(this.#carrier, call);
        if (this.#isClosed) throw new LeaseError("closed", "this client was closed");
        if (!error) return reply;
        if (isFinal || left === 1) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * (1 + Math.random())));
      }
    } finally {
      this.#asks.delete(ask);
    }
  }
}

async function answer(
  carrier: Carrier,
  call: Parameters<Carrier["call"]>[0],
): Promise<[reply: unknown, error?: LeaseError, isFinal?: boolean]> {
  try {
    const reply = await carrier.call(call);
    return isProblem(reply) ? [reply, errorOf(reply), reply.code !== "unavailable"] : [reply];
  } catch (error) {
    if (error instanceof NoAnswer) return [undefined, error.error, error.isFinal];
    return [undefined, unavailable("the lease store did not answer", error), false];
  }
}

function carrierTo(target: Target, fetch: Fetch | undefined, key: string | undefined): Carrier {
  if (fetch !== undefined && typeof fetch !== "function") throw invalid("fetch", "a function");
  if (typeof target === "string" || target instanceof URL) {
    // Looked up at each call: who replaces the global one later means it.
    return new HttpCarrier(target, fetch ?? ((url, init) => globalThis.fetch(url, init)), key);
  }
  const { constructor: { name: kind = "" } = {} } = Object(target) as {
    constructor?: { name?: string };
  };
  const has = (method: string) =>
    typeof (Object(target) as Record<string, unknown>)[method] === "function";
  // A service binding seems to have every method there is: any could be one of the other Worker's.
  if (has("fetch") && (kind === "Fetcher" || kind === "ServiceStub" || !has("idFromName"))) {
    const service = target as ServiceBinding;
    return new HttpCarrier(
      "https://leasehold",
      fetch ?? ((url, init) => service.fetch(url, init)),
      key,
    );
  }
  if (has("idFromName") && has("get")) return new StubCarrier(target as LeaseNamespace);
  // A store in this process is a carrier itself, which is nobody else's concern.
  if (has("call")) return target as unknown as Carrier;
  throw invalid(
    "target",
    "a Durable Object namespace, a service binding, a URL, or a store made with memoryStore()",
  );
}

function checkedSpace(space: unknown): string {
  const name = typeof space === "string" ? scalar(space) : null;
  enter((rust) => rust.checkSpace((name ?? "") as string));
  return name as string;
}

function checkedClientId(clientId: unknown): string {
  const fields = { token: "any", requestId: "any", clientId: scalar(clientId) };
  enter((rust) => rust.check("acquire", "any", fields));
  return clientId as string;
}

/** What is no number is refused as one. */
function wait(waitMs: unknown): unknown {
  return waitMs === undefined || typeof waitMs === "number" ? waitMs : null;
}

/** Every third of the ttl, or 0: only when told to. */
function renewalOf(renew: unknown): number | undefined {
  if (renew === undefined || renew === true) return undefined;
  if (renew === false) return 0;
  throw invalid("renew", "true or false");
}
