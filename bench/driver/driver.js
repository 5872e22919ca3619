// A Worker that calls the lease stores through their stubs, from inside workerd: a stub has no other caller.
//
// `POST /` with `{ store, work, count, atOnce, spaces, ... }` does `work` so often and answers `{ elapsedMs }` and what
// the work came to. workerd's clock stands still between I/O, so a span that begins and ends with a call is true.

const stores = {
  leasehold: {
    namespace: (env) => env.LEASES,
    async acquire(stub, lock, ttlMs) {
      const token = crypto.randomUUID();
      const fields = { token, requestId: crypto.randomUUID(), ttlMs };
      const reply = await stub.acquire(lock, fields);
      if (reply.status !== "granted") throw new Error(`acquire: ${JSON.stringify(reply)}`);
      return { token, fence: reply.lease.fence };
    },
    async release(stub, lock, { token, fence }) {
      const reply = await stub.release(lock, { token, fence });
      if (reply.status !== "released") throw new Error(`release: ${JSON.stringify(reply)}`);
    },
    async renew(stub, lock, { token, fence }) {
      const reply = await stub.renew(lock, { token, fence });
      if (reply.status !== "renewed") throw new Error(`renew: ${JSON.stringify(reply)}`);
    },
  },
  reference: handWritten((env) => env.REFERENCE),
  grouped: handWritten((env) => env.GROUPED),
};

function handWritten(namespace) {
  return {
    namespace,
    async acquire(stub, lock, ttlMs) {
      const token = crypto.randomUUID();
      const { fence } = await stub.acquire(lock, token, ttlMs);
      if (!fence) throw new Error("acquire: held");
      return { token, fence };
    },
    async release(stub, lock, { token, fence }) {
      if (!(await stub.release(lock, token, fence))) throw new Error("release: lost");
    },
  };
}

const TTL_MS = 30_000;

const works = {
  /** Acquire and release, over and over, `atOnce` of them side by side, each with a lock of its own. */
  async cycles({ store, stubs, count, atOnce }) {
    await lanes(count, atOnce, async (lane) => {
      const stub = stubs[lane % stubs.length];
      const lock = `lock ${lane}`;
      await store.release(stub, lock, await store.acquire(stub, lock, TTL_MS));
    });
  },

  /** Leases that stay: `count` locks, each held for `ttlMs`. */
  async fill({ store, stubs, count, atOnce, ttlMs = TTL_MS }) {
    await lanes(count, atOnce, (_, index) => store.acquire(stubs[0], `lease ${index}`, ttlMs));
  },

  /** One acquire, of a lock that nobody has. */
  async first({ store, stubs: [stub] }) {
    await store.acquire(stub, crypto.randomUUID(), TTL_MS);
  },

  /** What each command writes, by the storage's own count, and what is left of it all in the end. */
  async rows({ store, stubs: [stub], count, atOnce }) {
    const leases = [];
    const commands = {
      acquire: async (index) =>
        (leases[index] = await store.acquire(stub, `lock ${index}`, TTL_MS)),
      renew: (index) => store.renew(stub, `lock ${index}`, leases[index]),
      release: (index) => store.release(stub, `lock ${index}`, leases[index]),
    };
    const written = {};
    // What the object writes once, when it starts.
    await commands.release(0, await commands.acquire(0));
    await stub.written();
    for (const [name, command] of Object.entries(commands)) {
      await lanes(count, atOnce, (_, index) => command(index));
      written[name] = await stub.written();
    }
    return { written, left: await stub.left() };
  },
};

/** Does `work` `count` times, `atOnce` at a time. */
async function lanes(count, atOnce, work) {
  let index = 0;
  const lane = async (_, number) => {
    while (index < count) await work(number, index++);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

export default {
  async fetch(request, env) {
    const { store: name, work, space, spaces = 1, ...rest } = await request.json();
    const store = stores[name];
    const namespace = name === "leasehold" && work === "rows" ? env.COUNTED : store.namespace(env);
    const stubs = Array.from({ length: spaces }, (_, index) =>
      namespace.get(namespace.idFromName(`${space} ${index}`)),
    );
    const startedAt = performance.now();
    const outcome = await works[work]({ store, stubs, ...rest });
    return Response.json({ elapsedMs: performance.now() - startedAt, ...outcome });
  },
};
