// The servers that are measured: started here, on free ports of the loopback with their state in a folder that goes
// with them, and ended by their process ids.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const running = new Set<Server>();

export class Server {
  readonly #child: ChildProcess;
  readonly #name: string;
  #log = "";

  constructor(program: string, words: readonly string[], stdio: "pipe"[] = []) {
    this.#name = program;
    this.#child = spawn(program, words, { stdio: ["ignore", "pipe", "pipe", ...stdio] });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on("data", (text) => (this.#log = (this.#log + text).slice(-4_000)));
    }
    running.add(this);
  }

  get stdio(): ChildProcess["stdio"] {
    return this.#child.stdio;
  }

  /** Waits until `isReady` says so. */
  async until(isReady: () => Promise<boolean>, patienceMs = 15_000): Promise<void> {
    for (const giveUpAt = Date.now() + patienceMs; ; await sleep(20)) {
      if (await isReady().catch(() => false)) return;
      const { exitCode } = this.#child;
      if (exitCode !== null) throw new Error(`${this.#name} ended (${exitCode}): ${this.#log}`);
      if (Date.now() > giveUpAt)
        throw new Error(`${this.#name} was not ready in ${patienceMs} ms: ${this.#log}`);
    }
  }

  /** Ends it at once: what it said is durable has to be. */
  async kill(): Promise<void> {
    running.delete(this);
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}

/** For the case that this process ends before it is done. */
process.on("exit", () => {
  for (const server of running) void server.kill();
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => process.exit(1));
}

/** A folder that is gone when this process ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-bench-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("the loopback gave no port");
  return address.port;
}
