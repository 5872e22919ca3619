// What a client does, whatever carries its messages: every case runs on the store in this process, over
// HTTP, and over RPC inside workerd.
import assert from "node:assert/strict";
import { DistributedLock, type Leasehold, LeaseError, type LeaseholdOptions } from "leasehold";

export interface World {
  /** A client of the store under test. */
  client(options?: LeaseholdOptions): Leasehold;
  /** A name that nobody else uses. */
  name(): string;
}

export const cases: Record<string, (world: World) => Promise<void>> = {
  async "a lease is held until it is released"({ client, name }) {
    const locks = client();
    const lock = name();
    const lease = await locks.acquire(lock, { info: { job: 7 } });
    assert.deepEqual(
      [lease.held, lease.mode, lease.lock, lease.name],
      [true, "exclusive", lock, lock],
    );
    assert.ok(Number.isSafeInteger(lease.fence) && lease.fence > 0);
    assert.match(
      lease.token,
      /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    assert.ok(!JSON.stringify(lease).includes(lease.token), "the token shows");
    assert.equal(JSON.parse(JSON.stringify(lease)).fence, lease.fence);

    const { holders } = await locks.inspect(lock);
    assert.deepEqual(
      holders.map(({ fence, info, clientId }) => ({ fence, info, clientId })),
      [{ fence: lease.fence, info: { job: 7 }, clientId: locks.clientId }],
    );
    assert.deepEqual(await lease.release(), { status: "released" });
    assert.deepEqual(await lease.release(), { status: "released" });
    assert.equal(lease.held, false);
    assert.equal(lease.signal.aborted, false);
    assert.deepEqual((await locks.inspect(lock)).holders, []);
    const next = await locks.acquire(lock);
    assert.ok(next.fence > lease.fence);
    await next.release();
  },

  async "a busy lock is no broken one: held, with who holds it"({ client, name }) {
    const lock = name();
    const lease = await client({ clientId: "first" }).acquire(lock);
    assert.equal(await client().tryAcquire(lock), null);
    await assert.rejects(client().acquire(lock, { waitMs: 0 }), (error: LeaseError) => {
      assert.equal(error.code, "held");
      assert.equal(error.holders?.[0]?.fence, lease.fence);
      assert.equal(error.holders?.[0]?.clientId, "first");
      assert.ok(error.retryAfterMs! > 0);
      return true;
    });
    await lease.release();
  },

  async "a wait that is over rejects with timeout, and no place is left behind"({ client, name }) {
    const lock = name();
    const lease = await client().acquire(lock);
    const start = performance.now();
    await rejectsWith("timeout", client().acquire(lock, { waitMs: 150 }));
    const waited = performance.now() - start;
    assert.ok(140 < waited && waited < 1_500, `${waited} ms`);
    assert.deepEqual((await client().inspect(lock)).waiters, []);
    await lease.release();
  },

  async "waiters are served in order"({ client, name }) {
    const lock = name();
    const locks = client();
    const lease = await locks.acquire(lock);
    const served: number[] = [];
    const waits: Promise<void>[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      waits.push(locks.request(lock, () => void served.push(turn)));
      await until(async () => (await locks.inspect(lock)).waiters.length === turn + 1);
    }
    await lease.release();
    await Promise.all(waits);
    assert.deepEqual(served, [0, 1, 2, 3, 4]);
  },

  async "a lease that was waited for is a full one"({ client, name }) {
    const lock = name();
    const first = await client().acquire(lock, { ttlMs: 400, renew: false });
    const second = await client().acquire(lock, { ttlMs: 60_000 });
    assert.ok(second.fence > first.fence);
    await rejectsWith("lost", first.renew());
    // Its claim has been made unseen.
    await until(async () => (await client().inspect(lock)).holders[0]!.expiresInMs > 30_000);
    await second.release();
  },

  async "renewed by itself, a lease outlives its length"({ client, name }) {
    const lock = name();
    const lease = await client().acquire(lock, { ttlMs: 300 });
    await sleep(1_000);
    assert.equal(lease.held, true);
    assert.equal(await client().tryAcquire(lock), null);
    await lease.release();
  },

  async "ttlMs 250 ends at 250, not at 0 nor 1000"({ client, name }) {
    const lock = name();
    const lease = await client().acquire(lock, { ttlMs: 250, renew: false });
    const start = performance.now();
    assert.equal(await client().tryAcquire(lock), null);
    const next = await client().acquire(lock);
    const waited = performance.now() - start;
    assert.ok(150 < waited && waited < 600, `${waited} ms`);
    assert.equal(lease.held, false);
    await until(() => lease.signal.aborted);
    assert.deepEqual([lease.signal.reason.code, lease.signal.reason.reason], ["lost", "expired"]);
    assert.deepEqual(await lease.release(), { status: "lost", reason: "expired" });
    assert.equal(next.held, true);
    await next.release();
  },

  async "renew makes the same lease longer"({ client, name }) {
    const lock = name();
    const lease = await client().acquire(lock, { ttlMs: 500, renew: false });
    const { fence, expiresAt } = lease;
    assert.equal(await lease.renew(60_000), lease);
    assert.equal(lease.fence, fence);
    assert.ok(lease.expiresAt > expiresAt + 50_000);
    await lease.release();
    await rejectsWith("lost", lease.renew());
  },

  async "a lease is not renewed past maxHoldMs, and the next one gets the lock"({ client, name }) {
    const lock = name();
    const lease = await client().acquire(lock, { ttlMs: 300, maxHoldMs: 700 });
    const next = await client().acquire(lock, { waitMs: 5_000 });
    assert.equal(lease.held, false);
    await until(() => lease.signal.aborted);
    assert.equal(lease.signal.reason.reason, "expired");
    await next.release();
  },

  async "after an expiry the lock stays closed for lockDelayMs, after a release it does not"({
    client,
    name,
  }) {
    const [lock, other] = [name(), name()];
    const terms = { ttlMs: 100, lockDelayMs: 400 };
    await client().acquire(lock, { ...terms, renew: false });
    const start = performance.now();
    await (await client().acquire(lock)).release();
    const waited = performance.now() - start;
    assert.ok(450 < waited && waited < 1_500, `${waited} ms`);
    await (await client().acquire(other, terms)).release();
    await (await client().acquire(other, { waitMs: 0 })).release();
  },

  async "revoke ends a lease and its holder is told"({ client, name }) {
    const lock = name();
    const locks = client();
    const lease = await locks.acquire(lock, { ttlMs: 600 });
    assert.deepEqual(await locks.revoke(lock, { fence: lease.fence + 1 }), { revoked: 0 });
    assert.deepEqual(await locks.revoke(lock, { fence: lease.fence, reason: "stuck" }), {
      revoked: 1,
    });
    await until(() => lease.signal.aborted);
    assert.deepEqual([lease.held, lease.signal.reason.reason], [false, "revoked"]);
    assert.deepEqual(await lease.release(), { status: "lost", reason: "revoked" });
  },

  async "a lease that is stolen is lost, and request rejects with an AbortError"({ client, name }) {
    const lock = name();
    const locks = client();
    const before = locks.request(lock, { ttlMs: 600 }, () => new Promise<never>(() => {}));
    const abort = assert.rejects(before, (error: DOMException) => {
      assert.equal(error.name, "AbortError");
      assert.equal((error as { cause?: LeaseError }).cause?.reason, "stolen");
      return true;
    });
    await until(async () => (await locks.inspect(lock)).holders.length === 1);
    const thief = await locks.acquire(lock, { steal: true });
    await abort;
    assert.equal(thief.held, true);
    await thief.release();
  },

  async "another process goes on with a lease"({ client, name }) {
    const lock = name();
    const { token, fence } = await client().acquire(lock, { ttlMs: 600, renew: false });
    const lease = client().attach({ lock, token, fence });
    assert.deepEqual(
      [lease.lock, lease.token, lease.fence, lease.held],
      [lock, token, fence, false],
    );
    await until(() => lease.held);
    await sleep(900);
    assert.equal(lease.held, true);
    const other = client().attach({ lock, token, fence, renew: false });
    assert.equal(await other.renew(60_000), other);
    assert.ok(other.held);
    assert.deepEqual(await other.release(), { status: "released" });
    await until(() => lease.signal.aborted);
    assert.equal(lease.signal.reason.reason, "released");
    // At once, without a renewal.
    const third = await client().acquire(lock);
    const fourth = client().attach({ lock, token: third.token, fence: third.fence, renew: false });
    assert.deepEqual(await fourth.release(), { status: "released" });
  },

  async "what is attached to nothing is lost"({ client, name }) {
    const lease = client().attach({ lock: name(), token: "nobody's", fence: 1 });
    await until(() => lease.signal.aborted);
    assert.equal(lease.signal.reason.reason, "unknown");
    assert.deepEqual(await lease.release(), { status: "lost", reason: "unknown" });
  },

  async "shared leases live together up to their limit"({ client, name }) {
    const lock = name();
    const locks = client();
    const permit = { mode: "shared", limit: 2, waitMs: 0 } as const;
    const first = await locks.acquire(lock, permit);
    const second = await locks.acquire(lock, permit);
    assert.equal(second.mode, "shared");
    await rejectsWith("held", locks.acquire(lock, permit));
    await rejectsWith("limit_mismatch", locks.acquire(lock, { ...permit, limit: 3 }));
    await rejectsWith("held", locks.acquire(lock, { waitMs: 0 }));
    await first.release();
    const third = await locks.acquire(lock, permit);
    await Promise.all([second.release(), third.release()]);
  },

  async "the same token and requestId is the same lease"({ client, name }) {
    const lock = name();
    const ask = { token: "t", requestId: "r", renew: false, waitMs: 0 };
    const first = await client().acquire(lock, ask);
    const again = await client().acquire(lock, ask);
    assert.equal(again.fence, first.fence);
    // Leases are not reentrant.
    await rejectsWith("held", client().acquire(lock, { ...ask, requestId: "another" }));
    await first.release();
  },

  async "50 at once: one is granted"({ client, name }) {
    const lock = name();
    const locks = client();
    const leases = await Promise.all(Array.from({ length: 50 }, () => locks.tryAcquire(lock)));
    const granted = leases.filter((lease) => lease !== null);
    assert.equal(granted.length, 1);
    await granted[0]!.release();
  },

  async "an abort leaves the queue and rejects at once with its reason"({ client, name }) {
    const lock = name();
    const lease = await client().acquire(lock);
    const reason = new Error("changed my mind");
    const controller = new AbortController();
    const wait = client().acquire(lock, { signal: controller.signal });
    await until(async () => (await client().inspect(lock)).waiters.length === 1);
    controller.abort(reason);
    await assert.rejects(wait, (error) => error === reason);
    await until(async () => (await client().inspect(lock)).waiters.length === 0);
    await assert.rejects(
      client().acquire(lock, { signal: controller.signal }),
      (error) => error === reason,
    );
    await assert.rejects(
      client().request(lock, { signal: controller.signal }, () => assert.fail("ran")),
      (error) => error === reason,
    );
    await lease.release();
    assert.deepEqual((await client().inspect(lock)).holders, []);
  },

  async "request runs the callback with the lease and gives it back"({ client, name }) {
    const lock = name();
    const locks = client();
    const result = await locks.request(lock, async (lease) => {
      assert.deepEqual([lease.held, lease.name, lease.mode], [true, lock, "exclusive"]);
      assert.equal(await locks.request(lock, { ifAvailable: true }, (none) => none), null);
      return "done";
    });
    assert.equal(result, "done");
    assert.equal(await locks.request(lock, { mode: "shared" }, ({ mode }) => mode), "shared");
    assert.deepEqual((await locks.inspect(lock)).holders, []);
  },

  async "a callback's own error wins, and the lease is given back"({ client, name }) {
    const lock = name();
    const locks = client();
    const own = new Error("mine");
    const throws = () => {
      throw own;
    };
    await assert.rejects(locks.request(lock, throws), (error) => error === own);
    await assert.rejects(
      locks.request(lock, async (lease) => {
        await locks.revoke(lock);
        await until(() => lease.signal.aborted);
        throw own;
      }),
      (error) => error === own,
    );
    assert.deepEqual((await locks.inspect(lock)).holders, []);
  },

  async "the callback never runs without the lease"({ client, name }) {
    const lock = name();
    const lease = await client().acquire(lock);
    const never = () => assert.fail("ran");
    await rejectsWith("timeout", client().request(lock, { waitMs: 50 }, never));
    await rejectsWith("held", client().request(lock, { waitMs: 0 }, never));
    await lease.release();
  },

  async "a loss rejects the request"({ client, name }) {
    const lock = name();
    const locks = client();
    const request = locks.request(lock, { ttlMs: 600 }, async (lease) => {
      await locks.revoke(lock);
      await until(() => lease.signal.aborted);
      return "too late";
    });
    await rejectsWith("lost", request);
  },

  async "await using gives the lease back"({ client, name }) {
    const lock = name();
    const lease = await client().acquire(lock);
    await lease[Symbol.asyncDispose]();
    const again = await client().acquire(lock, { waitMs: 0 });
    await again[Symbol.asyncDispose]();
    await again[Symbol.asyncDispose]();
  },

  async "locks are listed by prefix, in pages"({ client, name }) {
    const prefix = name();
    const locks = client();
    const leases = await Promise.all(
      ["c", "a", "b"].map((end) => locks.acquire(`${prefix}${end}`)),
    );
    const first = await locks.list({ prefix, pageSize: 2 });
    assert.deepEqual(
      first.locks.map(({ lock }) => lock),
      [`${prefix}a`, `${prefix}b`],
    );
    const second = await locks.list({ prefix, pageSize: 2, cursor: first.cursor });
    assert.deepEqual(
      second.locks.map(({ lock, queue }) => [lock, queue]),
      [[`${prefix}c`, 0]],
    );
    assert.equal(second.locks[0]?.holders[0]?.fence, leases[0]?.fence);
    await Promise.all(leases.map((lease) => lease.release()));
    assert.deepEqual((await locks.list({ prefix })).locks, []);
  },

  async "spaces are apart"({ client, name }) {
    const lock = name();
    const here = client({ space: name() });
    const there = client({ space: (of) => `${of}/there` });
    const leases = [
      await here.acquire(lock, { waitMs: 0 }),
      await there.acquire(lock, { waitMs: 0 }),
    ];
    assert.equal((await there.list({ space: `${lock}/there` })).locks.length, 1);
    await Promise.all(leases.map((lease) => lease.release()));
  },

  async "look-alike names stay apart"({ client, name }) {
    const start = name();
    const locks = client();
    const names = ["/", "_", "%2F", " ", "é", "e\u0301", "?", "#", "\u{1f512}", "+", "%"].map(
      (end) => start + end,
    );
    const leases = await Promise.all(names.map((lock) => locks.acquire(lock, { waitMs: 0 })));
    const { locks: listed } = await locks.list({ prefix: start });
    assert.deepEqual(listed.map(({ lock }) => lock).sort(), [...names].sort());
    await Promise.all(leases.map((lease) => lease.release()));
  },

  async "close leaves queues and gives leases back"({ client, name }) {
    const [lock, other] = [name(), name()];
    const locks = client();
    const held = await client().acquire(lock);
    const lease = await locks.acquire(other);
    const wait = rejectsWith("closed", locks.acquire(lock));
    await until(async () => (await client().inspect(lock)).waiters.length === 1);
    await locks.close();
    await wait;
    assert.equal(lease.held, false);
    assert.equal(lease.signal.reason.code, "closed");
    assert.deepEqual((await client().inspect(lock)).waiters, []);
    await rejectsWith("closed", locks.acquire(lock));
    await rejectsWith("closed", locks.list());
    await (await client().acquire(other, { waitMs: 0 })).release();
    await held.release();
  },

  async "calls of one client reach the store in the order made"({ client, name }) {
    const lock = name();
    const locks = client();
    const holder = await locks.acquire(lock);
    const order = Array.from({ length: 10 }, (_, index) => index);
    const waits = order.map((index) => locks.acquire(lock, { info: index }));
    const { waiters } = await locks.inspect(lock);
    assert.deepEqual(
      waiters.map(({ info }) => info),
      order,
    );
    void holder.release();
    for (const wait of waits) await (await wait).release();
  },

  async "an election: one leads, the next one follows, and everybody sees who"({ client, name }) {
    const lock = name();
    const terms: string[] = [];
    const controllers = ["one", "two"].map(() => new AbortController());
    const candidates = ["one", "two"].map((who, index) => {
      const { signal } = controllers[index]!;
      return client().elect(lock, { signal, info: who, ttlMs: 600 }, async (term) => {
        terms.push(who);
        await new Promise((resolve) => term.signal.addEventListener("abort", resolve));
        throw new Error("its term is over");
      });
    });
    const outcomes = candidates.map((candidate) => candidate.catch((error: Error) => error.name));
    await until(async () => (await client().inspect(lock)).waiters.length === 1);
    const [leader] = (await client().inspect(lock)).holders;
    assert.deepEqual(terms, [leader?.info]);
    // Deposed: it campaigns again, behind the other.
    await client().revoke(lock);
    await until(() => terms.length === 2);
    assert.notEqual(terms[0], terms[1]);
    await until(async () => (await client().inspect(lock)).waiters.length === 1);
    controllers[terms[1] === "one" ? 0 : 1]!.abort();
    await until(() => terms.length === 3);
    assert.equal(terms[2], terms[0]);
    for (const controller of controllers) controller.abort();
    assert.deepEqual(await Promise.all(outcomes), ["AbortError", "AbortError"]);
    await until(async () => (await client().inspect(lock)).holders.length === 0);
  },

  async "an election ends with the callback's own error, and goes on when it returns"({
    client,
    name,
  }) {
    const lock = name();
    let terms = 0;
    const own = new Error("mine");
    const election = client().elect(lock, {}, () => {
      terms += 1;
      if (terms === 3) throw own;
    });
    await assert.rejects(election, (error) => error === own);
    assert.equal(terms, 3);
    assert.deepEqual((await client().inspect(lock)).holders, []);
  },

  async "a client that is closed tells those who still hold, and no block ends as if it had held"({
    client,
    name,
  }) {
    const locks = client();
    const lock = name();
    const told: unknown[] = [];
    const block = locks.request(lock, async (lease) => {
      const { signal } = lease;
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      told.push(signal.reason.code, lease.held);
    });
    const election = locks.elect(name(), {}, async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      told.push(signal.reason.code);
    });
    await until(async () => (await client().inspect(lock)).holders.length === 1);
    const outcomes = Promise.allSettled([block, election]);
    await sleep(50);
    await locks.close();
    const codes = (await outcomes).map((outcome) => "reason" in outcome && outcome.reason.code);
    assert.deepEqual(codes, ["closed", "closed"]);
    assert.deepEqual(told, ["closed", false, "closed"]);
  },

  async "a lease that a client has twice is over for both when one is released"({ client, name }) {
    const locks = client();
    const lease = await locks.acquire(name(), { renew: false });
    const twin = locks.attach(lease);
    await twin.renew();
    assert.deepEqual([lease.held, twin.held], [true, true]);
    await twin.release();
    assert.deepEqual([lease.held, lease.signal.reason?.code], [false, "lost"]);
    const ask = { token: "of both", requestId: "one ask" };
    const lock = name();
    const [first, second] = await Promise.all([1, 2].map(() => locks.acquire(lock, ask)));
    assert.equal(first!.fence, second!.fence);
    await first!.release();
    assert.deepEqual([second!.held, second!.signal.reason?.code], [false, "lost"]);
  },

  async "an election goes on after a term whose last write was refused as stale"({ client, name }) {
    const lock = name();
    const own = new Error("mine");
    let terms = 0;
    const election = client().elect(lock, {}, () => {
      terms += 1;
      throw terms < 3 ? Object.assign(new Error("refused"), { code: "stale_fence" }) : own;
    });
    await assert.rejects(election, (error) => error === own);
    assert.equal(terms, 3);
  },

  async "requestAll: all of them, in the order given, and then none"({ client, name }) {
    const names = [name(), name(), name()].reverse();
    const locks = client();
    const done = await locks.requestAll([...names, names[0]!], async (leases) => {
      assert.deepEqual(
        leases.map(({ lock, held }) => [lock, held]),
        [...names, names[0]].map((lock) => [lock, true]),
      );
      assert.equal(
        await locks.requestAll([names[1]!], { ifAvailable: true }, (none) => none),
        null,
      );
      return "done";
    });
    assert.equal(done, "done");
    for (const lock of names) assert.deepEqual((await locks.inspect(lock)).holders, []);
    assert.equal(await locks.requestAll([], (leases) => leases.length), 0);
  },

  async "requestAll: nothing is kept where one is not to be had in time"({ client, name }) {
    const [free, taken] = [name(), name()];
    const locks = client();
    const holder = await client().acquire(taken);
    const never = () => assert.fail("ran");
    const start = performance.now();
    await rejectsWith("timeout", locks.requestAll([free, taken], { waitMs: 200 }, never));
    assert.ok(performance.now() - start < 2_000);
    await rejectsWith("held", locks.requestAll([free, taken], { waitMs: 0 }, never));
    const signal = AbortSignal.timeout(50);
    await assert.rejects(locks.requestAll([taken, free], { signal }, never), {
      name: "TimeoutError",
    });
    assert.deepEqual((await locks.inspect(free)).holders, []);
    await holder.release();
    assert.equal(await locks.requestAll([free, taken], () => "both"), "both");
  },

  async "requestAll: two who name the same locks in another order never wait for each other"({
    client,
    name,
  }) {
    const [a, b, c] = [name(), name(), name()];
    const [one, other] = [client(), client()];
    let inside = 0;
    const section = async () => {
      assert.equal(++inside, 1);
      await sleep(1);
      inside -= 1;
    };
    const rounds = Array.from({ length: 10 }, () => [
      one.requestAll([a, b, c], section),
      other.requestAll([c, b, a], section),
    ]);
    await Promise.all(rounds.flat());
  },

  async "requestAll: one that is lost is all that are lost"({ client, name }) {
    const [a, b] = [name(), name()];
    const locks = client();
    const all = locks.requestAll([a, b], { ttlMs: 600 }, async (leases) => {
      await client().revoke(b);
      await until(() => leases[1]!.signal.aborted);
      assert.equal(leases[0]!.held, true);
    });
    await rejectsWith("lost", all);
    assert.deepEqual((await locks.inspect(a)).holders, []);
  },

  async "the classic protocol: acquire, start, stop, release"({ client, name }) {
    const lock = name();
    const mine = new DistributedLock(client(), lock, {
      ttlMs: 300,
      renewEveryMs: 100,
      token: "mine",
    });
    const theirs = new DistributedLock(client(), lock, { ttlMs: 300 });
    assert.notEqual(theirs.token, "");
    assert.deepEqual([mine.token, mine.held, mine.fence], ["mine", false, undefined]);
    assert.equal(await mine.release(), false);
    await mine.stop();
    assert.equal(await mine.acquire(), true);
    assert.equal(await mine.acquire(), false);
    mine.start();
    mine.start();
    await sleep(900);
    assert.equal(mine.held, true);
    assert.equal(await theirs.acquire(), false);
    await mine.stop();
    await until(() => !mine.held);
    assert.equal(await theirs.acquire({ blocking: true, blockingTimeoutMs: 2_000 }), true);
    assert.equal(await mine.release(), false);
    assert.equal(theirs.held, true);
    assert.equal(await theirs.release(), true);
    assert.equal(await theirs.release(), false);
    // Again, with the same token, and renewed again.
    assert.equal(await mine.acquire(), true);
    mine.start();
    await sleep(600);
    assert.equal(mine.held, true);
    assert.equal(await mine.release(), true);
  },

  async "the call's own options win over the object's"({ client, name }) {
    const lock = name();
    const lease = await client().acquire(lock);
    const patient = new DistributedLock(client(), lock, {
      blocking: true,
      blockingTimeoutMs: 60_000,
    });
    const start = performance.now();
    assert.equal(await patient.acquire({ blockingTimeoutMs: 100 }), false);
    assert.equal(await patient.acquire({ blocking: false }), false);
    assert.ok(performance.now() - start < 2_000);
    await lease.release();
  },

  async "using a distributed lock that was not acquired throws"({ client, name }) {
    const lock = new DistributedLock(client(), name());
    assert.throws(() => lock[Symbol.asyncDispose], LeaseError);
    await lock.acquire();
    const dispose = lock[Symbol.asyncDispose];
    await dispose.call(lock);
    assert.equal(lock.held, false);
    await dispose.call(lock);
  },
};

/** The same for whoever can be told of changes. */
export const watching: Record<string, (world: World) => Promise<void>> = {
  async "watch begins with what there is and goes on with what happens"({ client, name }) {
    const prefix = name();
    const [a, b] = [`${prefix} a`, `${prefix} b`];
    const locks = client();
    const held = await locks.acquire(a, { info: "a" });
    const changes = locks.watch({ prefix });
    const next = async () => {
      const { value } = await changes.next();
      assert.ok(value && value.change !== "reset");
      return [value.change, value.lock, value.fence];
    };
    const { value } = await changes.next();
    assert.equal(value?.change, "present");
    assert.deepEqual("holders" in value && value.holders[0]?.info, "a");
    const lease = await client().acquire(b, { ttlMs: 150, renew: false });
    assert.deepEqual(await next(), ["acquired", b, lease.fence]);
    const wait = client().acquire(b);
    assert.deepEqual(await next(), ["queued", b, undefined]);
    assert.deepEqual(await next(), ["expired", b, lease.fence]);
    const second = await wait;
    assert.deepEqual(await next(), ["acquired", b, second.fence]);
    await second.release();
    assert.deepEqual(await next(), ["released", b, second.fence]);
    const third = await client().acquire(b, { ttlMs: 100, renew: false });
    assert.deepEqual(await next(), ["acquired", b, third.fence]);
    // Also of what nobody waits for.
    assert.deepEqual(await next(), ["expired", b, third.fence]);
    await held.release();
    assert.deepEqual(await next(), ["released", a, held.fence]);
    await changes.return();
    assert.deepEqual(await changes.next(), { value: undefined, done: true });
  },

  async "watch ends with its signal, and with its client"({ client, name }) {
    const prefix = name();
    const controller = new AbortController();
    const reason = new Error("enough");
    const changes = client().watch({ prefix, signal: controller.signal });
    const next = changes.next();
    await sleep(50);
    controller.abort(reason);
    await assert.rejects(next, (error) => error === reason);
    const locks = client();
    const open = locks.watch({ prefix }).next();
    await sleep(50);
    const closing = rejectsWith("closed", open);
    await locks.close();
    await closing;
    assert.throws(() => locks.watch(), { code: "closed" });
    assert.throws(() => client().watch({ prefix: "x".repeat(513) }), { field: "prefix" });
  },
};

/** Takes its time, and matters only where a long wait goes another way than a short one. */
export const waiting: Record<string, (world: World) => Promise<void>> = {
  async "a wait of more than ten seconds is told when it is over, and a place in the queue is kept"({
    client,
    name,
  }) {
    const lock = name();
    const holder = await client().acquire(lock);
    const waits = ["one", "two"].map((info) => client().acquire(lock, { info }));
    const controller = new AbortController();
    const aborted = client().acquire(lock, { signal: controller.signal });
    await sleep(12_000);
    controller.abort(new Error("enough"));
    await assert.rejects(aborted, /enough/);
    await until(async () => (await client().inspect(lock)).waiters.length === 2);
    const start = performance.now();
    await holder.release();
    const first = await waits[0]!;
    assert.ok(first.held && performance.now() - start < 1_000);
    await first.release();
    await (await waits[1]!).release();
  },
};

export async function rejectsWith(code: string, promise: Promise<unknown>): Promise<void> {
  await assert.rejects(promise, (error: LeaseError) => {
    assert.equal(error.code, code, error.stack);
    return true;
  });
}

/** Keeps the process alive meanwhile. */
export function sleep(lengthMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, lengthMs));
}

/** Resolves as soon as it is so, and rejects after five seconds. */
export async function until(
  isSo: () => boolean | Promise<boolean>,
  withinMs = 5_000,
): Promise<void> {
  for (const end = Date.now() + withinMs; !(await isSo()); await sleep(5)) {
    if (Date.now() > end) throw new Error(`it did not come about: ${isSo}`);
  }
}
