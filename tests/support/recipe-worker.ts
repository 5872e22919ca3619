// A Worker of docs/recipes as it stands, in workerd, with local D1 and R2. Whatever it fetches goes to the test, which
// may let it wait; and it may be killed and started again on the same state, with its clock ahead.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { until } from "./store.ts";

interface Miniflare {
  readonly ready: Promise<URL>;
  getD1Database(binding: string): Promise<any>;
  getR2Bucket(binding: string): Promise<any>;
  dispose(): Promise<void>;
}
const { Miniflare, convertV4MiniflareOptions } = createRequire(import.meta.url)("miniflare") as {
  Miniflare: new (options: object) => Miniflare;
  convertV4MiniflareOptions(options: object): object;
};

const root = resolve(import.meta.dirname, "../..");

/** A request of the Worker's, to be answered by the test. */
export interface Call {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  answer(status: number, body?: unknown): void;
}

export class RecipeWorker implements AsyncDisposable {
  /** What the Worker has fetched so far, in its order. */
  calls: Call[] = [];
  /** Called with each; what it leaves unanswered waits. */
  onCall: (call: Call) => void = () => {};
  readonly #main: string;
  readonly #state: string;
  readonly #outside: Server;
  #aheadMs = 0;
  #miniflare: Miniflare | undefined;
  #url: URL | undefined;

  private constructor(main: string, state: string, outside: Server) {
    this.#main = main;
    this.#state = state;
    this.#outside = outside;
  }

  /** `main`: a file of docs/recipes. */
  static async start(main: string): Promise<RecipeWorker> {
    const outside = createServer((request, response) => void worker.#take(request, response));
    await new Promise<void>((listening) => outside.listen(0, "127.0.0.1", listening));
    const state = await mkdtemp(join(tmpdir(), "leasehold-recipe-"));
    const worker = new RecipeWorker(main, state, outside);
    try {
      await worker.restart();
    } catch (error) {
      await worker[Symbol.asyncDispose]();
      throw error;
    }
    return worker;
  }

  /** Ends it with SIGKILL where it runs, and starts it on what it had stored, as if so much later. */
  async restart(afterMs = 0): Promise<void> {
    this.#aheadMs += afterMs;
    await this.#miniflare?.dispose();
    const dist = (file: string) => readFile(join(root, "dist", file));
    const wasm = ["leasehold.wasm", "worker.wasm"];
    const outside = `http://127.0.0.1:${(this.#outside.address() as AddressInfo).port}`;
    this.#miniflare = new Miniflare(
      convertV4MiniflareOptions({
        modules: [
          { type: "ESModule", path: "main.js", contents: await bundle(this.#main, this.#aheadMs) },
          ...(await Promise.all(
            wasm.map(async (path) => ({ type: "CompiledWasm", path, contents: await dist(path) })),
          )),
        ],
        compatibilityDate: "2026-11-17",
        durableObjects: { LEASES: { className: "LeaseStore", useSQLite: true } },
        d1Databases: ["DB"],
        r2Buckets: ["BUCKET"],
        bindings: {
          REPORTS_URL: `${outside}/reports`,
          TOKEN_URL: `${outside}/token`,
          API_URL: `${outside}/api`,
          PAUSE_URL: `${outside}/pause`,
        },
        unsafeTriggerHandlers: true,
        resourcePersistencePath: this.#state,
      }),
    );
    this.#url = await this.#miniflare.ready;
  }

  /** Forgets what it has fetched, and runs these statements. */
  async reset(...statements: readonly string[]): Promise<void> {
    this.calls = [];
    this.onCall = () => {};
    const database = await this.database();
    for (const statement of statements) await database.exec(statement);
  }

  /** Resolves with its status and what it says. */
  async fetch(path: string, init?: RequestInit): Promise<{ status: number; text: string }> {
    const response = await fetch(new URL(path, this.#url), init);
    return { status: response.status, text: await response.text() };
  }

  /** Delivers a trigger of that time; resolves with whether it went well. */
  async trigger(time: string): Promise<boolean> {
    const at = Date.parse(time);
    return (await this.fetch(`/cdn-cgi/local/scheduled?time=${at}`)).text === "ok";
  }

  /** Resolves with what it fetched as the so-manieth there. */
  async call(path: string, at = 0): Promise<Call> {
    await until(async () => this.callsOf(path).length > at, 60_000);
    return this.callsOf(path)[at]!;
  }

  callsOf(path: string): Call[] {
    return this.calls.filter((call) => call.path === path);
  }

  /** Ends the leases of a lock, of which their holders hear at their next renewal only. */
  async revoke(lock: string): Promise<void> {
    const { text } = await this.fetch(`/revoke?${new URLSearchParams({ lock })}`);
    if (text !== '{"revoked":1}') throw new Error(text);
  }

  database(): Promise<any> {
    return this.#miniflare!.getD1Database("DB");
  }

  bucket(): Promise<any> {
    return this.#miniflare!.getR2Bucket("BUCKET");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#miniflare?.dispose();
    this.#outside.closeAllConnections();
    this.#outside.close();
    await rm(this.#state, { recursive: true, force: true });
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const call: Call = {
      path: request.url!,
      headers: request.headers,
      body,
      answer: (status, reply = {}) => response.writeHead(status).end(JSON.stringify(reply)),
    };
    this.calls.push(call);
    this.onCall(call);
  }
}

/** As wrangler would, with what the tests need around it. The package is found by its own name. */
async function bundle(main: string, aheadMs: number): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, "recipe-harness.js")],
    alias: { recipe: join(root, "docs/recipes", main) },
    bundle: true,
    write: false,
    format: "esm",
    target: "es2022",
    conditions: ["workerd"],
    external: ["cloudflare:workers", "*.wasm"],
    banner: { js: `const machineNow = Date.now; Date.now = () => machineNow() + ${aheadMs};` },
    logLevel: "silent",
  });
  return outputFiles[0]!.text;
}
