// A Worker of a user's own, with a Durable Object of its own, that now keeps leases, too. It runs as it is, and as JavaScript.
import { DurableObject } from "cloudflare:workers";
import { Leasehold, memoryStore } from "leasehold";
import { durableObjectFence } from "leasehold/fence";
import { handler, type LeaseStore } from "leasehold/worker";
import { scenario } from "./scenario.js";

export { LeaseStore } from "leasehold/worker";

interface Env {
  readonly LEASES: DurableObjectNamespace<LeaseStore>;
  readonly COUNTER: DurableObjectNamespace<Counter>;
}

/** Was there before. What it counts is read, and some time later written. */
export class Counter extends DurableObject<Env> {
  readonly #fence = durableObjectFence(this.ctx.storage);

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    this.#fence.createTable();
  }

  async read(): Promise<number> {
    return (await this.ctx.storage.get<number>("count")) ?? 0;
  }

  write(count: number, fence: number): void {
    this.#fence.run("count", fence, () => this.ctx.storage.kv.put("count", count));
  }
}

export default {
  async fetch(request, env): Promise<Response> {
    switch (new URL(request.url).pathname) {
      case "/count":
        return Response.json(await count(env));
      case "/scenario":
        return Response.json({
          byStub: await scenario(env.LEASES),
          inProcess: await scenario(memoryStore()),
        });
      default:
        return handler.fetch(request, env);
    }
  },
} satisfies ExportedHandler<Env>;

/** Loses an update unless it is alone. */
function count(env: Env): Promise<number> {
  const counter = env.COUNTER.get(env.COUNTER.idFromName("the one"));
  return new Leasehold(env.LEASES).request("counter", async (lease) => {
    const next = (await counter.read()) + 1;
    await scheduler.wait(5);
    await counter.write(next, lease.fence);
    return next;
  });
}
