// What works in every runtime and through every bundler, written as a user would: against the public surface alone.
import {
  type Lease,
  LeaseError,
  Leasehold,
  type LeaseholdOptions,
  memoryStore,
  type Target,
} from "leasehold";
import { FenceError, memoryFence } from "leasehold/fence";

/** The scenario against a store at a URL, by socket and by HTTP, and in the process: the fences of each. */
export async function everyWay(url: string, key: string): Promise<Record<string, number[]>> {
  const [bySocket, byHttp, inProcess] = await Promise.all([
    scenario(url, { key }),
    scenario(url, { key, WebSocket: false }),
    scenario(memoryStore()),
  ]);
  return { bySocket, byHttp, inProcess };
}

/** Two clients and one lock. Resolves with the fences that were granted; throws where something is not as it should be. */
export async function scenario(target: Target, options: LeaseholdOptions = {}): Promise<number[]> {
  const alice = new Leasehold(target, options);
  const bob = new Leasehold(target, options);
  const lock = `scenario ${crypto.randomUUID()}`;

  const first = await alice.acquire(lock, { ttlMs: 10_000, info: { by: "alice" } });
  check(first.held && first.fence > 0, "the first lease is held");
  check((await bob.tryAcquire(lock)) === null, "a second one is refused");

  const wait = bob.acquire(lock, { waitMs: 60_000, ttlMs: 6_000 });
  await until(async () => (await alice.inspect(lock)).waiters.length === 1);

  const { expiresAt } = first;
  await first.renew(20_000);
  check(first.held && first.expiresAt > expiresAt, "the first lease is longer");

  const { status } = await first.release();
  check(status === "released" && !first.held && !first.signal.aborted, "it is given back");
  const second = await wait;
  check(second.held && second.fence > first.fence, "who waited has a larger fence");

  await alice.revoke(lock, { fence: second.fence });
  check((await reasonOfLoss(second)) === "revoked", "its holder hears that it was revoked");

  const third = await alice.acquire(lock, { ttlMs: 1_500, renew: false });
  check((await reasonOfLoss(third)) === "expired", "a holder knows when its time is over");

  const resource = memoryFence();
  resource.admit(lock, third);
  check(
    refuses(() => resource.admit(lock, second)),
    "an older fence is refused",
  );
  resource.admit(lock, third);

  // The holder stops believing a little before the store does.
  await until(async () => (await alice.list({ prefix: lock })).locks.length === 0);
  await Promise.all([alice.close(), bob.close()]);
  return [first.fence, second.fence, third.fence];
}

function refuses(write: () => void): boolean {
  try {
    write();
    return false;
  } catch (error) {
    return error instanceof FenceError && error.code === "stale_fence";
  }
}

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(`not so: ${what}`);
}

async function reasonOfLoss({ signal }: Lease): Promise<string | undefined> {
  await until(async () => signal.aborted);
  const error: unknown = signal.reason;
  check(error instanceof LeaseError && error.code === "lost", "a loss is a LeaseError");
  return (error as LeaseError).reason;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const endsAt = performance.now() + 20_000;
  while (!(await holds())) {
    check(performance.now() < endsAt, `${holds} within 20 s`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
