// The client over a socket and over HTTP, against a lease store on workerd; also from several processes.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { Leasehold } from "leasehold";
import { cases, rejectsWith, sleep, until, watching } from "./support/cases.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
before(async () => {
  workerd = await Workerd.start();
});
after(() => workerd[Symbol.asyncDispose]());

let names = 0;
const world = {
  client: (options = {}) => new Leasehold(workerd.url, options),
  name: () => `lock ${++names}`,
};

const overHttp = {
  ...world,
  client: (options = {}) => world.client({ WebSocket: false, ...options }),
};

for (const [title, run] of Object.entries(cases)) {
  test(`over a socket: ${title}`, () => run(world));
  test(`over HTTP: ${title}`, () => run(overHttp));
}
for (const [title, run] of Object.entries(watching)) {
  test(`over a socket: ${title}`, () => run(world));
}

test("what the store refuses over HTTP has its code", async () => {
  await using closed = await Workerd.start({ variables: {} });
  await rejectsWith("unavailable", new Leasehold(closed.url).inspect("a"));
  const elsewhere = new Leasehold(`${workerd.url}/elsewhere/`);
  await rejectsWith("not_found", elsewhere.inspect("a"));
  await rejectsWith("not_found", elsewhere.acquire("a"));
});

test("a lease outlives the death of its store, and a waiter keeps its place", async () => {
  await using own = await Workerd.start();
  const locks = new Leasehold(own.url);
  const lease = await locks.acquire("a", { ttlMs: 3_000 });
  const wait = locks.acquire("a");
  await until(async () => (await locks.inspect("a")).waiters.length === 1);
  await own.restart();
  await sleep(2_500);
  assert.deepEqual([lease.held, lease.signal.aborted], [true, false]);
  assert.deepEqual(await lease.release(), { status: "released" });
  const next = await wait;
  assert.ok(next.held && next.fence > lease.fence);
  await locks.close();
});

test("a client whose clock is a day off is no different", async () => {
  const real = Date.now;
  Date.now = () => real() + 86_400_000;
  try {
    await cases["ttlMs 250 ends at 250, not at 0 nor 1000"]!(world);
    await cases["renewed by itself, a lease outlives its length"]!(world);
  } finally {
    Date.now = real;
  }
});

test("two processes, 200 critical sections each: no overlap, and fences strictly rising", async () => {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-"));
  try {
    const log = join(folder, "log");
    await writeFile(log, "");
    const workers = ["one", "two"].map((who) => run("section-worker.ts", workerd.url, log, who));
    const codes = await Promise.all(workers.map(exitCode));
    assert.deepEqual(codes, [0, 0]);
    const lines = (await readFile(log, "utf8")).trimEnd().split("\n");
    assert.equal(lines.length, 800);
    let last = 0;
    for (let index = 0; index < lines.length; index += 2) {
      const [enter, leave] = [lines[index]!, lines[index + 1]!].map((line) => line.split(" "));
      assert.deepEqual([enter![0], leave![0]], ["enter", "leave"]);
      assert.deepEqual(enter!.slice(1), leave!.slice(1), "two were inside at once");
      assert.ok(Number(enter![2]) > last, "a fence did not rise");
      last = Number(enter![2]);
    }
    assert.equal(new Set(lines.map((line) => line.split(" ")[1])).size, 2);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test("a holder killed with SIGKILL is succeeded within its ttl", async () => {
  const ttlMs = 1_000;
  const holder = run("holding-worker.ts", workerd.url, "killed", String(ttlMs));
  const [fence] = (await once(createInterface(holder.stdout!), "line")) as [string];
  const locks = world.client();
  assert.equal(await locks.tryAcquire("killed"), null);
  // It is renewed meanwhile, or this would prove nothing.
  await sleep(1_500);
  assert.equal(await locks.tryAcquire("killed"), null);
  holder.kill("SIGKILL");
  const start = performance.now();
  const next = await locks.acquire("killed");
  const took = performance.now() - start;
  assert.ok(took <= ttlMs + 100, `${took} ms`);
  assert.ok(next.fence > Number(fence));
  await locks.close();
});

function run(script: string, ...words: string[]): ChildProcess {
  const path = join(import.meta.dirname, "support", script);
  return spawn(process.execPath, [path, ...words], { stdio: ["ignore", "pipe", "inherit"] });
}

async function exitCode(child: ChildProcess): Promise<unknown> {
  const [code] = await once(child, "exit");
  return code;
}
