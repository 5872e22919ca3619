// workerd with the Worker of fence-worker.js, on local simulators of D1 and R2.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import type { Guarded } from "./guarded.ts";

interface Miniflare {
  readonly ready: Promise<URL>;
  dispose(): Promise<void>;
}
const { Miniflare, convertV4MiniflareOptions } = createRequire(import.meta.url)("miniflare") as {
  Miniflare: new (options: object) => Miniflare;
  convertV4MiniflareOptions(options: object): object;
};

export class FenceWorker implements AsyncDisposable {
  readonly #miniflare: Miniflare;
  readonly #url: URL;

  private constructor(miniflare: Miniflare, url: URL) {
    this.#miniflare = miniflare;
    this.#url = url;
  }

  /** Of the Worker of fence-worker.js, or of another one that takes calls in the same way. */
  static async start(source?: string): Promise<FenceWorker> {
    const read = (file: string) => readFile(resolve(import.meta.dirname, file), "utf8");
    const miniflare = new Miniflare(
      convertV4MiniflareOptions({
        modules: [
          {
            type: "ESModule",
            path: "worker.js",
            contents: source ?? (await read("fence-worker.js")),
          },
          { type: "ESModule", path: "fence.js", contents: await read("../../dist/fence.js") },
        ],
        compatibilityDate: "2026-11-17",
        durableObjects: { DOCUMENTS: { className: "Documents", useSQLite: true } },
        d1Databases: ["DB"],
        r2Buckets: ["BUCKET"],
      }),
    );
    return new FenceWorker(miniflare, await miniflare.ready);
  }

  /** Calls a method of one of the places; rejects with what it threw. */
  async call(place: "object" | "d1" | "r2", method: string, ...args: unknown[]): Promise<any> {
    const body = JSON.stringify([place, method, ...args], replace);
    const response = await fetch(this.#url, { method: "POST", body });
    const reply = (await response.json()) as any;
    if (!response.ok) throw Object.assign(new Error(reply.message), reply);
    return reply;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#miniflare.dispose();
  }
}

export function guardedInWorkerd(worker: FenceWorker, place: "object" | "d1" | "r2"): Guarded {
  return {
    write: (name, lease, value) => worker.call(place, "write", name, lease, value),
    read: async (name) => (await worker.call(place, "read", name)) ?? undefined,
    ...(place !== "r2" && {
      admit: (name, lease) => worker.call(place, "admit", name, lease),
      journal: (name) => worker.call(place, "journal", name),
    }),
    async [Symbol.asyncDispose]() {},
  };
}

/** Numbers that JSON does not know as text; what is undefined is null there. */
function replace(_: string, value: unknown): unknown {
  return typeof value === "number" && !Number.isFinite(value) ? `number:${value}` : value;
}
