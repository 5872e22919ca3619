// The signals this process gets: before a program runs they end the wait for its lease, then they are the program's.
import type { Leasehold } from "leasehold";
import type { Reach } from "./child.ts";

/** What ends a program that does not listen for it. */
const ENDING = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const;

export class Signals {
  readonly #arrived = new AbortController();
  readonly #handlers = new Map<NodeJS.Signals, () => void>();
  #hear: (signal: NodeJS.Signals) => void = (signal) => this.#arrived.abort(signal);

  constructor() {
    for (const signal of ENDING) this.#on(signal, () => this.#hear(signal));
  }

  /** Aborts when a signal comes that nobody was there to be told of. */
  get signal(): AbortSignal {
    return this.#arrived.signal;
  }

  /** From now on a program gets them. */
  passTo(send: (signal: NodeJS.Signals) => void, reach: Reach): void {
    // What the terminal tells all of its foreground has reached a program that is there.
    const isTold = (signal: string) =>
      reach === "alone" && (signal === "SIGINT" || signal === "SIGQUIT");
    this.#hear = (signal) => {
      if (!isTold(signal)) send(signal);
    };
    // One that came while the program was being started.
    if (this.signal.aborted) this.#hear(this.signal.reason as NodeJS.Signals);
    if (reach === "alone") return;
    this.#on("SIGWINCH", () => send("SIGWINCH"));
    this.#on("SIGCONT", () => send("SIGCONT"));
    this.#on("SIGTSTP", () => {
      // SIGTSTP itself does not stop a group of which no terminal knows: setpgid(2), on orphaned groups.
      send("SIGSTOP");
      process.kill(process.pid, "SIGSTOP");
    });
  }

  /** From now on they do to this process what they do to any. */
  leave(): void {
    for (const [signal, handler] of this.#handlers) process.off(signal, handler);
    this.#handlers.clear();
  }

  #on(signal: NodeJS.Signals, handler: () => void): void {
    this.#handlers.set(signal, handler);
    process.on(signal, handler);
  }
}

/**
 * Does what a signal may end. Whatever ends it leaves no place in a queue, and no lease; a signal then ends this process,
 * so that whoever started it sees which.
 */
export async function interruptible(
  locks: Leasehold,
  task: (signals: Signals) => Promise<number>,
): Promise<number> {
  const signals = new Signals();
  try {
    return await task(signals);
  } catch (error) {
    await locks.close();
    if (!signals.signal.aborted) throw error;
  }
  signals.leave();
  process.kill(process.pid, signals.signal.reason as NodeJS.Signals);
  return new Promise(() => setInterval(() => {}, 1_000));
}
