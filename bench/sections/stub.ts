// Uncontended cycles through the stub, against the hand-written object on the same workerd.
import { type Contender, type Figure, inTurns } from "../measure.ts";
import type { Task, Workerd } from "../workerd.ts";
import type { Row, Section } from "./section.ts";

const ROUNDS = 9;

/** Those who are measured, as the driver calls them. */
export const NAMES = {
  leasehold: "Leasehold",
  methods: "Leasehold, a call each",
  reference: "hand-written object",
  grouped: "hand-written, grouped",
};

type Store = keyof typeof NAMES;

const STORES = Object.keys(NAMES) as Store[];

export const stub: Section = {
  name: "stub",
  title: "Acquire and release through the stub",
  about: `A Worker calls the object on its stub: acquire, release, and again; at once means on as many locks of one space.
Leasehold's protocol has one message for the calls of a turn (\`stub.message\`, which the npm package uses); "a call each"
is the same through the methods \`stub.acquire\` and \`stub.release\`. The reference is \`bench/reference/store.js\`: a Durable
Object written by hand for the same row, on the same workerd and disk, with a method for each call and a commit for each.
"Grouped" is the same object with the calls of one turn of the event loop sharing a commit, as Leasehold's do.`,
  async run({ workerd }) {
    const rows: Row[] = [];
    const plot = new Map<Store, number[]>(STORES.map((store) => [store, []]));
    for (const atOnce of [1, 64, 256]) {
      const contenders = STORES.map((store) => cycles(workerd, store, { space: "stub", atOnce }));
      const figures = await inTurns(contenders, ROUNDS);
      for (const [store, values] of plot) values.push(figures.get(store)?.median ?? NaN);
      const row = (ours: Store, peer: Store): Row => ({
        what: `${ours === "methods" ? "a call each" : "stub"}, ${atOnce} at once`,
        unit: "cycles/s",
        ours: figures.get(ours) as Figure,
        peer: { name: NAMES[peer], figure: figures.get(peer) as Figure },
      });
      const goal = { atLeast: atOnce === 1 ? 1 : 5 };
      rows.push({ ...row("leasehold", "reference"), goal });
      rows.push(row("leasehold", "grouped"), row("methods", "reference"));
    }
    const series = [...plot].map(([store, values]) => ({ name: NAMES[store], values }));
    const bars = ["1 at once", "64 at once", "256 at once"];
    return { rows, plots: [{ name: "stub", title: this.title, unit: "cycles/s", bars, series }] };
  },
};

/** How long a round of them is. */
const ROUND_MS = 400;

/** Cycles a second. */
export function cycles(
  workerd: Workerd,
  store: Store,
  task: Omit<Task, "store" | "work">,
): Contender {
  return {
    name: store,
    async round() {
      const work = { ...task, store, work: "cycles", forMs: ROUND_MS } as const;
      const { count, elapsedMs } = await workerd.drive(work);
      return (count / elapsedMs) * 1_000;
    },
  };
}
