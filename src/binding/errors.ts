// The one error there is, and how to make it from what the store or the Rust half says.
import type { Holder, LostReason } from "./types.ts";

/** Stable: programs may rely on them. */
export type LeaseErrorCode =
  /** Somebody else has the lock, and the call was not to wait. */
  | "held"
  /** The wait was longer than `waitMs`. */
  | "timeout"
  /** The lease ended otherwise than by its own release. */
  | "lost"
  /** An argument is wrong; `field` names it. */
  | "invalid_argument"
  | "unauthorized"
  | "forbidden"
  | "not_found"
  | "too_large"
  | "queue_full"
  /** The lock is in use with another `limit`. */
  | "limit_mismatch"
  /** The store could not be reached, or could not answer: whether anything happened is unknown. */
  | "unavailable"
  /** The client was closed. */
  | "closed";

export interface LeaseErrorDetails {
  readonly field?: string | undefined;
  readonly reason?: LostReason | undefined;
  readonly holders?: readonly Holder[] | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

export class LeaseError extends Error {
  override readonly name = "LeaseError";
  readonly code: LeaseErrorCode;
  /** Which argument, with `invalid_argument`. */
  declare readonly field?: string;
  /** Why, with `lost`. */
  declare readonly reason?: LostReason;
  /** Who has the lock, with `held`. */
  declare readonly holders?: readonly Holder[];
  /** When it may be of use to ask again, with `held`. */
  declare readonly retryAfterMs?: number;

  constructor(code: LeaseErrorCode, message: string, details: LeaseErrorDetails = {}) {
    const { cause, ...rest } = details;
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    for (const [name, value] of Object.entries(rest)) {
      if (value !== undefined) Object.assign(this, { [name]: value });
    }
  }
}

/** An argument that the Rust half never sees. */
export function invalid(field: string, expected: string): LeaseError {
  return new LeaseError("invalid_argument", `${field} must be ${expected}`, { field });
}

export function unavailable(message: string, cause?: unknown): LeaseError {
  return new LeaseError("unavailable", message, { cause });
}

export function lost(reason: LostReason, cause?: unknown): LeaseError {
  return new LeaseError("lost", `the lease is lost: ${reason}`, { reason, cause });
}

/** Problem details (RFC 9457), as the store answers and as the Rust half throws. */
export interface Problem {
  readonly code: LeaseErrorCode;
  readonly title?: string;
  readonly detail?: string;
  readonly field?: string;
}

export function isProblem(reply: unknown): reply is Problem {
  return typeof (reply as Problem | null | undefined)?.code === "string";
}

export function errorOf({ code, title, detail, field }: Problem): LeaseError {
  return new LeaseError(code, detail ?? title ?? code, { field });
}
