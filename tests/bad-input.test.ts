// Rules 13 and 14: thousands of requests that are wrong in one place, over each carrier, to a space in use. Each is refused
// as its sender's mistake, by the name of the field where there is one; nothing that is stored or counted changes, and the
// object goes on as the same.
import assert from "node:assert/strict";
import { Agent, request as send } from "node:http";
import { after, before, test } from "node:test";
import { badName, badText, badValues, LOCKS, OPS } from "./support/bad-input.ts";
import { Dice } from "./support/generate.ts";
import { Socket } from "./support/keys.ts";
import { ask, type Json, Store } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

const SEED = Number(process.env["LEASEHOLD_SEED"] ?? Date.now() % 1_000_000);
/** For each carrier; without it, so many of each. */
const SECONDS = Number(process.env["LEASEHOLD_SECONDS"] ?? 0) / 3;
const COUNTS = { http: 4_000, sockets: 4_000, rpc: 4_000 };
const AT_ONCE = 16;
const SPACE = "in-use";

const tried: Record<string, number> = {};

let workerd: Workerd;
let store: Store;

before(async () => {
  workerd = await Workerd.start();
  store = new Store(workerd, SPACE);
  const ttlMs = 86_400_000;
  await store.hold("held", { ttlMs, info: { a: 1 } });
  await store.hold("shared", { ttlMs, mode: "shared", limit: 3 });
});
after(() => workerd[Symbol.asyncDispose]());

test(`over HTTP (seed ${SEED})`, () => nothingChanges("http", overHttp));
test(`over sockets (seed ${SEED})`, () => nothingChanges("sockets", overSockets));
test(`over RPC (seed ${SEED})`, () => nothingChanges("rpc", overRpc));

test("all of them were tried", () => {
  const { http = 0, sockets = 0, rpc = 0 } = tried;
  console.log(
    `proof: ${http + sockets + rpc} bad inputs from seed ${SEED} (${http} over HTTP, ${sockets} over sockets, ${rpc} over RPC), all refused`,
  );
  assert.ok(http >= COUNTS.http && sockets >= COUNTS.sockets && rpc >= COUNTS.rpc);
});

/** Tries for as long as there is time, in batches, and compares what there was before and after. */
async function nothingChanges(
  carrier: keyof typeof COUNTS,
  trial: (dice: Dice) => Promise<number>,
): Promise<void> {
  const before = await everything();
  const dice = new Dice(SEED);
  const end = performance.now() + SECONDS * 1_000;
  let count = 0;
  while (count < COUNTS[carrier] || performance.now() < end) count += await trial(dice);
  assert.deepEqual(await everything(), before, `something has changed, with seed ${SEED}`);
  assert.doesNotMatch(workerd.log, /"event":"(panic|reset|failed|failed_flush)"/);
  tried[carrier] = count;
}

/** All that a request could change. */
async function everything(): Promise<Json> {
  const { rows } = await store.call("countWritten");
  const { locks } = (await store.send("/locks")).reply;
  for (const { holders } of locks) {
    for (const holder of holders) {
      delete holder.expiresInMs;
      delete holder.heldMs;
    }
  }
  const free = (await store.send("/locks/free")).reply;
  assert.deepEqual([locks.length, free.holders], [2, []]);
  const constructed = await store.call("countConstructed");
  return { tables: await store.call("rows"), rows, locks, free, constructed };
}

/** Refused as its sender's mistake: a problem with a code, and by that field's name, if one is given. */
function assertRefused(reply: Json, field: string | undefined, what: string): void {
  const { code, status, detail } = reply ?? {};
  assert.deepEqual([code, status], ["invalid_argument", 400], `${what}: ${JSON.stringify(reply)}`);
  assert.equal(typeof detail, "string");
  if (field === undefined) assert.equal(typeof reply.field, "string", what);
  // A longer name is told of by its beginning.
  else assert.equal(reply.field, [...field].slice(0, 64).join(""), what);
}

async function inParallel(trials: readonly (() => Promise<void>)[]): Promise<number> {
  await Promise.all(trials.map((trial) => trial()));
  return trials.length;
}

const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
after(() => agent.destroy());

/** A request to the letter: what `fetch` would put right stays wrong. */
interface Raw {
  readonly method: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

interface WrongRequest extends Raw {
  readonly expected: readonly [status: number, code: string, field?: string];
}

async function overHttp(dice: Dice): Promise<number> {
  const trials = Array.from({ length: AT_ONCE }, () => {
    return dice.once(3) ? tryRequest(wrongRequest(dice)) : tryBody(dice);
  });
  return inParallel(trials);
}

const POSTED = ["acquire", "renew", "release", "cancel", "revoke"];
const JSON_TYPE = { "content-type": "application/json" };
const LOCKS_PATH = `/v1/spaces/${SPACE}/locks`;

function tryBody(dice: Dice): () => Promise<void> {
  const { op, lock, text, field } = badText(POSTED, dice);
  const path = `${LOCKS_PATH}/${lock}/${op}`;
  return tryRequest({
    method: "POST",
    path,
    headers: JSON_TYPE,
    body: text,
    expected: [400, "invalid_argument", field ?? ANY],
  });
}

/** Some field, and it is not certain which. */
const ANY = "*";

function tryRequest({ expected, ...request }: WrongRequest): () => Promise<void> {
  const [status, code, field] = expected;
  return async () => {
    const answer = await raw(request);
    const body = String(request.body ?? "").slice(0, 2_000);
    const what = `seed ${SEED}: ${request.method} ${request.path.slice(0, 2_000)} ${body}`;
    const { reply } = answer;
    assert.equal(answer.status, status, `${what}: ${JSON.stringify(reply)}`);
    assert.equal(answer.type, "application/problem+json", what);
    if (code === "invalid_argument") assertRefused(reply, field === ANY ? undefined : field, what);
    else assert.deepEqual([reply.code, reply.field], [code, undefined], what);
  };
}

/** What is wrong with a request before anybody looks at a body's fields, and what is wrong with a query. */
function wrongRequest(dice: Dice): WrongRequest {
  const lock = dice.pick(LOCKS);
  const op = dice.pick(POSTED);
  const to = (path: string, expected: WrongRequest["expected"], other: Partial<Raw> = {}) => ({
    method: "GET",
    path,
    expected,
    ...other,
  });
  const post = (path: string, expected: WrongRequest["expected"], other: Partial<Raw> = {}) =>
    to(path, expected, { method: "POST", headers: JSON_TYPE, body: "{}", ...other });
  const command = `${LOCKS_PATH}/${lock}/${op}`;
  const query = dice.pick([LOCKS_PATH, `/v1/spaces/${SPACE}/audit`]);
  const invalid = (field: string) => [400, "invalid_argument", field] as const;
  const escape = dice.pick(["%", "%e", "%zz", "%ff", "%ed%a0%80", "%c3", "%-1", "%+1"]);
  const word = dice.pick(["nope", "ACQUIRE", "acquire%20", "list", "watch", "locks", "%61cquire"]);
  const name = dice.pick(["-a", "x".repeat(513), "%C3%A9".repeat(257), escape, "%2D", ""]);
  const filler = "x".repeat(16_400 + dice.roll(40_000));
  const latin = Buffer.from(
    `{"token":"\u00e9${dice.roll(9)}"}`.replace("\\u00e9", "\u00e9"),
    "latin1",
  );
  return dice.pick<() => WrongRequest>([
    () => to(`/v1/${word}`, [404, "not_found"]),
    () => post(`${LOCKS_PATH}/${lock}/${word}`, [404, "not_found"]),
    () => post(`${command}/${word}`, [404, "not_found"]),
    () => post(`/v1/spaces/${name}/locks/a/${op}`, invalid("space")),
    () => post(`${LOCKS_PATH}/${name}/${op}`, invalid("lock")),
    () => to(`${LOCKS_PATH}/${name || "-"}`, invalid("lock")),
    () => to(`/v1/spaces/${name}/session`, invalid("space")),
    () => to(`/v1/spaces/${SPACE}/session`, [426, "upgrade_required"]),
    () =>
      post(command, [405, "method_not_allowed"], { method: dice.pick(["PUT", "DELETE", "PATCH"]) }),
    () => to(command, [405, "method_not_allowed"]),
    () => post(dice.pick([query, `${LOCKS_PATH}/${lock}`]), [405, "method_not_allowed"]),
    () => post(command, [415, "unsupported_media_type"], { headers: wrongType(dice) }),
    () => post(command, [413, "too_large"], { body: filler }),
    () => post(command, invalid("body"), { body: latin }),
    () => post(`${command}?${dice.pick(["ttlMs=1", "x=", "y"])}`, [400, "invalid_argument", ANY]),
    () => to(`${LOCKS_PATH}?prefix=${filler}`, [414, "too_large"]),
    () => to(query, [431, "too_large"], { headers: { filler: filler.slice(0, 16_500) } }),
    () => to(`${query}?pageSize=${badPageSize(dice)}`, invalid("pageSize")),
    () => to(`${query}?pageSize=1&pageSize=1`, invalid("pageSize")),
    () =>
      to(`${query}?${dice.pick(["other", "pagesize", "PREFIX"])}=1`, [
        400,
        "invalid_argument",
        ANY,
      ]),
    () => to(`${LOCKS_PATH}?prefix=${escape}`, invalid("prefix")),
    () => to(`${LOCKS_PATH}?prefix=${"x".repeat(513)}`, invalid("prefix")),
    () => to(`${LOCKS_PATH}?cursor=${name}`, invalid("cursor")),
    () => to(`${LOCKS_PATH}?${escape}=1`, invalid("query")),
    () => to(`${LOCKS_PATH}/${lock}?prefix=a`, invalid("prefix")),
  ])();
}

function badPageSize(dice: Dice): string {
  return dice.pick([
    "",
    "0",
    "-1",
    "1.5",
    "1001",
    "1e2",
    "0x1",
    "abc",
    "%20",
    "+1",
    "1_0",
    "NaN",
    "true",
    "9".repeat(30),
  ]);
}

function wrongType(dice: Dice): Record<string, string> {
  const type = dice.pick([
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/jsonp",
    "json",
  ]);
  return type ? { "content-type": type } : {};
}

interface RawAnswer {
  readonly status: number;
  readonly type: string;
  readonly reply: Json;
}

function raw(request: Raw): Promise<RawAnswer> {
  const { method, path, headers = {}, body } = request;
  const { hostname, port } = new URL(workerd.url);
  return new Promise((resolve, reject) => {
    const sent = send({ agent, hostname, port, method, path, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        try {
          const type = response.headers["content-type"] ?? "";
          resolve({ status: response.statusCode!, type, reply: JSON.parse(text) });
        } catch {
          reject(new Error(`${method} ${path}: ${response.statusCode} ${text}`));
        }
      });
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      // Whoever does not read a body to its end closes the connection, and the next request may not know yet.
      const wasClosed = sent.reusedSocket && ["ECONNRESET", "EPIPE"].includes(error.code ?? "");
      if (wasClosed) resolve(raw(request));
      else reject(new Error(`${method} ${path.slice(0, 2_000)}`, { cause: error }));
    });
    sent.end(body);
  });
}

/** A message of a socket, and the fields by which its parts are to be refused. */
interface WrongMessage {
  readonly message: string | Uint8Array;
  readonly expected: readonly (readonly [id: unknown, field: string | undefined])[];
  /** Whether it may be one of several in a message, and leaves the others as they are. */
  readonly isJson?: boolean;
}

/** In place of a field: it is not looked at. */
const TOO_LARGE = "too_large";

async function overSockets(dice: Dice): Promise<number> {
  await using socket = await Socket.open(workerd.url, SPACE, {});
  let count = 0;
  for (let at = 0; at < 12; at += 1) {
    const wrong = Array.from({ length: AT_ONCE }, () => wrongMessage(dice));
    for (const { message } of wrong) {
      socket.send(message);
      // Three messages in a row that cannot be understood, and a socket is closed.
      socket.send({ id: "right", op: "inspect", lock: "free" });
    }
    for (const { message, expected } of wrong) {
      const told = await socket.told((message) => message.id !== "right");
      const replies: Json[] = Array.isArray(told) ? told : [told];
      const what = `seed ${SEED}: ${String(message).slice(0, 2_000)}`;
      assert.equal(replies.length, expected.length, what);
      for (const [place, [id, field]] of expected.entries()) {
        const reply = replies[place];
        assert.deepEqual(reply.id, id, what);
        if (field === TOO_LARGE) assert.deepEqual([reply.code, reply.status], [field, 413], what);
        else assertRefused(reply, field, what);
      }
      count += expected.length;
    }
  }
  return count;
}

function wrongMessage(dice: Dice): WrongMessage {
  const id = dice.roll(1_000);
  const fields = JSON.stringify({ id, op: "inspect", lock: "free" });
  const rest = fields.slice(fields.indexOf(",") + 1);
  const bytes = Uint8Array.from({ length: dice.roll(50) }, () => dice.roll(256));
  const badIds = ["null", "true", "[]", "{}", "[1]", `"${"x".repeat(129)}"`];
  const several = Array.from({ length: 1 + dice.roll(5) }, () => wrongCommand(dice)).filter(
    ({ isJson }) => isJson,
  );
  return dice.pick<() => WrongMessage>([
    () => wrongCommand(dice),
    () => wrongCommand(dice),
    () => wrongCommand(dice),
    () => ({
      message: `[${several.map(({ message }) => message).join()}]`,
      expected: several.length > 0 ? several.flatMap(({ expected }) => expected) : [[null, "body"]],
    }),
    () => ({ message: bytes, expected: [[null, "body"]] }),
    () => ({ message: "x".repeat(16_385 + dice.roll(40_000)), expected: [[null, TOO_LARGE]] }),
    () => ({ message: `{"id":${dice.pick(badIds)},${rest}`, expected: [[null, "id"]] }),
    () => ({ message: `{${rest}`, expected: [[null, "id"]] }),
    () => ({
      message: dice.pick(["", "{", "7", "null", '"a"', "[]", "pong", "\0"]),
      expected: [[null, "body"]],
    }),
    () => ({ message: `${fields}${fields}`, expected: [[id, "body"]] }),
    () => ({ message: fields.slice(0, -1 - dice.roll(4)), expected: [[id, undefined]] }),
  ])();
}

/** A command that is wrong in one place. */
function wrongCommand(dice: Dice): WrongMessage {
  const id = dice.roll(1_000);
  const whole = (fields: object, field: string): WrongMessage => ({
    message: JSON.stringify({ id, ...fields }),
    expected: [[id, field]],
    isJson: true,
  });
  switch (dice.roll(6)) {
    case 0: {
      const op = dice.pick([undefined, "", "ACQUIRE", "none", 7, null, ["list"]]);
      return whole({ op, lock: "free" }, "op");
    }
    case 1: {
      const lock = badName(dice);
      const isText = typeof lock === "string" && lock.isWellFormed();
      return whole(
        { op: "inspect", lock: isText || typeof lock !== "string" ? lock : undefined },
        "lock",
      );
    }
    default: {
      const { op, lock, text, values, field } = badText(OPS, dice);
      const message = framed({ id, op, lock, text });
      if (message === undefined) return { message: text, expected: [[null, "body"]] };
      const isJson = values !== undefined && !/\\u[d]/.test(text);
      return { message, expected: [[id, field]], isJson };
    }
  }
}

/** The fields with what says which command they are of, where they begin as an object does. */
function framed({
  text,
  lock,
  ...head
}: {
  readonly id?: number;
  readonly op: string;
  readonly lock: string;
  readonly text: string;
}): string | undefined {
  if (!text.startsWith("{")) return undefined;
  const hasLock = !["list", "watch", "unwatch"].includes(head.op);
  const start = JSON.stringify({ ...head, ...(hasLock && { lock }) }).slice(0, -1);
  return text === "{}" ? `${start}}` : `${start},${text.slice(1)}`;
}

/** What no RPC carries: the runtime refuses it, and the object hears nothing of it. */
const UNCLONABLE = ["symbol", "getter", "instance"];

async function overRpc(dice: Dice): Promise<number> {
  const trials = Array.from({ length: AT_ONCE }, () => wrongCall(dice));
  const results = await store.calls(trials.map(({ call }) => call));
  for (const [at, { call, field }] of trials.entries()) {
    const { reply, error } = results[at]!;
    const what = `seed ${SEED}: ${JSON.stringify(call)}`;
    if (field === UNCLONED)
      assert.match(
        error ?? "",
        /DataCloneError|told to/,
        `${what}: ${error} ${JSON.stringify(reply)}`,
      );
    else {
      assert.equal(error, undefined, what);
      assertRefused(call[0] === "message" ? JSON.parse(reply) : reply, field, what);
    }
  }
  return trials.length;
}

/** Instead of a field. */
const UNCLONED = "-";

interface WrongCall {
  readonly call: readonly [method: string, ...args: unknown[]];
  readonly field: string | undefined;
}

function wrongCall(dice: Dice): WrongCall {
  const methods = OPS.filter((op) => op !== "watch" && op !== "unwatch");
  const { op, lock, values, field } = badValues(methods, dice);
  const args = (fields: unknown) => (op === "list" ? [fields] : [lock, fields]);
  switch (dice.roll(8)) {
    case 0:
      return { call: ["inspect", badName(dice), {}], field: "lock" };
    case 1: {
      const no = dice.pick([
        "NaN",
        "bigint",
        "date",
        "map",
        "bytes",
        "boxed",
        "function",
        "cyclic",
      ]);
      const fields = dice.pick([null, 7, "text", true, [], [1], { $: no }]);
      return { call: [op, ...args(fields)], field: "body" };
    }
    case 2: {
      const fields = { ...ask(), info: { $: dice.pick(UNCLONABLE) } };
      return { call: ["acquire", lock, fields], field: UNCLONED };
    }
    case 3: {
      const { op, lock, text, field } = badText(methods, dice);
      const message = framed({ op, lock, text });
      if (message === undefined) return { call: ["message", text], field: "body" };
      return { call: ["message", message], field };
    }
    default:
      return { call: [op, ...args(values)], field };
  }
}
