// The Worker under test, and what the tests need beside it: the stub's methods over HTTP, and stores
// that can be made to fail.
import { handler, LeaseStore } from "./worker.js";

/** Objects constructed in this isolate. */
let constructed = 0;

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
    super(state, env);
    constructed += 1;
    this.written = written;
    this.exec = exec;
  }

  /** Rows and alarms written since the object was constructed. */
  countWritten() {
    return this.written;
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
}

/** Alarms never fire. */
export class Deaf extends Store {
  alarm() {}
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
    case "bigint":
      return 1n;
    case "undefined":
      return undefined;
    default:
      return value;
  }
}
