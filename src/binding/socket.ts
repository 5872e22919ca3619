// The carrier from anywhere that can open a WebSocket: one per space for all its locks. Where none can be
// had, and while there is none, commands go over HTTP, whose answers also say why.
import { type Call, type Carrier, type Listener, NoAnswer, type Push } from "./carrier.ts";
import { monotonic, Timer } from "./clock.ts";
import { isProblem, LeaseError, unavailable } from "./errors.ts";
import { bytesOf, mayCrowd, soon, unrefSockets } from "./host.ts";
import type { SocketLike, WebSocketConstructor } from "./types.ts";

/** What is offered beside the key. */
const PROTOCOL = "leasehold.v1";

/** The store takes no longer messages, bytes. */
const FRAME_BYTES = 16 * 1024;

/** Messages that await an answer: the store bears four times as many. */
const FRAMES = 64;

/** Nobody waits longer for a socket to open, ms: commands go another way then. */
const OPEN_MS = 2_000;
/** The first attempt ends then, too. Later ones double up to the cap, or a slow line would never have a socket. */
const OPEN_CAP_MS = 16_000;

/** With nothing heard for so long while something is awaited, a `ping` is sent; and if nothing is heard then, it is dead. */
const QUIET_MS = 1_500;
const DEAF_MS = 1_000;
/** Twice a round trip, where that is longer, up to this. */
const DEAF_CAP_MS = 10_000;

/** How often it is looked after when all is well: a ping keeps what is between us and the store from closing it. */
const PING_MS = 20_000;

/** Where one message brings more answers, they are told in halves. */
const HALVED = 32;

/** So many pushes, and a ping tells the store that they are read. */
const PUSHES = 1_000;

/** With nothing to carry and nobody to tell something, it is closed after this, ms. */
const IDLE_MS = 5_000;

/** The first attempt to have it back is made within this, later ones double up to the cap, ms. */
const RECONNECT_MS = 200;
const RECONNECT_CAP_MS = 30_000;

/** `WebSocket.OPEN`. */
const OPEN = 1;

/** Closed by us, and not for good: the store keeps the places of our waiters for a while. */
const CUT = 4_000;

export class SocketCarrier implements Carrier {
  readonly #base: string;
  readonly #socket: WebSocketConstructor;
  readonly #protocols: string[];
  readonly #http: Carrier;
  readonly #lines = new Map<string, Line>();

  /** `base` as `baseOf` gives it. */
  constructor(base: string, socket: WebSocketConstructor, http: Carrier, key?: string) {
    this.#base = base.replace(/^http/, "ws");
    this.#socket = socket;
    this.#http = http;
    this.#protocols = [PROTOCOL];
    if (key !== undefined) this.#protocols.push(`leasehold.key.${base64url(key)}`);
  }

  call(call: Call): Promise<unknown> {
    let line = this.#lines.get(call.space);
    if (!line) {
      const url = `${this.#base}/${encodeURIComponent(call.space)}/session`;
      const open = () => {
        unrefSockets();
        return new this.#socket(url, this.#protocols);
      };
      line = new Line(call.space, open, this.#http);
      this.#lines.set(call.space, line);
    }
    return line.call(call);
  }

  leave(): void {
    for (const line of this.#lines.values()) line.close();
  }
}

/** A command that is not answered yet. */
interface Pending {
  readonly call: Call;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
}

type State =
  /** There is none, and none is wanted. */
  | "closed"
  | "opening"
  | "open"
  /** None is to be had for now. */
  | "down"
  /** For good. */
  | "over";

/** Opens a socket, or throws or rejects. */
export type Open = () => SocketLike | Promise<SocketLike>;

/** The socket of one space, and what stands in for it. */
export class Line {
  readonly #space: string;
  readonly #open: Open;
  readonly #instead: Carrier;
  readonly #timer = new Timer();
  #state: State = "closed";
  #socket: SocketLike | undefined;
  /** Which of the attempts to open one counts. */
  #attempt: object | undefined;
  #listener: Listener | undefined;
  /** Not sent yet. */
  #unsent: Pending[] = [];
  /** Sent, by their ids, which only grow. No Map: see roll.ts. */
  #sent: Record<number, Pending> = {};
  #lastId = 0;
  #willSend = false;
  /** Messages that are not answered. */
  #frames = 0;
  #pushes = 0;
  #heardAt = 0;
  #pingedAt: number | undefined;
  #openedFrom = 0;
  /** About the longest of late: to open it, or a ping and its pong. */
  #tripMs = 0;
  #idleSince: number | undefined;
  #failures = 0;
  /** Messages that came together, or what is left of one: they are told one after the other. */
  readonly #inbox: (string | unknown[])[] = [];
  #isReading = false;

  /** `instead`: what carries commands while there is no socket. */
  constructor(space: string, open: Open, instead: Carrier) {
    this.#space = space;
    this.#open = open;
    this.#instead = instead;
  }

  call(call: Call): Promise<unknown> {
    this.#listener = call.listener;
    if (this.#state === "over") return Promise.reject(closed());
    // Without a socket there is nothing that would be told.
    if (call.op === "unwatch" && this.#state !== "open") return Promise.resolve({});
    if (this.#state === "down") return this.#detour(call);
    return new Promise((resolve, reject) => {
      this.#unsent.push({ call, resolve, reject });
      this.#idleSince = undefined;
      if (this.#state === "closed") this.#connect(0);
      else if (this.#state === "open") this.#sendSoon();
    });
  }

  close(): void {
    const socket = this.#forget();
    this.#state = "over";
    this.#timer.clear();
    for (const { reject } of [...this.#takeSent(), ...this.#unsent.splice(0)]) reject(closed());
    end(socket, 1000);
  }

  #connect(inMs: number): void {
    this.#state = "opening";
    if (inMs > 0) return this.#setTimer(inMs, () => this.#connect(0));
    this.#openedFrom = performance.now();
    this.#setTimer(OPEN_MS, () => this.#late());
    const attempt = (this.#attempt = {});
    const isCurrent = () => this.#attempt === attempt;
    // In the same turn where that can be: a runtime may open it as soon as it may.
    try {
      const opened = this.#open();
      if (!("then" in opened)) return this.#take(opened);
      opened.then(
        (socket) => (isCurrent() ? this.#take(socket) : end(socket, 1000)),
        () => isCurrent() && this.#lost(),
      );
    } catch {
      this.#lost();
    }
  }

  /** It may open yet. */
  #late(): void {
    this.#standIn();
    const limitMs = Math.min(OPEN_MS * 2 ** this.#failures, OPEN_CAP_MS);
    this.#setTimer(limitMs - OPEN_MS, () => this.#lost());
  }

  #take(socket: SocketLike): void {
    this.#socket = socket;
    const on = (type: string, listener: (event: { data?: unknown }) => void) =>
      socket.addEventListener(type, (event) => {
        if (this.#socket === socket) listener(event);
      });
    on("open", () => this.#opened());
    on("message", ({ data }) => this.#receive(String(data)));
    on("close", () => this.#lost());
    on("error", () => this.#lost());
    if (socket.readyState === OPEN) this.#opened();
  }

  async #opened(): Promise<void> {
    const socket = this.#socket;
    const wasDown = this.#failures > 0 || this.#state === "down";
    this.#state = "opening";
    this.#timer.clear();
    this.#heardAt = performance.now();
    this.#tripMs = this.#heardAt - this.#openedFrom;
    // What has gone another way is not overtaken.
    if (wasDown) await this.#instead.settled?.(this.#space);
    if (socket !== this.#socket) return;
    this.#state = "open";
    this.#failures = 0;
    this.#frames = 0;
    this.#pushes = 0;
    this.#send();
    this.#look();
    // Whoever holds or waits lets the store know that it can be told of it again.
    if (wasDown) this.#listener?.onGap(this.#space);
  }

  /** It broke, or did not come about. */
  #lost(): void {
    const wasOpen = this.#state === "open";
    end(this.#forget(), CUT);
    for (const { reject } of this.#takeSent()) {
      reject(new NoAnswer(unavailable("the connection to the lease store broke"), false));
    }
    const isWanted = this.#unsent.length > 0 || this.#listener?.isListening(this.#space);
    if (wasOpen) {
      if (isWanted) this.#connect(1 + Math.random() * RECONNECT_MS);
      else this.#rest();
      this.#listener?.onGap(this.#space);
      return;
    }
    this.#standIn();
    this.#failures += 1;
    const fullMs = Math.min(RECONNECT_MS * 2 ** this.#failures, RECONNECT_CAP_MS);
    this.#setTimer(fullMs * (0.5 + Math.random() / 2), () => {
      if (this.#listener?.isListening(this.#space)) this.#connect(0);
      else this.#rest();
    });
  }

  #standIn(): void {
    this.#state = "down";
    for (const { call, resolve } of this.#unsent.splice(0)) resolve(this.#detour(call));
  }

  #rest(): void {
    this.#state = "closed";
    this.#timer.clear();
  }

  /** By a way that cannot tell of changes, but that can say why nobody is let in. */
  async #detour(call: Call): Promise<unknown> {
    if (!call.inStep) return this.#instead.call(call);
    const { cursor: _, ...fields } = call.fields;
    const reply = await this.#instead.call({ ...call, op: "list", fields, inStep: false });
    if (isProblem(reply)) return reply;
    throw new NoAnswer(unavailable("no WebSocket could be opened"), false);
  }

  /** What is asked for in one turn travels as one message. */
  #sendSoon(): void {
    if (this.#willSend) return;
    this.#willSend = true;
    soon(() => {
      this.#willSend = false;
      if (this.#state === "open") this.#send();
    });
  }

  #send(): void {
    this.#unsent = this.#unsent.filter((pending) => {
      const { isAborted = pending.call.signal.aborted } = pending.call;
      if (isAborted)
        pending.reject(new NoAnswer(unavailable("nobody waits for it any more"), true));
      return !isAborted;
    });
    let sent = 0;
    while (sent < this.#unsent.length && this.#frames < FRAMES) {
      const texts: string[] = [];
      let bytes = 2;
      for (let next; (next = this.#unsent[sent]); sent += 1) {
        const id = this.#lastId + 1;
        const text = textOf(id, next.call);
        bytes += bytesOf(text) + 1;
        if (texts.length > 0 && bytes > FRAME_BYTES) break;
        texts.push(text);
        this.#lastId = id;
        this.#sent[id] = next;
      }
      if (this.#frames === 0 && this.#pingedAt === undefined) this.#heardAt = performance.now();
      this.#frames += 1;
      if (!this.#post(texts.length === 1 ? texts[0]! : `[${texts.join()}]`)) break;
    }
    this.#unsent.splice(0, sent);
    if (sent > 0 && this.#state === "open") this.#look();
  }

  #post(text: string): boolean {
    try {
      this.#socket?.send(text);
      return true;
    } catch {
      // Not at once: what was to be sent is being counted.
      const socket = this.#socket;
      soon(() => socket === this.#socket && this.#lost());
      return false;
    }
  }

  /** Some runtimes hand over messages that came together in one go: what one sets off comes before the next. */
  #receive(text: string): void {
    if (!mayCrowd) return this.#hear(text);
    this.#inbox.push(text);
    if (!this.#isReading) this.#read();
  }

  #read(hasWaited = false): void {
    // What the first half of one sets off is sent before the second is told, but what others ask holds nothing up.
    if (this.#willSend && !hasWaited && Array.isArray(this.#inbox[0])) {
      return soon(() => this.#read(true));
    }
    const next = this.#inbox.shift();
    this.#isReading = next !== undefined;
    if (next === undefined) return;
    soon(() => this.#read());
    if (typeof next === "string") this.#hear(next);
    else this.#settle(next);
  }

  #hear(text: string): void {
    this.#heardAt = performance.now();
    const pingedAt = this.#pingedAt;
    this.#pingedAt = undefined;
    if (text === "pong") {
      if (pingedAt !== undefined) {
        this.#tripMs = Math.max(this.#heardAt - pingedAt, this.#tripMs / 2);
      }
      return;
    }
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      return this.#lost();
    }
    const { push } = Object(message) as { push?: unknown };
    if (typeof push === "string") {
      this.#pushes += 1;
      if (this.#pushes % PUSHES === 0) this.#post("ping");
      return this.#listener?.onPush(this.#space, message as Push);
    }
    this.#frames -= 1;
    this.#settle(Array.isArray(message) ? (message as unknown[]) : [message]);
    if (this.#unsent.length > 0) this.#sendSoon();
    this.#look();
  }

  /** A store that has nothing to do gets what the first half asks for while the second is told. */
  #settle(replies: unknown[]): void {
    if (mayCrowd && this.#frames === 0 && replies.length > HALVED)
      this.#inbox.unshift(replies.splice(replies.length / 2));
    for (const reply of replies) {
      const { id } = Object(reply) as { id?: unknown };
      // It did not understand us, which another socket may change.
      if (typeof id !== "number") return this.#lost();
      const pending = this.#sent[id];
      delete this.#sent[id];
      pending?.resolve(reply);
    }
  }

  /** Sees to it that it lives, and that it ends when it is of no use. */
  #look(): void {
    const now = performance.now();
    const isAwaited = this.#frames > 0 || this.#pingedAt !== undefined;
    if (isAwaited) {
      this.#idleSince = undefined;
      const dueAt =
        this.#pingedAt !== undefined ? this.#pingedAt + this.#deafMs : this.#heardAt + QUIET_MS;
      if (now < dueAt) return this.#lookBy(dueAt);
      if (this.#pingedAt !== undefined) return this.#lost();
      return this.#ping();
    }
    if (this.#unsent.length > 0 || this.#listener?.isListening(this.#space)) {
      this.#idleSince = undefined;
      const dueAt = this.#heardAt + PING_MS;
      // Nobody says when the last one is done with it.
      return now < dueAt ? this.#lookBy(Math.min(dueAt, now + IDLE_MS)) : this.#ping();
    }
    this.#idleSince ??= now;
    const closesAt = this.#idleSince + IDLE_MS;
    if (now < closesAt) return this.#lookBy(closesAt);
    end(this.#forget(), 1000);
    this.#rest();
  }

  #ping(): void {
    this.#pingedAt = performance.now();
    this.#post("ping");
    this.#lookBy(this.#pingedAt + this.#deafMs);
  }

  get #deafMs(): number {
    return Math.min(Math.max(DEAF_MS, 2 * this.#tripMs), DEAF_CAP_MS);
  }

  #lookBy(at: number): void {
    this.#timer.by(at, monotonic, () => this.#look());
    // Who awaits an answer has a timer of its own.
    this.#timer.keepAlive(false);
  }

  #setTimer(lengthMs: number, callback: () => void): void {
    this.#timer.set(Math.ceil(lengthMs), callback);
    // Who awaits an answer has a timer of its own.
    this.#timer.keepAlive(false);
  }

  /** The socket, of which nothing more is heard from now on. */
  #forget(): SocketLike | undefined {
    const socket = this.#socket;
    this.#socket = undefined;
    this.#attempt = undefined;
    this.#inbox.length = 0;
    return socket;
  }

  #takeSent(): Pending[] {
    const sent = Object.values(this.#sent);
    this.#sent = {};
    this.#frames = 0;
    this.#pingedAt = undefined;
    return sent;
  }
}

function closed(): NoAnswer {
  return new NoAnswer(new LeaseError("closed", "this client was closed"), true);
}

function end(socket: SocketLike | undefined, code: number): void {
  try {
    socket?.close(code);
  } catch {
    // It was never open, or is closed already.
  }
}

/** A command as it is sent. */
function textOf(id: number, { op, lock, fields }: Call): string {
  const named = lock === undefined ? "" : `,"lock":${JSON.stringify(lock)}`;
  const members = JSON.stringify(fields).slice(1);
  return `{"id":${id},"op":"${op}"${named}${members === "}" ? "" : ","}${members}`;
}

function base64url(text: string): string {
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
