// The Worker under test, and what the tests need beside it: the stub's methods over HTTP, and stores
// that can be made to fail.
import { wasmBytes } from "./wasm-memory.js";
import { handler, LeaseStore } from "./worker.js";

/** Objects constructed in this isolate. */
let constructed = 0;

/** What objects that are constructed from now on take for the secret LEASEHOLD_KEYS. */
let keys;

/** What was written to the dataset that counts events. */
const points = [];

/** A lease store that counts what it writes, and fails when it is told to. */
export class Store extends LeaseStore {
  constructor(state, env) {
    const written = { rows: 0, alarms: 0 };
    const { storage } = state;
    const { sql } = storage;
    const exec = sql.exec.bind(sql);
    const setAlarm = storage.setAlarm.bind(storage);
    sql.exec = (...statement) => {
      const cursor = exec(...statement);
      written.rows += cursor.rowsWritten;
      return cursor;
    };
    storage.setAlarm = (at) => {
      written.alarms += 1;
      return setAlarm(at);
    };
    const LEASEHOLD_EVENTS = env.COUNT_EVENTS && { writeDataPoint: (point) => points.push(point) };
    super(state, { ...env, ...(keys && { LEASEHOLD_KEYS: keys }), LEASEHOLD_EVENTS });
    constructed += 1;
    this.written = written;
    this.exec = exec;
  }

  /** Rows and alarms written since the object was constructed. */
  countWritten() {
    return this.written;
  }

  setKeys(text) {
    keys = text;
  }

  points() {
    return points;
  }

  countConstructed() {
    return constructed;
  }

  /** The tables as they are. */
  rows() {
    const hasTables = this.exec("SELECT name FROM sqlite_master WHERE name = 'entry'").toArray()
      .length;
    if (!hasTables) return { entries: [], space: [] };
    return {
      entries: this.exec("SELECT lock, place FROM entry ORDER BY lock, place LIMIT 1000").toArray(),
      space: this.exec("SELECT fence FROM space").toArray(),
    };
  }

  /** From now on every such write of an entry fails, as on a full disk. */
  breakStorage(which = ["INSERT", "DELETE"]) {
    for (const what of which) {
      this.exec(
        `CREATE TRIGGER broken_${what} BEFORE ${what} ON entry BEGIN SELECT RAISE(ABORT, 'broken'); END`,
      );
    }
  }

  mendStorage() {
    this.exec("DROP TRIGGER IF EXISTS broken_INSERT");
    this.exec("DROP TRIGGER IF EXISTS broken_DELETE");
  }

  /** Panics in Rust; only the Worker built with the feature `faults` does. */
  async panic() {
    const [status] = await this.turns.call("panic", null, {});
    return status;
  }

  /** Methods called in one turn: what is asked while an answer is given has the next turn together. */
  together(calls) {
    return new Promise((resolve) => {
      const call = ([method, ...args]) => this[method](...args);
      const onAnswer = () => resolve(Promise.all(calls.map(call)));
      this.turns.post("list", null, {}, onAnswer);
    });
  }

  /** Ends this instance as an eviction or a deploy would, with all it has in memory. */
  evict() {
    this.ctx.abort("evicted by the test");
  }

  /** Rings as the runtime would. */
  ring() {
    return this.alarm();
  }

  /** What the object calls itself. */
  ownName() {
    return this.ctx.id.name;
  }

  /** The memory of WebAssembly, which all objects of this isolate share. */
  countBytes() {
    return wasmBytes();
  }

  /** Takes the locks of these numbers, all in one turn; resolves with their fences. */
  async hold(from, count, ttlMs = 86_400_000) {
    const asks = Array.from({ length: count }, (_, at) =>
      this.acquire(`lock-${from + at}`, { token: `t${from + at}`, requestId: "r", ttlMs }),
    );
    return (await Promise.all(asks)).map(({ lease }) => lease.fence);
  }

  /** Takes so many locks and gives them back, a thousand in one turn. Resolves with how many were given back. */
  async cycle(from, count) {
    const atOnce = 1_000;
    let released = 0;
    for (let first = from; first < from + count; first += atOnce) {
      const fences = await this.hold(first, atOnce);
      const releases = fences.map((fence, at) =>
        this.release(`lock-${first + at}`, { token: `t${first + at}`, fence }),
      );
      released += (await Promise.all(releases)).filter(
        ({ status }) => status === "released",
      ).length;
    }
    return released;
  }

  /** Copies the one entry that there is to so many other locks, past the store. */
  sow(count) {
    this.exec(
      `INSERT INTO entry (lock, place, at, record)
        WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number LIMIT ?1)
        SELECT printf('sown-%07d', n), 1, at, record FROM number, entry`,
      count,
    );
  }
}

/** Alarms never fire. */
export class Deaf extends Store {
  alarm() {}
}

/** Its clock is turned by hand, and nothing happens in between. */
export class ByHand extends Deaf {
  /** Answers that nobody has fetched yet, by the number of their call. */
  answers = [];

  /**
   * One turn at that instant, in which the storage may fail. Resolves with all that was answered since the last one. A call
   * is its number, a method, and the arguments of that.
   */
  async turn(nowMs, calls, fails) {
    Date.now = () => nowMs;
    if (fails) {
      // The first turn of a space makes the tables.
      await this.turns.tick();
      this.breakStorage();
    }
    for (const [call, method, ...args] of calls) {
      void this[method](...args).then((reply) => this.answers.push([call, reply]));
    }
    await this.turns.tick();
    // The promises of the answers have some way to go.
    await new Promise((resolve) => setTimeout(resolve, 0));
    if (fails) this.mendStorage();
    return this.answers.splice(0);
  }
}

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname !== "/rpc") return handler.fetch(request, env);
    const { space, calls } = JSON.parse(await request.text(), revived);
    const stub = env.LEASES.getByName(space);
    const start = Date.now();
    const results = calls.map(async ([method, ...args]) => {
      try {
        return { reply: await stub[method](...args), afterMs: Date.now() - start };
      } catch (error) {
        return { error: String(error), afterMs: Date.now() - start };
      }
    });
    return Response.json(await Promise.all(results));
  },
};

/** Values that JSON has not. */
function revived(_, value) {
  switch (value?.$) {
    case "NaN":
      return NaN;
    case "Infinity":
      return Infinity;
    case "-Infinity":
      return -Infinity;
    case "bigint":
      return 1n;
    case "undefined":
      return undefined;
    case "date":
      return new Date(0);
    case "map":
      return new Map([["a", 1]]);
    case "set":
      return new Set([1]);
    case "bytes":
      return new Uint8Array([1]);
    case "boxed":
      return new String("boxed");
    case "error":
      return new Error("told to");
    case "hole":
      return [1, , 2];
    case "function":
      return () => 1;
    case "symbol":
      return Symbol("a symbol");
    case "proxy":
      return new Proxy({}, {});
    case "getter":
      return Object.defineProperty({}, "a", {
        enumerable: true,
        get: () => {
          throw new Error("told to");
        },
      });
    case "instance":
      return new (class Instance {})();
    case "cyclic": {
      const cyclic = [];
      cyclic.push(cyclic, { cyclic });
      return cyclic;
    }
    default:
      return value;
  }
}
