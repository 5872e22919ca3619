// Leasehold as a program in Node.js uses it: the npm package as built, over the network, at its defaults.
import { join } from "node:path";
import { Workerd } from "../workerd.ts";
import type { Client, Kind, Service } from "./service.ts";

export const leasehold: Kind = {
  name: "Leasehold",
  program: "node",
  counts: "together",
  waiters: "are told",
  start: async () => serviceOn(await Workerd.start()),
  connect,
};

/** The service that a workerd which runs already is. */
export function serviceOn(workerd: Workerd): Service {
  return {
    used: "the npm package over one WebSocket per client, the Worker on workerd with its state on disk",
    address: workerd.url("leasehold"),
    stop: () => workerd.stop(),
  };
}

/** What is used of the npm package. */
export interface Package {
  Leasehold: new (
    target: unknown,
    options?: { space?: string },
  ) => {
    acquire(
      lock: string,
      options?: { ttlMs?: number | undefined },
    ): Promise<{ release(): Promise<unknown> }>;
    close(): Promise<void>;
  };
  memoryStore(): unknown;
}

/** The space that is used, and where its sockets are. */
export const space = "bench";

export function socketUrl(address: string): string {
  return `${address.replace("http", "ws")}/v1/spaces/${space}/session`;
}

/** The package as it was built: a program outside of this repository has the same. */
export async function built(): Promise<Package> {
  return (await import(join(import.meta.dirname, "../../dist/index.js"))) as Package;
}

async function connect(address: string): Promise<Client> {
  countFrames();
  const { Leasehold } = await built();
  const locks = new Leasehold(address, { space });
  return {
    async acquire(lock, ttlMs) {
      const lease = await locks.acquire(lock, { ttlMs });
      return async () => void (await lease.release());
    },
    messages: () => frames,
    close: () => locks.close(),
  };
}

/** For whoever counts for himself. */
export const UncountedSocket = globalThis.WebSocket;

/** The frames that came in over all sockets of this process; unknown while there was none. */
let frames = NaN;
let isCounting = false;

/** The package opens its sockets when it likes: whatever is opened from now on is counted. */
function countFrames(): void {
  if (isCounting) return;
  isCounting = true;
  globalThis.WebSocket = class extends WebSocket {
    constructor(...words: ConstructorParameters<typeof WebSocket>) {
      super(...words);
      frames ||= 0;
      this.addEventListener("message", () => (frames += 1));
    }
  };
}
