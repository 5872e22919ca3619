// The client, as the options and the environment say.
import { hostname } from "node:os";
import { Leasehold } from "leasehold";
import { Exit, misused, why } from "./exit.ts";
import { complain } from "./print.ts";
import { exitCode, integer, secretIn } from "./values.ts";
import type { Words } from "./words.ts";

/** Who has waited for so long is told where nobody answers. */
const LOOK_MS = 5_000;

/** What is asked, where, and by whom. */
export interface Asked {
  readonly url: string;
  readonly space: string;
  readonly key: string | undefined;
  /** The exit code where somebody else has the lock. */
  readonly conflict: number;
}

export function askedOf(words: Words): Asked {
  const { LEASEHOLD_URL, LEASEHOLD_SPACE } = process.env;
  return {
    url: words.text("url") ?? (LEASEHOLD_URL || "http://127.0.0.1:8787"),
    space: words.text("space") ?? (LEASEHOLD_SPACE || "default"),
    key: secretOf(words, "key"),
    conflict: words.value("conflict-exit-code", exitCode) ?? Exit.conflict,
  };
}

export function clientOf(words: Words): Leasehold {
  const { url, space, key } = askedOf(words);
  return new Leasehold(url, {
    space,
    // Who it is, for inspect: public, and at most 128 bytes.
    clientId: `${hostname().slice(0, 100)}:${process.pid}`,
    ...(key !== undefined && { key }),
  });
}

/**
 * Says once that nobody answers at `url`, where that is so after a while, unless it is stopped before: who waits for a
 * store that is not there is not to think that it is for the lock.
 */
export function lookOut(url: string): { stop(): void } {
  const over = new AbortController();
  const timer = setTimeout(() => {
    fetch(url, { signal: over.signal }).catch((error) => {
      if (!over.signal.aborted) complain(`no answer from ${url}${why(error)}: trying on`);
    });
  }, LOOK_MS);
  over.signal.addEventListener("abort", () => clearTimeout(timer));
  return { stop: () => over.abort() };
}

/** A lease that was granted before. */
export function leaseOf(words: Words): {
  readonly lock: string;
  readonly token: string;
  readonly fence: number;
} {
  const lock = words.only("<lock>");
  const token = secretOf(words, "token");
  if (token === undefined) {
    throw misused("the token is missing: set LEASEHOLD_TOKEN, or give --token-file or --token");
  }
  const fence = words.text("fence") ?? process.env["LEASEHOLD_FENCE"];
  if (!fence) throw misused("--fence is missing, and LEASEHOLD_FENCE is not set");
  return { lock, token, fence: integer(fence, "--fence") };
}

/** From `--<name>`, `--<name>-file` or `LEASEHOLD_<NAME>`. */
function secretOf(words: Words, name: "key" | "token"): string | undefined {
  const given = words.text(name);
  const file = words.value(`${name}-file`, secretIn);
  if (given !== undefined && file !== undefined) {
    throw misused(`--${name} and --${name}-file: give one of them`);
  }
  return given ?? file ?? (process.env[`LEASEHOLD_${name.toUpperCase()}`] || undefined);
}
