// What went wrong for users of other lock systems, on the holder's side: messages that are lost, late,
// repeated and crossed, between a client and a real store in this process.
import assert from "node:assert/strict";
import { createHook } from "node:async_hooks";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import {
  DistributedLock,
  type Lease,
  Leasehold,
  LeaseError,
  memoryStore,
  type Target,
} from "leasehold";
import { rejectsWith, sleep, until } from "./support/cases.ts";
import { block, dice, type Faulty, faulty, type Sent } from "./support/faulty.ts";

const rejections: unknown[] = [];
process.on("unhandledRejection", (reason) => rejections.push(reason));
test.afterEach(async () => {
  for (const net of nets.splice(0)) net.fate = () => "delivered";
  await Promise.all(clients.splice(0).map((client) => client.close()));
  assert.deepEqual(rejections, []);
});

const nets: Faulty[] = [];
const clients: Leasehold[] = [];

/** Closed after the test. */
function client(target: Target): Leasehold {
  const locks = new Leasehold(target);
  clients.push(locks);
  return locks;
}

/** A client whose messages go astray as told, and one whose messages do not, of the same store. */
function world() {
  const store = memoryStore();
  const net = faulty(store);
  nets.push(net);
  return { net, locks: client(net.target), others: client(store) };
}

function aborts(lease: Lease): unknown[] {
  const reasons: unknown[] = [];
  lease.signal.addEventListener("abort", () => reasons.push(lease.signal.reason));
  return reasons;
}

const ofOp = (op: string) => (sent: Sent) => sent.op === op;

// redisson#7272, RedLock.net PR 64
test("10 000 interleavings: after release resolves no renewal follows and the lock is free", async () => {
  const seed = Number(process.env["SEED"] ?? Math.floor(Math.random() * 2 ** 31));
  const roll = dice(seed);
  const { net, locks, others } = world();
  const renewedAfter = new Set<unknown>();
  const released = new Set<unknown>();
  net.fate = ({ op, fields }) => {
    if (op === "renew" && released.has(fields["token"])) renewedAfter.add(fields["token"]);
    const face = roll();
    if (face < 0.8) return "delivered";
    if (face < 0.9) return "repeated";
    return Math.floor(roll() * 20);
  };
  const one = async (index: number) => {
    const lock = `lock ${index}`;
    const lease = await locks.acquire(lock, { ttlMs: 200 + Math.floor(roll() * 200) });
    const renewals: Promise<unknown>[] = [];
    for (let left = Math.floor(roll() * 4); left > 0; left -= 1) {
      if (roll() < 0.5) renewals.push(lease.renew(roll() < 0.5 ? undefined : 200).catch(() => {}));
      if (roll() < 0.5) await sleep(Math.floor(roll() * 30));
    }
    if (roll() < 0.3) void lease.release();
    await lease.release();
    released.add(lease.token);
    assert.equal(lease.held, false);
    const again = await others.acquire(lock, { waitMs: 0 });
    await again.release();
    await Promise.all(renewals);
  };
  try {
    const batch = 250;
    for (let start = 0; start < 10_000; start += batch) {
      await Promise.all(Array.from({ length: batch }, (_, index) => one(start + index)));
    }
    await sleep(200);
    assert.equal(renewedAfter.size, 0);
    assert.deepEqual((await others.list()).locks, []);
  } catch (error) {
    throw new Error(`with SEED=${seed}`, { cause: error });
  }
});

// dynamodb-lock-client#21
test("release and renewal in flight together: release wins, and the token is one for life", async () => {
  const { net, locks, others } = world();
  const lease = await locks.acquire("a");
  const { token } = lease;
  net.fate = (sent) => (sent.op === "renew" ? 50 : "delivered");
  const renewal = lease.renew();
  assert.deepEqual(await lease.release(), { status: "released" });
  await rejectsWith("lost", renewal);
  assert.equal(lease.token, token);
  await sleep(80);
  assert.deepEqual([lease.held, lease.signal.aborted], [false, false]);
  assert.ok(await others.tryAcquire("a"));
});

// redis-semaphore#205
test("a renewal that answers lost after release began is no loss", async () => {
  const { net, locks, others } = world();
  const lease = await locks.acquire("a");
  const reasons = aborts(lease);
  await others.revoke("a");
  net.fate = (sent) => (sent.op === "release" ? 50 : "delivered");
  const renewal = lease.renew().catch((error: LeaseError) => error.code);
  assert.deepEqual(await lease.release(), { status: "lost", reason: "revoked" });
  assert.equal(await renewal, "lost");
  assert.deepEqual(reasons, []);
});

// awslabs dynamodb-lock-client PR 116
test("renew after release is lost, and a contender gets the lock", async () => {
  const { locks, others } = world();
  const lease = await locks.acquire("a");
  await lease.release();
  await rejectsWith("lost", lease.renew());
  const zombie = others.attach({ lock: "a", token: lease.token, fence: lease.fence, renew: false });
  await rejectsWith("lost", zombie.renew());
  assert.ok(await others.tryAcquire("a"));
});

// redisson#3712, dynamolock#14
test("lost, and acquired again at once on the same client: renewals go on", async () => {
  const { locks, others } = world();
  const first = await locks.acquire("a", { ttlMs: 200 });
  await others.revoke("a");
  await until(() => first.signal.aborted);
  const second = await locks.acquire("a", { ttlMs: 200 });
  await sleep(700);
  assert.equal(second.held, true);
  await second.release();
  const lock = new DistributedLock(locks, "a", { ttlMs: 200 });
  for (let round = 0; round < 2; round += 1) {
    assert.ok(await lock.acquire());
    lock.start();
    await sleep(400);
    assert.equal(lock.held, true);
    await others.revoke("a");
    await until(() => !lock.held);
  }
});

// redis-semaphore#9, bullmq#3183
test("a blocked event loop: the next line sees that it is not held, the signal aborts in the same turn", async () => {
  const { locks, others } = world();
  const lease = await locks.acquire("a", { ttlMs: 150 });
  const reasons = aborts(lease);
  block(300);
  assert.equal(lease.held, false);
  // Timers that were due while nothing ran.
  await sleep(0);
  await sleep(0);
  assert.equal(lease.signal.aborted, true);
  assert.equal(reasons.length, 1);
  assert.ok(await others.tryAcquire("a"));
});

// redis-semaphore#199, #24; node-redlock#283; azure-webjobs#2839
test("every renewal fails: one abort, in time, and no unhandled rejection", async () => {
  for (const fate of ["request lost", "swallowed"] as const) {
    const { net, locks, others } = world();
    const lease = await locks.acquire("a", { ttlMs: 300 });
    const start = performance.now();
    const reasons = aborts(lease);
    net.fate = (sent) => (sent.op === "renew" || sent.op === "release" ? fate : "delivered");
    await until(() => lease.signal.aborted);
    const took = performance.now() - start;
    assert.ok(took <= 305, `not before the store may give it away: ${took} ms`);
    assert.equal(lease.held, false);
    const next = await others.acquire("a", { waitMs: 1_000 });
    assert.ok(next.fence > lease.fence);
    await sleep(300);
    const [reason, ...more] = reasons as LeaseError[];
    assert.deepEqual([reason?.code, reason?.reason, more], ["lost", "expired", []]);
    assert.deepEqual(await lease.release(), { status: "lost", reason: "expired" });
    assert.equal(next.held, true);
  }
});

// dynamolock#280
test("the reply to a renewal is lost: the next one succeeds", async () => {
  for (const fate of ["reply lost", "reply swallowed"] as const) {
    const { net, locks } = world();
    const lease = await locks.acquire("a", { ttlMs: 300 });
    let left = 1;
    net.fate = (sent) => (sent.op === "renew" && left-- > 0 ? fate : "delivered");
    await sleep(900);
    assert.equal(lease.held, true);
    assert.equal(lease.signal.aborted, false);
    assert.deepEqual(await lease.release(), { status: "released" });
  }
});

test("renew() itself outlives a reply that is lost", async () => {
  const { net, locks } = world();
  const lease = await locks.acquire("a", { ttlMs: 1_000, renew: false });
  let left = 1;
  net.fate = () => (left-- > 0 ? "reply lost" : "delivered");
  assert.equal(await lease.renew(5_000), lease);
  assert.ok(lease.expiresAt > Date.now() + 4_000);
  await lease.release();
});

// cozy-stack PR 4911
test("renewals fail for half the ttl, then recover: still held", async () => {
  const { net, locks } = world();
  const lease = await locks.acquire("a", { ttlMs: 600 });
  net.fate = (sent) => (sent.op === "renew" ? "request lost" : "delivered");
  await sleep(300);
  assert.ok(net.sent.some(ofOp("renew")));
  net.fate = () => "delivered";
  await sleep(900);
  assert.deepEqual([lease.held, lease.signal.aborted], [true, false]);
  await lease.release();
});

// node-redlock#65, #131, #168
test("release of a lease that expired or went to somebody else resolves with lost, and hurts nobody", async () => {
  const { locks, others } = world();
  const lease = await locks.acquire("a", { ttlMs: 100, renew: false });
  block(150);
  const next = await others.acquire("a");
  assert.deepEqual(await lease.release(), { status: "lost", reason: "expired" });
  assert.equal(next.held, true);
  assert.equal((await others.inspect("a")).holders[0]?.fence, next.fence);
});

// redis-py#3847, #4258
test("a failed release can be repeated", async () => {
  const { net, locks, others } = world();
  const lease = await locks.acquire("a", { ttlMs: 60_000 });
  net.fate = () => "request lost";
  const start = performance.now();
  await rejectsWith("unavailable", lease.release());
  assert.ok(performance.now() - start < 8_000);
  assert.equal(lease.held, false);
  net.fate = () => "delivered";
  assert.deepEqual(await lease.release(), { status: "released" });
  assert.ok(await others.tryAcquire("a"));
});

test("a release whose reply is lost is repeated by itself", async () => {
  const { net, locks, others } = world();
  const lease = await locks.acquire("a", { ttlMs: 60_000 });
  let left = 1;
  net.fate = () => (left-- > 0 ? "reply lost" : "delivered");
  // The lease was released by the first; what matters is that it is not held.
  const { status } = await lease.release();
  assert.ok(status === "released" || status === "lost");
  assert.ok(await others.tryAcquire("a"));
});

test("disposing never throws", async () => {
  const { net, locks } = world();
  const lease = await locks.acquire("a");
  net.fate = () => "request lost";
  await lease[Symbol.asyncDispose]();
  const own = new Error("mine");
  await assert.rejects(
    async () => {
      net.fate = () => "delivered";
      await using inner = await locks.acquire("b");
      net.fate = () => "request lost";
      assert.ok(inner.held);
      throw own;
    },
    (error) => error === own,
  );
});

// client-go#1187
test("loss is told only after a grant", async () => {
  const { net, locks, others } = world();
  const holder = await others.acquire("a");
  net.fate = () => "request lost";
  await rejectsWith("unavailable", locks.acquire("a", { waitMs: 200 }));
  net.fate = () => "delivered";
  const lock = new DistributedLock(locks, "a");
  assert.equal(await lock.acquire(), false);
  assert.equal(lock.signal, undefined);
  await holder.release();
});

// llm-d-rl-time-slicing#80, simstudio PR 6864; curator 79, 315, 335, 678
test("the reply of a grant is lost, and the caller gives up: cancel gives it back", async () => {
  const { net, locks, others } = world();
  net.fate = (sent) => (sent.op === "acquire" ? "reply swallowed" : "delivered");
  const controller = new AbortController();
  const reason = new Error("enough");
  const attempt = locks.acquire("a", { ttlMs: 60_000, signal: controller.signal });
  await until(async () => (await others.inspect("a")).holders.length === 1);
  controller.abort(reason);
  await assert.rejects(attempt, (error) => error === reason);
  await until(async () => (await others.inspect("a")).holders.length === 0);
  assert.deepEqual(
    net.sent.map(({ op }) => op),
    ["acquire", "cancel"],
  );
});

test("a grant that crosses the abort is given back", async () => {
  const { net, locks, others } = world();
  const holder = await others.acquire("a");
  const controller = new AbortController();
  net.fate = (sent) => (sent.op === "acquire" ? 50 : "delivered");
  const attempt = locks.acquire("a", { signal: controller.signal });
  await until(async () => (await others.inspect("a")).waiters.length === 1);
  await holder.release();
  await until(async () => (await others.inspect("a")).holders.length === 1);
  controller.abort(new Error("enough"));
  await assert.rejects(attempt, /enough/);
  await until(async () => (await others.inspect("a")).holders.length === 0);
});

// node-redlock PR 369
test("a retry is not blocked by its own first attempt", async () => {
  const { net, locks } = world();
  let left = 2;
  net.fate = (sent) => (sent.op === "acquire" && left-- > 0 ? "reply lost" : "delivered");
  const lease = await locks.acquire("a", { waitMs: 5_000 });
  const asks = net.sent.filter(ofOp("acquire")).map(({ fields }) => fields["requestId"]);
  assert.equal(asks.length, 3);
  assert.equal(new Set(asks).size, 1);
  assert.equal(lease.held, true);
  assert.deepEqual(
    (await locks.inspect("a")).holders.map(({ fence }) => fence),
    [lease.fence],
  );
  await lease.release();
});

// upstash lock#16, redis-py#656; kazoo PR 292, redisson#84, awslabs#56
test("not reentrant: the same holder's second acquire is refused at once", async () => {
  const { locks } = world();
  const lease = await locks.acquire("a", { token: "mine" });
  assert.equal(await locks.tryAcquire("a", { token: "mine" }), null);
  const start = performance.now();
  await rejectsWith("timeout", locks.acquire("a", { token: "mine", waitMs: 100 }));
  assert.ok(performance.now() - start < 1_000);
  await lease.release();
  const lock = new DistributedLock(locks, "a", { blocking: true });
  assert.equal(await lock.acquire(), true);
  assert.equal(await lock.acquire(), false);
  await lock.release();
});

// lumenize, Cloudflare error docs; node-redlock#288, #289
test("what is refused for good is not asked again, and is told apart from what is busy", async () => {
  const store = memoryStore() as unknown as { call(sent: Sent): Promise<unknown> };
  const refusals = { status: 401, code: "unauthorized", title: "Who are you?" };
  let asked = 0;
  const locks = client({ call: async () => (asked++, refusals) } as never);
  await rejectsWith("unauthorized", locks.acquire("a"));
  assert.equal(asked, 1);
  await rejectsWith("unauthorized", locks.tryAcquire("a"));

  const namespace = {
    idFromName: (name: string) => name,
    get: () => ({
      message: async () => {
        asked += 1;
        throw Object.assign(new Error("Durable Object is overloaded."), { overloaded: true });
      },
    }),
  };
  asked = 0;
  await rejectsWith("unavailable", client(namespace).acquire("a"));
  assert.equal(asked, 1);

  let fresh = 0;
  const flaky = {
    idFromName: (name: string) => name,
    get: (space: string) => {
      fresh += 1;
      return {
        message: async (text: string) => {
          if (fresh < 3)
            throw Object.assign(new Error("Network connection lost."), { retryable: true });
          const { op, lock, ...fields } = JSON.parse(text) as Record<string, unknown>;
          const { signal } = new AbortController();
          return JSON.stringify(await store.call({ space, op, lock, fields, signal } as Sent));
        },
      };
    },
  };
  const lease = await client(flaky).acquire("a");
  assert.deepEqual([lease.held, fresh], [true, 3]);
});

test("a renewal that is refused rejects at once, and the lease lives on to its deadline", async () => {
  const { net, locks } = world();
  const lease = await locks.acquire("a", { ttlMs: 400 });
  const call = (net.target as unknown as { call: (sent: Sent) => Promise<unknown> }).call;
  const target = net.target as unknown as { call: (sent: Sent) => Promise<unknown> };
  target.call = async (sent) => (sent.op === "renew" ? { code: "forbidden" } : call(sent));
  await rejectsWith("forbidden", lease.renew());
  assert.equal(lease.held, true);
  target.call = call;
  await sleep(600);
  assert.equal(lease.held, true);
  await lease.release();
});

test("a store that cannot be reached is unavailable, not held", { timeout: 60_000 }, async () => {
  const { net, locks } = world();
  net.fate = () => "request lost";
  await Promise.all([
    rejectsWith("unavailable", locks.tryAcquire("a")),
    rejectsWith("unavailable", locks.acquire("a")),
    rejectsWith("unavailable", locks.inspect("a")),
    rejectsWith("unavailable", locks.revoke("a")),
  ]);
  assert.ok(net.sent.length > 10);
});

// node-redlock#288
test("a store that was never heard looked like a busy lock, where the wait was short", async () => {
  for (const fate of ["request lost", "swallowed"] as const) {
    const { net, locks, others } = world();
    await others.acquire("a");
    net.fate = () => fate;
    const waitMs = 200;
    const lock = new DistributedLock(locks, "a", { blocking: true });
    await Promise.all([
      rejectsWith("unavailable", locks.acquire("a", { waitMs })),
      rejectsWith("unavailable", locks.tryAcquire("a", { waitMs })),
      rejectsWith("unavailable", lock.acquire({ blockingTimeoutMs: waitMs })),
      rejectsWith(
        "unavailable",
        locks.request("a", { waitMs }, () => assert.fail("ran")),
      ),
      rejectsWith(
        "unavailable",
        locks.requestAll(["a"], { waitMs }, () => assert.fail("ran")),
      ),
    ]);
  }
});

test("a refusal that may pass looked like a busy lock, where the wait was short", async () => {
  let answer: object = { code: "too_many_requests", title: "Too much" };
  const call = async () => answer;
  const tried = client({ call } as never).tryAcquire("a", { waitMs: 200 });
  await rejectsWith("too_many_requests", tried);
  answer = { status: "cancelled" };
});

test("who was told that it waits is told that the wait was too long, whatever became of the store", async () => {
  let asked = 0;
  let isDown = true;
  const call = async () => {
    asked += 1;
    if (!isDown) return { status: "cancelled" };
    if (asked > 1) throw new Error("connection refused");
    return { status: "waiting", position: 1, retryAfterMs: 10 };
  };
  await rejectsWith("timeout", client({ call } as never).acquire("a", { waitMs: 200 }));
  assert.ok(asked > 2);
  isDown = false;
});

test("answers that are none are not believed", async () => {
  for (const nonsense of [
    undefined,
    null,
    1,
    "granted",
    [],
    {},
    { status: "granted" },
    { status: "granted", lease: { fence: "1" } },
    // Of another lock.
    {
      status: "granted",
      lease: { lock: "b", fence: 9, ttlMs: 30_000, expiresInMs: 30_000, expiresAt: 1 },
      waitedMs: 0,
    },
  ]) {
    const { net } = world();
    let left = 1;
    const real = (net.target as unknown as { call: (sent: Sent) => Promise<unknown> }).call;
    const target = { call: async (sent: Sent) => (left-- > 0 ? nonsense : real(sent)) };
    const lease = await client(target as never).acquire("a");
    assert.equal(lease.held, true);
    assert.notEqual(lease.fence, 9);
    await lease.release();
  }
});

// redisson#1326, #6643
test("1 000 waits that end leave nothing: no timer, no listener, no waiter", async () => {
  const timers = new Set<number>();
  const hook = createHook({
    init: (id, type) => type === "Timeout" && timers.add(id),
    destroy: (id) => timers.delete(id),
  }).enable();
  const { locks, others } = world();
  const holder = await others.acquire("a", { renew: false });
  const { signal } = new AbortController();
  const aborted = new AbortController();
  const waits = [
    ...Array.from({ length: 500 }, () =>
      rejectsWith("timeout", locks.acquire("a", { waitMs: 50, signal })),
    ),
    ...Array.from({ length: 500 }, () =>
      assert.rejects(locks.acquire("a", { signal: aborted.signal }), { name: "AbortError" }),
    ),
  ];
  await sleep(100);
  aborted.abort();
  await Promise.all(waits);
  await until(async () => (await others.inspect("a")).waiters.length === 0);
  assert.deepEqual(getEventListeners(signal, "abort"), []);
  assert.deepEqual(getEventListeners(aborted.signal, "abort"), []);
  await holder.release();
  const lease = await locks.acquire("a", { ttlMs: 200, signal });
  await sleep(300);
  await lease.release();
  assert.deepEqual(getEventListeners(signal, "abort"), []);
  await until(() => {
    // The one that this waits with is there, and no other.
    return timers.size <= 1;
  });
  hook.disable();
});

test("a lease's own timers and listeners end with it", async () => {
  const { net, locks } = world();
  const lease = await locks.acquire("a", { ttlMs: 100 });
  await sleep(200);
  await lease.release();
  const sent = net.sent.length;
  await sleep(200);
  assert.equal(net.sent.length, sent);
});

test("500 calls at once: no already-borrowed panic", async () => {
  const { locks } = world();
  const results = await Promise.all(
    Array.from({ length: 500 }, (_, index) =>
      locks.request(`lock ${index % 50}`, async (lease) => {
        await lease.renew();
        return lease.fence;
      }),
    ),
  );
  assert.equal(new Set(results).size, 500);
});

test("a question was asked once more after its client had been closed", async () => {
  const { net, locks } = world();
  net.fate = () => "request lost";
  const inspected = rejectsWith("closed", locks.inspect("a"));
  // It pauses now, before it asks again.
  await sleep(20);
  await locks.close();
  await inspected;
  assert.equal(net.sent.length, 1);
});

test("calls of one client reach the store in the order made", async () => {
  const { net, locks } = world();
  const holder = await locks.acquire("a");
  const waits = Array.from({ length: 20 }, (_, index) => locks.acquire("a", { info: index }));
  const { waiters } = await locks.inspect("a");
  assert.deepEqual(
    waiters.map(({ info }) => info),
    Array.from({ length: 20 }, (_, index) => index),
  );
  assert.equal(net.sent.at(-1)?.op, "inspect");
  await Promise.all([...waits.map(async (wait) => (await wait).release()), holder.release()]);
});

test("nested options with getters are read once, and re-entrant calls are harmless", async () => {
  const { locks } = world();
  let reads = 0;
  const options = {
    get ttlMs() {
      reads += 1;
      void locks.tryAcquire("b").catch(() => {});
      return reads === 1 ? 1_000 : NaN;
    },
  };
  const lease = await locks.acquire("a", options);
  assert.equal(reads, 1);
  lease.signal.addEventListener("abort", () => void lease.release());
  await locks.revoke("a");
  await until(() => lease.signal.aborted);
  assert.deepEqual(await lease.release(), { status: "lost", reason: "revoked" });
});
