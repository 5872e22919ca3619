// Leases on a real Durable Object: granted once, ended in time, told truly.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, sleep, Store } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let spaces = 0;

/** A space that no other test uses. */
const space = () => new Store(workerd, `leases-${(spaces += 1)}`);

before(async () => {
  workerd = await Workerd.start();
});
after(() => workerd[Symbol.asyncDispose]());

test("of 50 simultaneous acquires of one lock one is granted", async () => {
  const store = space();
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => store.command("acquire", "a", ask())),
  );
  assert.equal(answers.filter(({ reply }) => reply.status === "granted").length, 1);
  const held = answers.filter(({ reply }) => reply.status === "held");
  assert.equal(held.length, 49);
  for (const { status, headers } of held) {
    assert.equal(status, 409);
    assert.equal(headers.get("retry-after"), "1");
  }
});

test("500 calls at once: none meets an object that is already borrowed", async () => {
  const results = await space().calls(
    Array.from({ length: 500 }, (_, at) => ["acquire", `lock-${at % 50}`, ask()] as const),
  );
  assert.equal(results.filter(({ error }) => error !== undefined).length, 0);
  assert.equal(results.filter(({ reply }) => reply.status === "granted").length, 50);
});

test("a ttl of 250 ms ends at 250 ms: not rounded to a second, nor to none", async () => {
  const store = space();
  const sentAt = performance.now();
  const { reply } = await store.command("acquire", "a", ask({ ttlMs: 250 }));
  const heardAt = performance.now();
  assert.equal(reply.lease.ttlMs, 250);
  assert.ok(reply.lease.expiresInMs > 0 && reply.lease.expiresInMs <= 250);
  let refused = 0;
  for (;;) {
    const askedAt = performance.now();
    const { reply: next } = await store.command("acquire", "a", ask());
    const answeredAt = performance.now();
    if (next.status === "granted") {
      assert.ok(answeredAt - sentAt >= 250, `granted after ${answeredAt - sentAt} ms`);
      // Asked anew every few milliseconds, so the grant is seen no later than two asks after the end.
      assert.ok(askedAt - heardAt <= 250 + 50, `granted only after ${askedAt - heardAt} ms`);
      break;
    }
    refused += 1;
    await sleep(2);
  }
  assert.ok(refused > 0);
});

test("a waiter gets the lease when the ttl of 250 ms ends", async () => {
  const store = space();
  const sentAt = performance.now();
  await store.hold("a", { ttlMs: 250 });
  const heardAt = performance.now();
  const { status, reply } = await store.command("acquire", "a", ask({ waitMs: 5_000 }));
  const grantedAt = performance.now();
  assert.equal(status, 200);
  assert.equal(reply.status, "granted");
  assert.ok(grantedAt - sentAt >= 250, `granted after ${grantedAt - sentAt} ms`);
  assert.ok(grantedAt - heardAt <= 250 + 50, `granted only after ${grantedAt - heardAt} ms`);
});

test("a renewal after release is lost, and a contender gets the lock", async () => {
  const store = space();
  const lease = await store.hold("a");
  assert.deepEqual((await store.command("release", "a", lease)).reply, { status: "released" });
  const renewal = await store.command("renew", "a", lease);
  assert.equal(renewal.status, 409);
  assert.deepEqual(renewal.reply, { status: "lost", reason: "released" });
  await store.hold("a");
});

test("renewal and release in flight together: release wins, whichever comes first", async () => {
  const store = space();
  for (let round = 0; round < 20; round += 1) {
    const lease = await store.hold("a");
    const pair = [["renew", "a", lease] as const, ["release", "a", lease] as const];
    const results = await store.calls(round % 2 ? pair : pair.reverse());
    assert.ok(results.some(({ reply }) => reply.status === "released"));
    assert.deepEqual((await store.call("inspect", "a")).holders, []);
  }
});

test("an expired holder's release leaves the new holder alone", async () => {
  const store = space();
  // It is remembered for as long again.
  const first = await store.hold("a", { ttlMs: 2_000 });
  const { reply } = await store.command("acquire", "a", ask({ waitMs: 5_000 }));
  const second = { token: reply.lease.token, fence: reply.lease.fence };
  assert.ok(second.fence > first.fence);
  const release = await store.command("release", "a", first);
  assert.deepEqual(release.reply, { status: "lost", reason: "expired" });
  // Neither with a guessed fence, nor with a guessed token.
  for (const mixed of [
    { token: first.token, fence: second.fence },
    { token: second.token, fence: first.fence },
  ]) {
    assert.equal((await store.command("release", "a", mixed)).reply.status, "lost");
  }
  assert.equal((await store.command("renew", "a", second)).reply.status, "renewed");
});

test("an acquire repeated with the same requestId gives the same lease", async () => {
  const store = space();
  const asked = ask();
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => store.command("acquire", "a", asked)),
  );
  answers.push(await store.command("acquire", "a", asked));
  const fences = new Set(answers.map(({ reply }) => reply.lease?.fence));
  assert.equal(fences.size, 1);
  assert.ok(answers.every(({ reply }) => reply.status === "granted"));
  // The same token with another requestId is an ordinary contender.
  const again = await store.command("acquire", "a", { ...ask(), token: asked.token });
  assert.equal(again.reply.status, "held");
});

test("a release repeated is lost, harmlessly, and an acquire repeated after it is no new lease", async () => {
  const store = space();
  const asked = ask();
  const { reply } = await store.command("acquire", "a", asked);
  const lease = { token: asked.token, fence: reply.lease.fence };
  assert.equal((await store.command("release", "a", lease)).reply.status, "released");
  assert.equal((await store.command("release", "a", lease)).reply.status, "lost");
  assert.deepEqual((await store.command("acquire", "a", asked)).reply, {
    status: "lost",
    reason: "released",
  });
  assert.deepEqual((await store.call("inspect", "a")).holders, []);
});

test("the reply to a grant is lost: cancel gives the lease back in one round trip", async () => {
  const store = space();
  const asked = ask();
  await store.command("acquire", "a", asked);
  const { token, requestId } = asked;
  assert.deepEqual((await store.command("cancel", "a", { token, requestId })).reply, {
    status: "cancelled",
  });
  await store.hold("a");
});

test("a revoked holder is told so when it renews", async () => {
  const store = space();
  const lease = await store.hold("a");
  assert.deepEqual((await store.command("revoke", "a", { reason: "maintenance" })).reply, {
    revoked: 1,
  });
  assert.deepEqual((await store.command("renew", "a", lease)).reply, {
    status: "lost",
    reason: "revoked",
  });
});

test("a stuck client that renews for ever is ended by maxHoldMs", async () => {
  const store = space();
  const lease = await store.hold("a", { ttlMs: 200, maxHoldMs: 400 });
  const start = performance.now();
  while ((await store.command("renew", "a", lease)).reply.status === "renewed") {
    assert.ok(performance.now() - start < 2_000);
    await sleep(20);
  }
  assert.ok(performance.now() - start >= 300);
  await store.hold("a");
});

test("nobody sees a token but its holder", async () => {
  const store = space();
  const { token } = await store.hold("a", { clientId: "me", info: { why: "tests" } });
  const texts = [
    await store.send("/locks/a"),
    await store.send("/locks"),
    await store.command("acquire", "a", ask()),
  ].map(({ reply }) => JSON.stringify(reply));
  for (const text of texts) {
    assert.ok(text.includes(`"clientId":"me"`));
    assert.ok(!text.includes(token));
  }
});

test("50 contenders for a semaphore of 5: never more than 5 hold, and a crashed permit comes back", async () => {
  const store = space();
  const shared = { mode: "shared", limit: 5, waitMs: 20_000, ttlMs: 1_000 };
  let holding = 0;
  let most = 0;
  let crashed = 0;
  await Promise.all(
    Array.from({ length: 50 }, async (_, at) => {
      const asked = ask(shared);
      const { reply } = await store.command("acquire", "pool", asked);
      assert.equal(reply.status, "granted");
      holding += 1;
      most = Math.max(most, holding);
      await sleep(5);
      holding -= 1;
      if (at % 10 === 0) crashed += 1;
      else await store.command("release", "pool", { token: asked.token, fence: reply.lease.fence });
    }),
  );
  assert.ok(most <= 5 && most >= 4, `${most} held at once`);
  assert.equal(crashed, 5);
  const { reply } = await store.command("acquire", "pool", ask(shared));
  assert.equal(reply.status, "granted");
  const other = await store.command("acquire", "pool", ask({ ...shared, limit: 6 }));
  assert.equal(other.status, 409);
  assert.equal(other.reply.code, "limit_mismatch");
});

test("the object's name is the space of its leases", async () => {
  const store = new Store(workerd, "tenant%2F1");
  const { reply } = await store.command("acquire", "a", ask());
  assert.equal(reply.lease.space, "tenant/1");
});
