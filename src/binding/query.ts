// `query` of the Web Locks API, from what a space lists.
import type {
  Holder,
  Inspection,
  Listing,
  LockInfo,
  LockManagerSnapshot,
  Waiter,
} from "./types.ts";

type Ask = (
  op: string,
  lock: string | undefined,
  fields: Record<string, unknown>,
) => Promise<unknown>;

/** As many holders as a list shows of one lock. */
const HOLDERS_SHOWN = 10;

export async function snapshot(ask: Ask): Promise<LockManagerSnapshot> {
  const listed: Inspection[] = [];
  let cursor: string | undefined;
  do {
    const fields = { pageSize: 1_000, ...(cursor !== undefined && { cursor }) };
    const page = (await ask("list", undefined, fields)) as Listing;
    // What a list does not show is asked for in one turn.
    const locks = page.locks.map(({ lock, holders, queue }) =>
      queue > 0 || holders.length === HOLDERS_SHOWN
        ? (ask("inspect", lock, {}) as Promise<Inspection>)
        : { lock, holders, waiters: [] },
    );
    listed.push(...(await Promise.all(locks)));
    ({ cursor } = page);
  } while (cursor !== undefined);
  const held = listed.flatMap(({ lock, holders }) => holders.map((holder) => ({ lock, holder })));
  held.sort((one, other) => one.holder.fence - other.holder.fence);
  return {
    held: held.map(({ lock, holder }) => info(lock, holder)),
    pending: listed.flatMap(({ lock, waiters }) => waiters.map((waiter) => info(lock, waiter))),
  };
}

function info(name: string, { mode, clientId = "" }: Holder | Waiter): LockInfo {
  return { name, mode, clientId };
}
