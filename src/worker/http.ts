// HTTP around the core: which call a request is, its body, and the response. What is decided here is
// decided in Rust; this is what only JavaScript can reach.
import { max_body_bytes, refusal } from "#glue/worker.js";
import { answer, type Answered, Body, type Reply } from "./core.ts";
import document from "./openapi.json";
import type { Answer } from "./turns.ts";

/** What a request is, as routes.rs says. */
type Route =
  | readonly ["call", space: string, verb: string, lock: unknown, fields: unknown, caller: string]
  | readonly ["session", space: string, pass: string, caller: string]
  | Refused
  | readonly ["health"]
  | readonly ["document"];

type Refused =
  | readonly ["answer", answer: Answered, allow: string, challenge: string, log: string]
  | readonly ["elsewhere", answer: Answered];

/** How what was asked is found and carried out. */
export interface Ways {
  /** The outcome of routes.rs. */
  find(contentType: string, length: number): string;
  /** Carries out one call in the space of that name. */
  carry(
    space: string,
    verb: string,
    lock: unknown,
    fields: unknown,
    caller: string,
  ): Promise<Answer<Reply>>;
  /** Opens a socket to the space of that name; nothing comes back where it cannot. */
  open(space: string, pass: string): Promise<Response | undefined>;
  /** Serves the addresses that are not of this API. */
  elsewhere?: (() => Promise<Response>) | undefined;
  /** Whether that caller, or whoever is refused, may ask so often. */
  mayAsk?: ((caller: string) => Promise<boolean>) | undefined;
}

/** A body that takes longer to come is not waited for. */
const BODY_MS = 10_000;

/** Serves one request. */
export async function serve(request: Request, ways: Ways): Promise<Response> {
  const { headers } = request;
  const length = Number(headers.get("content-length") ?? NaN);
  const route = read(ways.find(headers.get("content-type") ?? "", length));
  switch (route[0]) {
    case "health":
      return new Response("ok\n", { headers: HEADERS });
    case "document":
      return Response.json(document, { headers: HEADERS });
    case "elsewhere":
      return ways.elsewhere ? ways.elsewhere() : refuse(route);
    case "answer": {
      const isRefusedAccess = route[4] !== "";
      if (isRefusedAccess && !(await mayAsk(ways, ""))) return refuse(read(refusal("often", "")));
      return refuse(route);
    }
    case "session": {
      const [, space, pass, caller] = route;
      if (!(await mayAsk(ways, caller))) return refuse(read(refusal("often", caller)));
      if (!isUpgrade(headers)) return refuse(read(refusal("socket", caller)));
      return (await ways.open(space, pass)) ?? refuse(read(refusal("unavailable", caller)));
    }
    case "call": {
      const [, space, verb, lock, fields, caller] = route;
      if (!(await mayAsk(ways, caller))) return refuse(read(refusal("often", caller)));
      const isPosted = fields === null && lock !== null;
      const sent = isPosted ? await bodyOf(request) : fields;
      return typeof sent === "string"
        ? refuse(read(refusal(sent, caller)))
        : respond(await ways.carry(space, verb, lock, sent, caller));
    }
  }
}

export function isUpgrade(headers: Headers): boolean {
  return headers.get("upgrade")?.toLowerCase() === "websocket";
}

async function mayAsk(ways: Ways, caller: string): Promise<boolean> {
  return ways.mayAsk ? ways.mayAsk(caller) : true;
}

/** The response to a request that JavaScript refuses, in the words of routes.rs. */
export function refused(what: "origin" | "unavailable"): Response {
  return refuse(read(refusal(what, "")));
}

function read(outcome: string): Route {
  return JSON.parse(outcome) as Route;
}

/** The body, or what is wrong with it. */
async function bodyOf(request: Request): Promise<Body | "large" | "slow" | "bytes"> {
  let late: ReturnType<typeof setTimeout> | null = null;
  const reader = request.body?.getReader();
  try {
    const slow = new Promise<"slow">((resolve) => {
      late = setTimeout(() => resolve("slow"), BODY_MS);
    });
    const bytes = await Promise.race([bytesOf(reader, max_body_bytes()), slow]);
    return typeof bytes === "string" ? bytes : new Body(strictly.decode(bytes));
  } catch {
    return "bytes";
  } finally {
    clearTimeout(late);
    reader?.cancel().catch(() => {});
  }
}

const strictly = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** At most `limit` bytes, whatever the Content-Length says. */
async function bytesOf(
  reader: ReadableStreamDefaultReader<Uint8Array> | undefined,
  limit: number,
): Promise<Uint8Array | "large"> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (let read = await reader?.read(); read?.value; read = await reader?.read()) {
    length += read.value.byteLength;
    if (length > limit) return "large";
    chunks.push(read.value);
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
  const [, parts, allow = "", challenge = "", line = ""] = route as Refused;
  if (line) console.warn(line);
  return respond(answer(parts), allow, challenge);
}

/** Of every answer: nothing keeps it, nothing takes it for anything but what it says it is. */
const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
};

/** Of what is not of this API, as far as it does not say otherwise itself. */
export const ASSET_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": "frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
};

/** The response that an answer is. */
function respond([status, reply]: Answer<Reply>, allow = "", challenge = ""): Response {
  const { text, isProblem, isText, retryAfter } = reply;
  const headers: Record<string, string> = { ...HEADERS };
  headers["content-type"] = isProblem ? "application/problem+json" : "application/json";
  if (isText) headers["content-type"] = "text/plain; version=0.0.4; charset=utf-8";
  if (retryAfter) headers["retry-after"] = retryAfter;
  if (allow) headers["allow"] = allow;
  if (challenge) headers["www-authenticate"] = challenge;
  return new Response(isText ? (JSON.parse(text) as string) : text, { status, headers });
}
