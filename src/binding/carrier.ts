// What brings a command to a store and its reply back.
import type { Clock } from "./clock.ts";
import type { LeaseError } from "./errors.ts";

/** A command on its way. */
export interface Call {
  readonly space: string;
  /** The verb of the protocol. */
  readonly op: string;
  /** Absent for `list`, `watch` and `unwatch`. */
  readonly lock?: string;
  /** Plain values. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Aborts when nobody is interested in the reply any more. */
  readonly signal: AbortSignal;
  /** Whether it has, where that can be said without a signal: to make one takes longer than most commands. */
  readonly isAborted?: boolean;
  /** Who calls, and is told what it did not ask for. */
  readonly listener: Listener;
  /** The reply must come in step with what is pushed: by the same way, or not at all. */
  readonly inStep?: boolean;
}

/** Whom a store can tell something without having been asked. */
export interface Listener {
  /** A push, as it came, and always after the replies that were sent before it. */
  onPush(space: string, push: Push): void;
  /** What would have been pushed may not have been, and is not remembered by the store. */
  onGap(space: string): void;
  /** Whether there is anything that could be pushed to it. */
  isListening(space: string): boolean;
}

/** What the store says without having been asked: nothing is assumed of it but this. */
export interface Push {
  readonly push: string;
  readonly lock?: string;
}

/** A way to a store. Calls that are made one after the other arrive in that order. */
export interface Carrier {
  /**
   * Resolves with the reply, which may be problem details, as it came: nothing is assumed of it.
   * Rejects with {@link NoAnswer}, or anything, where there is none.
   */
  call(call: Call): Promise<unknown>;
  /** Nothing more comes from that caller, and nothing is to be pushed to it. */
  leave?(listener: Listener): void;
  /** Resolves when what was called before in that space has arrived, as far as that is waited for. */
  settled?(space: string): Promise<void>;
  /** The clock that its holders count on, where it is not the usual one. */
  readonly clock?: Clock;
}

/** No reply came. Whether the command was carried out is unknown. */
export class NoAnswer extends Error {
  readonly error: LeaseError;
  /** Asking again is of no use, or would do harm. */
  readonly isFinal: boolean;

  constructor(error: LeaseError, isFinal: boolean) {
    super(error.message, { cause: error });
    this.error = error;
    this.isFinal = isFinal;
  }
}
