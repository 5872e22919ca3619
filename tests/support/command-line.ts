// The command `leasehold` as a user runs it: a process of its own, of which nothing may be left over.
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { until } from "./store.ts";

const program = resolve(import.meta.dirname, "../../dist/command-line.js");

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Settings {
  /** Of the lease store. */
  readonly url?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Which Node: the one that runs the tests unless given. */
  readonly node?: string;
  readonly stdin?: string;
}

/** Runs it to its end. */
export function leasehold(args: readonly string[], settings: Settings = {}): Promise<Ended> {
  return new Leasehold(args, settings).ended;
}

/** A run of it. `await using` ends it, where a test has failed before it ended. */
export class Leasehold implements AsyncDisposable {
  readonly process: ChildProcess;
  readonly ended: Promise<Ended>;
  /** In the environment of all that it starts. */
  readonly #mark = randomUUID();
  #stdout = "";
  #stderr = "";

  constructor(args: readonly string[], { url, env, cwd, node, stdin }: Settings = {}) {
    const others = Object.entries(process.env).filter(([name]) => !name.startsWith("LEASEHOLD_"));
    this.process = spawn(node ?? process.execPath, [program, ...args], {
      cwd,
      env: {
        ...Object.fromEntries(others),
        ...(url !== undefined && { LEASEHOLD_URL: url }),
        ...env,
        PATH: `${env?.["PATH"] ?? process.env["PATH"]}:/${this.#mark}`,
      },
    });
    const { stdin: input, stdout, stderr } = this.process;
    stdout!.setEncoding("utf8").on("data", (text: string) => (this.#stdout += text));
    stderr!.setEncoding("utf8").on("data", (text: string) => (this.#stderr += text));
    input!.on("error", () => {});
    input!.end(stdin ?? "");
    this.ended = once(this.process, "close").then(([code, signal]) => ({
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
      stdout: this.#stdout,
      stderr: this.#stderr,
    }));
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  get pid(): number {
    return this.process.pid!;
  }

  /** Resolves once it has printed that. */
  async prints(pattern: RegExp, withinMs = 30_000): Promise<RegExpExecArray> {
    let found: RegExpExecArray | null = null;
    await until(async () => {
      found = pattern.exec(this.#stdout);
      if (!found && this.process.exitCode !== null) {
        throw new Error(`it has ended and did not print ${pattern}: ${this.#stderr}`);
      }
      return found !== null;
    }, withinMs);
    return found!;
  }

  /** Processes that it or what it started has started, itself included, and that are still there. */
  async processes(): Promise<number[]> {
    const all = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
    const marked = await Promise.all(all.map(async (pid) => [pid, await this.#isOurs(pid)]));
    return marked.filter(([, isOurs]) => isOurs).map(([pid]) => pid as number);
  }

  /** Resolves when there are none. */
  async leavesNothing(withinMs = 10_000): Promise<void> {
    await until(async () => (await this.processes()).length === 0, withinMs);
  }

  async #isOurs(pid: number): Promise<boolean> {
    const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
    return environment.includes(this.#mark);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pid of await this.processes()) kill(pid);
    await this.ended;
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}

/** A folder for the files of a test. */
export class Folder implements AsyncDisposable {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  static async create(): Promise<Folder> {
    return new Folder(await mkdtemp(join(tmpdir(), "leasehold-command-")));
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** The lines of a file; none where there is no such file yet. */
  async lines(name: string): Promise<string[]> {
    const text = await readFile(this.file(name), "utf8").catch(() => "");
    return text.split("\n").filter((line) => line !== "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}

/** The oldest Node that the package is for. */
export function oldestNode(): string {
  const name = `node20-${process.platform}-${process.arch}/package.json`;
  return join(dirname(createRequire(import.meta.url).resolve(name)), "bin/node");
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
