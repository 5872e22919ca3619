// workerd, the runtime of Cloudflare's Workers, which serves the lease store here: where it is, and what it is told.
import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { unavailable } from "./exit.ts";

/** The behaviour that the Worker is tested with. A workerd older than this date does not know it. */
const DATE = "2026-11-17";

const INSTALL = `npm install workerd@">=1.${DATE.replaceAll("-", "")}"`;

/** What the Worker is told, as an environment may say it. */
export const SETTINGS = [
  "LEASEHOLD_KEYS",
  "LEASEHOLD_OPEN",
  "LEASEHOLD_ORIGINS",
  "LEASEHOLD_LOCKS_PER_SPACE",
  "LEASEHOLD_WAITERS_PER_LOCK",
  "LEASEHOLD_COMMANDS_PER_SOCKET",
] as const;

/** The program. Throws a Failure that says how to come by it. */
export function findWorkerd(): string {
  const program = process.env["LEASEHOLD_WORKERD"] || installed() || onPath();
  if (program === undefined) {
    throw unavailable(`serve needs workerd, and it is not installed: ${INSTALL}`);
  }
  const { stdout, error } = spawnSync(program, ["--version"], { encoding: "utf8" });
  const date = /\d{4}-\d\d-\d\d/.exec(stdout ?? "")?.[0];
  if (date === undefined) {
    throw unavailable(`${program} is no workerd that runs here: ${error?.message ?? INSTALL}`);
  }
  if (date >= DATE) return program;
  throw unavailable(`${program} is of ${date}, and ${DATE} or newer is needed: ${INSTALL}`);
}

/** Beside this package or in the current folder, by itself or as what wrangler brings along. */
function installed(): string | undefined {
  for (const place of [import.meta.url, join(process.cwd(), "package.json")]) {
    const here = createRequire(place);
    for (const way of [[], ["wrangler/package.json"], ["wrangler/package.json", "miniflare"]]) {
      try {
        const last = way.reduce((from, name) => createRequire(from.resolve(name)), here);
        return (last("workerd") as { default: string }).default;
      } catch {
        // Not there.
      }
    }
  }
  return undefined;
}

function onPath(): string | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const program = join(folder || ".", "workerd");
    try {
      accessSync(program, constants.X_OK);
      return program;
    } catch {
      // Not there.
    }
  }
  return undefined;
}

/** The configuration of a lease store with its state in `folder`. What is set comes by the environment. */
export function configuration(
  address: string,
  folder: string,
  settings: readonly string[],
): string {
  const own = (name: string) => text(fileURLToPath(new URL(name, import.meta.url)));
  const bindings = settings.map((name) => `, (name = "${name}", fromEnvironment = "${name}")`);
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "leasehold", worker = .leasehold),
    (name = "state", disk = (path = ${text(folder)}, writable = true)),
  ],
  sockets = [(name = "http", address = ${text(address)}, http = (), service = "leasehold")],
);
const leasehold :Workerd.Worker = (
  modules = [
    (name = "worker.js", esModule = embed ${own("worker.js")}),
    (name = "worker.wasm", wasm = embed ${own("worker.wasm")}),
  ],
  compatibilityDate = "${DATE}",
  compatibilityFlags = ["no_web_socket_compression"],
  durableObjectNamespaces = [
    (className = "LeaseStore", uniqueKey = "leasehold", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "state"),
  bindings = [(name = "LEASES", durableObjectNamespace = "LeaseStore")${bindings.join("")}],
);
`;
}

/** A text of Cap'n Proto: what is not plain is written by its bytes. */
function text(value: string): string {
  const bytes = [...Buffer.from(value)].map((byte) => {
    const isPlain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c;
    return isPlain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
  });
  return `"${bytes.join("")}"`;
}
