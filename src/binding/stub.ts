// The carrier inside the account: RPC to the Durable Object of a space.
import { type Call, type Carrier, NoAnswer } from "./carrier.ts";
import { unavailable } from "./errors.ts";
import type { LeaseNamespace } from "./types.ts";

export class StubCarrier implements Carrier {
  readonly #namespace: LeaseNamespace;

  constructor(namespace: LeaseNamespace) {
    this.#namespace = namespace;
  }

  async call({ space, op, lock, fields }: Call): Promise<unknown> {
    try {
      // A stub that failed once may go on failing: a fresh one for every attempt.
      const stub = this.#namespace.get(this.#namespace.idFromName(space));
      return lock === undefined ? await stub[op](fields) : await stub[op](lock, fields);
    } catch (error) {
      const { overloaded = false } = Object(error) as { overloaded?: boolean };
      const what = overloaded ? "the lease store is overloaded" : "the lease store did not answer";
      throw new NoAnswer(unavailable(what, error), overloaded);
    }
  }
}
