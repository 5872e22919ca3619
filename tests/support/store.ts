// How the tests speak to a lease store: over HTTP, and through the methods of its stub.
import { randomUUID } from "node:crypto";

export type Fields = Record<string, unknown>;

/** Any JSON object, looked at by hand. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Json = any;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly reply: Json;
}

/** What a method of the stub came to, and how long after the whole batch began. */
export interface Result {
  readonly reply?: Json;
  readonly error?: string;
  readonly afterMs: number;
}

/** One space of a Worker that runs at `url`. */
export class Store {
  readonly #url: string;
  readonly #space: string;

  constructor({ url }: { readonly url: string }, space = "default") {
    this.#url = url;
    this.#space = space;
  }

  /** A command over HTTP. */
  async command(op: string, lock: string, fields: unknown, signal?: AbortSignal): Promise<Answer> {
    return this.send(`/locks/${encodeURIComponent(lock)}/${op}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: typeof fields === "string" ? fields : JSON.stringify(fields),
      signal: signal ?? null,
    });
  }

  /** Any request below the space's address. */
  async send(path: string, init: RequestInit = {}): Promise<Answer> {
    const response = await once(`${this.#url}/v1/spaces/${this.#space}${path}`, init);
    return { status: response.status, headers: response.headers, reply: await response.json() };
  }

  /** Methods of the stub, all called at once. */
  async calls(
    calls: readonly (readonly [method: string, ...args: unknown[]])[],
  ): Promise<Result[]> {
    const body = JSON.stringify({ space: this.#space, calls });
    const response = await once(`${this.#url}/rpc`, { method: "POST", body });
    return (await response.json()) as Result[];
  }

  /** A method of the stub. */
  async call(method: string, ...args: unknown[]): Promise<Json> {
    const [result] = await this.calls([[method, ...args]]);
    if (result?.error !== undefined) throw new Error(result.error);
    return result?.reply;
  }

  /** Acquires for a holder of its own; fails the test when it is not granted. */
  async hold(lock: string, fields: Fields = {}): Promise<{ token: string; fence: number }> {
    const { reply } = await this.command("acquire", lock, ask(fields));
    if (reply.status !== "granted") throw new Error(`not granted: ${JSON.stringify(reply)}`);
    return { token: reply.lease.token, fence: reply.lease.fence };
  }
}

/** A request on a connection of its own: one that was kept open may be closed at the moment at which it is used again. */
function once(url: string, init: RequestInit): Promise<Response> {
  return fetch(url, { ...init, headers: { ...init.headers, connection: "close" } });
}

/** The fields of an acquire that nobody else sent. */
export function ask(fields: Fields = {}): Fields & { token: string; requestId: string } {
  return { token: randomUUID(), requestId: randomUUID(), ...fields };
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Asks again and again until it holds; a wait for what gives no event. */
export async function until(holds: () => Promise<boolean>, withinMs: number): Promise<void> {
  const start = performance.now();
  while (!(await holds())) {
    if (performance.now() - start > withinMs) throw new Error(`not within ${withinMs} ms`);
    await sleep(10);
  }
}
