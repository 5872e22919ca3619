// node recipe-process.ts <recipe> <url> [<where its database, or its API, is>]: runs a recipe of docs/recipes as a service of
// its own would. Whatever is slow there says so and waits until a line of the input lets it go on.
import { createInterface } from "node:readline";
import { Leasehold } from "leasehold";
import pg from "pg";
import { importCustomers } from "../../docs/recipes/long-job.ts";
import { numberOrders } from "../../docs/recipes/leader.ts";
import { callAtOnce } from "../../docs/recipes/rate-limited-api.ts";
import { singleFlight } from "../../docs/recipes/single-flight.ts";

const [recipe, url, where = ""] = process.argv.slice(2) as [string, string, string?];
const locks = new Leasehold(url);
const pool = new pg.Pool({ host: where, user: "leasehold", database: "postgres", max: 2 });
const input = createInterface(process.stdin);
// A process that only waits for a lease would end.
setInterval(() => {}, 60_000);

/** Says where it is, and goes on with the next line. */
async function pause(at: string): Promise<void> {
  const line = new Promise((resolve) => input.once("line", resolve));
  console.log(at);
  await line;
}

const recipes: Record<string, () => Promise<unknown>> = {
  "long-job": () =>
    importCustomers(locks, pool, async (after) => {
      if (after === 20) await pause("read");
      return customers(after);
    }),
  leader: () => numberOrders(locks, pool, new AbortController().signal),
  "rate-limited-api": () => callAtOnce(locks, `${where}/held`),
  "single-flight": () =>
    singleFlight({
      locks,
      cache: { get: async () => undefined, set: async () => {} },
      freshMs: 1,
      usableMs: 1,
      later: () => {},
    })("page", () => pause("loading").then(() => "never")),
};

/** Fifty, by pages of ten. */
function customers(after: number): string[] {
  const count = after < 50 ? 10 : 0;
  return Array.from({ length: count }, (_, at) => `customer ${after + at + 1}`);
}

const outcome = await recipes[recipe]!().catch((error) => error.code ?? error.message);
console.log(outcome);
process.exit();
