// What the README and docs/http.md print works as printed: only the address of the store is another.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { Leasehold } from "leasehold";
import { type Block, blocksOf } from "./support/documentation.ts";
import { type Json, Store } from "./support/store.ts";
import { UserFolder } from "./support/user-folder.ts";
import { Workerd } from "./support/workerd.ts";

const readme = blocksOf("README.md");
const ADDRESS = "http://127.0.0.1:8787";

let folder: UserFolder;

before(async () => {
  folder = await UserFolder.create();
});
after(() => folder?.[Symbol.asyncDispose]());

/** The one block that has this text in it. */
function block(language: string, part: string, among: readonly Block[] = readme): string {
  const found = among.filter((block) => block.language === language && block.text.includes(part));
  assert.equal(found.length, 1, `blocks of ${language} with ${part}`);
  return found[0]!.text;
}

/** What every command of a block printed. */
async function shell(text: string, url: string): Promise<Json[]> {
  const { stdout } = await promisify(execFile)("sh", ["-e", "-c", text.replaceAll(ADDRESS, url)]);
  // Nothing is printed between the replies.
  return JSON.parse(`[${stdout.replaceAll("}{", "},{")}]`);
}

test("the commands over HTTP give what is said beside them, one after the other", async () => {
  await using workerd = await Workerd.start();
  const commands = blocksOf("docs/http.md").filter(({ language }) => language === "sh");
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
  const example = block("js", "somebody else:").replaceAll(ADDRESS, workerd.url);
  assert.match(await folder.run("first.js", example), /^mine, fence \d+\nsomebody else: null\n$/);
  assert.deepEqual((await new Store(workerd).send("/locks")).reply.locks, []);
});

test("the example of a page, or of a process elsewhere", async () => {
  await using workerd = await Workerd.start();
  const example = block("js", "https://locks.example.com");
  const text = example
    .replace("https://locks.example.com", workerd.url)
    .replace("{ key }", '{ key: "any" }');
  assert.match(await folder.run("elsewhere.js", text), /^editing under fence \d+\n$/);
});

/** Examples that go on from the first one, by a part of each: what they print. */
const PRINTED = {
  "lease.heldForMs":
    /^true \d+\n\{\n {2}lock: 'invoice:42',\n {2}holders: \[[^]*\],\n {2}waiters: \[\]\n\}\n$/,
  requestAll: /^both mine, fences \d+ \d+\n$/,
  "locks.elect(": /^leading under fence \d+\n$/,
  "locks.watch(": /^present invoice:1\nreleased invoice:1\n$/,
  "locks.attach(": /^$/,
  "locks.query()": /^0 undefined 0 0\n$/,
  "new DistributedLock(": /fence: \d+/,
};

/** What stands before an example where it alone would come to no end, or to nothing. */
const BEFORE: Readonly<Record<string, string>> = {
  // It is told to stop when it has said that it leads.
  "locks.elect(": `const { log } = console;
    console.log = (...words) => (log(...words), process.kill(process.pid, "SIGTERM"));`,
  // Somebody has a lock, and gives it back when it is seen.
  "locks.watch(": `const seenLease = await locks.acquire("invoice:1");
    const { log } = console;
    console.log = (...words) => (log(...words), seenLease.release());`,
};

for (const [part, printed] of Object.entries(PRINTED)) {
  test(`the example of ${part}`, async () => {
    await using workerd = await Workerd.start();
    const example = block("js", part)
      // It says what is done where the example says nothing.
      .replace("// ...", 'console.log((await locks.inspect("resource:123")).holders);');
    const text = `import { Leasehold } from "leasehold";
      const locks = new Leasehold("${workerd.url}");
      ${BEFORE[part] ?? ""}
      ${example}`;
    assert.match(await folder.run("example.js", text), printed);
    assert.deepEqual((await new Store(workerd).send("/locks")).reply.locks, []);
  });
}

test("every example of the README is run by a test", () => {
  const elsewhere = ["// src/index.js", "somebody else:", "https://locks.example.com"];
  const parts = [...elsewhere, ...Object.keys(PRINTED), "leasehold/fence"];
  const examples = readme.filter(({ language }) => language === "js");
  for (const { text } of examples)
    assert.ok(
      parts.some((part) => text.includes(part)),
      text,
    );
});

test("the Worker of one's own", async () => {
  await folder.write("wrangler.jsonc", block("jsonc", "// wrangler.jsonc"));
  await folder.write("src/index.js", block("js", "// src/index.js\n"));
  const url = await folder.serve();
  const fences: number[] = [];
  for (let round = 0; round < 2; round += 1) {
    const text = await (await fetch(url)).text();
    assert.match(text, /^built under fence \d+$/);
    fences.push(Number(text.split(" ").at(-1)));
  }
  assert.ok(fences[1]! > fences[0]!);
  // Nothing of the store is on the internet unless the Worker hands it on.
  assert.match(await (await fetch(`${url}/v1/spaces/default/locks`)).text(), /^built under/);
});

test("the Worker with routes of its own", async () => {
  await folder.write("routes/wrangler.jsonc", block("jsonc", "// wrangler.jsonc"));
  await folder.write("routes/src/index.js", block("js", "with routes of its own"));
  const closed = await folder.serve("routes/wrangler.jsonc");
  assert.equal((await fetch(`${closed}/v1/spaces/default/locks`)).status, 503);
  // As the README has it for `wrangler dev`.
  await folder.write("routes/.dev.vars", "LEASEHOLD_OPEN=true");
  const url = await folder.serve("routes/wrangler.jsonc");
  assert.match(await (await fetch(`${url}/report`)).text(), /^built under fence \d+$/);
  assert.equal((await fetch(`${url}/elsewhere`)).status, 404);
  const locks = new Leasehold(url);
  // The same store: the Worker waits for who has the lock over its own address.
  const lease = await locks.acquire("report");
  const report = fetch(`${url}/report`);
  while ((await locks.inspect("report")).waiters.length === 0);
  await lease.release();
  assert.match(await (await report).text(), /^built under fence \d+$/);
  await locks.close();
});
