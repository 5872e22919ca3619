// A watch: what the locks of a space are, and from then on how they change.
import type { Push } from "./carrier.ts";
import { type LeaseError } from "./errors.ts";
import { isState } from "./replies.ts";
import type { Change, Listing, LockChange } from "./types.ts";

/** What a watcher needs of its client. */
export interface Source {
  /** Asks once, until `asking` aborts at the latest. Never rejects. */
  ask(op: string, fields: Record<string, unknown>, asking: AbortController): Promise<Answered>;
  /** Nothing more is wanted of `watcher`. */
  leave(watcher: Watcher): void;
}

/** What came of a question: a reply, or what is wrong and whether asking again is of no use. */
export type Answered = readonly [reply: unknown, error?: LeaseError, isFinal?: boolean];

/** A change as it is pushed. */
export type Told = Push & LockChange;

/** So many changes are kept for whoever reads slowly; of more, only the latest of each lock. */
const KEPT = 1_000;

/** Attempts to begin start this far apart and double up to the cap, ms. */
const PAUSE_MS = 50;
const PAUSE_CAP_MS = 5_000;

/** After so many attempts in a row that brought no answer the watch is over. */
const ATTEMPTS = 10;

export class Watcher {
  readonly space: string;
  readonly prefix: string;
  readonly #source: Source;
  readonly #changes = new Changes();
  /** Whether the store tells of changes. */
  #isOn = false;
  /** How often it had to start over. */
  #round = 0;
  #end: { readonly reason: unknown } | undefined;
  #wake = () => {};

  constructor(space: string, prefix: string, source: Source) {
    this.space = space;
    this.prefix = prefix;
    this.#source = source;
  }

  /** Whoever reads is told this from now on, and nothing else. */
  end(reason: unknown): void {
    this.#end ??= { reason };
    this.#wake();
  }

  hear(space: string, { push: _, ...change }: Told): void {
    if (!isState(change)) return;
    if (!this.#isOn || space !== this.space || !change.lock.startsWith(this.prefix)) return;
    this.#changes.add(change);
    this.#wake();
  }

  /** Changes may have been missed. */
  startOver(): void {
    if (!this.#isOn) return;
    this.#isOn = false;
    this.#round += 1;
    this.#wake();
  }

  async *read(): AsyncGenerator<Change, void, void> {
    let round = 0;
    let cursor: string | undefined;
    try {
      for (;;) {
        this.#throwIfOver();
        if (round !== this.#round) {
          round = this.#round;
          this.#changes.clear();
          yield { change: "reset" };
        } else if (!this.#changes.isEmpty) {
          yield this.#changes.take();
        } else if (!this.#isOn) {
          cursor = await this.#begin();
        } else if (cursor !== undefined) {
          // Asked for only now: who reads slowly is not sent everything there is.
          cursor = await this.#goOn(cursor);
        } else {
          await this.#awake(Infinity);
        }
      }
    } finally {
      this.#isOn = false;
      this.#source.leave(this);
    }
  }

  /** Asks to be told of changes, until that has worked. Gives the cursor of the next page. */
  async #begin(): Promise<string | undefined> {
    for (let failures = 1; ; failures += 1) {
      const [reply, error, isFinal] = await this.#ask("watch", {});
      if (!error) return (reply as Listing).cursor;
      if (isFinal || failures === ATTEMPTS) throw error;
      const pauseMs = Math.min(PAUSE_MS * 2 ** failures, PAUSE_CAP_MS);
      await this.#awake(pauseMs * (0.5 + Math.random() / 2));
      this.#throwIfOver();
    }
  }

  /** A page more of what there was when it began. What has changed since is told beside it, and is never older. */
  async #goOn(cursor: string): Promise<string | undefined> {
    const [reply, error, isFinal] = await this.#ask("list", { cursor });
    if (!error) return (reply as Listing).cursor;
    if (isFinal) throw error;
    this.startOver();
    return undefined;
  }

  async #ask(op: string, fields: Record<string, unknown>): Promise<Answered> {
    const round = this.#round;
    let answered: Answered | undefined;
    const asking = new AbortController();
    void this.#source.ask(op, { prefix: this.prefix, ...fields }, asking).then((answer) => {
      answered = answer;
      if (!answer[1] && round === this.#round && !this.#end) this.#fill(answer[0] as Listing);
      this.#wake();
    });
    while (!answered && !this.#end && round === this.#round) await this.#awake(Infinity);
    asking.abort();
    this.#throwIfOver();
    return answered ?? [{}];
  }

  /** At once when the page is there: what is pushed after it is newer. */
  #fill(page: Listing): void {
    this.#isOn = true;
    for (const lock of page.locks) this.#changes.add({ change: "present", ...lock });
  }

  #throwIfOver(): void {
    if (this.#end) throw this.#end.reason;
  }

  /** Resolves when something has happened, or after so long. Keeps the process alive meanwhile. */
  #awake(lengthMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake(), Math.min(lengthMs, 2 ** 31 - 1));
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = () => {};
        resolve();
      };
    });
  }
}

/** What was not read yet. */
class Changes {
  readonly #all: LockChange[] = [];
  /** The latest of each lock, in place of all of them when there are too many. */
  readonly #latest = new Map<string, LockChange>();

  get isEmpty(): boolean {
    return this.#all.length === 0 && this.#latest.size === 0;
  }

  add(change: LockChange): void {
    if (this.#latest.size === 0 && this.#all.length < KEPT) {
      this.#all.push(change);
      return;
    }
    for (const each of [...this.#all.splice(0), change]) {
      // Last, since it is the latest.
      this.#latest.delete(each.lock);
      this.#latest.set(each.lock, each);
    }
  }

  take(): LockChange {
    const [change] = this.#latest.size > 0 ? this.#latest.values() : [this.#all.shift()];
    this.#latest.delete(change!.lock);
    return change!;
  }

  clear(): void {
    this.#all.length = 0;
    this.#latest.clear();
  }
}
