// How the command ends: its exit codes, and the errors that become them.
import { type Holder, LeaseError, type LostReason } from "leasehold";
import type { Asked } from "./client.ts";
import { holderLine, length, plain } from "./print.ts";

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

/** What has become of an ask, and what to do about it. */
export function failureOf(error: unknown, asked: Asked): Failure {
  if (error instanceof Failure) return error;
  if (!(error instanceof LeaseError)) return fault(error);
  const { code, message, cause } = error;
  const { url, space, key, conflict } = asked;
  switch (code) {
    case "held":
      return new Failure(
        conflict,
        code,
        `${message}${error.holders?.map(whose).join("") ?? ""}: --wait waits for it`,
      );
    case "timeout":
      // Who waited for a store that did not answer was not kept waiting by a holder.
      return cause instanceof LeaseError && cause.code === "unavailable"
        ? failureOf(cause, asked)
        : new Failure(conflict, code, `${message}: inspect shows who has it, --wait waits longer`);
    case "lost":
      return new Failure(Exit.lost, code, lostLine(error.reason));
    case "invalid_argument":
      return new Failure(Exit.usage, "usage", inWords(message, error.field));
    case "limit_mismatch":
      return new Failure(Exit.usage, code, `--limit must be that of those who hold it: ${message}`);
    case "unauthorized":
      return new Failure(
        Exit.denied,
        code,
        key !== undefined
          ? `the lease store at ${url} does not know this key: ask who runs it for one`
          : `the lease store at ${url} wants a key: set LEASEHOLD_KEY, or give --key-file`,
      );
    case "forbidden":
      return new Failure(
        Exit.denied,
        code,
        `the key may not do that in the space ${plain(space)}, ${message}: give another key, or --space`,
      );
    case "not_found":
      return new Failure(Exit.unavailable, code, `there is no lease store at ${url}; ${ELSEWHERE}`);
    case "unavailable":
      // The store has answered, too late for so short a lease.
      if (message === LATE)
        return new Failure(Exit.lost, "lost", `${message}: give a longer --ttl or --max-hold`);
      return unavailable(
        `${message.includes(url) ? message : `no answer from ${url}: ${message}`}${why(cause)}; ${ELSEWHERE}`,
      );
    default:
      // A store that is full, or one that is newer than this and refuses for a reason of its own.
      return new Failure(
        Exit.unavailable,
        code,
        `${code.replaceAll("_", " ")}, at ${url}: ${message}`,
      );
  }
}

/** What the client says of such a lease: its code does not tell it from a store that is away. */
const LATE = "the lease was over when it arrived";

const ELSEWHERE = "see that it runs there, or give another with --url or LEASEHOLD_URL";

/** Of a lease that is over. */
export function lostLine(reason: LostReason | undefined): string {
  return reason === "unknown"
    ? "the lease is lost: the store does not know it; look at the lock, --space, --token and --fence"
    : `the lease is lost: ${reason}; somebody else may have the lock, acquire it anew`;
}

/** Nobody's wish. */
export function fault(error: unknown): Failure {
  const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return new Failure(Exit.software, "fault", `this should not happen, please report it: ${what}`);
}

/** What the system said of it: fetch wraps that, once for each address of a name. */
export function why(error: unknown): string {
  let last = error;
  for (let next = last; next instanceof Error; next = causeOf(next)) last = next;
  return last instanceof Error && last.message !== "" ? ` (${last.message})` : "";
}

function causeOf(error: Error): unknown {
  return error instanceof AggregateError ? error.errors[0] : error.cause;
}

function whose(holder: Holder): string {
  return `; ${holderLine(holder)}`;
}

/** The store's rule names the field of the protocol first, and counts in milliseconds. */
function inWords(message: string, field: string | undefined): string {
  const word = field === undefined ? undefined : WORDS[field];
  if (word === undefined || !message.startsWith(`${field} `)) return message;
  return (word + message.slice(field!.length)).replace(
    /an integer from (\d+) to (\d+) \(milliseconds\)/,
    (_, least, most) => `a duration from ${length(Number(least))} to ${length(Number(most))}`,
  );
}
