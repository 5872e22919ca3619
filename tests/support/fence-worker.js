// A Worker whose documents are guarded by fences: in a Durable Object, in D1 and in R2. The test says which method of
// which of them to call.
import { DurableObject } from "cloudflare:workers";
import { d1Fence, durableObjectFence, fenceSql, r2Fence } from "./fence.js";

const TABLES = [
  "CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY, value TEXT)",
  "CREATE TABLE IF NOT EXISTS journal (at INTEGER PRIMARY KEY, name TEXT, fence INTEGER)",
];
const INTO_JOURNAL = "INSERT INTO journal (name, fence) VALUES (?, ?)";
const INTO_DOCUMENTS = "INSERT OR REPLACE INTO documents VALUES (?, ?)";
const FROM_DOCUMENTS = "SELECT value FROM documents WHERE name = ?";
const FROM_JOURNAL = "SELECT fence FROM journal WHERE name = ? ORDER BY at";

export default {
  async fetch(request, env) {
    const [place, method, ...args] = JSON.parse(await request.text(), revive);
    await createTables(env.DB);
    const places = {
      object: env.DOCUMENTS.getByName("documents"),
      d1: new InD1(env.DB),
      r2: new InR2(env.BUCKET),
    };
    try {
      return Response.json((await places[place][method](...args)) ?? null);
    } catch (error) {
      const { name, message, code, field, fence, newest } = error;
      return Response.json({ name, message, code, field, fence, newest }, { status: 500 });
    }
  },
};

async function createTables(database) {
  await d1Fence(database).createTable();
  await database.batch(TABLES.map((table) => database.prepare(table)));
}

export class Documents extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.sql = ctx.storage.sql;
    this.guard = durableObjectFence(ctx.storage);
    this.guard.createTable();
    for (const table of TABLES) this.sql.exec(table);
  }

  write(name, lease, value) {
    this.guard.run(name, lease, (sql) => {
      sql.exec(INTO_JOURNAL, name, lease.fence ?? lease);
      sql.exec(INTO_DOCUMENTS, name, value);
    });
  }

  /** Writes, then fails. */
  fail(name, fence) {
    this.guard.run(name, fence, (sql) => {
      sql.exec(INTO_DOCUMENTS, name, "half done");
      throw new Error("no");
    });
  }

  read(name) {
    return this.sql.exec(FROM_DOCUMENTS, name).toArray()[0]?.value;
  }

  admit(name, lease) {
    this.guard.admit(name, lease);
  }

  journal(name) {
    return this.sql
      .exec(FROM_JOURNAL, name)
      .toArray()
      .map(({ fence }) => fence);
  }
}

class InD1 {
  constructor(database) {
    this.database = database;
    this.guard = d1Fence(database);
  }

  async write(name, lease, value) {
    const results = await this.guard.run(name, lease, [
      // As text, so that D1 has no word against what the guard is to refuse.
      this.database.prepare(INTO_JOURNAL).bind(`${name}`, `${lease?.fence ?? lease}`),
      this.database.prepare(INTO_DOCUMENTS).bind(`${name}`, value),
      this.database.prepare(FROM_DOCUMENTS).bind(`${name}`),
    ]);
    return results.map(({ results }) => results);
  }

  /** A batch whose last statement fails. */
  async fail(name, fence) {
    await this.guard.run(name, fence, [
      this.database.prepare(INTO_DOCUMENTS).bind(name, "half done"),
      this.database.prepare("INSERT INTO journal (at) VALUES ('no number')"),
    ]);
  }

  /** A batch of the user's own with the guard's statement at its end. */
  async writeThenAdmit(name, fence, value) {
    await this.database.batch([
      this.database.prepare(INTO_DOCUMENTS).bind(name, value),
      this.database.prepare(fenceSql("sqlite").admitOrFail).bind(name, fence),
    ]);
  }

  read(name) {
    return this.database.prepare(FROM_DOCUMENTS).bind(name).first("value");
  }

  admit(name, lease) {
    return this.guard.admit(name, lease);
  }

  async journal(name) {
    const { results } = await this.database.prepare(FROM_JOURNAL).bind(name).all();
    return results.map(({ fence }) => fence);
  }
}

class InR2 {
  constructor(bucket) {
    this.bucket = bucket;
    this.guard = r2Fence(bucket);
  }

  async write(name, lease, value) {
    await this.guard.put(name, lease, value);
  }

  async read(name) {
    return (await this.bucket.get(name))?.text();
  }

  /** What a put leaves beside the content. */
  async metadataAfter(name, fence, options) {
    await this.guard.put(name, fence, "text", options);
    const { customMetadata, httpMetadata } = await this.bucket.head(name);
    return { customMetadata, httpMetadata };
  }

  async putUnguarded(name, value, customMetadata) {
    await this.bucket.put(name, value, { customMetadata });
  }

  async append(name, fence, text) {
    await this.guard.run(name, fence, async (object) => ((await object?.text()) ?? "") + text);
  }

  /** A holder that is paused between its look and its put, while `meanwhile` is put by another. */
  async paused(name, fence, value, meanwhile) {
    const bucket = interrupted(this.bucket, () => this.guard.put(name, ...meanwhile));
    await r2Fence(bucket).put(name, fence, value);
  }

  /** The same of an append, whose two halves are kept apart. */
  async pausedAppend(name, fence, text, meanwhile) {
    const bucket = interrupted(this.bucket, () => this.append(name, ...meanwhile));
    let calls = 0;
    await r2Fence(bucket).run(name, fence, async (object) => {
      calls += 1;
      return ((await object?.text()) ?? "") + text;
    });
    return calls;
  }

  /** Somebody else is always faster, by a new content or by a stream that is read. */
  async contended(name, fence, asStream) {
    let rounds = 0;
    const meanwhile = () => this.guard.put(name, fence, `round ${(rounds += 1)}`);
    const value = asStream ? new Blob(["late"]).stream() : "late";
    await r2Fence(interrupted(this.bucket, meanwhile, Infinity)).put(name, fence, value);
  }

  async putStream(name, fence, text) {
    await this.guard.put(name, fence, new Response(text).body);
  }
}

/** The bucket, with something that happens before each of the first puts. */
function interrupted(bucket, action, times = 1) {
  return {
    head: (key) => bucket.head(key),
    get: (key) => bucket.get(key),
    async put(...args) {
      if (times-- > 0) await action();
      return bucket.put(...args);
    },
  };
}

/** Numbers that JSON does not know are written as text. */
function revive(_, value) {
  return typeof value === "string" && value.startsWith("number:") ? Number(value.slice(7)) : value;
}
