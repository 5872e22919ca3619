// The client.
import { type Call, type Carrier, NoAnswer } from "./carrier.ts";
import { check, checkSpace, enter, mint } from "./core.ts";
import { Timer } from "./clock.ts";
import { Desk } from "./desk.ts";
import { Driver, type Line } from "./driver.ts";
import { elected } from "./elect.ts";
import {
  errorOf,
  invalid,
  isProblem,
  isTaken,
  LeaseError,
  mayPass,
  unavailable,
} from "./errors.ts";
import { Lease } from "./lease.ts";
import { checked, checkSignal, fieldsOf, isWellFormed, known, scalar } from "./plain.ts";
import { snapshot } from "./query.ts";
import { isReplyTo } from "./replies.ts";
import { requested } from "./request-all.ts";
import { type Target, carrierTo } from "./target.ts";
import type {
  AcquireOptions,
  AttachOptions,
  Change,
  ElectOptions,
  Inspection,
  LeaseholdOptions,
  Listing,
  ListOptions,
  LockManagerSnapshot,
  RequestOptions,
  RevokeOptions,
  WatchOptions,
} from "./types.ts";
import { type Answered, Watcher } from "./watch.ts";
import { asked, holding } from "./web-locks.ts";

export type { Target };

/** What is asked, whoever asks. */
type Question = Omit<Call, "signal" | "listener">;

/** How often a question that changes nothing is asked, and how far apart at least, ms. */
const ATTEMPTS = 3;
const PAUSE_MS = 100;

/** A question that is not answered by then is not any more, ms. */
const ANSWER_MS = 10_000;

/** What a client can be set up with. */
const OPTIONS = ["space", "key", "clientId", "fetch", "WebSocket"] as const;

/** What a lease that was granted elsewhere is known by, and how to go on with it; and what else its `toJSON` gave. */
const ATTACHING = ["lock", "token", "fence", "ttlMs", "renew", "mode", "held", "expiresAt"];

/** A client of a lease store. */
export class Leasehold {
  /** @internal */
  static readonly name = "Leasehold";

  readonly #carrier: Carrier;
  readonly #space: string | ((lock: string) => string);
  readonly #desk = new Desk();
  readonly #asks = new Set<AbortController>();
  #clientId: string | undefined;
  #isClosed = false;

  /** Throws a LeaseError, `invalid_argument`, where an argument is wrong. Reaches for nothing yet. */
  constructor(target: Target, options: LeaseholdOptions = {}) {
    const given = known(options, OPTIONS);
    const { space, clientId } = given;
    this.#carrier = carrierTo(target, given);
    // The Rust half is started only where there is something to be judged.
    if (space !== undefined && typeof space !== "function") checkedSpace(space);
    this.#space = space ?? "default";
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
  acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    return this.#acquire(name, options);
  }

  /**
   * As {@link acquire}, but waits only if `waitMs` is given, and resolves with null where the store says that
   * somebody else has the lock. Where nothing was heard of the store it rejects with `unavailable`.
   */
  async tryAcquire(name: string, options: AcquireOptions = {}): Promise<Lease | null> {
    const { waitMs = 0, ...rest } = checked(options);
    return this.#tryAcquire(name, { ...rest, waitMs } as AcquireOptions);
  }

  /**
   * Runs `callback` with the lease and gives it back, as `navigator.locks.request` does: same arguments,
   * same errors, same result; but an option that does not exist is refused. A lease that is lost before the callback
   * is done rejects with a LeaseError, `lost`, once the callback has ended or a second has passed; one that is stolen
   * with an `AbortError` at once. An error of the callback's own wins.
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
  /** Not to be called: by it this is a `LockManager` to TypeScript. The options of that exclude each other untyped. */
  request<T>(
    name: string,
    options: never,
    callback: (lease: Lease | null) => T,
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
    return lease ? holding([lease], () => callback(lease)) : callback(null);
  }

  /**
   * Runs `callback` with a lease of each of these locks, in the order of `names`, and gives them all back: all
   * or nothing. `waitMs` is for all of them together. They are asked for one after the other in an order that
   * is everybody's, so that two callers who name the same ones never wait for each other. Errors as for
   * {@link request}; with `ifAvailable`, and if one of them is not, `callback` gets `null`.
   */
  requestAll<T>(
    names: readonly string[],
    callback: (leases: readonly Lease[]) => T,
  ): Promise<Awaited<T>>;
  requestAll<T>(
    names: readonly string[],
    options: RequestOptions & { readonly ifAvailable?: false | undefined },
    callback: (leases: readonly Lease[]) => T,
  ): Promise<Awaited<T>>;
  requestAll<T>(
    names: readonly string[],
    options: RequestOptions,
    callback: (leases: readonly Lease[] | null) => T,
  ): Promise<Awaited<T>>;
  async requestAll(names: readonly string[], ...rest: unknown[]): Promise<unknown> {
    return requested(names, rest, (name, options) => this.#acquire(name, options));
  }

  /**
   * Campaigns for the lock, runs `callback` as long as the term lasts, and campaigns again, until `signal` aborts
   * or the client is closed. The signal of the term aborts when it is lost, and when `signal` does; the next one
   * begins only after `callback` has ended. If it ends by itself the lock is given back first. Others see who
   * leads, and its `info`, by {@link inspect} and {@link watch}.
   *
   * Never resolves. Rejects with `signal.reason`, `closed`, what the store answers for good, or the callback's own
   * error, unless that comes of a term that was over: lost, or refused by a resource as `stale_fence`.
   */
  async elect(
    name: string,
    options: ElectOptions,
    callback: (term: Lease) => unknown,
  ): Promise<never> {
    return elected(options, callback, (options) => this.#acquire(name, options));
  }

  /** Who holds what and who waits for what in the client's space, as `navigator.locks.query` says it. */
  async query(options: { readonly space?: string | undefined } = {}): Promise<LockManagerSnapshot> {
    const space = this.#spaceOr(known(options, ["space"]).space);
    return snapshot((op, lock, fields) => this.#ask(op, space, lock, fields));
  }

  /**
   * The locks whose names start with `prefix` as they are, and from then on every change. A reader that is slow
   * gets of each lock the latest. After `reset`, when changes may have been missed, it starts over with what there
   * is. Ends when it is left, as by `break`.
   *
   * Throws, and its `next` rejects with, a LeaseError, `unavailable` too where no WebSocket is to be had: over HTTP
   * alone nothing can be told; or with `signal.reason`.
   */
  watch(options: WatchOptions = {}): AsyncGenerator<Change, void, void> {
    const { signal, space: given, ...rest } = checked(options);
    checkSignal(signal);
    const space = this.#spaceOr(given);
    const fields = fieldsOf(rest);
    enter(() => check("watch", null, fields));
    return this.#watch(space, (fields["prefix"] as string | undefined) ?? "", signal);
  }

  /**
   * Goes on with a lease that was granted elsewhere: another process, or another client, whose {@link Lease} may be
   * given as it is. It is not `held` until its first renewal, which starts by itself unless `renew` is false.
   *
   * Throws a LeaseError, `invalid_argument`.
   */
  attach(options: AttachOptions | Lease): Lease {
    const given =
      options instanceof Lease ? { ...options.toJSON(), token: options.token } : options;
    const { lock, renew, token, fence, ttlMs } = known<AttachOptions>(given, ATTACHING);
    const fields = fieldsOf({ token, fence, ttlMs });
    const driver = Driver.attach(this.#line(lock), fields as { fence: unknown }, renewalOf(renew));
    const lease = new Lease(driver);
    this.#start(driver, true);
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
    return (await this.#ask("list", this.#spaceOr(space), undefined, fields)) as Listing;
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
   * Leaves every queue and gives back every lease, whose signals abort with `closed`; calls that wait, and all later
   * ones, reject with it. Resolves when nothing is left to do, and never rejects.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const ask of this.#asks) ask.abort();
    for (const watcher of this.#desk.watchers) watcher.end(closed());
    await Promise.allSettled([...this.#desk.drivers].map((driver) => driver.close(closed())));
    this.#carrier.leave?.(this.#desk);
  }

  async *#watch(
    space: string,
    prefix: string,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Change, void, void> {
    signal?.throwIfAborted();
    const { watchers } = this.#desk;
    const watcher = new Watcher(space, prefix, {
      ask: (op, fields, ask) => this.#askOnce({ space, op, fields, inStep: true }, ask),
      leave: () => {
        watchers.delete(watcher);
        const isWatched = [...watchers].some(
          (other) => other.space === space && other.prefix === prefix,
        );
        // Nobody waits for that: it is enough if it works.
        if (isWatched || this.#isClosed) return;
        void this.#askOnce({ space, op: "unwatch", fields: { prefix }, inStep: true });
      },
    });
    const onAbort = () => watcher.end(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    watchers.add(watcher);
    try {
      if (this.#isClosed) throw closed();
      yield* watcher.read();
    } finally {
      signal?.removeEventListener("abort", onAbort);
      watchers.delete(watcher);
    }
  }

  async #tryAcquire(name: string, options: AcquireOptions): Promise<Lease | null> {
    try {
      return await this.#acquire(name, options);
    } catch (error) {
      if (isTaken(error)) return null;
      throw error;
    }
  }

  #acquire(name: string, options: AcquireOptions): Promise<Lease> {
    return new Promise((resolve, reject) => {
      const { signal, waitMs, renew, ...rest } = checked(options);
      checkSignal(signal);
      signal?.throwIfAborted();
      const fields = {
        token: mint(),
        requestId: mint(),
        clientId: this.clientId,
        ...fieldsOf(rest),
      };
      const line = this.#line(name);
      const driver = Driver.acquire(line, fields, wait(waitMs), renewalOf(renew));
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
      this.#start(driver, rest.token !== undefined);
    });
  }

  /** `isGiven`: the token is the caller's, who may have used it before. */
  #start(driver: Driver, isGiven: boolean): void {
    const { drivers } = this.#desk;
    this.#desk.mayHaveTwins ||= isGiven;
    const place = drivers.add(driver);
    driver.onOver = () => drivers.remove(place);
    driver.start();
  }

  /** Some leases of a lock may have ended: those of this client learn it at once and not at their next renewal. */
  #lookAfter(space: string, lock: string, except?: Driver): void {
    for (const driver of [...this.#desk.drivers]) {
      const isOfLock = driver.line.space === space && driver.line.lock === lock;
      if (isOfLock && driver !== except && driver.isHeld) void driver.renew().catch(() => {});
    }
  }

  #line(name: unknown): Line & { lock: string } {
    if (this.#isClosed) throw closed();
    // What is no name is refused by the store's own rule for names, with the rest of what is sent.
    const lock = scalar(name) as string;
    return { carrier: this.#carrier, desk: this.#desk, space: this.#spaceOf(lock), lock };
  }

  #spaceOf(lock: string): string {
    const space = this.#space;
    if (typeof space === "string") return space;
    enter(() => check("inspect", lock, {}));
    return checkedSpace(space(lock));
  }

  #spaceOr(given: unknown): string {
    if (this.#isClosed) throw closed();
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
    enter(() => check(op, lock ?? null, fields));
    const call = { space, op, fields, ...(lock !== undefined && { lock }) };
    for (let left = op === "revoke" ? 1 : ATTEMPTS; ; left -= 1) {
      const [reply, error, isFinal] = await this.#askOnce(call);
      if (this.#isClosed) throw closed();
      if (!error) return reply;
      if (isFinal || left === 1) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * (1 + Math.random())));
      if (this.#isClosed) throw closed();
    }
  }

  /** Gives up after a while, or when `ask` aborts, and then so does what carries it. Never rejects. */
  async #askOnce(call: Question, ask = new AbortController()): Promise<Answered> {
    const { signal } = ask;
    const late = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject());
    });
    const timer = new Timer();
    timer.set(ANSWER_MS, () => ask.abort());
    this.#asks.add(ask);
    try {
      const answer = this.#carrier.call({ ...call, signal, listener: this.#desk });
      const reply = await Promise.race([answer, late]);
      if (isProblem(reply)) return [reply, errorOf(reply), !mayPass(reply.code)];
      if (isReplyTo(call, reply)) {
        // What a socket tells its replies apart by is nobody else's.
        const { id: _, ...rest } = reply as { id?: unknown };
        return [rest];
      }
      return [undefined, unavailable("the lease store's answer was not understood")];
    } catch (error) {
      if (error instanceof NoAnswer) return [undefined, error.error, error.isFinal];
      return [undefined, unavailable(undefined, error)];
    } finally {
      timer.clear();
      this.#asks.delete(ask);
      ask.abort();
    }
  }
}

// As the interface has it: a name and a callback are required.
Object.defineProperty(Leasehold.prototype.request, "length", { value: 2 });

function closed(): LeaseError {
  return new LeaseError("closed", "this client was closed");
}

function checkedSpace(space: unknown): string {
  const name = typeof space === "string" && isWellFormed(space) ? space : "";
  enter(() => checkSpace(name));
  return name;
}

function checkedClientId(clientId: unknown): string {
  const fields = { token: "any", requestId: "any", clientId: scalar(clientId) };
  enter(() => check("acquire", "any", fields));
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
