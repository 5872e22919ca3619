// Keys for a Worker that lets nobody else in, and how the tests speak to it with them.
import { createHash, randomBytes } from "node:crypto";
import { type Fields, type Json } from "./store.ts";

export type Right = "read" | "lock" | "admin";

export interface Key {
  readonly id: string;
  readonly key: string;
  readonly entry: {
    readonly id: string;
    readonly sha256: string;
    readonly spaces: readonly string[];
    readonly allow: readonly Right[];
  };
}

/** A key at random, and its entry for the secret. */
export function makeKey(id: string, allow: readonly Right[], spaces = ["*"]): Key {
  const key = `lh_${randomBytes(32).toString("base64url")}`;
  const sha256 = createHash("sha256").update(key).digest("hex");
  return { id, key, entry: { id, sha256, spaces, allow } };
}

export function secretOf(keys: readonly Key[]): string {
  return JSON.stringify(keys.map(({ entry }) => entry));
}

/** Every set of rights that is not empty. */
export const SETS: readonly (readonly Right[])[] = [
  ["read"],
  ["lock"],
  ["admin"],
  ["read", "lock"],
  ["read", "admin"],
  ["lock", "admin"],
  ["read", "lock", "admin"],
];

export function bearer(key: string): Record<string, string> {
  return { authorization: `Bearer ${key}` };
}

export function posted(body: unknown, key?: string): RequestInit {
  const headers = { "content-type": "application/json", ...(key !== undefined && bearer(key)) };
  return { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) };
}

/** A socket to a space; what it is told is kept in order. `await using` closes it. */
export class Socket implements AsyncDisposable {
  readonly #socket: WebSocket;
  readonly #told: Json[] = [];
  #heard: () => void = () => {};
  /** The code and reason it was closed with. */
  readonly closed: Promise<readonly [code: number, reason: string]>;
  #id = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      this.#told.push(data === "pong" ? data : JSON.parse(data as string));
      this.#heard();
    });
    this.closed = new Promise((resolve) => {
      socket.addEventListener("close", ({ code, reason }) => {
        resolve([code, reason]);
        this.#heard();
      });
    });
  }

  /** Rejects where it is refused. */
  static async open(
    url: string,
    space: string,
    options: {
      readonly protocols?: readonly string[];
      readonly headers?: Record<string, string>;
    },
  ): Promise<Socket> {
    const address = `${url.replace(/^http/, "ws")}/v1/spaces/${space}/session`;
    // Node's takes headers too.
    const init = { protocols: [...(options.protocols ?? [])], headers: options.headers ?? {} };
    const socket = new WebSocket(address, init as unknown as string[]);
    const opened = new Socket(socket);
    await new Promise<void>((resolve, reject) => {
      socket.addEventListener("open", () => resolve());
      socket.addEventListener("error", () => reject(new Error("the socket was refused")));
    });
    return opened;
  }

  get protocol(): string {
    return this.#socket.protocol;
  }

  /** Text and bytes as they are, all else as JSON. */
  send(message: unknown): void {
    const isRaw = typeof message === "string" || message instanceof Uint8Array;
    this.#socket.send(isRaw ? (message as string) : JSON.stringify(message));
  }

  /** A command, and its reply. */
  async ask(op: string, lock: string | undefined, fields: Fields = {}): Promise<Json> {
    const id = ++this.#id;
    this.send({ id, op, ...(lock !== undefined && { lock }), ...fields });
    return this.told((message) => message.id === id);
  }

  /** The first message of that kind; it is told once. */
  async told(is: (message: Json) => boolean): Promise<Json> {
    for (;;) {
      const at = this.#told.findIndex(is);
      if (at >= 0) return this.#told.splice(at, 1)[0];
      if (this.#socket.readyState === WebSocket.CLOSED) throw new Error("the socket was closed");
      await new Promise<void>((resolve) => (this.#heard = resolve));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    await this.closed;
  }
}

/** The subprotocols that a browser offers. */
export function protocolsOf(key: string): string[] {
  return ["leasehold.v1", `leasehold.key.${Buffer.from(key).toString("base64url")}`];
}
