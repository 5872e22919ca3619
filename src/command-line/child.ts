// Another program, and everything it starts: a process group that gets signals together and is ended together, also
// when this process is killed or stands still.
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

  /** So long from now it is ended at the latest, also where this process stands still, until this is called again. */
  lasts(lengthMs: number): void {
    this.#guard.lasts(lengthMs);
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
 * Ends the program where this process cannot: when it is gone, as after SIGKILL, or is stopped for longer than the
 * program lasts. A shell that reads until its standard input closes, in a session of its own.
 */
class Guard {
  readonly #process: ChildProcess;
  readonly #killAfterMs: number;

  constructor(killAfterMs: number) {
    this.#killAfterMs = killAfterMs;
    const words = [seconds(killAfterMs), seconds(killAfterMs / 2)];
    this.#process = spawn("/bin/sh", ["-c", GUARD, "leasehold-guard", ...words], {
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

  lasts(lengthMs: number): void {
    // This process comes first, where it can: it knows why, and has all of the time.
    this.#process.stdin!.write(`${seconds(lengthMs + this.#killAfterMs / 2)}\n`);
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

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(3);
}

/** A sleep that is not slept out, or cannot take fractions, ends nothing. */
const GUARD = `
trap '' HUP INT QUIT TERM
end() {
  kill -s TERM -- "$target"
  kill -s CONT -- "$target"
  sleep "$1"
  kill -s KILL -- "$target"
}
fuse() {
  trap 'kill -s KILL "$!"; exit' USR1
  sleep "$1" &
  wait "$!" || exit
  trap - USR1
  end "$2"
}
read -r target || exit
[ "$target" = done ] && exit
while read -r left; do
  [ -n "$fuse" ] && kill -s USR1 "$fuse"
  [ "$left" = done ] && exit
  fuse "$left" "$2" &
  fuse=$!
done
[ -n "$fuse" ] && kill -s USR1 "$fuse"
end "$1"
`;
