// The carrier inside the account: RPC to the Durable Object of a space. A request that is open keeps the
// object awake and a socket does not, so who waits for long waits at one.
import { type Call, type Carrier, NoAnswer } from "./carrier.ts";
import { Timer } from "./clock.ts";
import { unavailable } from "./errors.ts";
import type { LeaseNamespace, SocketLike } from "./types.ts";
import { upgraded } from "./upgrade.ts";

/** So long the object stays awake by itself: to wait for less costs nothing more. */
const AWAKE_MS = 10_000;

/** Closes a socket, not a wait: its place is kept for a while. */
const CUT = 4_000;

export class StubCarrier implements Carrier {
  readonly #namespace: LeaseNamespace;
  /** Those of this turn. */
  readonly #stubs = new Map<string, any>();

  constructor(namespace: LeaseNamespace) {
    this.#namespace = namespace;
  }

  async call(call: Call): Promise<unknown> {
    const { space, op, lock, fields } = call;
    const waitMs = op === "acquire" ? Number(fields["waitMs"] ?? 0) : 0;
    if (waitMs <= AWAKE_MS) return this.#rpc(space, op, lock, fields);
    const reply = await this.#rpc(space, op, lock, { ...fields, waitMs: AWAKE_MS });
    if ((reply as { status?: unknown }).status !== "waiting" || call.signal.aborted) return reply;
    const rest = { ...fields, waitMs: waitMs - AWAKE_MS };
    try {
      return await this.#wait(call, rest);
    } catch {
      return this.#rpc(space, op, lock, rest);
    }
  }

  /** A socket to that space. */
  async open(space: string): Promise<SocketLike> {
    return upgraded(this.#stub(space), space);
  }

  async #rpc(
    space: string,
    op: string,
    lock: string | undefined,
    fields: Readonly<Record<string, unknown>>,
  ): Promise<unknown> {
    try {
      const stub = this.#stub(space);
      return lock === undefined ? await stub[op](fields) : await stub[op](lock, fields);
    } catch (error) {
      const { overloaded = false } = Object(error) as { overloaded?: boolean };
      const what = overloaded ? "the lease store is overloaded" : "the lease store did not answer";
      throw new NoAnswer(unavailable(what, error), overloaded);
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
          const message = JSON.parse(String(data)) as { status?: unknown };
          if (message.status !== "waiting") return resolve(message);
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
