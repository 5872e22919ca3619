// The lease server over SQLite, with clients of the npm package over the loopback.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Leasehold, type LeaseError } from "leasehold";
import { LeaseServer } from "./component/sqlite-server.ts";

const folder = mkdtempSync(join(tmpdir(), "leasehold-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const file = () => join(folder, `${(files += 1)}.sqlite`);

test("clients that compete hold it one at a time, and fences rise", async () => {
  using server = new LeaseServer(file());
  const url = await server.listen();
  const fences: number[] = [];
  let inside = 0;
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      const locks = new Leasehold(url);
      for (let round = 0; round < 10; round += 1) {
        await locks.request("lock", { ttlMs: 10_000 }, async ({ fence }) => {
          assert.equal((inside += 1), 1, "two are inside");
          fences.push(fence);
          await sleep(1);
          inside -= 1;
        });
      }
    }),
  );
  assert.equal(fences.length, 80);
  assert.deepEqual(
    fences,
    fences.toSorted((a, b) => a - b),
  );
});

test("a holder that dies is succeeded when its ttl has passed", async () => {
  using server = new LeaseServer(file());
  const locks = new Leasehold(await server.listen());
  const dies = await locks.acquire("lock", { ttlMs: 300, renew: false });
  const asked = performance.now();
  const next = await locks.acquire("lock", { ttlMs: 10_000, waitMs: 5_000 });
  const waited = performance.now() - asked;
  assert.ok(200 < waited && waited < 3_000, `${waited} ms`);
  assert.ok(next.fence > dies.fence);
  await assert.rejects(dies.renew(), (error: LeaseError) => error.code === "lost");
  await next.release();
});

test("what was told is there after a crash", async () => {
  const path = file();
  let fence: number;
  let token: string;
  {
    using server = new LeaseServer(path);
    const lease = await new Leasehold(await server.listen()).acquire("a/b", { renew: false });
    ({ fence, token } = lease);
  }
  using server = new LeaseServer(path);
  const locks = new Leasehold(await server.listen());
  assert.equal(await locks.tryAcquire("a/b"), null);
  assert.equal((await locks.inspect("a/b")).holders[0]?.fence, fence);
  await locks.attach({ lock: "a/b", token, fence }).release();
  const next = await locks.acquire("a/b");
  assert.ok(next.fence > fence);
  await next.release();
});
