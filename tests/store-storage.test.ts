// What is stored: no more rows than leases and waiters, and no more written than promised.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, sleep, Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;

before(async () => {
  workerd = await Workerd.start();
});
after(() => workerd[Symbol.asyncDispose]());

interface Written {
  readonly rows: number;
  readonly alarms: number;
}

test("rows written: at most 2 per acquire, 1 per renewal, 1 per release, none per refusal", async () => {
  const store = new Store(workerd, "rows");
  let seen: Written = { rows: 0, alarms: 0 };
  const written = async (): Promise<number> => {
    const now: Written = await store.call("countWritten");
    const rows = now.rows - seen.rows + (now.alarms - seen.alarms);
    seen = now;
    return rows;
  };
  // The first grant of a space also reserves fences, and sets the alarm.
  await store.hold("first");
  await written();
  const lease = await store.hold("a");
  assert.ok((await written()) <= 2);
  await store.command("renew", "a", lease);
  assert.ok((await written()) <= 1);
  await store.command("acquire", "a", ask());
  await store.command("renew", "a", { token: "t", fence: 1 });
  await store.send("/locks/a");
  await store.send("/locks");
  assert.equal(await written(), 0);
  await store.command("release", "a", lease);
  assert.ok((await written()) <= 1);

  // Over many, all but the rare reservation of fences.
  for (let at = 0; at < 20; at += 1) {
    const held = await store.hold("b");
    await store.command("renew", "b", held);
    await store.command("release", "b", held);
  }
  assert.equal(await written(), 60);

  // A waiter: its place, then its lease beside the end of the one before, then its own end.
  const holder = await store.hold("c");
  await written();
  const asked = ask({ waitMs: 5_000 });
  const waiting = store.command("acquire", "c", asked);
  await until(async () => (await store.send("/locks/c")).reply.waiters.length === 1, 5_000);
  assert.equal(await written(), 1);
  await store.command("release", "c", holder);
  const { reply } = await waiting;
  assert.equal(await written(), 2);
  await store.command("release", "c", { token: asked.token, fence: reply.lease.fence });
  assert.equal(await written(), 1);
});

test("what comes and goes within one turn is never written", async () => {
  const store = new Store(workerd, "turn");
  await store.hold("first");
  const before: Written = await store.call("countWritten");
  const asked = ask();
  const { token, requestId } = asked;
  await store.calls([
    ["acquire", "a", asked],
    ["cancel", "a", { token, requestId }],
  ]);
  assert.deepEqual(await store.call("countWritten"), before);
});

test("100 000 locks acquired and released leave no row but the counter", async () => {
  const store = new Store(workerd, "cycles");
  const batch = 1_000;
  for (let round = 0; round < 100; round += 1) {
    const asks = Array.from(
      { length: batch },
      (_, at) => [`lock-${round * batch + at}`, ask()] as const,
    );
    const granted = await store.calls(asks.map(([lock, asked]) => ["acquire", lock, asked]));
    const released = await store.calls(
      granted.map(({ reply }) => {
        const { lock, token, fence } = reply.lease;
        return ["release", lock, { token, fence }];
      }),
    );
    assert.ok(released.every(({ reply }) => reply.status === "released"));
  }
  const { entries, space } = await store.call("rows");
  assert.deepEqual(entries, []);
  assert.equal(space.length, 1);
  const { rows }: Written = await store.call("countWritten");
  // One to acquire, one to release, and a reservation every 4 096 fences.
  assert.ok(rows <= 200_000 + 100_000 / 4_096 + 2, `${rows} rows were written`);
});

test("every stored lease ends within its ttl: none lives for days", async () => {
  const store = new Store(workerd, "short");
  await store.hold("a", { ttlMs: 50, lockDelayMs: 0 });
  await sleep(110);
  await store.call("ring");
  assert.deepEqual((await store.call("rows")).entries, []);
});

test("a space with 20 000 live leases starts at once, and finds each of them", async () => {
  const store = new Store(workerd, "large");
  const leases: { lock: string; token: string; fence: number }[] = [];
  for (let round = 0; round < 10; round += 1) {
    const asks = Array.from(
      { length: 2_000 },
      (_, at) => ["acquire", `lock-${round * 2_000 + at}`, ask({ ttlMs: 600_000 })] as const,
    );
    for (const { reply } of await store.calls(asks)) leases.push(reply.lease);
  }
  await workerd.restart();
  const last = leases.at(-1);
  assert.ok(last);
  const start = performance.now();
  const { lock, token, fence } = last;
  assert.equal((await store.command("renew", lock, { token, fence })).reply.status, "renewed");
  const tookMs = performance.now() - start;
  assert.ok(tookMs <= 1_000, `the first answer took ${tookMs} ms`);
  const held = await store.calls(leases.map(({ lock }) => ["acquire", lock, ask()]));
  assert.ok(held.every(({ reply }) => reply.status === "held"));
  let cursor: string | undefined;
  let seen = 0;
  do {
    const query = cursor === undefined ? "" : `&cursor=${cursor}`;
    const { reply } = await store.send(`/locks?pageSize=1000${query}`);
    seen += reply.locks.length;
    cursor = reply.cursor;
  } while (cursor !== undefined);
  assert.equal(seen, 20_000);
});
