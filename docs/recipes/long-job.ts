// An import that takes hours and goes on where it was, in this process or another.
import type { Leasehold } from "leasehold";
import { postgresFence } from "leasehold/fence";
import type { Pool } from "pg";

const JOB = "import:customers";

/** The next few names after so many, none at the end. */
type Source = (after: number, signal: AbortSignal) => Promise<readonly string[]>;

export async function importCustomers(
  locks: Leasehold,
  pool: Pool,
  source: Source,
): Promise<"done" | "elsewhere"> {
  const guard = postgresFence(pool);
  return locks.request(JOB, { ttlMs: 10_000, ifAvailable: true }, async (lease) => {
    if (lease === null) return "elsewhere";
    await guard.admit(JOB, lease); // first: else who was before could still move what is read next
    let done = await checkpoint(pool);
    for (;;) {
      const names = await source(done, lease.signal);
      if (names.length === 0) return "done";
      // What was imported and how far that is: both or neither, and neither by who was paused until now.
      await guard.run(JOB, lease, async (client) => {
        for (const name of names) {
          await client.query("INSERT INTO customers (name) VALUES ($1)", [name]);
        }
        await client.query(
          `INSERT INTO checkpoints (job, done) VALUES ($1, $2)
          ON CONFLICT (job) DO UPDATE SET done = excluded.done`,
          [JOB, done + names.length],
        );
      });
      done += names.length;
    }
  });
}

async function checkpoint(pool: Pool): Promise<number> {
  const { rows } = await pool.query("SELECT done FROM checkpoints WHERE job = $1", [JOB]);
  return rows[0]?.done ?? 0;
}
