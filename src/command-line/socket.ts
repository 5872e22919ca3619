// WebSockets in Node 20, which has them behind a flag: a thread may be given what the process was not.
import { Worker } from "node:worker_threads";

export function hasSocket(): boolean {
  return "WebSocket" in globalThis;
}

/** Does the same again in a thread that has them. Resolves with its exit code. */
export function withSocket(): Promise<number> {
  const thread = new Worker(new URL(import.meta.url), {
    argv: process.argv.slice(2),
    execArgv: ["--experimental-websocket"],
  });
  return new Promise((resolve, reject) => {
    thread.on("error", reject);
    thread.on("exit", resolve);
  });
}
