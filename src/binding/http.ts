// The carrier from anywhere: JSON over HTTP.
import { type Call, type Carrier, NoAnswer } from "./carrier.ts";
import { invalid, isProblem, LeaseError, type LeaseErrorCode, unavailable } from "./errors.ts";
import type { Fetch, HttpResponse } from "./types.ts";

export class HttpCarrier implements Carrier {
  readonly #base: string;
  readonly #fetch: Fetch;
  readonly #headers: Record<string, string>;

  /** `base` is where the Worker is, without `/v1`. */
  constructor(base: string | URL, fetch: Fetch, key?: string) {
    this.#base = baseOf(base);
    this.#fetch = fetch;
    this.#headers = { accept: "application/json" };
    if (key === undefined) return;
    // Anything else would not get into a header, and the error would show the key.
    if (typeof key !== "string" || !/^[\x21-\x7e]+$/.test(key)) {
      throw invalid("key", "printable ASCII without spaces");
    }
    this.#headers["authorization"] = `Bearer ${key}`;
  }

  async call(call: Call): Promise<unknown> {
    let response: HttpResponse;
    let text: string;
    try {
      const [method, path, body] = requestOf(call);
      const headers = { ...this.#headers };
      if (body !== undefined) headers["content-type"] = "application/json";
      const init = { method, headers, signal: call.signal, ...(body !== undefined && { body }) };
      response = await this.#fetch(`${this.#base}/v1/spaces/${path}`, init);
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

function baseOf(base: string | URL): string {
  const url = URL.parse?.(base) ?? tryUrl(base);
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw invalid("target", "a URL that starts with http:// or https://");
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

/** For engines without `URL.parse`. */
function tryUrl(base: string | URL): URL | null {
  try {
    return new URL(base);
  } catch {
    return null;
  }
}

function requestOf({
  space,
  op,
  lock,
  fields,
}: Call): [method: string, path: string, body?: string] {
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
