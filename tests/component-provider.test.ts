// The providers: components that take their locks from a real Worker over wasi:http, one with asynchronous
// functions and one for hosts that have none.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { _setEnv } from "@bytecodealliance/preview2-shim/cli";
import { Workerd } from "./support/workerd.ts";

type Lock = typeof import("../target/components/js/provider/provider.js").lock;
/** The same functions; what the one promises, the other returns. */
type LockSync = typeof import("../target/components/js/provider-sync/provider-sync.js").lockSync;

let workerd: Workerd;
const providers: Record<string, () => Promise<Lock | LockSync>> = {
  provider: async () => (await import("../target/components/js/provider/provider.js")).lock,
  "provider-sync": async () =>
    (await import("../target/components/js/provider-sync/provider-sync.js")).lockSync,
};

before(async () => {
  workerd = await Workerd.start();
});
after(() => workerd[Symbol.asyncDispose]());

const ask = (more = {}) => ({
  token: randomUUID(),
  requestId: randomUUID(),
  mode: "exclusive" as const,
  steal: false,
  ...more,
});

function each(name: string, run: (lock: Lock | LockSync) => Promise<void>): void {
  for (const [world, load] of Object.entries(providers)) {
    test(`${world}: ${name}`, async () => {
      _setEnv({ LEASEHOLD_URL: workerd.url, LEASEHOLD_SPACE: `of a ${world}` });
      await run(await load());
    });
  }
}

each("a lease from the Durable Object, with all its verbs", async (lock) => {
  const mine = ask({ ttlMs: 60_000n, clientId: "a component", info: '{"job":[7,null]}' });
  const granted = await lock.acquire("a/b", mine);
  assert.ok(granted.tag === "granted");
  const { lease } = granted.val;
  assert.deepEqual([lease.lock, lease.token, lease.ttlMs], ["a/b", mine.token, 60_000n]);
  const again = await lock.acquire("a/b", mine);
  assert.ok(again.tag === "granted");
  assert.equal(again.val.lease.fence, lease.fence);

  const held = await lock.acquire("a/b", ask());
  assert.ok(held.tag === "held");
  assert.equal(held.val.holders[0]?.fence, lease.fence);
  assert.equal(held.val.holders[0]?.info, '{"job":[7,null]}');

  const renewed = await lock.renew("a/b", {
    token: mine.token,
    fence: lease.fence,
    ttlMs: 90_000n,
  });
  assert.ok(renewed.tag === "renewed");
  assert.equal(renewed.val.ttlMs, 90_000n);

  const { holders, waiters } = await lock.inspect("a/b");
  assert.deepEqual([holders.length, waiters.length], [1, 0]);
  assert.equal(holders[0]?.clientId, "a component");

  const claimed = await lock.cancel("a/b", mine);
  assert.equal(claimed.tag, "granted");
  const release = { token: mine.token, fence: lease.fence };
  assert.deepEqual(await lock.release("a/b", release), { tag: "released" });
  assert.deepEqual(await lock.release("a/b", release), { tag: "lost", val: "released" });
});

each("a wait ends with the lease, or with a place that is kept", async (lock) => {
  const first = await lock.acquire("waited for", ask({ ttlMs: 300n }));
  assert.ok(first.tag === "granted");
  const second = ask({ waitMs: 50n });
  const waiting = await lock.acquire("waited for", second);
  assert.ok(waiting.tag === "waiting");
  assert.equal(waiting.val.position, 1n);
  const granted = await lock.acquire("waited for", { ...second, waitMs: 5_000n });
  assert.ok(granted.tag === "granted");
  assert.ok(granted.val.lease.fence > first.val.lease.fence);
  assert.equal(await lock.revoke("waited for", {}), 1n);
});

each(
  "a mistake is an error with a name, also one that never leaves the component",
  async (lock) => {
    const refused = (field: string) => (error: { tag: string; val: { field: string } }) => {
      assert.equal(error.tag, "invalid-argument");
      assert.equal(error.val.field, field);
      return true;
    };
    await assert.rejects(async () => lock.acquire("x", ask({ ttlMs: 0n })), refused("ttlMs"));
    await assert.rejects(async () => lock.acquire("..", ask()), refused("lock"));
    await assert.rejects(async () => lock.acquire("x", ask({ info: "{" })), refused("info"));
    const shared = ask({ mode: "shared", limit: 2n });
    assert.equal((await lock.acquire("shared", shared)).tag, "granted");
    await assert.rejects(
      async () => lock.acquire("shared", ask({ mode: "shared", limit: 3n })),
      (error: { tag: string }) => error.tag === "limit-mismatch",
    );
  },
);

each(
  "a store that cannot be reached is unavailable, and what was held is held when it is back",
  async (lock) => {
    const mine = ask({ ttlMs: 60_000n });
    const granted = await lock.acquire("kept", mine);
    assert.ok(granted.tag === "granted");
    await workerd.kill();
    await assert.rejects(
      async () => lock.renew("kept", { token: mine.token, fence: granted.val.lease.fence }),
      (error: { tag: string }) => error.tag === "unavailable",
    );
    await workerd.restart();
    await sleep(50);
    const renewed = await lock.renew("kept", { token: mine.token, fence: granted.val.lease.fence });
    assert.equal(renewed.tag, "renewed");
  },
);
