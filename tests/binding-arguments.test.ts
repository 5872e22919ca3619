// Every bad value is refused in JavaScript too, with its field, and before anything is sent (rule 13).
import assert from "node:assert/strict";
import { test } from "node:test";
import { DistributedLock, Leasehold, LeaseError, memoryStore } from "leasehold";
import { rejectsWith } from "./support/cases.ts";
import { faulty } from "./support/faulty.ts";

const store = faulty(memoryStore());
const locks = new Leasehold(store.target);

/** What no length, count or fence may be, and then what this one may not be. */
const numbers = (...more: unknown[]) => [
  -1,
  1.5,
  NaN,
  -Infinity,
  1e300,
  "30",
  null,
  true,
  10n,
  {},
  [],
  () => 30,
  Symbol("30"),
  ...more,
];
const texts = (most: number) => [
  "",
  "x".repeat(most + 1),
  "ü".repeat(most / 2 + 1),
  "\ud800",
  "a\udc00b",
  1,
  null,
  true,
  {},
  1n,
];

const badOfAcquire: Record<string, unknown[]> = {
  ttlMs: numbers(0, 49, 86_400_001, Infinity),
  waitMs: numbers(),
  maxHoldMs: numbers(0, 604_800_001, Infinity),
  lockDelayMs: numbers(604_800_001, Infinity),
  mode: ["", "Exclusive", "read", 1, null, true, {}],
  limit: numbers(0, 1_000_001, Infinity),
  token: texts(128),
  requestId: texts(128),
  steal: ["true", 1, null, {}],
  renew: ["true", 0, 1, null],
  info: [
    "x".repeat(1_023),
    { a: "x".repeat(1_020) },
    NaN,
    { deep: [Infinity] },
    1n,
    () => 1,
    Symbol("s"),
    "\ud800",
    { "\udc00": 1 },
    new Date(0),
    { within: [new Map()] },
    cyclic(),
    nested(40),
  ],
  signal: [null, {}, 1, new EventTarget()],
  ttlms: [30_000],
};

function cyclic(): unknown {
  const cycle: Record<string, unknown> = {};
  return (cycle["self"] = cycle);
}

function nested(depth: number): unknown {
  return depth === 0 ? 0 : [nested(depth - 1)];
}

const badNames = [
  "",
  "-",
  "-a",
  ".",
  "..",
  "x".repeat(513),
  "ü".repeat(257),
  "\ud800",
  "a\udfffb",
  1,
  null,
  undefined,
  {},
  1n,
  Symbol("x"),
];

async function refuses(field: string, attempt: () => unknown): Promise<void> {
  const before = store.sent.length;
  await assert.rejects(
    async () => attempt(),
    (error: LeaseError) => {
      assert.ok(error instanceof LeaseError, String(error));
      assert.deepEqual([error.code, error.field], ["invalid_argument", field], error.message);
      return true;
    },
  );
  assert.equal(store.sent.length, before, "something was sent");
}

for (const [field, values] of Object.entries(badOfAcquire)) {
  test(`acquire refuses a bad ${field}`, async () => {
    const rest = field === "limit" ? { mode: "shared" } : {};
    for (const value of values) {
      const options = { ...rest, [field]: value } as object;
      await refuses(field, () => locks.acquire("a", options));
      await refuses(field, () => locks.tryAcquire("a", options));
    }
  });
}

test("combinations that mean nothing are refused", async () => {
  await refuses("limit", () => locks.acquire("a", { limit: 2 } as object));
  await refuses("limit", () => locks.acquire("a", { mode: "exclusive", limit: 2 } as object));
  await refuses("steal", () => locks.acquire("a", { mode: "shared", steal: true } as object));
  for (const options of [null, 1, "a", true, () => {}, []]) {
    await refuses("options", () => locks.acquire("a", options as object));
  }
});

test("a bad name is refused everywhere", async () => {
  for (const name of badNames as string[]) {
    await refuses("lock", () => locks.acquire(name));
    await refuses("lock", () => locks.tryAcquire(name));
    await refuses("lock", () => locks.inspect(name));
    await refuses("lock", () => locks.revoke(name));
    await refuses("lock", () => locks.attach({ lock: name, token: "t", fence: 1 }));
    await refuses("lock", () => new DistributedLock(locks, name).acquire());
  }
});

test("attach, renew, list and revoke refuse what is bad", async () => {
  for (const fence of numbers(0, 2 ** 53) as number[]) {
    await refuses("fence", () => locks.attach({ lock: "a", token: "t", fence }));
    await refuses("fence", () => locks.revoke("a", { fence }));
  }
  for (const token of texts(128) as string[]) {
    await refuses("token", () => locks.attach({ lock: "a", token, fence: 1 }));
  }
  await refuses("token", () => locks.attach({ lock: "a", fence: 1 } as never));
  await refuses("fence", () => locks.attach({ lock: "a", token: "t" } as never));
  for (const ttlMs of numbers(0, 49, 86_400_001) as number[]) {
    await refuses("ttlMs", () => locks.attach({ lock: "a", token: "t", fence: 1, ttlMs }));
  }
  for (const reason of texts(256) as string[]) {
    await refuses("reason", () => locks.revoke("a", { reason }));
  }
  for (const pageSize of numbers(0, 1_001) as number[]) {
    await refuses("pageSize", () => locks.list({ pageSize }));
  }
  for (const prefix of ["\ud800", "x".repeat(513), 1, null] as string[]) {
    await refuses("prefix", () => locks.list({ prefix }));
  }
  for (const cursor of ["", "-x", ".", 1, null] as string[]) {
    await refuses("cursor", () => locks.list({ cursor }));
  }
  await refuses("limit", () => locks.list({ limit: 10 } as object));

  const lease = await new Leasehold(memoryStore()).acquire("a");
  for (const ttlMs of numbers(0, 49, 86_400_001) as number[]) {
    await refuses("ttlMs", () => lease.renew(ttlMs));
  }
  assert.ok(lease.held);
  await lease.release();
});

test("a client refuses what it is set up with", async () => {
  for (const target of [
    null,
    undefined,
    1,
    {},
    "",
    "locks.example.com",
    "ftp://locks.example.com",
    "https://locks.example.com?space=a",
    "https://locks.example.com/#a",
    "https://user@locks.example.com",
    new URL("https://:password@locks.example.com"),
  ]) {
    await refuses("target", () => new Leasehold(target as never));
  }
  for (const space of ["", "..", "\ud800", "x".repeat(513), 1, null]) {
    await refuses("space", () => new Leasehold(store.target, { space } as object));
    const chosen = new Leasehold(store.target, { space: () => space as string });
    await refuses("space", () => chosen.acquire("a"));
    await refuses("space", () => chosen.list({ space: space as string }));
  }
  await refuses("space", () => new Leasehold(store.target, { space: (name) => name }).list());
  for (const clientId of texts(128)) {
    await refuses("clientId", () => new Leasehold(store.target, { clientId } as object));
  }
  for (const key of ["", "two words", "ключ", "a\nb", 1, null]) {
    await refuses("key", () => new Leasehold("https://locks.example.com", { key } as object));
  }
  await refuses("fetch", () => new Leasehold("https://locks.example.com", { fetch: 1 } as object));
  for (const WebSocket of [1, "ws", {}, null, true]) {
    await refuses("WebSocket", () => new Leasehold("http://localhost", { WebSocket } as object));
  }
  const clocks = [1, () => NaN, () => "5", () => undefined, () => -1, () => assert.fail("none")];
  for (const now of [...clocks, null]) await refuses("now", () => memoryStore({ now } as object));
  await refuses("apiKey", () => new Leasehold(store.target, { apiKey: "a" } as object));
  await refuses("ttlMs", () => new Leasehold(store.target, { ttlMs: 100 } as object));
  await refuses("clock", () => memoryStore({ clock: Date.now } as object));
  await refuses("options", () => memoryStore(null as never));
});

test("watch, elect, requestAll and query refuse what is bad", async () => {
  for (const prefix of ["x".repeat(513), "\ud800", 1, null, {}]) {
    await refuses("prefix", () => locks.watch({ prefix } as object));
  }
  const bySpace = new Leasehold(store.target, { space: (name) => name });
  await refuses("space", () => bySpace.watch());
  await refuses("space", () => bySpace.query());
  await refuses("prefixes", () => locks.watch({ prefixes: "a" } as object));
  for (const signal of [null, {}, 1]) {
    await refuses("signal", () => locks.watch({ signal } as object));
    await refuses("signal", () => locks.elect("a", { signal } as object, () => {}));
  }
  await refuses("options", () => locks.elect("a", undefined as never, () => {}));
  await refuses("ttlMs", () => locks.elect("a", { ttlMs: 1 }, () => {}));
  for (const names of ["a", null, undefined, {}, 1]) {
    await refuses("names", () => locks.requestAll(names as never, () => {}));
  }
  await refuses("waitMs", () => locks.requestAll(["a"], { waitMs: -1 }, () => {}));
  await refuses("lock", () => locks.requestAll([""], () => {}));
  for (const bad of ["", ".", "x".repeat(513), "\ud800"]) {
    const among = locks.requestAll(["a", "b", bad, "c", bad], { waitMs: 100 }, () => {});
    await assert.rejects(among, {
      code: "invalid_argument",
      message: /^lock must be .*: names\[2\]$/,
    });
  }
  await assert.rejects(locks.requestAll(["a"], undefined as never), TypeError);
  await assert.rejects(locks.requestAll([], undefined as never), TypeError);
  await assert.rejects(locks.elect("a", {}, undefined as never), TypeError);
});

test("an option that does not exist was overlooked", async () => {
  const none = () => {};
  const lock = new DistributedLock(locks, "a");
  const calls: Record<string, (options: any) => unknown> = {
    acquire: (options) => locks.acquire("a", options),
    tryAcquire: (options) => locks.tryAcquire("a", options),
    request: (options) => locks.request("a", options, none),
    requestAll: (options) => locks.requestAll(["a"], options, none),
    elect: (options) => locks.elect("a", options, none),
    query: (options) => locks.query(options),
    watch: (options) => locks.watch(options),
    list: (options) => locks.list(options),
    revoke: (options) => locks.revoke("a", options),
    attach: (options) => locks.attach({ lock: "a", token: "t", fence: 1, ...options }),
    Leasehold: (options) => new Leasehold(store.target, options),
    memoryStore,
    DistributedLock: (options) => new DistributedLock(locks, "a", options),
    "DistributedLock.acquire": (options) => lock.acquire(options),
  };
  for (const [name, call] of Object.entries(calls)) {
    for (const field of ["ttlms", "timeout", "__proto", "constructor", "0"]) {
      await refuses(field, () => call({ [field]: 1 })).catch((error: unknown) => {
        throw new Error(`${name} overlooks ${field}`, { cause: error });
      });
    }
  }
  calls["attach"] = (options) => locks.attach(options);
  // A list without members passes for an object, and so for options that were left out. To Web Locks it is one.
  for (const [name, call] of Object.entries(calls)) {
    if (name.startsWith("request")) continue;
    await refuses("options", () => call([])).catch((error: unknown) => {
      throw new Error(`${name} takes a list for options`, { cause: error });
    });
  }
  // What others take and these do not.
  for (const field of ["waitMs", "mode", "limit", "steal"]) {
    await refuses(field, () => calls["elect"]!({ [field]: 1 }));
  }
  for (const field of ["waitMs", "signal", "renew", "requestId", "clientId"]) {
    await refuses(field, () => calls["DistributedLock"]!({ [field]: 1 }));
  }
  for (const field of ["ttlMs", "renew", "waitMs"]) {
    await refuses(field, () => calls["DistributedLock.acquire"]!({ [field]: 1 }));
  }
  await refuses("signal", () => lock.acquire({ signal: null as never }));
  for (const field of ["waitMs", "signal", "requestId"]) {
    await refuses(field, () => calls["attach"]!({ lock: "a", token: "t", fence: 1, [field]: 1 }));
  }
});

test("an option was read twice", async () => {
  const client = new Leasehold(memoryStore());
  const { token, fence } = await client.acquire("a", { ttlMs: 60_000 });
  const reads: string[] = [];
  const once = (options: object) => {
    const getters = Object.entries(options).map(([name, value]) => {
      const get = () => (reads.push(name), value);
      return [name, { get, enumerable: true }] as const;
    });
    return Object.defineProperties({}, Object.fromEntries(getters)) as never;
  };
  const { signal } = new AbortController();
  const terms = { ttlMs: 60_000, info: 1, maxHoldMs: 60_000, lockDelayMs: 0, renew: false };
  const mine = { ...terms, token, requestId: "r", mode: "exclusive", waitMs: 10, signal };
  await rejectsWith("timeout", client.acquire("a", once(mine)));
  assert.equal(await client.tryAcquire("a", once(mine)), null);
  await rejectsWith(
    "timeout",
    client.request("a", once(mine), () => {}),
  );
  const all = client.requestAll(["b", "a", "c"], once(mine), () => {});
  await rejectsWith("timeout", all);
  await client.query(once({ space: "default" }));
  await client.list(once({ space: "default", prefix: "a", pageSize: 1 }));
  await client.revoke("a", once({ fence: 1, reason: "test" }));
  await client.watch(once({ space: "default", prefix: "a", signal })).return();
  client.attach(once({ lock: "a", token, fence, ttlMs: 60_000, renew: false }));
  const lock = new DistributedLock(client, "a", once({ token, ttlMs: 60_000, renewEveryMs: 100 }));
  assert.equal(await lock.acquire(once({ blocking: true, blockingTimeoutMs: 10, signal })), false);
  void new Leasehold("http://127.0.0.1:9", once({ space: "s", key: "k", clientId: "c", fetch }));
  memoryStore(once({ now: Date.now }));
  await client.close();
  const expected = [
    ...[mine, mine, mine, mine].flatMap((options) => Object.keys(options)),
    ...["space", "space", "prefix", "pageSize", "fence", "reason", "space", "prefix", "signal"],
    ...["lock", "token", "fence", "ttlMs", "renew", "token", "ttlMs", "renewEveryMs"],
    ...["blocking", "blockingTimeoutMs", "signal", "space", "key", "clientId", "fetch", "now"],
  ];
  assert.deepEqual(reads.toSorted(), expected.toSorted());
});

test("a lease could not be attached as it is", async () => {
  const memory = memoryStore();
  const [one, other] = [new Leasehold(memory), new Leasehold(memory)];
  const lease = await one.acquire("a", { renew: false });
  const attached = other.attach(lease);
  const same = [attached.lock, attached.token, attached.fence];
  assert.deepEqual(same, [lease.lock, lease.token, lease.fence]);
  await attached.renew();
  assert.equal(attached.held, true);
  // What is shown of it is not enough, and not in the way.
  await refuses("token", () => other.attach(lease.toJSON() as never));
  const shown = JSON.parse(JSON.stringify(lease));
  await other.attach({ ...shown, token: lease.token, renew: false }).renew();
  await Promise.all([one.close(), other.close()]);
});

test("a distributed lock refuses what it is set up with", async () => {
  const bad: Record<string, unknown[]> = {
    blocking: ["true", 1, null],
    blockingTimeoutMs: numbers(),
    renewEveryMs: numbers(0, Infinity),
  };
  for (const [field, values] of Object.entries(bad)) {
    for (const value of values) {
      await refuses(field, () => new DistributedLock(locks, "a", { [field]: value }));
      if (field !== "renewEveryMs") {
        await refuses(field, () => new DistributedLock(locks, "a").acquire({ [field]: value }));
      }
    }
  }
  for (const [field, values] of Object.entries({ ttlMs: numbers(0), token: texts(128) })) {
    for (const value of values) {
      await refuses(field, () => new DistributedLock(locks, "a", { [field]: value }).acquire());
    }
  }
});

test("the largest and smallest that are allowed are taken, and look-alikes stay apart", async () => {
  const client = new Leasehold(memoryStore());
  const names = [
    "x".repeat(512),
    "ü".repeat(256),
    "a/b",
    "a_b",
    "a%2Fb",
    "a b",
    "\u00e9",
    "e\u0301",
    "\u{1f512}",
    "...",
    " ",
  ];
  const leases = await Promise.all(names.map((name) => client.acquire(name, { waitMs: 0 })));
  assert.equal(new Set(leases.map((lease) => lease.fence)).size, names.length);
  assert.deepEqual(new Set((await client.list()).locks.map(({ lock }) => lock)), new Set(names));
  await client.close();

  const extremes = {
    token: "t".repeat(128),
    requestId: "ü".repeat(64),
    maxHoldMs: 604_800_000,
    lockDelayMs: 604_800_000,
    ttlMs: 86_400_000,
    info: { text: "x".repeat(1_012) },
  };
  const again = new Leasehold(memoryStore(), { clientId: "c".repeat(128) });
  const lease = await again.acquire("a", {
    ...extremes,
    mode: "shared",
    limit: 1_000_000,
    waitMs: Infinity,
  });
  assert.equal(lease.token, extremes.token);
  const [holder] = (await again.inspect("a")).holders;
  assert.deepEqual(
    [holder?.info, holder?.clientId, holder?.mode],
    [extremes.info, "c".repeat(128), "shared"],
  );
  await again.close();
});
