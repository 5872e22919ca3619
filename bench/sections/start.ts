// How long an object takes to its first answer, by what it has stored.
import { figure } from "../measure.ts";
import type { Row, Section } from "./section.ts";

const ROUNDS = 5;
const LEASES = [0, 1_000, 100_000];

/** Longer than the section takes: none of them expires while it is measured. */
const TTL_MS = 3_600_000;

export const start: Section = {
  name: "start",
  title: "Start of an object",
  about: `workerd is ended with SIGKILL and started on the same state; then each object has its first call, an acquire of a lock
that is free, through its stub. Another object was called before, so that what is measured is the object and not its Worker, and a
millisecond for the way to the driver.`,
  async run({ workerd }) {
    const space = (leases: number) => `start with ${leases}`;
    for (const leases of LEASES) {
      const task = { store: "leasehold", work: "fill", atOnce: 256, ttlMs: TTL_MS } as const;
      await workerd.drive({ ...task, space: space(leases), count: leases });
    }
    const times = new Map(LEASES.map((leases) => [leases, [] as number[]]));
    for (let round = 0; round < ROUNDS; round += 1) {
      await workerd.restart();
      const task = { store: "leasehold", work: "first" } as const;
      await workerd.drive({ ...task, space: "warm" });
      for (const leases of LEASES) {
        // By the clock of this process: that of workerd has whole milliseconds only.
        const startedAt = performance.now();
        await workerd.drive({ ...task, space: space(leases) });
        times.get(leases)?.push(performance.now() - startedAt);
      }
    }
    const rows = [...times].map(([leases, values]): Row => ({
      what: `first answer of an object with ${leases.toLocaleString("en")} leases`,
      unit: "ms",
      ours: figure(values),
    }));
    return { rows };
  },
};
