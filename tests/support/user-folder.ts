// A folder of a user's own, outside this repository, with the package in it as npm would install it.
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { Wrangler } from "./wrangler.ts";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

export class UserFolder implements AsyncDisposable {
  readonly path: string;
  readonly #servers: Wrangler[] = [];

  private constructor(path: string) {
    this.path = path;
  }

  static async create(): Promise<UserFolder> {
    const path = await mkdtemp(join(tmpdir(), "leasehold-user-"));
    const folder = new UserFolder(path);
    await folder.write("package.json", JSON.stringify({ name: "user", type: "module" }));
    await run("npm", ["pack", "--pack-destination", path], { cwd: root });
    const tarball = (await readdir(path)).find((name) => name.endsWith(".tgz"))!;
    await folder.execute("npm", [
      "install",
      "--offline",
      "--no-audit",
      "--no-fund",
      `./${tarball}`,
    ]);
    return folder;
  }

  /** Writes a file, and makes the folders above it. */
  async write(name: string, text: string): Promise<void> {
    const path = join(this.path, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }

  /** Takes a package from the packages of this repository. */
  async link(name: string): Promise<void> {
    const path = join(this.path, "node_modules", name);
    await mkdir(dirname(path), { recursive: true });
    await symlink(join(root, "node_modules", name), path);
  }

  /** Runs a module there, and resolves with what it printed. */
  async run(name: string, text: string): Promise<string> {
    await this.write(name, text);
    return this.execute(process.execPath, [name]);
  }

  /** Runs a program there to its end, and resolves with what it printed; what it complained of is in the error. */
  async execute(
    program: string,
    words: readonly string[],
    variables: Readonly<Record<string, string>> = {},
  ): Promise<string> {
    const env = { ...process.env, ...variables };
    try {
      return (await run(program, words, { cwd: this.path, env, timeout: 120_000 })).stdout;
    } catch (error) {
      const { message, stdout } = error as Error & { stdout?: string };
      throw new Error(`${message}\n${stdout ?? ""}`);
    }
  }

  /** Serves a Worker there with wrangler, as a wrangler.jsonc says. */
  async serve(config = "wrangler.jsonc"): Promise<string> {
    const wrangler = await Wrangler.start(this.path, this.path, ["--config", config]);
    this.#servers.push(wrangler);
    return wrangler.url;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.#servers) await server[Symbol.asyncDispose]();
    await rm(this.path, { recursive: true, force: true });
  }
}
