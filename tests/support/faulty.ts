// A way to a real store on which messages are lost, late and repeated.
import { setTimeout as sleep } from "node:timers/promises";
import type { MemoryStore, Target } from "leasehold";

export interface Sent {
  readonly space: string;
  readonly op: string;
  readonly lock?: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
}

/** What happens to a command and its reply. */
export type Fate =
  | "delivered"
  /** The command never arrives, and its sender is told so. */
  | "request lost"
  /** The command is carried out; its sender is told that something broke. */
  | "reply lost"
  /** The command is carried out; its sender hears nothing, ever. */
  | "reply swallowed"
  /** Nothing arrives and nothing is heard, ever. */
  | "swallowed"
  /** The command arrives twice. */
  | "repeated"
  /** The reply takes so many ms. */
  | number;

export interface Faulty {
  readonly target: Target;
  /** Every command that was sent, in order. */
  readonly sent: Sent[];
  /** Decides what happens to each: everything is delivered unless it is set. */
  fate: (sent: Sent) => Fate;
}

export function faulty(store: MemoryStore): Faulty {
  const carrier = store as unknown as { call(sent: Sent): Promise<unknown>; clock?: unknown };
  const faulty: Faulty = {
    target: { call, clock: carrier.clock } as unknown as MemoryStore,
    sent: [],
    fate: () => "delivered",
  };
  async function call({ listener: _, ...sent }: Sent & { listener?: unknown }): Promise<unknown> {
    // Without a listener who waits holds the line: everything there is to hear is a reply, and has its fate.
    faulty.sent.push(sent);
    const fate = faulty.fate(sent);
    switch (fate) {
      case "delivered":
        return carrier.call(sent);
      case "request lost":
        throw new Error("connection refused");
      case "reply lost":
        await carrier.call(sent);
        throw new Error("connection reset");
      case "reply swallowed":
        await carrier.call(sent);
        return new Promise(() => {});
      case "swallowed":
        return new Promise(() => {});
      case "repeated": {
        const [reply] = await Promise.all([carrier.call(sent), carrier.call(sent)]);
        return reply;
      }
      default: {
        const reply = await carrier.call(sent);
        await sleep(fate);
        return reply;
      }
    }
  }
  return faulty;
}

/** Does nothing else for so long: no timer, no message. */
export function block(lengthMs: number): void {
  const start = performance.now();
  while (performance.now() - start < lengthMs);
}

/** Random numbers from 0 to 1 that a seed repeats (mulberry32). */
export function dice(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
