// The carrier from anywhere: JSON over HTTP.
import { type Call, type Carrier, NoAnswer } from "./carrier.ts";
import { Timer } from "./clock.ts";
import { invalid, isProblem, LeaseError, type LeaseErrorCode, unavailable } from "./errors.ts";
import { Order } from "./order.ts";
import { Turnstile } from "./turnstile.ts";
import type { Fetch, HttpResponse } from "./types.ts";

/** The shortest wait that takes a place in a queue. */
const PLACE_MS = 1;

export class HttpCarrier implements Carrier {
  readonly #order = new Order();
  readonly #turnstile = new Turnstile();
  readonly #base: string;
  readonly #fetch: Fetch;
  readonly #headers: Record<string, string>;

  /** `base` as {@link baseOf} gives it. */
  constructor(base: string, fetch: Fetch, key?: string) {
    this.#base = base;
    this.#fetch = fetch;
    this.#headers = { accept: "application/json" };
    if (key !== undefined) this.#headers["authorization"] = `Bearer ${key}`;
  }

  call(call: Call): Promise<unknown> {
    const { space, op, lock, fields } = call;
    if (call.inStep) return Promise.reject(noSocket());
    // Guarded by token and fence, and in a hurry.
    if (op === "renew") return this.#sendSome(call);
    const waitMs = op === "acquire" ? Number(fields["waitMs"] ?? 0) : 0;
    if (waitMs <= PLACE_MS) return this.#order.run(space, lock, () => this.#sendSome(call));
    return this.#wait(call, waitMs);
  }

  /** Takes a place in the queue first, in order, and then waits there: what comes after it need not wait for that. */
  async #wait(call: Call, waitMs: number): Promise<unknown> {
    const { space, lock, fields } = call;
    const start = performance.now();
    const place = { ...fields, waitMs: PLACE_MS };
    const reply = await this.#order.run(space, lock, () => inTime(this.#sendSome(call, place)));
    if ((reply as { status?: unknown }).status !== "waiting") return reply;
    const left = Math.ceil(waitMs - (performance.now() - start));
    return left > 0 ? this.#send(call, { ...fields, waitMs: left }) : reply;
  }

  /** What is answered at once; who waits for long may not keep others from it. */
  #sendSome(call: Call, fields = call.fields): Promise<unknown> {
    return this.#turnstile.run(() => this.#send(call, fields));
  }

  async #send(call: Call, fields: Call["fields"]): Promise<unknown> {
    let response: HttpResponse;
    let text: string;
    try {
      const [method, path, body] = requestOf(call, fields);
      const headers = { ...this.#headers };
      if (body !== undefined) headers["content-type"] = "application/json";
      const init = { method, headers, signal: call.signal, ...(body !== undefined && { body }) };
      response = await this.#fetch(`${this.#base}/${path}`, init);
      text = await response.text();
    } catch (error) {
      throw new NoAnswer(unavailable("the lease store could not be reached", error), false);
    }
    const reply = parse(text);
    // A lease store answers 409 with a reply: held, lost. Anybody may answer anything else.
    if (isProblem(reply) || (response.status < 500 && isReply(reply))) return reply;
    throw noAnswer(response.status);
  }
}

/** Where the spaces of a Worker are, of which the address without `/v1` was given. */
export function baseOf(base: string | URL): string {
  const url = URL.parse?.(base) ?? tryUrl(base);
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw invalid("target", "a URL that starts with http:// or https://");
  }
  if (url.search || url.hash || url.username || url.password) {
    throw invalid("target", "a URL without a query, a fragment, a user's name or a password");
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}/v1/spaces`;
}

/** Anything else would not get into a header, and the error would show the key. */
export function checkedKey(key: unknown): string | undefined {
  if (key === undefined || (typeof key === "string" && /^[\x21-\x7e]+$/.test(key))) return key;
  throw invalid("key", "printable ASCII without spaces");
}

/** For engines without `URL.parse`. */
function tryUrl(base: string | URL): URL | null {
  try {
    return new URL(base);
  } catch {
    return null;
  }
}

function requestOf(
  { space, op, lock }: Call,
  fields: Call["fields"],
): [method: string, path: string, body?: string] {
  const locks = `${encodeURIComponent(space)}/locks`;
  if (lock === undefined) {
    const query = new URLSearchParams(fields as Record<string, string>).toString();
    return ["GET", query ? `${locks}?${query}` : locks];
  }
  const path = `${locks}/${encodeURIComponent(lock)}`;
  return op === "inspect" ? ["GET", path] : ["POST", `${path}/${op}`, JSON.stringify(fields)];
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isReply(reply: unknown): boolean {
  return typeof reply === "object" && reply !== null;
}

/** So long a place in a queue outlives the ask for it: who hears nothing asks again before. */
const PLACED_MS = 2_500;

async function inTime<T>(reply: Promise<T>): Promise<T> {
  const timer = new Timer();
  const late = new Promise<never>((_, reject) => {
    const error = unavailable("the lease store did not answer in time");
    timer.set(PLACED_MS, () => reject(new NoAnswer(error, false)));
  });
  try {
    return await Promise.race([reply, late]);
  } finally {
    timer.clear();
  }
}

/** Said where changes are asked for over HTTP. */
function noSocket(): NoAnswer {
  return new NoAnswer(
    unavailable("changes are told over a WebSocket only, and there is none"),
    true,
  );
}

/** Something between us and the store answered in its stead, or something else is at that address. */
function noAnswer(status: number): NoAnswer {
  const codes: Record<number, LeaseErrorCode> = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
  };
  const mayPass = status >= 500 || status === 408 || status === 425 || status === 429;
  const error = new LeaseError(
    codes[status] ?? "unavailable",
    `no lease store answered, but HTTP status ${status}`,
  );
  return new NoAnswer(error, !mayPass);
}
