// What a store answers is passed on to the caller, so it is looked at first: anybody may be at that address.
import type { Holder } from "./types.ts";

/** Whether a reply is one to that question, as far as anybody relies on it. */
export function isReplyTo(op: string, reply: unknown): boolean {
  const { lock, holders, waiters, locks, cursor, revoked } = membersOf(reply);
  switch (op) {
    case "inspect":
      return typeof lock === "string" && areHolders(holders) && are(waiters, isWaiter);
    case "list":
    case "watch":
      return are(locks, isState) && (cursor === undefined || typeof cursor === "string");
    case "revoke":
      return typeof revoked === "number";
    default:
      return true;
  }
}

/** Whether it says how a lock stands. */
export function isState(value: unknown): boolean {
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
