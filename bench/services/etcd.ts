// etcd with the lock that etcd itself has: its lock service, which queues, on a lease that the client keeps alive.
import { join } from "node:path";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { Etcd3, type Lease } from "etcd3";
import { freePort, Server, temporaryFolder } from "../processes.ts";
import { versionOf } from "../machine.ts";
import type { Client, Kind } from "./service.ts";

/** What a session of etcd's own clients lasts by default, in s. */
const SESSION_TTL_S = 60;

export const etcd: Kind = {
  name: "etcd",
  program: "etcd",
  counts: "together",
  waiters: "are told",
  async start() {
    const [address, peers] = [
      `http://127.0.0.1:${await freePort()}`,
      `http://127.0.0.1:${await freePort()}`,
    ];
    const server = new Server("etcd", [
      ...[
        "--data-dir",
        temporaryFolder(),
        "--listen-client-urls",
        address,
        "--advertise-client-urls",
        address,
      ],
      ...[
        "--listen-peer-urls",
        peers,
        "--initial-advertise-peer-urls",
        peers,
        "--initial-cluster",
        `default=${peers}`,
      ],
    ]);
    await server.until(async () => {
      const response = await fetch(`${address}/health`);
      return ((await response.json()) as { health: string }).health === "true";
    });
    return {
      used: `its lock service over gRPC, one node, a session of ${SESSION_TTL_S} s per client, kept alive by etcd3 ${versionOf("etcd3")}`,
      address,
      stop: () => server.kill(),
    };
  },
  connect,
};

async function connect(address: string): Promise<Client> {
  const etcd = new Etcd3({ hosts: address });
  const locks = lockService(address);
  const sessions = new Map<number, Promise<Session>>();
  const session = (ttlMs: number) => {
    const ttl = Math.ceil(ttlMs / 1_000);
    const existing = sessions.get(ttl) ?? open(etcd, ttl);
    sessions.set(ttl, existing);
    return existing;
  };
  await session(SESSION_TTL_S * 1_000);
  return {
    async acquire(lock, ttlMs = SESSION_TTL_S * 1_000) {
      const { id } = await session(ttlMs);
      const { key } = await call<{ key: Buffer }>(locks, "Lock", {
        name: Buffer.from(lock),
        lease: id,
      });
      return async () => void (await call(locks, "Unlock", { key }));
    },
    messages: () => messages(address),
    async close() {
      locks.close();
      for (const opened of sessions.values()) (await opened).lease.release();
      etcd.close();
    },
  };
}

interface Session {
  readonly id: string;
  readonly lease: Lease;
}

async function open(etcd: Etcd3, ttl: number): Promise<Session> {
  const lease = etcd.lease(ttl);
  // Not kept alive any more when the client is closed.
  lease.on("lost", () => {});
  return { id: await lease.grant(), lease };
}

/** etcd's own count of what it sent, to all its clients together. */
async function messages(address: string): Promise<number> {
  const text = await (await fetch(`${address}/metrics`)).text();
  const counts = text.matchAll(/^grpc_server_msg_sent_total\{[^}]*\} (\S+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

function lockService(address: string): grpc.Client {
  const definition = loadSync(join(import.meta.dirname, "v3lock.proto"), { longs: String });
  const { v3lockpb } = grpc.loadPackageDefinition(definition) as unknown as {
    v3lockpb: { Lock: grpc.ServiceClientConstructor };
  };
  return new v3lockpb.Lock(new URL(address).host, grpc.credentials.createInsecure());
}

function call<Reply>(
  client: grpc.Client,
  method: "Lock" | "Unlock",
  request: object,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const send = (client as unknown as Record<string, Function>)[method];
    send?.call(client, request, (error: Error | null, reply: Reply) =>
      error ? reject(error) : resolve(reply),
    );
  });
}
