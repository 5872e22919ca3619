// A WebSocket that one speaks by hand: what is asked in one turn travels in one message, or in as few as hold it.
import { once } from "node:events";
import { UncountedSocket } from "./leasehold.ts";

/** The longest message, less its brackets. */
const MAX_BYTES = 16 * 1024 - 2;

export class Speaker {
  readonly #socket: WebSocket;
  readonly #unsent: string[] = [];
  /** Messages that came. */
  heard = 0;

  private constructor(socket: WebSocket, onMessage: (message: unknown) => void) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      this.heard += 1;
      onMessage(JSON.parse(data as string));
    });
  }

  static async open(url: string, onMessage: (message: unknown) => void): Promise<Speaker> {
    const socket = new UncountedSocket(url);
    await once(socket, "open");
    return new Speaker(socket, onMessage);
  }

  say(what: object): void {
    if (this.#unsent.push(JSON.stringify(what)) === 1) setImmediate(() => this.#send());
  }

  close(): void {
    this.#socket.close();
  }

  #send(): void {
    const texts = this.#unsent;
    let size = 0;
    for (const [at, text] of texts.entries()) {
      size += text.length + 1;
      if (size + (texts[at + 1]?.length ?? MAX_BYTES) < MAX_BYTES) continue;
      this.#socket.send(`[${texts.splice(0, at + 1).join(",")}]`);
      return this.#send();
    }
  }
}
