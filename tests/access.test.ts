// Who may do what: every route and every frame with every set of rights, and what else is let in or not.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  bearer,
  makeKey,
  posted,
  protocolsOf,
  type Right,
  secretOf,
  SETS,
  Socket,
} from "./support/keys.ts";
import { ask, type Fields, type Json, Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

/** One key for every set of rights in the space `mine`, one that has them all elsewhere, one for prefixes. */
const keys = SETS.map((rights) => makeKey(rights.join("-"), rights, ["mine"]));
const elsewhere = makeKey("elsewhere", ["read", "lock", "admin"], ["other", "mine-*"]);
const everything = keys.at(-1)!;
const readOnly = keys[0]!;
const lockOnly = keys[1]!;

let workerd: Workerd;

before(async () => {
  workerd = await Workerd.start({ variables: { LEASEHOLD_KEYS: secretOf([...keys, elsewhere]) } });
});
after(() => workerd[Symbol.asyncDispose]());

const fields = {
  renew: { token: "t", fence: 1 },
  release: { token: "t", fence: 1 },
  cancel: { token: "t", requestId: "r" },
};

/** What is asked, the address below the space, the body, and the rights it takes, in the order they are looked at. */
const ROUTES: readonly (readonly [string, string, Fields | undefined, ...Right[]])[] = [
  ["acquire", "/locks/a/acquire", ask(), "lock"],
  ["steal", "/locks/a/acquire", ask({ steal: true }), "lock", "admin"],
  ["renew", "/locks/a/renew", fields.renew, "lock"],
  ["release", "/locks/a/release", fields.release, "lock"],
  ["cancel", "/locks/a/cancel", fields.cancel, "lock"],
  ["revoke", "/locks/a/revoke", {}, "admin"],
  ["inspect", "/locks/a", undefined, "read"],
  ["list", "/locks", undefined, "read"],
  ["metrics", "/metrics", undefined, "read"],
  ["audit", "/audit", undefined, "admin"],
];

for (const [name, path, body, ...needed] of ROUTES) {
  test(`over HTTP, ${name} takes ${needed.join(" and ")}`, async () => {
    for (const { key, entry } of [...keys, elsewhere]) {
      const init = body === undefined ? { headers: bearer(key) } : posted(body, key);
      const response = await fetch(`${workerd.url}/v1/spaces/mine${path}`, init);
      const text = await response.text();
      const rights = entry.spaces.includes("mine") ? entry.allow : [];
      const missing = needed.find((right) => !rights.includes(right));
      if (missing === undefined) {
        assert.ok(response.status < 300 || response.status === 409, `${entry.id}: ${text}`);
      } else {
        const { code, right } = JSON.parse(text) as Json;
        assert.deepEqual([response.status, code, right], [403, "forbidden", missing], entry.id);
      }
    }
  });
}

const FRAMES: readonly (readonly [string, string, string | undefined, Fields, ...Right[]])[] = [
  ["acquire", "acquire", "f", ask(), "lock"],
  ["steal", "acquire", "f", ask({ steal: true }), "lock", "admin"],
  ["renew", "renew", "f", fields.renew, "lock"],
  ["release", "release", "f", fields.release, "lock"],
  ["cancel", "cancel", "f", fields.cancel, "lock"],
  ["revoke", "revoke", "f", {}, "admin"],
  ["inspect", "inspect", "f", {}, "read"],
  ["list", "list", undefined, {}, "read"],
  ["watch", "watch", undefined, { prefix: "none" }, "read"],
  ["unwatch", "unwatch", undefined, { prefix: "none" }, "read"],
];

test("over a socket, each command takes what it takes over HTTP", async () => {
  for (const { key, entry } of keys) {
    await using socket = await Socket.open(workerd.url, "mine", { protocols: protocolsOf(key) });
    assert.equal(socket.protocol, "leasehold.v1");
    for (const [name, op, lock, frame, ...needed] of FRAMES) {
      const reply = await socket.ask(op, lock, frame);
      const missing = needed.find((right) => !entry.allow.includes(right));
      if (missing === undefined) assert.equal(reply.code, undefined, `${entry.id} ${name}`);
      else
        assert.deepEqual([reply.code, reply.right], ["forbidden", missing], `${entry.id} ${name}`);
    }
  }
});

test("what is refused changes nothing", async () => {
  const store = `${workerd.url}/v1/spaces/mine/locks/unchanged`;
  const held = await fetch(`${store}/acquire`, posted(ask(), lockOnly.key));
  const { lease } = (await held.json()) as Json;
  for (const [op, body] of [
    ["revoke", {}],
    ["acquire", ask({ steal: true })],
  ] as const) {
    assert.equal((await fetch(`${store}/${op}`, posted(body, lockOnly.key))).status, 403);
  }
  await using socket = await Socket.open(workerd.url, "mine", { headers: bearer(lockOnly.key) });
  assert.equal((await socket.ask("revoke", "unchanged")).code, "forbidden");
  const { token, fence } = lease;
  const renewed = await fetch(`${store}/renew`, posted({ token, fence }, lockOnly.key));
  assert.equal(renewed.status, 200);
});

test("nobody gets in without a key, and nobody learns what there is", async () => {
  const stranger = makeKey("stranger", ["read"]).key;
  const first = everything.key;
  const near = first.slice(0, -1) + (first.endsWith("A") ? "B" : "A");
  const wrong: Record<string, string>[] = [
    {},
    bearer(stranger),
    bearer(near),
    bearer(first.slice(0, -1)),
    bearer(`${first}A`),
    bearer(everything.entry.sha256),
    { authorization: `Basic ${Buffer.from(`x:${first}`).toString("base64")}` },
    { authorization: first },
    { authorization: "Bearer" },
    { authorization: `Bearer ${first} ${first}` },
    { cookie: `key=${first}` },
    { "leasehold-pass": `${everything.id} ${everything.entry.sha256}` },
  ];
  const paths = [
    "/locks",
    "/locks/a",
    "/metrics",
    "/audit",
    "/session",
    "/nothing",
    `/locks?key=${first}`,
  ];
  for (const headers of wrong) {
    for (const path of paths) {
      const response = await fetch(`${workerd.url}/v1/spaces/mine${path}`, { headers });
      const problem = (await response.json()) as Json;
      assert.deepEqual([response.status, problem.code], [401, "unauthorized"], path);
      const isWrong =
        headers["authorization"]?.startsWith("Bearer l") &&
        !headers["authorization"].includes(" ", 8);
      const isHash = headers["authorization"] === `Bearer ${everything.entry.sha256}`;
      assert.equal(
        response.headers.get("www-authenticate"),
        `Bearer realm="leasehold"${isWrong || isHash ? ', error="invalid_token"' : ""}`,
      );
    }
  }
  for (const options of [
    {},
    { protocols: protocolsOf(stranger) },
    { protocols: [`leasehold.key.?`] },
  ]) {
    await assert.rejects(Socket.open(workerd.url, "mine", options));
  }
  await assert.rejects(Socket.open(workerd.url, "mine", { headers: bearer(elsewhere.key) }));
});

test("what is the same for everybody needs no key", async () => {
  for (const path of ["/healthz", "/openapi.json"]) {
    assert.equal((await fetch(workerd.url + path)).status, 200);
  }
});

test("a pattern is a name or the start of one", async () => {
  const status = async (space: string, key: string) =>
    (await fetch(`${workerd.url}/v1/spaces/${space}/locks`, { headers: bearer(key) })).status;
  for (const [space, expected] of [
    ["other", 200],
    ["mine-1", 200],
    ["mine-", 200],
    ["mine", 403],
    ["other1", 403],
    ["othe", 403],
    ["Other", 403],
  ] as const) {
    assert.equal(await status(space, elsewhere.key), expected, space);
  }
  assert.equal(await status("mine", readOnly.key), 200);
});

test("the scheme's name is any case's, and the key's is its own", async () => {
  const url = `${workerd.url}/v1/spaces/mine/locks`;
  const status = async (authorization: string) =>
    (await fetch(url, { headers: { authorization } })).status;
  assert.equal(await status(`bearer ${readOnly.key}`), 200);
  assert.equal(await status(`BEARER  ${readOnly.key}`), 200);
  assert.equal(await status(`Bearer ${readOnly.key.toUpperCase()}`), 401);
});

test("two keys at once, so that one can take the other's place", async () => {
  const [old, next] = [makeKey("old", ["lock"]), makeKey("new", ["lock"])];
  const status = async (url: string, key: string) =>
    (await fetch(`${url}/v1/spaces/s/locks/a/cancel`, posted(fields.cancel, key))).status;
  await using both = await Workerd.start({ variables: { LEASEHOLD_KEYS: secretOf([old, next]) } });
  assert.deepEqual([await status(both.url, old.key), await status(both.url, next.key)], [200, 200]);
  await using one = await Workerd.start({ variables: { LEASEHOLD_KEYS: secretOf([next]) } });
  assert.deepEqual([await status(one.url, old.key), await status(one.url, next.key)], [401, 200]);
});

test("a removed key stops working on an open socket when the object starts again", async () => {
  const [gone, stays, less] = [
    makeKey("gone", ["lock", "read"]),
    makeKey("stays", ["lock"]),
    makeKey("less", ["lock", "read"]),
  ];
  await using own = await Workerd.start({
    variables: { LEASEHOLD_KEYS: secretOf([gone, stays, less]) },
  });
  const store = new Store(own, "rotated");
  const first = await Socket.open(own.url, "rotated", { protocols: protocolsOf(gone.key) });
  await using second = await Socket.open(own.url, "rotated", { protocols: protocolsOf(stays.key) });
  await using third = await Socket.open(own.url, "rotated", { protocols: protocolsOf(less.key) });
  assert.equal((await first.ask("watch", undefined)).status, "watching");
  const { lease } = await first.ask("acquire", "a", ask({ ttlMs: 86_400_000 }));
  // Objects that start from now on see another secret.
  const { id, sha256 } = less.entry;
  const lesser = { id, sha256, spaces: ["rotated"], allow: ["read"] };
  await store.call("setKeys", JSON.stringify([stays.entry, lesser]));
  const before = await store.call("countConstructed");
  // Nobody says anything: the object sleeps, its sockets stay.
  await new Promise((resolve) => setTimeout(resolve, 12_000));
  assert.equal((await second.ask("cancel", "b", fields.cancel)).status, "cancelled");
  assert.ok((await store.call("countConstructed")) > before, "the object did not sleep");
  assert.deepEqual(await first.closed, [1008, "its key is not known any more"]);
  assert.deepEqual(
    [await third.ask("cancel", "b", fields.cancel), await third.ask("inspect", "a")].map(
      ({ code }) => code,
    ),
    ["forbidden", undefined],
  );
  // Its lease stays until it ends.
  assert.equal((await third.ask("inspect", "a")).holders[0].fence, lease.fence);
});

test("settings that cannot be read let nobody in, and the log says what is wrong but not what was set", async () => {
  const good = makeKey("good", ["read"]).entry;
  const secretive = "s3cr3t-content";
  const bad: readonly (readonly [Record<string, string>, RegExp])[] = [
    [{ LEASEHOLD_KEYS: secretive }, /LEASEHOLD_KEYS: it must be well-formed JSON/],
    [
      { LEASEHOLD_KEYS: JSON.stringify({ ...good, note: secretive }) },
      /LEASEHOLD_KEYS: it must be a list/,
    ],
    [
      { LEASEHOLD_KEYS: JSON.stringify([{ ...good, note: secretive }]) },
      /entry 1: it must be an object with/,
    ],
    [
      { LEASEHOLD_KEYS: JSON.stringify([good, { id: secretive }]) },
      /entry 2: it must be an object with/,
    ],
    [
      { LEASEHOLD_KEYS: JSON.stringify([good, good]) },
      /entry 2: another has the same id or sha256/,
    ],
    [{ LEASEHOLD_KEYS: JSON.stringify([{ ...good, id: `${secretive}!` }]) }, /entry 1: id must be/],
    [
      { LEASEHOLD_KEYS: JSON.stringify([{ ...good, sha256: secretive }]) },
      /entry 1: sha256 must be/,
    ],
    [{ LEASEHOLD_KEYS: JSON.stringify([{ ...good, spaces: [] }]) }, /entry 1: spaces must be/],
    [
      { LEASEHOLD_KEYS: JSON.stringify([{ ...good, spaces: [`*${secretive}`] }]) },
      /entry 1: spaces must be/,
    ],
    [
      { LEASEHOLD_KEYS: JSON.stringify([{ ...good, allow: [secretive] }]) },
      /entry 1: allow must be/,
    ],
    [
      { LEASEHOLD_KEYS: JSON.stringify([{ ...good, allow: ["read", "read"] }]) },
      /entry 1: allow must be/,
    ],
    [{ LEASEHOLD_KEYS: JSON.stringify([{ ...good, allow: [] }]) }, /entry 1: allow must be/],
    [
      { LEASEHOLD_OPEN: "true", LEASEHOLD_ORIGINS: `https://${secretive}/` },
      /LEASEHOLD_ORIGINS: number 1/,
    ],
    [
      { LEASEHOLD_OPEN: "true", LEASEHOLD_ORIGINS: "https://a.example,*" },
      /LEASEHOLD_ORIGINS: number 2/,
    ],
    [
      { LEASEHOLD_OPEN: "true", LEASEHOLD_LOCKS_PER_SPACE: "1e3" },
      /LEASEHOLD_LOCKS_PER_SPACE must be/,
    ],
    [
      { LEASEHOLD_OPEN: "true", LEASEHOLD_WAITERS_PER_LOCK: "10001" },
      /LEASEHOLD_WAITERS_PER_LOCK must be/,
    ],
    [
      { LEASEHOLD_OPEN: "true", LEASEHOLD_COMMANDS_PER_SOCKET: "0" },
      /LEASEHOLD_COMMANDS_PER_SOCKET must be/,
    ],
  ];
  for (const [variables, complaint] of bad) {
    await using shut = await Workerd.start({ variables });
    const response = await fetch(`${shut.url}/v1/spaces/s/locks`);
    assert.deepEqual([response.status, response.headers.get("retry-after")], [503, "1"]);
    assert.ok(!(await response.text()).includes(secretive));
    await until(async () => complaint.test(shut.log), 5_000);
    const line = JSON.parse(
      shut.log.split("\n").find((line) => line.includes("misconfigured"))!,
    ) as Json;
    assert.match(line.detail, complaint);
    assert.ok(!shut.log.includes(secretive), shut.log);
    assert.equal((await fetch(`${shut.url}/healthz`)).status, 200);
  }
});

test("once there are keys, LEASEHOLD_OPEN opens nothing", async () => {
  const variables = { LEASEHOLD_OPEN: "true", LEASEHOLD_KEYS: secretOf([readOnly]) };
  await using own = await Workerd.start({ variables });
  assert.equal((await fetch(`${own.url}/v1/spaces/mine/locks`)).status, 401);
});

test("refused access is a line in the log: who, what, where", async () => {
  await fetch(`${workerd.url}/v1/spaces/mine/locks/logged/revoke`, posted({}, lockOnly.key));
  await fetch(
    `${workerd.url}/v1/spaces/mine/locks/logged/acquire`,
    posted(ask({ steal: true }), lockOnly.key),
  );
  await using socket = await Socket.open(workerd.url, "mine", { headers: bearer(lockOnly.key) });
  await socket.ask("list", undefined);
  const lines = () => workerd.log.split("\n").filter((line) => line.startsWith("{"));
  await until(
    async () => lines().some((line) => line.includes('"op":"list"') && line.includes('"lock"')),
    5_000,
  );
  const refused = lines().map((line) => JSON.parse(line) as Json);
  for (const [op, right] of [
    ["revoke", "admin"],
    ["acquire", "admin"],
    ["list", "read"],
  ]) {
    const expected = { event: "refused", code: "forbidden", key: "lock", right, space: "mine", op };
    assert.ok(
      refused.some((line) => JSON.stringify(line) === JSON.stringify(expected)),
      op,
    );
  }
});
