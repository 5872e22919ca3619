// Several locks at once.
import { invalid, isTaken, LeaseError } from "./errors.ts";
import type { Lease } from "./lease.ts";
import type { AcquireOptions } from "./types.ts";
import { asked, holding } from "./web-locks.ts";

export async function requested(
  names: unknown,
  rest: readonly unknown[],
  acquire: (name: string, options: AcquireOptions) => Promise<Lease>,
): Promise<unknown> {
  if (!Array.isArray(names)) throw invalid("names", "an array of names");
  // The options and the callback are those of all, and judged once.
  const { options, ifAvailable, callback } = asked(["all", ...rest]);
  const wanted = names.map((name) => asked([name, () => {}]).name);
  const leases = new Map<string, Lease>();
  let name = "";
  try {
    const deadline = performance.now() + (options.waitMs ?? Infinity);
    for (name of [...new Set(wanted)].sort()) {
      const waitMs = left(deadline, options.waitMs);
      leases.set(name, await acquire(name, { ...options, waitMs } as AcquireOptions));
      // One may be lost while another is waited for.
      for (const { signal } of leases.values()) signal.throwIfAborted();
    }
  } catch (error) {
    await giveBack(leases);
    if (ifAvailable && isTaken(error)) return callback(null);
    if (!(error instanceof LeaseError) || error.field !== "lock") throw error;
    throw invalid(
      "lock",
      `${error.message.slice("lock must be ".length)}: names[${wanted.indexOf(name)}]`,
    );
  }
  return holding([...leases.values()], () =>
    (callback as unknown as (leases: readonly Lease[]) => unknown)(
      wanted.map((name) => leases.get(name)!),
    ),
  );
}

/** What is left of the time for all of them, and never nothing: that would be another kind of ask. */
function left(deadline: number, waitMs: unknown): unknown {
  // What is no such length, or none, is judged as it is.
  if (!Number.isSafeInteger(waitMs) || (waitMs as number) <= 0) return waitMs;
  return Math.max(1, Math.ceil(deadline - performance.now()));
}

/** The last first. */
async function giveBack(leases: ReadonlyMap<string, Lease>): Promise<void> {
  await Promise.allSettled([...leases.values()].reverse().map((lease) => lease.release()));
}
