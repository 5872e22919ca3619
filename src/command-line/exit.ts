// How the command ends: its exit codes, and the errors that become them.
import { type Holder, LeaseError } from "leasehold";
import { holderLine } from "./print.ts";

/** Those of sysexits.h where there is one; `run` has its command's own beside them. */
export const Exit = {
  done: 0,
  /** Somebody else has the lock. After flock(1), and `-E` sets another. */
  conflict: 1,
  /** Wrong words. */
  usage: 64,
  /** No lease store answers, or what it takes to be one is missing. */
  unavailable: 69,
  /** A fault that is nobody's wish. */
  software: 70,
  /** What is printed cannot be written. */
  output: 74,
  /** The lease is over, and not by its holder's release. */
  lost: 75,
  /** The key is missing, wrong, or may not do that. */
  denied: 77,
  /** Nobody reads what is printed: as SIGPIPE would have it, 128 and its number. */
  unread: 141,
  /** Of `run`: the command is there and cannot be run. */
  notExecutable: 126,
  /** Of `run`: there is no such command. */
  notFound: 127,
} as const;

/** The end of the command: what is said on standard error, and the exit code. */
export class Failure extends Error {
  readonly exit: number;
  /** For machines. */
  readonly code: string;

  constructor(exit: number, code: string, message: string) {
    super(message);
    this.exit = exit;
    this.code = code;
  }
}

/** What is wrong with the words, and what to do about it. */
export function misused(message: string): Failure {
  return new Failure(Exit.usage, "usage", message);
}

export function unavailable(message: string): Failure {
  return new Failure(Exit.unavailable, "unavailable", message);
}

/** Standard output does not take what is printed. */
export function unwritten(error: Error): Failure {
  const exit = (error as NodeJS.ErrnoException).code === "EPIPE" ? Exit.unread : Exit.output;
  return new Failure(exit, "output", `standard output cannot be written: ${error.message}`);
}

/** The option or word that a field of the protocol is given by. */
const WORDS: Readonly<Record<string, string>> = {
  lock: "<lock>",
  prefix: "[prefix]",
  target: "--url",
  key: "--key",
  space: "--space",
  token: "--token",
  fence: "--fence",
  reason: "--reason",
  ttlMs: "--ttl",
  waitMs: "--wait",
  limit: "--limit",
  maxHoldMs: "--max-hold",
  lockDelayMs: "--lock-delay",
  info: "--info",
};

/** `conflict`: the exit code for a lock that somebody else has. */
export function failureOf(error: unknown, conflict: number = Exit.conflict): Failure {
  if (error instanceof Failure) return error;
  if (!(error instanceof LeaseError)) {
    return new Failure(Exit.software, "fault", `this should not happen: ${stackOf(error)}`);
  }
  const { code, message } = error;
  switch (code) {
    case "held":
      return new Failure(conflict, code, `${message}${error.holders?.map(whose).join("") ?? ""}`);
    case "timeout":
      // Who waited for a store that did not answer was not kept waiting by a holder.
      return isUnavailable(error.cause)
        ? unavailable((error.cause as LeaseError).message)
        : new Failure(conflict, code, message);
    case "lost":
      return new Failure(Exit.lost, code, message);
    case "invalid_argument":
      return new Failure(Exit.usage, "usage", inWords(message, error.field));
    case "limit_mismatch":
      return new Failure(Exit.usage, code, `--limit must be that of those who hold it: ${message}`);
    case "unauthorized":
    case "forbidden":
      return new Failure(Exit.denied, code, message);
    default:
      // No store, a full one, or one that is newer than this and refuses for a reason of its own.
      return new Failure(Exit.unavailable, code, message);
  }
}

function whose(holder: Holder): string {
  return `; ${holderLine(holder)}`;
}

function isUnavailable(cause: unknown): boolean {
  return cause instanceof LeaseError && cause.code === "unavailable";
}

/** The store's rule names the field of the protocol first. */
function inWords(message: string, field: string | undefined): string {
  const word = field === undefined ? undefined : WORDS[field];
  return word !== undefined && message.startsWith(`${field} `)
    ? word + message.slice(field!.length)
    : message;
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
