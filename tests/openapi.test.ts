// The OpenAPI document is true: every response that it tells of is driven out of the running service, and the service
// gives no other, whatever it is sent.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { bearer, makeKey, protocolsOf, secretOf, Socket } from "./support/keys.ts";
import {
  assertValid,
  at,
  document,
  documented,
  judged,
  operation,
  operations,
  type Response,
} from "./support/openapi.ts";
import { Dice, generate } from "./support/generate.ts";
import { ask, type Fields, type Json } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

const all = makeKey("all", ["read", "lock", "admin"]);
const elsewhere = makeKey("elsewhere", ["read", "lock", "admin"], ["elsewhere"]);

let workerd: Workerd;
/** What was seen of {@link documented}. */
const seen = new Set<string>();

before(async () => {
  workerd = await Workerd.start({
    variables: {
      LEASEHOLD_KEYS: secretOf([all, elsewhere]),
      LEASEHOLD_LOCKS_PER_SPACE: "200",
      LEASEHOLD_WAITERS_PER_LOCK: "1",
    },
  });
});
after(() => workerd[Symbol.asyncDispose]());

interface Request {
  readonly space?: string;
  readonly lock?: string;
  readonly query?: string;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
  readonly url?: string;
}

/** Sends one that is right but for what is given, and judges what comes. */
async function drive(
  id: string,
  request: Request = {},
): Promise<Response & { readonly reply: Json }> {
  const to = operation(id);
  const { method, path } = to;
  const { space = "driven", lock = "a", query = "", url = workerd.url } = request;
  const address = path
    .replace("{space}", encodeURIComponent(space))
    .replace("{lock}", encodeURIComponent(lock));
  const headers = { ...bearer(all.key), ...(method === "POST" && JSON_TYPE), ...request.headers };
  const body = request.body ?? BODIES[id];
  const init: RequestInit & { duplex?: string } = { method, headers };
  if (method === "POST") {
    const isRaw = typeof body === "string" || body instanceof ReadableStream;
    init.body = isRaw ? (body as BodyInit) : JSON.stringify(body);
    init.duplex = "half";
  }
  const response = await fetch(url + address + query, init);
  const text = await response.text();
  const answer = { status: response.status, headers: response.headers, text };
  seen.add(judged(to, answer));
  const isJson = response.headers.get("content-type")?.includes("json");
  return { ...answer, reply: isJson ? JSON.parse(text) : undefined };
}

const JSON_TYPE = { "content-type": "application/json" };

/** Bodies that are right, and find nothing. */
const BODIES: Readonly<Record<string, Fields>> = {
  acquire: { token: "t", requestId: "r", ttlMs: 50 },
  renew: { token: "t", fence: 1 },
  release: { token: "t", fence: 1 },
  cancel: { token: "t", requestId: "r" },
  revoke: {},
};
const POSTED = Object.keys(BODIES);
const PUBLIC = ["healthz", "openapi"];
const KEYED = operations.map(({ id }) => id).filter((id) => !PUBLIC.includes(id));

test("the document is served as it is, and hangs together", async () => {
  assert.deepEqual((await drive("openapi")).reply, document);
  const text = JSON.stringify(document);
  for (const [, reference] of text.matchAll(/"\$ref":"#([^"]+)"/g)) {
    assert.ok(at(reference!)[1], reference);
  }
  const ids = operations.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
  for (const { path, content } of operations) {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const declared = (content.parameters ?? []).map((parameter: Json) =>
      parameter.$ref ? at(parameter.$ref.slice(1))[1] : parameter,
    );
    const inPath = declared.filter((parameter: Json) => parameter.in === "path");
    assert.deepEqual(
      inPath.map(({ name }: Json) => name),
      names,
      path,
    );
  }
});

test("what everybody may ask", async () => {
  for (const id of PUBLIC) {
    assert.equal((await drive(id, { headers: { authorization: "" } })).status, 200);
  }
});

test("replies to commands", async () => {
  const first = (await drive("acquire", { body: ask({ clientId: "c", info: { a: [1, "x"] } }) }))
    .reply;
  const { token, fence } = first.lease;
  assert.equal((await drive("acquire", { body: ask() })).reply.status, "held");
  const waiting = ask({ waitMs: 50, clientId: "w", info: null });
  assert.equal((await drive("acquire", { body: waiting })).status, 202);
  assert.equal((await drive("acquire", { body: ask({ waitMs: 50 }) })).reply.code, "queue_full");
  await drive("inspect");
  await drive("list", { query: "?pageSize=1&prefix=a" });
  assert.equal((await drive("renew", { body: { token, fence } })).status, 200);
  assert.equal((await drive("renew")).status, 409);
  assert.equal(
    (await drive("cancel", { body: { token: waiting.token, requestId: waiting.requestId } }))
      .status,
    200,
  );
  assert.equal((await drive("release", { body: { token, fence } })).status, 200);
  assert.equal((await drive("release")).status, 409);
  // The cancel of a lease that was renewed answers with that lease.
  const kept = ask();
  const { lease } = (await drive("acquire", { body: kept })).reply;
  await drive("renew", { body: { token: lease.token, fence: lease.fence } });
  const { requestId } = kept;
  assert.equal(
    (await drive("cancel", { body: { token: kept.token, requestId } })).reply.status,
    "granted",
  );
  assert.equal((await drive("revoke", { body: { reason: "r" } })).reply.revoked, 1);
  assert.equal((await drive("acquire", { body: kept })).reply.status, "lost");
  await drive("acquire", { lock: "s", body: ask({ mode: "shared", limit: 2 }) });
  const other = ask({ mode: "shared", limit: 3 });
  assert.equal((await drive("acquire", { lock: "s", body: other })).reply.code, "limit_mismatch");
  await drive("acquire", { lock: "s", body: ask({ steal: true }) });
  const { acts } = (await drive("audit", { query: "?pageSize=1" })).reply;
  assert.equal(acts[0].act, "steal");
  await drive("metrics");
});

test("what is wrong with a request", async () => {
  for (const id of KEYED) {
    assert.equal((await drive(id, { space: "-x" })).status, 400, id);
    for (const headers of [{ authorization: "" }, bearer("wrong")]) {
      assert.equal((await drive(id, { headers })).status, 401, id);
    }
    assert.equal(
      (await drive(id, { headers: bearer(elsewhere.key) })).reply.right !== undefined,
      true,
    );
  }
  for (const { id } of operations) {
    assert.equal((await drive(id, { query: `?${"x".repeat(17_000)}` })).status, 414, id);
    assert.equal(
      (await drive(id, { headers: { "x-filler": "x".repeat(17_000) } })).status,
      431,
      id,
    );
  }
  for (const id of POSTED) {
    assert.equal((await drive(id, { body: " ".repeat(17_000) })).status, 413, id);
    assert.equal((await drive(id, { headers: { "content-type": "text/plain" } })).status, 415, id);
  }
  assert.equal((await drive("session")).status, 426);
});

test("a body that does not come", async () => {
  const never = () => new ReadableStream({ start: (it) => it.enqueue(new Uint8Array([123])) });
  const slow = await Promise.all(POSTED.map((id) => drive(id, { body: never() })));
  assert.ok(slow.every(({ status }) => status === 408));
});

test("a service that lets nobody in", async () => {
  for (const variables of [{}, { LEASEHOLD_KEYS: "?" }]) {
    await using shut = await Workerd.start({ variables: variables as Record<string, string> });
    for (const id of KEYED) assert.equal((await drive(id, { url: shut.url })).status, 503, id);
  }
});

test("a space that is full", async () => {
  const asks = Array.from({ length: 210 }, (_, at) =>
    drive("acquire", { space: "full", lock: `l${at}`, body: ask() }),
  );
  const codes = (await Promise.all(asks)).map(({ reply }) => reply.code);
  assert.equal(codes.filter((code) => code === "space_full").length, 10);
});

test("more than the rate limit allows", async () => {
  type Miniflare = { ready: Promise<URL>; dispose(): Promise<void> };
  const { Miniflare, convertV4MiniflareOptions } = createRequire(import.meta.url)("miniflare") as {
    Miniflare: new (options: object) => Miniflare;
    convertV4MiniflareOptions(options: object): object;
  };
  const dist = join(import.meta.dirname, "../dist");
  const contents = (name: string) => readFile(join(dist, name));
  const options = convertV4MiniflareOptions({
    modules: [
      { type: "ESModule", path: "worker.js", contents: (await contents("worker.js")).toString() },
      { type: "CompiledWasm", path: "worker.wasm", contents: await contents("worker.wasm") },
    ],
    compatibilityDate: "2026-11-17",
    durableObjects: { LEASES: { className: "LeaseStore", useSQLite: true } },
    ratelimits: { LEASEHOLD_RATE_LIMIT: { namespace_id: "1", simple: { limit: 1, period: 60 } } },
    bindings: { LEASEHOLD_OPEN: "true" },
  });
  const miniflare = new Miniflare(options);
  try {
    const url = (await miniflare.ready).href.replace(/\/$/, "");
    await fetch(`${url}/v1/spaces/s/locks`);
    for (const id of KEYED) {
      const { status, reply } = await drive(id, { url });
      assert.deepEqual([status, reply?.code], [429, "too_many_requests"], id);
    }
  } finally {
    await miniflare.dispose();
  }
});

test("a socket, its frames and what it is told", async () => {
  const open = (key = all.key) =>
    Socket.open(workerd.url, "framed", { protocols: protocolsOf(key) });
  await using socket = await open();
  await using other = await open();
  seen.add("session 101 none");
  const reply = async (from: Socket, op: string, lock: string | undefined, fields: Fields = {}) => {
    const frame = {
      id: `${op} ${Math.random()}`,
      op,
      ...(lock !== undefined && { lock }),
      ...fields,
    };
    assertValid("/components/schemas/Frame", frame, op);
    from.send(frame);
    const answer = await from.told(({ id }) => id === frame.id);
    assertValid("/components/schemas/FrameReply", answer, op);
    return answer;
  };
  const push = async (to: Socket, kind: string) => {
    const told = await to.told((message) => message.push === kind);
    assertValid("/components/schemas/Push", told, kind);
    return told;
  };
  await reply(other, "watch", undefined, { prefix: "" });
  const { lease } = await reply(socket, "acquire", "a", ask({ info: 1, clientId: "c" }));
  await reply(socket, "acquire", "a", ask());
  await reply(socket, "acquire", "a", ask({ waitMs: 5_000 }));
  await reply(socket, "inspect", "a");
  await reply(socket, "list", undefined, { pageSize: 1 });
  await reply(socket, "renew", "a", { token: lease.token, fence: lease.fence });
  await reply(socket, "renew", "a", { token: "t", fence: 1 });
  await reply(socket, "release", "a", { token: lease.token, fence: lease.fence });
  await push(socket, "granted");
  await reply(other, "revoke", "a", { reason: "r" });
  await push(socket, "ended");
  await reply(socket, "cancel", "a", { token: "t", requestId: "r" });
  for (let at = 0; at < 5; at += 1) await push(other, "changed");
  await reply(other, "unwatch", undefined, { prefix: "" });
  for (const frame of [
    { id: 1, op: "none" },
    { op: "list" },
    { id: 1, op: "list", pageSize: 0 },
    1,
  ]) {
    socket.send(frame);
    assertValid("/components/schemas/FrameReply", await socket.told(({ code }) => code), "wrong");
  }
  socket.send([{ id: 1, op: "list" }]);
  for (const each of await socket.told(Array.isArray)) {
    assertValid("/components/schemas/FrameReply", each, "one of several");
  }
});

test("every response that the document tells of was seen", () => {
  const expected = documented();
  assert.deepEqual(
    [...expected].filter((response) => !seen.has(response)),
    [],
  );
});

const SEED = Number(process.env["LEASEHOLD_SEED"] ?? Date.now() % 1_000_000);

test(`whatever is sent, what comes is documented and no fault (seed ${SEED})`, async () => {
  const dice = new Dice(SEED);
  const counts = new Map<number, number>();
  const generated = operations.filter(({ id }) => id !== "session");
  for (let round = 0; round < 150; round += 1) {
    const requests = generated.map((to) => generate(to, dice, workerd.url, all.key));
    const answers = requests.map(async ({ to, url, init }) => {
      const response = await fetch(url, init);
      const text = await response.text();
      const what = `seed ${SEED}, round ${round}: ${init.method} ${url} ${String(init.body)}`;
      assert.ok(response.status < 500, `${what}: ${response.status} ${text}`);
      try {
        judged(to, { status: response.status, headers: response.headers, text });
      } catch (error) {
        throw new Error(what, { cause: error });
      }
      counts.set(response.status, (counts.get(response.status) ?? 0) + 1);
    });
    await Promise.all(answers);
  }
  // Not all of it is refused, and not all of it is right.
  for (const status of [200, 400, 409]) assert.ok((counts.get(status) ?? 0) > 50, `${[...counts]}`);
});
