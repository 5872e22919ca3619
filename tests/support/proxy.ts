// A network that misbehaves: a TCP proxy between a client and a store.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
}

export class Proxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #port: number;
  readonly #pairs = new Set<Pair>();
  /** How long each chunk is on its way. */
  delayMs: () => number = () => 0;
  /** New connections are taken and closed at once. */
  isDown = false;
  /** Nothing gets through, and nobody is told. */
  isDeaf = false;
  /** The next chunk is cut in the middle, and the connection with it. */
  cutsNextChunk = false;
  /** Connections that were ever made. */
  connections = 0;

  private constructor(port: number) {
    this.#port = port;
    this.#server = createServer({ noDelay: true }, (near) => this.#accept(near));
  }

  /** In front of what runs at `url`. */
  static async before(url: string): Promise<Proxy> {
    const proxy = new Proxy(Number(new URL(url).port));
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Connections that are open. */
  get open(): number {
    return this.#pairs.size;
  }

  /** Breaks every connection that there is, as a router that was restarted does. */
  cut(): void {
    for (const { near, far } of this.#pairs) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  #accept(near: Socket): void {
    this.connections += 1;
    near.on("error", () => {});
    if (this.isDown) return void near.resetAndDestroy();
    const far = connect({ port: this.#port, host: "127.0.0.1", noDelay: true });
    far.on("error", () => {});
    const pair = { near, far };
    this.#pairs.add(pair);
    this.#carry(near, far);
    this.#carry(far, near);
    const end = () => {
      this.#pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    near.on("close", end);
    far.on("close", end);
  }

  #carry(from: Socket, to: Socket): void {
    // In order, whatever each is delayed by.
    let last = Promise.resolve();
    from.on("data", (chunk) => {
      if (this.isDeaf) return;
      if (this.cutsNextChunk) {
        this.cutsNextChunk = false;
        to.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), () => {
          from.resetAndDestroy();
          to.resetAndDestroy();
        });
        return;
      }
      const delayMs = this.delayMs();
      const ready = delayMs > 0 ? sleep(delayMs) : undefined;
      last = last.then(() => ready).then(() => void (to.destroyed || to.write(chunk)));
    });
    from.on("end", () => void last.then(() => to.end()));
  }
}
