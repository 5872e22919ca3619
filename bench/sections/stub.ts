// Uncontended cycles through the stub, against the hand-written object on the same workerd.
import { type Contender, type Figure, inTurns } from "../measure.ts";
import type { Task, Workerd } from "../workerd.ts";
import type { Row, Section } from "./section.ts";

const ROUNDS = 7;

/** Cycles of a round: for a little less than a second. */
const COUNT = { 1: 600, 64: 5_000, 256: 5_000 } as const;
/** The hand-written object commits each call by itself. */
const COUNT_UNGROUPED = { 1: 600, 64: 1_200, 256: 1_200 } as const;

export const stub: Section = {
  name: "stub",
  title: "Acquire and release through the stub",
  about: `A Worker calls the object's methods on its stub: acquire, release, and again; at once means on as many locks of one
space. The reference is \`bench/reference/store.js\`: a Durable Object written by hand for the same row, on the same workerd and
disk. "Grouped" is the same with the calls of one turn sharing a commit, as Leasehold's do.`,
  async run({ workerd }) {
    const rows: Row[] = [];
    const plot: Record<string, number[]> = { leasehold: [], reference: [], grouped: [] };
    for (const atOnce of [1, 64, 256] as const) {
      const figures = await inTurns(
        (["leasehold", "reference", "grouped"] as const).map((store) => {
          const count = (store === "reference" ? COUNT_UNGROUPED : COUNT)[atOnce];
          return cycles(workerd, { store, work: "cycles", space: "stub", count, atOnce });
        }),
        ROUNDS,
      );
      for (const [name, { median }] of figures) plot[name]?.push(median);
      const ours = figures.get("leasehold") as Figure;
      const row = (peer: "reference" | "grouped"): Row => ({
        what: `stub, ${atOnce} at once`,
        unit: "cycles/s",
        ours,
        peer: { name: NAMES[peer], figure: figures.get(peer) as Figure },
      });
      rows.push({ ...row("reference"), goal: { atLeast: atOnce === 1 ? 1 : 5 } }, row("grouped"));
    }
    const series = (["leasehold", "reference", "grouped"] as const).map((name) => ({
      name: NAMES[name],
      values: plot[name] ?? [],
    }));
    const bars = ["1 at once", "64 at once", "256 at once"];
    return { rows, plots: [{ name: "stub", title: this.title, unit: "cycles/s", bars, series }] };
  },
};

export const NAMES = {
  leasehold: "Leasehold",
  reference: "hand-written object",
  grouped: "hand-written, grouped",
};

export function cycles(workerd: Workerd, task: Task): Contender {
  return {
    name: task.store,
    async round() {
      const { elapsedMs } = await workerd.drive(task);
      return (task.count / elapsedMs) * 1_000;
    },
  };
}
