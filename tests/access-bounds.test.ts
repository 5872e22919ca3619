// How much anybody may send, ask and leave behind; and that what is within bounds goes on where they are reached.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { connect, type Socket as TcpSocket } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { bearer, makeKey, posted, protocolsOf, secretOf, Socket } from "./support/keys.ts";
import { ask, type Json, sleep, Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let store: Store;

before(async () => {
  workerd = await Workerd.start();
  store = new Store(workerd);
});
after(() => workerd[Symbol.asyncDispose]());

/** Sends bytes as they are, and hears all that comes until the other side closes or is silent. */
async function raw(url: string, parts: readonly string[], pauseMs = 0): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket: TcpSocket = connect(Number(port), hostname);
  let heard = "";
  socket.setEncoding("utf8").on("data", (text: string) => (heard += text));
  socket.on("error", () => {});
  await once(socket, "connect");
  for (const part of parts) {
    socket.write(part);
    await sleep(pauseMs);
  }
  const start = performance.now();
  let length = -1;
  while (!socket.closed && performance.now() - start < 15_000) {
    if (heard && heard.length === length) break;
    length = heard.length;
    await sleep(300);
  }
  socket.destroy();
  return heard;
}

test("headers of 16 KiB and a little are refused, also without a key", async () => {
  const response = await fetch(`${workerd.url}/v1/spaces/default/locks`, {
    headers: { "x-filler": "x".repeat(16 * 1024) },
  });
  assert.equal(response.status, 431);
  assert.equal(((await response.json()) as Json).code, "too_large");
  const fits = { headers: { "x-filler": "x".repeat(15 * 1024) } };
  assert.equal((await store.send("/locks", fits)).status, 200);
});

test("an address of more than 16 KiB is refused", async () => {
  for (const path of [`/locks/${"x".repeat(17_000)}`, `/locks?prefix=${"x".repeat(17_000)}`]) {
    const { status, reply } = await store.send(path);
    assert.deepEqual([status, reply.code], [414, "too_large"]);
  }
});

test("a name that is too long is not looked at", async () => {
  for (const name of ["x".repeat(513), "%41".repeat(513), "%".repeat(2_000), "é".repeat(257)]) {
    const { status, reply } = await store.send(`/locks/${name}`);
    assert.deepEqual([status, reply.field], [400, "lock"], name.slice(0, 9));
  }
  assert.equal((await store.send(`/locks/${"%41".repeat(512)}`)).status, 200);
});

test("a body that does not come is not waited for longer than ten seconds", async () => {
  const start = performance.now();
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"token":'));
    },
  });
  const headers = { "content-type": "application/json" };
  const init = { method: "POST", headers, body, duplex: "half" } as RequestInit;
  const { status, reply } = await store.send("/locks/slow/acquire", init);
  assert.deepEqual([status, reply.code], [408, "too_slow"]);
  const tookMs = performance.now() - start;
  assert.ok(9_500 < tookMs && tookMs < 12_000, `${tookMs} ms`);
});

test("malformed requests are answered or cut off, and harm nobody", async () => {
  const garbage = [
    "\r\n\r\n\r\n\r\n",
    "GET\r\n\r\n",
    "GET / HTTP/9.9\r\n\r\n",
    "POST /v1/spaces/default/locks/a/acquire HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
    "POST /v1/spaces/default/locks/a/acquire HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
    "POST /v1/spaces/default/locks/a/acquire HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "GET /v1/spaces/default/locks HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
    "GET /v1/spaces/\0/locks HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /v1/spaces/default/session HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  ];
  for (const text of garbage) {
    const heard = await raw(workerd.url, [text]);
    const status = Number(/^HTTP\/1\.1 (\d+)/.exec(heard)?.[1] ?? 0);
    assert.ok(status === 0 || (status >= 400 && status < 500), `${JSON.stringify(text)}: ${heard}`);
  }
  assert.equal((await fetch(`${workerd.url}/healthz`)).status, 200);
});

test("pipelined requests are answered in order, each its own", async () => {
  const request = (lock: string) => {
    const body = JSON.stringify(ask());
    const head = `POST /v1/spaces/piped/locks/${lock}/acquire HTTP/1.1\r\nhost: x\r\n`;
    return `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  };
  const heard = await raw(workerd.url, [request("a") + request("a") + request("b")]);
  const statuses = [...heard.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  assert.deepEqual(statuses, ["200", "409", "200"]);
  const locks = [...heard.matchAll(/"lock":"(\w)"/g)].map(([, lock]) => lock);
  assert.deepEqual(locks, ["a", "b"]);
});

test("what comes after a body that was too long is no request", async () => {
  const body = " ".repeat(20_000);
  const head = `POST /v1/spaces/default/locks/a/acquire HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n`;
  const smuggled = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
  const heard = await raw(workerd.url, [
    `${head}content-length: ${body.length + smuggled.length}\r\n\r\n${body}${smuggled}`,
  ]);
  assert.match(heard, /^HTTP\/1\.1 413/);
  assert.equal([...heard.matchAll(/HTTP\/1\.1 /g)].length, 1);
});

test("a full space refuses new locks, and those that it has go on", async () => {
  const variables = { LEASEHOLD_OPEN: "true", LEASEHOLD_LOCKS_PER_SPACE: "3" };
  await using own = await Workerd.start({ variables });
  const full = new Store(own);
  const [a] = [await full.hold("a"), await full.hold("b"), await full.hold("c")];
  const { status, headers, reply } = await full.command("acquire", "d", ask());
  assert.deepEqual([status, reply.code], [429, "space_full"]);
  assert.equal(headers.get("retry-after"), "1");
  assert.equal((await full.command("acquire", "d", ask({ steal: true }))).status, 429);
  assert.equal((await full.call("acquire", "d", ask())).code, "space_full");
  // Others may wait for what there is; the holder renews; its lease is given back and the next one has it.
  const waiting = full.command("acquire", "a", ask({ waitMs: 5_000 }));
  await until(async () => (await full.send("/locks/a")).reply.waiters.length === 1, 5_000);
  assert.equal((await full.command("renew", "a", a)).reply.status, "renewed");
  assert.equal((await full.command("release", "a", a)).reply.status, "released");
  const next = (await waiting).reply;
  assert.equal(next.status, "granted");
  const { token, fence } = next.lease;
  assert.equal((await full.command("release", "a", { token, fence })).reply.status, "released");
  // There is room for one more now, and no more after a restart either.
  await full.hold("d");
  await own.restart();
  // What there is is counted as soon as the first turn has read it.
  await full.send("/locks");
  assert.equal((await full.command("acquire", "e", ask())).reply.code, "space_full");
});

test("a queue that is full refuses, and those in it are served", async () => {
  const variables = { LEASEHOLD_OPEN: "true", LEASEHOLD_WAITERS_PER_LOCK: "2" };
  await using own = await Workerd.start({ variables });
  const full = new Store(own);
  const lease = await full.hold("a");
  const waiting = [ask({ waitMs: 5_000 }), ask({ waitMs: 5_000 })].map((fields) =>
    full.command("acquire", "a", fields),
  );
  await until(async () => (await full.send("/locks/a")).reply.waiters.length === 2, 5_000);
  const { status, headers, reply } = await full.command("acquire", "a", ask({ waitMs: 5_000 }));
  assert.deepEqual([status, reply.code, headers.get("retry-after")], [429, "queue_full", "1"]);
  await full.command("release", "a", lease);
  assert.equal((await Promise.race(waiting)).reply.status, "granted");
  // The other one is given up.
  await own.kill();
  await Promise.allSettled(waiting);
});

test("more commands of one socket at once than it may are refused one by one", async () => {
  const variables = { LEASEHOLD_OPEN: "true", LEASEHOLD_COMMANDS_PER_SOCKET: "5" };
  await using own = await Workerd.start({ variables });
  await using socket = await Socket.open(own.url, "default", {});
  await using other = await Socket.open(own.url, "default", {});
  const commands = Array.from({ length: 8 }, (_, id) => ({ id, op: "inspect", lock: "a" }));
  socket.send(commands);
  const replies: Json[] = await socket.told(Array.isArray);
  assert.deepEqual(
    replies.map(({ code }) => code),
    [...Array(5).fill(undefined), ...Array(3).fill("too_many_requests")],
  );
  assert.equal((await other.ask("inspect", "a")).lock, "a");
  assert.equal((await socket.ask("inspect", "a")).lock, "a");
});

test("Cloudflare's rate limit is asked per key, and only where the deployment has it", async () => {
  type Miniflare = { ready: Promise<URL>; dispose(): Promise<void> };
  const { Miniflare, convertV4MiniflareOptions } = createRequire(import.meta.url)("miniflare") as {
    Miniflare: new (options: object) => Miniflare;
    convertV4MiniflareOptions(options: object): object;
  };
  const [eager, calm] = [makeKey("eager", ["read"]), makeKey("calm", ["read"])];
  const dist = join(import.meta.dirname, "../dist");
  const options = convertV4MiniflareOptions({
    modules: [
      {
        type: "ESModule",
        path: "worker.js",
        contents: await readFile(`${dist}/worker.js`, "utf8"),
      },
      {
        type: "CompiledWasm",
        path: "worker.wasm",
        contents: await readFile(`${dist}/worker.wasm`),
      },
    ],
    compatibilityDate: "2026-11-17",
    durableObjects: { LEASES: { className: "LeaseStore", useSQLite: true } },
    ratelimits: { LEASEHOLD_RATE_LIMIT: { namespace_id: "1", simple: { limit: 5, period: 60 } } },
    bindings: { LEASEHOLD_KEYS: secretOf([eager, calm]) },
  });
  const miniflare = new Miniflare(options);
  try {
    const url = (await miniflare.ready).href.replace(/\/$/, "");
    const locks = `${url}/v1/spaces/default/locks`;
    const statuses = async (headers: Record<string, string>) => {
      const all: number[] = [];
      for (let at = 0; at < 7; at += 1) all.push((await fetch(locks, { headers })).status);
      return all;
    };
    assert.deepEqual(await statuses(bearer(eager.key)), [...Array(5).fill(200), 429, 429]);
    const refused = await fetch(locks, { headers: bearer(eager.key) });
    assert.equal(refused.headers.get("retry-after"), "1");
    assert.equal(((await refused.json()) as Json).code, "too_many_requests");
    assert.deepEqual(await statuses(bearer(calm.key)), [...Array(5).fill(200), 429, 429]);
    // Whoever guesses is slowed down, too.
    assert.deepEqual(await statuses(bearer("guess")), [...Array(5).fill(401), 429, 429]);
    const limited = await fetch(`${locks}/a/acquire`, posted(ask(), "guess"));
    assert.equal(limited.status, 429);
    await assert.rejects(Socket.open(url, "default", { protocols: protocolsOf(eager.key) }));
  } finally {
    await miniflare.dispose();
  }
});
