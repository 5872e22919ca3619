// Rows written per command, by the storage's own count.
import type { Row, Section } from "./section.ts";

const LOCKS = 50_000;

const MOST = { acquire: 2, renew: 1, release: 1 };

export const rows: Section = {
  name: "rows",
  title: "Rows written",
  about: `${LOCKS.toLocaleString("en")} locks acquired, renewed and released through the stub. Every statement's \`rowsWritten\` is added up, and
every alarm that is set counts as a row, as it is billed. What is left in the end are the rows of all tables; the one is the
fence counter.`,
  async run({ workerd }) {
    const { written, left } = await workerd.drive({
      ...{ store: "leasehold", work: "rows", space: "rows" },
      ...{ count: LOCKS, atOnce: 64 },
    });
    const perCommand = (["acquire", "renew", "release"] as const).map((command): Row => {
      const { rows, alarms } = written[command];
      const ours = (rows + alarms) / LOCKS;
      return {
        what: `rows written per ${command}`,
        unit: "rows",
        ours,
        goal: { atMost: MOST[command] },
      };
    });
    const rest = Object.values(left).reduce((sum, count) => sum + count, 0);
    return {
      rows: [...perCommand, { what: "rows left", unit: "rows", ours: rest, goal: { atMost: 1 } }],
    };
  },
};
