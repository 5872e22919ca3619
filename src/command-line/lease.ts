// `acquire`, `renew`, `release`: a lease that outlives the process which asked for it, as scripts need.
import { constants } from "node:os";
import type { Lease } from "leasehold";
import { askedOf, clientOf, leaseOf } from "./client.ts";
import { Exit, Failure, lostLine, misused } from "./exit.ts";
import { length, plain, print, printJson, printSurely } from "./print.ts";
import { interruptible } from "./signals.ts";
import { granted, TERMS, wishOf } from "./terms.ts";
import { durationMs } from "./values.ts";
import type { Command, Options } from "./words.ts";

export const acquire: Command = {
  summary: "take a lock and print the lease, its token included",
  words: "<lock>",
  options: {
    ...TERMS,
    format: { value: "json|env", help: "json unless given; env: lines for eval in a shell" },
  },
  more: `Nobody renews the lease: renew it, or ask for a --ttl that is long enough. Whoever has the token can renew and
release it. In a shell script: lease=$(leasehold acquire <lock> --format env) || exit; eval "$lease"
After that renew and release need no options.`,
  async run(words) {
    const format = words.value("format", formatOf) ?? "json";
    const wish = wishOf(words);
    const locks = clientOf(words);
    const { url, space } = askedOf(words);
    return interruptible(locks, async ({ signal }) => {
      // As after any failure: see main.
      if (format === "env") signal.addEventListener("abort", () => print(exitLine(signal)));
      const lease = await granted(locks, url, wish, { signal, renew: false });
      // One that was waited for is short until its first renewal, and this process ends before that.
      if (wish.waits) await lease.renew();
      signal.throwIfAborted();
      // A lease of which nobody has the token is given back: what is thrown here ends it.
      await printSurely(shown(lease, space, format));
      return Exit.done;
    });
  },
};

/** How renew and release are told which lease. */
const PROOF: Options = {
  token: { value: "token", help: "others see it in ps: prefer LEASEHOLD_TOKEN or --token-file" },
  "token-file": { value: "path", help: "a file with the token in it, - for standard input" },
  fence: { value: "n", help: "else LEASEHOLD_FENCE" },
};

export const renew: Command = {
  summary: "make a lease last on",
  words: "<lock>",
  options: { ...PROOF, ttl: { value: "duration", help: "its length from now on; else as before" } },
  async run(words) {
    const options = leaseOf(words);
    const ttlMs = words.value("ttl", durationMs);
    const lease = clientOf(words).attach({ ...options, renew: false });
    await lease.renew(ttlMs);
    if (words.has("json")) printJson(lease);
    else print(`renewed ${nameOf(lease)}, held for ${length(lease.heldForMs)}`);
    return Exit.done;
  },
};

export const release: Command = {
  summary: "give a lease back",
  words: "<lock>",
  options: PROOF,
  async run(words) {
    const lease = clientOf(words).attach({ ...leaseOf(words), renew: false });
    const released = await lease.release();
    if (released.status === "lost") {
      throw new Failure(Exit.lost, "lost", lostLine(released.reason));
    }
    if (words.has("json")) printJson(released);
    else print(`released ${nameOf(lease)}`);
    return Exit.done;
  },
};

function formatOf(text: string, option: string): "json" | "env" {
  if (text === "json" || text === "env") return text;
  throw misused(`${option} must be json or env`);
}

function exitLine({ reason }: AbortSignal): string {
  return `exit ${128 + constants.signals[reason as NodeJS.Signals]}`;
}

function shown(lease: Lease, space: string, format: "json" | "env"): string {
  const { lock, token, fence, mode, expiresAt } = lease;
  if (format === "json") return JSON.stringify({ space, lock, token, fence, mode, expiresAt });
  const variables = { SPACE: space, LOCK: lock, FENCE: String(fence), TOKEN: token };
  return Object.entries(variables)
    .map(([name, value]) => `export LEASEHOLD_${name}='${value.replaceAll("'", `'\\''`)}'`)
    .join("\n");
}

function nameOf(lease: Lease): string {
  return `${plain(lease.lock)}, fence ${lease.fence}`;
}
