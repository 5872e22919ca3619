// A Worker that calls the lease stores through their stubs, from inside workerd: a stub has no other caller.
//
// `POST /` with `{ store, work, atOnce, spaces, ... }` does `work` and answers `{ elapsedMs }` and what the work came to. workerd's clock stands still between I/O, so a span that begins and ends with a call is true.

const stores = {
  leasehold: commands(together),
  methods: commands((stub, op, lock, fields) => stub[op](lock, fields)),
  reference: handWritten((env) => env.REFERENCE),
  grouped: handWritten((env) => env.GROUPED),
};

/** Leasehold's protocol, by whatever brings a command to the object. */
function commands(ask) {
  const expect = async (status, ...command) => {
    const reply = await ask(...command);
    if (reply.status !== status) throw new Error(`${command[1]}: ${JSON.stringify(reply)}`);
    return reply;
  };
  return {
    namespace: (env) => env.LEASES,
    async acquire(stub, lock, ttlMs) {
      const token = crypto.randomUUID();
      const fields = { token, requestId: crypto.randomUUID(), ttlMs };
      const { lease } = await expect("granted", stub, "acquire", lock, fields);
      return { token, fence: lease.fence };
    },
    renew: (stub, lock, lease) => expect("renewed", stub, "renew", lock, lease),
    release: (stub, lock, lease) => expect("released", stub, "release", lock, lease),
  };
}

/** What is asked in this turn and not sent yet, by stub. */
const unsent = new Map();

/** The longest message, bytes; all of ours are ASCII. */
const MAX_BYTES = 16 * 1024;

/** What is asked in one turn travels as one message, or as few as hold it: as the npm package does. */
async function together(stub, op, lock, fields) {
  const text = JSON.stringify({ op, lock, ...fields });
  let message = unsent.get(stub);
  if (!message || message.bytes + text.length > MAX_BYTES) {
    message = { texts: [], bytes: 2 };
    message.replies = send(stub, message);
    unsent.set(stub, message);
  }
  message.bytes += text.length + 1;
  const at = message.texts.push(text) - 1;
  return (await message.replies)[at];
}

async function send(stub, message) {
  // At the end of the turn.
  await undefined;
  if (unsent.get(stub) === message) unsent.delete(stub);
  const { texts } = message;
  if (texts.length > 1) return JSON.parse(await stub.message(`[${texts}]`));
  return [JSON.parse(await stub.message(texts[0]))];
}

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
  /** Acquire and release, over and over, `atOnce` of them side by side, each with a lock of its own, for so long. */
  async cycles({ store, stubs, forMs, atOnce }) {
    const endAt = performance.now() + forMs;
    let count = 0;
    const lane = async (_, number) => {
      const stub = stubs[number % stubs.length];
      const lock = `lock ${number}`;
      while (performance.now() < endAt) {
        await store.release(stub, lock, await store.acquire(stub, lock, TTL_MS));
        count += 1;
      }
    };
    await Promise.all(Array.from({ length: atOnce }, lane));
    return { count };
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
    const namespace = work === "rows" ? env.COUNTED : store.namespace(env);
    const stubs = Array.from({ length: spaces }, (_, index) =>
      namespace.get(namespace.idFromName(`${space} ${index}`)),
    );
    const startedAt = performance.now();
    const outcome = await works[work]({ store, stubs, ...rest });
    return Response.json({ elapsedMs: performance.now() - startedAt, ...outcome });
  },
};
