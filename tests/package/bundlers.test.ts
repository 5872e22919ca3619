// The packed package through the bundlers, none of them configured for it: what comes out runs in a real Chromium, under
// a strict Content-Security-Policy, and in Node.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { build as esbuild, type BuildOptions } from "esbuild";
import type { Browser } from "playwright-core";
import { build as vite, createServer as createViteServer, type ViteDevServer } from "vite";
import webpack, { type Configuration } from "webpack";
import { launchChromium } from "../support/chromium.ts";
import { makeKey, secretOf } from "../support/keys.ts";
import { plainJavaScript } from "../support/plain-javascript.ts";
import { UserFolder } from "../support/user-folder.ts";
import { Workerd } from "../support/workerd.ts";
import { assertEveryWay } from "./every-way.ts";

const admin = makeKey("admin", ["read", "lock", "admin"]);

/** In a page, whose script says what came of it in the one element there is. */
const PAGE_SCRIPT = `import { everyWay } from "./scenario.js";
const output = document.querySelector("output");
const { url, key } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
everyWay(url, key)
  .then(JSON.stringify, String)
  .then((text) => output.replaceChildren(Object.assign(document.createElement("pre"), { textContent: text })));
`;

const NODE_SCRIPT = `import { everyWay } from "./scenario.js";
const [url, key] = process.argv.slice(2);
everyWay(url, key).then((fences) => console.log(JSON.stringify(fences)));
`;

let folder: UserFolder;
let site: Server;
let viteServer: ViteDevServer;
let workerd: Workerd;
let browser: Browser;

before(async () => {
  folder = await UserFolder.create();
  await folder.write("scenario.js", plainJavaScript("tests/package/scenario.ts"));
  await folder.write("page.js", PAGE_SCRIPT);
  await folder.write("index.html", page("./page.js"));
  await folder.write("main.js", NODE_SCRIPT);
  site = await serve(join(folder.path, "site"));
  viteServer = await createViteServer({
    root: folder.path,
    logLevel: "error",
    server: { host: "127.0.0.1" },
  });
  await viteServer.listen();
  const origins = [addressOf(site), addressOf(viteServer.httpServer as Server)];
  workerd = await Workerd.start({
    variables: { LEASEHOLD_KEYS: secretOf([admin]), LEASEHOLD_ORIGINS: origins.join(",") },
  });
  browser = await launchChromium();
});

after(async () => {
  await browser?.close();
  await viteServer?.close();
  site?.close();
  await workerd?.[Symbol.asyncDispose]();
  await folder?.[Symbol.asyncDispose]();
});

describe("in Chromium", { concurrency: true }, () => {
  test("esbuild", async () => {
    await byEsbuild({ entryPoints: ["page.js"], outfile: "site/esbuild/page.js", minify: true });
    await folder.write("site/esbuild/index.html", page("./page.js"));
    await runsInChromium(`${addressOf(site)}/esbuild/`);
  });

  test("esbuild, in several files", async () => {
    await byEsbuild({ entryPoints: ["page.js"], outdir: "site/split", splitting: true });
    await folder.write("site/split/index.html", page("./page.js"));
    await runsInChromium(`${addressOf(site)}/split/`);
  });

  test("webpack", async () => {
    await byWebpack({ entry: "./page.js", output: { path: join(folder.path, "site/webpack") } });
    await folder.write("site/webpack/index.html", page("./main.js"));
    await runsInChromium(`${addressOf(site)}/webpack/`);
  });

  test("Vite, built", async () => {
    await vite({
      root: folder.path,
      base: "/vite/",
      logLevel: "error",
      build: { outDir: join(folder.path, "site/vite") },
    });
    await runsInChromium(`${addressOf(site)}/vite/`);
  });

  test("Vite, its development server", () =>
    runsInChromium(`${addressOf(viteServer.httpServer as Server)}/`));
});

describe("in Node", { concurrency: true }, () => {
  for (const [format, ending] of [
    ["esm", "mjs"],
    ["cjs", "cjs"],
  ] as const) {
    test(`esbuild, ${format}`, async () => {
      const outfile = `esbuild.${ending}`;
      await byEsbuild({ entryPoints: ["main.js"], outfile, platform: "node", format });
      await runsInNode(outfile);
    });
  }

  test("webpack", async () => {
    const output = { path: folder.path, filename: "webpack.cjs" };
    await byWebpack({ entry: "./main.js", target: "node", output });
    await runsInNode("webpack.cjs");
  });
});

async function byEsbuild(options: BuildOptions): Promise<void> {
  await esbuild({
    bundle: true,
    format: "esm",
    logLevel: "silent",
    absWorkingDir: folder.path,
    ...options,
  });
}

async function byWebpack(configuration: Configuration): Promise<void> {
  const compiler = webpack({ context: folder.path, mode: "production", ...configuration })!;
  const stats = await new Promise<webpack.Stats>((resolve, reject) =>
    compiler.run((error, stats) => (stats ? resolve(stats) : reject(error))),
  );
  const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true });
  assert.deepEqual([errors, warnings], [[], []]);
}

/** The page in a tab of its own: it ends well, and nothing is complained of. */
async function runsInChromium(address: string): Promise<void> {
  const tab = await browser.newPage();
  const complaints: string[] = [];
  tab.on("console", (message) => {
    // Over HTTP `held` and `lost` are the status 409, which Chromium notes whatever a page does with it.
    const isConflict = message.text().endsWith("status of 409 (Conflict)");
    if (/error|warning/.test(message.type()) && !isConflict) complaints.push(message.text());
  });
  tab.on("pageerror", (error) => complaints.push(String(error)));
  await tab.goto(`${address}#${new URLSearchParams({ url: workerd.url, key: admin.key })}`);
  const said = await tab.locator("output pre").textContent({ timeout: 60_000 }).catch(String);
  assert.deepEqual(complaints, []);
  assertEveryWay(JSON.parse(said ?? ""));
  await tab.close();
}

async function runsInNode(script: string): Promise<void> {
  const words = [script, workerd.url, admin.key];
  assertEveryWay(JSON.parse(await folder.execute(process.execPath, words)));
}

function page(script: string): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>A user's page</title>
    <link rel="icon" href="data:," />
    <script type="module" src="${script}"></script>
  </head>
  <body>
    <output></output>
  </body>
</html>
`;
}

/** Serves the files of a folder, and lets their pages do no more than the package needs. */
async function serve(root: string): Promise<Server> {
  const types: Record<string, string> = { ".html": "text/html", ".js": "text/javascript" };
  const server = createServer(async ({ url = "/" }, response) => {
    const path = join(root, url.endsWith("/") ? `${url}index.html` : url);
    const content = await readFile(path).catch(() => undefined);
    if (!content) return response.writeHead(404).end();
    return response
      .writeHead(200, {
        "content-type": types[extname(path)] ?? "application/octet-stream",
        "content-security-policy": policy(),
      })
      .end(content);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

function policy(): string {
  const store = `${workerd.url} ${workerd.url.replace(/^http/, "ws")}`;
  return `default-src 'none'; img-src data:; script-src 'self' 'wasm-unsafe-eval'; connect-src ${store}`;
}

function addressOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
