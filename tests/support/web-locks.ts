// What https://w3c.github.io/web-locks/ and the web-platform-tests ask of a LockManager, as cases for every carrier.
import assert from "node:assert/strict";
import { type Lease, Leasehold, LeaseError } from "leasehold";
import { sleep, until, type World } from "./cases.ts";

/** Calls with what the types forbid. */
interface Untyped {
  request(...rest: unknown[]): Promise<unknown>;
}

const never = () => assert.fail("the callback ran");
const untyped = (locks: Leasehold) => locks as unknown as Untyped;

async function rejectsAs(name: string, promise: Promise<unknown>): Promise<void> {
  await assert.rejects(promise, (error: Error) => {
    assert.equal(error.name, name, String(error.stack));
    if (name !== "TypeError") assert.ok(error instanceof DOMException);
    return true;
  });
}

/** A promise and what settles it. */
function deferred<T = void>() {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((...ends) => ([resolve, reject] = ends));
  return { promise, resolve, reject };
}

/** Holds a lock until it is told to let go. */
async function hold(locks: Leasehold, name: string, mode: "exclusive" | "shared" = "exclusive") {
  const held = deferred();
  const { promise, resolve } = deferred();
  const done = locks.request(name, { mode }, async () => {
    held.resolve();
    await promise;
  });
  await held.promise;
  return { letGo: resolve, done };
}

/** Whether a promise has settled by now. */
async function isSettled(promise: Promise<unknown>, afterMs = 60): Promise<boolean> {
  let is = false;
  promise.then(
    () => (is = true),
    () => (is = true),
  );
  await sleep(afterMs);
  return is;
}

async function states(locks: Leasehold, name: string) {
  const { held, pending } = await locks.query();
  const modes = (infos: readonly { name: string; mode: string }[]) =>
    infos.filter((info) => info.name === name).map(({ mode }) => mode);
  return { held: modes(held), pending: modes(pending) };
}

export const webLocks: Record<string, (world: World) => Promise<void>> = {
  // acquire
  async "acquire: arguments that are missing or of the wrong type"({ client, name }) {
    const locks = untyped(client());
    const lock = name();
    await rejectsAs("TypeError", locks.request());
    await rejectsAs("TypeError", locks.request(lock));
    await rejectsAs("TypeError", locks.request(Symbol("x"), never));
    for (const callback of [undefined, null, 123, "abc", [], {}, new Promise(() => {})]) {
      await rejectsAs("TypeError", locks.request(lock, callback));
      await rejectsAs("TypeError", locks.request(lock, {}, callback));
    }
    await rejectsAs("TypeError", locks.request(lock, {}));
    for (const options of [1, "shared", true, 1n, Symbol("x")]) {
      await rejectsAs("TypeError", locks.request(lock, options, never));
    }
    for (const mode of ["foo", null, "", "Shared", 1, {}]) {
      await rejectsAs("TypeError", locks.request(lock, { mode }, never));
    }
    for (const signal of [null, "string", 1, true, {}, []]) {
      await rejectsAs("TypeError", locks.request(lock, { signal }, never));
    }
    // Nothing is left of any of it.
    assert.equal(await locks.request(lock, undefined, () => "ran"), "ran");
    assert.equal(await locks.request(lock, null, () => "ran"), "ran");
  },

  async "acquire: combinations that are not supported, in the order of the specification"({
    client,
    name,
  }) {
    const locks = untyped(client());
    const lock = name();
    const controller = new AbortController();
    const { signal } = controller;
    const refused = (options: object, which = lock) =>
      rejectsAs("NotSupportedError", locks.request(which, options, never));
    await rejectsAs("NotSupportedError", locks.request("-", never));
    await refused({}, "-foo");
    await refused({ steal: true, ifAvailable: true });
    await refused({ steal: true, mode: "shared" });
    await refused({ signal, steal: true });
    await refused({ signal, ifAvailable: true });
    await refused({ steal: 1, ifAvailable: "yes" });
    controller.abort();
    // An aborted signal is looked at last, and a wrong type first of all.
    await refused({ signal }, "-foo");
    await refused({ signal, steal: true });
    await rejectsAs("TypeError", locks.request("-foo", { mode: "foo", signal }, never));
    await rejectsAs("AbortError", locks.request(lock, { signal }, never));
    assert.equal(await locks.request(lock, { signal: undefined, steal: false }, () => 1), 1);
  },

  async "acquire: every refusal is a rejection, and nothing throws"({ client }) {
    const locks = untyped(client());
    for (const rest of [[], ["x"], ["-", never], ["x", { mode: 1 }, never], ["x", 1, never]]) {
      const outcome = locks.request(...rest);
      assert.ok(outcome instanceof Promise);
      await assert.rejects(outcome);
    }
  },

  async "acquire: resolves with what the callback returns, or resolves with"({ client, name }) {
    const locks = client();
    const lock = name();
    assert.equal(await locks.request(lock, () => 123), 123);
    assert.equal(await locks.request(lock, async () => 456), 456);
    assert.equal(await locks.request(lock, () => undefined), undefined);
    const thenable = { then: (resolve: (value: string) => void) => resolve("thenable") };
    assert.equal(await locks.request(lock, () => thenable as unknown), "thenable");
    const callback = deferred();
    const outcome = locks.request(lock, () => callback.resolve());
    assert.ok(outcome instanceof Promise);
    await callback.promise;
    await outcome;
  },

  async "acquire: rejects with what the callback throws, whatever that is"({ client, name }) {
    const locks = client();
    const lock = name();
    for (const thrown of [new Error("mine"), "text", undefined, null, 0]) {
      const throwing = locks.request(lock, () => {
        throw thrown;
      });
      await assert.rejects(throwing, (error) => error === thrown);
      await assert.rejects(
        locks.request(lock, () => Promise.reject(thrown)),
        (error) => error === thrown,
      );
    }
    assert.equal(await locks.request(lock, () => "free again"), "free again");
  },

  async "acquire: the callback is called later, once, with one argument"({ client, name }) {
    const calls: unknown[][] = [];
    const outcome = client().request(name(), (...rest: unknown[]) => void calls.push(rest));
    assert.equal(calls.length, 0);
    await outcome;
    assert.equal(calls.length, 1);
    assert.equal(calls[0]?.length, 1);
  },

  // lock-attributes
  async "attributes: a lock has its name and its mode, and keeps them"({ client, name }) {
    const locks = client();
    const lock = name();
    let kept!: Lease;
    await locks.request(lock, (held) => {
      kept = held;
      assert.deepEqual([held.name, held.mode], [lock, "exclusive"]);
    });
    assert.deepEqual([kept.name, kept.mode], [lock, "exclusive"]);
    await locks.request(lock, { mode: "exclusive" }, ({ mode }) => assert.equal(mode, "exclusive"));
    await locks.request(lock, { mode: "shared" }, ({ mode }) => assert.equal(mode, "shared"));
    await locks.request(lock, {}, ({ mode }) => assert.equal(mode, "exclusive"));
  },

  // held
  async "held: until what the callback returned has settled, either way"({ client, name }) {
    const locks = client();
    for (const end of ["resolve", "reject"] as const) {
      const lock = name();
      const { promise, ...ends } = deferred<unknown>();
      const first = locks.request(lock, () => promise).catch((error: unknown) => error);
      let isSecond = false;
      const second = locks.request(lock, () => (isSecond = true));
      assert.equal(await isSettled(second), false);
      assert.equal(isSecond, false);
      ends[end](new Error("end"));
      assert.equal(((await first) as Error).message, "end");
      assert.equal(await second, true);
    }
  },

  async "held: a lock is free when its promise has settled"({ client, name }) {
    const locks = client();
    const lock = name();
    for (let round = 0; round < 20; round += 1) {
      await locks.request(lock, () => {});
      assert.ok(await locks.request(lock, { ifAvailable: true }, (held) => held !== null));
      const failing = locks.request(lock, () => Promise.reject(new Error("mine")));
      await assert.rejects(failing);
      assert.ok(await locks.request(lock, { ifAvailable: true }, (held) => held !== null));
    }
  },

  async "held: a request within a request of another name nests"({ client, name }) {
    const locks = client();
    const [outer, inner] = [name(), name()];
    const order: string[] = [];
    await locks.request(outer, async () => {
      order.push("outer");
      await locks.request(inner, () => void order.push("inner"));
      order.push("outer again");
    });
    assert.deepEqual(order, ["outer", "inner", "outer again"]);
  },

  // mode-exclusive
  async "exclusive: granted one at a time, in the order of the requests"({ client, name }) {
    const locks = client();
    const lock = name();
    const granted: number[] = [];
    let inside = 0;
    const section = (turn: number) =>
      locks.request(lock, async () => {
        assert.equal(++inside, 1);
        granted.push(turn);
        await sleep(1);
        inside -= 1;
      });
    await Promise.all([1, 2, 3, 4, 5].map(section));
    assert.deepEqual(granted, [1, 2, 3, 4, 5]);
  },

  async "exclusive: other names are independent"({ client, name }) {
    const locks = client();
    const [one, other] = [name(), name()];
    const holder = await hold(locks, one);
    const waiting = locks.request(one, () => "later");
    assert.equal(await locks.request(other, () => "at once"), "at once");
    assert.equal(await isSettled(waiting), false);
    holder.letGo();
    assert.equal(await waiting, "later");
    await holder.done;
  },

  // mode-shared
  async "shared: held together, and all within each other"({ client, name }) {
    const locks = client();
    const lock = name();
    const granted: number[] = [];
    const all = deferred();
    const share = (turn: number) =>
      locks.request(lock, { mode: "shared" }, async () => {
        granted.push(turn);
        if (granted.length === 3) all.resolve();
        await all.promise;
      });
    await Promise.all([1, 2, 3].map(share));
    assert.deepEqual(granted, [1, 2, 3]);
    const within = locks.request(lock, { mode: "shared" }, () =>
      locks.request(lock, { mode: "shared" }, ({ mode }) => mode),
    );
    assert.equal(await within, "shared");
  },

  async "shared: an exclusive request waits for all of them"({ client, name }) {
    const locks = client();
    const lock = name();
    const one = await hold(locks, lock, "shared");
    const other = await hold(locks, lock, "shared");
    const exclusive = locks.request(lock, () => "alone");
    assert.equal(await isSettled(exclusive), false);
    one.letGo();
    assert.equal(await isSettled(exclusive), false);
    other.letGo();
    assert.equal(await exclusive, "alone");
    await Promise.all([one.done, other.done]);
  },

  // mode-mixed
  async "mixed: granted in the order of the requests, whatever the mode"({ client, name }) {
    const locks = client();
    const lock = name();
    const granted: number[] = [];
    const log = (turn: number) => () => void granted.push(turn);
    const shared = { mode: "shared" } as const;
    await Promise.all([
      locks.request(lock, shared, log(1)),
      locks.request(lock, shared, log(2)),
      locks.request(lock, shared, log(3)),
      locks.request(lock, log(4)),
      locks.request(lock, shared, log(5)),
      locks.request(lock, shared, log(6)),
    ]);
    assert.deepEqual(granted, [1, 2, 3, 4, 5, 6]);
  },

  async "mixed: a shared request does not overtake an exclusive one that waits"({ client, name }) {
    const locks = client();
    const lock = name();
    const granted: string[] = [];
    const holder = await hold(locks, lock, "shared");
    const exclusive = locks.request(lock, () => void granted.push("exclusive"));
    const shared = locks.request(lock, { mode: "shared" }, () => void granted.push("shared"));
    assert.equal(await isSettled(shared), false);
    const none = await locks.request(lock, { mode: "shared", ifAvailable: true }, (held) => held);
    assert.equal(none, null);
    holder.letGo();
    await Promise.all([exclusive, shared, holder.done]);
    assert.deepEqual(granted, ["exclusive", "shared"]);
  },

  async "mixed: shared requests behind an exclusive one are granted together, newcomers after them"({
    client,
    name,
  }) {
    const locks = client();
    const lock = name();
    const granted: number[] = [];
    const all = deferred();
    const holder = await hold(locks, lock);
    const share = (turn: number) =>
      locks.request(lock, { mode: "shared" }, async () => {
        granted.push(turn);
        if (granted.length === 3) all.resolve();
        await all.promise;
      });
    const both = [share(1), share(2)];
    holder.letGo();
    await holder.done;
    await Promise.all([...both, share(3)]);
    // Answers to two requests may overtake each other on their way.
    assert.deepEqual([granted.slice(0, 2).sort(), granted[2]], [[1, 2], 3]);
  },

  // ifAvailable
  async "ifAvailable: the lock, or null at once"({ client, name }) {
    const locks = client();
    const lock = name();
    const asked = { ifAvailable: true } as const;
    assert.equal(await locks.request(lock, asked, (held) => held?.name), lock);
    await locks.request(lock, async () => {
      assert.equal(await locks.request(lock, asked, (held) => held), null);
      assert.equal(await locks.request(lock, { ...asked, mode: "shared" }, (held) => held), null);
      // What the callback makes of null counts like anything else.
      assert.equal(await locks.request(lock, asked, async () => "none"), "none");
      const own = new Error("mine");
      const throwing = locks.request(lock, asked, () => {
        throw own;
      });
      await assert.rejects(throwing, (error) => error === own);
      await assert.rejects(
        locks.request(lock, asked, () => Promise.reject(own)),
        (error) => error === own,
      );
    });
    // Who was told null is in no queue and holds nothing.
    assert.equal(await locks.request(lock, asked, (held) => held?.name), lock);
    assert.deepEqual(await states(locks, lock), { held: [], pending: [] });
  },

  async "ifAvailable: null does not hold anything, however long the callback lasts"({
    client,
    name,
  }) {
    const locks = client();
    const lock = name();
    const { promise, resolve } = deferred();
    const holder = await hold(locks, lock);
    const without = locks.request(lock, { ifAvailable: true }, () => promise);
    holder.letGo();
    await holder.done;
    assert.equal(await locks.request(lock, () => "granted"), "granted");
    resolve();
    await without;
  },

  async "ifAvailable: shared beside shared, and not beside exclusive"({ client, name }) {
    const locks = client();
    const lock = name();
    const shared = { mode: "shared", ifAvailable: true } as const;
    const holder = await hold(locks, lock, "shared");
    assert.equal(await locks.request(lock, shared, (held) => held?.mode), "shared");
    assert.equal(await locks.request(lock, { ifAvailable: true }, (held) => held), null);
    const waiting = locks.request(lock, () => {});
    assert.equal(await locks.request(lock, shared, (held) => held), null);
    holder.letGo();
    await Promise.all([waiting, holder.done]);
  },

  async "ifAvailable: requests of one turn are decided in their order"({ client, name }) {
    const locks = client();
    const lock = name();
    const { promise, resolve } = deferred();
    const first = locks.request(lock, { ifAvailable: true }, async (held) => {
      await promise;
      return held !== null;
    });
    const second = locks.request(lock, { ifAvailable: true }, (held) => held !== null);
    assert.equal(await second, false);
    resolve();
    assert.equal(await first, true);
  },

  // query, query-empty, query-ordering, clientids
  async "query: nothing of a name that nobody asked for"({ client, name }) {
    const snapshot = await client({ space: name() }).query();
    assert.deepEqual(snapshot, { held: [], pending: [] });
  },

  async "query: held and pending, with name, mode and clientId, and nothing else"({
    client,
    name,
  }) {
    const locks = client();
    const lock = name();
    const holder = await hold(locks, lock);
    const waiting = locks.request(lock, { mode: "shared" }, () => {});
    const { held, pending } = await locks.query();
    const of = <T extends { name: string }>(infos: T[]) =>
      infos.filter((info) => info.name === lock);
    const { clientId } = locks;
    assert.deepEqual(of(held), [{ name: lock, mode: "exclusive", clientId }]);
    assert.deepEqual(of(pending), [{ name: lock, mode: "shared", clientId }]);
    holder.letGo();
    await Promise.all([holder.done, waiting]);
    assert.deepEqual(await states(locks, lock), { held: [], pending: [] });
  },

  async "query: one clientId per client, another one for another client"({ client, name }) {
    const [one, other] = [client(), client()];
    const [first, second, third] = [name(), name(), name()];
    const holders = [await hold(one, first), await hold(one, second), await hold(other, third)];
    const { held } = await client().query();
    const idOf = (lock: string) => held.find((info) => info.name === lock)?.clientId;
    assert.equal(typeof idOf(first), "string");
    assert.equal(idOf(first), idOf(second));
    assert.notEqual(idOf(first), idOf(third));
    for (const { letGo, done } of holders) (letGo(), await done);
  },

  async "query: pending requests in the order they were made"({ client, name }) {
    const locks = client();
    const lock = name();
    const holder = await hold(locks, lock);
    const modes = ["exclusive", "shared", "shared", "exclusive", "shared"] as const;
    const waiting = modes.map((mode) => locks.request(lock, { mode }, () => {}));
    assert.deepEqual(await states(locks, lock), { held: ["exclusive"], pending: [...modes] });
    holder.letGo();
    await Promise.all([...waiting, holder.done]);
  },

  async "query: held locks in the order they were granted"({ client, name }) {
    const locks = client({ space: name() });
    const names = ["c", "a", "b"];
    const holders = [];
    for (const lock of names) holders.push(await hold(locks, lock));
    const shared = [await hold(locks, "d", "shared"), await hold(locks, "d", "shared")];
    const { held } = await locks.query();
    assert.deepEqual(
      held.map(({ name }) => name),
      [...names, "d", "d"],
    );
    for (const { letGo, done } of [...holders, ...shared]) (letGo(), await done);
  },

  async "query: sees a deadlock"({ client, name }) {
    const [one, other] = [client(), client()];
    const [first, second] = [name(), name()];
    const controller = new AbortController();
    const { signal } = controller;
    const nest = async (locks: Leasehold, outer: string, inner: string, both: Promise<unknown>) =>
      locks.request(outer, async () => {
        ready.get(outer)!.resolve();
        await both;
        await locks.request(inner, { signal }, never);
      });
    const ready = new Map([first, second].map((lock) => [lock, deferred()]));
    const both = Promise.all([...ready.values()].map(({ promise }) => promise));
    const outcomes = [nest(one, first, second, both), nest(other, second, first, both)].map(
      (outcome) => outcome.catch((error: Error) => error.name),
    );
    await until(async () => {
      const { held, pending } = await one.query();
      const of = (infos: { name: string; clientId: string }[], lock: string) =>
        infos.find((info) => info.name === lock)?.clientId;
      return (
        of(held, first) === one.clientId &&
        of(pending, first) === other.clientId &&
        of(held, second) === other.clientId &&
        of(pending, second) === one.clientId
      );
    });
    controller.abort();
    assert.deepEqual(await Promise.all(outcomes), ["AbortError", "AbortError"]);
  },

  async "query: a crowd of holders is shown in full"({ client, name }) {
    const locks = client();
    const lock = name();
    const holders = await Promise.all(
      Array.from({ length: 25 }, () => hold(locks, lock, "shared")),
    );
    assert.equal((await states(locks, lock)).held.length, 25);
    for (const { letGo } of holders) letGo();
    await Promise.all(holders.map(({ done }) => done));
  },

  // resource-names
  async "names: anything that is text, compared as it is"({ client, name }) {
    const locks = client({ space: name() });
    const names = [
      "abc",
      "ABC",
      " abc ",
      "a\0b",
      "\0",
      "constructor",
      "__proto__",
      "\u{1f512}",
      "é",
      "e\u0301",
      "a/b",
      "a%2Fb",
      "a-",
      "…",
      "x".repeat(512),
      "undefined",
    ];
    const held = await Promise.all(
      names.map((lock) => hold(locks, lock).then((holder) => ({ lock, ...holder }))),
    );
    const snapshot = await locks.query();
    assert.deepEqual(snapshot.held.map(({ name }) => name).sort(), [...names].sort());
    for (const { letGo } of held) letGo();
    await Promise.all(held.map(({ done }) => done));
  },

  async "names: what is no text becomes text"({ client, name }) {
    const locks = untyped(client({ space: name() }));
    const named = (what: unknown) => locks.request(what, (held: Lease) => held.name);
    assert.equal(await named(123), "123");
    assert.equal(await named(null), "null");
    assert.equal(await named(undefined), "undefined");
    assert.equal(await named({ toString: () => "object" }), "object");
    await assert.rejects(
      named({
        toString() {
          throw new RangeError("mine");
        },
      }),
      RangeError,
    );
  },

  async "names: those that no URL can carry are refused, which is documented"({ client }) {
    for (const lock of ["", ".", "..", "\ud800", "a\udc00"]) {
      await assert.rejects(client().request(lock, never), (error: LeaseError) => {
        assert.deepEqual([error.code, error.field], ["invalid_argument", "lock"]);
        return true;
      });
    }
  },

  // signal
  async "signal: aborted before"({ client, name }) {
    const locks = client();
    const lock = name();
    const reason = new Error("mine");
    await rejectsAs("AbortError", locks.request(lock, { signal: AbortSignal.abort() }, never));
    await assert.rejects(
      locks.request(lock, { signal: AbortSignal.abort(reason) }, never),
      (error) => error === reason,
    );
    await assert.rejects(
      locks.request(lock, { signal: AbortSignal.abort("text") }, never),
      (error) => error === "text",
    );
    assert.deepEqual(await states(locks, lock), { held: [], pending: [] });
  },

  async "signal: aborted while it waits: rejects at once, leaves no place"({ client, name }) {
    const locks = client();
    const lock = name();
    const holder = await hold(locks, lock);
    const controller = new AbortController();
    const aborted = locks.request(lock, { signal: controller.signal }, never);
    const next = locks.request(lock, () => "next");
    await until(async () => (await states(locks, lock)).pending.length === 2);
    controller.abort();
    await rejectsAs("AbortError", aborted);
    await until(async () => (await states(locks, lock)).pending.length === 1);
    holder.letGo();
    assert.equal(await next, "next");
    await holder.done;
  },

  async "signal: aborted in the turn of the request, also of a free lock"({ client, name }) {
    const locks = client();
    const lock = name();
    const controller = new AbortController();
    const aborted = locks.request(lock, { signal: controller.signal }, never);
    controller.abort("reason");
    await assert.rejects(aborted, (error) => error === "reason");
    assert.equal(await locks.request(lock, () => "free"), "free");
    await until(async () => (await states(locks, lock)).held.length === 0);
  },

  async "signal: aborted after the grant: nothing happens"({ client, name }) {
    const locks = client();
    const lock = name();
    const controller = new AbortController();
    const { signal } = controller;
    const outcome = locks.request(lock, { signal }, async (held) => {
      controller.abort();
      await sleep(20);
      assert.equal(held.held, true);
      assert.deepEqual((await states(locks, lock)).held, ["exclusive"]);
      return "done";
    });
    assert.equal(await outcome, "done");
    const late = new AbortController();
    await locks.request(lock, { signal: late.signal }, () => {});
    late.abort();
    assert.equal(await locks.request(lock, () => "free"), "free");
  },

  async "signal: a time-out is one"({ client, name }) {
    const locks = client();
    const lock = name();
    const holder = await hold(locks, lock);
    const signal = AbortSignal.timeout(30);
    await rejectsAs("TimeoutError", locks.request(lock, { signal }, never));
    holder.letGo();
    await holder.done;
  },

  async "signal: one for many"({ client, name }) {
    const locks = client();
    const lock = name();
    const holder = await hold(locks, lock);
    const controller = new AbortController();
    const { signal } = controller;
    const waiting = Array.from({ length: 5 }, () => locks.request(lock, { signal }, never));
    controller.abort();
    for (const each of waiting) await rejectsAs("AbortError", each);
    holder.letGo();
    await holder.done;
    assert.equal(await locks.request(lock, () => "free"), "free");
  },

  // steal
  async "steal: of a lock that is held"({ client, name }) {
    const locks = client();
    const lock = name();
    const never = new Promise<never>(() => {});
    const stolen = locks.request(lock, () => never);
    const broken = rejectsAs("AbortError", stolen);
    const mine = await locks.request(lock, { steal: true }, (held) => held.name);
    assert.equal(mine, lock);
    await broken;
    assert.equal(await locks.request(lock, () => "free"), "free");
  },

  async "steal: of a lock that is free"({ client, name }) {
    const locks = client();
    assert.equal(await locks.request(name(), { steal: true }, ({ mode }) => mode), "exclusive");
  },

  async "steal: those who wait are left alone, and wait for the thief"({ client, name }) {
    const locks = client();
    const lock = name();
    const granted: string[] = [];
    const broken = rejectsAs(
      "AbortError",
      locks.request(lock, () => new Promise<never>(() => {})),
    );
    const waiting = locks.request(lock, () => void granted.push("waited"));
    await locks.request(lock, { steal: true }, async () => {
      await sleep(20);
      granted.push("stole");
    });
    await Promise.all([broken, waiting]);
    assert.deepEqual(granted, ["stole", "waited"]);
  },

  async "steal: of what was stolen, and of shared locks"({ client, name }) {
    const locks = client();
    const lock = name();
    const forEver = () => new Promise<never>(() => {});
    const shared = [1, 2].map(() => locks.request(lock, { mode: "shared" }, forEver));
    const broken = shared.map((each) => rejectsAs("AbortError", each));
    const first = locks.request(lock, { steal: true }, forEver);
    broken.push(rejectsAs("AbortError", first));
    assert.equal(await locks.request(lock, { steal: true }, () => "second"), "second");
    await Promise.all(broken);
  },

  async "steal: by another client"({ client, name }) {
    const lock = name();
    const [victim, thief] = [client(), client()];
    const held = deferred();
    const broken = rejectsAs(
      "AbortError",
      victim.request(lock, { ttlMs: 900 }, async () => {
        held.resolve();
        await new Promise<never>(() => {});
      }),
    );
    await held.promise;
    await thief.request(lock, { steal: true }, () => broken);
  },

  async "steal: what the old callback does afterwards has no effect"({ client, name }) {
    const locks = client();
    const lock = name();
    const { promise, resolve } = deferred();
    const stolen = locks.request(lock, () => promise);
    const broken = rejectsAs("AbortError", stolen);
    const thief = deferred();
    const stealing = locks.request(lock, { steal: true }, () => thief.promise);
    await broken;
    resolve();
    await sleep(20);
    assert.deepEqual(await states(locks, lock), { held: ["exclusive"], pending: [] });
    thief.resolve();
    await stealing;
  },

  async "a LockManager by shape: two methods, of which request takes two or three"({ client }) {
    const locks: LockManager = client() as unknown as LockManager;
    assert.equal(typeof locks.request, "function");
    assert.equal(typeof locks.query, "function");
    assert.equal(locks.request.length, 2);
    assert.equal(locks.query.length, 0);
  },
};
