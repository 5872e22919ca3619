// The one error there is, and how to make it from what the store or the Rust half says.
import type { Holder, LostReason } from "./types.ts";

/** Stable: programs may rely on them. */
export type LeaseErrorCode =
  /** Somebody else has the lock, and the call was not to wait. */
  | "held"
  /** The wait was longer than `waitMs`, and the store was heard meanwhile: where it was not, it is `unavailable`. */
  | "timeout"
  /** The lease ended otherwise than by its own release. */
  | "lost"
  /** An argument is wrong; `field` names it. */
  | "invalid_argument"
  /** No key was given, or none that the service knows. */
  | "unauthorized"
  /** The key does not have the right to do that in this space, or the page's origin is not on the list. */
  | "forbidden"
  /** There is no lease store at that address. */
  | "not_found"
  /** As many wait for the lock as may: 10 000, or what the deployment sets. */
  | "queue_full"
  /** The space has as many locks, holders and waiters as it may. Those that are there go on. */
  | "space_full"
  /** The lock is in use with another `limit`. */
  | "limit_mismatch"
  /** More was asked at once, or more often, than the deployment lets anybody. */
  | "too_many_requests"
  /** The request is larger than any that this package sends. */
  | "too_large"
  /** The request did not arrive in time. */
  | "too_slow"
  /** Changes are told over a WebSocket only. As the next ones, an answer to what this package does not send. */
  | "needs_socket"
  | "upgrade_required"
  | "method_not_allowed"
  | "unsupported_media_type"
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
  /** @internal */
  static override readonly name = "LeaseError";

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
      if (value !== undefined) (this as Record<string, unknown>)[name] = value;
    }
  }
}

/** An argument that the Rust half never sees. */
export function invalid(field: string, expected: string): LeaseError {
  return new LeaseError("invalid_argument", `${field} must be ${expected}`, { field });
}

/** Whether what was refused with it may be granted a moment later, though nothing but time has changed. */
export function mayPass(code: LeaseErrorCode): boolean {
  return code === "unavailable" || code === "too_many_requests" || code === "too_slow";
}

/** Whether it says that somebody else has the lock. */
export function isTaken(error: unknown): boolean {
  return error instanceof LeaseError && (error.code === "held" || error.code === "timeout");
}

export function unavailable(
  message = "the lease store did not answer",
  cause?: unknown,
): LeaseError {
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
