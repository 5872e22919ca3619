// The sockets of a space. Each is known by a number that survives the object's sleep: what is stored of
// its waiters and leases names it, and so does what it is told.
import { max_body_bytes } from "#glue/worker.js";
import type { Reply } from "./core.ts";
import { Body } from "./core.ts";
import type { Turns } from "./turns.ts";

/** What a socket keeps while the object sleeps. */
interface Kept {
  readonly connection: number;
  readonly watching: readonly string[];
}

/** What is known of a socket while the object is awake. */
interface Seen {
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

const POLICY = 1008;
const TRY_AGAIN_LATER = 1013;

export class Sockets {
  readonly #state: DurableObjectState;
  readonly #turns: Turns<Reply>;
  readonly #seen = new WeakMap<WebSocket, Seen>();

  constructor(state: DurableObjectState, turns: Turns<Reply>) {
    this.#state = state;
    this.#turns = turns;
    // Answered by the runtime: the object sleeps on.
    state.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  /** Opens one: the response that the request for it gets. */
  accept(): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    const connection = crypto.getRandomValues(new Uint32Array(2));
    const number = connection[0]! * 2 ** 21 + (connection[1]! >>> 11);
    this.#keep(server, { connection: number, watching: [] });
    this.#state.acceptWebSocket(server, [String(number)]);
    return new Response(null, { status: 101, webSocket: client });
  }

  /** A message of one: a command, or an array of them. Answered with one message. */
  hear(socket: WebSocket, message: string | ArrayBuffer): void {
    const seen = this.#see(socket);
    seen.pushed = 0;
    if (++seen.open > OPEN) return this.#close(socket, POLICY, "too many messages await an answer");
    this.#turns.post("frame", kept(socket).connection, body(message), ([status, reply]) => {
      seen.open -= 1;
      seen.misses = status === 400 ? seen.misses + 1 : 0;
      send(socket, reply.text);
      if (seen.misses === MISSES) this.#close(socket, POLICY, "three messages that are none");
    });
  }

  /** One has closed: its waiters leave, its leases stay. */
  gone(socket: WebSocket): void {
    this.#turns.post("close", kept(socket).connection, null, () => {});
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
      if (watching.length > 0) yield [connection, watching];
    }
  }

  /** Notes what one watches from now on. */
  setWatching(connection: number, watching: readonly string[]): void {
    for (const socket of this.#of(connection)) this.#keep(socket, { connection, watching });
  }

  #of(connection: number): WebSocket[] {
    return this.#state.getWebSockets(String(connection));
  }

  #keep(socket: WebSocket, kept: Kept): void {
    socket.serializeAttachment(kept);
  }

  #see(socket: WebSocket): Seen {
    let seen = this.#seen.get(socket);
    if (!seen) this.#seen.set(socket, (seen = { misses: 0, open: 0, pushed: 0 }));
    return seen;
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
    this.gone(socket);
    try {
      socket.close(code, reason);
    } catch {
      // It is closed already.
    }
  }
}

function kept(socket: WebSocket): Kept {
  return socket.deserializeAttachment() as Kept;
}

/** What is too long, or no text, is not JSON either and refused as such. */
function body(message: string | ArrayBuffer): Body {
  const isText = typeof message === "string" && message.length <= max_body_bytes();
  return new Body(isText && bytes.encode(message).length <= max_body_bytes() ? message : "");
}

const bytes = new TextEncoder();

function send(socket: WebSocket, text: string): void {
  try {
    socket.send(text);
  } catch {
    // It has closed meanwhile, and its closing is an event of its own.
  }
}
