// What is deployed and what is downloaded.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Row, Section } from "./section.ts";

const dist = join(import.meta.dirname, "../../dist");

export const sizes: Section = {
  name: "sizes",
  title: "Sizes",
  about: "Files of `dist/`, each through gzip at level 9, added up. A kB is 1000 bytes.",
  async run() {
    const row = (what: string, files: readonly string[], atMost?: number): Row => ({
      what,
      unit: "kB",
      ours:
        files.reduce(
          (sum, file) => sum + gzipSync(readFileSync(join(dist, file)), { level: 9 }).length,
          0,
        ) / 1_000,
      ...(atMost !== undefined && { goal: { atMost } }),
    });
    return {
      rows: [
        row("Worker: wasm and JavaScript", ["worker.wasm", "worker.js"], 120),
        row("npm package: one file with both", ["index.js"], 40),
        row(
          "npm package in workerd: wasm and JavaScript",
          ["leasehold.wasm", "index.workerd.js"],
          40,
        ),
        row("its in-process store, loaded when it is used: one file with both", ["store.js"]),
      ],
    };
  },
};
