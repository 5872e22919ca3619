// What brings a command to a store and its reply back.
import type { Clock } from "./clock.ts";
import type { LeaseError } from "./errors.ts";

/** A command on its way. */
export interface Call {
  readonly space: string;
  /** The verb of the protocol. */
  readonly op: string;
  /** Absent for `list`. */
  readonly lock?: string;
  /** Plain values. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Aborts when nobody is interested in the reply any more. */
  readonly signal: AbortSignal;
}

/** A way to a store. */
export interface Carrier {
  /**
   * Resolves with the reply, which may be problem details, as it came: nothing is assumed of it.
   * Rejects with {@link NoAnswer}, or anything, where there is none.
   */
  call(call: Call): Promise<unknown>;
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
