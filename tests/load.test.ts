// Many at once: clients, locks, spaces. Nobody sees an error that is not promised, and memory stays what it is.
// `cargo xtask prove load` goes on for longer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Leasehold, LeaseError } from "leasehold";
import { ask, type Json, sleep, Store } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

const CLIENTS = 256;
const LOCKS = 64;
const seconds = Number(process.env["LEASEHOLD_SECONDS"] ?? 12);

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

test("256 clients on 64 locks of one space: nothing but grants and the end of patience, in flat memory", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  const ending = new AbortController();
  const tally = { granted: 0, timedOut: 0, held: 0, unexpected: [] as unknown[] };
  const inside = Array.from({ length: LOCKS }, () => 0);
  const fences = Array.from({ length: LOCKS }, () => 0);

  async function client(): Promise<void> {
    const locks = new Leasehold(workerd.url);
    while (!ending.signal.aborted) {
      const at = Math.floor(Math.random() * LOCKS);
      const waitMs = [0, 50, 5_000][Math.floor(Math.random() * 3)] as number;
      try {
        await locks.request(`lock-${at}`, { ttlMs: 10_000, waitMs }, async (lease) => {
          tally.granted += 1;
          assert.equal((inside[at] as number)++, 0, "two holders at once");
          assert.ok(lease.fence > (fences[at] as number), "the fence fell");
          fences[at] = lease.fence;
          if (Math.random() < 0.1) await sleep(Math.random() * 100);
          assert.ok(lease.held);
          (inside[at] as number)--;
        });
      } catch (error) {
        const code = error instanceof LeaseError ? error.code : undefined;
        if (code === "timeout") tally.timedOut += 1;
        else if (code === "held") tally.held += 1;
        else tally.unexpected.push(error);
      }
    }
  }

  const memory = async () => {
    collectGarbage();
    return {
      store: (await store.call("countBytes")) as number,
      client: process.memoryUsage().heapUsed,
    };
  };
  const clients = Array.from({ length: CLIENTS }, client);
  await sleep((seconds * 1_000) / 3);
  const early = await memory();
  await sleep((seconds * 2_000) / 3);
  const late = await memory();
  ending.abort();
  await Promise.all(clients);
  const { unexpected, ...told } = tally;
  const MB = (bytes: number) => (bytes / 1e6).toFixed(1);
  console.log(
    `proof: ${CLIENTS} clients for ${seconds} s: ${told.granted} granted, ${told.timedOut} timed out, ` +
      `${told.held} refused; store ${MB(early.store)} MB, then ${MB(late.store)}; ` +
      `all clients ${MB(early.client)} MB, then ${MB(late.client)}`,
  );
  assert.deepEqual(unexpected, []);
  assert.ok(tally.granted > CLIENTS);
  assert.ok(late.store <= early.store * 1.1 + 1_048_576, "the store grows");
  assert.ok(late.client <= early.client * 1.2 + 4_194_304, "the client grows");
  // Nothing is left of it all.
  assert.deepEqual((await store.send("/locks")).reply.locks, []);
});

test("100 000 locks held at once in a space, and every one of them by its holder", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  for (let from = 0; from < 100_000; from += 1_000) await store.call("hold", from, 1_000);
  assert.ok((await store.call("countBytes")) < 100_000_000);
  for (let at = 7; at < 100_000; at += 9_973) {
    assert.equal((await store.command("acquire", `lock-${at}`, ask())).reply.status, "held");
    const { reply } = await store.send(`/locks/lock-${at}`);
    const own = { token: `t${at}`, fence: reply.holders[0].fence };
    assert.equal((await store.command("renew", `lock-${at}`, own)).reply.status, "renewed");
    assert.equal((await store.command("release", `lock-${at}`, own)).reply.status, "released");
    assert.equal((await store.command("acquire", `lock-${at}`, ask())).reply.status, "granted");
  }
});

test("1 000 spaces, each of them with its own locks and its own fences", async () => {
  await using workerd = await Workerd.start();
  const spaces = Array.from({ length: 1_000 }, (_, at) => new Store(workerd, `space-${at}`));
  // None is to end before its release, however slow the machine is.
  const ttlMs = 86_400_000;
  const acquired = await atMost(20, spaces, (space) => {
    return space.command("acquire", "a", ask({ ttlMs }));
  });
  assert.ok(acquired.every(({ reply }) => reply.status === "granted"));
  const released = await atMost(20, spaces, (space, at) => {
    const { token, fence } = (acquired[at] as { reply: Json }).reply.lease;
    return space.command("release", "a", { token, fence });
  });
  assert.ok(released.every(({ reply }) => reply.status === "released"));
});

/** The same with each, so many at a time. */
async function atMost<T, R>(
  count: number,
  all: readonly T[],
  run: (one: T, at: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const left = all.entries();
  const runner = async () => {
    for (const [at, one] of left) results[at] = await run(one, at);
  };
  await Promise.all(Array.from({ length: count }, runner));
  return results;
}
