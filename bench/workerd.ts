// One workerd with everything that runs on it: Leasehold's Worker as it is deployed, the hand-written reference, and the
// driver that calls both through their stubs. Nothing stands between them and a socket of the loopback.
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { Server, temporaryFolder } from "./processes.ts";

const root = join(import.meta.dirname, "..");

/** Not newer than the pinned workerd: that of wrangler.jsonc. */
const COMPATIBILITY_DATE = "2026-11-17";

const FILES = {
  "worker.js": "dist/worker.js",
  "worker.wasm": "dist/worker.wasm",
  "counted.js": "bench/driver/counted.js",
  "driver.js": "bench/driver/driver.js",
  "store.js": "bench/reference/store.js",
  "waiting.js": "bench/reference/waiting.js",
  "reference.js": "bench/reference/worker.js",
};

const LEASEHOLD = `(name = "./worker.js", esModule = embed "worker.js"), (name = "./worker.wasm", wasm = embed "worker.wasm")`;

const CONFIG = `
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "leasehold", worker = .leasehold),
    (name = "counted", worker = .counted),
    (name = "reference", worker = .reference),
    (name = "driver", worker = .driver),
    (name = "disk", disk = (writable = true)),
  ],
  sockets = [
    (name = "leasehold", address = "127.0.0.1:0", http = (), service = "leasehold"),
    (name = "reference", address = "127.0.0.1:0", http = (), service = "reference"),
    (name = "driver", address = "127.0.0.1:0", http = (), service = "driver"),
  ],
);

const leasehold :Workerd.Worker = (
  modules = [${LEASEHOLD}],
  compatibilityDate = "${COMPATIBILITY_DATE}",
  compatibilityFlags = ["no_web_socket_compression"],
  durableObjectNamespaces = [(className = "LeaseStore", uniqueKey = "leasehold", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [
    (name = "LEASES", durableObjectNamespace = "LeaseStore"),
    (name = "LEASEHOLD_OPEN", text = "true"),
  ],
);

const counted :Workerd.Worker = (
  modules = [(name = "./counted.js", esModule = embed "counted.js"), ${LEASEHOLD}],
  compatibilityDate = "${COMPATIBILITY_DATE}",
  durableObjectNamespaces = [(className = "Counted", uniqueKey = "counted", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
);

const reference :Workerd.Worker = (
  modules = [
    (name = "./worker.js", esModule = embed "reference.js"),
    (name = "./store.js", esModule = embed "store.js"),
    (name = "./waiting.js", esModule = embed "waiting.js"),
  ],
  compatibilityDate = "${COMPATIBILITY_DATE}",
  compatibilityFlags = ["no_web_socket_compression"],
  durableObjectNamespaces = [
    (className = "Reference", uniqueKey = "reference", enableSql = true),
    (className = "GroupedReference", uniqueKey = "grouped", enableSql = true),
    (className = "WaitingReference", uniqueKey = "waiting", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [
    (name = "REFERENCE", durableObjectNamespace = "Reference"),
    (name = "WAITING", durableObjectNamespace = "WaitingReference"),
  ],
);

const driver :Workerd.Worker = (
  modules = [(name = "./driver.js", esModule = embed "driver.js")],
  compatibilityDate = "${COMPATIBILITY_DATE}",
  bindings = [
    (name = "LEASES", durableObjectNamespace = (className = "LeaseStore", serviceName = "leasehold")),
    (name = "COUNTED", durableObjectNamespace = (className = "Counted", serviceName = "counted")),
    (name = "REFERENCE", durableObjectNamespace = (className = "Reference", serviceName = "reference")),
    (name = "GROUPED", durableObjectNamespace = (className = "GroupedReference", serviceName = "reference")),
  ],
);
`;

/** What the driver is told to do: see driver.js. */
export interface Task {
  readonly store: "leasehold" | "methods" | "reference" | "grouped";
  readonly work: "cycles" | "fill" | "first" | "rows";
  /** Names the objects that are worked on. */
  readonly space: string;
  readonly atOnce?: number;
  readonly count?: number;
  readonly forMs?: number;
  readonly spaces?: number;
  readonly ttlMs?: number;
}

export interface Written {
  readonly rows: number;
  readonly alarms: number;
}

export interface Done {
  readonly elapsedMs: number;
  readonly count: number;
  readonly written: Record<"acquire" | "renew" | "release", Written>;
  readonly left: Record<string, number>;
}

export class Workerd {
  readonly #folder: string;
  #server: Server;
  #ports: Map<string, number>;

  private constructor(folder: string, server: Server, ports: Map<string, number>) {
    this.#folder = folder;
    this.#server = server;
    this.#ports = ports;
  }

  static async start(words: readonly string[] = []): Promise<Workerd> {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "state"));
    for (const [name, source] of Object.entries(FILES))
      copyFileSync(join(root, source), join(folder, name));
    writeFileSync(join(folder, "config.capnp"), CONFIG);
    return new Workerd(folder, ...(await serve(folder, words)));
  }

  url(service: "leasehold" | "reference" | "driver"): string {
    return `http://127.0.0.1:${this.#ports.get(service)}`;
  }

  async drive(task: Task): Promise<Done> {
    const response = await fetch(this.url("driver"), {
      method: "POST",
      body: JSON.stringify(task),
    });
    if (!response.ok)
      throw new Error(`the driver failed at ${JSON.stringify(task)}: ${await response.text()}`);
    return (await response.json()) as Done;
  }

  /** Ends it with force and starts it on the same state. */
  async restart(): Promise<void> {
    await this.#server.kill();
    [this.#server, this.#ports] = await serve(this.#folder, []);
  }

  async stop(): Promise<void> {
    await this.#server.kill();
  }
}

async function serve(
  folder: string,
  words: readonly string[],
): Promise<[Server, Map<string, number>]> {
  const program = join(root, "node_modules/workerd/bin/workerd");
  // The ports that it was given come as lines of JSON on a pipe of their own.
  const server = new Server(
    program,
    [
      "serve",
      "--control-fd=3",
      `--directory-path=disk=${join(folder, "state")}`,
      ...words,
      join(folder, "config.capnp"),
    ],
    ["pipe"],
  );
  const ports = new Map<string, number>();
  const lines = createInterface({ input: server.stdio[3] as Readable });
  lines.on("line", (line) => {
    const { event, socket, port } = JSON.parse(line);
    if (event === "listen") ports.set(socket, port);
  });
  await server.until(async () => ports.size === 3);
  return [server, ports];
}
