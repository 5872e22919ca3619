// The client over the store in this process.
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { DistributedLock, Leasehold, memoryStore } from "leasehold";
import { FenceError, memoryFence } from "leasehold/fence";
import { cases, sleep, until, watching } from "./support/cases.ts";

const store = memoryStore();
let names = 0;
const world = {
  client: (options = {}) => new Leasehold(store, options),
  name: () => `lock ${++names}`,
};

for (const [title, run] of Object.entries({ ...cases, ...watching })) test(title, () => run(world));

test("a log showed a name out of the bundle, and nothing of the lease", async () => {
  const locks = world.client();
  const lock = new DistributedLock(locks, "logged");
  const lease = await locks.acquire("logged", { ttlMs: 60_000 });
  const { fence, expiresAt } = lease;
  const shown = inspect({ lease }, { breakLength: Infinity });
  const state = `lock: 'logged', fence: ${fence}, mode: 'exclusive', held: true, expiresAt: ${expiresAt}`;
  assert.equal(shown, `{ lease: Lease { ${state} } }`);
  assert.ok(!inspect(lease, { showHidden: true, depth: null }).includes(lease.token));
  const error = await locks.acquire("logged", { waitMs: 0 }).catch((error: unknown) => error);
  for (const [value, name] of [
    [locks, "Leasehold"],
    [lock, "DistributedLock"],
    [error, "LeaseError"],
    [new FenceError("stale_fence", "it is"), "FenceError"],
    [memoryFence(), "MemoryFence"],
  ] as const) {
    assert.ok(inspect(value).startsWith(name), inspect(value));
  }
  await lease.release();
});

test("two stores know nothing of each other, and clients of one share it", async () => {
  const one = await new Leasehold(memoryStore()).acquire("a", { waitMs: 0 });
  const other = await new Leasehold(memoryStore()).acquire("a", { waitMs: 0 });
  assert.ok(one.held && other.held);
  const shared = await world.client().acquire("shared");
  assert.equal(await world.client().tryAcquire("shared"), null);
  await shared.release();
});

test("an injected clock is the store's and its holders'", async () => {
  let now = Date.UTC(2030, 0, 1);
  const locks = new Leasehold(memoryStore({ now: () => now }));
  const lease = await locks.acquire("a", { ttlMs: 60_000 });
  assert.equal(lease.expiresAt, now + 60_000);
  now += 59_000;
  assert.equal(lease.held, true);
  now += 1_000;
  assert.equal(lease.held, false);
  const next = await locks.acquire("a", { waitMs: 0 });
  await until(() => lease.signal.aborted);
  assert.equal(lease.signal.reason.reason, "expired");
  assert.equal(next.fence, lease.fence + 1);
});

test("an injected clock that failed took the leases of every client in the process with it", async () => {
  let isBroken = false;
  const now = () => (isBroken ? assert.fail("it is broken") : Date.now());
  const locks = new Leasehold(memoryStore({ now }));
  const [mine, others] = [
    await locks.acquire("a"),
    await world.client().acquire("not the clock's"),
  ];
  isBroken = true;
  assert.equal(mine.held, true);
  const next = await locks.acquire("b");
  await sleep(20);
  assert.deepEqual([mine.held, next.held, others.held], [true, true, true]);
  assert.deepEqual(await mine.release(), { status: "released" });
  isBroken = false;
  assert.deepEqual(await next.release(), { status: "released" });
  assert.deepEqual(await others.release(), { status: "released" });
});

test("a waiter is served when the injected clock has been turned", async () => {
  let now = 0;
  const locks = new Leasehold(memoryStore({ now: () => now }));
  await locks.acquire("a", { ttlMs: 60_000, renew: false });
  const wait = locks.acquire("a", { waitMs: 3_600_000 });
  await sleep(50);
  now = 60_000;
  assert.ok((await wait).held);
});

test("an injected clock that is set back an hour ends nothing too late and nothing too early", async () => {
  let now = Date.UTC(2030, 0, 1);
  const locks = new Leasehold(memoryStore({ now: () => now }));
  const lease = await locks.acquire("a", { ttlMs: 60_000, renew: false });
  now -= 3_600_000;
  assert.equal(lease.held, true);
  assert.equal(await locks.tryAcquire("a"), null);
  now += 61_000;
  assert.equal(lease.held, false);
  assert.ok(await locks.tryAcquire("a"));
});
