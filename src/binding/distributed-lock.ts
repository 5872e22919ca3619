// The classic protocol: one object, one token for its life, and nothing by itself.
import { mint } from "./core.ts";
import { invalid, LeaseError } from "./errors.ts";
import { isWorker } from "./host.ts";
import type { Lease } from "./lease.ts";
import type { Leasehold } from "./leasehold.ts";
import { known, TERMS } from "./plain.ts";
import type { Json, Sharing } from "./types.ts";

export interface BlockingOptions {
  /** Whether to wait where somebody else has the lock: false unless given. */
  readonly blocking?: boolean | undefined;
  /** How long to wait, if at all: 0 and up, without end unless given. */
  readonly blockingTimeoutMs?: number | undefined;
}

export type DistributedLockOptions = Sharing &
  (BlockingOptions &
    ({ readonly blocking: boolean } | { readonly blockingTimeoutMs?: undefined })) & {
    /** `host:pid:uuid` in Node, a UUID elsewhere, unless given: 1 to 128 bytes. */
    readonly token?: string | undefined;
    /** 50 to 86 400 000, 30 000 unless given. */
    readonly ttlMs?: number | undefined;
    /**
     * How often {@link DistributedLock.start} renews, 1 and up: every third of `ttlMs` unless given. Where half of
     * `ttlMs`, or of what is left of it when the store has answered, is less, it renews after that.
     */
    readonly renewEveryMs?: number | undefined;
    readonly maxHoldMs?: number | undefined;
    readonly lockDelayMs?: number | undefined;
    readonly info?: Json | undefined;
  };

const BLOCKING = ["blocking", "blockingTimeoutMs"] as const;
const OPTIONS = [...BLOCKING, ...TERMS, "renewEveryMs", "mode", "limit", "steal"] as const;

/** A lock that is acquired, renewed from {@link start} to {@link stop}, and released, as often as one likes. */
export class DistributedLock {
  /** @internal */
  static readonly name = "DistributedLock";

  /** The name of the lock. */
  readonly name: string;
  readonly #locks: Leasehold;
  readonly #blocking: BlockingOptions;
  readonly #terms: object;
  readonly #renewEveryMs: number;
  #token: string | undefined;
  /** Held or not: the last one, until it is released. */
  #lease: Lease | undefined;
  #isRenewing = false;

  /** Throws a LeaseError, `invalid_argument`, for what is this class's own; `acquire` judges the rest. */
  constructor(locks: Leasehold, name: string, options: DistributedLockOptions = {}) {
    const { token, blocking, blockingTimeoutMs, renewEveryMs, ...terms } = known(options, OPTIONS);
    if (typeof (locks as Leasehold | undefined)?.acquire !== "function") {
      throw invalid("locks", "a Leasehold");
    }
    this.name = name;
    this.#token = token;
    this.#locks = locks;
    this.#blocking = checkedBlocking({ blocking, blockingTimeoutMs });
    this.#renewEveryMs = checkedRenewal(renewEveryMs, terms.ttlMs);
    this.#terms = terms;
  }

  /** The secret that proves ownership: the same for the life of this object. */
  get token(): string {
    // On first use: a Worker's global scope has no randomness.
    if (this.#token === undefined) this.#token = identity();
    return this.#token;
  }

  /** Whether the lock is held at the moment of asking. */
  get held(): boolean {
    return this.#lease?.held ?? false;
  }

  /** Of the lease that was acquired last and not released; undefined where there is none. */
  get fence(): number | undefined {
    return this.#lease?.fence;
  }

  /** Aborts when the lease that was acquired last is lost; undefined where there is none. */
  get signal(): AbortSignal | undefined {
    return this.#lease?.signal;
  }

  /**
   * Resolves with true once the lock is held, and with false where somebody else has it, or still has it when
   * the time to wait is over. Options given here win over those of the object. Not reentrant: false at once
   * while this object itself holds the lock.
   *
   * Rejects with a LeaseError where the store could not be asked, `unavailable` too if nothing was heard of it in time.
   */
  async acquire(
    options: BlockingOptions & { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<boolean> {
    const { signal, ...blocking } = known(options, [...BLOCKING, "signal"]);
    const call = checkedBlocking(blocking);
    if (this.held) return false;
    const isBlocking = call.blocking ?? this.#blocking.blocking ?? false;
    const timeoutMs = call.blockingTimeoutMs ?? this.#blocking.blockingTimeoutMs ?? Infinity;
    const lease = await this.#locks.tryAcquire(this.name, {
      ...this.#terms,
      token: this.token,
      waitMs: isBlocking ? timeoutMs : 0,
      renew: false,
      signal,
    });
    if (!lease) return false;
    this.#lease = lease;
    lease.signal.addEventListener("abort", () => this.#forgetRenewing(lease), { once: true });
    if (this.#isRenewing) this.#applyRenewing();
    return true;
  }

  /** Renews from now on, until stopped, released or lost; from the next acquire on where the lock is not held. */
  start(): void {
    if (this.#isRenewing) return;
    this.#isRenewing = true;
    this.#applyRenewing();
  }

  /** Stops renewing, and nothing else: the lease lasts until it expires or is released. */
  async stop(): Promise<void> {
    this.#isRenewing = false;
    this.#applyRenewing();
  }

  /**
   * Gives the lock back. Resolves with true where that ended the lease, and with false where there was none to end.
   *
   * Rejects with a LeaseError, `unavailable`, where the store did not confirm; it can be tried again.
   */
  async release(): Promise<boolean> {
    const lease = this.#lease;
    if (!lease) return false;
    this.#isRenewing = false;
    const { status } = await lease.release();
    if (this.#lease === lease) this.#lease = undefined;
    return status === "released";
  }

  /**
   * What `await using` takes at its declaration, and so where it throws, with a LeaseError, `lost`, if the lock
   * is not held. Itself it releases, and never rejects.
   */
  get [Symbol.asyncDispose](): () => Promise<void> {
    if (!this.held) {
      throw new LeaseError("lost", "the lock was not acquired", { reason: "unknown" });
    }
    return async () => {
      await this.release().catch(() => {});
    };
  }

  #applyRenewing(): void {
    this.#lease?.setRenewal(this.#isRenewing ? this.#renewEveryMs : 0);
  }

  #forgetRenewing(lease: Lease): void {
    if (this.#lease === lease) this.#isRenewing = false;
  }
}

function checkedBlocking(options: BlockingOptions): BlockingOptions {
  const { blocking, blockingTimeoutMs: length } = options;
  if (blocking !== undefined && typeof blocking !== "boolean")
    throw invalid("blocking", "true or false");
  const isLength = length === Infinity || (Number.isSafeInteger(length) && (length as number) >= 0);
  if (length !== undefined && !isLength) {
    throw invalid("blockingTimeoutMs", "an integer from 0 on, or Infinity (milliseconds)");
  }
  return options;
}

/** The machine that renews wants a length that it can use at once. */
function checkedRenewal(everyMs: unknown, ttlMs: unknown): number {
  // A ttl that is none is refused when it is used.
  if (everyMs === undefined)
    return Math.floor((typeof ttlMs === "number" ? ttlMs : 30_000) / 3) || 1;
  if (Number.isSafeInteger(everyMs) && (everyMs as number) >= 1) return everyMs as number;
  throw invalid("renewEveryMs", "an integer from 1 on (milliseconds)");
}

/** Says whose it is where that means something to whoever looks into the store. */
function identity(): string {
  const { process } = globalThis as {
    process?: {
      pid: number;
      release?: { name?: string };
      getBuiltinModule?: (name: string) => { hostname(): string };
    };
  };
  const isNode = process?.release?.name === "node" && !isWorker();
  try {
    const host = isNode ? process.getBuiltinModule?.("node:os").hostname() : undefined;
    // A host's name may be longer than a token.
    if (host) return `${host.slice(0, 64)}:${process?.pid}:${mint()}`;
  } catch {
    // Not allowed to know.
  }
  return mint();
}
