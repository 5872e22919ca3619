// What the store survives: SIGKILL, eviction, panics, storage that fails, alarms that never fire.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Leasehold } from "leasehold";
import { ask, type Json, sleep, Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

test("SIGKILL between acquire and renew: the renewal succeeds, and the next fence is larger", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  let fence = 0;
  for (let round = 0; round < 3; round += 1) {
    const lease = await store.hold("a");
    assert.ok(lease.fence > fence);
    fence = lease.fence;
    await workerd.restart();
    assert.equal((await store.command("acquire", "a", ask())).reply.status, "held");
    const { reply } = await store.command("renew", "a", lease);
    assert.equal(reply.status, "renewed");
    assert.equal(reply.lease.fence, fence);
    assert.equal((await store.command("release", "a", lease)).reply.status, "released");
  }
});

test("clean-up does not reset the fence: idle, cleaned, killed, created again, it goes on rising", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  const before = await store.hold("a", { ttlMs: 50 });
  await sleep(110);
  await store.call("ring");
  const rows = await store.call("rows");
  assert.deepEqual(rows.entries, []);
  assert.equal(rows.space.length, 1);
  await workerd.restart();
  assert.ok((await store.hold("b")).fence > before.fence);
});

test("an acquire repeated after SIGKILL gives the same lease", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  const asked = ask();
  const { reply } = await store.command("acquire", "a", asked);
  await workerd.restart();
  const again = await store.command("acquire", "a", asked);
  assert.equal(again.reply.status, "granted");
  assert.equal(again.reply.lease.fence, reply.lease.fence);
});

test("a queue survives SIGKILL in order", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  const holder = await store.hold("a", { ttlMs: 60_000 });
  const asks = Array.from({ length: 20 }, () => ask({ waitMs: 30_000 }));
  const cutOff = store.calls(asks.map((asked) => ["acquire", "a", asked])).catch(() => undefined);
  await until(async () => (await waiters(store)) === 20, 5_000);
  await workerd.restart();
  await cutOff;
  await servedInOrder(store, holder, asks);
});

test("eviction in mid-wait loses no place", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  const holder = await store.hold("a", { ttlMs: 60_000 });
  const asks = Array.from({ length: 20 }, () => ask({ waitMs: 30_000 }));
  const cutOff = store.calls(asks.map((asked) => ["acquire", "a", asked]));
  await until(async () => (await waiters(store)) === 20, 5_000);
  await store.calls([["evict"]]);
  assert.ok((await cutOff).every(({ error }) => error !== undefined));
  await servedInOrder(store, holder, asks);
});

test("over HTTP an object that goes away in mid-wait is unavailable, not broken", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  await store.hold("a");
  const waiting = store.command("acquire", "a", ask({ waitMs: 30_000 }));
  await until(async () => (await waiters(store)) === 1, 5_000);
  await store.calls([["evict"]]);
  const { status, reply } = await waiting;
  assert.deepEqual([status, reply.code], [503, "unavailable"]);
});

test("a forced panic breaks no instance for good: the next command works, leases are intact", async () => {
  await using workerd = await Workerd.start({ artefact: "target/faults/dist" });
  const store = new Store(workerd);
  const other = new Store(workerd, "other");
  const lease = await store.hold("a");
  const neighbour = await other.hold("a");
  const asked = ask({ waitMs: 30_000 });
  const waiting = store.command("acquire", "a", asked);
  await until(async () => (await waiters(store)) === 1, 5_000);
  const crossed = ask();
  const [crossing, panic] = await store.call("together", [["acquire", "b", crossed], ["panic"]]);
  assert.equal(panic, 503);
  // Both were of one turn, so nothing of it was done.
  assert.equal(crossing.code, "unavailable");
  assert.equal((await waiting).reply.code, "unavailable");

  assert.equal((await store.command("renew", "a", lease)).reply.status, "renewed");
  assert.equal((await store.command("acquire", "b", crossed)).reply.status, "granted");
  // The place is kept, and the instance is shared with the other spaces: they go on too.
  assert.equal(await waiters(store), 1);
  const again = store.command("acquire", "a", asked);
  await store.command("release", "a", lease);
  assert.equal((await again).reply.status, "granted");
  assert.equal((await other.command("renew", "a", neighbour)).reply.status, "renewed");
  for (let round = 0; round < 20; round += 1) {
    assert.equal((await store.call("panic")) as number, 503);
    assert.equal((await other.command("renew", "a", neighbour)).reply.status, "renewed");
  }
});

test("a space that waits while another one panics hears of it, and keeps its places", async () => {
  await using workerd = await Workerd.start({ artefact: "target/faults/dist" });
  const store = new Store(workerd);
  const lease = await store.hold("a", { ttlMs: 60_000 });
  const asked = ask({ waitMs: 30_000 });
  const waiting = store.command("acquire", "a", asked);
  await until(async () => (await waiters(store)) === 1, 5_000);
  await new Store(workerd, "other").call("panic");
  await store.command("release", "a", lease);
  assert.equal((await waiting).reply.code, "unavailable");
  assert.equal((await store.command("acquire", "a", asked)).reply.status, "granted");
});

test("a watcher is told of an expiry once, also where the core starts anew after it", async () => {
  await using workerd = await Workerd.start({ artefact: "target/faults/dist" });
  const store = new Store(workerd);
  const locks = new Leasehold(workerd.url);
  const changes: string[] = [];
  const watching = (async () => {
    for await (const change of locks.watch()) {
      changes.push(change.change === "reset" ? "reset" : `${change.change} ${change.lock}`);
    }
  })();
  await store.hold("first", { ttlMs: 60_000 });
  await until(async () => changes.length > 0, 5_000);
  changes.length = 0;
  // It is remembered for as long again.
  await store.hold("a", { ttlMs: 3_000 });
  await until(async () => changes.includes("expired a"), 10_000);
  assert.equal((await store.call("panic")) as number, 503);
  // Whatever is found is told before this.
  assert.deepEqual((await store.send("/locks/a")).reply.holders, []);
  await store.hold("last", { ttlMs: 60_000 });
  await until(async () => changes.includes("acquired last"), 5_000);
  assert.deepEqual(changes, ["acquired a", "expired a", "acquired last"]);
  await locks.close();
  await watching.catch(() => {});
});

test("the Worker that is deployed does not know how to panic", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  const calls = store.calls([["panic"]]);
  assert.equal(await Promise.race([calls, sleep(300).then(() => "no answer")]), "no answer");
  await store.hold("a");
});

test("a flush that fails: unavailable, nothing is granted, and correct again afterwards", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  const lease = await store.hold("a");
  await store.call("breakStorage");
  const asked = ask();
  const failed = await store.command("acquire", "b", asked);
  assert.deepEqual([failed.status, failed.reply.code], [503, "unavailable"]);
  assert.equal(failed.headers.get("retry-after"), "1");
  // Memory is not ahead of storage: what could not be written is not shown either.
  assert.deepEqual((await store.send("/locks/b")).reply.holders, []);
  assert.equal((await store.command("release", "a", lease)).reply.code, "unavailable");
  assert.equal((await store.send("/locks/a")).reply.holders[0].fence, lease.fence);
  const together = await store.calls(
    Array.from({ length: 10 }, (_, at) => ["acquire", `c${at}`, ask()] as const),
  );
  assert.ok(together.every(({ reply }) => reply.code === "unavailable"));
  await store.call("mendStorage");
  assert.deepEqual((await store.call("rows")).entries, [{ lock: "a", place: 1 }]);
  const { reply } = await store.command("acquire", "b", asked);
  assert.equal(reply.status, "granted");
  assert.ok(reply.lease.fence > lease.fence);
  assert.equal((await store.command("release", "a", lease)).reply.status, "released");
});

test("a turn whose second statement fails is undone as a whole", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  const lease = await store.hold("a");
  const waiting = store.command("acquire", "a", ask({ waitMs: 10_000 }));
  await until(async () => (await waiters(store)) === 1, 5_000);
  await store.call("breakStorage", ["INSERT"]);
  // The release deletes a row, the grant that follows from it cannot be written.
  assert.equal((await store.command("release", "a", lease)).reply.code, "unavailable");
  assert.equal((await waiting).reply.code, "unavailable");
  assert.equal((await store.call("rows")).entries.length, 2);
  assert.equal((await store.send("/locks/a")).reply.holders[0].fence, lease.fence);
  await store.call("mendStorage");
  assert.equal((await store.command("release", "a", lease)).reply.status, "released");
});

test("alarms never fire: an expired holder is still succeeded while someone asks", async () => {
  await using workerd = await Workerd.start({ className: "Deaf" });
  const store = new Store(workerd);
  await store.hold("a", { ttlMs: 200 });
  const start = performance.now();
  const { reply } = await store.command("acquire", "a", ask({ waitMs: 10_000 }));
  assert.equal(reply.status, "granted");
  assert.ok(performance.now() - start <= 400);
  // Takeover needs nobody who waits, either.
  await store.hold("b", { ttlMs: 50 });
  await sleep(60);
  await store.hold("b");
  // Nor does it need the memory of the object.
  await store.hold("c", { ttlMs: 200 });
  await workerd.restart();
  await until(
    async () => (await store.command("acquire", "c", ask())).reply.status === "granted",
    1_000,
  );
});

// cloudflare-docs#18324
test("an alarm that stuck in the past is armed again by the next event", async () => {
  await using workerd = await Workerd.start({ className: "ByHand" });
  const store = new Store(workerd);
  const nowMs = 1_700_000_000_000;
  const alarms = async () => (await store.call("countWritten")).alarms;
  const acquire = (afterMs: number, lock: string) =>
    store.call("turn", nowMs + afterMs, [[1, "acquire", lock, ask({ ttlMs: 60_000 })]]);
  await acquire(0, "a");
  await until(async () => (await alarms()) === 1, 5_000);
  // It should have rung and may still do so: nothing is done.
  await acquire(80_000, "b");
  await sleep(1_200);
  assert.equal(await alarms(), 1);
  await acquire(100_000, "c");
  await until(async () => (await alarms()) === 2, 5_000);
});

test("an idle space with held leases has no timer: the object goes to sleep, and wakes with its leases", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  const lease = await store.hold("a", { ttlMs: 120_000 });
  const constructed: number = await store.call("countConstructed");
  // workerd evicts what has been idle for ten seconds; asking would keep it awake.
  await sleep(14_000);
  assert.ok(((await store.call("countConstructed")) as number) > constructed);
  assert.equal((await store.command("renew", "a", lease)).reply.status, "renewed");
});

test("a vanished holder is cleaned up by an alarm that nobody has to wait for", async () => {
  await using workerd = await Workerd.start();
  const store = new Store(workerd);
  // Together, so that no clean-up is due yet: its alarm is set a second later.
  const held = Array.from({ length: 200 }, (_, at) => store.hold(`lock-${at}`, { ttlMs: 50 }));
  await Promise.all(held);
  await sleep(150);
  assert.equal((await store.call("rows")).entries.length > 0, true);
  await store.call("ring");
  assert.deepEqual((await store.call("rows")).entries, []);
  // Rung by the runtime itself, also after a restart. In a space that has set no alarm yet.
  const other = new Store(workerd, "other");
  await other.hold("last", { ttlMs: 50 });
  await until(async () => (await other.call("countWritten")).alarms === 1, 30_000);
  await workerd.restart();
  await until(async () => (await other.call("rows")).entries.length === 0, 65_000);
});

async function waiters(store: Store): Promise<number> {
  return (await store.send("/locks/a")).reply.waiters.length;
}

/** The waiters ask again, in any order but that of their places, and are served in that of their places. */
async function servedInOrder(
  store: Store,
  holder: { token: string; fence: number },
  asks: readonly ReturnType<typeof ask>[],
): Promise<void> {
  assert.equal((await store.command("renew", "a", holder)).reply.status, "renewed");
  assert.equal(await waiters(store), asks.length);
  const order: number[] = [];
  const served = asks.toReversed().map(async (asked) => {
    const { reply }: { reply: Json } = await store.command("acquire", "a", asked);
    assert.equal(reply.status, "granted");
    order.push(asks.indexOf(asked));
    await store.command("release", "a", { token: asked.token, fence: reply.lease.fence });
  });
  // Asking again makes no second place.
  assert.equal(await waiters(store), asks.length);
  await store.command("release", "a", holder);
  await Promise.all(served);
  assert.deepEqual(
    order,
    asks.map((_, at) => at),
  );
}
