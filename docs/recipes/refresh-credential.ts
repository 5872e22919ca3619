// A refresh token that may be used once: one caller uses it, and all others get what it got.
import type { D1Database, ExecutionContext, ExportedHandler } from "@cloudflare/workers-types";
import { Leasehold, type LeaseNamespace } from "leasehold";

export { LeaseStore } from "leasehold/worker";

interface Env {
  readonly LEASES: LeaseNamespace;
  /** `CREATE TABLE credentials (account TEXT PRIMARY KEY, access, expires_at, refresh, refused)` */
  readonly DB: D1Database;
  readonly TOKEN_URL: string;
  readonly API_URL: string;
}

export default {
  async fetch(_, env, ctx) {
    const token = await accessToken("acme", env, ctx);
    return fetch(env.API_URL, { headers: { authorization: `Bearer ${token}` } }) as never;
  },
} satisfies ExportedHandler<Env>;

async function accessToken(account: string, env: Env, ctx: ExecutionContext): Promise<string> {
  const known = await read(account, env);
  if (isFresh(known)) return known.access;
  const terms = { ttlMs: 15_000, waitMs: 30_000 };
  const refreshed = new Leasehold(env.LEASES).request(`token:${account}`, terms, async (lease) => {
    const current = await read(account, env); // again: whoever was first has stored another one
    if (isFresh(current)) return current.access;
    if (current.refused === current.refresh) throw new Error(`${account} has to log in again`);
    await lease.renew(); // all of the ttl is ahead, and the call below is over before it is
    return refresh(account, current.refresh, env);
  });
  // A client that hangs up must not cut this off: the answer is the only copy of the next refresh token.
  ctx.waitUntil(refreshed.catch(() => {}));
  return refreshed;
}

async function refresh(account: string, spent: string, env: Env): Promise<string> {
  const body = new URLSearchParams({ grant_type: "refresh_token", refresh_token: spent });
  // Not the signal of the lease: a refresh token that was spent is not got back by hanging up.
  const response = await fetch(env.TOKEN_URL, {
    method: "POST",
    body,
    signal: AbortSignal.timeout(5_000),
  });
  if (response.status === 400) {
    const refuse = "UPDATE credentials SET refused = ? WHERE account = ?";
    await env.DB.prepare(refuse).bind(spent, account).run();
  }
  if (!response.ok) throw new Error(`the refresh was answered ${response.status}`);
  const { access_token, refresh_token, expires_in } = (await response.json()) as any;
  // In place of the one that was spent, and of no other.
  const store = `UPDATE credentials SET access = ?, expires_at = ?, refresh = ?
    WHERE account = ? AND refresh = ?`;
  const expiresAt = Date.now() + expires_in * 1_000;
  await env.DB.prepare(store).bind(access_token, expiresAt, refresh_token, account, spent).run();
  return access_token;
}

interface Credential {
  readonly access: string;
  readonly expires_at: number;
  readonly refresh: string;
  readonly refused: string | null;
}

async function read(account: string, env: Env): Promise<Credential> {
  const select = "SELECT * FROM credentials WHERE account = ?";
  const found = await env.DB.prepare(select).bind(account).first<Credential>();
  if (found === null) throw new Error(`${account} has to log in`);
  return found;
}

/** Also when it arrives. */
function isFresh({ expires_at }: Credential): boolean {
  return Date.now() < expires_at - 60_000;
}
