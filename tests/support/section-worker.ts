// node section-worker.ts <url> <log> <who>: 200 critical sections that note when they are entered and left.
import { appendFileSync } from "node:fs";
import { Leasehold } from "leasehold";

const [url, log, who] = process.argv.slice(2) as [string, string, string];
const locks = new Leasehold(url);
for (let section = 0; section < 200; section += 1) {
  await locks.request("sections", async ({ fence }) => {
    appendFileSync(log, `enter ${who} ${fence}\n`);
    await new Promise((resolve) => setTimeout(resolve, 1));
    appendFileSync(log, `leave ${who} ${fence}\n`);
  });
}
