// A document in R2 and its row in D1, changed together. The object is the truth, and the row says what is in it.
import type { D1Database, ExportedHandler, R2Bucket, R2Object } from "@cloudflare/workers-types";
import { Leasehold, type LeaseNamespace } from "leasehold";
import { d1Fence, r2Fence } from "leasehold/fence";

export { LeaseStore } from "leasehold/worker";

interface Env {
  readonly LEASES: LeaseNamespace;
  /** `CREATE TABLE documents (id TEXT PRIMARY KEY, etag TEXT, size INTEGER)`, and that of `d1Fence` */
  readonly DB: D1Database;
  readonly BUCKET: R2Bucket;
}

export default {
  /** POST /{id} adds a line to a document. */
  async fetch(request, env) {
    const id = new URL(request.url).pathname.slice(1);
    const line = await request.text();
    const { etag, size } = await change(id, env, (text) => `${text}${line}\n`);
    return Response.json({ etag, size }) as never;
  },
} satisfies ExportedHandler<Env>;

function change(id: string, env: Env, edit: (text: string) => string): Promise<R2Object> {
  const name = `document:${id}`; // one document's, not all documents'
  const terms = { ttlMs: 15_000, waitMs: 20_000 };
  return new Leasehold(env.LEASES).request(name, terms, async (lease) => {
    const rows = d1Fence(env.DB);
    // Announces the fence, and brings the row up to date for a holder that died between object and row.
    await rows.run(name, lease, [rowOf(id, env, await env.BUCKET.head(name))]);
    lease.signal.throwIfAborted();
    const object = await r2Fence(env.BUCKET).run(name, lease, async (before) =>
      edit((await before?.text()) ?? ""),
    );
    await rows.run(name, lease, [rowOf(id, env, object)]);
    return object;
  });
}

function rowOf(id: string, env: Env, object: R2Object | null) {
  if (object === null) return env.DB.prepare("DELETE FROM documents WHERE id = ?").bind(id);
  const { etag, size } = object;
  const upsert = "INSERT OR REPLACE INTO documents (id, etag, size) VALUES (?, ?, ?)";
  return env.DB.prepare(upsert).bind(id, etag, size);
}
