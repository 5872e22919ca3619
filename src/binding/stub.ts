// The carrier inside the account: RPC to the Durable Object of a space. A request that is open keeps the
// object awake and a socket does not, so who waits for long waits at one.
import { type Call, type Carrier, NoAnswer } from "./carrier.ts";
import { Timer } from "./clock.ts";
import { unavailable } from "./errors.ts";
import { bytesOf } from "./host.ts";
import type { LeaseNamespace, SocketLike } from "./types.ts";
import { upgraded } from "./upgrade.ts";

/** So long the object stays awake by itself: to wait for less costs nothing more. */
const AWAKE_MS = 10_000;

/** Closes a socket, not a wait: its place is kept for a while. */
const CUT = 4_000;

/** The store takes no longer messages, bytes. */
const MESSAGE_BYTES = 16 * 1024;

/** A command that is not sent yet, as text. */
interface Unsent {
  readonly text: string;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** A reply, and whether the store had to answer at once, since others were in the same message. */
interface Answer {
  readonly reply: unknown;
  readonly isHasty: boolean;
}

export class StubCarrier implements Carrier {
  readonly #namespace: LeaseNamespace;
  /** Those of this turn. */
  readonly #stubs = new Map<string, any>();
  readonly #unsent = new Map<string, Unsent[]>();

  constructor(namespace: LeaseNamespace) {
    this.#namespace = namespace;
  }

  async call(call: Call): Promise<unknown> {
    const { op, fields } = call;
    const waitMs = op === "acquire" ? Number(fields["waitMs"] ?? 0) : 0;
    const awake = waitMs <= AWAKE_MS ? fields : { ...fields, waitMs: AWAKE_MS };
    let { reply, isHasty } = await this.#ask(call, awake);
    const isOver = () => !isWaiting(reply) || call.signal.aborted;
    if (isOver()) return reply;
    // It has its place, and asks once more to wait there.
    if (isHasty) reply = await this.#askAlone(call, awake);
    if (waitMs <= AWAKE_MS || isOver()) return reply;
    const rest = { ...fields, waitMs: waitMs - AWAKE_MS };
    try {
      return await this.#wait(call, rest);
    } catch {
      return this.#askAlone(call, rest);
    }
  }

  /** A socket to that space. */
  async open(space: string): Promise<SocketLike> {
    return upgraded(this.#stub(space), space);
  }

  /** What is asked for in one turn travels as one message. */
  #ask(call: Call, fields: Call["fields"]): Promise<Answer> {
    const text = textOf(call, fields);
    return new Promise((resolve, reject) => {
      const asked = this.#unsent.get(call.space) ?? [];
      this.#unsent.set(call.space, asked);
      if (asked.push({ text, resolve, reject }) === 1) queueMicrotask(() => this.#send(call.space));
    });
  }

  async #askAlone(call: Call, fields: Call["fields"]): Promise<unknown> {
    const text = textOf(call, fields);
    const answer = await new Promise<Answer>((resolve, reject) => {
      void this.#rpc(call.space, [{ text, resolve, reject }]);
    });
    return answer.reply;
  }

  #send(space: string): void {
    const asked = this.#unsent.get(space) ?? [];
    this.#unsent.delete(space);
    while (asked.length > 0) {
      let bytes = 2;
      const end = asked.findIndex(({ text }) => (bytes += bytesOf(text) + 1) > MESSAGE_BYTES);
      // One that is too long by itself is the store's to refuse.
      void this.#rpc(space, asked.splice(0, end < 0 ? asked.length : Math.max(end, 1)));
    }
  }

  async #rpc(space: string, asked: readonly Unsent[]): Promise<void> {
    const isHasty = asked.length > 1;
    const texts = asked.map(({ text }) => text);
    try {
      const answer = (await this.#stub(space).message(isHasty ? `[${texts}]` : texts[0])) as string;
      const reply = JSON.parse(answer) as unknown;
      const replies = Array.isArray(reply) ? (reply as unknown[]) : asked.map(() => reply);
      for (const [at, { resolve }] of asked.entries()) resolve({ reply: replies[at], isHasty });
    } catch (error) {
      const { overloaded = false } = Object(error) as { overloaded?: boolean };
      const what = overloaded ? "the lease store is overloaded" : "the lease store did not answer";
      for (const { reject } of asked) reject(new NoAnswer(unavailable(what, error), overloaded));
    }
  }

  /**
   * A stub that failed once may go on failing: a fresh one for every attempt. One and the same for what is called
   * in one turn, since only the calls of one stub arrive in order.
   */
  #stub(space: string): any {
    let stub = this.#stubs.get(space);
    if (!stub) {
      stub = this.#namespace.get(this.#namespace.idFromName(space));
      this.#stubs.set(space, stub);
      queueMicrotask(() => this.#stubs.delete(space));
    }
    return stub;
  }

  /** Asks over a socket of its own, and resolves with what that says in the end. Rejects where it breaks. */
  async #wait({ space, lock, signal }: Call, fields: { waitMs: number }): Promise<unknown> {
    const socket = await this.open(space);
    const timer = new Timer();
    let onAbort = () => {};
    try {
      return await new Promise((resolve, reject) => {
        let reply: unknown;
        onAbort = () => reject(new Error("nobody waits any more"));
        signal.addEventListener("abort", onAbort, { once: true });
        socket.addEventListener("close", () => reject(new Error("the socket broke")));
        socket.addEventListener("message", ({ data }: { data: unknown }) => {
          const message = JSON.parse(String(data)) as object;
          if (!isWaiting(message)) return resolve(message);
          reply = { ...message, retryAfterMs: 0 };
        });
        timer.set(fields.waitMs, () => resolve(reply));
        socket.send(JSON.stringify({ id: 1, op: "acquire", lock, ...fields }));
      });
    } finally {
      timer.clear();
      signal.removeEventListener("abort", onAbort);
      socket.close(CUT);
    }
  }
}

function textOf({ op, lock }: Call, fields: Call["fields"]): string {
  return JSON.stringify({ op, ...(lock !== undefined && { lock }), ...fields });
}

function isWaiting(reply: unknown): boolean {
  return (Object(reply) as { status?: unknown }).status === "waiting";
}
