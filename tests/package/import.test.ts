// An import of the package does nothing by itself: it costs no time, and it is allowed where little is.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

const dist = join(import.meta.dirname, "../../dist");
const run = promisify(execFile);

/** Takes away what would be an effect, and then imports. */
const WITHOUT_ANYTHING = `
const { setImmediate } = globalThis;
// But for its own output, which is read by the test.
const left = () => process.getActiveResourcesInfo().filter((name) => name !== "PipeWrap").length;
const forbid = (owner, name) =>
  Object.defineProperty(owner, name, { value() { throw new Error(name + " was called"); } });
for (const name of ["setTimeout", "setInterval", "setImmediate", "queueMicrotask", "fetch", "WebSocket"])
  forbid(globalThis, name);
for (const name of ["getRandomValues", "randomUUID"]) forbid(crypto, name);
for (const name of ["Module", "Instance", "compile", "instantiate"]) forbid(WebAssembly, name);
forbid(Math, "random");
forbid(Date, "now");
forbid(performance, "now");
const [leasehold, fence] = await Promise.all([import("leasehold"), import("leasehold/fence")]);
// What loading the files took is soon given back.
for (let turns = 0; turns < 10_000 && left() > 0; turns += 1) await new Promise((turn) => setImmediate(turn));
console.log(typeof leasehold.Leasehold, Object.keys(fence).length > 0, left());
`;

test("in Node: no timer, no randomness, no clock, no WebAssembly, no handle", async () => {
  const { stdout } = await run(
    process.execPath,
    ["--input-type=module", "--eval", WITHOUT_ANYTHING],
    { cwd: import.meta.dirname },
  );
  assert.equal(stdout, "function true 0\n");
});

/** In its global scope a Worker may neither roll dice, set a timer nor ask anybody. */
const WORKER = `
import { DistributedLock, Leasehold, memoryStore } from "./index.workerd.js";
import * as fence from "./fence.js";
export { LeaseStore } from "./worker.js";

const inProcess = new Leasehold(memoryStore());
const elsewhere = new Leasehold("https://locks.example.com");
const classic = new DistributedLock(inProcess, "classic");

export default {
  async fetch(_, env) {
    const locks = new Leasehold(env.LEASES);
    const leases = await Promise.all([locks.acquire("a"), inProcess.acquire("a")]);
    const held = leases.map((lease) => lease.held);
    await Promise.all(leases.map((lease) => lease.release()));
    return Response.json([...held, await classic.acquire(), typeof elsewhere.clientId, Object.keys(fence).length > 0]);
  },
};
`;

test("in workerd: a Worker's global scope, with clients made there, and no bundler", async () => {
  type Miniflare = { dispatchFetch(url: string): Promise<Response>; dispose(): Promise<void> };
  const { Miniflare, convertV4MiniflareOptions } = createRequire(import.meta.url)("miniflare") as {
    Miniflare: new (options: object) => Miniflare;
    convertV4MiniflareOptions(options: object): object;
  };
  const scripts = ["index.workerd.js", "store.workerd.js", "fence.js", "worker.js"];
  const modules = ["leasehold.wasm", "leasehold-store.wasm", "worker.wasm"];
  const read = (type: string, names: string[]) =>
    Promise.all(
      names.map(async (path) => ({ type, path, contents: await readFile(join(dist, path)) })),
    );
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: [
        { type: "ESModule", path: "main.js", contents: WORKER },
        ...(await read("ESModule", scripts)),
        ...(await read("CompiledWasm", modules)),
      ],
      compatibilityDate: "2026-11-17",
      durableObjects: { LEASES: { className: "LeaseStore", useSQLite: true } },
    }),
  );
  try {
    for (const isAcquired of [true, false]) {
      const response = await miniflare.dispatchFetch("http://worker/");
      const text = await response.text();
      assert.equal(text, JSON.stringify([true, true, isAcquired, "string", true]));
    }
  } finally {
    await miniflare.dispose();
  }
});
