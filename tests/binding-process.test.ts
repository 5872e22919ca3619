// What a process sees of the package it has loaded: whether it ends, how, and what is left when Rust fails.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Workerd } from "./support/workerd.ts";

/** Runs a program that has what it needs of the package; gives its exit code and what it printed. */
async function runs(
  program: string,
): Promise<{ code: number | null; printed: string; tookMs: number }> {
  const source = `import { DistributedLock, Leasehold, LeaseError, memoryStore } from "leasehold";\n${program}`;
  const start = performance.now();
  const child = spawn(process.execPath, ["--input-type=module", "--eval", source], {
    cwd: import.meta.dirname,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 30_000,
  });
  let printed = "";
  child.stdout.on("data", (text) => (printed += text));
  child.stderr.on("data", (text) => (printed += text));
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { code, printed, tookMs: performance.now() - start };
}

/** Makes the next call of an export that starts like this trap, as a panic does. */
const traps = `
const Real = WebAssembly.Instance;
let trap;
WebAssembly.Instance = function (module, imports) {
  const { exports } = new Real(module, imports);
  const wrapped = Object.entries(exports).map(([name, value]) => [name, typeof value !== "function" ? value :
    (...args) => {
      if (trap && name.startsWith(trap)) { trap = undefined; throw new WebAssembly.RuntimeError("unreachable"); }
      return value(...args);
    }]);
  return Object.create(Real.prototype, { exports: { value: Object.fromEntries(wrapped) } });
};
`;

test("a script that imports and exits, exits", async () => {
  assert.deepEqual({ ...(await runs("")), tookMs: 0 }, { code: 0, printed: "", tookMs: 0 });
});

test("a client that was closed while its store could not be loaded left an unhandled rejection", async () => {
  const { code, printed } = await runs(`
    import { registerHooks } from "node:module";
    registerHooks({
      resolve(name, context, next) {
        if (name.endsWith("/store.js")) throw new Error("it is gone");
        return next(name, context);
      },
    });
    const locks = new Leasehold(memoryStore());
    const listed = locks.list().catch(({ code }) => code);
    await locks.close();
    console.log(await listed);
    console.log(await new Leasehold(memoryStore()).acquire("a").catch(({ code }) => code));
  `);
  assert.deepEqual([code, printed], [0, "closed\nunavailable\n"]);
});

test("a lease that is held and renewed keeps no process alive", async () => {
  const { code, printed, tookMs } = await runs(`
    const locks = new Leasehold(memoryStore());
    const lease = await locks.acquire("a");
    const attached = locks.attach({ lock: "a", token: lease.token, fence: lease.fence });
    const lock = new DistributedLock(locks, "b");
    await lock.acquire();
    lock.start();
    console.log(lease.held, lock.held, process.getActiveResourcesInfo().includes("Timeout"));
  `);
  assert.deepEqual([code, printed], [0, "true true false\n"]);
  assert.ok(tookMs < 5_000, `${tookMs} ms`);
});

test("who awaits a lock, its time-out, or an unreachable store, gets an answer and not an early exit", async () => {
  const { code, printed } = await runs(`
    const locks = new Leasehold(memoryStore());
    await locks.acquire("a", { ttlMs: 300, renew: false });
    await locks.acquire("a", { waitMs: 100 }).catch((error) => console.log(error.code));
    console.log((await locks.acquire("a")).held);
    const lost = new Leasehold("http://127.0.0.1:9");
    await lost.acquire("a", { waitMs: 300 }).catch((error) => console.log(error.code));
  `);
  assert.deepEqual([code, printed], [0, "timeout\ntrue\nunavailable\n"]);
});

test("an open socket keeps no process alive, and who awaits an answer over it gets one", async () => {
  await using workerd = await Workerd.start();
  const { code, printed, tookMs } = await runs(`
    const locks = new Leasehold("${workerd.url}");
    const lease = await locks.acquire("a");
    console.log((await locks.inspect("a")).holders.length, await locks.tryAcquire("a"));
    await locks.acquire("a", { waitMs: 300 }).catch((error) => console.log(error.code));
    const changes = locks.watch();
    console.log((await changes.next()).value.change);
    setTimeout(() => lease.release(), 300).unref();
    console.log((await changes.next()).value.change);
    const held = await locks.acquire("b");
    console.log(held.held);
  `);
  assert.deepEqual(
    [code, printed.split("\n")],
    [0, ["1 null", "timeout", "present", "released", "true", ""]],
  );
  assert.ok(tookMs < 5_000, `${tookMs} ms`);
});

/** Grants every lease, and otherwise takes connections and says nothing. */
async function silent() {
  const server = createServer((request, response) => {
    if (!request.url?.endsWith("/acquire")) return;
    const lease = { fence: 1, ttlMs: 30_000, expiresInMs: 30_000, expiresAt: 1, mode: "exclusive" };
    response.end(JSON.stringify({ status: "granted", lease, waitedMs: 0 }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

test("what nobody answered kept the process open after it was given up", async () => {
  await using server = await silent();
  const calls = {
    unavailable: [
      `locks.revoke("a")`,
      `(await new Leasehold(url, { WebSocket: false }).acquire("a")).release()`,
    ],
    23: [`locks.watch({ signal: AbortSignal.timeout(3_000) }).next()`],
  };
  const ends = Object.entries(calls).flatMap(([outcome, calls]) =>
    calls.map(async (call) => {
      const { code, printed } = await runs(`
        const url = "${server.url}";
        const locks = new Leasehold(url);
        await ${call}.catch((error) => console.log(error.code));
      `);
      assert.deepEqual([code, printed], [0, `${outcome}\n`], call);
    }),
  );
  await Promise.all(ends);
});

// redis-semaphore#199, #24; node-redlock#283; azure-webjobs#2839
test("every renewal fails and nobody looks: exit code 0", async () => {
  const { code, printed } = await runs(`
    const store = memoryStore();
    let isDown = false;
    const target = { call: (call) => isDown ? Promise.reject(new Error("down")) : store.call(call) };
    const locks = new Leasehold(target);
    const lease = await locks.acquire("a", { ttlMs: 100 });
    let aborts = 0;
    lease.signal.addEventListener("abort", () => { aborts += 1; });
    isDown = true;
    void lease.renew();
    await new Promise((resolve) => setTimeout(resolve, 500));
    void lease.renew();
    const other = new Leasehold(target).attach({ lock: "a", token: "t", fence: 1 });
    void other.release();
    console.log(aborts, lease.held);
  `);
  assert.deepEqual([code, printed], [0, "1 false\n"]);
});

// workerd#3264, workers-rs#166
test("a trap in Rust is told, and what is made after it works", async () => {
  const { code, printed } = await runs(`${traps}
    const locks = new Leasehold(memoryStore());
    const lease = await locks.acquire("a");
    const reasons = [];
    lease.signal.addEventListener("abort", () => reasons.push(lease.signal.reason));
    const settled = (promise) => promise.then(() => "done", (error) => error.code);

    trap = "session_step";
    console.log(await settled(lease.renew()));
    console.log(lease.held, reasons.length, reasons[0].code, reasons[0].reason, reasons[0].cause.code);
    console.log(await settled(lease.release()), await settled(lease[Symbol.asyncDispose]()));

    // The store has a memory of its own: it knows of the lease until that expires.
    console.log(await settled(locks.acquire("a", { waitMs: 10 })), await settled(locks.acquire("b")));
    trap = "session_acquire";
    console.log(await settled(locks.acquire("c")), await settled(locks.acquire("c")));
  `);
  const lines = [
    "unavailable",
    "false 1 lost unknown unavailable",
    "unavailable done",
    "timeout done",
    "unavailable done",
  ];
  assert.deepEqual([code, printed.trimEnd().split("\n")], [0, lines]);
});

test("an in-process store that trapped says so for ever, and another one works", async () => {
  const { code, printed } = await runs(`${traps}
    const locks = new Leasehold(memoryStore());
    const lease = await locks.acquire("a");
    const settled = (promise) => promise.then(() => "done", (error) => error.code);

    trap = "store_turn";
    console.log(await settled(locks.acquire("b", { waitMs: 10 })));
    // It must not pretend to know who holds what.
    console.log(await settled(locks.acquire("b", { waitMs: 10 })), await settled(locks.inspect("a")));
    console.log(lease.held, await settled(lease.release()));
    console.log(await settled(new Leasehold(memoryStore()).acquire("a")));
  `);
  const lines = ["unavailable", "unavailable unavailable", "true unavailable", "done"];
  assert.deepEqual([code, printed.trimEnd().split("\n")], [0, lines]);
});
