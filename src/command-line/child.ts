// Another program, and everything it starts: a process group that gets signals together and is ended together, also
// when this process is killed.
import { type ChildProcess, spawn, type StdioOptions } from "node:child_process";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

/** After SIGKILL: longer than this it takes only what the kernel holds. */
const KILLED_MS = 2_000;

const POLL_MS = 20;

/**
 * `group`: a session of its own, and signals go to all of its process group. `alone`: it stays in the foreground of
 * the terminal, and signals go to it alone.
 */
export type Reach = "group" | "alone";

/** How its end is looked after. */
export interface Manner {
  readonly reach: Reach;
  /** Between SIGTERM and SIGKILL. */
  readonly killAfterMs: number;
}

export interface Program {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly stdio: StdioOptions;
}

export class Child {
  /** Resolves when the program itself has ended, as a shell would say it: its exit code, or 128 and the signal's number. */
  readonly ended: Promise<number>;
  readonly process: ChildProcess;
  readonly #manner: Manner;
  readonly #guard: Guard;
  #hasEnded = false;

  private constructor(child: ChildProcess, manner: Manner, guard: Guard) {
    this.process = child;
    this.#manner = manner;
    this.#guard = guard;
    this.ended = new Promise((resolve) => {
      child.on("exit", (code, signal) => {
        this.#hasEnded = true;
        resolve(code ?? 128 + constants.signals[signal!]);
      });
    });
  }

  /** Rejects where it cannot be run, with the system's error. */
  static async start({ file, args, env, stdio }: Program, manner: Manner): Promise<Child> {
    const guard = new Guard(manner.killAfterMs);
    try {
      const child = spawn(file, args, { env, stdio, detached: manner.reach === "group" });
      await new Promise<void>((resolve, reject) => {
        child.once("spawn", resolve);
        child.once("error", reject);
      });
      const started = new Child(child, manner, guard);
      guard.watch(started.#target);
      return started;
    } catch (error) {
      await guard.dismiss();
      throw error;
    }
  }

  /** Passes a signal on. */
  signal(signal: NodeJS.Signals): void {
    try {
      process.kill(this.#target, signal);
    } catch {
      // It has ended, or is somebody else's by now, as what sudo runs is.
    }
  }

  /** Ends it and whatever is left of its group: SIGTERM, and after a while SIGKILL. Resolves with whether it is gone. */
  async end(): Promise<boolean> {
    this.signal("SIGTERM");
    // What is stopped does not hear it.
    this.signal("SIGCONT");
    if (await this.#isGoneWithin(this.#manner.killAfterMs)) return true;
    this.signal("SIGKILL");
    return this.#isGoneWithin(KILLED_MS);
  }

  /** It has ended, and what it may have left running is let go. */
  async leave(): Promise<void> {
    await this.#guard.dismiss();
  }

  async #isGoneWithin(lengthMs: number): Promise<boolean> {
    const end = performance.now() + lengthMs;
    while (this.#isThere) {
      const leftMs = end - performance.now();
      if (leftMs <= 0) return false;
      await sleep(Math.min(POLL_MS, leftMs));
    }
    return true;
  }

  get #isThere(): boolean {
    if (!this.#hasEnded || this.#manner.reach === "alone") return !this.#hasEnded;
    try {
      process.kill(this.#target, 0);
      return true;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === "EPERM";
    }
  }

  /** As kill(2) has it: a negative number is a group. */
  get #target(): number {
    const { pid } = this.process;
    return this.#manner.reach === "group" ? -pid! : pid!;
  }
}

/**
 * Ends the program when this process is gone and could not do it, as after SIGKILL. A shell that sleeps until its
 * standard input closes, in a session of its own.
 */
class Guard {
  readonly #process: ChildProcess;

  constructor(killAfterMs: number) {
    // Not every sleep(1) takes fractions: less is as good here.
    const seconds = String(Math.floor(killAfterMs / 1_000));
    this.#process = spawn("/bin/sh", ["-c", GUARD, "leasehold-guard", seconds], {
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
      env: { PATH: process.env["PATH"] },
      cwd: "/",
    });
    // Without a shell there is no guard, and a program runs all the same.
    this.#process.on("error", () => {});
    this.#process.stdin!.on("error", () => {});
  }

  watch(target: number): void {
    this.#process.stdin!.write(`${target}\n`);
  }

  /** Resolves when it is gone. */
  async dismiss(): Promise<void> {
    const guard = this.#process;
    if (guard.pid === undefined || guard.exitCode !== null || guard.signalCode !== null) return;
    const exit = new Promise((resolve) => guard.once("exit", resolve));
    guard.stdin!.end("done\n");
    await exit;
  }
}

const GUARD = `
trap '' HUP INT QUIT TERM
read -r target || exit
[ "$target" = done ] && exit
read -r word && exit
kill -s TERM -- "$target"
kill -s CONT -- "$target"
[ "$1" -gt 0 ] && sleep "$1"
kill -s KILL -- "$target"
`;
