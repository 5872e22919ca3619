// What `npm publish` would send: which files, how large, and whether tools that judge packages find fault with it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { before, test } from "node:test";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { linksOf } from "../support/documentation.ts";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

/** Neither a type nor one of the files that npm always takes along. */
const FILES = [
  "ARCHITECTURE.md",
  "CHANGELOG.md",
  "LICENSE-APACHE",
  "LICENSE-MIT",
  "SECURITY.md",
  "bench/REPORT.md",
  "dist/command-line.js",
  "dist/fence.js",
  "dist/index.js",
  "dist/index.workerd.js",
  "dist/leasehold-store.wasm",
  "dist/leasehold.wasm",
  "dist/store.js",
  "dist/store.workerd.js",
  "dist/worker.js",
  "dist/worker.wasm",
  "docs/choosing.md",
  "docs/command-line.md",
  "docs/component.md",
  "docs/fence.md",
  "docs/guarantees.md",
  "docs/http.md",
  "docs/production.md",
  "docs/proof.md",
  "docs/recipes/README.md",
  "docs/recipes/cron-once.ts",
  "docs/recipes/leader.ts",
  "docs/recipes/long-job.ts",
  "docs/recipes/rate-limited-api.ts",
  "docs/recipes/refresh-credential.ts",
  "docs/recipes/row-and-object.ts",
  "docs/recipes/single-flight.ts",
  "docs/rust.md",
  "docs/scale.md",
  "docs/wit.md",
];

interface Packed {
  readonly files: readonly { readonly path: string; readonly mode: number }[];
}

let packed: Packed;

before(async () => {
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json"], { cwd: root });
  const [pack] = Object.values(JSON.parse(stdout) as Packed[]);
  packed = pack!;
});

test("the tarball holds what is used, and nothing else", () => {
  const paths = packed.files.map(({ path }) => path);
  const always = ["README.md", "package.json"];
  const others = paths.filter((path) => !path.startsWith("dist/types/") && !always.includes(path));
  assert.deepEqual(others.sort(), FILES);
  assert.deepEqual(
    paths.filter((path) => path.startsWith("dist/types/") && !path.endsWith(".d.ts")),
    [],
  );
});

test("every file that the package names is in the tarball", async () => {
  const { exports, bin } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    exports: object;
    bin: Record<string, string>;
  };
  const paths = new Set(packed.files.map(({ path }) => path));
  const named = [...targets(exports), ...Object.values(bin)].map((path) => path.replace("./", ""));
  assert.ok(named.length > 10);
  assert.deepEqual(
    named.filter((path) => !paths.has(path)),
    [],
  );
});

test("every link of a page in the tarball leads to something in the tarball", () => {
  const paths = packed.files.map(({ path }) => path);
  const pages = paths.filter((path) => path.endsWith(".md"));
  assert.ok(pages.length > 10);
  for (const page of pages) {
    for (const { path, isPicture } of linksOf(page)) {
      // Pictures stay in the repository: they are large, and there is text in their place.
      if (isPicture) continue;
      const isThere = paths.some((other) => other === path || other.startsWith(`${path}/`));
      assert.ok(isThere, `${page}: the tarball has no ${path}`);
    }
  }
});

test("the command can be executed", async () => {
  const command = packed.files.find(({ path }) => path === "dist/command-line.js")!;
  assert.equal(command.mode & 0o111, 0o111);
  const text = await readFile(join(root, command.path), "utf8");
  assert.equal(text.split("\n", 1)[0], "#!/usr/bin/env node");
});

test("types come first, and there is a condition for every runtime", async () => {
  const { exports } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    exports: Record<string, object>;
  };
  assert.deepEqual(Object.keys(exports["."]!), [
    "types",
    "workerd",
    "node",
    "deno",
    "bun",
    "browser",
    "default",
  ]);
  for (const entry of ["./worker", "./fence"]) {
    assert.deepEqual(Object.keys(exports[entry]!), ["types", "default"]);
  }
});

/** What is promised, in kB of 1000 bytes after gzip. */
const SIZES: readonly (readonly [what: string, files: readonly string[], kB: number])[] = [
  ["the Worker", ["worker.js", "worker.wasm"], 120],
  ["a client", ["index.js"], 40],
  ["a client in workerd", ["index.workerd.js", "leasehold.wasm"], 40],
];

for (const [what, files, kB] of SIZES) {
  test(`${what} is at most ${kB} kB`, async () => {
    let bytes = 0;
    for (const file of files) {
      bytes += gzipSync(await readFile(join(root, "dist", file)), { level: 9 }).length;
    }
    assert.ok(bytes <= kB * 1_000, `${bytes} bytes`);
  });
}

test("publint finds no fault", async () => {
  const { stdout } = await run(tool("publint"), [".", "--strict"], { cwd: root });
  assert.match(stdout, /All good!/);
});

test("are the types wrong? they are not", async () => {
  // The package is ESM alone; no types belong to a .wasm file.
  const modules = ["leasehold.wasm", "leasehold-store.wasm", "worker.wasm"];
  const words = ["--pack", ".", "--profile", "esm-only", "--format", "json"];
  const { stdout } = await run(tool("attw"), [...words, "--exclude-entrypoints", ...modules], {
    cwd: root,
  });
  const { analysis } = JSON.parse(stdout) as {
    analysis: { types: unknown; entrypoints: Record<string, unknown> };
  };
  assert.deepEqual(analysis.types, { kind: "included" });
  const entries = [".", "./worker", "./fence", "./package.json"];
  assert.deepEqual(Object.keys(analysis.entrypoints), entries);
});

function tool(name: string): string {
  return join(root, "tests/node_modules/.bin", name);
}

function targets(map: object): string[] {
  return Object.values(map).flatMap((target: unknown) =>
    typeof target === "string" ? [target] : targets(target as object),
  );
}
