// A cron job that is done once a day, however often its trigger fires.
import type { D1Database, ExportedHandler } from "@cloudflare/workers-types";
import { Leasehold, type LeaseNamespace } from "leasehold";

export { LeaseStore } from "leasehold/worker";

interface Env {
  readonly LEASES: LeaseNamespace;
  /** `CREATE TABLE done (job TEXT PRIMARY KEY)` */
  readonly DB: D1Database;
  readonly REPORTS_URL: string;
}

export default {
  // "crons": ["*/10 * * * *"]. What failed, or was cut off, is done at a later trigger of the same day.
  async scheduled({ scheduledTime }, env) {
    // The tick is in the name, and it is the trigger's: the clock may be past midnight by now.
    const job = `report:${new Date(scheduledTime).toISOString().slice(0, 10)}`;
    const terms = { ttlMs: 30_000, maxHoldMs: 15 * 60_000, ifAvailable: true };
    // Awaited: after this function has returned nothing would renew the lease for long.
    await new Leasehold(env.LEASES).request(job, terms, async (lease) => {
      if (lease === null) return; // another delivery is at it
      if (await isDone(job, env)) return; // asked under the lease: before it, the answer may be out of date
      await sendReport(job, env, lease.signal);
      await env.DB.prepare("INSERT OR IGNORE INTO done (job) VALUES (?)").bind(job).run();
    });
  },
} satisfies ExportedHandler<Env>;

async function isDone(job: string, env: Env): Promise<boolean> {
  const row = await env.DB.prepare("SELECT job FROM done WHERE job = ?").bind(job).first();
  return row !== null;
}

async function sendReport(job: string, env: Env, signal: AbortSignal): Promise<void> {
  const response = await fetch(env.REPORTS_URL, {
    method: "POST",
    // Who died between this call and its row in `done` is repeated, and the receiver knows it by the job.
    headers: { "idempotency-key": job },
    body: `the report of ${job}`,
    signal,
  });
  if (!response.ok) throw new Error(`${job} was answered ${response.status}`);
}
