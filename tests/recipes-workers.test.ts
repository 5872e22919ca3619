// The Workers of docs/recipes as they stand: what they promise, with many at once, and if one dies or sleeps half-way.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { fenceSql } from "leasehold/fence";
import { type Call, RecipeWorker } from "./support/recipe-worker.ts";

/** Longer than any ttl of theirs. */
const AHEAD_MS = 60_000;
const TICK = "2026-11-30T09:10:00Z";

describe("a cron that runs once", () => {
  let worker: RecipeWorker;
  before(async () => {
    worker = await RecipeWorker.start("cron-once.ts");
  });
  after(() => worker?.[Symbol.asyncDispose]());
  beforeEach(() =>
    worker.reset("DROP TABLE IF EXISTS done", "CREATE TABLE done (job TEXT PRIMARY KEY)"),
  );

  test("a tick that is delivered five times at once, and later again, is one report", async () => {
    worker.onCall = (call) => setTimeout(() => call.answer(200), 200);
    const deliveries = await Promise.all(Array.from({ length: 5 }, () => worker.trigger(TICK)));
    assert.deepEqual(deliveries, Array(5).fill(true));
    assert.ok(await worker.trigger(TICK));
    assert.ok(await worker.trigger("2026-11-30T23:50:00Z"));
    assert.deepEqual(jobsOf(worker), ["report:2026-11-30"]);
    assert.ok(await worker.trigger("2026-12-01T00:00:00Z"));
    assert.deepEqual(jobsOf(worker), ["report:2026-11-30", "report:2026-12-01"]);
  });

  test("what failed is done at a later trigger", async () => {
    worker.onCall = (call) => call.answer(503);
    assert.equal(await worker.trigger(TICK), false);
    worker.onCall = (call) => call.answer(200);
    for (let round = 0; round < 2; round += 1) assert.ok(await worker.trigger(TICK));
    assert.equal(worker.calls.length, 2);
  });

  test("who is killed half-way is succeeded when its lease is over, under the same idempotency key", async () => {
    const cutOff = worker.trigger(TICK).catch(() => false);
    await worker.call("/reports");
    await worker.restart();
    await cutOff;
    worker.onCall = (call) => call.answer(200);
    assert.ok(await worker.trigger(TICK));
    assert.equal(worker.calls.length, 1, "its lease still stands");
    await worker.restart(AHEAD_MS);
    for (let round = 0; round < 2; round += 1) assert.ok(await worker.trigger(TICK));
    assert.deepEqual(jobsOf(worker), ["report:2026-11-30", "report:2026-11-30"]);
  });
});

function jobsOf({ calls }: RecipeWorker): unknown[] {
  return calls.map(({ headers }) => headers["idempotency-key"]);
}

describe("a single-use credential", () => {
  let worker: RecipeWorker;
  before(async () => {
    worker = await RecipeWorker.start("refresh-credential.ts");
  });
  after(() => worker?.[Symbol.asyncDispose]());
  beforeEach(() =>
    worker.reset(
      "DROP TABLE IF EXISTS credentials",
      "CREATE TABLE credentials (account TEXT PRIMARY KEY, access, expires_at, refresh, refused)",
      "INSERT INTO credentials VALUES ('acme', 'access 1', 0, 'refresh 1', NULL)",
    ),
  );

  test("twenty who find it stale are one refresh, and go on with what it brought", async () => {
    const provider = new Provider();
    worker.onCall = (call) => setTimeout(() => provider.answer(call), 200);
    const replies = await Promise.all(Array.from({ length: 20 }, () => worker.fetch("/")));
    assert.deepEqual(replies, Array(20).fill({ status: 200, text: '"Bearer access 2"' }));
    assert.equal(worker.callsOf("/token").length, 1);
  });

  test("a refusal is shared as well", async () => {
    worker.onCall = (call) => setTimeout(() => call.answer(400), 200);
    const replies = await Promise.all(Array.from({ length: 5 }, () => worker.fetch("/")));
    assert.deepEqual(
      replies.map(({ status }) => status),
      Array(5).fill(500),
    );
    assert.equal(worker.callsOf("/token").length, 1);
  });

  test("who is killed before the provider has answered is succeeded", async () => {
    const cutOff = worker.fetch("/").catch(() => {});
    await worker.call("/token");
    await worker.restart(AHEAD_MS);
    await cutOff;
    const provider = new Provider();
    worker.onCall = (call) => provider.answer(call);
    assert.deepEqual(await worker.fetch("/"), { status: 200, text: '"Bearer access 2"' });
  });

  test("an answer that comes after the lease is over is kept, also if another was refused", async () => {
    const provider = new Provider();
    const late = worker.fetch("/");
    const call = await worker.call("/token");
    const answer = provider.judge(call);
    await worker.revoke("token:acme");
    worker.onCall = (call) => provider.answer(call);
    const refused = await worker.fetch("/");
    assert.deepEqual(refused, { status: 500, text: "the refresh was answered 400" });
    call.answer(...answer);
    await late;
    assert.equal((await credentialOf(worker)).refresh, "refresh 2");
    assert.deepEqual(await worker.fetch("/"), { status: 200, text: '"Bearer access 2"' });
  });
});

/** Takes every refresh token once, and tells its caller who it is. */
class Provider {
  #newest = 1;

  answer(call: Call): void {
    call.answer(...this.judge(call));
  }

  judge({ path, headers, body }: Call): [status: number, reply: unknown] {
    if (path === "/api") return [200, headers.authorization];
    const spent = new URLSearchParams(body).get("refresh_token");
    if (spent !== `refresh ${this.#newest}`) return [400, { error: "invalid_grant" }];
    this.#newest += 1;
    const [access_token, refresh_token] = [`access ${this.#newest}`, `refresh ${this.#newest}`];
    return [200, { access_token, refresh_token, expires_in: 3_600 }];
  }
}

async function credentialOf(worker: RecipeWorker): Promise<{ refresh: string }> {
  return (await worker.database()).prepare("SELECT * FROM credentials").first();
}

describe("a row and an object", () => {
  let worker: RecipeWorker;
  before(async () => {
    worker = await RecipeWorker.start("row-and-object.ts");
  });
  after(() => worker?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    await worker.reset(
      "DROP TABLE IF EXISTS documents",
      "CREATE TABLE documents (id TEXT PRIMARY KEY, etag TEXT, size INTEGER)",
      fenceSql("sqlite").createTable,
    );
    await (await worker.bucket()).delete("document:42");
  });

  test("of eight changes at once none is lost, and the row is that of the object", async () => {
    const lines = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const replies = await Promise.all(lines.map((line) => addLine(worker, line)));
    assert.deepEqual(
      replies.map(({ status }) => status),
      Array(8).fill(200),
    );
    assert.deepEqual((await documentIn(worker)).toSorted(), lines);
  });

  for (const [part, lines] of [
    ["object", ["next"]],
    ["row", ["late", "next"]],
  ] as const) {
    test(`who sleeps before it writes the ${part} is refused once another has written`, async () => {
      const late = addLine(worker, "late", { "pause-before": part });
      const pause = await worker.call("/pause");
      await worker.revoke("document:42");
      assert.equal((await addLine(worker, "next")).status, 200);
      pause.answer(200);
      assert.deepEqual(await late, { status: 500, text: "stale_fence" });
      assert.deepEqual(await documentIn(worker), lines);
    });
  }

  test("what is half done by who is killed is brought up to date by the next", async () => {
    assert.equal((await addLine(worker, "first")).status, 200);
    const cutOff = addLine(worker, "killed", { "pause-before": "row" }).catch(() => {});
    await worker.call("/pause");
    await worker.restart(AHEAD_MS);
    await cutOff;
    await assert.rejects(documentIn(worker), /of another object/);
    // It gets no further than the row of what it found.
    const next = addLine(worker, "next", { "pause-before": "object" });
    const pause = await worker.call("/pause", 1);
    assert.deepEqual(await documentIn(worker), ["first", "killed"]);
    pause.answer(200);
    assert.equal((await next).status, 200);
    assert.deepEqual(await documentIn(worker), ["first", "killed", "next"]);
  });
});

function addLine(worker: RecipeWorker, body: string, headers: Record<string, string> = {}) {
  return worker.fetch("/42", { method: "POST", body, headers });
}

/** Its lines, if the row is that of the object. */
async function documentIn(worker: RecipeWorker): Promise<string[]> {
  const object = await (await worker.bucket()).get("document:42");
  const row = await (await worker.database()).prepare("SELECT * FROM documents").first();
  assert.deepEqual([row.id, row.etag], ["42", object.etag], "the row is of another object");
  return (await object.text()).trim().split("\n");
}
