// Web pages that ask: which of them may, and what every answer says to browsers.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { bearer, makeKey, posted, protocolsOf, secretOf, Socket } from "./support/keys.ts";
import { ask, type Json } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

const key = makeKey("page", ["read", "lock"]);
const LISTED = "https://app.example.com";
const OTHER = "http://localhost:5173";
const FOREIGN = [
  "https://app.example.com.evil.example",
  "http://app.example.com",
  "https://app.example.com:8443",
  "https://evil.example",
  "null",
];

let workerd: Workerd;
let locks: string;

before(async () => {
  workerd = await Workerd.start({
    variables: { LEASEHOLD_KEYS: secretOf([key]), LEASEHOLD_ORIGINS: `${LISTED}, ${OTHER}` },
  });
  locks = `${workerd.url}/v1/spaces/default/locks`;
});
after(() => workerd[Symbol.asyncDispose]());

function preflight(origin: string): Promise<Response> {
  const headers = {
    origin,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
  };
  return fetch(`${locks}/a/acquire`, { method: "OPTIONS", headers });
}

test("a preflight from a listed origin is told what a page may send, without a key", async () => {
  for (const origin of [LISTED, OTHER]) {
    const { status, headers } = await preflight(origin);
    assert.equal(status, 204);
    assert.equal(headers.get("access-control-allow-origin"), origin);
    assert.equal(headers.get("access-control-allow-methods"), "GET, POST");
    assert.equal(headers.get("access-control-allow-headers"), "authorization, content-type");
    assert.equal(headers.get("access-control-allow-credentials"), null);
    assert.match(headers.get("vary") ?? "", /Origin/);
  }
});

test("an answer is for the page of a listed origin, and says that it depends on who asks", async () => {
  for (const init of [posted(ask(), key.key), posted("{", key.key), posted(ask())]) {
    const headers = { ...(init.headers as Record<string, string>), origin: LISTED };
    const response = await fetch(`${locks}/${Math.random()}/acquire`, { ...init, headers });
    assert.equal(response.headers.get("access-control-allow-origin"), LISTED);
    assert.equal(response.headers.get("vary"), "Origin");
    assert.equal(
      response.headers.get("access-control-expose-headers"),
      "Allow, Retry-After, WWW-Authenticate",
    );
  }
  const plain = await fetch(locks, { headers: bearer(key.key) });
  assert.equal(plain.headers.get("vary"), "Origin");
  assert.equal(plain.headers.get("access-control-allow-origin"), null);
});

test("a foreign origin is told nothing", async () => {
  for (const origin of FOREIGN) {
    const asked = await preflight(origin);
    assert.equal(asked.status, 403, origin);
    assert.equal(((await asked.json()) as Json).code, "forbidden");
    const response = await fetch(locks, { headers: { ...bearer(key.key), origin } });
    for (const { headers } of [asked, response]) {
      for (const name of headers.keys()) assert.doesNotMatch(name, /^access-control/, origin);
    }
  }
});

test("a socket opens for pages of a listed origin or of its own, and for no other", async () => {
  for (const origin of [LISTED, OTHER, workerd.url]) {
    const options = { protocols: protocolsOf(key.key), headers: { origin } };
    await using socket = await Socket.open(workerd.url, "default", options);
    assert.equal((await socket.ask("list", undefined)).code, undefined);
  }
  for (const origin of FOREIGN) {
    const options = { protocols: protocolsOf(key.key), headers: { origin } };
    await assert.rejects(Socket.open(workerd.url, "default", options), origin);
  }
});

test("without LEASEHOLD_ORIGINS no page of another origin is let in, even where everybody else is", async () => {
  await using open = await Workerd.start({ variables: { LEASEHOLD_OPEN: "true" } });
  const url = `${open.url}/v1/spaces/default/locks`;
  const asked = await fetch(url, {
    method: "OPTIONS",
    headers: { origin: LISTED, "access-control-request-method": "GET" },
  });
  assert.equal(asked.status, 403);
  const response = await fetch(url, { headers: { origin: LISTED } });
  assert.equal(response.headers.get("access-control-allow-origin"), null);
  assert.equal(response.headers.get("vary"), null);
  await assert.rejects(Socket.open(open.url, "default", { headers: { origin: LISTED } }));
  await using own = await Socket.open(open.url, "default", { headers: { origin: open.url } });
  assert.deepEqual((await own.ask("list", undefined)).locks, []);
  // What a page can send without asking first is refused for its type.
  const simple = { method: "POST", headers: { origin: LISTED }, body: JSON.stringify(ask()) };
  assert.equal((await fetch(`${url}/a/acquire`, simple)).status, 415);
});

test("every answer keeps out of caches, frames and guesses", async () => {
  const requests: (readonly [string, RequestInit])[] = [
    ["/healthz", {}],
    ["/openapi.json", {}],
    ["/nothing", {}],
    ["/v1/spaces/default/locks", {}],
    ["/v1/spaces/default/locks", { headers: bearer(key.key) }],
    ["/v1/spaces/default/metrics", { headers: bearer(key.key) }],
    ["/v1/spaces/default/session", { headers: bearer(key.key) }],
    ["/v1/spaces/default/locks/a/acquire", posted(ask(), key.key)],
    ["/v1/spaces/default/locks/a/acquire", posted("", key.key)],
  ];
  for (const [path, init] of requests) {
    const { headers } = await fetch(workerd.url + path, init);
    assert.equal(headers.get("cache-control"), "no-store", path);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("x-frame-options"), "DENY");
    assert.equal(headers.get("referrer-policy"), "no-referrer");
    assert.match(headers.get("content-security-policy") ?? "", /default-src 'none'/);
  }
});
