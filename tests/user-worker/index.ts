// A Worker as a user would write it, with the package from npm; and the cases of the tests, run inside workerd.
import {
  Leasehold,
  type LeaseholdOptions,
  type LeaseNamespace,
  memoryStore,
  type ServiceBinding,
  type Target,
} from "leasehold";
import { handler } from "leasehold/worker";
import { cases, waiting, watching } from "../support/cases.ts";

export { LeaseStore } from "leasehold/worker";

interface Env {
  readonly LEASES: LeaseNamespace;
  readonly SELF: ServiceBinding;
}

/** What the lock guards: read, waited, written. */
let counter = 0;
let names = 0;
const store = memoryStore();

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    switch (pathname) {
      case "/count": {
        const locks = new Leasehold(env.LEASES);
        const fence = await locks.request("counter", async (lease) => {
          const before = counter;
          await new Promise((resolve) => setTimeout(resolve, 5));
          counter = before + 1;
          return lease.fence;
        });
        return Response.json({ counter, fence });
      }
      case "/cases": {
        const over: Record<string, Target> = { stub: env.LEASES, service: env.SELF, memory: store };
        const target = over[searchParams.get("over") ?? ""]!;
        const world = {
          client: (options: LeaseholdOptions = {}) => new Leasehold(target, options),
          name: () => `${searchParams.get("over")} ${++names}`,
        };
        try {
          await { ...cases, ...watching, ...waiting }[searchParams.get("title") ?? ""]!(world);
          return new Response("passed");
        } catch (error) {
          return new Response((error as Error).stack ?? String(error), { status: 500 });
        }
      }
      default:
        return handler.fetch(request, env as never);
    }
  },
};
