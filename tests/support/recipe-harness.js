// Around a Worker of docs/recipes, what its tests do to it: end a lease, and pause a request where it writes.
import { Leasehold } from "leasehold";
import recipe from "recipe";

export { LeaseStore } from "recipe";

export default {
  ...recipe,
  async fetch(request, env, ctx) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/revoke") {
      return Response.json(await new Leasehold(env.LEASES).revoke(searchParams.get("lock")));
    }
    try {
      return await recipe.fetch(request, paused(env, request.headers.get("pause-before")), ctx);
    } catch (error) {
      return new Response(error.code ?? error.message, { status: 500 });
    }
  },
};

/** The object and the row are written as ever, but the test is asked before. */
function paused(env, before) {
  let next = "object";
  const pauseOnce = async (at) => {
    if (next !== at) return;
    next = at === "object" ? "row" : "end";
    if (before === at) await fetch(env.PAUSE_URL);
  };
  return {
    ...env,
    BUCKET: replaced(env.BUCKET, "put", async (put, ...args) => {
      await pauseOnce("object");
      return put(...args);
    }),
    DB: replaced(env.DB, "batch", async (batch, ...args) => {
      await pauseOnce("row");
      return batch(...args);
    }),
  };
}

function replaced(target, name, replacement) {
  return new Proxy(target, {
    get(_, property) {
      const method = target[property].bind(target);
      return property === name ? (...args) => replacement(method, ...args) : method;
    },
  });
}
