// Waiting on a real Durable Object: first in, first out, each told once and in time.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, type Answer, sleep, Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let spaces = 0;

/** A space that no other test uses. */
const space = () => new Store(workerd, `queue-${(spaces += 1)}`);

before(async () => {
  workerd = await Workerd.start();
});
after(() => workerd[Symbol.asyncDispose]());

/** Waiters in order: each asks when the one before it is in the queue. */
async function enqueue<T>(
  store: Store,
  count: number,
  start: (at: number) => Promise<T>,
): Promise<Promise<T>[]> {
  const before = (await store.send("/locks/a")).reply.waiters.length;
  const asks: Promise<T>[] = [];
  for (let at = 0; at < count; at += 1) {
    asks.push(start(at));
    await until(
      async () => (await store.send("/locks/a")).reply.waiters.length > before + at,
      10_000,
    );
  }
  return asks;
}

const leaseOf = ({ reply }: Answer) => ({ token: reply.lease.token, fence: reply.lease.fence });

test("100 waiters are granted in the order they came, each with the release before it", async () => {
  const store = space();
  const first = await store.hold("a", { ttlMs: 600_000 });
  const order: number[] = [];
  const served = await enqueue(store, 100, async (at) => {
    const answer = await store.command("acquire", "a", ask({ waitMs: 60_000, ttlMs: 600_000 }));
    assert.equal(answer.reply.status, "granted");
    order.push(at);
    const release = await store.command("release", "a", leaseOf(answer));
    assert.equal(release.reply.status, "released");
  });
  const before = await commits(store);
  await store.command("release", "a", first);
  await Promise.all(served);
  assert.deepEqual(
    order,
    Array.from({ length: 100 }, (_, at) => at),
  );
  // A hand-off that came later than its release, by a timer or by asking again, would be a commit of its own.
  assert.equal((await commits(store)) - before, 101);
});

/** Turns that wrote something, so far. */
async function commits(store: Store): Promise<number> {
  const metrics: string = await store.call("metrics");
  return Number(/^leasehold_commits_total (\d+)$/m.exec(metrics)?.[1]);
}

test("30 of 100 waiters vanish: the rest are served in order, each dead one costs its claim window", async () => {
  const store = space();
  const first = await store.hold("a");
  const claimMs = 500;
  const dead = new Set<number>();
  while (dead.size < 30) dead.add(Math.floor(Math.random() * 100));
  const shown = `dead: ${[...dead].join(" ")}`;
  const controllers = Array.from({ length: 100 }, () => new AbortController());
  const order: number[] = [];
  const served = await enqueue(store, 100, async (at) => {
    const asked = ask({ waitMs: 60_000, ttlMs: claimMs });
    const answer = await store
      .command("acquire", "a", asked, controllers[at]?.signal)
      .catch(() => undefined);
    if (answer === undefined) return;
    assert.equal(answer.reply.status, "granted", shown);
    order.push(at);
    assert.equal((await store.command("release", "a", leaseOf(answer))).reply.status, "released");
  });
  for (const at of dead) controllers[at]?.abort();
  const start = performance.now();
  await store.command("release", "a", first);
  await Promise.all(served);
  const tookMs = performance.now() - start;
  assert.deepEqual(
    order,
    Array.from({ length: 100 }, (_, at) => at).filter((at) => !dead.has(at)),
    shown,
  );
  // Those that died at the end of the queue hold nobody up.
  assert.ok(tookMs <= 30 * claimMs + 100 * 50, `it took ${tookMs} ms; ${shown}`);
});

test("500 waiters, one release: exactly one of them hears of it", async () => {
  const store = space();
  const first = await store.hold("a");
  const waiting = store.calls(
    Array.from({ length: 500 }, () => ["acquire", "a", ask({ waitMs: 4_000 })] as const),
  );
  await until(async () => (await store.send("/locks/a")).reply.waiters.length === 500, 10_000);
  await store.command("release", "a", first);
  const replies = (await waiting).map(({ reply, afterMs }) => ({ ...reply, afterMs }));
  const granted = replies.filter(({ status }) => status === "granted");
  assert.equal(granted.length, 1);
  // All the others were left in peace until their own time was up.
  for (const reply of replies.filter(({ status }) => status !== "granted")) {
    assert.equal(reply.status, "waiting");
    assert.ok(reply.afterMs >= 4_000);
  }
});

test("10 000 wait for one lock, one more is told that the queue is full", async () => {
  const store = space();
  const first = await store.hold("a", { ttlMs: 600_000 });
  const asks = Array.from(
    { length: 10_000 },
    () => ["acquire", "a", ask({ waitMs: 15_000 })] as const,
  );
  const waiting = store.calls(asks);
  await until(
    async () => (await store.send("/locks?pageSize=1")).reply.locks[0]?.queue === 10_000,
    14_000,
  );
  const full = await store.command("acquire", "a", ask({ waitMs: 1 }));
  assert.deepEqual(
    [full.status, full.reply.code, full.headers.get("retry-after")],
    [429, "queue_full", "1"],
  );
  assert.equal((await store.call("acquire", "a", ask({ waitMs: 1 }))).code, "queue_full");
  // Those who try only once are not of the queue.
  assert.equal((await store.command("acquire", "a", ask())).reply.status, "held");
  // Cost does not grow with the queue: a renewal passes as ever.
  const start = performance.now();
  assert.equal((await store.command("renew", "a", first)).reply.status, "renewed");
  assert.ok(performance.now() - start < 500);
  const replies = await waiting;
  assert.ok(replies.every(({ reply }) => reply.status === "waiting"));
  const positions = replies.map(({ reply }) => reply.position);
  assert.deepEqual(
    positions,
    Array.from({ length: 10_000 }, (_, at) => at + 1),
  );
});

test("newcomers do not overtake the queue", async () => {
  const store = space();
  const first = await store.hold("a");
  const [waiter] = await enqueue(store, 1, () =>
    store.command("acquire", "a", ask({ waitMs: 10_000 })),
  );
  assert.equal((await store.command("acquire", "a", ask())).reply.status, "held");
  const [released, newcomer] = await store.calls([
    ["release", "a", first],
    ["acquire", "a", ask()],
  ]);
  assert.deepEqual([released?.reply.status, newcomer?.reply.status], ["released", "held"]);
  assert.equal((await waiter)?.reply.status, "granted");
});

test("a retry is not blocked by its own first attempt: one place, one lease", async () => {
  const store = space();
  const first = await store.hold("a");
  const asked = ask({ waitMs: 10_000 });
  const [attempt] = await enqueue(store, 1, () => store.command("acquire", "a", asked));
  const again = store.command("acquire", "a", asked);
  // The earlier one hears how things stand, the later one has the place.
  assert.equal((await attempt)?.reply.status, "waiting");
  assert.equal((await store.send("/locks/a")).reply.waiters.length, 1);
  await store.command("release", "a", first);
  const { reply } = await again;
  assert.equal(reply.status, "granted");
  assert.equal((await store.command("acquire", "a", asked)).reply.lease.fence, reply.lease.fence);
});

test("an ask that ends keeps its place for the next one", async () => {
  const store = space();
  const first = await store.hold("a");
  const asked = ask({ waitMs: 100 });
  assert.equal((await store.command("acquire", "a", asked)).reply.status, "waiting");
  const [later] = await enqueue(store, 1, () =>
    store.command("acquire", "a", ask({ waitMs: 10_000 })),
  );
  const again = store.command("acquire", "a", { ...asked, waitMs: 10_000 });
  await store.command("release", "a", first);
  const answer = await again;
  assert.equal(answer.reply.status, "granted");
  await store.command("release", "a", leaseOf(answer));
  assert.equal((await later)?.reply.status, "granted");
});

test("a cancelled waiter hears of it at once, and is never granted", async () => {
  const store = space();
  const first = await store.hold("a");
  const asked = ask({ waitMs: 60_000 });
  const [waiter] = await enqueue(store, 1, () => store.command("acquire", "a", asked));
  const { token, requestId } = asked;
  assert.equal(
    (await store.command("cancel", "a", { token, requestId })).reply.status,
    "cancelled",
  );
  assert.equal((await waiter)?.reply.status, "cancelled");
  await store.command("release", "a", first);
  assert.deepEqual((await store.send("/locks/a")).reply.holders, []);
});

test("a waiter is not granted after its own deadline and grace", async () => {
  const store = space();
  const first = await store.hold("a", { ttlMs: 60_000 });
  const { reply } = await store.command("acquire", "a", ask({ waitMs: 50 }));
  assert.equal(reply.status, "waiting");
  await until(async () => (await store.send("/locks/a")).reply.waiters.length === 0, 7_000);
  await store.command("release", "a", first);
  assert.deepEqual((await store.send("/locks/a")).reply.holders, []);
});

test("the leader dies and every waiter stays but one: exactly one successor", async () => {
  const store = space();
  await store.hold("a", { ttlMs: 300 });
  const results = await store.calls(
    Array.from({ length: 20 }, () => ["acquire", "a", ask({ waitMs: 1_000 })] as const),
  );
  assert.equal(results.filter(({ reply }) => reply.status === "granted").length, 1);
});

test("a wait that outlasts the first holder's ttl is served with a full lease", async () => {
  const store = space();
  await store.hold("a", { ttlMs: 200 });
  const answer = await store.command("acquire", "a", ask({ waitMs: 5_000, ttlMs: 30_000 }));
  assert.equal(answer.reply.lease.ttlMs, 30_000);
  // Short until it is claimed by the first renewal.
  assert.ok(answer.reply.lease.expiresInMs <= 5_000);
  const { reply } = await store.command("renew", "a", leaseOf(answer));
  assert.equal(reply.lease.expiresInMs, 30_000);
});

test("readers are granted together, and a dead reader ends by its own ttl", async () => {
  const store = space();
  const writer = await store.hold("a");
  const readers = store.calls([
    ["acquire", "a", ask({ mode: "shared", waitMs: 5_000, ttlMs: 300 })],
    ["acquire", "a", ask({ mode: "shared", waitMs: 5_000, ttlMs: 300 })],
  ]);
  await until(async () => (await store.send("/locks/a")).reply.waiters.length === 2, 5_000);
  await store.command("release", "a", writer);
  const [one, two] = await readers;
  assert.deepEqual([one?.reply.status, two?.reply.status], ["granted", "granted"]);
  const start = performance.now();
  // One of them is renewed, which does nothing for the other.
  const { token, fence } = two?.reply.lease;
  await store.command("renew", "a", { token, fence, ttlMs: 1_500 });
  await until(async () => (await store.send("/locks/a")).reply.holders.length === 1, 1_000);
  const next = await store.command("acquire", "a", ask({ waitMs: 5_000 }));
  assert.equal(next.reply.status, "granted");
  // The writer waits for the longest reader and no more.
  const tookMs = performance.now() - start;
  assert.ok(tookMs >= 1_500 && tookMs <= 1_500 + 250, `it took ${tookMs} ms`);
});

test("200 waits that time out leave no waiter and no row", async () => {
  const store = space();
  const first = await store.hold("a", { ttlMs: 60_000 });
  const asks = Array.from({ length: 200 }, () => ["acquire", "a", ask({ waitMs: 50 })] as const);
  const results = await store.calls(asks);
  assert.ok(results.every(({ reply }) => reply.status === "waiting"));
  await sleep(5_200);
  await store.command("release", "a", first);
  await store.call("ring");
  assert.deepEqual((await store.call("rows")).entries, []);
});
