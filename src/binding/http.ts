// The carrier from anywhere: JSON over HTTP.
import { type Call, type Carrier, NoAnswer, type Push } from "./carrier.ts";
import { Timer } from "./clock.ts";
import { invalid, isProblem, LeaseError, type LeaseErrorCode, unavailable } from "./errors.ts";
import { Order } from "./order.ts";
import { Turnstile } from "./turnstile.ts";
import type { Fetch, HttpResponse } from "./types.ts";

/** The shortest wait that takes a place in a queue. */
const PLACE_MS = 1;

/**
 * A place in a queue outlives the ask for it by twice as much: who has heard nothing by then asks again. Or after twice
 * what the last one took to be told of, where that is longer: a slow line would never have one.
 */
const PLACED_MS = 2_500;

export class HttpCarrier implements Carrier {
  readonly #order = new Order();
  readonly #turnstile = new Turnstile();
  readonly #base: string;
  /** As errors call it. */
  readonly #store: string;
  readonly #fetch: Fetch;
  readonly #headers: Record<string, string>;
  #placedInMs = 0;

  /** `base` as {@link baseOf} gives it. */
  constructor(base: string, fetch: Fetch, key?: string) {
    this.#base = base;
    this.#store = `the lease store at ${base.slice(0, -SPACES.length)}`;
    this.#fetch = fetch;
    this.#headers = { accept: "application/json" };
    if (key !== undefined) this.#headers["authorization"] = `Bearer ${key}`;
  }

  call(call: Call): Promise<unknown> {
    const { space, op, lock, fields } = call;
    if (call.inStep) {
      const error = unavailable("changes are told over a WebSocket only, and there is none");
      return Promise.reject(new NoAnswer(error, true));
    }
    // Guarded by token and fence, and in a hurry.
    if (op === "renew") return this.#sendSome(call);
    const waitMs = op === "acquire" ? Number(fields["waitMs"] ?? 0) : 0;
    if (waitMs <= PLACE_MS) return this.#order.run(space, lock, () => this.#sendSome(call));
    return this.#wait(call, waitMs);
  }

  settled(space: string): Promise<void> {
    return this.#order.run(space, undefined, async () => {});
  }

  /** Takes a place in the queue first, in order, and then waits there: what comes after it need not wait for that. */
  async #wait(call: Call, waitMs: number): Promise<unknown> {
    const { space, lock, fields } = call;
    const start = performance.now();
    const place = { ...fields, waitMs: PLACE_MS };
    const reply = await this.#order.run(space, lock, () =>
      this.#inTime(this.#sendSome(call, place)),
    );
    if ((reply as { status?: unknown }).status !== "waiting") return reply;
    // It has been heard that it waits, whatever becomes of the rest.
    const { requestId } = fields;
    call.listener.onPush(space, { push: "waiting", lock: lock!, requestId } as Push);
    const left = Math.ceil(waitMs - (performance.now() - start));
    return left > 0 ? this.#send(call, { ...fields, waitMs: left }) : reply;
  }

  #inTime<T>(reply: Promise<T>): Promise<T> {
    const start = performance.now();
    const timer = new Timer();
    return new Promise((resolve, reject) => {
      // An earlier one may be told of meanwhile, and then it is known how slow the line is.
      const look = () => {
        const limitMs = Math.max(PLACED_MS, 2 * this.#placedInMs);
        const leftMs = start + limitMs - performance.now();
        if (leftMs > 0) timer.set(leftMs, look);
        else reject(new NoAnswer(unavailable(`${this.#store} did not answer`), false));
      };
      look();
      reply
        .then((reply) => {
          this.#placedInMs = performance.now() - start;
          resolve(reply);
        }, reject)
        .finally(() => timer.clear());
    });
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
      const init: Parameters<Fetch>[1] & { body?: string } = {
        method,
        headers,
        signal: call.signal,
      };
      if (body !== undefined) {
        headers["content-type"] = "application/json";
        init.body = body;
      }
      response = await this.#fetch(`${this.#base}/${path}`, init);
      text = await response.text();
    } catch (error) {
      throw new NoAnswer(unavailable(`${this.#store} could not be reached`, error), false);
    }
    const reply = parse(text);
    // A lease store answers 409 with a reply: held, lost. Anybody may answer anything else.
    if (isProblem(reply)) {
      if (reply.code !== "unauthorized") return reply;
      // It does not say whether it was given one.
      const what = this.#headers["authorization"] ? "does not know this key" : "wants a key";
      return { ...reply, detail: `${this.#store} ${what}` };
    }
    if (response.status < 500 && reply instanceof Object) return reply;
    throw noAnswer(response.status, this.#store);
  }
}

const SPACES = "/v1/spaces";

/** Where the spaces of a Worker are, of which the address without `/v1` was given. */
export function baseOf(base: string | URL): string {
  let url: URL | undefined;
  try {
    url = new URL(base);
  } catch {
    // Refused with what is no address of a Worker.
  }
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw invalid("target", "a URL that starts with http:// or https://");
  }
  if (url.search || url.hash || url.username || url.password) {
    throw invalid("target", "a URL without a query, a fragment, a user's name or a password");
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}${SPACES}`;
}

/** Anything else would not get into a header, and the error would show the key. */
export function checkedKey(key: unknown): string | undefined {
  if (key === undefined || (typeof key === "string" && /^[\x21-\x7e]+$/.test(key))) return key;
  throw invalid("key", "printable ASCII without spaces");
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

/** Something between us and the store answered in its stead, or something else is at that address. */
function noAnswer(status: number, store: string): NoAnswer {
  const codes: Record<number, LeaseErrorCode> = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
  };
  const mayPass = status >= 500 || status === 408 || status === 425 || status === 429;
  const error = new LeaseError(
    codes[status] ?? "unavailable",
    `${store} did not answer, but HTTP status ${status} came`,
  );
  return new NoAnswer(error, !mayPass);
}
