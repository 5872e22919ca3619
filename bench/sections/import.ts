// How long a program waits for `import "leasehold"`.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { inTurns } from "../measure.ts";
import type { Section } from "./section.ts";

const ROUNDS = 9;

export const coldImport: Section = {
  name: "import",
  title: "Cold import",
  about: `A new Node.js imports the package and makes its first client, timed inside; beside it, redis-semaphore with ioredis.`,
  async run({ workerd }) {
    const entry = join(import.meta.dirname, "../../dist/index.js");
    const figures = await inTurns(
      [
        timed(
          "leasehold",
          `const { Leasehold } = await import(${JSON.stringify(entry)}); new Leasehold("${workerd.url("leasehold")}");`,
        ),
        timed(
          "peer",
          `const { Redis } = await import("ioredis"); await import("redis-semaphore"); new Redis({ lazyConnect: true });`,
        ),
      ],
      ROUNDS,
    );
    const [ours, peer] = [figures.get("leasehold"), figures.get("peer")];
    if (!ours || !peer) return { rows: [] };
    return {
      rows: [
        {
          what: "import in Node.js",
          unit: "ms",
          ours,
          peer: { name: "redis-semaphore", figure: peer },
        },
      ],
    };
  },
};

function timed(name: string, script: string) {
  const program = `const startedAt = performance.now(); ${script} console.log(performance.now() - startedAt); process.exit();`;
  return {
    name,
    async round() {
      const words = ["--input-type=module", "--eval", program];
      return Number(
        execFileSync(process.execPath, words, { cwd: import.meta.dirname, encoding: "utf8" }),
      );
    },
  };
}
