// Uncontended cycles in the in-process store.
import { type Figure, inTurns, throughput } from "../measure.ts";
import { built } from "../services/leasehold.ts";
import type { Row, Section } from "./section.ts";

const ROUNDS = 5;

export const memory: Section = {
  name: "memory",
  title: "Acquire and release in the in-process store",
  about: `The npm package over \`memoryStore()\`: no network and no disk, so this is what the client, the engine and the way into
WebAssembly cost. One at a time is bound by the timer that collects the calls of one turn.`,
  async run() {
    const { Leasehold, memoryStore } = await built();
    const locks = new Leasehold(memoryStore());
    const rows: Row[] = [];
    for (const atOnce of [1, 64, 256]) {
      const ours = throughput("ours", atOnce, async (lane) => {
        const lease = await locks.acquire(`lock ${lane}`);
        await lease.release();
      });
      const figures = await inTurns([ours], ROUNDS);
      rows.push({
        what: `in-process, ${atOnce} at once`,
        unit: "cycles/s",
        ours: figures.get("ours") as Figure,
      });
    }
    await locks.close();
    return { rows };
  },
};
