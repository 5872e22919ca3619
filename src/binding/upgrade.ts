// Sockets where there is a `fetch` to a store and nothing else: in a Worker, over a stub or a service binding.
import type { Call, Carrier } from "./carrier.ts";
import { Line } from "./socket.ts";
import type { SocketLike } from "./types.ts";

interface Upgrading {
  fetch(url: string, init: object): PromiseLike<object>;
}

/** A socket to that space, by an upgrade. */
export async function upgraded(
  to: Upgrading,
  space: string,
  headers: Record<string, string> = {},
): Promise<SocketLike> {
  const url = `https://leasehold/v1/spaces/${encodeURIComponent(space)}/session`;
  const init = { headers: { ...headers, upgrade: "websocket" } };
  const { webSocket } = (await to.fetch(url, init)) as {
    webSocket?: (SocketLike & { accept(): void }) | null;
  };
  if (!webSocket) throw new Error("no WebSocket could be opened");
  webSocket.accept();
  return webSocket;
}

/** Commands as `carrier` carries them, and a socket for what it cannot: to tell of changes. */
export class WatchingCarrier implements Carrier {
  readonly #carrier: Carrier;
  readonly #open: (space: string) => Promise<SocketLike>;
  readonly #lines = new Map<string, Line>();

  constructor(carrier: Carrier, open: (space: string) => Promise<SocketLike>) {
    this.#carrier = carrier;
    this.#open = open;
  }

  call(call: Call): Promise<unknown> {
    if (!call.inStep) return this.#carrier.call(call);
    const { space } = call;
    let line = this.#lines.get(space);
    if (!line) {
      line = new Line(space, () => this.#open(space), this.#carrier);
      this.#lines.set(space, line);
    }
    return line.call(call);
  }

  leave(): void {
    for (const line of this.#lines.values()) line.close();
  }
}
