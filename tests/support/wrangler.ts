// `wrangler dev`, for what only wrangler does: it bundles, routes between Worker and assets, and reads _headers.
import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { sleep } from "./store.ts";

const program = resolve(import.meta.dirname, "../../node_modules/wrangler/bin/wrangler.js");

/** A Worker that wrangler serves. `await using` ends it. */
export class Wrangler implements AsyncDisposable {
  readonly url: string;
  readonly #process: ChildProcess;

  private constructor(url: string, wrangler: ChildProcess) {
    this.url = url;
    this.#process = wrangler;
    process.once("exit", this.#end);
  }

  /** Serves what the wrangler.jsonc in `folder` says; `scratch` is where wrangler may leave things. On a free port unless given. */
  static async start(
    folder: string,
    scratch: string,
    words: readonly string[] = [],
    givenPort?: string,
  ): Promise<Wrangler> {
    const port = givenPort ?? String(await freePort());
    const common = ["dev", "--ip", "127.0.0.1", "--port", port, "--inspector-port", "0"];
    const wrangler = spawn(
      process.execPath,
      [program, ...common, "--show-interactive-dev-session=false", ...words],
      {
        cwd: folder,
        detached: true,
        stdio: ["ignore", "ignore", "inherit"],
        env: {
          ...process.env,
          CI: "1",
          WRANGLER_SEND_METRICS: "false",
          CLOUDFLARE_CF_FETCH_ENABLED: "false",
          WRANGLER_LOG_PATH: join(scratch, "logs"),
          WRANGLER_REGISTRY_PATH: join(scratch, "registry"),
        },
      },
    );
    const url = `http://127.0.0.1:${port}`;
    for (;;) {
      if (wrangler.exitCode !== null) throw new Error(`wrangler ended with ${wrangler.exitCode}`);
      if (await fetch(url).catch(() => undefined)) return new Wrangler(url, wrangler);
      await sleep(100);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    process.off("exit", this.#end);
    this.#end();
  }

  /** Also where this process comes to a bad end. */
  readonly #end = (): void => {
    const { pid, exitCode } = this.#process;
    // The group: wrangler leaves workerd behind when it is killed alone.
    if (pid && exitCode === null) process.kill(-pid, "SIGKILL");
  };
}

/** Of those that no system gives to whoever asks for any: until wrangler listens, such a one could be given away. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((answer) => {
      server.once("error", () => answer(false));
      server.listen(port, "127.0.0.1", () => answer(true));
    });
    if (!isFree) continue;
    await new Promise((closed) => server.close(closed));
    return port;
  }
}
