// The words of the public surface. All lengths are integer milliseconds and say `Ms`; instants say
// `At`, are epoch milliseconds on the store's clock, and are for display.

/** Alone, or with others of the same mode. */
export type Mode = "exclusive" | "shared";

/** Why a lease is none any more. */
export type LostReason = "expired" | "released" | "revoked" | "stolen" | "unknown";

/** What JSON can say. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [name: string]: Json | undefined };

/** How alone: an exclusive lease may steal, a shared one may be counted. */
export type Sharing =
  | {
      readonly mode?: "exclusive" | undefined;
      readonly limit?: undefined;
      /** Ends every live lease of the lock and has it at once. Over HTTP it needs the right `admin`. */
      readonly steal?: boolean | undefined;
    }
  | {
      readonly mode: "shared";
      /** At most so many at once, 1 to 1 000 000: a counting semaphore. All who hold or wait must agree on it. */
      readonly limit?: number | undefined;
      readonly steal?: false | undefined;
    };

/** What a lease is to be like. */
export interface Terms {
  /** Length of the lease from its grant or last renewal: 50 to 86 400 000, 30 000 unless given. */
  readonly ttlMs?: number | undefined;
  /**
   * Renewals never carry the lease further than this from its grant: 1 to 604 800 000. The holder counts from before it
   * asked: with less than the way to the store and back takes, the lease is granted, and never `held`.
   */
  readonly maxHoldMs?: number | undefined;
  /** If the lease expires, the lock stays closed that long: 0 to 604 800 000, 0 unless given. */
  readonly lockDelayMs?: number | undefined;
  /** Public: inspect shows it. At most 1 KiB of JSON. */
  readonly info?: Json | undefined;
  /** True unless given: renewed every third of its length until released or lost. */
  readonly renew?: boolean | undefined;
  /** The secret that proves ownership, 1 to 128 bytes: minted unless given. */
  readonly token?: string | undefined;
  /** Makes the request the same one as an earlier one of that token: minted unless given. */
  readonly requestId?: string | undefined;
}

/** How long to wait for a lock that somebody else has. */
export interface Patience {
  /** 0 and up; `Infinity` unless given. */
  readonly waitMs?: number | undefined;
  /** Ends the wait: the place in the queue is left, and a lease that was granted meanwhile given back. */
  readonly signal?: AbortSignal | undefined;
}

export type AcquireOptions = Terms & Patience & Sharing;

/** The options of the Web Locks API, and what leases add. A request that does not wait takes no `signal`. */
export type RequestOptions = AcquireOptions &
  (
    | { readonly ifAvailable?: false | undefined; readonly steal?: false | undefined }
    | { readonly ifAvailable?: false | undefined; readonly signal?: undefined }
    | {
        /** Do not wait: the callback gets `null` when the lock is not to be had at once. */
        readonly ifAvailable?: boolean | undefined;
        readonly steal?: false | undefined;
        readonly signal?: undefined;
        readonly waitMs?: undefined;
      }
  );

export interface AttachOptions {
  readonly lock: string;
  readonly token: string;
  readonly fence: number;
  /** The length of the lease from its first renewal on: as it was unless given. */
  readonly ttlMs?: number | undefined;
  /** True unless given. */
  readonly renew?: boolean | undefined;
}

/** A lease as others see it. */
export interface Holder {
  readonly fence: number;
  readonly mode: Mode;
  readonly clientId?: string;
  readonly info?: Json;
  readonly expiresInMs: number;
  /** In inspect and list. */
  readonly heldMs?: number;
}

/** A place in the queue as others see it. */
export interface Waiter {
  readonly mode: Mode;
  readonly clientId?: string;
  readonly info?: Json;
  readonly waitedMs: number;
}

export interface Inspection {
  readonly lock: string;
  /** In the order of their grants. */
  readonly holders: readonly Holder[];
  /** In the order of the queue. */
  readonly waiters: readonly Waiter[];
}

export interface ListOptions {
  /** Only locks whose names start with it. */
  readonly prefix?: string | undefined;
  /** That of an earlier page, or any name, of a lock that is there or not: only names after it, in byte order. */
  readonly cursor?: string | undefined;
  /** 1 to 1 000, 100 unless given. */
  readonly pageSize?: number | undefined;
  /** The space to list; needed where `new Leasehold` was given a function for it. */
  readonly space?: string | undefined;
}

/** A lock that is held or awaited. */
export interface LockState {
  readonly lock: string;
  /** The first ten, in the order of their grants. */
  readonly holders: readonly Holder[];
  /** How many wait. */
  readonly queue: number;
}

export interface Listing {
  readonly locks: readonly LockState[];
  /** There may be more: ask with it. */
  readonly cursor?: string;
}

export interface WatchOptions {
  /** Only locks whose names start with it. */
  readonly prefix?: string | undefined;
  /** Ends the watch. */
  readonly signal?: AbortSignal | undefined;
  /** The space to watch; needed where `new Leasehold` was given a function for it. */
  readonly space?: string | undefined;
}

/** What has happened to a lock, and what it is now; `present` is what it was when the watch began. */
export interface LockChange extends LockState {
  readonly change:
    "present" | "acquired" | "released" | "expired" | "revoked" | "stolen" | "queued" | "left";
  /** Of the lease that began or ended. */
  readonly fence?: number;
}

/** `reset`: changes may have been missed. Forget what there was; what there is follows. */
export type Change = LockChange | { readonly change: "reset" };

export interface ElectOptions extends Terms {
  /** Ends the term and the campaign. */
  readonly signal?: AbortSignal | undefined;
}

/** A request as `query` shows it, held or pending. */
export interface LockInfo {
  readonly name: string;
  readonly mode: Mode;
  readonly clientId: string;
}

export interface LockManagerSnapshot {
  /** In the order of their grants. */
  readonly held: LockInfo[];
  /** In the order of each lock's queue. */
  readonly pending: LockInfo[];
}

export interface RevokeOptions {
  /** Only this lease; every lease of the lock unless given. */
  readonly fence?: number | undefined;
  /** Why, 1 to 256 bytes: public. */
  readonly reason?: string | undefined;
}

/** What became of a release: `lost` where the lease had ended before. */
export type Released =
  { readonly status: "released" } | { readonly status: "lost"; readonly reason: LostReason };

/** How a client is set up. */
export interface LeaseholdOptions {
  /** Which space a lock is in: its name, or a function of the lock's name. `default` unless given. */
  readonly space?: string | ((lock: string) => string) | undefined;
  /** Sent as a bearer token over HTTP. */
  readonly key?: string | undefined;
  /** Names this client in inspect, 1 to 128 bytes: minted unless given. */
  readonly clientId?: string | undefined;
  /** Used in place of the global `fetch`; then over a URL everything goes by it, unless `WebSocket` is given too. */
  readonly fetch?: Fetch | undefined;
  /**
   * Used in place of the global `WebSocket` where the target is a URL; `false` for none, and everything goes by
   * HTTP. Inside a Worker there is none unless it is given: a socket there belongs to one request.
   */
  readonly WebSocket?: WebSocketConstructor | false | undefined;
}

/** As much of the class `WebSocket` as is used. */
export type WebSocketConstructor = new (url: string, protocols: string[]) => SocketLike;

/** As much of a `WebSocket` as is used. */
export interface SocketLike {
  readonly readyState: number;
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: any, listener: (event: any) => void): void;
}

/** As much of `fetch` as is used. */
export type Fetch = (
  url: string,
  init: {
    readonly method: string;
    readonly headers: Record<string, string>;
    readonly body?: string;
    readonly signal: AbortSignal;
  },
) => PromiseLike<HttpResponse>;

/** As much of a `Response` as is used. */
export interface HttpResponse {
  readonly status: number;
  text(): PromiseLike<string>;
}

/** A service binding to a Worker that serves Leasehold over HTTP. */
export interface ServiceBinding {
  fetch(url: string, init?: object): PromiseLike<HttpResponse>;
}

/** The namespace of the Durable Object class `LeaseStore`, as a Worker has it in its `env`. */
export interface LeaseNamespace {
  idFromName(name: string): any;
  get(id: any): any;
}
