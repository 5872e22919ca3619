// From the end of a dead holder's lease to the next holder.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { quantile } from "../measure.ts";
import { leasehold } from "../services/leasehold.ts";
import type { Kind } from "../services/service.ts";
import type { Row, Section } from "./section.ts";

const ROUNDS = 2;
const LOCKS = 8;

/** The shortest that etcd grants at its defaults. */
const TTL_MS = 2_000;

export const takeover: Section = {
  name: "takeover",
  title: "Takeover after a crash",
  about: `A process takes ${LOCKS} locks for ${TTL_MS} ms each and is ended with SIGKILL; somebody waits for each of them. The time runs from the end of
the lease (the grant as its holder heard of it, and its length) until the waiter has the lock. Below zero: the lease was
over before its holder could know.`,
  async run({ peers, service }) {
    const services = [[leasehold, service] as const, ...peers];
    const times = new Map(services.map(([{ name }]) => [name, [] as number[]]));
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const [kind, { address }] of services) {
        times.get(kind.name)?.push(...(await crash(kind, address, `takeover ${round}`)));
      }
    }
    const ours = times.get(leasehold.name) ?? [];
    const rows = peers.flatMap(([{ name }]) =>
      (
        [
          ["p50", 0.5],
          ["worst", 1],
        ] as const
      ).map(([part, share]): Row => ({
        what: `takeover after the lease ended: ${part}`,
        unit: "ms",
        ours: quantile(ours, share),
        peer: { name, figure: quantile(times.get(name) ?? [], share) },
      })),
    );
    return { rows };
  },
};

async function crash(kind: Kind, address: string, name: string): Promise<number[]> {
  const locks = Array.from({ length: LOCKS }, (_, index) => `${name} ${index}`);
  const words = [
    join(import.meta.dirname, "../holder.ts"),
    kind.name,
    address,
    String(TTL_MS),
    ...locks,
  ];
  const holder = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(holder, "exit");
  const client = await kind.connect(address);
  try {
    const [line] = (await Promise.race([
      once(createInterface({ input: holder.stdout }), "line"),
      ended,
    ])) as [string];
    const grantedAt = JSON.parse(line) as number[];
    const waits = locks.map(async (lock, index) => {
      const release = await client.acquire(lock);
      const now = performance.timeOrigin + performance.now();
      await release();
      return now - (grantedAt[index] ?? NaN) - TTL_MS;
    });
    holder.kill("SIGKILL");
    return await Promise.all(waits);
  } finally {
    holder.kill("SIGKILL");
    await ended;
    await client.close();
  }
}
