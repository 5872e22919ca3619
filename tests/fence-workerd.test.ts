// What only Cloudflare has: batches that fail as a whole, and objects whose every put has a condition.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { r2Fence } from "leasehold/fence";
import { FenceWorker } from "./support/fence-worker.ts";

let worker: FenceWorker;

before(async () => {
  worker = await FenceWorker.start();
});
after(() => worker?.[Symbol.asyncDispose]());

const d1 = (method: string, ...args: unknown[]) => worker.call("d1", method, ...args);
const r2 = (method: string, ...args: unknown[]) => worker.call("r2", method, ...args);

test("D1: the results are those of the caller's statements", async () => {
  assert.deepEqual(await d1("write", "results", 1, "text"), [[], [], [{ value: "text" }]]);
});

for (const place of ["d1", "object"] as const) {
  test(`${place}: what fails undoes everything, the fence included, and is what the caller is told`, async () => {
    await worker.call(place, "write", "failed", 1, "one");
    const error = place === "d1" ? /datatype mismatch/ : /^no$/;
    await assert.rejects(worker.call(place, "fail", "failed", 9), {
      name: "Error",
      message: error,
    });
    assert.equal(await worker.call(place, "read", "failed"), "one");
    await worker.call(place, "write", "failed", 2, "two");
  });
}

test("D1: in a batch of one's own, what came before the refusal is undone too", async () => {
  await d1("writeThenAdmit", "batch", 5, "five");
  await assert.rejects(d1("writeThenAdmit", "batch", 4, "refused"), /NOT NULL constraint failed/);
  assert.equal(await d1("read", "batch"), "five");
});

test("R2: whoever was paused between its look and its put is refused", async () => {
  await r2("write", "paused", 1, "one");
  const refusal = { code: "stale_fence", fence: 1, newest: 2 };
  await assert.rejects(r2("paused", "paused", 1, "late", [2, "two"]), refusal);
  assert.equal(await r2("read", "paused"), "two");
});

test("R2: also if the newer holder put the same content, whose etag is the same", async () => {
  await r2("write", "same", 1, "content");
  const refusal = { code: "stale_fence", fence: 1, newest: 2 };
  await assert.rejects(r2("paused", "same", 1, "late", [2, "content"]), refusal);
  assert.equal(await r2("read", "same"), "content");
});

test("R2: also if there was no object yet", async () => {
  const refusal = { code: "stale_fence", fence: 1, newest: 2 };
  await assert.rejects(r2("paused", "absent", 1, "late", [2, "two"]), refusal);
  assert.equal(await r2("read", "absent"), "two");
});

test("R2: a newer holder overwrites what an older one put while it looked", async () => {
  await r2("write", "newer", 1, "one");
  await r2("paused", "newer", 3, "three", [2, "two"]);
  assert.equal(await r2("read", "newer"), "three");
  await assert.rejects(r2("write", "newer", 2, "late"), { code: "stale_fence", newest: 3 });
});

test("R2: what is made of an object is made of what it replaces", async () => {
  await r2("append", "log", 1, "a");
  await r2("append", "log", 1, "b");
  assert.equal(await r2("pausedAppend", "log", 1, "d", [1, "c"]), 2);
  assert.equal(await r2("read", "log"), "abcd");
  await assert.rejects(r2("pausedAppend", "log", 1, "f", [2, "e"]), { code: "stale_fence" });
  assert.equal(await r2("read", "log"), "abcde");
});

test("R2: the fence is beside the caller's own metadata", async () => {
  const options = {
    customMetadata: { author: "me", fence: "99" },
    httpMetadata: { contentType: "text/plain" },
  };
  assert.deepEqual(await r2("metadataAfter", "metadata", 7, options), {
    customMetadata: { author: "me", fence: "7" },
    httpMetadata: { contentType: "text/plain" },
  });
});

test("R2: a fence in the metadata that is none admits nobody; no fence admits everybody", async () => {
  for (const fence of ["", " ", "x", "-1", "1.5", "9007199254740992"]) {
    await r2("putUnguarded", "damaged", "text", { fence });
    await assert.rejects(r2("write", "damaged", 7, "refused"), {
      field: "customMetadata.fence",
    });
    assert.equal(await r2("read", "damaged"), "text");
  }
  await r2("putUnguarded", "unguarded", "text", { author: "me" });
  await r2("write", "unguarded", 1, "guarded");
});

test("R2: who never gets through is told so; a stream is put once", async () => {
  await assert.rejects(r2("contended", "contended", 1, false), { code: "contended" });
  assert.equal(await r2("read", "contended"), "round 32");
  await r2("putStream", "stream", 1, "text");
  await assert.rejects(r2("contended", "stream", 1, true), { code: "contended" });
  assert.equal(await r2("read", "stream"), "round 1");
});

test("R2: two puts of one millisecond are told apart", async () => {
  for (let round = 0; round < 50; round += 1) {
    const bucket = new InstantBucket();
    await r2Fence(bucket).put("instant", 1, "one");
    // The older holder has looked; the newer one puts before another millisecond is over, if it can.
    const paused = {
      head: (key: string) => bucket.head(key),
      get: (key: string) => bucket.get(key),
      async put(key: string, value: string, options: any) {
        paused.put = (...args) => bucket.put(...args);
        await bucket.put(key, "two", { customMetadata: { fence: "2" } });
        return bucket.put(key, value, options);
      },
    };
    const refusal = { code: "stale_fence", newest: 2 };
    await assert.rejects(r2Fence(paused).put("instant", 1, "late"), refusal);
    assert.equal(await bucket.get("instant"), "two");
  }
});

/** What a bucket does with an instant as a condition, faster than any real one could. */
class InstantBucket {
  readonly #objects = new Map<string, any>();

  async head(key: string) {
    return this.#objects.get(key) ?? null;
  }

  async get(key: string) {
    return this.#objects.get(key)?.value;
  }

  async put(key: string, value: string, { onlyIf, customMetadata }: any) {
    const found = this.#objects.get(key);
    if (found && onlyIf && !(found.uploaded < onlyIf.uploadedBefore)) return null;
    const object = { value, customMetadata, uploaded: new Date(), version: crypto.randomUUID() };
    this.#objects.set(key, object);
    return object;
  }
}
