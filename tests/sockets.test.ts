// The client over a socket that breaks, and what the store makes of that.
import assert from "node:assert/strict";
import { createHook } from "node:async_hooks";
import { createHash } from "node:crypto";
import { getEventListeners } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, afterEach, before, test } from "node:test";
import { type Change, type Lease, Leasehold, type LeaseholdOptions, memoryStore } from "leasehold";
import { rejectsWith, sleep, until } from "./support/cases.ts";
import { block } from "./support/faulty.ts";
import { Proxy } from "./support/proxy.ts";
import { ask, Store } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

const rejections: unknown[] = [];
process.on("unhandledRejection", (reason) => rejections.push(reason));

let workerd: Workerd;
let proxy: Proxy;
before(async () => {
  workerd = await Workerd.start();
  proxy = await Proxy.before(workerd.url);
});
const clients: Leasehold[] = [];
afterEach(async () => {
  Object.assign(proxy, { isDown: false, isDeaf: false, delayMs: () => 0 });
  await Promise.all(clients.splice(0).map((client) => client.close()));
  assert.deepEqual(rejections, []);
});
after(async () => {
  await proxy[Symbol.asyncDispose]();
  await workerd[Symbol.asyncDispose]();
});

/** A client behind the proxy, closed after the test. */
function client(options: LeaseholdOptions = {}): Leasehold {
  const locks = new Leasehold(proxy.url, options);
  clients.push(locks);
  return locks;
}

/** A client whose way is good. */
function other(options: LeaseholdOptions = {}): Leasehold {
  const locks = new Leasehold(workerd.url, options);
  clients.push(locks);
  return locks;
}

let names = 0;
const name = () => `lock ${++names}`;

/** A WebSocket that notes what it sends and gets. */
function recording() {
  const sent: string[] = [];
  const got: string[] = [];
  const opened: WebSocket[] = [];
  class Recording extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      opened.push(this);
      this.addEventListener("message", ({ data }) => got.push(String(data)));
    }
    override send(text: string): void {
      sent.push(text);
      super.send(text);
    }
  }
  return { WebSocket: Recording, sent, got, opened };
}

const count = (messages: string[]) => messages.filter((text) => !/^p[io]ng$/.test(text)).length;

test("one socket for all locks of a space, and the commands of one turn in one message, in order", async () => {
  const { WebSocket, sent, got, opened } = recording();
  const locks = client({ WebSocket, space: name() });
  const leases = await Promise.all(
    Array.from({ length: 50 }, (_, index) => locks.acquire(`${index}`)),
  );
  assert.equal(opened.length, 1);
  assert.deepEqual([count(sent), count(got)], [1, 1]);
  assert.equal(opened[0]!.protocol, "leasehold.v1");
  const fences = leases.map(({ fence }) => fence);
  assert.deepEqual(fences, [...fences].sort());
  await Promise.all(leases.map((lease) => lease.release()));
  assert.deepEqual([count(sent), count(got)], [2, 2]);
});

/** A store that answers a message at once, grants whatever is asked for, and revokes the last lease of it where it is to. */
class GrantingStore extends EventTarget {
  readonly sent: number[] = [];
  readyState = 0;
  #isRevoking: boolean;

  constructor(isRevoking = false) {
    super();
    this.#isRevoking = isRevoking;
    setTimeout(() => this.dispatchEvent(new Event("open")));
  }

  send(text: string): void {
    const commands = [JSON.parse(text)].flat();
    this.sent.push(commands.length);
    const replies = commands.map(({ id, op, lock, token }) => {
      if (op === "release") return { id, status: "released" };
      if (op === "inspect") return { id, lock, holders: [], waiters: [] };
      const rest = { token, fence: id, mode: "exclusive", ttlMs: 30_000, expiresInMs: 30_000 };
      const lease = { space: "default", lock, ...rest, expiresAt: Date.now() + 30_000 };
      return { id, status: "granted", lease, waitedMs: 0 };
    });
    const { id, op, lock } = commands.at(-1);
    const ended = { push: "ended", lock, fence: id, status: "lost", reason: "revoked" };
    setTimeout(() => {
      this.#say(replies);
      if (this.#isRevoking && op === "acquire") this.#say(ended);
    });
  }

  close(): void {}

  #say(message: object): void {
    this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(message) }));
  }
}

/** A client of that store alone. */
function granted(store: GrantingStore): Leasehold {
  const WebSocket = function () {
    return store;
  } as unknown as new () => GrantingStore;
  const locks = new Leasehold("http://127.0.0.1:1", { WebSocket });
  clients.push(locks);
  return locks;
}

test("what the first half of many answers sets off is sent before the others are told, and what is pushed comes last", async () => {
  const store = new GrantingStore(true);
  const locks = granted(store);
  const told: string[] = [];
  const lanes = Array.from({ length: 64 }, async (_, index) => {
    const lease = await locks.acquire(`${index}`);
    told.push(lease.lock);
    if (index < 63) return lease.release();
    // It was held when it was told: what the store said after that came after that.
    assert.equal(lease.held, true);
    await until(() => lease.signal.aborted);
    assert.equal(lease.signal.reason.reason, "revoked");
  });
  await Promise.all(lanes);
  assert.deepEqual(
    told,
    Array.from({ length: 64 }, (_, index) => `${index}`),
  );
  assert.deepEqual(store.sent, [64, 32, 31]);
});

test("whoever asks something in every turn does not hold up the second half of many answers", async () => {
  const locks = granted(new GrantingStore());
  let count = 0;
  let turns = 0;
  const tick = () => {
    turns += 1;
    locks.inspect("another").catch(() => {});
    if (count < 64 && turns < 1_000) setImmediate(tick);
  };
  const lanes = Array.from({ length: 64 }, async (_, index) => {
    await locks.acquire(`${index}`);
    if (count++ === 0) tick();
  });
  await Promise.all(lanes);
  assert.ok(turns < 10, `it took ${turns} turns`);
});

test("a message is no longer than the store takes", async () => {
  const { WebSocket, sent } = recording();
  const locks = client({ WebSocket });
  const start = name();
  const info = "ü".repeat(400);
  const leases = await Promise.all(
    Array.from({ length: 300 }, (_, index) => locks.acquire(`${start} ${index}`, { info })),
  );
  assert.ok(sent.length > 15);
  for (const text of sent) assert.ok(new TextEncoder().encode(text).length <= 16 * 1024);
  await Promise.all(leases.map((lease) => lease.release()));
});

test("hand-off is told: one message to the next, none to the others", async () => {
  const lock = name();
  const holder = await other().acquire(lock);
  const { WebSocket, got } = recording();
  const locks = client({ WebSocket });
  const waits = Array.from({ length: 100 }, () => locks.acquire(lock));
  const settled = Promise.allSettled(waits);
  await until(() => got.join().split('"waiting"').length === 101);
  got.length = 0;
  await holder.release();
  const first = await waits[0]!;
  // Of the grant, and the reply to its claim, which may be on its way when others see it.
  await until(async () => (await other().inspect(lock)).holders[0]!.expiresInMs > 10_000);
  await until(() => count(got) >= 2);
  assert.equal(count(got), 2);
  await locks.close();
  assert.equal(first.held, false);
  await settled;
});

test("whoever loses a lease to somebody else is told at once", async () => {
  const lock = name();
  for (const end of ["revoked", "stolen"] as const) {
    const lease = await client().acquire(lock);
    const start = performance.now();
    if (end === "revoked") await other().revoke(lock);
    else await (await other().acquire(lock, { steal: true })).release();
    await until(() => lease.signal.aborted);
    assert.equal(lease.signal.reason.reason, end);
    assert.ok(performance.now() - start < 1_000);
  }
});

test("whoever's lease another process released is told at once, at a URL and in this process", async () => {
  const store = memoryStore();
  for (const make of [other, () => new Leasehold(store)]) {
    const lock = name();
    const [first, second] = [make(), make()];
    clients.push(second);
    const lease = await first.acquire(lock, { ttlMs: 3_600_000 });
    const attached = second.attach({ lock, token: lease.token, fence: lease.fence });
    await until(() => attached.held);
    assert.deepEqual(await attached.release(), { status: "released" });
    await until(() => lease.signal.aborted);
    assert.equal(lease.signal.reason.reason, "released");
    // And the other way round: whoever goes on with it is told as well.
    const next = await first.acquire(lock, { ttlMs: 3_600_000 });
    const successor = second.attach({ lock, token: next.token, fence: next.fence });
    await until(() => successor.held);
    assert.deepEqual(await next.release(), { status: "released" });
    await until(() => successor.signal.aborted);
    assert.equal(successor.signal.reason.reason, "released");
    await first.close();
  }
});

test("where no WebSocket can be had everything goes by HTTP", async () => {
  const refusing = createServer((request, response) => {
    const init = { method: request.method!, headers: { "content-type": "application/json" } };
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = chunks.length > 0 ? Buffer.concat(chunks) : null;
      const { status, ...answer } = await fetch(workerd.url + request.url, { ...init, body }).then(
        async (answer) => ({ status: answer.status, text: await answer.text() }),
      );
      response.writeHead(status, { "content-type": "application/json" }).end(answer.text);
    })();
  }).on("upgrade", (_, socket) => socket.end("HTTP/1.1 403 Forbidden\r\n\r\n"));
  refusing.listen(0, "127.0.0.1");
  await new Promise((resolve) => refusing.once("listening", resolve));
  const url = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}`;
  class Broken {
    constructor() {
      throw new Error("no sockets here");
    }
  }
  const ways: [string, LeaseholdOptions][] = [
    [workerd.url, { WebSocket: false }],
    [workerd.url, { WebSocket: Broken as never }],
    [workerd.url, { fetch: (url, init) => fetch(url, init) }],
    [url, {}],
  ];
  for (const [target, options] of ways) {
    const lock = name();
    const locks = new Leasehold(target, options);
    const lease = await locks.acquire(lock, { ttlMs: 600 });
    const wait = locks.acquire(lock, { waitMs: 5_000 });
    await until(async () => (await locks.inspect(lock)).waiters.length === 1);
    await sleep(700);
    assert.equal(lease.held, true);
    await lease.release();
    const next = await wait;
    assert.ok(next.held && next.fence > lease.fence);
    await locks.close();
  }
  await rejectsWith("unavailable", new Leasehold(workerd.url, { WebSocket: false }).watch().next());
  refusing.close();
  refusing.closeAllConnections();
});

test("a key goes with the socket, and a wrong one is answered as over HTTP", async () => {
  const key = "a key / with + all = sorts";
  const keys = ["lock", "read"].map((right) => ({
    id: right,
    sha256: createHash("sha256")
      .update(`${right}:${key.replaceAll(" ", "~")}`)
      .digest("hex"),
    spaces: ["*"],
    allow: right === "lock" ? ["lock", "read"] : ["read"],
  }));
  await using guarded = await Workerd.start({
    variables: { LEASEHOLD_KEYS: JSON.stringify(keys) },
  });
  const { WebSocket, opened, got } = recording();
  const of = (right: string) =>
    new Leasehold(guarded.url, { WebSocket, key: `${right}:${key.replaceAll(" ", "~")}` });
  const locks = of("lock");
  const lease = await locks.acquire("a");
  assert.deepEqual([opened[0]!.readyState, opened[0]!.protocol], [1, "leasehold.v1"]);
  await rejectsWith("forbidden", locks.acquire("a", { steal: true }));
  await rejectsWith("forbidden", locks.revoke("a"));
  await lease.release();
  assert.ok(got.length >= 4);
  const reader = of("read");
  assert.equal((await reader.inspect("a")).holders.length, 0);
  await rejectsWith("forbidden", reader.acquire("a"));
  const nobody = of("nobody");
  await rejectsWith("unauthorized", nobody.acquire("a"));
  await rejectsWith("unauthorized", nobody.watch().next());
  await rejectsWith("unauthorized", new Leasehold(guarded.url).inspect("a"));
  await Promise.all([locks, reader, nobody].map((client) => client.close()));
});

test("calls of one client reach the store in the order made, over HTTP too", async () => {
  for (const options of [{}, { WebSocket: false }] as const) {
    const lock = name();
    const locks = client(options);
    const holder = await locks.acquire(lock);
    const order = Array.from({ length: 20 }, (_, index) => index);
    const waits = order.map((index) => locks.acquire(lock, { info: index }));
    const { waiters } = await locks.inspect(lock);
    assert.deepEqual(
      waiters.map(({ info }) => info),
      order,
    );
    const gone = holder.release();
    assert.equal(await locks.tryAcquire(lock), null);
    await gone;
    for (const wait of waits) await (await wait).release();
    const last = await locks.acquire(lock);
    void last.release();
    assert.ok(await locks.tryAcquire(lock));
  }
});

test("calls over HTTP lost their order where all answers before them took over a second together", async () => {
  const lock = name();
  const locks = client({ WebSocket: false });
  await locks.acquire(lock);
  proxy.delayMs = () => Math.random() * 100;
  const order = Array.from({ length: 20 }, (_, index) => index);
  for (const index of order) locks.acquire(lock, { info: index }).catch(() => {});
  const { waiters } = await locks.inspect(lock);
  assert.deepEqual(
    waiters.map(({ info }) => info),
    order,
  );
});

test("calls on their way over HTTP were overtaken when there was a socket again", async () => {
  const lock = name();
  await other().acquire(lock);
  let attempts = 0;
  class Late extends WebSocket {
    constructor(url: string, protocols: string[]) {
      attempts += 1;
      if (attempts === 1) throw new Error("not yet");
      super(url, protocols);
    }
  }
  const locks = client({ WebSocket: Late });
  proxy.delayMs = () => 30;
  await locks.acquire(name());
  const order = Array.from({ length: 20 }, (_, index) => index);
  for (const index of order) {
    locks.acquire(lock, { info: index }).catch(() => {});
    await sleep(25);
  }
  const { waiters } = await locks.inspect(lock);
  assert.equal(attempts, 2);
  assert.deepEqual(
    waiters.map(({ info }) => info),
    order,
  );
});

test("a socket that closes takes its waiters at once; of one that is cut off the places are kept for a while", async () => {
  const store = new Store(workerd);
  const lock = name();
  await store.hold(lock, { ttlMs: 60_000 });
  const open = async (url: string) => {
    const socket = new WebSocket(`${url}/v1/spaces/default/session`.replace("http", "ws"));
    await new Promise((resolve) => (socket.onopen = resolve));
    return socket;
  };
  const wait = async (socket: WebSocket, fields: object) => {
    socket.send(JSON.stringify({ id: 1, op: "acquire", lock, waitMs: 60_000, ...fields }));
    return new Promise<{ position: number }>((resolve) => {
      socket.onmessage = ({ data }) => resolve(JSON.parse(String(data)));
    });
  };
  const waiting = async () => (await other().inspect(lock)).waiters.length;
  const first = ask();
  const one = await open(proxy.url);
  assert.equal((await wait(one, first)).position, 1);
  const two = await open(workerd.url);
  assert.equal((await wait(two, ask())).position, 2);
  const three = await open(workerd.url);
  assert.equal((await wait(three, ask())).position, 3);
  two.close();
  await until(async () => (await waiting()) === 2);
  proxy.cut();
  await sleep(1_000);
  assert.equal(await waiting(), 2);
  const back = await open(proxy.url);
  assert.equal((await wait(back, first)).position, 1);
  // Back in time: it is that socket's now, and lives on.
  await sleep(5_500);
  assert.equal(await waiting(), 2);
  proxy.cut();
  await sleep(4_000);
  assert.equal(await waiting(), 2);
  await sleep(2_500);
  assert.equal(await waiting(), 1);
  three.close();
});

test("a connection that breaks costs no lease and no place in a queue", async () => {
  const [lock, held] = [name(), name()];
  const holder = await other().acquire(lock);
  const locks = client();
  const lease = await locks.acquire(held, { ttlMs: 2_000 });
  const first = locks.acquire(lock, { info: "first" });
  await until(async () => (await other().inspect(lock)).waiters.length === 1);
  const second = other().acquire(lock, { info: "second" });
  await until(async () => (await other().inspect(lock)).waiters.length === 2);
  for (let round = 0; round < 5; round += 1) {
    proxy.cut();
    await sleep(600);
  }
  proxy.isDown = true;
  proxy.cut();
  await sleep(1_000);
  proxy.isDown = false;
  await sleep(1_500);
  const { waiters } = await other().inspect(lock);
  assert.deepEqual(
    waiters.map(({ info }) => info),
    ["first", "second"],
  );
  assert.deepEqual([lease.held, lease.signal.aborted], [true, false]);
  proxy.cut();
  await holder.release();
  const next = await first;
  assert.ok(next.held);
  await next.release();
  await (await second).release();
});

// redisson#3891, #5762
test("a grant whose message is lost is found by the next ask", async () => {
  const lock = name();
  const holder = await other().acquire(lock);
  const wait = client().acquire(lock);
  await until(async () => (await other().inspect(lock)).waiters.length === 1);
  proxy.isDeaf = true;
  await holder.release();
  await until(async () => (await other().inspect(lock)).holders.length === 1);
  proxy.cut();
  proxy.isDeaf = false;
  const start = performance.now();
  assert.ok((await wait).held);
  assert.ok(performance.now() - start < 3_000);
});

test("a connection that went deaf is noticed and replaced in time for a lease of five seconds", async () => {
  const locks = client();
  const lease = await locks.acquire(name(), { ttlMs: 5_000 });
  // Only this connection: new ones work.
  const before = proxy.connections;
  proxy.isDeaf = true;
  await sleep(2_000);
  proxy.isDeaf = false;
  await sleep(5_000);
  assert.deepEqual([lease.held, lease.signal.aborted], [true, false]);
  assert.ok(proxy.connections - before < 10);
});

test("in a black hole the signal aborts no later than the last good renewal's sending, the ttl and the margin say", async () => {
  const ttlMs = 3_000;
  const marginMs = 300 + 3;
  const { WebSocket, sent, got } = recording();
  const locks = client({ WebSocket });
  const lock = name();
  let sentAt = 0;
  const lease = await locks.acquire(lock, { ttlMs });
  await until(() => {
    if (sentAt === 0 && sent.some((text) => text.includes('"renew"'))) sentAt = performance.now();
    return got.some((text) => text.includes('"renewed"'));
  });
  proxy.isDeaf = true;
  let abortedAt = 0;
  lease.signal.addEventListener("abort", () => (abortedAt = performance.now()));
  const next = await other().acquire(lock);
  assert.ok(lease.signal.aborted && !lease.held);
  assert.equal(lease.signal.reason.reason, "expired");
  // The polling above is a little late, and so are timers.
  const tookMs = abortedAt - sentAt;
  assert.ok(ttlMs - marginMs - 50 < tookMs && tookMs < ttlMs - marginMs + 50, `${tookMs} ms`);
  await next.release();
});

// redis-semaphore#9, bullmq#3183
test("a blocked event loop: the next line sees that it is not held, the signal aborts with the timers", async () => {
  const lock = name();
  const lease = await client().acquire(lock, { ttlMs: 200 });
  block(400);
  assert.equal(lease.held, false);
  await sleep(0);
  await sleep(0);
  assert.equal(lease.signal.aborted, true);
  assert.ok(await other().acquire(lock, { waitMs: 1_000 }));
});

// redisson#1326, #6643
test("1 000 waits with time-outs and aborts leave nothing", async () => {
  const timers = new Set<number>();
  const hook = createHook({
    init: (id, type) => type === "Timeout" && timers.add(id),
    destroy: (id) => timers.delete(id),
  }).enable();
  const lock = name();
  const holder = await other({ WebSocket: false }).acquire(lock, { renew: false });
  const { WebSocket, opened } = recording();
  const locks = client({ WebSocket });
  const { signal } = new AbortController();
  const aborted = new AbortController();
  const waits = [
    ...Array.from({ length: 500 }, () =>
      rejectsWith("timeout", locks.acquire(lock, { waitMs: 300, signal })),
    ),
    ...Array.from({ length: 500 }, () =>
      assert.rejects(locks.acquire(lock, { signal: aborted.signal }), { name: "AbortError" }),
    ),
  ];
  await sleep(500);
  aborted.abort();
  await Promise.all(waits);
  await until(async () => (await locks.inspect(lock)).waiters.length === 0);
  assert.deepEqual(getEventListeners(signal, "abort"), []);
  assert.deepEqual(getEventListeners(aborted.signal, "abort"), []);
  assert.equal(opened.length, 1);
  await holder.release();
  await locks.close();
  await until(() => opened[0]!.readyState === 3 && proxy.open === 0);
  await sleep(100);
  // What the runtime's own HTTP client keeps is not ours.
  assert.ok(timers.size < 10, `${timers.size} timers`);
  hook.disable();
});

test("an idle socket closes by itself, and one that can be told something stays", async () => {
  const { WebSocket, opened } = recording();
  const locks = client({ WebSocket });
  const lease = await locks.acquire(name());
  await sleep(7_000);
  assert.equal(opened[0]!.readyState, 1);
  await lease.release();
  await sleep(11_000);
  assert.equal(opened[0]!.readyState, 3);
  await (await locks.acquire(name())).release();
  assert.equal(opened.length, 2);
});

test("500 idle sockets let the object sleep, and a command on one of them works", async () => {
  const space = name().replace(" ", "-");
  const store = new Store(workerd, space);
  const idle = Array.from({ length: 500 }, () => other({ space }));
  const leases = await Promise.all(
    idle.map((locks, index) => locks.acquire(`${index}`, { ttlMs: 600_000 })),
  );
  const { rows } = await store.call("countWritten");
  assert.ok(rows >= 500);
  // Ten seconds without an event, and then some.
  await sleep(14_000);
  assert.deepEqual(await leases[7]!.release(), { status: "released" });
  const since = await store.call("countWritten");
  assert.ok(since.rows < 100, `${since.rows} rows written by an object that should be a new one`);
  // And what it is told comes over the socket that outlived the object.
  await sleep(12_000);
  await other({ space, WebSocket: false }).revoke("9");
  await until(() => leases[9]!.signal.aborted);
  assert.equal(leases[8]!.held, true);
});

test("watch: what there is, then every change; and from the start after a break", async () => {
  const start = name();
  const [a, b] = [`${start} a`, `${start} b`];
  const first = await other().acquire(a);
  const seen: string[] = [];
  const state = new Map<string, number>();
  const controller = new AbortController();
  const watching = (async () => {
    for await (const change of client().watch({ prefix: start, signal: controller.signal })) {
      if (change.change === "reset") state.clear();
      else state.set(change.lock, change.holders.length);
      seen.push(change.change === "reset" ? "reset" : `${change.change} ${change.lock.at(-1)}`);
    }
  })();
  await until(() => seen.length === 1);
  const second = await other().acquire(b);
  const wait = other().acquire(b);
  await until(() => seen.includes("queued b"));
  await second.release();
  const third = await wait;
  await other().revoke(b);
  await until(() => third.signal.aborted);
  await other().acquire(b, { ttlMs: 50, renew: false });
  await until(() => seen.includes("expired b"));
  assert.deepEqual(seen, [
    "present a",
    "acquired b",
    "queued b",
    "released b",
    "acquired b",
    "revoked b",
    "acquired b",
    "expired b",
  ]);
  seen.length = 0;
  proxy.isDown = true;
  proxy.cut();
  const fourth = await other().acquire(b);
  await first.release();
  proxy.isDown = false;
  await until(() => state.get(b) === 1);
  assert.deepEqual(seen, ["reset", "present b"]);
  assert.deepEqual([...state], [[b, 1]]);
  await fourth.release();
  await until(() => state.get(b) === 0);
  controller.abort(new Error("enough"));
  await assert.rejects(watching, /enough/);
});

test("watch: breaks under load leave the watcher with the state that is", async () => {
  const start = name();
  const state = new Map<string, number>();
  let resets = 0;
  const controller = new AbortController();
  const watching = (async () => {
    for await (const change of client().watch({ prefix: start, signal: controller.signal })) {
      if (change.change === "reset") (state.clear(), (resets += 1));
      else if (change.holders.length + change.queue > 0) state.set(change.lock, change.fence ?? 0);
      else state.delete(change.lock);
    }
  })();
  const locks = other();
  const kept: Lease[] = [];
  for (let round = 0; round < 300; round += 1) {
    const lease = await locks.acquire(`${start} ${round % 37} ${round}`);
    if (round % 10 === 0) kept.push(lease);
    else await lease.release();
    if (round % 100 === 50) proxy.cut();
  }
  await until(() => state.size === kept.length);
  await sleep(500);
  assert.deepEqual([...state.keys()].sort(), kept.map(({ lock }) => lock).sort());
  assert.ok(resets >= 1);
  controller.abort();
  await assert.rejects(watching, { name: "AbortError" });
});

test("watch: who reads slowly gets the latest of each lock, and not everything", async () => {
  const prefix = name();
  const locks = client();
  const changes = locks.watch({ prefix });
  const first = changes.next();
  const kept = await locks.acquire(`${prefix} kept`);
  await first;
  for (let round = 0; round < 40; round += 1) {
    const leases = await Promise.all(
      Array.from({ length: 40 }, (_, index) => locks.acquire(`${prefix} ${index}`)),
    );
    await Promise.all(leases.map((lease) => lease.release()));
  }
  await kept.release();
  const seen: Change[] = [];
  for await (const change of changes) {
    seen.push(change);
    if (change.change !== "reset" && change.lock === kept.lock && change.change === "released")
      break;
  }
  assert.ok(seen.length < 2_000, `${seen.length} changes`);
  const last = new Map(seen.map((change) => ["lock" in change ? change.lock : "", change]));
  for (const change of last.values()) {
    assert.deepEqual([change.change, "holders" in change && change.holders], ["released", []]);
  }
});

test("watch: thousands of locks are read page by page", async () => {
  const space = name().replace(" ", "-");
  const locks = other({ space });
  const leases: Lease[] = [];
  for (let start = 0; start < 1_500; start += 250) {
    const batch = Array.from({ length: 250 }, (_, index) => locks.acquire(`${start + index}`));
    leases.push(...(await Promise.all(batch)));
  }
  const seen = new Set<string>();
  for await (const change of client({ space }).watch()) {
    if (change.change === "present") seen.add(change.lock);
    if (seen.size === leases.length) break;
  }
  await locks.close();
});
