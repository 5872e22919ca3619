// What the README prints works as printed, in its order: only the address of the store is another.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { type Json, Store } from "./support/store.ts";
import { UserFolder } from "./support/user-folder.ts";
import { Workerd } from "./support/workerd.ts";

const readme = readFileSync(resolve(import.meta.dirname, "../README.md"), "utf8");
const blocks = [...readme.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, text]) => ({
  language: language!,
  text: text!,
}));
const ADDRESS = "http://127.0.0.1:8787";

let folder: UserFolder;

before(async () => {
  folder = await UserFolder.create();
});
after(() => folder?.[Symbol.asyncDispose]());

/** The one block that has this text in it. */
function block(language: string, part: string): string {
  const found = blocks.filter((block) => block.language === language && block.text.includes(part));
  assert.equal(found.length, 1, `blocks of ${language} with ${part}`);
  return found[0]!.text;
}

/** What every command of a block printed. */
async function shell(text: string, url: string): Promise<Json[]> {
  const { stdout } = await promisify(execFile)("sh", ["-e", "-c", text.replaceAll(ADDRESS, url)]);
  // Nothing is printed between the replies.
  return JSON.parse(`[${stdout.replaceAll("}{", "},{")}]`);
}

test("the commands give what is said beside them, one after the other", async () => {
  await using workerd = await Workerd.start();
  const commands = blocks.filter(({ language, text }) => language === "sh" && /^curl/m.test(text));
  assert.equal(commands.length, 5);
  const replies: Json[][] = [];
  for (const { text } of commands) replies.push(await shell(text, workerd.url));
  const [[taken], [refused], [waits], [inspected, listed], [revoked]] = replies as [
    Json[],
    Json[],
    Json[],
    Json[],
    Json[],
  ];

  assert.equal(taken.status, "granted");
  const { lock, token, ttlMs, fence } = taken.lease;
  assert.deepEqual([lock, token, ttlMs], ["invoice:42", "my-secret-1", 60_000]);

  assert.equal(refused.status, "held");
  assert.equal(refused.holders[0].fence, fence);
  assert.ok(refused.retryAfterMs > 0);

  assert.deepEqual([waits.status, waits.position], ["waiting", 1]);

  assert.equal(inspected.lock, "invoice:42");
  assert.deepEqual([inspected.holders.length, inspected.waiters.length], [1, 1]);
  assert.deepEqual([listed.locks.length, listed.locks[0].lock], [1, "invoice:42"]);
  assert.ok(!JSON.stringify([refused, inspected, listed]).includes("my-secret"));

  assert.deepEqual(revoked, { revoked: 1 });
  const { reply } = await new Store(workerd).command("renew", "invoice:42", { token, fence });
  assert.deepEqual(reply, { status: "lost", reason: "revoked" });
});

test("the first example", async () => {
  await using workerd = await Workerd.start();
  const example = block("js", "mine, fence").replaceAll(ADDRESS, workerd.url);
  assert.match(await folder.run("first.js", example), /^mine, fence \d+\nsomebody else: null\n$/);
  assert.deepEqual((await new Store(workerd).send("/locks")).reply.locks, []);
});

test("the example of the classic protocol", async () => {
  await using workerd = await Workerd.start();
  const example = block("js", "new DistributedLock(");
  // It goes on from the first one, so `locks` is there; and it says what is done where it says nothing.
  const said = example.replace(
    "// ...",
    'console.log((await locks.inspect("resource:123")).holders);',
  );
  assert.notEqual(said, example);
  const text = `import { Leasehold } from "leasehold";
const locks = new Leasehold("${workerd.url}");
${said}`;
  assert.match(await folder.run("classic.js", text), /fence: \d+/);
  assert.deepEqual((await new Store(workerd).send("/locks")).reply.locks, []);
});

test("the Worker of one's own", async () => {
  await mkdir(join(folder.path, "src"), { recursive: true });
  await writeFile(join(folder.path, "src/index.js"), block("js", "// src/index.js"));
  await writeFile(join(folder.path, "wrangler.jsonc"), block("jsonc", "// wrangler.jsonc"));
  const url = await folder.serve();
  const fences: number[] = [];
  for (let round = 0; round < 2; round += 1) {
    const text = await (await fetch(url)).text();
    assert.match(text, /^built under fence \d+$/);
    fences.push(Number(text.split(" ").at(-1)));
  }
  assert.ok(fences[1]! > fences[0]!);
});
