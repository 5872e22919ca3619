// Several commands in one message: what a caller within the account has to say in one turn.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { pace } from "../src/worker/pace.ts";
import { ask, type Json, Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let spaces = 0;
const space = () => new Store(workerd, `messages-${(spaces += 1)}`);

before(async () => {
  workerd = await Workerd.start();
});
after(() => workerd[Symbol.asyncDispose]());

async function say(store: Store, message: unknown): Promise<Json> {
  const text = typeof message === "string" ? message : JSON.stringify(message);
  return JSON.parse((await store.call("message", text)) as string);
}

test("commands of one message are carried out and answered in their order", async () => {
  const store = space();
  const [mine, theirs] = [ask(), ask()];
  const [granted, held, inspected, listed] = await say(store, [
    { op: "acquire", lock: "a", ...mine },
    { op: "acquire", lock: "a", ...theirs },
    { op: "inspect", lock: "a" },
    { op: "list" },
  ]);
  assert.equal(granted.status, "granted");
  assert.equal(held.status, "held");
  assert.equal(inspected.holders[0].fence, granted.lease.fence);
  assert.deepEqual(
    listed.locks.map(({ lock }: Json) => lock),
    ["a"],
  );
  const { fence } = granted.lease;
  const [released, next] = await say(store, [
    { op: "release", lock: "a", token: mine.token, fence },
    { op: "acquire", lock: "a", ...theirs },
  ]);
  assert.deepEqual(released, { status: "released" });
  assert.ok(next.lease.fence > fence);
});

test("a message of more than 16 KiB is too large, and says so, whoever sends it", async () => {
  const store = space();
  const long = JSON.stringify({ id: 7, op: "inspect", lock: "a", info: "ü".repeat(8_192) });
  assert.equal((await say(store, long)).code, "too_large");
  const socket = new WebSocket(`${workerd.url.replace("http", "ws")}/v1/spaces/default/session`);
  await once(socket, "open");
  for (const [text, code] of [
    [long, "too_large"],
    [`{"id":7,"op":"inspect","lock":"a"}${" ".repeat(20_000)}`, "too_large"],
    [`{"id":7,"op":"inspect","lock":"a"`, "invalid_argument"],
  ] as const) {
    const answered = once(socket, "message");
    socket.send(text);
    const [{ data }] = (await answered) as [MessageEvent<string>];
    const reply = JSON.parse(data) as Json;
    assert.deepEqual([reply.id, reply.code], [7, code]);
  }
  socket.close();
});

test("in a message of several nobody waits for another: who has to wait is told so and keeps its place", async () => {
  const store = space();
  const holder = await store.hold("a");
  const waiter = { op: "acquire", lock: "a", ...ask({ waitMs: 60_000 }) };
  const [waiting, granted] = await say(store, [waiter, { op: "acquire", lock: "b", ...ask() }]);
  assert.deepEqual(waiting, { status: "waiting", position: 1, retryAfterMs: 60_000 });
  assert.equal(granted.status, "granted");
  // Asked again by itself, it waits at the same place.
  const asked = say(store, waiter);
  const place = async () => (await store.call("inspect", "a")).waiters.length;
  assert.equal(await place(), 1);
  await store.command("release", "a", holder);
  assert.equal((await asked).status, "granted");
  assert.equal(await place(), 0);
});

test("a command by itself waits", async () => {
  const store = space();
  const holder = await store.hold("a");
  let isOver = false;
  const asked = say(store, { op: "acquire", lock: "a", ...ask({ waitMs: 60_000 }) });
  void asked.finally(() => (isOver = true));
  await until(async () => (await store.call("inspect", "a")).waiters.length === 1, 5_000);
  assert.equal(isOver, false);
  await store.command("release", "a", holder);
  assert.equal((await asked).status, "granted");
});

test("what is wrong with one command of a message is wrong with that one alone", async () => {
  const store = space();
  const wrong = { op: "acquire", lock: "a", ...ask(), ttlMs: "30" };
  const right = { op: "acquire", lock: "b", ...ask() };
  const replies = await say(store, [wrong, right, { op: "steel", lock: "a" }, 7]);
  assert.deepEqual(
    replies.map(({ code, field, status }: Json) => [code ?? status, field]),
    [
      ["invalid_argument", "ttlMs"],
      ["granted", undefined],
      ["invalid_argument", "op"],
      ["invalid_argument", "body"],
    ],
  );
});

test("what is no message is refused and changes nothing", async () => {
  const store = space();
  const doubled = `{"op":"acquire","lock":"a","token":"t","token":"t","requestId":"r"}`;
  const half = `{"op":"inspect","lock":"${String.fromCharCode(0xd800)}"}`;
  for (const text of ["", "[]", "7", "{", doubled, half, "1\t2\n3\tacquire\t"]) {
    const { code, status } = await say(store, text);
    assert.deepEqual([code, status], ["invalid_argument", 400], text.slice(0, 80));
  }
  assert.deepEqual((await store.call("list")).locks, []);
});

test("a message may have line breaks and any letters", async () => {
  const store = space();
  const lock = "Schloß 🔒\t\u2028\u0000";
  const message = [
    { op: "acquire", lock, ...ask({ info: { "a\n": "🔑" } }) },
    { op: "inspect", lock },
  ];
  for (const text of [JSON.stringify(message, null, "\t\r\n"), JSON.stringify(message)]) {
    const [, inspected] = await say(store, text);
    assert.equal(inspected.lock, lock);
    assert.deepEqual(inspected.holders[0].info, { "a\n": "🔑" });
  }
});

test("who has come alone for a while has a turn at once, but for each 32nd, which looks whether it still does", async () => {
  const soon = pace();
  const had: number[] = [];
  const call = (number: number) => soon(() => had.push(number) && 1);
  const later = () => new Promise((resolve) => setTimeout(resolve, 20));
  for (const number of [0, 1, 2, 3]) {
    call(number);
    assert.equal(had.length, number);
    await later();
  }
  for (let number = 4; number < 32; number += 1) {
    call(number);
    assert.equal(had.length, number + 1);
  }
  call(32);
  assert.equal(had.length, 32);
  await later();
  assert.equal(had.length, 33);
  // After a turn of several, turns collect again.
  soon(() => 2);
  call(33);
  assert.equal(had.length, 33);
});
