// What more than one space adds on one machine.
import { type Figure, inTurns } from "../measure.ts";
import type { Row, Section } from "./section.ts";
import { cycles, NAMES } from "./stub.ts";

const ROUNDS = 5;

export const spaces: Section = {
  name: "spaces",
  title: "Throughput over several spaces",
  about: `256 callers at once through stubs, spread over 1, 4 and 16 spaces. workerd runs them all on one thread here, so this
shows what a space costs beside others; on Cloudflare each has a thread of its own.`,
  async run({ workerd }) {
    const rows: Row[] = [];
    for (const count of [1, 4, 16]) {
      const figures = await inTurns(
        (["leasehold", "reference"] as const).map((store) =>
          cycles(workerd, store, { space: "spaces", spaces: count, atOnce: 256 }),
        ),
        ROUNDS,
      );
      rows.push({
        what: `256 at once over ${count} ${count === 1 ? "space" : "spaces"}`,
        unit: "cycles/s",
        ours: figures.get("leasehold") as Figure,
        peer: { name: NAMES.reference, figure: figures.get("reference") as Figure },
      });
    }
    return { rows };
  },
};
