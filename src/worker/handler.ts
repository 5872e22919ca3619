// What is between the internet and the lease stores: keys, origins, bounds on what is sent.
import type { Gate } from "#glue/worker.js";
import { ASSET_HEADERS, isUpgrade, refused, serve, type Ways } from "./http.ts";

/** The subprotocol that is spoken, and the one that carries a key: browsers have no other way to send it. */
const PROTOCOL = "leasehold.v1";
const KEY_PROTOCOL = "leasehold.key.";

/** What a socket was let in with, for the object. Whatever a client sends of that name is overwritten. */
export const PASS_HEADER = "leasehold-pass";

/** The rate limit of Cloudflare's, where the deployment has it. */
export interface RateLimit {
  limit(options: { readonly key: string }): Promise<{ readonly success: boolean }>;
}

/** Where calls and sockets go, and what serves the rest. */
export interface Behind {
  readonly carry: Ways["carry"];
  readonly open: (space: string, request: Request) => Promise<Response | undefined>;
  readonly assets: Fetcher | undefined;
  readonly rateLimit: RateLimit | undefined;
}

/** Serves a request from anywhere. @internal */
export async function serveAnybody(
  request: Request,
  gate: Gate,
  behind: Behind,
): Promise<Response> {
  const { headers, method, url } = request;
  const origin = headers.get("origin");
  if (method === "OPTIONS" && origin && headers.has("access-control-request-method")) {
    if (isOurs(url)) return preflight(gate, origin);
  }
  const sha256 = await digest(keyOf(headers));
  const socketOrigin = isUpgrade(headers) ? (origin ?? "") : "";
  let isOther = false;
  const response = await serve(request, {
    find: (contentType, length) =>
      gate.route(method, url, contentType, length, sizeOf(headers), sha256, socketOrigin),
    carry: behind.carry,
    open: (space, pass) => behind.open(space, passedOn(request, pass)),
    mayAsk: (caller) => mayAsk(behind.rateLimit, caller, headers),
    elsewhere:
      behind.assets &&
      (() => {
        isOther = true;
        return behind.assets!.fetch(request);
      }),
  });
  if (response.webSocket) return response;
  return isOther ? asset(response) : shared(response, gate, origin, url);
}

/** The key that a request comes with; never one in its URL, which logs would keep. */
function keyOf(headers: Headers): Uint8Array | undefined {
  const authorization = headers.get("authorization");
  if (authorization !== null) {
    const key = /^bearer +([\x21-\x7e]+)$/i.exec(authorization)?.[1];
    return key === undefined ? undefined : new TextEncoder().encode(key);
  }
  if (!isUpgrade(headers)) return undefined;
  const offer = offers(headers).find((protocol) => protocol.startsWith(KEY_PROTOCOL));
  return offer === undefined ? undefined : base64url(offer.slice(KEY_PROTOCOL.length));
}

function offers(headers: Headers): string[] {
  return (headers.get("sec-websocket-protocol") ?? "").split(",").map((offer) => offer.trim());
}

/** What is none is a key that nobody has. */
function base64url(text: string): Uint8Array {
  try {
    const bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

/** No bytes for no key. */
async function digest(key: Uint8Array | undefined): Promise<Uint8Array> {
  return key ? new Uint8Array(await crypto.subtle.digest("SHA-256", key)) : new Uint8Array();
}

function sizeOf(headers: Headers): number {
  let size = 0;
  for (const [name, value] of headers) size += name.length + value.length + 4;
  return size;
}

/** The request for a socket as the object gets it: without the key. */
function passedOn(request: Request, pass: string): Request {
  const headers = new Headers(request.headers);
  headers.delete("authorization");
  headers.delete("sec-websocket-protocol");
  if (offers(request.headers).includes(PROTOCOL)) headers.set("sec-websocket-protocol", PROTOCOL);
  headers.set(PASS_HEADER, pass);
  return new Request(request, { headers });
}

/** Per key; per address where there is none. */
async function mayAsk(
  rateLimit: RateLimit | undefined,
  caller: string,
  headers: Headers,
): Promise<boolean> {
  if (!rateLimit) return true;
  const id = caller.split(":")[1];
  const key = id ? `key:${id}` : `ip:${headers.get("cf-connecting-ip") ?? ""}`;
  try {
    return (await rateLimit.limit({ key })).success;
  } catch {
    // Leases do not depend on being counted.
    return true;
  }
}

function isOurs(url: string): boolean {
  return /^\/(v1\/|healthz$|openapi\.json$)/.test(new URL(url).pathname);
}

/** Asked by a browser before it sends what a page wants: there is no key yet. */
function preflight(gate: Gate, origin: string): Response {
  if (!gate.allows_origin(origin)) return refused("origin");
  return new Response(null, {
    status: 204,
    headers: {
      "access-control-allow-origin": origin,
      "access-control-allow-methods": "GET, POST",
      "access-control-allow-headers": "authorization, content-type",
      "access-control-max-age": "7200",
      vary: "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
      "cache-control": "no-store",
    },
  });
}

function shared(response: Response, gate: Gate, origin: string | null, url: string): Response {
  const { headers } = response;
  if (url.startsWith("https:")) headers.set("strict-transport-security", "max-age=31536000");
  if (!gate.has_origins()) return response;
  headers.set("vary", "Origin");
  if (origin && gate.allows_origin(origin)) {
    headers.set("access-control-allow-origin", origin);
    headers.set("access-control-expose-headers", "Allow, Retry-After, WWW-Authenticate");
  }
  return response;
}

function asset(response: Response): Response {
  const own = new Response(response.body, response);
  for (const [name, value] of Object.entries(ASSET_HEADERS)) {
    if (!own.headers.has(name)) own.headers.set(name, value);
  }
  return own;
}
