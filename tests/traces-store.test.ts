// Every trace on the lease store as it is deployed: SQLite, inside workerd. Its clock is turned by hand, a restart
// is a SIGKILL, and a fault is a write that SQLite refuses.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  difference,
  foreseen,
  type Reply,
  START_MS,
  type Step,
  type Store as Played,
  vectors,
} from "./component/vectors.ts";
import { type Json, Store } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;

before(async () => {
  workerd = await Workerd.start({ className: "ByHand" });
});
after(() => workerd[Symbol.asyncDispose]());

test("there are traces to play", () => {
  assert.ok(vectors.length >= 105);
});

for (const vector of vectors) {
  test(vector.name, async () => {
    assert.equal(await difference(vector, new ByHand(vector.name)), undefined);
  });
}

/** A space whose every turn is told when it is. */
class ByHand implements Played {
  readonly #store: Store;
  readonly #open = new Map<number, { lock: string; clientId: unknown }>();
  #firstTurnAtMs: number | undefined;

  constructor(space: string) {
    this.#store = new Store(workerd, space);
  }

  async turn({ atMs, calls, restart, fault }: Step): Promise<Map<number, Reply>> {
    if (restart) await workerd.restart();
    const firstTurnAtMs = (this.#firstTurnAtMs ??= START_MS + atMs);
    const named = calls.map(({ call, op, lock, fields }) => {
      this.#open.set(call, { lock: String(lock), clientId: fields["clientId"] });
      return op === "list" ? [call, op, fields] : [call, op, lock, foreseen(fields, firstTurnAtMs)];
    });
    const answers = await this.#store.call("turn", START_MS + atMs, named, fault === true);
    return new Map(answers as [number, Reply][]);
  }

  async position(call: number): Promise<number> {
    const { lock, clientId } = this.#open.get(call)!;
    const { waiters }: Json = await this.#store.call("inspect", lock);
    return waiters.findIndex((waiter: Json) => waiter.clientId === clientId) + 1;
  }
}
