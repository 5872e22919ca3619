// What an operator sees: metrics as a Prometheus parser reads them, events one by one, and the log.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import parsePrometheus from "parse-prometheus-text-format";
import { Socket } from "./support/keys.ts";
import { ask, type Json, sleep, Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let store: Store;
let spaces = 0;

before(async () => {
  workerd = await Workerd.start({ variables: { LEASEHOLD_OPEN: "true", COUNT_EVENTS: "true" } });
});
after(() => workerd[Symbol.asyncDispose]());

/** A family of metrics as the parser gives it. */
interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly metrics: readonly Json[];
}

function fresh(): Store {
  return (store = new Store(workerd, `metered-${(spaces += 1)}`));
}

async function text(): Promise<string> {
  const response = await fetch(`${workerd.url}/v1/spaces/metered-${spaces}/metrics`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  return response.text();
}

async function families(): Promise<Map<string, Family>> {
  const all: Family[] = parsePrometheus(await text());
  return new Map(all.map((family) => [family.name, family]));
}

/** A sample by its name and labels. */
async function value(name: string, labels: Record<string, string> = {}): Promise<number> {
  const family = (await families()).get(`leasehold_${name}`);
  const found = family?.metrics.find((metric) =>
    Object.entries(labels).every(([label, text]) => metric.labels?.[label] === text),
  );
  assert.ok(found, `no ${name} ${JSON.stringify(labels)}`);
  return Number(found.value ?? found.count);
}

test("metrics are what Prometheus expects of them", async () => {
  fresh();
  await store.hold("a");
  const all = await families();
  for (const [name, { help, type, metrics }] of all) {
    assert.match(name, /^leasehold_[a-z_]+$/);
    assert.ok(help.length > 0, `${name} has no help`);
    assert.ok(["COUNTER", "GAUGE", "HISTOGRAM"].includes(type), `${name} is ${type}`);
    assert.equal(name.endsWith("_total"), type === "COUNTER", name);
    assert.ok(metrics.length > 0, `${name} has no sample`);
    assert.doesNotMatch(name, /_(ms|milliseconds|count|sum|bucket)$/);
  }
  assert.deepEqual([...all.keys()].sort(), [
    "leasehold_commands_per_commit",
    "leasehold_commands_total",
    "leasehold_commits_total",
    "leasehold_failed_commits_total",
    "leasehold_grants_total",
    "leasehold_held_leases",
    "leasehold_locks",
    "leasehold_losses_total",
    "leasehold_queue_length",
    "leasehold_refusals_total",
    "leasehold_releases_total",
    "leasehold_renewals_total",
    "leasehold_revocations_total",
    "leasehold_rows_written_total",
    "leasehold_sockets",
    "leasehold_start_time_seconds",
    "leasehold_wait_seconds",
  ]);
  const lines = (await text()).split("\n");
  assert.equal(lines.pop(), "", "the last line ends with a line feed");
  const samples = lines.filter((line) => !line.startsWith("#"));
  assert.equal(new Set(samples.map((line) => line.split(" ")[0])).size, samples.length);
  for (const line of samples) {
    assert.match(line, /^[a-z_]+(\{[a-z]+="[^"\\]+"\})? \d+(\.\d{3})?$/);
  }
  const started = await value("start_time_seconds");
  assert.ok(Math.abs(Date.now() / 1_000 - started) < 60, `${started}`);
});

test("every kind of event is counted once", async () => {
  fresh();
  const a = await store.hold("a");
  await store.hold("b", { ttlMs: 50 });
  await store.command("renew", "a", a);
  await store.command("renew", "a", { token: "x", fence: 1 });
  await store.command("acquire", "a", ask());
  await store.command("acquire", "a", { token: "no request id" });
  await store.command("acquire", "s", ask({ mode: "shared", limit: 2 }));
  await store.command("acquire", "s", ask({ mode: "shared", limit: 3 }));
  const waiting = store.command("acquire", "a", ask({ waitMs: 5_000 }));
  await until(async () => (await value("queue_length")) === 1, 5_000);
  // That of `b` is over.
  await until(async () => (await value("held_leases")) === 2, 5_000);
  await store.command("release", "a", a);
  assert.equal((await waiting).reply.status, "granted");
  await store.command("acquire", "a", ask({ steal: true }));
  await store.command("revoke", "a", {});
  await until(async () => (await value("losses_total", { reason: "expired" })) === 1, 5_000);

  const expected: readonly (readonly [number, string, Record<string, string>?])[] = [
    [4, "grants_total", { after: "asking" }],
    [1, "grants_total", { after: "waiting" }],
    [1, "renewals_total"],
    [1, "releases_total"],
    [1, "revocations_total"],
    [1, "losses_total", { reason: "expired" }],
    [1, "losses_total", { reason: "revoked" }],
    [1, "losses_total", { reason: "stolen" }],
    [1, "refusals_total", { reason: "held" }],
    [1, "refusals_total", { reason: "lost" }],
    [1, "refusals_total", { reason: "invalid_argument" }],
    [1, "refusals_total", { reason: "limit_mismatch" }],
    [0, "refusals_total", { reason: "queue_full" }],
    [0, "queue_length"],
    [1, "held_leases"],
    [0, "failed_commits_total"],
    [12, "commands_total"],
  ];
  for (const [count, name, labels] of expected) {
    assert.equal(await value(name, labels), count, `${name} ${JSON.stringify(labels ?? {})}`);
  }
});

test("waits are a histogram in seconds, and its buckets add up", async () => {
  fresh();
  for (const waitedMs of [20, 300]) {
    const lease = await store.hold("a");
    const waiting = store.command("acquire", "a", ask({ waitMs: 5_000 }));
    await until(async () => (await store.send("/locks/a")).reply.waiters.length === 1, 5_000);
    await sleep(waitedMs);
    await store.command("release", "a", lease);
    const { token, fence } = (await waiting).reply.lease;
    await store.command("release", "a", { token, fence });
  }
  const [wait] = (await families()).get("leasehold_wait_seconds")!.metrics;
  assert.equal(Number(wait.count), 2);
  assert.ok(Number(wait.sum) >= 0.32 && Number(wait.sum) < 5, wait.sum);
  const counts = Object.values(wait.buckets as Record<string, string>).map(Number);
  assert.deepEqual(
    counts,
    counts.toSorted((a, b) => a - b),
  );
  assert.equal(counts.at(-1), 2);
  assert.equal(Number(wait.buckets["0.010"]), 0);
});

test("commands that arrive together share a commit, and that shows", async () => {
  fresh();
  await store.hold("first");
  const before = await value("commits_total");
  await store.calls(Array.from({ length: 64 }, (_, at) => ["acquire", `l${at}`, ask()] as const));
  const commits = (await value("commits_total")) - before;
  assert.ok(commits >= 1 && commits <= 8, `${commits} commits`);
  const [perCommit] = (await families()).get("leasehold_commands_per_commit")!.metrics;
  assert.equal(Number(perCommit.count), await value("commits_total"));
  // A row for each, and the first grant of a space reserves fences for thousands.
  assert.equal(await value("rows_written_total"), 66);
  assert.ok(Number(perCommit.sum) >= 65);
  assert.equal(await value("held_leases"), 65);
  assert.equal(await value("locks"), 65);
});

test("leases are counted that were there before the object started", async () => {
  fresh();
  await store.calls(
    Array.from({ length: 1_500 }, (_, at) => ["acquire", `l${at}`, ask()] as const),
  );
  await store.call("evict").catch(() => {});
  await until(
    async () => (await store.call("ownName").catch(() => undefined)) !== undefined,
    5_000,
  );
  assert.equal(await value("held_leases"), 1_500);
  assert.equal(await value("grants_total", { after: "asking" }), 0);
});

test("sockets are counted while they are open", async () => {
  fresh();
  {
    await using _one = await Socket.open(workerd.url, `metered-${spaces}`, {});
    await using _two = await Socket.open(workerd.url, `metered-${spaces}`, {});
    assert.equal(await value("sockets"), 2);
  }
  await until(async () => (await value("sockets")) === 0, 5_000);
});

test("the same through the object's own method", async () => {
  fresh();
  await store.hold("a");
  assert.match(await store.call("metrics"), /^leasehold_held_leases 1$/m);
});

test("a write that fails is counted, and the log says so in one line", async () => {
  fresh();
  await store.hold("a");
  await store.call("breakStorage");
  assert.equal((await store.command("acquire", "b", ask())).status, 503);
  await store.call("mendStorage");
  assert.equal(await value("failed_commits_total"), 1);
  const line = () => workerd.log.split("\n").find((text) => text.includes("failed_flush"));
  await until(async () => line() !== undefined, 5_000);
  const { event, space, detail } = JSON.parse(line()!) as Json;
  assert.deepEqual([event, space], ["failed_flush", `metered-${spaces}`]);
  assert.match(detail, /broken/);
});

test("a trap is a line in the log, and so is the start from storage after it", async () => {
  await using faulty = await Workerd.start({ artefact: "target/faults/dist" });
  const broken = new Store(faulty, "broken");
  await broken.hold("a");
  await new Store(faulty, "beside").hold("a");
  assert.equal(await broken.call("panic"), 503);
  await new Store(faulty, "beside").hold("b");
  await until(async () => faulty.log.includes('"space":"beside"'), 5_000);
  const events = faulty.log
    .split("\n")
    .filter((line) => line.startsWith('{"event"'))
    .map((line) => JSON.parse(line) as Json)
    .map(({ event, space }) => [event, space]);
  assert.deepEqual(events, [
    ["panic", undefined],
    ["reset", "broken"],
    ["reset", "beside"],
  ]);
});

test("where a dataset is bound, the same events go there one by one", async () => {
  fresh();
  const space = `metered-${spaces}`;
  const a = await store.hold("a");
  await store.command("renew", "a", a);
  await store.command("acquire", "a", ask());
  const waiting = store.command("acquire", "a", ask({ waitMs: 5_000 }));
  await until(async () => (await store.send("/locks/a")).reply.waiters.length === 1, 5_000);
  await store.command("release", "a", a);
  const { fence } = (await waiting).reply.lease;
  await store.command("revoke", "a", { fence });
  const points: Json[] = await store.call("points");
  const own = points.filter(({ indexes }) => indexes[0] === space);
  assert.deepEqual(
    own.map(({ blobs, doubles }) => [...blobs, doubles[0]]),
    [
      ["granted", space, "a", "", a.fence],
      ["renewed", space, "a", "", a.fence],
      ["refused", space, "", "held", 0],
      ["queued", space, "a", "", 0],
      ["released", space, "a", "", a.fence],
      ["granted", space, "a", "waited", fence],
      ["lost", space, "a", "revoked", fence],
    ],
  );
  const waited = own.find(({ blobs }) => blobs[3] === "waited").doubles[1];
  assert.ok(waited > 0 && waited < 5, `${waited} s`);
});
