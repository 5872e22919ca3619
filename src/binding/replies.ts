// What a store answers is passed on to the caller, so it is looked at first: anybody may be at that address.
import type { Call } from "./carrier.ts";
import type { Holder, LockState } from "./types.ts";

/** Whether a reply is one to that question, as far as anybody relies on it. */
export function isReplyTo(
  { op, lock: asked, fields }: Pick<Call, "op" | "lock" | "fields">,
  reply: unknown,
): boolean {
  const { lock, holders, waiters, locks, cursor, revoked } = membersOf(reply);
  const { prefix = "", cursor: after } = fields as { prefix?: string; cursor?: string };
  switch (op) {
    case "inspect":
      return lock === asked && areHolders(holders) && are(waiters, isWaiter);
    case "list":
    case "watch":
      return (
        are(locks, (state) => isState(state) && state.lock.startsWith(prefix)) &&
        // A page that is followed by itself would be asked for without end.
        (cursor === undefined || (typeof cursor === "string" && cursor !== after))
      );
    case "revoke":
      return typeof revoked === "number";
    default:
      return true;
  }
}

/** Whether it says how a lock stands. */
export function isState(value: unknown): value is LockState {
  const { lock, holders, queue } = membersOf(value);
  return typeof lock === "string" && areHolders(holders) && typeof queue === "number";
}

export function areHolders(value: unknown): value is readonly Holder[] {
  return are(value, (holder) => isWaiter(holder) && typeof membersOf(holder)["fence"] === "number");
}

function isWaiter(value: unknown): boolean {
  return typeof membersOf(value)["mode"] === "string";
}

function are(value: unknown, isOne: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isOne);
}

function membersOf(value: unknown): Record<string, unknown> {
  return Object(value) as Record<string, unknown>;
}
