// Whoever has no use for the in-process store does not load it: its engine is as large as all the rest.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { type BuildOptions, build as esbuild } from "esbuild";
import { build as vite } from "vite";
import webpack from "webpack";
import { UserFolder } from "../support/user-folder.ts";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

/** Imports the client alone, and both. */
const PROGRAMS = {
  client: `import { Leasehold } from "leasehold"; globalThis.made = new Leasehold(location.href);`,
  both: `import { Leasehold, memoryStore } from "leasehold"; globalThis.made = new Leasehold(memoryStore());`,
};

/** A piece of the store's module as text: what has it has the module. */
let piece: string;
let folder: UserFolder;

before(async () => {
  // Of one line: bundlers join what is broken into several.
  const lines = (await readFile(join(root, "dist/store.js"), "utf8")).slice(50_000).split("\n");
  piece = lines[1]!.slice(0, 60);
  folder = await UserFolder.create();
  for (const [name, text] of Object.entries(PROGRAMS)) await folder.write(`${name}.js`, text);
});

after(() => folder?.[Symbol.asyncDispose]());

describe("one file", () => {
  for (const name of ["client", "both"] as const) {
    test(`esbuild: ${name}`, async () => {
      const output = `out/${name}.js`;
      await esbuild({ ...esbuildOptions(name), outfile: join(folder.path, output) });
      const text = await readFile(join(folder.path, output), "utf8");
      assert.equal(text.includes(piece), name === "both");
      if (name === "client") assertSmall(text);
    });
  }
});

describe("in chunks, the store is in one of its own", () => {
  test("esbuild", async () => {
    const outdir = join(folder.path, "esbuild");
    await esbuild({ ...esbuildOptions("both"), outdir, splitting: true });
    await assertApart(outdir, "both.js");
  });

  test("webpack", async () => {
    const path = join(folder.path, "webpack");
    await byWebpack("both", path);
    await assertApart(path, "main.js");
  });

  test("Vite", async () => {
    await folder.write("index.html", `<script type="module" src="./both.js"></script>`);
    const outDir = join(folder.path, "vite");
    await vite({ root: folder.path, logLevel: "error", build: { outDir } });
    const html = await readFile(join(outDir, "index.html"), "utf8");
    assert.doesNotMatch(html, /modulepreload/);
    await assertApart(join(outDir, "assets"), /src="\/assets\/([^"]+)"/.exec(html)![1]!);
  });
});

test("wrangler: nothing of the store is carried out in a Worker that has another one", async () => {
  const worker = (imports: string, store: string) =>
    `import { ${imports} } from "leasehold";
    export default { fetch: (_, env) => Response.json(new Leasehold(${store}).clientId) };`;
  await folder.write("worker.js", worker("Leasehold", "env.LEASES"));
  await folder.write("worker-both.js", worker("Leasehold, memoryStore", "memoryStore()"));
  const own = await byWrangler("worker.js");
  assert.doesNotMatch(own, /leasehold-store\.wasm/);
  assert.match(own, /import \w+ from "\.\/\w+-leasehold\.wasm"/);
  assert.match(await byWrangler("worker-both.js"), /"\.\/\w+-leasehold-store\.wasm"/);
});

function esbuildOptions(name: string): BuildOptions {
  return {
    entryPoints: [`${name}.js`],
    absWorkingDir: folder.path,
    bundle: true,
    minify: true,
    format: "esm",
    logLevel: "silent",
  };
}

async function byWebpack(name: string, path: string): Promise<void> {
  const compiler = webpack({
    context: folder.path,
    mode: "production",
    entry: `./${name}.js`,
    output: { path },
  })!;
  await new Promise<void>((resolve, reject) =>
    compiler.run((error) => (error ? reject(error) : resolve())),
  );
}

/** What it makes of the program, as text. */
async function byWrangler(program: string): Promise<string> {
  const out = join(folder.path, `wrangler-${program}`);
  const words = ["deploy", program, "--dry-run", "--name", "any", "--outdir", out];
  const config = ["--compatibility-date", "2026-11-01"];
  await run(join(root, "node_modules/.bin/wrangler"), [...words, ...config], {
    cwd: folder.path,
    env: { ...process.env, CI: "1", WRANGLER_SEND_METRICS: "false" },
  });
  return readFile(join(out, program), "utf8");
}

/** Of the files in that folder, another than `entry` has the store. */
async function assertApart(path: string, entry: string): Promise<void> {
  const names = (await readdir(path)).filter((name) => name.endsWith(".js"));
  const texts = await Promise.all(names.map((name) => readFile(join(path, name), "utf8")));
  const holders = names.filter((_, at) => texts[at]!.includes(piece));
  assert.equal(holders.length, 1, names.join());
  assert.notEqual(holders[0], entry);
  assertSmall(await readFile(join(path, entry), "utf8"));
}

/** As small as the client itself, but for what a bundler adds. */
function assertSmall(text: string): void {
  const bytes = gzipSync(text, { level: 9 }).length;
  assert.ok(bytes < 42_000, `${bytes} bytes`);
}
