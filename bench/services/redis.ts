// Redis, with the two locks that most programs take over it. It makes every write durable before it answers.
import { Redis } from "ioredis";
import { Mutex, TimeoutError } from "redis-semaphore";
import Redlock from "redlock";
import { versionOf } from "../machine.ts";
import { freePort, Server, temporaryFolder } from "../processes.ts";
import type { Client, Kind, Release, Service } from "./service.ts";

export const redisSemaphore: Kind = {
  name: "redis-semaphore",
  program: "redis-server",
  counts: "apart",
  waiters: "ask",
  start: () =>
    start("redis-semaphore", "Mutex: lockTimeout 10 s, refreshed every 8 s, retryInterval 10 ms"),
  connect: (address) => connect(address, withMutex),
};

export const redlock: Kind = {
  name: "redlock",
  program: "redis-server",
  counts: "apart",
  waiters: "ask",
  start: () => start("redlock", "one server: retryDelay 200 ms, retryJitter 100 ms, retryCount 10"),
  connect: (address) => connect(address, withRedlock),
};

async function start(library: string, settings: string): Promise<Service> {
  const port = await freePort();
  const server = new Server("redis-server", [
    ...["--port", String(port), "--bind", "127.0.0.1", "--dir", temporaryFolder()],
    ...["--save", "", "--appendonly", "yes", "--appendfsync", "always"],
  ]);
  const address = `redis://127.0.0.1:${port}`;
  await server.until(() => answers(address));
  return {
    used: `${library} ${versionOf(library)} with ioredis ${versionOf("ioredis")}, ${settings}; Redis with appendfsync always`,
    address,
    stop: () => server.kill(),
  };
}

async function answers(address: string): Promise<boolean> {
  const redis = new Redis(address, { lazyConnect: true, retryStrategy: () => null });
  redis.on("error", () => {});
  try {
    await redis.connect();
    return (await redis.ping()) === "PONG";
  } finally {
    redis.disconnect();
  }
}

type Acquire = (redis: Redis, lock: string, ttlMs?: number) => Promise<Release>;

const withMutex: Acquire = async (redis, lock, ttlMs) => {
  const mutex = new Mutex(redis, lock, {
    ...(ttlMs !== undefined && { lockTimeout: ttlMs }),
    // By default it throws where nobody can catch it, also when its connection was closed under it.
    onLockLost: () => {},
  });
  await mutex.acquire();
  return () => mutex.release();
};

/** redlock has no default length and renews nothing by itself: longer than any section holds a lock. */
const REDLOCK_TTL_MS = 60_000;

const withRedlock: Acquire = async (redis, lock, ttlMs = REDLOCK_TTL_MS) => {
  const redlock = new Redlock([redis as unknown as Redlock.CompatibleRedisClient]);
  const held = await redlock.acquire(lock, ttlMs);
  return async () => held.unlock();
};

async function connect(address: string, acquire: Acquire): Promise<Client> {
  const redis = new Redis(address);
  redis.on("error", () => {});
  await redis.ping();
  let commands = 0;
  const send = redis.sendCommand.bind(redis);
  redis.sendCommand = (...words: Parameters<Redis["sendCommand"]>) => {
    commands += 1;
    return send(...words);
  };
  let isClosed = false;
  return {
    async acquire(lock, ttlMs) {
      for (;;) {
        try {
          return await acquire(redis, lock, ttlMs);
        } catch (error) {
          // By default both give up after a while; whoever wants the lock then asks again.
          const gaveUp = error instanceof TimeoutError || error instanceof Redlock.LockError;
          if (!gaveUp || isClosed) throw error;
        }
      }
    },
    // Each command has one reply.
    messages: () => commands,
    async close() {
      isClosed = true;
      redis.disconnect();
    },
  };
}
