// The one error of the guards. What a driver throws passes through as it is.

/** Stable: programs may rely on them. */
export type FenceErrorCode =
  /** The resource has seen a newer fence. Nothing was written, and no write under this fence ever will be. */
  | "stale_fence"
  /** An argument is wrong; `field` names it. */
  | "invalid_argument"
  /** Others kept writing to the same object of a bucket. Nothing was written; it may be tried again. */
  | "contended";

export interface FenceErrorDetails {
  readonly field?: string;
  readonly fence?: number;
  readonly newest?: number;
  readonly cause?: unknown;
}

export class FenceError extends Error {
  /** What logs show, whatever became of it in a bundle. @internal */
  static override readonly name = "FenceError";

  override readonly name = "FenceError";
  readonly code: FenceErrorCode;
  /** Which argument, with `invalid_argument`. */
  declare readonly field?: string;
  /** The fence that was refused, with `stale_fence`. */
  declare readonly fence?: number;
  /** The newest that the resource had seen when it was asked, with `stale_fence`. */
  declare readonly newest?: number;

  constructor(code: FenceErrorCode, message: string, details: FenceErrorDetails = {}) {
    const { cause, ...rest } = details;
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    Object.assign(this, rest);
  }
}

export function invalid(field: string, expected: string): FenceError {
  return new FenceError("invalid_argument", `${field} must be ${expected}`, { field });
}

export function stale(name: string, fence: number, newest: number, cause?: unknown): FenceError {
  const message = `${JSON.stringify(name)} refuses the fence ${fence}: it has seen ${newest}`;
  return new FenceError("stale_fence", message, { fence, newest, cause });
}
