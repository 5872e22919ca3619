// Leasehold's protocol spoken by hand over one WebSocket: what the lease store itself costs, without the npm package.
import { randomUUID } from "node:crypto";
import { leasehold, socketUrl } from "./leasehold.ts";
import type { Client, Kind, Release } from "./service.ts";
import { Speaker } from "./speaker.ts";

/** The longest that one ask may wait. */
const WAIT_MS = 60_000;

interface Reply {
  readonly id?: number;
  readonly push?: string;
  readonly requestId?: string;
  readonly status?: string;
  readonly lease?: { readonly fence: number };
}

/** Beside the npm package this shows what the package costs. */
export const byHand: Kind = { ...leasehold, name: "by hand", counts: "apart", connect };

async function connect(address: string): Promise<Client> {
  let lastId = 0;
  const answers = new Map<number, (reply: Reply) => void>();
  const grants = new Map<string, (reply: Reply) => void>();
  const speaker = await Speaker.open(socketUrl(address), (message) => {
    for (const reply of (Array.isArray(message) ? message : [message]) as Reply[]) {
      const told = reply.push ? take(grants, reply.requestId) : take(answers, reply.id);
      told?.(reply);
    }
  });
  const ask = (op: string, lock: string, fields: object): Promise<Reply> =>
    new Promise((resolve) => {
      answers.set((lastId += 1), resolve);
      speaker.say({ id: lastId, op, lock, ...fields });
    });

  return {
    async acquire(lock, ttlMs): Promise<Release> {
      const [token, requestId] = [randomUUID(), randomUUID()];
      const granted = new Promise<Reply>((resolve) => grants.set(requestId, resolve));
      const asked = { token, requestId, waitMs: WAIT_MS, ...(ttlMs !== undefined && { ttlMs }) };
      const reply = await ask("acquire", lock, asked);
      const hasWaited = reply.status === "waiting";
      const { lease } = hasWaited ? await granted : reply;
      grants.delete(requestId);
      if (!lease) throw new Error(`acquire: ${JSON.stringify(reply)}`);
      // A lease granted to one who waited is short until its first renewal.
      if (hasWaited) void ask("renew", lock, { token, fence: lease.fence });
      return async () => {
        const { status } = await ask("release", lock, { token, fence: lease.fence });
        if (status !== "released") throw new Error(`release: ${status}`);
      };
    },
    messages: () => speaker.heard,
    close: async () => speaker.close(),
  };
}

function take<Key, Value>(map: Map<Key, Value>, key: Key | undefined): Value | undefined {
  if (key === undefined) return undefined;
  const value = map.get(key);
  map.delete(key);
  return value;
}
