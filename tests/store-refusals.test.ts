// Rule 13: what is out of bounds is refused with the name of its field, over HTTP and through the
// stub, and changes nothing.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, type Fields, Store } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let store: Store;

before(async () => {
  workerd = await Workerd.start();
  store = new Store(workerd);
});
after(() => workerd[Symbol.asyncDispose]());

/** As JSON text for HTTP, and as a value for the stub (see rpc-worker.js). */
type Bad = readonly [text: string, value: unknown];

const BAD_NUMBERS: readonly Bad[] = [
  ["0", 0],
  ["-1", -1],
  ["1.5", 1.5],
  ["NaN", { $: "NaN" }],
  ["Infinity", { $: "Infinity" }],
  ["1e300", 1e300],
  ["1e400", { $: "Infinity" }],
  ['"30"', "30"],
  ["null", null],
  ["true", true],
  ["[30]", [30]],
  ["{}", {}],
  [`1${"0".repeat(400)}`, { $: "bigint" }],
];

const NUMBERS: readonly (readonly [op: string, field: string, beside: Fields])[] = [
  ["acquire", "ttlMs", ask()],
  ["acquire", "waitMs", ask()],
  ["acquire", "maxHoldMs", ask()],
  ["acquire", "lockDelayMs", ask()],
  ["acquire", "limit", ask({ mode: "shared" })],
  ["renew", "fence", { token: "t" }],
  ["renew", "ttlMs", { token: "t", fence: 1 }],
  ["release", "fence", { token: "t" }],
  ["revoke", "fence", {}],
];

const MAY_BE_0 = new Set(["waitMs", "lockDelayMs"]);

for (const [op, field, beside] of NUMBERS) {
  test(`${op} refuses a ${field} that is no length, count or fence`, async () => {
    for (const [text, value] of BAD_NUMBERS) {
      if (text === "0" && MAY_BE_0.has(field)) continue;
      const body = `${JSON.stringify(beside).slice(0, -1)},"${field}":${text}}`.replace("{,", "{");
      await refused(op, field, body, { ...beside, [field]: value });
    }
  });
}

const TOO_MUCH: Readonly<Record<string, number>> = {
  ttlMs: 86_400_001,
  waitMs: 60_001,
  maxHoldMs: 604_800_001,
  lockDelayMs: 604_800_001,
  limit: 1_000_001,
};

test("acquire refuses what is over its limit, and a ttl under 50 ms: nothing is clamped", async () => {
  const asked = { ...ask(), mode: "shared" };
  for (const [field, value] of [...Object.entries(TOO_MUCH), ["ttlMs", 49] as const]) {
    const fields = { ...asked, [field]: value };
    await refused("acquire", field, JSON.stringify(fields), fields);
  }
});

const LONG = "x".repeat(129);
const TEXTS: readonly (readonly [op: string, field: string, beside: Fields])[] = [
  ["acquire", "token", { requestId: "r" }],
  ["acquire", "requestId", { token: "t" }],
  ["acquire", "clientId", ask()],
  ["renew", "token", { fence: 1 }],
  ["release", "token", { fence: 1 }],
  ["cancel", "token", { requestId: "r" }],
  ["cancel", "requestId", { token: "t" }],
];

test("texts that are empty, too long, ill-formed or none are refused", async () => {
  for (const [op, field, beside] of TEXTS) {
    for (const bad of ["", LONG, "\ud800", "a\udc00", 7, null, true, [], {}]) {
      const fields = { ...beside, [field]: bad };
      await refused(op, field, JSON.stringify(fields), fields);
    }
  }
  const asked = ask();
  for (const mode of ["", "SHARED", "exclusive ", null, 1, true]) {
    const fields = { ...asked, mode };
    await refused("acquire", "mode", JSON.stringify(fields), fields);
  }
  for (const steal of [1, "true", null]) {
    const fields = { ...asked, steal };
    await refused("acquire", "steal", JSON.stringify(fields), fields);
  }
});

test("fields that are missing are refused", async () => {
  const needed = {
    acquire: ask(),
    renew: { token: "t", fence: 1 },
    release: { token: "t", fence: 1 },
  };
  for (const [op, fields] of Object.entries(needed)) {
    for (const field of Object.keys(fields)) {
      const rest = { ...fields, [field]: { $: "undefined" } };
      await refused(op, field, JSON.stringify({ ...fields, [field]: undefined }), rest);
    }
  }
});

test("fields that belong together are refused apart", async () => {
  const exclusive = { ...ask(), limit: 5 };
  await refused("acquire", "limit", JSON.stringify(exclusive), exclusive);
  const shared = { ...ask(), mode: "shared", steal: true };
  await refused("acquire", "steal", JSON.stringify(shared), shared);
});

test("unknown fields are refused", async () => {
  const given = {
    acquire: ask(),
    renew: { token: "t", fence: 1 },
    inspect: {},
    revoke: {},
    list: {},
  };
  for (const [op, fields] of Object.entries(given)) {
    for (const field of ["ttl", "TTLMS", "ttlms ", "", "__proto__x"]) {
      const wrong = { ...fields, [field]: 1 };
      await refused(op, field, isPosted(op) ? JSON.stringify(wrong) : undefined, wrong);
    }
  }
});

test("doubled members are refused, also when they are equal, also inside info", async () => {
  const asked = JSON.stringify(ask()).slice(0, -1);
  for (const [field, double] of [
    ["ttlMs", '"ttlMs":1000,"ttlMs":1000'],
    ["token", '"token":"other"'],
    ["ttlMs", '"ttlMs":1000,"ttl\\u004ds":2000'],
    ["info", '"info":{"a":1,"a":2}'],
  ]) {
    await refused("acquire", field ?? "", `${asked},${double}}`, undefined);
  }
});

test("a body that is not one JSON object is refused", async () => {
  for (const body of ["", "[]", "null", "7", '"text"', "{}{}", "{", "{'a':1}", "{,}", "\ufeff{}"]) {
    await refused("acquire", "body", body, undefined);
  }
  for (const fields of [[], null, 7, "text"]) {
    await refused("acquire", "body", undefined, fields);
  }
  const text = JSON.stringify(ask());
  // What is a body over HTTP is a mere string for the stub.
  await refused("acquire", "body", undefined, text);
  const broken = [
    `${text.slice(0, -1)},}`,
    `${text}x`,
    text.replace("token", "to\nken"),
    `${text.slice(0, -1)},"info":01}`,
    `${text.slice(0, -1)},"info":${"[".repeat(40)}${"]".repeat(40)}}`,
  ];
  for (const body of broken) {
    const { status, reply } = await store.command("acquire", "a", body);
    assert.equal(status, 400, body);
    assert.equal(reply.code, "invalid_argument");
  }
});

test("info is at most 1 KiB of JSON", async () => {
  const fits = ask({ info: "x".repeat(1022) });
  await refused("acquire", "info", JSON.stringify({ ...fits, info: "x".repeat(1023) }), {
    ...fits,
    info: "x".repeat(1023),
  });
  const fitting = new Store(workerd, "info");
  await fitting.hold("a", fits);
  const odd = {
    pi: 3.25,
    small: 1e-7,
    big: 1.5e300,
    zero: 0,
    text: '\u0000\n\t\u2028"\\',
    none: null,
  };
  await fitting.hold("b", { info: odd });
  assert.deepEqual((await fitting.send("/locks/b")).reply.holders[0].info, odd);
});

test("what JSON cannot say is refused over RPC by its field, also within info", async () => {
  for (const $ of ["NaN", "Infinity", "bigint", "date", "map", "function", "cyclic", "hole"]) {
    for (const info of [{ $ }, { a: { $ } }, [1, [{ $ }]]]) {
      await refused("acquire", "info", undefined, ask({ info }));
    }
    await refused("acquire", "token", undefined, { requestId: "r", token: { $ } });
  }
  // A member that is not there is none.
  const asked = ask({ info: { a: { $: "undefined" }, b: 1 }, ttlMs: { $: "undefined" } });
  const { reply } = (await new Store(workerd, "said").calls([["acquire", "a", asked]]))[0]!;
  assert.deepEqual([reply.status, reply.lease.ttlMs], ["granted", 30_000]);
});

test("names that no lock can have are refused; the longest and the oddest work", async () => {
  const bad = ["", "-a", ".", "..", "x".repeat(513), "\u00e9".repeat(257), "\ud800"];
  for (const lock of bad) {
    const { reply } = (await store.calls([["acquire", lock, ask()]]))[0] ?? {};
    assert.deepEqual([reply.code, reply.field], ["invalid_argument", "lock"], JSON.stringify(lock));
  }
  for (const lock of [7, null, true, {}, { $: "undefined" }, { $: "bigint" }]) {
    const { reply } = (await store.calls([["acquire", lock, ask()]]))[0] ?? {};
    assert.equal(reply.field, "lock");
  }
  for (const segment of ["-a", "x".repeat(513), "%ff", "%zz", "%", "%e", "%ed%a0%80", ""]) {
    const { status, reply } = await store.send(`/locks/${segment}/acquire`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(ask()),
    });
    assert.deepEqual([status, reply.field], [400, "lock"], segment);
  }
});

test("long names work, and look-alikes stay apart", async () => {
  const named = new Store(workerd, "names");
  const names = [
    "x".repeat(512),
    "x".repeat(511),
    "\u00e9".repeat(256),
    "a/b",
    "a_b",
    "a%2Fb",
    "a b",
    "a+b",
    "a\u0000b",
    "a",
    "A",
    "a\u0000",
    " a",
    "a?b#c",
    "\u00e9",
    "e\u0301",
    "\u{1f512}",
    "...",
    "'; DROP TABLE entry; --",
  ];
  for (const name of names) await named.hold(name);
  // In the storage too, not in memory alone.
  await workerd.restart();
  const { reply } = await named.send("/locks?pageSize=1000");
  const byBytes = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  assert.deepEqual(
    reply.locks.map(({ lock }: { lock: string }) => lock),
    byBytes,
  );
  for (const name of names) {
    assert.equal((await named.send(`/locks/${encodeURIComponent(name)}`)).reply.holders.length, 1);
  }
});

test("after all that nothing was changed", async () => {
  assert.deepEqual((await store.send("/locks")).reply, { locks: [] });
  assert.deepEqual((await store.call("rows")).entries, []);
});

/** Over HTTP unless there is no body, through the stub unless there are no fields. */
async function refused(op: string, field: string, body: string | undefined, fields: unknown) {
  const what = `${op} ${body ?? JSON.stringify(fields)}`;
  if (body !== undefined) {
    const { status, headers, reply } = await store.command(op, "a", body);
    assert.equal(status, 400, `${what} ${JSON.stringify(reply)}`);
    assert.equal(headers.get("content-type"), "application/problem+json");
    assert.deepEqual(
      [reply.code, reply.status, reply.field],
      ["invalid_argument", 400, field],
      what,
    );
  }
  if (fields !== undefined) {
    const reply = await store.call(op, ...(op === "list" ? [] : ["a"]), fields);
    assert.deepEqual(
      [reply.code, reply.status, reply.field],
      ["invalid_argument", 400, field],
      what,
    );
  }
}

function isPosted(op: string): boolean {
  return op !== "inspect" && op !== "list";
}
