// HTTP around the core: which call a request is, its body, and the response. What is decided here is
// decided in Rust; this is what only JavaScript can reach.
import { max_body_bytes, not_a_socket, not_text, too_large } from "#glue/worker.js";
import { answer, Body, type Reply } from "./core.ts";
import type { Answer } from "./turns.ts";

/** Carries out one call in the space of that name. */
export type Carry = (
  space: string,
  op: string,
  lock: unknown,
  fields: unknown,
) => Promise<Answer<Reply>>;

/** Finds the route of a request; `length` is its Content-Length or NaN. The outcome is in routes.rs. */
export type FindRoute = (
  method: string,
  url: string,
  contentType: string,
  length: number,
) => string;

type Route =
  | readonly ["call", space: string, op: string, lock: unknown, fields: unknown]
  | readonly ["answer", answer: string, allow: string]
  | readonly ["elsewhere", answer: string, allow: string]
  | readonly ["session", space: string]
  | readonly ["health"];

/** Opens a socket to the space of that name. */
export type Open = (space: string) => Promise<Response>;

/** Serves one request. `elsewhere`, if given, serves those whose address is not of this API. */
export async function serve(
  request: Request,
  find: FindRoute,
  carry: Carry,
  open: Open,
  elsewhere?: () => Promise<Response>,
): Promise<Response> {
  const { method, url, headers } = request;
  const length = Number(headers.get("content-length") ?? NaN);
  const route = read(find(method, url, headers.get("content-type") ?? "", length));
  switch (route[0]) {
    case "health":
      return new Response("ok\n", { headers: { "cache-control": "no-store" } });
    case "elsewhere":
      return elsewhere ? elsewhere() : refuse(route);
    case "answer":
      return refuse(route);
    case "session":
      return headers.get("upgrade")?.toLowerCase() === "websocket"
        ? open(route[1])
        : refuse(read(not_a_socket()));
    case "call": {
      const [, space, op, lock, fields] = route;
      const sent = fields ?? (await bodyOf(request));
      return typeof sent === "string"
        ? refuse(read(sent))
        : respond(await carry(space, op, lock, sent));
    }
  }
}

function read(outcome: string): Route {
  return JSON.parse(outcome) as Route;
}

/** The body, or the outcome that refuses it. */
async function bodyOf(request: Request): Promise<Body | string> {
  const bytes = await bytesOf(request, max_body_bytes());
  if (bytes === undefined) return too_large();
  try {
    return new Body(strictly.decode(bytes));
  } catch {
    return not_text();
  }
}

const strictly = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** At most `limit` bytes, whatever the Content-Length says; undefined where there are more. */
async function bytesOf(request: Request, limit: number): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.byteLength;
    if (length > limit) return undefined;
    chunks.push(chunk);
  }
  const bytes = new Uint8Array(length);
  let start = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, start);
    start += chunk.byteLength;
  }
  return bytes;
}

function refuse(route: Route): Response {
  const [, text = "", allow = ""] = route as readonly string[];
  return respond(answer(text.split("\t")), allow);
}

/** The response that an answer is. */
export function respond(
  [status, { text, isProblem, retryAfter }]: Answer<Reply>,
  allow = "",
): Response {
  const headers: Record<string, string> = {
    "content-type": isProblem ? "application/problem+json" : "application/json",
    "cache-control": "no-store",
  };
  if (retryAfter) headers["retry-after"] = retryAfter;
  if (allow) headers["allow"] = allow;
  return new Response(text, { status, headers });
}
