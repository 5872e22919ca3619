// One of several processes gives orders their numbers, without a gap. When it is gone another one goes on.
import { setTimeout as sleep } from "node:timers/promises";
import type { Leasehold } from "leasehold";
import { postgresFence } from "leasehold/fence";
import type { Pool } from "pg";

const NAME = "order-numbers";

/**
 * Campaigns, leads, and campaigns again, until the signal aborts or the database fails: then it rejects. A write that is
 * refused with `stale_fence`, because a newer leader wrote before this one knew that its term was over, ends the term.
 */
export function numberOrders(locks: Leasehold, pool: Pool, signal: AbortSignal): Promise<never> {
  const options = { ttlMs: 10_000, signal, info: { pid: process.pid } };
  return locks.elect(NAME, options, (term) => lead(term, pool));
}

async function lead(term: { fence: number; signal: AbortSignal }, pool: Pool): Promise<void> {
  const guard = postgresFence(pool);
  await guard.admit(NAME, term); // from here on no earlier leader writes, so what is read now stays true
  let last = await lastNumber(pool);
  while (!term.signal.aborted) {
    const { rows } = await pool.query("SELECT id FROM orders WHERE number IS NULL ORDER BY id");
    if (rows.length > 0) {
      await guard.run(NAME, term, async (client) => {
        for (const { id } of rows) {
          await client.query("UPDATE orders SET number = $2 WHERE id = $1", [id, ++last]);
        }
      });
    }
    await sleep(250, undefined, { signal: term.signal });
  }
}

async function lastNumber(pool: Pool): Promise<number> {
  const { rows } = await pool.query("SELECT coalesce(max(number), 0) AS last FROM orders");
  return rows[0].last;
}
