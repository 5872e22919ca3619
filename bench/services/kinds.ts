// Every lock service there is, by name: what another process is told.
import { etcd } from "./etcd.ts";
import { leasehold } from "./leasehold.ts";
import { redisSemaphore, redlock } from "./redis.ts";
import type { Kind } from "./service.ts";

export const peers: readonly Kind[] = [redisSemaphore, redlock, etcd];

export function kindOf(name: string): Kind {
  const kind = [leasehold, ...peers].find((kind) => kind.name === name);
  if (!kind) throw new Error(`there is no service called ${name}`);
  return kind;
}
