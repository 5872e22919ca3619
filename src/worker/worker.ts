// What a Worker exports: the lease store, and the HTTP handler in front of it.
import { route } from "#glue/worker.js";
import { DurableObject } from "cloudflare:workers";
import { Body, nameOf, noAnswer, type Reply, SpaceCore } from "./core.ts";
import { count } from "./events.ts";
import { gateOf, type Settings } from "./gate.ts";
import { PASS_HEADER, type RateLimit, serveAnybody } from "./handler.ts";
import { refused, serve } from "./http.ts";
import { log } from "./log.ts";
import { sentText } from "./message.ts";
import { pace } from "./pace.ts";
import { Sockets } from "./sockets.ts";
import { type Answer, Turns } from "./turns.ts";

import { restart } from "./wasm.ts";

export interface Env extends Settings {
  /** The lease stores: one object is one space. */
  readonly LEASES: DurableObjectNamespace<LeaseStore>;
  /** How often a key, or an address without one, may ask. */
  readonly LEASEHOLD_RATE_LIMIT?: RateLimit;
  /** Where each event of a space is counted, too. */
  readonly LEASEHOLD_EVENTS?: AnalyticsEngineDataset;
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
    const dataset = env.LEASEHOLD_EVENTS;
    const core = new SpaceCore(state, env, {
      onDue: (ringInMs, dueInMs, now) => {
        this.#ringInMs = ringInMs;
        this.#dueInMs = dueInMs;
        if (!this.#isCleaning) this.#setAlarm(now);
      },
      wakefulMs: WAKEFUL_MS,
      watchers: () => this.#sockets.watchers(),
      onWatch: (connection, prefixes) => this.#sockets.setWatching(connection, prefixes),
      onEvents: dataset && ((events) => count(dataset, nameOf(state), events)),
    });
    const onPush = (connection: number, text: string) => this.#sockets.push(connection, text);
    this.turns = new Turns(core, onPush, pace());
    this.#sockets = new Sockets(state, env, this.turns);
  }

  /**
   * The commands that a caller has in one turn, as one message: JSON of `{ op, lock, ...fields }`, or of an array of them;
   * resolves with JSON of the reply, or of an array of replies. Who waits is told so at once where there are several, and
   * asks again to wait; one by itself may wait.
   */
  message(text: string): string | Promise<string> {
    // Whoever comes alone is answered at once: a promise would be one more thing for the runtime to wait for.
    let answered: string | undefined;
    let answer = (reply: string): void => void (answered = reply);
    this.turns.post("message", null, sentText(text), (to) => answer(to[1].text));
    return answered ?? new Promise((resolve) => (answer = resolve));
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

  /** What the space has done since its object started, as Prometheus reads it. */
  async metrics(): Promise<string> {
    const [, reply] = await this.#ask("metrics", null, null);
    return JSON.parse(reply.text) as string;
  }

  /** A page of the administrative acts that came over HTTP or a socket, the latest first. */
  audit(fields: Fields = {}): Promise<Fields> {
    return this.#call("audit", null, fields);
  }

  /** A call as {@link handler} found it in a request, and on whose behalf: see access.rs. */
  carry(op: string, lock: unknown, sent: Sent, caller: string): Promise<Answer<Reply>> {
    return this.#ask(op, lock, "body" in sent ? new Body(sent.body) : sent.fields, caller ?? ":");
  }

  /** The HTTP of {@link handler}, for the account's own code: without its access check. */
  override fetch(request: Request): Promise<Response> {
    const { method, url, headers } = request;
    return serve(request, {
      find: (contentType, length) => route(method, url, contentType, length),
      carry: (_, op, lock, fields) => this.#ask(op, lock, fields),
      open: async () => this.#sockets.accept(request, headers.get(PASS_HEADER) ?? undefined),
    });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    this.#sockets.hear(socket, message);
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    this.#sockets.gone(socket, code);
  }

  override webSocketError(socket: WebSocket): void {
    this.#sockets.gone(socket, 1006);
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
    const [, reply] = await this.#ask(op, lock, fields);
    return JSON.parse(reply.text) as Fields;
  }

  #ask(op: string, lock: unknown, fields: unknown, caller?: string): Promise<Answer<Reply>> {
    return this.turns.call(op, lock, op === "metrics" ? this.#sockets.count : fields, caller);
  }

  /** Sets the alarm where none is set that rings early enough, or where the one that was set did not ring. */
  #setAlarm(now = Date.now()): void {
    if (this.#ringInMs === null && this.#dueInMs === null) return;
    if (this.#alarmAt === undefined) {
      this.#alarmAt = 0;
      const known = this.ctx.storage.getAlarm().then((at) => (this.#alarmAt ||= at ?? 0));
      known.then(() => this.#setAlarm()).catch(() => {});
      return;
    }
    const cleanUp = this.#dueInMs === null ? Infinity : Math.max(this.#dueInMs, CLEAN_UP_MS);
    const ring = isFar(this.#ringInMs) ? this.#ringInMs : Infinity;
    const [inMs, slack] = ring < cleanUp ? [ring, SOON_MS] : [cleanUp, CLEAN_UP_MS];
    const wanted = now + inMs;
    const isSet = now - CLEAN_UP_MS < this.#alarmAt && this.#alarmAt <= wanted + slack;
    if (isSet || inMs === Infinity) return;
    this.#alarmAt = wanted;
    const set = () => {
      if (this.#alarmAt !== wanted) return;
      this.ctx.storage.setAlarm(wanted).catch(() => (this.#alarmAt = 0));
    };
    // An alarm is a row. That for clean-up is no command's: it is written a moment later. Should the object be
    // killed before, the next event sets it.
    if (ring < cleanUp) set();
    else setTimeout(set, SOON_MS);
  }
}

/** Whether that is worth sleeping. */
function isFar(lengthMs: number | null): lengthMs is number {
  return lengthMs !== null && lengthMs > WAKEFUL_MS;
}

/** The Worker in front of the lease stores: `export default handler`, or call it for some addresses. */
export const handler = {
  async fetch(request: Request, env: Env): Promise<Response> {
    try {
      return await serveAnybody(request, gateOf(env), {
        carry: (...call) => forward(env, ...call),
        open: (space, passed) => open(env, space, passed),
        assets: env.ASSETS,
        rateLimit: env.LEASEHOLD_RATE_LIMIT,
      });
    } catch (error) {
      const isTrap = error instanceof WebAssembly.RuntimeError;
      log("error", { event: isTrap ? "reset" : "failed", detail: String(error) });
      if (isTrap) restart();
      return refused("unavailable");
    }
  },
};

export default handler;

async function forward(
  env: Env,
  space: string,
  op: string,
  lock: unknown,
  fields: unknown,
  caller: string,
): Promise<Answer<Reply>> {
  try {
    const stub = env.LEASES.get(env.LEASES.idFromName(space));
    const sent = fields instanceof Body ? { body: fields.text } : { fields };
    // What arrives is disposable beside what was sent, since it might have held stubs.
    return (await stub.carry(op, lock, sent, caller)) as unknown as Answer<Reply>;
  } catch {
    // Overloaded, restarted or out of reach: for the client it is the same, and safe to repeat.
    return noAnswer();
  }
}

async function open(env: Env, space: string, request: Request): Promise<Response | undefined> {
  try {
    const response = await env.LEASES.get(env.LEASES.idFromName(space)).fetch(request);
    return response.webSocket ? response : undefined;
  } catch {
    return undefined;
  }
}
