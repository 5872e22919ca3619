// The client, as the options and the environment say.
import { hostname } from "node:os";
import { Leasehold } from "leasehold";
import { misused } from "./exit.ts";
import { integer, secretIn } from "./values.ts";
import type { Words } from "./words.ts";

/** Where the lease store is, and which of its spaces is meant. */
export function placeOf(words: Words): { readonly url: string; readonly space: string } {
  const { LEASEHOLD_URL, LEASEHOLD_SPACE } = process.env;
  return {
    url: words.text("url") ?? (LEASEHOLD_URL || "http://127.0.0.1:8787"),
    space: words.text("space") ?? (LEASEHOLD_SPACE || "default"),
  };
}

export function clientOf(words: Words): Leasehold {
  const { url, space } = placeOf(words);
  const key = secretOf(words, "key");
  return new Leasehold(url, {
    space,
    // Who it is, for inspect: public, and at most 128 bytes.
    clientId: `${hostname().slice(0, 100)}:${process.pid}`,
    ...(key !== undefined && { key }),
  });
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
