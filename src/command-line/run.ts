// `run`: a program that runs while it has a lease.
import { type Lease, LeaseError, type Leasehold } from "leasehold";
import { Child, type Manner, type Program } from "./child.ts";
import { type Asked, askedOf, clientOf } from "./client.ts";
import { Exit, Failure, failureOf, lostLine, misused } from "./exit.ts";
import { complain, plain } from "./print.ts";
import { interruptible, type Signals } from "./signals.ts";
import { granted, TERMS, type Wish, wishOf } from "./terms.ts";
import { durationMs } from "./values.ts";
import type { Command, Words } from "./words.ts";

/** A renewal is seen within so small a part of the ttl. */
const LOOKS = 6;

/** The default of `--kill-after` is a sixth of the lease, and at most this. */
const KILL_AFTER_MS = 5_000;

export const run: Command = {
  summary: "run a command while holding a lock",
  words: "<lock> -- command [args]",
  options: {
    ...TERMS,
    command: { short: "c", value: "line", help: "in place of -- command: a line for $SHELL" },
    "kill-after": {
      value: "duration",
      help: "from SIGTERM to SIGKILL when the lease ends; else a sixth of the ttl, at most 5s",
    },
    foreground: { help: "the command keeps the terminal; signals reach it and not its children" },
    "export-key": { help: "LEASEHOLD_KEY in its environment, too" },
    "export-token": { help: "LEASEHOLD_TOKEN in its environment, too" },
    verbose: { short: "v", help: "say on standard error what becomes of the lease" },
  },
  more: `The command finds LEASEHOLD_LOCK, LEASEHOLD_SPACE, LEASEHOLD_URL and LEASEHOLD_FENCE in its environment. Its exit
code is passed on; 128 and the signal's number where a signal ended it. If the lease is lost, the command and its
process group get SIGTERM, later SIGKILL, and the exit code is ${Exit.lost}.`,
  async run(words) {
    const task = taskOf(words);
    const locks = clientOf(words);
    try {
      return await interruptible(locks, (signals) => new Run(task, locks, signals).done());
    } catch (error) {
      const failure = failureOf(error, task.asked);
      throw task.isVerbose ? failure : hushed(failure);
    }
  },
};

/** What is to be run, and how. */
interface Task {
  readonly wish: Wish;
  readonly manner: Manner;
  readonly program: Program;
  readonly asked: Asked;
  readonly isVerbose: boolean;
  readonly exportsToken: boolean;
}

function taskOf(words: Words): Task {
  const [file, ...args] = lineOf(words);
  const wish = wishOf(words);
  const asked = askedOf(words);
  // Secrets are passed on only if that is asked for.
  const { LEASEHOLD_TOKEN: _, LEASEHOLD_KEY: __, ...others } = process.env;
  const env = {
    ...others,
    LEASEHOLD_URL: asked.url,
    LEASEHOLD_SPACE: asked.space,
    LEASEHOLD_LOCK: wish.lock,
    ...(words.has("export-key") && { LEASEHOLD_KEY: asked.key }),
  };
  return {
    wish,
    manner: {
      reach: words.has("foreground") ? "alone" : "group",
      killAfterMs: killAfterOf(words, wish),
    },
    program: { file, args, env, stdio: "inherit" },
    asked,
    isVerbose: words.has("verbose"),
    exportsToken: words.has("export-token"),
  };
}

function lineOf(words: Words): readonly [file: string, ...args: string[]] {
  const line = words.text("command");
  const [file, ...args] = words.rest ?? [];
  if (line !== undefined) {
    if (words.rest !== undefined) throw misused("--command and -- command: give one of them");
    return [process.env["SHELL"] || "/bin/sh", "-c", line];
  }
  if (file !== undefined) return [file, ...args];
  const lock = words.given[0] ?? "<lock>";
  throw misused(`the command is missing: leasehold run ${plain(lock)} -- command`);
}

function killAfterOf(words: Words, { ttlMs, maxHoldMs = Infinity }: Wish): number {
  const lastsMs = Math.min(ttlMs, maxHoldMs);
  const longest = lastsMs === ttlMs ? "--ttl" : "--max-hold";
  const killAfterMs = words.value("kill-after", durationMs);
  if (killAfterMs === undefined) return Math.min(Math.floor(lastsMs / 6), KILL_AFTER_MS);
  if (killAfterMs <= lastsMs / 2) return killAfterMs;
  throw misused(
    `--kill-after must be at most ${Math.floor(lastsMs / 2)}ms, half of ${longest}: give less, or more there`,
  );
}

/** One run. */
class Run {
  readonly #task: Task;
  readonly #locks: Leasehold;
  readonly #signals: Signals;

  constructor(task: Task, locks: Leasehold, signals: Signals) {
    this.#task = task;
    this.#locks = locks;
    this.#signals = signals;
  }

  /** Resolves with the exit code. Rejects where nothing was run. */
  async done(): Promise<number> {
    const { wish, manner } = this.#task;
    const lease = await this.#lease();
    const child = await this.#start(lease);
    const loss = new Loss(lease, wish, manner, (lengthMs) => child.lasts(lengthMs));
    this.#signals.passTo((signal) => child.signal(signal), manner.reach);
    const end = await Promise.race([child.ended, loss.told]);
    loss.stop();
    if (typeof end === "string") {
      complain(`the lease on "${plain(lease.lock)}" ${end}: ending the command`);
      if (!(await child.end())) complain("the command could not be ended, and may still run");
    }
    await child.leave();
    await this.#release(lease);
    return typeof end === "string" ? Exit.lost : end;
  }

  async #lease(): Promise<Lease> {
    const { wish, manner, asked } = this.#task;
    const { signal } = this.#signals;
    const lease = await granted(this.#locks, asked.url, wish, { signal, renew: true });
    // One that was waited for is short until its first renewal: too short to end a command in.
    if (lease.heldForMs <= manner.killAfterMs) await lease.renew();
    signal.throwIfAborted();
    this.#say(`"${plain(lease.lock)}" granted, fence ${lease.fence}`);
    return lease;
  }

  async #start(lease: Lease): Promise<Child> {
    const { program, manner, exportsToken } = this.#task;
    const env = {
      ...program.env,
      LEASEHOLD_FENCE: String(lease.fence),
      ...(exportsToken && { LEASEHOLD_TOKEN: lease.token }),
    };
    try {
      return await Child.start({ ...program, env }, manner);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const exit = code === "ENOENT" ? Exit.notFound : Exit.notExecutable;
      const what = `${plain(program.file)} cannot be run (${code}): see that it is there, and executable`;
      throw new Failure(exit, "not_run", what);
    }
  }

  /** The program's exit code stays, whatever comes of it. */
  async #release(lease: Lease): Promise<void> {
    try {
      const released = await lease.release();
      const isLate = released.status === "lost" && !lease.signal.aborted;
      if (isLate) complain(`when the command ended, ${lostLine(released.reason)}`);
      else this.#say(released.status);
    } catch (error) {
      const { message } = failureOf(error, this.#task.asked);
      complain(`the lease was not given back, and ends by itself with its ttl: ${message}`);
    }
  }

  #say(line: string): void {
    if (this.#task.isVerbose) complain(line);
  }
}

/** That a lease is over, or will be before what needs some time to end has ended. */
class Loss {
  /** Resolves with what to say of it. */
  readonly told: Promise<string>;
  #timer: NodeJS.Timeout | undefined;

  /** `onRenewed` hears how long the command may go on from now on. */
  constructor(
    lease: Lease,
    { ttlMs, maxHoldMs }: Wish,
    { killAfterMs }: Manner,
    onRenewed: (lengthMs: number) => void,
  ) {
    this.told = new Promise((resolve) => {
      const { signal } = lease;
      const onAbort = () => resolve(`was lost (${reasonOf(signal.reason)})`);
      signal.addEventListener("abort", onAbort);
      const why = maxHoldMs === undefined ? "" : "--max-hold is over, or ";
      let endsAt = -Infinity;
      const look = () => {
        const leftMs = lease.heldForMs - killAfterMs;
        if (signal.aborted) return onAbort();
        if (leftMs <= 0) return resolve(`is about to end: ${why}it was not renewed`);
        const end = performance.now() + leftMs;
        // Renewals are told to nobody. What is later by less is the clock's.
        if (end > endsAt + 1) onRenewed(leftMs);
        endsAt = end;
        this.#timer = setTimeout(look, Math.min(leftMs, ttlMs / LOOKS));
      };
      look();
    });
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

function reasonOf(error: unknown): string {
  return error instanceof LeaseError ? (error.reason ?? error.code) : "unknown";
}

/** As flock(1) does, `run` says nothing of a lock that is not to be had: a cron job that skips a turn sends no mail. */
function hushed(failure: Failure): Failure {
  const { exit, code } = failure;
  return code === "held" || code === "timeout" ? new Failure(exit, code, "") : failure;
}
