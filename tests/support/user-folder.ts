// A folder of a user's own, outside this repository, with the package in it as npm would install it.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { sleep } from "./store.ts";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

export class UserFolder implements AsyncDisposable {
  readonly path: string;
  #wrangler: ChildProcess | undefined;

  private constructor(path: string) {
    this.path = path;
  }

  static async create(): Promise<UserFolder> {
    const path = await mkdtemp(join(tmpdir(), "leasehold-user-"));
    await writeFile(join(path, "package.json"), JSON.stringify({ name: "user", type: "module" }));
    await run("npm", ["pack", "--pack-destination", path], { cwd: root });
    const tarball = (await readdir(path)).find((name) => name.endsWith(".tgz"))!;
    await run("npm", ["install", "--offline", "--no-audit", "--no-fund", `./${tarball}`], {
      cwd: path,
    });
    return new UserFolder(path);
  }

  /** Runs a module there, and resolves with what it printed. */
  async run(name: string, text: string): Promise<string> {
    await writeFile(join(this.path, name), text);
    const { stdout } = await run(process.execPath, [name], { cwd: this.path, timeout: 30_000 });
    return stdout;
  }

  /** Serves the Worker there with wrangler, as its wrangler.jsonc says. */
  async serve(): Promise<string> {
    const port = await freePort();
    const program = join(root, "node_modules/wrangler/bin/wrangler.js");
    const words = ["dev", "--ip", "127.0.0.1", "--port", String(port), "--inspector-port", "0"];
    const wrangler = spawn(
      process.execPath,
      [program, ...words, "--show-interactive-dev-session=false"],
      {
        cwd: this.path,
        detached: true,
        stdio: ["ignore", "ignore", "inherit"],
        env: {
          ...process.env,
          CI: "1",
          WRANGLER_SEND_METRICS: "false",
          CLOUDFLARE_CF_FETCH_ENABLED: "false",
          WRANGLER_LOG_PATH: join(this.path, "logs"),
          WRANGLER_REGISTRY_PATH: join(this.path, "registry"),
        },
      },
    );
    this.#wrangler = wrangler;
    const url = `http://127.0.0.1:${port}`;
    for (;;) {
      if (wrangler.exitCode !== null) throw new Error(`wrangler ended with ${wrangler.exitCode}`);
      if (await fetch(url).catch(() => undefined)) return url;
      await sleep(100);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The group: wrangler leaves workerd behind when it is killed alone.
    const { pid, exitCode } = this.#wrangler ?? {};
    if (pid && exitCode === null) process.kill(-pid, "SIGKILL");
    await rm(this.path, { recursive: true, force: true });
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as { port: number };
  await new Promise((closed) => server.close(closed));
  return port;
}
