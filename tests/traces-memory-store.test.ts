// Every trace through the JavaScript binding, on its store in this process. Its clock is turned by hand.
import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { test } from "node:test";
import { memoryStore } from "leasehold";
import {
  difference,
  foreseen,
  type Reply,
  START_MS,
  type Step,
  type Store,
  vectors,
} from "./component/vectors.ts";

/** It keeps nothing, so it has nothing to start again from, and nothing that could fail. */
const NEEDS_STORAGE = [
  "a-cancel-right-after-a-restart-frees-the-place-for-the-same-turn",
  "a-clock-a-little-behind-ends-nothing-too-early",
  "a-grant-that-could-not-be-stored-was-none",
  "a-lease-survives-a-restart",
  "a-lease-that-had-a-successor-is-not-live-again-after-a-restart",
  "a-limit-that-ended-does-not-come-back-with-a-restart",
  "a-lock-delay-survives-a-restart",
  "a-lock-freed-in-the-first-turn-after-a-restart-is-not-listed",
  "a-queue-survives-a-restart-in-order",
  "a-release-right-after-a-restart-frees-the-lock-for-the-same-turn",
  "a-revoked-lease-says-so-after-a-restart",
  "a-waiter-that-did-not-survive-the-restart-is-passed-over",
  "a-write-that-fails-is-told-to-nobody-as-done",
  "the-clock-does-not-run-back-across-a-restart",
  "the-fence-rises-after-everything-was-cleaned-up",
];

test("the traces that are left out are those that need a storage, and no others", () => {
  const needing = vectors.filter(
    ({ needs }) => needs.includes("restart") || needs.includes("fault"),
  );
  assert.deepEqual(
    needing.map(({ name }) => name),
    NEEDS_STORAGE,
  );
});

for (const vector of vectors.filter(({ name }) => !NEEDS_STORAGE.includes(name))) {
  test(vector.name, async () => {
    const store = new InProcess();
    try {
      assert.equal(await difference(vector, store), undefined);
    } finally {
      await store.close();
    }
  });
}

/** The npm package's store, with a clock that is turned by hand. */
class InProcess implements Store {
  #nowMs = 0;
  #firstTurnAtMs: number | undefined;
  readonly #store = memoryStore({ now: () => this.#nowMs }) as unknown as Carrier;
  readonly #answers = new Map<number, Reply>();
  readonly #open = new Map<number, { lock: string; clientId: unknown }>();

  async turn(step: Step): Promise<Map<number, Reply>> {
    this.#nowMs = START_MS + step.atMs;
    const firstTurnAtMs = (this.#firstTurnAtMs ??= this.#nowMs);
    for (const { call, op, lock, fields } of step.calls) {
      this.#open.set(call, { lock: String(lock), clientId: fields["clientId"] });
      void this.#call(op, lock, foreseen(fields, firstTurnAtMs)).then((reply) =>
        this.#answers.set(call, reply),
      );
    }
    // One more, so that there is a turn also where nobody asks.
    await this.#call("inspect", "nobody's", {});
    await setImmediate();
    const answers = new Map(this.#answers);
    this.#answers.clear();
    return answers;
  }

  /** Lets every wait end: a store that somebody waits for keeps the process alive. */
  async close(): Promise<void> {
    this.#nowMs += 3_600_000;
    await this.#call("inspect", "nobody's", {});
  }

  async position(call: number): Promise<unknown> {
    const { lock, clientId } = this.#open.get(call)!;
    const { waiters } = (await this.#call("inspect", lock, {})) as {
      waiters: { clientId: unknown }[];
    };
    return waiters.findIndex((waiter) => waiter.clientId === clientId) + 1;
  }

  #call(op: string, lock: unknown, fields: Record<string, unknown>): Promise<Reply> {
    return this.#store.call({ space: "a space", op, lock, fields });
  }
}

/** What a client does with the store. */
interface Carrier {
  call(call: object): Promise<Reply>;
}
