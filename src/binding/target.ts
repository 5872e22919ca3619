// What `new Leasehold` is given, and the carrier that is.
import type { Carrier } from "./carrier.ts";
import { invalid } from "./errors.ts";
import { isWorker } from "./host.ts";
import { baseOf, checkedKey, HttpCarrier } from "./http.ts";
import type { MemoryStore } from "./memory.ts";
import { SocketCarrier } from "./socket.ts";
import { StubCarrier } from "./stub.ts";
import type {
  LeaseholdOptions,
  LeaseNamespace,
  ServiceBinding,
  WebSocketConstructor,
} from "./types.ts";
import { upgraded, WatchingCarrier } from "./upgrade.ts";

/**
 * Where the leases are: a Durable Object namespace, a service binding or the URL of a Worker that serves
 * them over HTTP, or a store in this process.
 */
export type Target = LeaseNamespace | ServiceBinding | string | URL | MemoryStore;

/** @internal */
export function carrierTo(target: Target, options: LeaseholdOptions): Carrier {
  const { fetch } = options;
  if (fetch !== undefined && typeof fetch !== "function") throw invalid("fetch", "a function");
  if (typeof target === "string" || target instanceof URL) return byUrl(target, options);
  const { constructor: { name: kind = "" } = {} } = Object(target) as {
    constructor?: { name?: string };
  };
  const has = (method: string) =>
    typeof (Object(target) as Record<string, unknown>)[method] === "function";
  // A service binding seems to have every method there is: any could be one of the other Worker's.
  if (has("fetch") && (kind === "Fetcher" || kind === "ServiceStub" || !has("idFromName"))) {
    return byService(target as ServiceBinding, options);
  }
  if (has("idFromName") && has("get")) {
    const stubs = new StubCarrier(target as LeaseNamespace);
    return new WatchingCarrier(stubs, (space) => stubs.open(space));
  }
  // A store in this process is a carrier itself, which is nobody else's concern. A function has a `call`, too.
  if (has("call") && typeof target !== "function") return target as unknown as Carrier;
  throw invalid(
    "target",
    "a Durable Object namespace, a service binding, a URL, or a store made with memoryStore()",
  );
}

function byUrl(url: string | URL, options: LeaseholdOptions): Carrier {
  const base = baseOf(url);
  const key = checkedKey(options.key);
  const socket = socketOf(options);
  // Looked up at each call: who replaces the global one later means it.
  const fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init));
  const http = new HttpCarrier(base, fetch, key);
  return socket ? new SocketCarrier(base, socket, http, key) : http;
}

function socketOf({ WebSocket: given, fetch }: LeaseholdOptions): WebSocketConstructor | undefined {
  if (given !== undefined) {
    if (given !== false && typeof given !== "function") throw invalid("WebSocket", "a class");
    return given || undefined;
  }
  const { WebSocket } = globalThis as { WebSocket?: WebSocketConstructor };
  return fetch || isWorker() ? undefined : WebSocket;
}

function byService(service: ServiceBinding, options: LeaseholdOptions): Carrier {
  const key = checkedKey(options.key);
  const fetch = options.fetch ?? ((url, init) => service.fetch(url, init));
  const http = new HttpCarrier(baseOf("https://leasehold"), fetch, key);
  const headers: Record<string, string> =
    key === undefined ? {} : { authorization: `Bearer ${key}` };
  return new WatchingCarrier(http, (space) => upgraded(service, space, headers));
}
