// The client over a stub: what it asks in one turn is one message. The stub here is that of a real lease store, called from
// outside, so that its messages can be counted and lost.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Leasehold } from "leasehold";
import { Store } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
let spaces = 0;

before(async () => {
  workerd = await Workerd.start();
});
after(() => workerd[Symbol.asyncDispose]());

type Message = Record<string, unknown>;

/** A client, and the messages that it sent: the commands of each. `isLost` says which one does not arrive. */
function world(isLost: (number: number) => boolean = () => false) {
  const sent: Message[][] = [];
  const namespace = {
    idFromName: (name: string) => name,
    get: (space: string) => ({
      async message(text: string): Promise<string> {
        assert.ok(Buffer.byteLength(text) <= 16 * 1024);
        sent.push([JSON.parse(text) as Message | Message[]].flat());
        if (isLost(sent.length)) throw Object.assign(new Error("Lost."), { retryable: true });
        return (await new Store(workerd, space).call("message", text)) as string;
      },
    }),
  };
  spaces += 1;
  return { locks: new Leasehold(namespace, { space: `stub-${spaces}` }), sent };
}

const names = (count: number) => Array.from({ length: count }, (_, number) => `lock ${number}`);

test("what is asked in one turn is one message, carried out in that order", async () => {
  const { locks, sent } = world();
  const leases = await Promise.all(names(50).map((name) => locks.acquire(name)));
  assert.deepEqual(
    sent.map((commands) => commands.map(({ lock }) => lock)),
    [names(50)],
  );
  const fences = leases.map(({ fence }) => fence);
  assert.deepEqual(
    fences,
    fences.toSorted((a, b) => a - b),
  );
  await Promise.all(leases.map((lease) => lease.release()));
  assert.deepEqual(
    sent.map((commands) => commands.length),
    [50, 50],
  );
  await locks.close();
});

test("who has to wait keeps nobody waiting that is in the same message, and is served in its turn", async () => {
  const { locks, sent } = world();
  const holder = await locks.acquire("a");
  const waits = [locks.acquire("a"), locks.acquire("a")];
  const other = await locks.acquire("b");
  assert.deepEqual(sent.map((commands) => commands.map(({ lock }) => lock)).slice(0, 2), [
    ["a"],
    ["a", "a", "b"],
  ]);
  await holder.release();
  const first = await waits[0]!;
  assert.ok(first.held && first.fence > other.fence);
  await first.release();
  const second = await waits[1]!;
  assert.ok(second.held && second.fence > first.fence);
  await second.release();
  assert.deepEqual(
    (await locks.list()).locks.map(({ lock }) => lock),
    ["b"],
  );
  await locks.close();
});

test("what is longer than a message is several, in order", async () => {
  const { locks, sent } = world();
  const info = "é".repeat(400);
  const leases = await Promise.all(names(60).map((name) => locks.acquire(name, { info })));
  assert.ok(sent.length > 2);
  assert.deepEqual(
    sent.flat().map(({ lock }) => lock),
    names(60),
  );
  assert.ok(leases.every(({ held }) => held));
  await locks.close();
});

test("a message that is lost is asked again, each command for itself, and none counts twice", async () => {
  const { locks, sent } = world((number) => number === 1);
  const leases = await Promise.all(names(5).map((name) => locks.acquire(name)));
  assert.ok(leases.every(({ held }) => held));
  const asked = sent.flat();
  assert.equal(new Set(asked.map(({ requestId }) => requestId)).size, 5);
  assert.ok(asked.length >= 10);
  await locks.close();
});
