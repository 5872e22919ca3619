// Drives the holder's machine, which is Rust: sends what it says, hands it what came of that, and wakes
// it when it wants to be woken. Nothing is decided here.
import { type Call, type Carrier, NoAnswer, type Push } from "./carrier.ts";
import { type Clock, monotonic, Timer } from "./clock.ts";
import { Due, enter, instance, Session, Status } from "./core.ts";
import type { Desk } from "./desk.ts";
import { errorOf, isProblem, LeaseError, lost, mayPass, unavailable } from "./errors.ts";
import { areHolders } from "./replies.ts";
import type { Holder, LostReason, Mode, Released } from "./types.ts";

/** Where a session's commands go. */
export interface Line {
  readonly carrier: Carrier;
  /** Where what it is told without having asked comes from. */
  readonly desk: Desk;
  readonly space: string;
  readonly lock: string;
}

/** What a session has to say, as the protocol calls it. */
const VERBS: Partial<Record<Due, string>> = {
  [Due.Acquire]: "acquire",
  [Due.Renew]: "renew",
  [Due.Release]: "release",
  [Due.Cancel]: "cancel",
};

/** Why an ask fails that was answered, and not refused. */
const LATE = "the lease was over when it arrived";

/** As much of a reply as is passed on to the caller. */
interface Reply {
  readonly holders?: readonly Holder[];
  readonly retryAfterMs?: number;
  readonly lease?: { readonly lock?: unknown; readonly mode: Mode };
}

export class Driver {
  readonly line: Line;
  readonly token: string;
  mode: Mode;
  /** What the store calls the ask by, and the lease. */
  requestId: unknown;
  fence = 0;
  expiresAt = 0;
  /** Called once, when the ask is granted or has come to nothing. */
  onAnswer: ((error: LeaseError | undefined) => void) | undefined;
  /** Called once, when the lease is lost: not before it was granted, and not when its holder gave it up. */
  onLost: ((error: LeaseError) => void) | undefined;
  /** Called once, when there is nothing to do any more. */
  onOver: (() => void) | undefined;

  readonly #clock: Clock;
  readonly #made = instance();
  readonly #timer = new Timer();
  /** Ends the calls whose replies nobody needs. */
  #calls = new Abandon();
  readonly #renewals: Renewal[] = [];
  #session: Session | undefined;
  #status: Status = Status.Asking;
  #reason: LostReason = "unknown";
  #lastNumber = 0;
  /** Calls that have brought nothing yet. */
  #inFlight = 0;
  /** The fields that the ask, or the lease, was given with. */
  readonly #fields: Readonly<Record<string, unknown>>;
  /** What went wrong last, for whoever has to be told something. */
  #error: LeaseError | undefined;
  /** What the store said last, if anything. */
  #reply: Reply | undefined;
  #release: Deferred<Released> | undefined;

  private constructor(line: Line, fields: object, begin: (now: number) => Session) {
    this.line = line;
    this.#fields = fields as Record<string, unknown>;
    this.#clock = line.carrier.clock ?? monotonic;
    this.#session = enter(() => begin(this.#clock.now()));
    // It has begun: they are what they are to be.
    const { token, mode = "exclusive" } = fields as { token: string; mode?: Mode };
    this.token = token;
    this.mode = mode;
  }

  /** Asks for a lease: {@link start} sends it. Throws where a field is wrong. */
  static acquire(line: Line, fields: object, waitMs: unknown, renewEveryMs: unknown): Driver {
    return new Driver(line, fields, (now) =>
      Session.acquire(line.lock, fields, waitMs, renewEveryMs, now),
    );
  }

  /** Goes on with a lease. Throws where a field is wrong. */
  static attach(line: Line, fields: { fence: unknown }, renewEveryMs: unknown): Driver {
    const driver = new Driver(line, fields, (now) =>
      Session.attach(line.lock, fields, renewEveryMs, now),
    );
    driver.fence = fields.fence as number;
    driver.#status = Status.Holding;
    return driver;
  }

  start(): void {
    this.#pump();
  }

  /** Whether the lease is held at this instant, as far as can be known. */
  get isHeld(): boolean {
    return this.heldForMs > 0;
  }

  /** How much longer, if no renewal is answered. */
  get heldForMs(): number {
    const session = this.#session;
    if (!session || this.#made !== instance()) return 0;
    return enter(() => session.heldForMs(this.#clock.now()), this.#made);
  }

  /** Resolves when the store has renewed what was not yet sent when this was called. */
  renew(ttlMs?: number): Promise<void> {
    if (this.#status !== Status.Holding) return Promise.reject(this.#ending());
    const renewal = new Renewal(this.#lastNumber);
    try {
      this.#enter((session, now) => session.renew(ttlMs, now));
    } catch (error) {
      return Promise.reject(error as Error);
    }
    this.#renewals.push(renewal);
    this.#pump();
    return renewal.promise;
  }

  /** From now on renews every so many ms: `undefined` is every third of the ttl, 0 only when told to. */
  setRenewal(everyMs: number | undefined): void {
    this.#enter((session, now) => session.setRenewal(everyMs, now));
    this.#pump();
  }

  /** Gives it up although its holder has not: the holder is told why. */
  close(reason: LeaseError): Promise<Released> {
    const { onLost } = this;
    this.onLost = undefined;
    const released = this.release();
    // Whoever hears of it finds that it is not held.
    onLost?.(reason);
    return released;
  }

  /** Gives up: leaves the queue, or gives back the lease. Rejects where the store did not confirm; again after that. */
  release(): Promise<Released> {
    if (this.#release) return this.#release.promise;
    const { promise } = (this.#release = new Deferred<Released>());
    this.#enter((session, now) => session.release(now));
    this.#pump();
    return promise;
  }

  /** Hears what the store says without having been asked. */
  hearPush(push: Push): void {
    this.#reply = push as Reply;
    if (this.#enter((session, now) => session.told(push, now))) this.#pump();
  }

  /** Such a thing may have been missed. */
  missed(): void {
    this.#enter((session, now) => session.missed(now));
    this.#pump();
  }

  /** Does what is due, and sets the timer for what comes next. */
  #pump(): void {
    const due = this.#enter((session, now) => session.step(now, Math.random())) ?? Due.Over;
    const op = VERBS[due];
    if (op !== undefined) this.#send(due, op);
    if (due !== Due.Over) this.#setTimer(this.#session?.until ?? Infinity);
    this.#observe();
    // Not before: whoever was told something may await nothing any more.
    this.#timer.keepAlive(!!(this.onAnswer || this.#release || this.#renewals.length));
    if (due === Due.Over) this.#end();
  }

  #setTimer(until: number): void {
    if (until === Infinity) this.#timer.clear();
    else this.#timer.by(until, this.#clock, this.#onTime);
  }

  readonly #onTime = () => this.#pump();

  #send(due: Due, op: string): void {
    const session = this.#session!;
    const { number } = session;
    this.#lastNumber = number;
    this.#inFlight += 1;
    const call = new Sent(this.line, op, this.#sent(due, session), this.#calls);
    this.line.carrier.call(call).then(
      (reply) => this.#hear(number, reply),
      (error: unknown) => this.#miss(number, error),
    );
  }

  /** The fields of what is sent. */
  #sent(due: Due, session: Session): Record<string, unknown> {
    const { token } = this;
    switch (due) {
      case Due.Acquire:
        this.requestId = session.requestIdAnew ?? this.#fields["requestId"];
        return { ...this.#fields, requestId: this.requestId, waitMs: session.waitMs };
      case Due.Renew: {
        const { fenceSent: fence, ttlMs } = session;
        return ttlMs === undefined ? { token, fence } : { token, fence, ttlMs };
      }
      case Due.Cancel:
        return { token, requestId: this.requestId };
      default:
        return { token, fence: session.fenceSent };
    }
  }

  #hear(number: number, reply: unknown): void {
    this.#inFlight -= 1;
    if (!this.#session) return;
    if (isProblem(reply)) {
      return this.#fail(number, new NoAnswer(errorOf(reply), !mayPass(reply.code)));
    }
    const dice = Math.random();
    // About another lock it says nothing of this one.
    const { lease } = Object(reply) as Reply;
    const heard = (lease?.lock ?? this.line.lock) === this.line.lock ? Object(reply) : {};
    const isReply = this.#enter((session, now) => session.heard(number, heard, now, dice));
    if (isReply) this.#reply = reply as Reply;
    // What went wrong before an answer has no part in what comes after it.
    this.#error = isReply ? undefined : unavailable("the lease store's answer was not understood");
    if (isReply && this.#renewals.length > 0 && this.#session?.status === Status.Holding) {
      this.#settleRenewals((renewal) => renewal.isAnsweredBy(number));
    }
    this.#pump();
  }

  #miss(number: number, error: unknown): void {
    this.#inFlight -= 1;
    if (this.#session) this.#fail(number, error);
  }

  #fail(number: number, error: unknown): void {
    const isFinal = error instanceof NoAnswer && error.isFinal;
    const problem = error instanceof NoAnswer ? error.error : unavailable(undefined, error);
    this.#error = problem;
    this.#enter((session, now) => session.failed(number, isFinal, now, Math.random()));
    if (isFinal)
      this.#settleRenewals(
        (renewal) => renewal.isAnsweredBy(number),
        () => problem,
      );
    this.#pump();
  }

  /** Tells whoever awaits it what has become of the session. */
  #observe(): void {
    const before = this.#status;
    const session = this.#session;
    if (session) {
      this.#status = session.status;
      if (this.#status === Status.Lost) this.#reason = session.reason as LostReason;
      if (this.#status === Status.Holding) {
        this.fence = session.fence ?? this.fence;
        this.expiresAt = session.expiresAt ?? this.expiresAt;
      }
    }
    this.mode = this.#reply?.lease?.mode ?? this.mode;
    if (this.#status !== before || this.#release) this.#tell(before);
  }

  #tell(before: Status): void {
    const status = this.#status;
    if (status === Status.Holding) return this.#answer();
    // Made when somebody wants it: after a release nobody does.
    let ending: LeaseError | undefined;
    const error = () => (ending ??= this.#ending());
    if (status !== Status.Asking) this.#settleRenewals(() => true, error);
    if (status === Status.Unconfirmed) {
      this.#release?.reject(this.#error ?? unavailable("the release was not confirmed"));
      this.#release = undefined;
      // It is not over: it may be tried again.
      this.#giveUpCalls();
      this.#calls = new Abandon();
    } else if (status !== Status.Asking && status !== Status.Releasing) {
      if (status === Status.Lost) this.#release?.resolve({ status: "lost", reason: this.#reason });
      else if (status === Status.Failed) this.#release?.reject(error());
      else this.#release?.resolve({ status: "released" });
      if (status === Status.Released) this.line.desk.released(this);
      this.#answer(error);
      // Once it is being given up, nobody is told that it was lost.
      if (before === Status.Holding && status !== Status.Released) this.#lose(error());
    }
  }

  #answer(error?: () => LeaseError): void {
    const { onAnswer } = this;
    this.onAnswer = undefined;
    onAnswer?.(error?.());
  }

  #lose(error: LeaseError): void {
    const { onLost } = this;
    this.onLost = undefined;
    onLost?.(error.code === "lost" ? error : lost("unknown", error));
  }

  #settleRenewals(isSettled: (renewal: Renewal) => boolean, error?: () => LeaseError): void {
    for (const renewal of this.#renewals.splice(0)) {
      if (!isSettled(renewal)) this.#renewals.push(renewal);
      else if (error) renewal.reject(error());
      else renewal.resolve();
    }
  }

  /** What whoever awaited a lease is told when it is not, or no longer, to be had. */
  #ending(): LeaseError {
    const { holders, retryAfterMs } = this.#reply ?? {};
    switch (this.#status) {
      case Status.Held:
        return new LeaseError("held", "somebody else has the lock", {
          holders: areHolders(holders) ? holders : undefined,
          retryAfterMs,
        });
      case Status.TimedOut:
        // Who has heard nothing does not know whether anybody has the lock.
        if (!this.#reply) return this.#error ?? unavailable();
        return new LeaseError("timeout", "the lock was not to be had in time", {
          cause: this.#error,
        });
      case Status.GivenUp:
        return new LeaseError("closed", "the lock is not asked for any more");
      case Status.Lost:
        return lost(this.#reason);
      case Status.Asking:
      case Status.Holding:
      case Status.Failed:
        return this.#error ?? unavailable(this.#reply && LATE);
      case Status.Releasing:
      case Status.Unconfirmed:
      case Status.Released:
        return lost("released");
    }
  }

  /** Calls the machine with the time. A fault of its ends the session: what is lost with it is told. */
  #enter<T>(call: (session: Session, now: number) => T): T | undefined {
    const session = this.#session;
    if (!session) return undefined;
    try {
      return enter(() => call(session, this.#clock.now()), this.#made);
    } catch (error) {
      if (!(error instanceof LeaseError) || error.code !== "unavailable") throw error;
      this.#break(error);
      return undefined;
    }
  }

  #break(error: LeaseError): void {
    const before = this.#status;
    // Its memory went with the instance: there is nothing to be freed.
    this.#session = undefined;
    this.#error = error;
    this.#status = Status.Failed;
    this.#tell(before);
    this.#end();
  }

  #giveUpCalls(): void {
    if (this.#inFlight > 0) this.#calls.abort();
  }

  #end(): void {
    this.#timer.clear();
    // Whoever is told has to be made an error first, with a stack.
    this.#giveUpCalls();
    this.#session?.free();
    this.#session = undefined;
    const { onOver } = this;
    this.onOver = undefined;
    onOver?.();
  }
}

/** Tells carriers that nobody is interested any more. Its signal is made when one looks: most are answered before. */
class Abandon {
  #isAborted = false;
  #controller: AbortController | undefined;

  get isAborted(): boolean {
    return this.#isAborted;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isAborted) this.#controller.abort();
    return this.#controller.signal;
  }

  abort(): void {
    this.#isAborted = true;
    this.#controller?.abort();
  }
}

/** A command of a session's, on its way. */
class Sent implements Call {
  readonly space: string;
  readonly op: string;
  readonly lock: string;
  readonly fields: Record<string, unknown>;
  readonly listener: Desk;
  readonly #abandon: Abandon;

  constructor(
    { space, lock, desk }: Line,
    op: string,
    fields: Record<string, unknown>,
    abandon: Abandon,
  ) {
    this.space = space;
    this.op = op;
    this.lock = lock;
    this.fields = fields;
    this.listener = desk;
    this.#abandon = abandon;
  }

  get signal(): AbortSignal {
    return this.#abandon.signal;
  }

  get isAborted(): boolean {
    return this.#abandon.isAborted;
  }
}

/** A promise and its ends. That nobody looks at it is no error. */
class Deferred<T> {
  readonly promise: Promise<T>;
  resolve!: (value: T) => void;
  reject!: (error: Error) => void;

  constructor() {
    this.promise = new Promise<T>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = (error) => {
        this.promise.catch(() => {});
        reject(error);
      };
    });
  }
}

/** Somebody who awaits a renewal that is sent after they asked for it. */
class Renewal extends Deferred<void> {
  readonly #after: number;

  constructor(after: number) {
    super();
    this.#after = after;
  }

  isAnsweredBy(number: number): boolean {
    return number > this.#after;
  }
}
