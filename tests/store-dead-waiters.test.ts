// Waiters whose processes are killed, with whatever their machine had in flight.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { Store, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

const PROCESSES = 20;
const WAITERS = 100;
const KILLED = 6;

/** Those of the dead get a lease that nobody claims; it ends after this. */
const CLAIM_MS = 200;

interface Grant {
  readonly waiter: number;
  readonly fence: number;
  /** By the store's clock. */
  readonly at: number;
}

for (const over of ["http", "socket"] as const) {
  test(`30 of 100 waiters are killed, over ${over}: the rest are served in order, each dead one costs at most its claim window`, async () => {
    await using workerd = await Workerd.start();
    const store = new Store(workerd);
    const first = await store.hold("a", { ttlMs: 60_000 });
    const served: Grant[] = [];
    const processes = await Promise.all(
      Array.from({ length: PROCESSES }, () =>
        start(over, workerd.url, (grant) => served.push(grant)),
      ),
    );
    try {
      for (let waiter = 0; waiter < WAITERS; waiter += 1) {
        processes[waiter % PROCESSES]!.stdin!.write(`${waiter}\n`);
        await until(
          async () => (await store.send("/locks?pageSize=1")).reply.locks[0]?.queue > waiter,
          10_000,
        );
      }
      const dead = new Set<number>();
      while (dead.size < KILLED) dead.add(Math.floor(Math.random() * PROCESSES));
      const shown = `killed: ${[...dead].join(" ")}`;
      await Promise.all([...dead].map((at) => kill(processes[at]!)));
      const isDead = (waiter: number) => dead.has(waiter % PROCESSES);
      const living = Array.from({ length: WAITERS }, (_, at) => at).filter((at) => !isDead(at));
      assert.equal(living.length, 70);

      const start = Date.now();
      await store.command("release", "a", first);
      await until(async () => served.length === living.length, 30_000);
      // What they say comes by as many pipes: its order is none.
      served.sort((one, other) => one.fence - other.fence);
      assert.deepEqual(
        served.map(({ waiter }) => waiter),
        living,
        shown,
      );
      let before = { waiter: -1, at: start };
      for (const grant of served) {
        const deadBetween = grant.waiter - before.waiter - 1;
        const tookMs = grant.at - before.at;
        // The living one before them has its own window to give the lease back in.
        assert.ok(
          tookMs <= (deadBetween + 1) * CLAIM_MS + 150,
          `${tookMs} ms for waiter ${grant.waiter} after ${deadBetween} dead; ${shown}`,
        );
        before = grant;
      }
      // The windows show: the dead at the front were granted while nobody knew that they are dead.
      const firstDead = living.findIndex((waiter, at) => waiter !== at);
      const { waiter, at } = served[firstDead]!;
      const sinceMs = at - (served[firstDead - 1]?.at ?? start);
      assert.ok(sinceMs >= (waiter - firstDead) * CLAIM_MS - 50, shown);
    } finally {
      await Promise.all(processes.map(kill));
    }
  });
}

async function start(
  over: string,
  url: string,
  onGrant: (grant: Grant) => void,
): Promise<ChildProcess> {
  const program = join(import.meta.dirname, "support/waiting-process.ts");
  const child = spawn(process.execPath, [program, over, url, "a", String(CLAIM_MS)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface(child.stdout!);
  await once(lines, "line");
  lines.on("line", (line) => {
    const [waiter, fence, at] = line.split(" ").map(Number) as [number, number, number];
    onGrant({ waiter, fence, at });
  });
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGKILL");
  await exit;
}
