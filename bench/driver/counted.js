// Leasehold's own object, with what its storage says it wrote counted from outside. It is alone in its Worker, so that
// every cursor and every alarm is its own.
import { LeaseStore } from "./worker.js";

let written = { rows: 0, alarms: 0 };
let cursors = [];

/** Counts what goes through the storage API, for all storages of this Worker. */
function watch({ storage }) {
  const { exec } = storage.sql;
  const { setAlarm } = storage;
  Object.getPrototypeOf(storage.sql).exec = function (...words) {
    const cursor = exec.apply(this, words);
    cursors.push(cursor);
    return cursor;
  };
  Object.getPrototypeOf(storage).setAlarm = function (...words) {
    written.alarms += 1;
    return setAlarm.apply(this, words);
  };
}

let isWatched = false;

export class Counted extends LeaseStore {
  constructor(ctx, env) {
    if (!isWatched) watch(ctx);
    isWatched = true;
    super(ctx, env);
  }

  /** Rows and alarms written since the last time. */
  written() {
    // A cursor knows how many rows it wrote when it has run, which it has by now.
    const { rows, alarms } = cursors.reduce(
      (sum, { rowsWritten }) => ({ ...sum, rows: sum.rows + rowsWritten }),
      written,
    );
    cursors = [];
    written = { rows: 0, alarms: 0 };
    return { rows, alarms };
  }

  /** How many rows each table has. */
  left() {
    const { sql } = this.ctx.storage;
    const tables = sql.exec(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\'",
    );
    return Object.fromEntries(
      tables
        .toArray()
        .map(({ name }) => [name, sql.exec(`SELECT count(*) AS count FROM ${name}`).one().count]),
    );
  }
}

export default { fetch: () => new Response(null, { status: 404 }) };
