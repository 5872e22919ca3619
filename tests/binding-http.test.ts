// A client over HTTP alone, on lines that are slow or break.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Leasehold } from "leasehold";
import { rejectsWith, until } from "./support/cases.ts";
import { Proxy } from "./support/proxy.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let proxy: Proxy;
let near: Leasehold;
let far: Leasehold;

before(async () => {
  workerd = await Workerd.start();
  proxy = await Proxy.before(workerd.url);
  near = new Leasehold(workerd.url);
  far = new Leasehold(proxy.url, { WebSocket: false });
});
after(async () => {
  proxy.delayMs = () => 0;
  proxy.isDeaf = false;
  proxy.cut();
  await Promise.all([near, far].map((locks) => locks.close()));
  await proxy[Symbol.asyncDispose]();
  await workerd[Symbol.asyncDispose]();
});

test("a line with round trips of three seconds never had a lock", { timeout: 60_000 }, async () => {
  proxy.delayMs = () => 1_500;
  const lease = await far.acquire("free", { ttlMs: 60_000, waitMs: 20_000 });
  assert.equal(lease.held, true);
  const holder = await near.acquire("held");
  const wait = far.acquire("held", { ttlMs: 60_000 });
  await until(async () => (await near.inspect("held")).waiters.length === 1, 15_000);
  await holder.release();
  const next = await wait;
  assert.equal(next.held, true);
  proxy.delayMs = () => 0;
  for (const each of [lease, next]) assert.deepEqual(await each.release(), { status: "released" });
});

test("who was told of a place in the queue, and then of nothing, was not told that it was busy", async () => {
  const holder = await near.acquire("deaf");
  let isPlaced = false;
  const counted: typeof fetch = async (...request) => {
    const response = await fetch(...request);
    isPlaced = true;
    return response;
  };
  const locks = new Leasehold(proxy.url, { fetch: counted });
  const wait = rejectsWith("timeout", locks.acquire("deaf", { waitMs: 1_000 }));
  await until(() => isPlaced);
  proxy.isDeaf = true;
  await wait;
  proxy.isDeaf = false;
  proxy.cut();
  await locks.close();
  await holder.release();
});
