// A lease in its holder's hands.
import type { Driver } from "./driver.ts";
import type { Mode, Released } from "./types.ts";

/**
 * The right to a lock until it is released, or lost. Unless it was asked for with `renew: false`, it is
 * renewed every third of its length. A lease alone cannot stop a process that was paused: hand
 * {@link fence} to what it protects.
 */
export class Lease {
  /** What logs show, whatever became of it in a bundle. @internal */
  static readonly name = "Lease";

  /** The name of the lock. */
  readonly lock: string;
  /**
   * Aborts once, when the lease is lost, with a LeaseError of the code `lost`, or `closed` when the client is closed
   * under it; not when it is released. That of a term
   * also aborts, with its reason, when the signal of the election does.
   */
  get signal(): AbortSignal {
    return this.#aborting.signal;
  }

  readonly #driver: Driver;
  #controller: AbortController | undefined;

  /** @internal */
  constructor(driver: Driver) {
    this.lock = driver.line.lock;
    this.#driver = driver;
    driver.onLost = (error) => this.#aborting.abort(error);
  }

  /** Made when somebody looks, or is to be told: most leases are released before. */
  get #aborting(): AbortController {
    return (this.#controller ??= new AbortController());
  }

  /** The name of the lock, as the Web Locks API calls it. */
  get name(): string {
    return this.lock;
  }

  /** The secret that proves ownership. */
  get token(): string {
    return this.#driver.token;
  }

  /** Larger than that of every lease granted before it in its space. */
  get fence(): number {
    return this.#driver.fence;
  }

  /** Of an attached lease, `exclusive` until its first renewal says otherwise. */
  get mode(): Mode {
    return this.#driver.mode;
  }

  /**
   * Whether the lease is held at the moment of asking, by a monotonic clock: false somewhat before the store
   * would give it to somebody else. It may be false for a while and true again, if renewals were slow to be answered.
   */
  get held(): boolean {
    return this.#driver.isHeld;
  }

  /**
   * How much longer it is {@link held} if no renewal is answered from now on, ms: 0 once it is not. What needs time to
   * stop begins to when no more than that is left.
   */
  get heldForMs(): number {
    return this.#driver.heldForMs;
  }

  /** For display: epoch milliseconds on the store's clock. 0 of an attached lease until its first renewal. */
  get expiresAt(): number {
    return this.#driver.expiresAt;
  }

  /**
   * Renews now; for `ttlMs`, 50 to 86 400 000, from now on where that is given. Resolves with this same lease
   * when the store has renewed it; a lost message is repeated for as long as the lease lasts.
   *
   * Rejects with a LeaseError: `lost` where the lease is over, `invalid_argument`, or what the store answers.
   */
  renew(ttlMs?: number): Promise<this> {
    const renewed = this.#driver.renew(ttlMs).then(() => this);
    // That nobody looks at how it ends is no error.
    renewed.catch(() => {});
    return renewed;
  }

  /**
   * Gives the lease back. Resolves when the store has confirmed, also with `lost` where the lease had ended
   * before; no renewal is sent after that. Again it says the same.
   *
   * Rejects with a LeaseError, `unavailable`, where the store did not confirm: the lease may last until it
   * expires, and releasing it can be tried again.
   */
  release(): Promise<Released> {
    return this.#driver.release();
  }

  /** What may be shown to anybody: not the token. */
  toJSON(): {
    lock: string;
    fence: number;
    mode: Mode;
    held: boolean;
    expiresAt: number;
  } {
    const { lock, fence, mode, held, expiresAt } = this;
    return { lock, fence, mode, held, expiresAt };
  }

  /** As logs of Node, Deno, Bun and workerd show it. @internal */
  [Symbol.for("nodejs.util.inspect.custom")](
    _: unknown,
    options: object,
    inspect: (value: unknown, options: object) => string,
  ): string {
    return `Lease ${inspect(this.toJSON(), options)}`;
  }

  /** Releases. Never rejects: what could not be given back expires. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }

  /** Tells whoever uses it to come to an end. @internal */
  stepDown(reason: unknown): void {
    this.#aborting.abort(reason);
  }

  /** From now on renews every so many ms; 0: no more. @internal */
  setRenewal(everyMs: number): void {
    this.#driver.setRenewal(everyMs);
  }
}
