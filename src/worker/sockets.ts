// The sockets of a space. Each is known by a number that survives the object's sleep: what is stored of
// its waiters and leases names it, and so does what it is told.
import { nameOf, type Reply } from "./core.ts";
import { gateOf, type Settings } from "./gate.ts";
import { sentText } from "./message.ts";
import type { Answer, Turns } from "./turns.ts";

/** What a socket keeps while the object sleeps. */
interface Kept {
  readonly connection: number;
  readonly watching: readonly string[];
  /** What it was let in with, if it came through the handler: see access.rs. */
  readonly pass?: string;
}

/** What is known of a socket while the object is awake. */
interface Seen {
  readonly connection: number;
  /** Who it speaks for, as of the start of the object; empty where its key is not known any more. */
  readonly caller: string;
  /** Messages in a row that could not be understood. */
  misses: number;
  /** Messages that are not answered yet. */
  open: number;
  /** Pushes since it was last heard of. */
  pushed: number;
}

/** So many messages in a row that cannot be understood, and the socket is closed. */
const MISSES = 3;
/** So many messages may await an answer. */
const OPEN = 256;
/** So many pushes a socket may be sent without a sign of life. A `ping` is one, and costs nothing. */
const PUSHED = 4096;

/** The subprotocol that is spoken; beside it a client may offer its key, which is looked at elsewhere. */
const PROTOCOL = "leasehold.v1";

/** Codes of a socket that its client closed on purpose: done, going away, and no code at all. */
const CLOSED = [1000, 1001, 1005];
const POLICY = 1008;
const UNKNOWN = "its key is not known any more";
/** The account's own code: see access.rs. */
const OWN = "*";
const TRY_AGAIN_LATER = 1013;

export class Sockets {
  readonly #state: DurableObjectState;
  readonly #settings: Settings;
  readonly #turns: Turns<Reply>;
  readonly #seen = new WeakMap<WebSocket, Seen>();

  constructor(state: DurableObjectState, settings: Settings, turns: Turns<Reply>) {
    this.#state = state;
    this.#settings = settings;
    this.#turns = turns;
    for (const socket of state.getWebSockets()) {
      if (!this.#see(socket).caller) this.#close(socket, POLICY, UNKNOWN);
    }
    // Answered by the runtime: the object sleeps on.
    state.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  /** How many are open. */
  get count(): number {
    return this.#state.getWebSockets().length;
  }

  /**
   * Opens one: the response that the request for it gets. `pass` is what the handler let it in with, undefined for the
   * account's own code. None is opened, and so nothing returned, where the object knows of no such pass: it has other
   * settings than the handler.
   */
  accept(request: Request, pass: string | undefined): Response | undefined {
    if (!this.#callerOf(pass)) return undefined;
    const { 0: client, 1: server } = new WebSocketPair();
    const connection = crypto.getRandomValues(new Uint32Array(2));
    const number = connection[0]! * 2 ** 21 + (connection[1]! >>> 11);
    this.#keep(server, { connection: number, watching: [], ...(pass !== undefined && { pass }) });
    this.#state.acceptWebSocket(server, [String(number)]);
    const offered = (request.headers.get("sec-websocket-protocol") ?? "").split(",");
    // Whoever offers something and is answered nothing closes the socket at once.
    const headers = new Headers();
    if (offered.some((protocol) => protocol.trim() === PROTOCOL)) {
      headers.set("sec-websocket-protocol", PROTOCOL);
    }
    return new Response(null, { status: 101, webSocket: client, headers });
  }

  /** A message of one: a command, or an array of them. Answered with one message. */
  hear(socket: WebSocket, message: string | ArrayBuffer): void {
    const seen = this.#see(socket);
    seen.pushed = 0;
    if (!seen.caller) return this.#close(socket, POLICY, UNKNOWN);
    if (++seen.open > OPEN) return this.#close(socket, POLICY, "too many messages await an answer");
    const onAnswer = ([status, reply]: Answer<Reply>): void => {
      seen.open -= 1;
      seen.misses = status === 400 ? seen.misses + 1 : 0;
      send(socket, reply.text);
      if (seen.misses === MISSES) this.#close(socket, POLICY, "three messages that are none");
    };
    this.#turns.post("frame", seen.connection, sentText(message), onAnswer, seen.caller);
  }

  /**
   * One has closed: its waiters leave, its leases stay. If it was cut off, its client may be back soon: its
   * waiters keep their places for the grace.
   */
  gone(socket: WebSocket, code: number): void {
    this.#leave(socket, CLOSED.includes(code) ? "close" : "cut");
    // The runtime leaves it to us to say goodbye as well, and to 1005 and 1006 nothing can be said.
    end(socket, code === 1005 || code === 1006 ? 1000 : code);
  }

  #leave(socket: WebSocket, verb: "close" | "cut"): void {
    this.#turns.post(verb, kept(socket).connection, null, () => {});
  }

  /** Tells one what it did not ask for. */
  push(connection: number, text: string): void {
    for (const socket of this.#of(connection)) {
      const seen = this.#see(socket);
      if (++seen.pushed > PUSHED && !this.#hasPinged(socket, seen)) {
        this.#close(socket, TRY_AGAIN_LATER, "it does not read; ping now and then");
      } else send(socket, text);
    }
  }

  /** Which watch what. */
  *watchers(): Iterable<readonly [number, readonly string[]]> {
    for (const socket of this.#state.getWebSockets()) {
      const { connection, watching } = kept(socket);
      if (watching.length > 0 && mayRead(this.#see(socket).caller)) yield [connection, watching];
    }
  }

  /** Notes what one watches from now on. */
  setWatching(connection: number, watching: readonly string[]): void {
    for (const socket of this.#of(connection)) this.#keep(socket, { ...kept(socket), watching });
  }

  #of(connection: number): WebSocket[] {
    return this.#state.getWebSockets(String(connection));
  }

  #keep(socket: WebSocket, kept: Kept): void {
    socket.serializeAttachment(kept);
  }

  #see(socket: WebSocket): Seen {
    let seen = this.#seen.get(socket);
    if (!seen) {
      const { connection, pass } = kept(socket);
      const caller = this.#callerOf(pass);
      this.#seen.set(socket, (seen = { connection, caller, misses: 0, open: 0, pushed: 0 }));
    }
    return seen;
  }

  #callerOf(pass: string | undefined): string {
    if (pass === undefined) return OWN;
    return gateOf(this.#settings).again(pass, nameOf(this.#state));
  }

  /** Whether it has pinged since this was last asked. */
  #hasPinged(socket: WebSocket, seen: Seen & { pingedAt?: number }): boolean {
    const pingedAt = this.#state.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    const hasPinged = pingedAt > (seen.pingedAt ?? 0);
    seen.pingedAt = pingedAt;
    if (hasPinged) seen.pushed = 0;
    return hasPinged;
  }

  #close(socket: WebSocket, code: number, reason: string): void {
    this.#leave(socket, "close");
    end(socket, code, reason);
  }
}

function end(socket: WebSocket, code: number, reason?: string): void {
  try {
    socket.close(code, reason);
  } catch {
    // It is closed already.
  }
}

function kept(socket: WebSocket): Kept {
  return socket.deserializeAttachment() as Kept;
}

function mayRead(caller: string): boolean {
  return caller === OWN || caller.split(":")[0]!.includes("r");
}

function send(socket: WebSocket, text: string): void {
  try {
    socket.send(text);
  } catch {
    // It has closed meanwhile, and its closing is an event of its own.
  }
}
