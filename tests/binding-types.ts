// Compiled, never run: what the types of the package let pass, and what not.
import { DistributedLock, type Lease, Leasehold, type LeaseError, memoryStore } from "leasehold";

export async function compiles(locks: Leasehold, error: LeaseError): Promise<unknown[]> {
  const lease: Lease = await locks.acquire("a", { mode: "shared", limit: 3, waitMs: Infinity });
  const maybe: Lease | null = await locks.tryAcquire("a", {
    steal: true,
    info: { job: [1, null] },
  });
  const fence: number = await locks.request("a", ({ fence }) => fence);
  const name: string = await locks.request("a", { ttlMs: 300 }, async ({ name }) => name);
  const none: string | null = await locks.request(
    "a",
    { ifAvailable: true },
    (held) => held && held.name,
  );
  const mode: "exclusive" | "shared" = lease.mode;
  const optional: { ttlMs?: number | undefined; signal?: AbortSignal | undefined } = {};
  await locks.acquire("a", optional);
  const flags: { ifAvailable?: boolean; steal?: boolean } = {};
  await locks.request("a", { steal: true, ttlMs: 300 }, ({ fence }) => fence);
  await locks.request("a", { signal: AbortSignal.timeout(9), waitMs: 9 }, () => {});
  await locks.request("a", { ifAvailable: flags.ifAvailable }, (held) => held?.fence);
  await using disposed = await locks.acquire("a");
  new DistributedLock(locks, "a", { blocking: flags.steal === true, blockingTimeoutMs: 9 });
  await using inner = locks.attach({ lock: "a", token: lease.token, fence: lease.fence });
  await using classic = new DistributedLock(locks, "a", { blocking: true, renewEveryMs: 100 });
  const released: "released" | "lost" = (await lease.release()).status;
  const field: string | undefined = error.field;
  for await (const change of locks.watch({ prefix: "a" })) {
    if (change.change !== "reset") return [change.lock, change.holders, change.fence];
  }
  const sum: number = await locks.requestAll(
    ["a", "b"],
    { waitMs: 9 },
    ([a, b]) => a!.fence + b!.fence,
  );
  const { held, pending } = await locks.query();
  const manager: LockManager = locks;
  await using again = locks.attach(lease);
  void locks.elect("a", { info: { host: "one" } }, async (term) => term.signal.throwIfAborted());
  new Leasehold("https://locks.example.com", { key: "k", WebSocket });
  return [
    sum,
    disposed,
    held[0]?.clientId,
    pending,
    manager,
    maybe,
    fence,
    name,
    none,
    mode,
    inner,
    again,
    classic,
    released,
    field,
  ];
}

export async function doesNotCompile(locks: Leasehold, error: LeaseError): Promise<void> {
  // @ts-expect-error: an exclusive lease has no limit
  await locks.acquire("a", { limit: 3 });
  // @ts-expect-error: a shared lease steals nothing
  await locks.acquire("a", { mode: "shared", steal: true });
  // @ts-expect-error: there is no such option
  await locks.acquire("a", { ttl: 300 });
  // @ts-expect-error: there is no such mode
  await locks.acquire("a", { mode: "write" });
  // @ts-expect-error: no JSON
  await locks.acquire("a", { info: 1n });
  // @ts-expect-error: without ifAvailable there is always a lease, with it there may be none
  await locks.request("a", { ifAvailable: true }, (lease) => lease.fence);
  // @ts-expect-error: what is stolen is not waited for
  await locks.request("a", { ifAvailable: true, steal: true }, () => {});
  // @ts-expect-error: what is not waited for is not given up
  await locks.request("a", { ifAvailable: true, signal: AbortSignal.timeout(9) }, () => {});
  // @ts-expect-error: nor when it is stolen
  await locks.request("a", { steal: true, signal: AbortSignal.timeout(9) }, () => {});
  // @ts-expect-error: either at once or some time
  await locks.request("a", { ifAvailable: true, waitMs: 9 }, () => {});
  // @ts-expect-error: a time to wait, and no word that it is to wait
  new DistributedLock(locks, "a", { blockingTimeoutMs: 9 });
  // @ts-expect-error: there is no such option
  new DistributedLock(locks, "a", { retries: 3 });
  // @ts-expect-error: there is no such option
  new Leasehold("https://locks.example.com", { token: "k" });
  // @ts-expect-error: an election has no end that could be waited for
  await locks.elect("a", { waitMs: 9 }, () => {});
  // @ts-expect-error: there is no such code
  if (error.code === "lots") return;
  // @ts-expect-error: a lease is named by its token and its fence
  locks.attach({ lock: "a", token: "t" });
  // @ts-expect-error: no way to a store
  new Leasehold(8787);
  // @ts-expect-error: a clock is a function
  memoryStore({ now: 0 });
}
