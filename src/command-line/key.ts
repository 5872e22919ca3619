// `key`: makes a key at random, and its entry for the secret LEASEHOLD_KEYS. It is kept nowhere else.
import { createHash, randomBytes } from "node:crypto";
import { existsSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { Exit, Failure, misused } from "./exit.ts";
import { printSurely } from "./print.ts";
import { textOf } from "./values.ts";
import type { Command } from "./words.ts";

const RIGHTS: readonly string[] = ["read", "lock", "admin"];

export const key: Command = {
  summary: "make a key, and its entry for the secret LEASEHOLD_KEYS",
  words: "<id>",
  isLocal: true,
  options: {
    spaces: { value: "names", help: "where it counts: names, or prefixes with a *, with commas" },
    allow: { value: "rights", help: "what it may: read, lock, admin, with commas" },
    keys: {
      value: "path",
      help: "put the entry into this file, as serve takes it, not on the screen",
    },
    json: { help: "print one JSON object with both" },
  },
  more: "The key is shown this once. Its holder sets LEASEHOLD_KEY; the entry holds only its SHA-256.",
  async run(words) {
    const [id, spaces, allow] = [words.only("<id>"), words.text("spaces"), words.text("allow")];
    const file = words.text("keys");
    const terms = { id: idOf(id), spaces: spacesOf(spaces), allow: rightsOf(allow) };
    const key = `lh_${randomBytes(32).toString("base64url")}`;
    const sha256 = createHash("sha256").update(key).digest("hex");
    const entry = { id: terms.id, sha256, spaces: terms.spaces, allow: terms.allow };
    const entries = file === undefined ? [] : entriesOf(file, entry.id);
    const both = `${key}\n${JSON.stringify(entry)}`;
    // First: an entry whose key nobody was told is of no use.
    await printSurely(
      words.has("json") ? JSON.stringify({ key, entry }) : file === undefined ? both : key,
    );
    if (file !== undefined) replace(file, [...entries, entry]);
    return Exit.done;
  },
};

function idOf(id: string): string {
  if (/^[\w.-]{1,64}$/.test(id)) return id;
  throw misused("<id> must be 1 to 64 letters, digits, dots, underscores and hyphens");
}

function spacesOf(text: string | undefined): string[] {
  if (text === undefined) throw misused("--spaces is missing: its names, or '*' for all");
  const spaces = text.split(",");
  if (spaces.every((space) => /^(?!-)[^*]*\*?$/.test(space) && space !== "")) return spaces;
  throw misused("--spaces must be names of spaces, each of which may end with a *");
}

function rightsOf(text: string | undefined): string[] {
  if (text === undefined) throw misused("--allow is missing: any of read,lock,admin");
  const rights = text.split(",");
  const isRight = (right: string, at: number) =>
    RIGHTS.includes(right) && rights.indexOf(right) === at;
  if (rights.every(isRight)) return rights;
  throw misused("--allow must be any of read, lock and admin, each at most once");
}

/** Those there are, without one of that id. */
function entriesOf(file: string, id: string): unknown[] {
  const entries: unknown = existsSync(file) ? parsed(textOf(file, "--keys")) : [];
  if (!Array.isArray(entries)) throw misused("--keys must name a file with a JSON list, or none");
  if (entries.every((other) => Object(other).id !== id)) return entries;
  throw misused(`--keys has an entry ${id} already: take it out, or choose another <id>`);
}

/** As a whole: on a full disk the file stays as it was. One that is new only its owner may read, and write. */
function replace(file: string, entries: readonly unknown[]): void {
  const path = existsSync(file) ? realpathSync(file) : file;
  const mode = existsSync(file) ? statSync(file).mode : 0o600;
  const next = `${path}.${process.pid}`;
  try {
    writeFileSync(next, `${JSON.stringify(entries, null, 2)}\n`, { mode });
    renameSync(next, path);
  } catch (error) {
    rmSync(next, { force: true });
    const why = `--keys cannot be written, and that key counts nowhere: ${(error as Error).message}`;
    throw new Failure(Exit.output, "output", why);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
