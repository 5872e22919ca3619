// Uncontended cycles from Node.js over the network.
import { type Figure, inTurns, throughput } from "../measure.ts";
import { byHand } from "../services/frames.ts";
import { handWritten, handWrittenOn } from "../services/hand-written.ts";
import { leasehold } from "../services/leasehold.ts";
import type { Row, Section } from "./section.ts";

const ROUNDS = 5;

export const socket: Section = {
  name: "socket",
  title: "Acquire and release from Node.js",
  about: `One client with one connection acquires and releases, at once means as many locks. Each client is its library as
published; Leasehold's is the npm package; "by hand" speaks its protocol over a WebSocket without the package. The
hand-written object (\`bench/reference/waiting.js\`) is spoken to in the same way: it is what a WebSocket of Node's, workerd
and a commit take at the least. Before the first round each does a few thousand cycles, 256 at once.`,
  async run({ peers, service, workerd }) {
    const beside = [
      [byHand, service] as const,
      [handWritten, handWrittenOn(workerd)] as const,
      ...peers,
    ];
    const services = [[leasehold, service] as const, ...beside];
    const clients = await Promise.all(
      services.map(
        async ([kind, { address }]) => [kind.name, await kind.connect(address)] as const,
      ),
    );
    const contendersOf = (atOnce: number) =>
      clients.map(([name, client]) =>
        throughput(name, atOnce, async (lane) => {
          const release = await client.acquire(`cycle ${lane}`);
          await release();
        }),
      );
    // A program that has run for a while has its code compiled.
    await inTurns(contendersOf(256), 1);
    const rows: Row[] = [];
    const plot = new Map(clients.map(([name]) => [name, [] as number[]]));
    for (const atOnce of [1, 64, 256]) {
      const figures = await inTurns(contendersOf(atOnce), ROUNDS);
      for (const [name, { median }] of figures) plot.get(name)?.push(median);
      for (const [{ name }] of beside) {
        const figure = figures.get(name) as Figure;
        const goal = name === "redis-semaphore" && {
          goal: { atLeast: atOnce === 1 ? 1 / 1.5 : 0.5 },
        };
        rows.push({
          ...{
            what: `from Node.js, ${atOnce} at once`,
            unit: "cycles/s",
            peer: { name, figure },
            ...goal,
          },
          ours: figures.get(leasehold.name) as Figure,
        });
      }
    }
    for (const [, client] of clients) await client.close();
    const series = [...plot].map(([name, values]) => ({ name, values }));
    const bars = ["1 at once", "64 at once", "256 at once"];
    return { rows, plots: [{ name: "socket", title: this.title, unit: "cycles/s", bars, series }] };
  },
};
