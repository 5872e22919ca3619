// A client that speaks HTTP by itself and does what it likes: it waits and does not, repeats what it had no answer to,
// comes back too late, releases what it has lost, steals, and revokes the leases of others.
import { randomUUID } from "node:crypto";
import { type Fields, type Json, sleep, type Store } from "../support/store.ts";
import type { Recorder, Seen } from "./recorder.ts";

/** Locks with so many permits; an exclusive one has none. */
const LOCKS: readonly (readonly [name: string, limit: number | null])[] = [
  ["north", null],
  ["south", null],
  ["permits", 2],
];
const PATIENCE_MS = 1_500;

interface Held {
  readonly lock: string;
  readonly token: string;
  readonly fence: number;
  readonly ttlMs: number;
}

export async function callByHand(
  store: Store,
  recorder: Recorder,
  random: () => number,
  ending: AbortSignal,
): Promise<void> {
  while (!ending.aborted) {
    const [lock, limit] = LOCKS[Math.floor(random() * LOCKS.length)] as (typeof LOCKS)[number];
    if (random() < 0.2) await inspect(store, recorder, random, lock);
    const held = await acquire(store, recorder, random, lock, limit);
    if (held !== undefined) await use(store, recorder, random, held);
    await sleep(random() * 60);
  }
}

async function acquire(
  store: Store,
  recorder: Recorder,
  random: () => number,
  lock: string,
  limit: number | null,
): Promise<Held | undefined> {
  const [token, requestId] = [randomUUID(), randomUUID()];
  const ttlMs = 200 + Math.floor(random() * 1_200);
  const fields: Fields = { token, requestId, ttlMs, info: requestId };
  if (limit !== null) Object.assign(fields, { mode: "shared", limit });
  const steal = limit === null && random() < 0.1;
  if (steal) fields["steal"] = true;
  else if (random() < 0.6) fields["waitMs"] = Math.floor(random() * 800);
  const calledAt = recorder.now();
  while (recorder.now() < calledAt + PATIENCE_MS * 1_000) {
    const sentAt = recorder.now();
    const reply = await answer(store, "acquire", lock, fields);
    switch (reply?.status) {
      case "granted": {
        const { fence, expiresInMs } = reply.lease;
        const what = "granted";
        recorder.answered(lock, calledAt, { what, fence, limit, sentAt, expiresInMs, steal });
        return { lock, token, fence, ttlMs };
      }
      case "held":
        recorder.answered(lock, sentAt, { what: "seen", holders: seen(reply.holders) });
        return undefined;
      case "lost":
        recorder.answered(lock, calledAt, { what: "abandoned", ask: requestId, limit, steal });
        return undefined;
      case "waiting":
        break;
      default:
        await sleep(20);
    }
  }
  await answer(store, "cancel", lock, { token, requestId });
  recorder.givenUp(lock, calledAt, { what: "abandoned", ask: requestId, limit, steal });
  return undefined;
}

async function use(
  store: Store,
  recorder: Recorder,
  random: () => number,
  { lock, token, fence, ttlMs }: Held,
): Promise<void> {
  while (random() < 0.6) {
    // Too late, now and then.
    await sleep(random() * ttlMs * (random() < 0.15 ? 2 : 0.5));
    const calledAt = recorder.now();
    const reply = await answer(store, "renew", lock, { token, fence });
    if (reply?.status === "renewed") {
      const { expiresInMs } = reply.lease;
      recorder.answered(lock, calledAt, { what: "renewed", fence, expiresInMs });
    } else if (reply?.status === "lost") {
      recorder.answered(lock, calledAt, { what: "lost", fence });
    } else {
      recorder.perhaps(lock, calledAt, { what: "perhapsRenewed", fence });
    }
  }
  // Who dies does not release.
  if (random() < 0.1) return;
  const from = recorder.now();
  while (recorder.now() < from + PATIENCE_MS * 1_000) {
    const calledAt = recorder.now();
    const reply = await answer(store, "release", lock, { token, fence });
    if (reply?.status === "released" || reply?.status === "lost") {
      return recorder.answered(lock, calledAt, { what: reply.status, fence });
    }
    recorder.perhaps(lock, calledAt, { what: "perhapsReleased", fence });
    await sleep(20);
  }
}

/** And now and then revokes what it sees. */
async function inspect(
  store: Store,
  recorder: Recorder,
  random: () => number,
  lock: string,
): Promise<void> {
  const calledAt = recorder.now();
  try {
    const signal = AbortSignal.timeout(1_000);
    const { reply } = await store.send(`/locks/${lock}`, { signal });
    if (!Array.isArray(reply.holders)) return;
    const holders = seen(reply.holders);
    recorder.answered(lock, calledAt, { what: "seen", holders });
    const victim = holders[Math.floor(random() * holders.length)];
    if (victim && random() < 0.5) await revoke(store, recorder, lock, victim.fence);
  } catch {
    // Nothing was learnt, and nothing can have changed.
  }
}

async function revoke(
  store: Store,
  recorder: Recorder,
  lock: string,
  fence: number,
): Promise<void> {
  const calledAt = recorder.now();
  const reply = await answer(store, "revoke", lock, { fence });
  if (reply?.revoked === 1) recorder.answered(lock, calledAt, { what: "revoked", fence });
  else if (reply?.revoked === 0) recorder.answered(lock, calledAt, { what: "lost", fence });
  else recorder.perhaps(lock, calledAt, { what: "perhapsRevoked", fence });
}

function seen(holders: readonly Json[]): Seen[] {
  return holders.map(({ fence, info }) => ({ fence, ask: String(info) }));
}

/** Nothing where nothing was heard, or that something went wrong on the way. */
async function answer(store: Store, op: string, lock: string, fields: Fields): Promise<Json> {
  try {
    const { reply } = await store.command(op, lock, fields, AbortSignal.timeout(1_000));
    return reply;
  } catch {
    return undefined;
  }
}
