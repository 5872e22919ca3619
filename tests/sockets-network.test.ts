// Many clients for a while on a network that breaks all the time: CHAOS_MS makes it longer, SEED repeats what was thrown.
// And a line that is only slow, and a store that has only so many connections.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Leasehold } from "leasehold";
import { sleep, until } from "./support/cases.ts";
import { dice } from "./support/faulty.ts";
import { Proxy } from "./support/proxy.ts";
import { Workerd } from "./support/workerd.ts";

const LENGTH_MS = Number(process.env["CHAOS_MS"] ?? 20_000);

/** What a network does for a while: at most so long that a place in a queue survives it. */
const MISHAPS: ((proxy: Proxy, roll: () => number) => Promise<void>)[] = [
  async (proxy) => proxy.cut(),
  async (proxy) => {
    proxy.cutsNextChunk = true;
    await sleep(200);
    proxy.cutsNextChunk = false;
  },
  async (proxy, roll) => {
    proxy.isDown = true;
    proxy.cut();
    await sleep(roll() * 1_000);
    proxy.isDown = false;
  },
  async (proxy, roll) => {
    proxy.isDeaf = true;
    await sleep(roll() * 1_500);
    proxy.isDeaf = false;
    // What was swallowed leaves a stream that makes no sense any more.
    proxy.cut();
  },
  async (proxy, roll) => {
    proxy.delayMs = () => roll() * 150;
    await sleep(roll() * 2_000);
    proxy.delayMs = () => 0;
  },
];

test("a network that cuts, drops and delays", { timeout: LENGTH_MS + 60_000 }, async () => {
  const seed = Number(process.env["SEED"] ?? Math.floor(Math.random() * 2 ** 31));
  const roll = dice(seed);
  const rejections: unknown[] = [];
  const onRejection = (reason: unknown) => rejections.push(reason);
  process.on("unhandledRejection", onRejection);
  await using workerd = await Workerd.start();
  await using proxy = await Proxy.before(workerd.url);
  const good = new Leasehold(workerd.url);
  const clients = Array.from({ length: 6 }, () => new Leasehold(proxy.url));

  try {
    const history = record(good);
    // Places that must not be lost, and leases that must not be.
    const holder = await good.acquire("queue");
    const served: number[] = [];
    const waits: Promise<void>[] = [];
    for (let turn = 0; turn < clients.length; turn += 1) {
      const wait = clients[turn]!.request("queue", { info: turn }, () => void served.push(turn));
      wait.catch(() => {});
      waits.push(wait);
      await until(async () => (await good.inspect("queue")).waiters.length === turn + 1);
    }
    const kept = await Promise.all(
      clients.map((locks, index) => locks.acquire(`kept ${index}`, { ttlMs: 10_000 })),
    );

    const end = performance.now() + LENGTH_MS;
    let sections = 0;
    const inside = new Map<string, { fence: number; held: boolean }>();
    const work = async (locks: Leasehold) => {
      while (performance.now() < end) {
        const lock = `work ${Math.floor(roll() * 4)}`;
        const lease = await locks.acquire(lock, { ttlMs: 1_500, waitMs: 5_000 }).catch(() => null);
        if (!lease) continue;
        const before = inside.get(lock);
        assert.ok(!before || before.fence < lease.fence, "a fence did not rise");
        if (lease.held) assert.ok(!before?.held, "two believe that they hold");
        inside.set(lock, lease);
        await sleep(roll() * 50);
        sections += 1;
        await lease.release().catch(() => {});
      }
    };
    const breaking = (async () => {
      while (performance.now() < end) {
        await MISHAPS[Math.floor(roll() * MISHAPS.length)]!(proxy, roll);
        await sleep(roll() * 600);
      }
    })();
    await Promise.all([breaking, ...clients.flatMap((locks) => [work(locks), work(locks)])]);

    assert.ok(sections > LENGTH_MS / 200, `only ${sections} sections`);
    assert.deepEqual(
      kept.map(({ signal }) => signal.aborted),
      kept.map(() => false),
    );
    await until(() => kept.every(({ held }) => held));
    const { waiters } = await good.inspect("queue");
    assert.deepEqual(
      waiters.map(({ info }) => info),
      clients.map((_, turn) => turn),
    );
    await holder.release();
    await Promise.all(waits);
    assert.deepEqual(
      served,
      clients.map((_, turn) => turn),
    );
    for (const lease of kept) assert.deepEqual(await lease.release(), { status: "released" });
    await Promise.all(clients.map((locks) => locks.close()));
    await until(async () => (await good.list()).locks.length === 0);
    await until(() => proxy.open === 0);
    assert.ok((await history.end()) > sections);
    assert.deepEqual(rejections, []);
  } catch (error) {
    throw new Error(`with SEED=${seed}`, { cause: error });
  } finally {
    process.off("unhandledRejection", onRejection);
    await Promise.all([...clients, good].map((locks) => locks.close()));
  }
});

test("a line slower than the limits never had a socket", { timeout: 60_000 }, async () => {
  await using workerd = await Workerd.start();
  await using proxy = await Proxy.before(workerd.url);
  proxy.delayMs = () => 2_500;
  // Closed ones stay in it: it is the second socket that a line that is cut again and again would have.
  const opened: WebSocket[] = [];
  class Watched extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      this.addEventListener("open", () => void opened.push(this));
    }
  }
  const near = new Leasehold(workerd.url);
  const far = new Leasehold(proxy.url, { WebSocket: Watched });
  try {
    const lease = await far.acquire("slow", { ttlMs: 30_000, waitMs: 0 });
    await until(() => opened.length === 1, 30_000);
    await lease.renew();
    assert.equal(lease.held, true);
    assert.equal((await near.inspect("slow")).holders.length, 1);
    proxy.delayMs = () => 0;
    assert.deepEqual(await lease.release(), { status: "released" });
    assert.deepEqual(
      opened.map(({ readyState }) => readyState),
      [WebSocket.OPEN],
    );
  } finally {
    proxy.delayMs = () => 0;
    await Promise.all([near, far].map((locks) => locks.close()));
  }
});

test("closing without a socket asked for everything at once", { timeout: 60_000 }, async () => {
  await using workerd = await Workerd.start();
  let open = 0;
  let most = 0;
  const counted: typeof fetch = async (...request) => {
    most = Math.max(most, (open += 1));
    try {
      return await fetch(...request);
    } finally {
      open -= 1;
    }
  };
  const locks = new Leasehold(workerd.url, { fetch: counted });
  const names = Array.from({ length: 300 }, (_, index) => `many ${index}`);
  const leases = await Promise.all(names.map((name) => locks.acquire(name, { ttlMs: 60_000 })));
  await Promise.all(leases.map((lease) => lease.renew()));
  await locks.close();
  const left = new Leasehold(workerd.url);
  assert.equal((await left.list()).locks.length, 0);
  await left.close();
  assert.ok(most >= 32 && most <= 128, `${most} requests at once`);
});

/** What the store says happened: fences that rise, and never two who hold. */
function record(locks: Leasehold) {
  const controller = new AbortController();
  const last = new Map<string, number>();
  let latest = 0;
  let changes = 0;
  const reading = (async () => {
    for await (const change of locks.watch({ signal: controller.signal })) {
      assert.notEqual(change.change, "reset");
      if (change.change === "reset" || change.change === "present") continue;
      changes += 1;
      assert.ok(change.holders.length <= 1, `${change.holders.length} hold ${change.lock}`);
      if (change.change !== "acquired") continue;
      const fence = change.fence!;
      assert.ok(fence > latest, `fence ${fence} after ${latest}`);
      assert.ok(fence > (last.get(change.lock) ?? 0));
      latest = fence;
      last.set(change.lock, fence);
    }
  })();
  const outcome = reading.catch((error: unknown) => error);
  return {
    async end(): Promise<number> {
      controller.abort("the end");
      const error = await outcome;
      if (error !== "the end") throw error;
      return changes;
    },
  };
}
