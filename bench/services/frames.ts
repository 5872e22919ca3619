// Leasehold's protocol spoken by hand over one WebSocket: what the lease store itself costs, without the npm package.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { leasehold, socketUrl, UncountedSocket } from "./leasehold.ts";
import type { Client, Kind, Release } from "./service.ts";

/** The longest that one ask may wait. */
const WAIT_MS = 60_000;

/** The longest message. */
const MAX_BYTES = 16 * 1024;

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
  const socket = new UncountedSocket(socketUrl(address));
  await once(socket, "open");
  let messages = 0;
  let lastId = 0;
  const frames: string[] = [];
  const answers = new Map<number, (reply: Reply) => void>();
  const grants = new Map<string, (reply: Reply) => void>();

  socket.addEventListener("message", ({ data }) => {
    messages += 1;
    const heard = JSON.parse(data as string) as Reply | Reply[];
    for (const reply of Array.isArray(heard) ? heard : [heard]) {
      const told = reply.push ? take(grants, reply.requestId) : take(answers, reply.id);
      told?.(reply);
    }
  });

  /** What is asked in one turn travels in one frame, or in as few as hold it. */
  const send = () => {
    let size = 0;
    for (const [at, frame] of frames.entries()) {
      size += frame.length + 1;
      if (size + (frames[at + 1]?.length ?? MAX_BYTES) < MAX_BYTES) continue;
      socket.send(`[${frames.splice(0, at + 1).join(",")}]`);
      return send();
    }
  };
  const ask = (op: string, lock: string, fields: object): Promise<Reply> =>
    new Promise((resolve) => {
      answers.set((lastId += 1), resolve);
      if (frames.push(JSON.stringify({ id: lastId, op, lock, ...fields })) === 1)
        setImmediate(send);
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
    messages: () => messages,
    async close() {
      socket.close();
    },
  };
}

function take<Key, Value>(map: Map<Key, Value>, key: Key | undefined): Value | undefined {
  if (key === undefined) return undefined;
  const value = map.get(key);
  map.delete(key);
  return value;
}
