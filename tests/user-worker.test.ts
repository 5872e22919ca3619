// The package as npm would publish it, in a Worker of a user's own, bundled and run by wrangler.
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { cp, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { Leasehold } from "leasehold";
import { cases, sleep, waiting, watching } from "./support/cases.ts";

const root = resolve(import.meta.dirname, "..");
const run = promisify(execFile);
let home: string;
let folder: string;
let url: string;
let wrangler: ChildProcess;

before(
  async () => {
    home = await mkdtemp(join(tmpdir(), "leasehold-user-"));
    folder = join(home, "user-worker");
    await cp(join(root, "tests/user-worker"), folder, { recursive: true });
    await cp(join(root, "tests/support/cases.ts"), join(home, "support/cases.ts"));
    await writeFile(
      join(home, "package.json"),
      JSON.stringify({ name: "user-worker", type: "module" }),
    );
    await run("npm", ["pack", "--pack-destination", home], { cwd: root });
    const tarball = (await readdir(home)).find((name) => name.endsWith(".tgz"))!;
    await run("npm", ["install", "--offline", "--no-audit", "--no-fund", `./${tarball}`], {
      cwd: home,
    });
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    wrangler = start(port);
    await answers();
  },
  { timeout: 90_000 },
);

after(async () => {
  // The group: wrangler leaves workerd behind when it is killed alone.
  if (wrangler?.pid && wrangler.exitCode === null) process.kill(-wrangler.pid, "SIGKILL");
  await rm(home, { recursive: true, force: true });
});

test("one export line and one binding: a critical section is guarded", async () => {
  const answers = await Promise.all(
    Array.from(
      { length: 30 },
      async () =>
        (await fetch(`${url}/count`)).json() as Promise<{ counter: number; fence: number }>,
    ),
  );
  assert.deepEqual(
    answers.map(({ counter }) => counter).sort((a, b) => a - b),
    Array.from({ length: 30 }, (_, index) => index + 1),
  );
  assert.equal(new Set(answers.map(({ fence }) => fence)).size, 30);
});

test("the same Worker serves its leases over HTTP", async () => {
  const locks = new Leasehold(url);
  await locks.request("over HTTP", async ({ fence }) => assert.ok(fence > 0));
});

for (const over of ["stub", "service", "memory"]) {
  const long = over === "stub" ? waiting : {};
  for (const title of Object.keys({ ...cases, ...watching, ...long })) {
    test(`in workerd, over ${over}: ${title}`, async () => {
      const response = await fetch(`${url}/cases?${new URLSearchParams({ over, title })}`);
      assert.equal(await response.text(), "passed");
    });
  }
}

function start(port: number): ChildProcess {
  const program = join(root, "node_modules/wrangler/bin/wrangler.js");
  const words = ["dev", "--ip", "127.0.0.1", "--port", String(port), "--inspector-port", "0"];
  return spawn(process.execPath, [program, ...words, "--show-interactive-dev-session=false"], {
    cwd: folder,
    detached: true,
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      CI: "1",
      WRANGLER_SEND_METRICS: "false",
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      WRANGLER_LOG_PATH: join(folder, "logs"),
      WRANGLER_REGISTRY_PATH: join(folder, "registry"),
    },
  });
}

async function answers(): Promise<void> {
  for (;;) {
    if (wrangler.exitCode !== null) throw new Error(`wrangler ended with ${wrangler.exitCode}`);
    const response = await fetch(`${url}/healthz`).catch(() => undefined);
    if (response?.ok) return;
    await sleep(100);
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as { port: number };
  await new Promise((closed) => server.close(closed));
  return port;
}
