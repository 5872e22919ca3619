// The HTTP surface: addresses, methods, bodies, statuses, and who is let in.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { text as stringOf } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { ask, Store } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let store: Store;

before(async () => {
  workerd = await Workerd.start();
  store = new Store(workerd);
});
after(() => workerd[Symbol.asyncDispose]());

const JSON_TYPE = { "content-type": "application/json" };

test("healthz is healthy", async () => {
  const response = await fetch(`${workerd.url}/healthz`);
  assert.equal(response.status, 200);
  assert.equal(await response.text(), "ok\n");
});

test("every reply has its status, and none is to be cached", async () => {
  const asked = ask({ waitMs: 50 });
  const answers = {
    granted: await store.command("acquire", "a", ask()),
    waiting: await store.command("acquire", "a", asked),
    held: await store.command("acquire", "a", ask()),
    lost: await store.command("renew", "a", { token: "t", fence: 1 }),
    cancelled: await store.command("cancel", "a", {
      token: asked.token,
      requestId: asked.requestId,
    }),
  };
  const statuses = { granted: 200, waiting: 202, held: 409, lost: 409, cancelled: 200 };
  for (const [name, { status, headers, reply }] of Object.entries(answers)) {
    assert.equal(reply.status, name);
    assert.equal(status, statuses[name as keyof typeof statuses]);
    assert.equal(headers.get("content-type"), "application/json");
    assert.equal(headers.get("cache-control"), "no-store");
    assert.equal(headers.get("retry-after"), name === "held" ? "1" : null);
  }
  assert.deepEqual([answers.waiting.reply.position, answers.waiting.reply.retryAfterMs], [1, 0]);
});

test("a lock is one percent-encoded segment", async () => {
  const lease = await store.hold("a/b");
  assert.equal((await store.send("/locks/a%2Fb")).reply.lock, "a/b");
  assert.equal((await store.send("/locks/a%2fb")).reply.holders.length, 1);
  assert.equal((await store.send("/locks/a%252Fb")).reply.holders.length, 0);
  assert.equal((await store.command("release", "a/b", lease)).reply.status, "released");
});

test("what is not there is 404, a wrong method 405 with those allowed", async () => {
  for (const path of ["/v1", "/v1/", "/v1/spaces", "/", "/x"]) {
    const response = await fetch(workerd.url + path);
    assert.equal(response.status, 404, path);
    assert.equal(response.headers.get("content-type"), "application/problem+json");
    const problem = (await response.json()) as { code: string; status: number };
    assert.deepEqual([problem.code, problem.status], ["not_found", 404]);
  }
  for (const path of [
    "",
    "/",
    "/lock",
    "/locks/a/",
    "/locks/a/b",
    "/locks/a/list",
    "/locks/a/b/c",
  ]) {
    const { status, reply } = await store.send(path, {
      method: "POST",
      headers: JSON_TYPE,
      body: "{}",
    });
    assert.deepEqual([status, reply.code], [404, "not_found"], path);
  }
  const wrong = [
    ["GET", "/locks/a/acquire", "POST"],
    ["PUT", "/locks/a/renew", "POST"],
    ["DELETE", "/locks/a", "GET, HEAD"],
    ["POST", "/locks/a", "GET, HEAD"],
    ["POST", "/locks", "GET, HEAD"],
    ["POST", "/metrics", "GET, HEAD"],
    ["PUT", "/session", "GET"],
  ] as const;
  for (const [method, path, allow] of wrong) {
    const { status, headers, reply } = await store.send(path, { method });
    assert.deepEqual([status, reply.code], [405, "method_not_allowed"], path);
    assert.equal(headers.get("allow"), allow);
  }
});

test("HEAD was refused where GET is answered", async () => {
  const space = "/v1/spaces/read";
  const paths = ["/healthz", "/openapi.json"];
  for (const path of ["/locks", "/locks/a", "/audit", "/metrics", "/locks?cursor="]) {
    paths.push(space + path);
  }
  for (const path of [...paths, "/v1/nothing", `${space}/locks/-x`]) {
    const [got, head] = await Promise.all(
      ["GET", "HEAD"].map((method) => fetch(workerd.url + path, { method })),
    );
    assert.equal(head!.status, got!.status, path);
    for (const name of ["content-type", "cache-control", "x-content-type-options"]) {
      assert.equal(head!.headers.get(name), got!.headers.get(name), path);
    }
    assert.ok((await got!.text()).length > 0);
  }
  for (const [path, allow] of [
    ["/session", "GET"],
    ["/locks/a/renew", "POST"],
  ] as const) {
    const { status, headers } = await fetch(workerd.url + space + path, { method: "HEAD" });
    assert.deepEqual([status, headers.get("allow")], [405, allow]);
  }
  // To the letter: whatever came after the headers would be taken for another response.
  const socket = connect(Number(new URL(workerd.url).port), "127.0.0.1");
  const heads = paths.map((path) => `HEAD ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
  socket.write(`${heads.join("")}HEAD /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
  const all = await stringOf(socket);
  const responses = all.split(/(?=HTTP\/1\.1 )/);
  assert.equal(responses.length, paths.length + 1, all);
  for (const response of responses) assert.match(response, /^HTTP\/1\.1 (200|400) .*\r\n\r\n$/s);
});

test("a body has to say that it is JSON", async () => {
  const body = JSON.stringify(ask());
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""]) {
    const init = { method: "POST", headers: { "content-type": type }, body };
    const { status, reply } = await store.send("/locks/typed/acquire", init);
    assert.deepEqual([status, reply.code], [415, "unsupported_media_type"], type);
  }
  for (const type of ["application/json;charset=utf-8", "Application/JSON"]) {
    const init = { method: "POST", headers: { "content-type": type }, body };
    assert.equal((await store.send("/locks/typed/acquire", init)).status, 200);
  }
});

test("a body of 16 KiB is read, a longer one is not, however it is sent", async () => {
  const text = JSON.stringify(ask());
  const filled = text + " ".repeat(16 * 1024 - text.length);
  assert.equal((await store.command("acquire", "sized", filled)).status, 200);
  const sized = await store.command("acquire", "sized", `${filled} `);
  assert.deepEqual([sized.status, sized.reply.code], [413, "too_large"]);
  // In chunks, without a Content-Length.
  const chunks = Array.from({ length: 17 }, () => new TextEncoder().encode(" ".repeat(1024)));
  const body = new ReadableStream({
    pull(controller) {
      const chunk = chunks.pop();
      if (chunk === undefined) controller.close();
      else controller.enqueue(chunk);
    },
  });
  const init = { method: "POST", headers: JSON_TYPE, body, duplex: "half" };
  const chunked = await store.send("/locks/sized/acquire", init as RequestInit);
  assert.deepEqual([chunked.status, chunked.reply.code], [413, "too_large"]);
});

test("a body that is not UTF-8 is refused, not mended", async () => {
  const text = JSON.stringify(ask({ token: "?" }));
  const bytes = Buffer.from(text);
  bytes[bytes.indexOf("?")] = 0xff;
  const init = { method: "POST", headers: JSON_TYPE, body: bytes };
  const { status, reply } = await store.send("/locks/bytes/acquire", init);
  assert.deepEqual([status, reply.field], [400, "body"]);
});

test("a list is a page in byte order, and goes on after its cursor", async () => {
  const listed = new Store(workerd, "listed");
  for (const name of ["b", "a/2", "a/1", "a+", "\u{10ffff}", "a0", "\ue000", "ab"])
    await listed.hold(name);
  const names = async (query: string) => {
    const { reply } = await listed.send(`/locks${query}`);
    const locks = (reply.locks as { lock: string }[]).map(({ lock }) => lock);
    return reply.cursor === undefined ? locks : [...locks, `cursor ${reply.cursor}`];
  };
  assert.deepEqual(await names("?pageSize=3"), ["a+", "a/1", "a/2", "cursor a/2"]);
  assert.deepEqual(await names("?pageSize=3&cursor=a%2F2"), ["a0", "ab", "b", "cursor b"]);
  assert.deepEqual(await names("?pageSize=3&cursor=b"), ["\ue000", "\u{10ffff}"]);
  // Any name is one, whether there is such a lock or not.
  assert.deepEqual(await names("?pageSize=1&cursor=a%2F3"), ["a0", "cursor a0"]);
  assert.deepEqual(await names("?pageSize=1&cursor=@@"), ["a+", "cursor a+"]);
  assert.deepEqual(await names("?prefix=a%2F"), ["a/1", "a/2"]);
  assert.deepEqual(await names("?prefix=a%2B"), ["a+"]);
  assert.deepEqual(await names("?prefix=%F4%8F%BF%BF"), ["\u{10ffff}"]);
  assert.deepEqual(await names("?prefix=nobody"), []);
});

test("a query that is wrong is refused with its parameter", async () => {
  const wrong = [
    ["/locks?pageSize=0", "pageSize"],
    ["/locks?pageSize=1001", "pageSize"],
    ["/locks?pageSize=1.5", "pageSize"],
    ["/locks?pageSize=-1", "pageSize"],
    ["/locks?pageSize=%2B1", "pageSize"],
    ["/locks?pageSize=", "pageSize"],
    ["/locks?pageSize=1e2", "pageSize"],
    ["/locks?prefix=a&prefix=a", "prefix"],
    ["/locks?prefix=%ff", "prefix"],
    ["/locks?cursor=", "cursor"],
    [`/locks?prefix=${"x".repeat(513)}`, "prefix"],
    ["/locks?page=2", "page"],
    ["/locks/a?prefix=a", "prefix"],
    ["/locks/a?%zz=1", "query"],
  ] as const;
  for (const [path, field] of wrong) {
    const { status, reply } = await store.send(path);
    assert.deepEqual([status, reply.code, reply.field], [400, "invalid_argument", field], path);
  }
  const init = { method: "POST", headers: JSON_TYPE, body: JSON.stringify(ask()) };
  const posted = await store.send("/locks/queried/acquire?ttlMs=1000", init);
  assert.deepEqual([posted.status, posted.reply.field], [400, "ttlMs"]);
});

test("a space obeys the rules of a name", async () => {
  for (const space of ["-a", "%ff", "", "x".repeat(513)]) {
    const { status, reply } = await new Store(workerd, space).send("/locks");
    assert.deepEqual([status, reply.field], [400, "space"], space);
  }
  const long = new Store(workerd, "x".repeat(512));
  await long.hold("a");
  assert.equal((await new Store(workerd, "x".repeat(511)).send("/locks")).reply.locks.length, 0);
});

test("nobody is let in unless that was asked for in so many words", async () => {
  for (const variables of [
    {},
    { LEASEHOLD_OPEN: "1" },
    { LEASEHOLD_OPEN: "TRUE" },
    { LEASEHOLD_KEYS: "[]" },
  ]) {
    await using closed = await Workerd.start({ variables: variables as Record<string, string> });
    const shut = new Store(closed);
    const answers = [
      await shut.command("acquire", "a", ask()),
      await shut.send("/locks"),
      await shut.send("/nothing"),
    ];
    for (const { status, headers, reply } of answers) {
      assert.deepEqual([status, reply.code], [503, "unavailable"]);
      assert.equal(headers.get("content-type"), "application/problem+json");
      assert.equal(headers.get("retry-after"), "1");
    }
    assert.equal((await fetch(`${closed.url}/healthz`)).status, 200);
    // The account's own code needs no key.
    assert.equal((await shut.call("acquire", "a", ask())).status, "granted");
  }
});
