// A user's Worker in Rust, tests/rust-worker, that keeps leases in the same script: beside it the packed package gives the
// class `LeaseStore`, by one export line.
import assert from "node:assert/strict";
import { cp, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { UserFolder } from "../support/user-folder.ts";

const root = resolve(import.meta.dirname, "../..");

/** What stands for a lease store that cannot answer. */
const DEAF = `export class Deaf {
  fetch() { throw new Error("not now"); }
}`;

let folder: UserFolder;
let url: string;

before(async () => {
  folder = await UserFolder.create();
  await cp(join(root, "target/rust-worker/build"), join(folder.path, "build"), { recursive: true });
  const read = (name: string) => readFile(join(root, "tests/rust-worker", name), "utf8");
  const script = `${await read("index.js")}\n${DEAF}`;
  await writeFile(join(folder.path, "index.js"), script);
  const configuration = (await read("wrangler.jsonc"))
    .replace('"bindings": [', '"bindings": [{ "name": "DEAF", "class_name": "Deaf" }, ')
    .replace('"new_sqlite_classes": [', '"new_sqlite_classes": ["Deaf", ');
  await writeFile(join(folder.path, "wrangler.jsonc"), configuration);
  url = await folder.serve();
});
after(() => folder?.[Symbol.asyncDispose]());

test("a critical section is guarded, and who waits is served", async () => {
  const counts = await Promise.all(Array.from({ length: 20 }, () => ask("/count")));
  const inOrder = counts.map(Number).sort((one, other) => one - other);
  assert.deepEqual(
    inOrder,
    Array.from({ length: 20 }, (_, index) => index + 1),
  );
});

for (const [path, said, what] of [
  ["/refused", "somebody else has the lock", "an ask that does not wait is refused"],
  ["/timed-out", "the wait was too long", "a wait ends"],
  [
    "/unheard",
    "unavailable: ",
    "a store that was never heard looked like a wait that was too long",
  ],
  ["/renewed", "held", "a lease is renewed for as long as it is needed"],
  [
    "/revoked",
    "the lease is lost: revoked",
    "work under a lease that is lost is not run to its end",
  ],
  ["/wrong", "invalid_argument: lock must be ", "what is wrong is named"],
] as const) {
  test(what, async () => {
    const text = await ask(path);
    assert.equal(text.slice(0, said.length), said);
  });
}

test("fences rise", async () => {
  const [first, second] = [Number(await ask("/fence")), Number(await ask("/fence"))];
  assert.ok(0 < first && first < second);
});

async function ask(path: string): Promise<string> {
  const response = await fetch(url + path);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return text;
}
