// A workerd of its own for a test: on a free port, with its state in a folder that outlives it, to be
// killed like a machine that loses its power, and started again on the same state.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";

const binary = (createRequire(import.meta.url)("workerd") as { default: string }).default;

export interface Options {
  /** The class of tests/support/rpc-worker.js that is bound as LEASES. */
  readonly className?: "Store" | "Deaf" | "ByHand";
  /** Folder of worker.js and worker.wasm. */
  readonly artefact?: "dist" | "target/faults/dist";
  /** Text bindings. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** A running Worker. `await using` ends it and removes its state. */
export class Workerd implements AsyncDisposable {
  readonly #options: Options;
  readonly #directory: string;
  #process: ChildProcess | undefined;
  #port = 0;
  #log = "";

  private constructor(options: Options, directory: string) {
    this.#options = options;
    this.#directory = directory;
  }

  static async start(options: Options = {}): Promise<Workerd> {
    const workerd = new Workerd(options, await mkdtemp(join(tmpdir(), "leasehold-")));
    await workerd.restart();
    return workerd;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** What the Worker has said so far. */
  get log(): string {
    return this.#log;
  }

  /** SIGKILL: nothing is put away. */
  async kill(): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return;
    const exit = once(running, "exit");
    running.kill("SIGKILL");
    await exit;
  }

  /** Starts again on the same state and the same port. */
  async restart(): Promise<void> {
    await this.kill();
    const config = join(this.#directory, "config.capnp");
    await writeFile(config, configuration(this.#options, this.#directory, this.#port));
    const child = spawn(binary, ["serve", "--import-path=/", "--control-fd=3", config], {
      stdio: ["ignore", "pipe", "pipe", "pipe"],
    });
    this.#process = child;
    // Tests make the Worker fail on purpose: what it says is shown only when it does not start.
    const before = this.#log.length;
    for (const output of [child.stdout, child.stderr]) {
      output?.setEncoding("utf8").on("data", (text: string) => (this.#log += text));
    }
    this.#port = await Promise.race([
      listening(child.stdio[3] as Readable),
      once(child, "exit").then(() => {
        throw new Error(`workerd did not start: ${this.#log.slice(before).slice(-10_000)}`);
      }),
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await rm(this.#directory, { recursive: true, force: true });
  }
}

async function listening(control: Readable): Promise<number> {
  let text = "";
  for await (const chunk of control.setEncoding("utf8")) {
    text += chunk;
    const port = /"socket":"http","port":(\d+)/.exec(text)?.[1];
    if (port !== undefined) return Number(port);
  }
  throw new Error("workerd ended before it listened");
}

function configuration(options: Options, directory: string, port: number): string {
  const {
    className = "Store",
    artefact = "dist",
    variables = { LEASEHOLD_OPEN: "true" },
  } = options;
  const texts = Object.entries(variables).map(
    ([name, text]) => `, (name = ${JSON.stringify(name)}, text = ${JSON.stringify(text)})`,
  );
  const path = (...parts: string[]) =>
    JSON.stringify(resolve(import.meta.dirname, "../..", ...parts));
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "disk", disk = (path = ${JSON.stringify(directory)}, writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [
    (name = "rpc-worker.js", esModule = embed ${path("tests/support/rpc-worker.js")}),
    (name = "wasm-memory.js", esModule = embed ${path("tests/support/wasm-memory.js")}),
    (name = "worker.js", esModule = embed ${path(artefact, "worker.js")}),
    (name = "worker.wasm", wasm = embed ${path(artefact, "worker.wasm")}),
  ],
  compatibilityDate = "2026-11-17",
  durableObjectNamespaces = [
    (className = "${className}", uniqueKey = "leasehold-test", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [(name = "LEASES", durableObjectNamespace = "${className}")${texts.join("")}],
);
`;
}
