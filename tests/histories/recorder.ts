// Events as tests/history-checker reads them. Times are microseconds of the machine's monotonic clock, which processes
// and threads share.

/** Who gave up and could not say so may be granted the lock for so long: its wait, five seconds of grace, and the way. */
const PLACE_LASTS_US = 7_000_000;

export interface Seen {
  readonly fence: number;
  readonly ask: string;
}

export type What =
  | {
      what: "granted";
      fence: number;
      limit: number | null;
      sentAt: number;
      expiresInMs: number;
      steal: boolean;
    }
  | { what: "kept"; fence: number; limit: null; ttlMs: number }
  | { what: "abandoned"; ask: string; limit: number | null; steal: boolean }
  | { what: "seen"; holders: Seen[] }
  | { what: "renewed"; fence: number; expiresInMs: number }
  | {
      what:
        | "released"
        | "revoked"
        | "lost"
        | "perhapsRenewed"
        | "perhapsReleased"
        | "perhapsRevoked"
        | "believed";
      fence: number;
    };

export type Recorded = What & { lock: string; calledAt: number; answeredAt: number };

export class Recorder {
  readonly events: Recorded[] = [];
  readonly startedAt: bigint;
  readonly #write: (event: Recorded) => void;

  constructor(
    startedAt = process.hrtime.bigint(),
    write: (event: Recorded) => void = (event) => this.events.push(event),
  ) {
    this.startedAt = startedAt;
    this.#write = write;
  }

  now(): number {
    return Number((process.hrtime.bigint() - this.startedAt) / 1_000n);
  }

  /** It took effect between `calledAt` and now. */
  answered(lock: string, calledAt: number, what: What): void {
    this.#write({ lock, calledAt, answeredAt: this.now(), ...what });
  }

  /** From `calledAt` on it may have taken effect; what a checker makes of that holds from then on. */
  perhaps(lock: string, calledAt: number, what: What): void {
    this.#write({ lock, calledAt, answeredAt: calledAt, ...what });
  }

  /** An ask that was given up: it took effect after `calledAt`, or never. */
  givenUp(lock: string, calledAt: number, what: What): void {
    this.#write({ lock, calledAt, answeredAt: this.now() + PLACE_LASTS_US, ...what });
  }
}
