// The hand-written object over one WebSocket: see bench/reference/waiting.js.
import { randomUUID } from "node:crypto";
import type { Workerd } from "../workerd.ts";
import { leasehold, space } from "./leasehold.ts";
import type { Client, Kind, Release, Service } from "./service.ts";
import { Speaker } from "./speaker.ts";

/** It renews nothing: longer than any section holds a lock. */
const TTL_MS = 60_000;

type Result = boolean | { readonly fence: number };

export const handWritten: Kind = {
  ...leasehold,
  name: "hand-written object",
  counts: "apart",
  connect,
};

export function handWrittenOn(workerd: Workerd): Service {
  return {
    used: "bench/reference on the same workerd",
    address: workerd.url("reference"),
    stop: () => workerd.stop(),
  };
}

async function connect(address: string): Promise<Client> {
  const answers = new Map<number, (result: Result) => void>();
  const speaker = await Speaker.open(
    `${address.replace("http", "ws")}/${space}/session`,
    (message) => {
      for (const [id, result] of message as [number, Result][]) {
        answers.get(id)?.(result);
        answers.delete(id);
      }
    },
  );
  let lastId = 0;
  const ask = (...words: unknown[]): Promise<Result> =>
    new Promise((resolve) => {
      answers.set((lastId += 1), resolve);
      speaker.say([lastId, ...words]);
    });
  return {
    async acquire(lock, ttlMs = TTL_MS): Promise<Release> {
      const token = randomUUID();
      const { fence } = (await ask("acquire", lock, token, ttlMs)) as { fence: number };
      return async () => {
        if (!(await ask("release", lock, token, fence)))
          throw new Error("release: there was no such lease");
      };
    },
    messages: () => speaker.heard,
    close: async () => speaker.close(),
  };
}
