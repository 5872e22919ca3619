// What a Worker exports: the lease store, and the HTTP handler in front of it.
import { public_route, route, unavailable } from "#glue/worker.js";
import { DurableObject } from "cloudflare:workers";
import { answer, Body, type Reply, SpaceCore } from "./core.ts";
import { serve } from "./http.ts";
import { Sockets } from "./sockets.ts";
import { type Answer, Turns } from "./turns.ts";

export interface Env {
  /** The lease stores: one object is one space. */
  readonly LEASES: DurableObjectNamespace<LeaseStore>;
  /** "true" lets everybody in over HTTP: local development only. */
  readonly LEASEHOLD_OPEN?: string;
  /** What serves the addresses that are not of this API. */
  readonly ASSETS?: Fetcher;
}

/** The fields of a command or of a reply: see the protocol. */
export type Fields = Record<string, unknown>;

/** A body still to be read, so that the text that came over HTTP is parsed once, and strictly. */
type Sent = { readonly body: string } | { readonly fields: unknown };

/** Clean-up is never urgent: nothing waits for it, and an alarm costs a row. */
const CLEAN_UP_MS = 30_000;

/** A lock that somebody waits for is due sooner than this: the object stays awake for it. Else an alarm wakes it. */
const WAKEFUL_MS = 10_000;

/** A turn that is due sooner than this follows at once on the one before, within the same alarm. */
const SOON_MS = 1_000;

/** Turns of one alarm, so that it ends. The next alarm goes on. */
const TURNS_PER_ALARM = 1_000;

/**
 * A space: one authoritative lease store. Its methods are the commands of the protocol, and each
 * resolves with the reply, also with one that says what is wrong with the command. They reject only
 * when the object could not be reached.
 */
export class LeaseStore extends DurableObject<Env> {
  protected readonly turns: Turns<Reply>;
  readonly #sockets: Sockets;
  /** When the next alarm rings; 0 for none, undefined while unknown. */
  #alarmAt: number | undefined;
  #ringInMs: number | null = null;
  #dueInMs: number | null = null;
  #isCleaning = false;

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    const core = new SpaceCore(state, {
      onDue: (ringInMs, dueInMs) => {
        this.#ringInMs = ringInMs;
        this.#dueInMs = dueInMs;
        if (!this.#isCleaning) this.#setAlarm();
      },
      wakefulMs: WAKEFUL_MS,
      watchers: () => this.#sockets.watchers(),
      onWatch: (connection, prefixes) => this.#sockets.setWatching(connection, prefixes),
    });
    this.turns = new Turns(core, (connection, text) => this.#sockets.push(connection, text));
    this.#sockets = new Sockets(state, this.turns);
  }

  /** Asks for a lease; with `waitMs`, in a queue. */
  acquire(lock: string, fields: Fields = {}): Promise<Fields> {
    return this.#call("acquire", lock, fields);
  }

  /** Makes a lease last on. */
  renew(lock: string, fields: Fields = {}): Promise<Fields> {
    return this.#call("renew", lock, fields);
  }

  /** Ends a lease. */
  release(lock: string, fields: Fields = {}): Promise<Fields> {
    return this.#call("release", lock, fields);
  }

  /** Leaves the queue, or gives back a lease that nobody claimed. */
  cancel(lock: string, fields: Fields = {}): Promise<Fields> {
    return this.#call("cancel", lock, fields);
  }

  /** Shows who holds and who waits. */
  inspect(lock: string, fields: Fields = {}): Promise<Fields> {
    return this.#call("inspect", lock, fields);
  }

  /** A page of the locks that are held or awaited. */
  list(fields: Fields = {}): Promise<Fields> {
    return this.#call("list", null, fields);
  }

  /** Ends other people's leases. */
  revoke(lock: string, fields: Fields = {}): Promise<Fields> {
    return this.#call("revoke", lock, fields);
  }

  /** A call as {@link handler} found it in a request. */
  carry(op: string, lock: unknown, sent: Sent): Promise<Answer<Reply>> {
    return this.turns.call(op, lock, "body" in sent ? new Body(sent.body) : sent.fields);
  }

  /** The HTTP of {@link handler}, for the account's own code: without its access check. */
  override fetch(request: Request): Promise<Response> {
    return serve(
      request,
      route,
      (_, op, lock, fields) => this.turns.call(op, lock, fields),
      async () => this.#sockets.accept(),
    );
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    this.#sockets.hear(socket, message);
  }

  override webSocketClose(socket: WebSocket): void {
    this.#sockets.gone(socket);
  }

  override webSocketError(socket: WebSocket): void {
    this.#sockets.gone(socket);
  }

  /** Serves those who wait and sleep, and cleans up. Whoever asks is served without it. */
  override async alarm(): Promise<void> {
    this.#alarmAt = 0;
    this.#isCleaning = true;
    try {
      for (let turns = 0; turns < TURNS_PER_ALARM; turns += 1) {
        await this.turns.tick();
        if (Math.min(this.#ringInMs ?? Infinity, this.#dueInMs ?? Infinity) >= SOON_MS) break;
      }
    } finally {
      this.#isCleaning = false;
      this.#setAlarm();
    }
  }

  async #call(op: string, lock: unknown, fields: unknown): Promise<Fields> {
    const [, reply] = await this.turns.call(op, lock, fields);
    return JSON.parse(reply.text) as Fields;
  }

  /** Sets the alarm where none is set that rings early enough, or where the one that was set did not ring. */
  #setAlarm(): void {
    if (this.#ringInMs === null && this.#dueInMs === null) return;
    if (this.#alarmAt === undefined) {
      this.#alarmAt = 0;
      const known = this.ctx.storage.getAlarm().then((at) => (this.#alarmAt ||= at ?? 0));
      known.then(() => this.#setAlarm()).catch(() => {});
      return;
    }
    const now = Date.now();
    const cleanUp = this.#dueInMs === null ? Infinity : Math.max(this.#dueInMs, CLEAN_UP_MS);
    const ring = isFar(this.#ringInMs) ? this.#ringInMs : Infinity;
    const [inMs, slack] = ring < cleanUp ? [ring, SOON_MS] : [cleanUp, CLEAN_UP_MS];
    const wanted = now + inMs;
    const isSet = now - CLEAN_UP_MS < this.#alarmAt && this.#alarmAt <= wanted + slack;
    if (isSet || inMs === Infinity) return;
    this.#alarmAt = wanted;
    this.ctx.storage.setAlarm(wanted).catch(() => (this.#alarmAt = 0));
  }
}

/** Whether that is worth sleeping. */
function isFar(lengthMs: number | null): lengthMs is number {
  return lengthMs !== null && lengthMs > WAKEFUL_MS;
}

/** The Worker in front of the lease stores: `export default handler`, or call it for some addresses. */
export const handler = {
  fetch(request: Request, env: Env): Promise<Response> {
    const find = (method: string, url: string, contentType: string, length: number) =>
      public_route(method, url, contentType, length, env.LEASEHOLD_OPEN);
    const assets = env.ASSETS;
    const elsewhere = assets && (() => assets.fetch(request));
    const open = (space: string) => env.LEASES.get(env.LEASES.idFromName(space)).fetch(request);
    return serve(request, find, (...call) => forward(env, ...call), open, elsewhere);
  },
};

export default handler;

async function forward(
  env: Env,
  space: string,
  op: string,
  lock: unknown,
  fields: unknown,
): Promise<Answer<Reply>> {
  try {
    const stub = env.LEASES.get(env.LEASES.idFromName(space));
    const sent = fields instanceof Body ? { body: fields.text } : { fields };
    // What arrives is disposable beside what was sent, since it might have held stubs.
    return (await stub.carry(op, lock, sent)) as unknown as Answer<Reply>;
  } catch {
    // Overloaded, restarted or out of reach: for the client it is the same, and safe to repeat.
    return answer(unavailable().split("\t"));
  }
}
