// The recipes of docs/recipes that run anywhere, as they stand, on a real store: what they promise, with many at once,
// and if the holder is killed or stopped half-way. Each waits for leases to end, so they run side by side.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { Leasehold } from "leasehold";
import pg from "pg";
import { numberOrders } from "../docs/recipes/leader.ts";
import { importCustomers } from "../docs/recipes/long-job.ts";
import { awaitTurn, callAtOnce } from "../docs/recipes/rate-limited-api.ts";
import { type Entry, type Settings, singleFlight } from "../docs/recipes/single-flight.ts";
import { Postgres } from "./support/postgres.ts";
import { sleep, until } from "./support/store.ts";
import { Workerd } from "./support/workerd.ts";

const SOON_MS = 60_000;

const TABLES = `
  CREATE TABLE leasehold_fences (name TEXT NOT NULL PRIMARY KEY, fence BIGINT NOT NULL);
  CREATE TABLE customers (at SERIAL, name TEXT);
  CREATE TABLE checkpoints (job TEXT PRIMARY KEY, done INT);
  CREATE TABLE orders (id SERIAL PRIMARY KEY, number INT);
`;

let workerd: Workerd;
let postgres: Postgres;
let pool: pg.Pool;
let locks: Leasehold;

before(async () => {
  [workerd, postgres] = await Promise.all([Workerd.start(), Postgres.start()]);
  pool = new pg.Pool(postgres.connection).on("error", () => {});
  locks = new Leasehold(workerd.url);
  await pool.query(TABLES);
});
after(async () => {
  await pool?.end();
  await postgres?.[Symbol.asyncDispose]();
  await workerd?.[Symbol.asyncDispose]();
});

test("every recipe is in both lists", () => {
  const folder = resolve(import.meta.dirname, "../docs/recipes");
  const text = (name: string) => readFileSync(resolve(folder, name), "utf8");
  const recipes = readdirSync(folder).filter((name) => name.endsWith(".ts"));
  assert.equal(recipes.length, 7);
  for (const name of recipes) {
    assert.ok(text("README.md").includes(`| [${name}](${name}) |`), name);
    assert.ok(text("../../README.md").includes(`](docs/recipes/${name})`), name);
  }
});

describe("recipes", { concurrency: true }, () => {
  test("cache miss: forty callers are one load", async () => {
    const cache = new MemoryCache();
    let loads = 0;
    const load = async () => {
      loads += 1;
      await sleep(100);
      return "value";
    };
    const callers = Array.from({ length: 40 }, () => flight({ cache })("many", load));
    assert.deepEqual(await Promise.all(callers), Array(40).fill("value"));
    assert.equal(loads, 1);
  });

  test("cache miss: what is stale is returned at once, and loaded anew once", async () => {
    const cache = new MemoryCache();
    cache.entries.set("stale", { value: "old", loadedAt: Date.now() - 120_000 });
    const work: Promise<unknown>[] = [];
    let loads = 0;
    const later = (task: Promise<unknown>) => void work.push(task);
    const loaded = Promise.withResolvers<string>();
    const load = () => {
      loads += 1;
      return loaded.promise;
    };
    const callers = Array.from({ length: 10 }, () => flight({ cache, later })("stale", load));
    assert.deepEqual(await Promise.all(callers), Array(10).fill("old"));
    loaded.resolve("new");
    await Promise.all(work);
    assert.equal(await flight({ cache })("stale", load), "new");
    assert.equal(loads, 1);
  });

  test("cache miss: when the loader is killed exactly one of those who wait goes on", async () => {
    await using loader = new Service("single-flight");
    await loader.says("loading");
    const cache = new MemoryCache();
    let loads = 0;
    const load = async () => {
      loads += 1;
      return "value";
    };
    const callers = Array.from({ length: 10 }, () => flight({ cache })("page", load));
    await hasWaiters("cache:page", 10);
    assert.equal(loads, 0);
    loader.signal("SIGKILL");
    assert.deepEqual(await Promise.all(callers), Array(10).fill("value"));
    assert.equal(loads, 1);
  });

  test("cache miss: a loader that slept passes nothing old for new", async () => {
    const cache = new MemoryCache();
    const gate = Promise.withResolvers<string>();
    const started = Promise.withResolvers<void>();
    // It is told a second after the revocation, and that may be before anybody awaits it.
    const late = flight({ cache })("slept", () => {
      started.resolve();
      return gate.promise;
    }).catch(() => {});
    await started.promise;
    await sleep(20);
    await locks.revoke("cache:slept");
    await flight({ cache })("slept", async () => "new");
    const { loadedAt } = cache.entries.get("slept")!;
    gate.resolve("old");
    await late;
    assert.equal(cache.entries.get("slept")!.value, "old");
    assert.ok(cache.entries.get("slept")!.loadedAt < loadedAt);
  });

  test("cache miss: without a lock store everybody loads", async () => {
    const lost = new Leasehold("http://127.0.0.1:9");
    const cached = flight({ locks: lost, cache: new MemoryCache() });
    assert.equal(await cached("page", async () => "value"), "value");
  });

  test("API: of thirty calls no more than five are made at once, and five are", async () => {
    await using api = await Api.start();
    const clients = [1, 2, 3].map(() => new Leasehold(workerd.url));
    const calls = Array.from({ length: 30 }, (_, at) => callAtOnce(clients[at % 3]!, api.url));
    assert.deepEqual(await Promise.all(calls), Array(30).fill("ok"));
    assert.equal(api.most, 5);
  });

  test("API: the permit of who is killed comes back, one that is revoked ends its call", async () => {
    await using api = await Api.start();
    // In a space of its own: the other calls have permits of the same API.
    await using other = await Workerd.start();
    const locks = new Leasehold(other.url);
    await using caller = new Service("rate-limited-api", other.url, api.url);
    await until(async () => api.held === 1, SOON_MS);
    const calls = Array.from({ length: 5 }, () => callAtOnce(locks, `${api.url}/held`));
    const areCut = calls.map((call) => assert.rejects(call, { code: "lost" }));
    const hasWaiters = async (count: number) =>
      (await locks.inspect("api at once")).waiters.length === count;
    await until(async () => api.held === 5 && (await hasWaiters(1)), SOON_MS);

    caller.signal("SIGKILL");
    await until(async () => api.held === 4, SOON_MS);
    assert.ok(await hasWaiters(1), "its permit still stands");
    await until(async () => api.held === 5 && (await hasWaiters(0)), SOON_MS);

    await locks.revoke("api at once");
    await Promise.all(areCut);
    // Before their own limit would end them.
    await until(async () => api.held === 0, 20_000);
  });

  test("API: twelve turns at five a second take two seconds", async () => {
    const start = performance.now();
    await Promise.all(Array.from({ length: 12 }, () => awaitTurn(locks)));
    const tookMs = performance.now() - start;
    assert.ok(tookMs >= 1_990, `${tookMs} ms`);
    assert.ok(tookMs < SOON_MS, `${tookMs} ms`);
  });

  test("leader: numbers have no gap when one sleeps through its term, and the next is killed", async () => {
    const addOrders = () => pool.query("INSERT INTO orders SELECT FROM generate_series(1, 20)");
    const allNumbered = async () => {
      const { rows } = await pool.query(
        "SELECT count(*)::int AS n FROM orders WHERE number IS NULL",
      );
      return rows[0].n === 0;
    };
    const first = new Service("leader");
    await using _first = first;
    await addOrders();
    await until(allNumbered, SOON_MS);
    await using second = new Service("leader");
    await hasWaiters("order-numbers", 1);

    first.signal("SIGSTOP");
    await addOrders();
    await until(allNumbered, SOON_MS);
    first.signal("SIGCONT");
    // It campaigns again.
    await hasWaiters("order-numbers", 1);
    await addOrders();
    await until(allNumbered, SOON_MS);

    second.signal("SIGKILL");
    await locks.revoke("order-numbers");
    await addOrders();
    await until(allNumbered, SOON_MS);
    const { rows } = await pool.query("SELECT number FROM orders ORDER BY number");
    assert.deepEqual(
      rows.map(({ number }) => number),
      Array.from({ length: 80 }, (_, at) => at + 1),
    );
  });

  test("leader: who slept between its read and its write does not write after the next one has read", async () => {
    await using world = await World.create("slept_leader");
    const { locks, pool } = world;
    await pool.query("INSERT INTO orders SELECT FROM generate_series(1, 20)");
    const [first, second] = [new Gate(), new Gate()];
    const ending = new AbortController();
    const lead = (pool: pg.Pool) =>
      numberOrders(world.client(), pool, ending.signal).catch(() => {});
    const leading = [lead(paused(pool, "after", first))];
    await first.reached;
    await locks.revoke("order-numbers");
    leading.push(lead(paused(pool, "before", second)));
    await second.reached;
    first.open();
    // It campaigns again.
    await until(async () => (await locks.inspect("order-numbers")).waiters.length === 1, SOON_MS);
    await pool.query("INSERT INTO orders SELECT FROM generate_series(1, 20)");
    second.open();
    const numbers = async () =>
      (await pool.query("SELECT number FROM orders ORDER BY number")).rows.map((row) => row.number);
    await until(async () => !(await numbers()).includes(null), SOON_MS);
    assert.deepEqual(
      await numbers(),
      Array.from({ length: 40 }, (_, at) => at + 1),
    );
    ending.abort();
    await Promise.all(leading);
  });

  test("long job: who slept while it read does not write after the next one has begun", async () => {
    await using world = await World.create("slept_job");
    const { locks, pool } = world;
    const names = ["a", "b", "c", "d"];
    const [first, second] = [new Gate(), new Gate()];
    const run = (gate: Gate) =>
      importCustomers(world.client(), pool, async (after) => {
        await gate.pass();
        return names.slice(after, after + 2);
      });
    const late = run(first);
    await first.reached;
    await locks.revoke("import:customers");
    const next = run(second);
    await second.reached;
    first.open();
    // Lost, where it took so long that its client has found out.
    await assert.rejects(late, ({ code }: any) => code === "stale_fence" || code === "lost");
    second.open();
    assert.equal(await next, "done");
    const { rows } = await pool.query("SELECT name FROM customers ORDER BY at");
    assert.deepEqual(
      rows.map(({ name }) => name),
      names,
    );
  });

  test("long job: goes on from the checkpoint when one sleeps and the next is killed, nothing twice", async () => {
    await using sleeper = new Service("long-job");
    await sleeper.says("read");
    sleeper.signal("SIGSTOP");
    assert.equal(await importCustomers(locks, pool, async () => []), "elsewhere");

    const free = async () => (await locks.inspect("import:customers")).holders.length === 0;
    await until(free, SOON_MS);
    await using killed = new Service("long-job");
    // It begins where the first one was.
    await killed.says("read");
    killed.signal("SIGKILL");
    await locks.revoke("import:customers");
    const names = Array.from({ length: 50 }, (_, at) => `customer ${at + 1}`);
    const source = async (after: number) => names.slice(after, after + 10);
    assert.equal(await importCustomers(locks, pool, source), "done");

    sleeper.signal("SIGCONT");
    sleeper.goOn();
    assert.match(await sleeper.next(), /^(stale_fence|lost)$/);
    const { rows } = await pool.query("SELECT name FROM customers ORDER BY at");
    assert.deepEqual(
      rows.map(({ name }) => name),
      names,
    );
  });
});

/** Tables and locks that no other test has. */
class World implements AsyncDisposable {
  readonly locks: Leasehold;
  readonly pool: pg.Pool;
  readonly #name: string;

  private constructor(schema: string) {
    this.#name = schema;
    this.locks = this.client();
    this.pool = new pg.Pool({ ...postgres.connection, options: `-c search_path=${schema}` });
  }

  static async create(schema: string): Promise<World> {
    const world = new World(schema);
    await world.pool.query(`CREATE SCHEMA ${schema}; ${TABLES}`);
    return world;
  }

  /** Of a holder who hears that its lease is over at its next renewal, and not before. */
  client(): Leasehold {
    return new Leasehold(workerd.url, { space: this.#name, WebSocket: false });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pool.end();
  }
}

/** Stops the first who wants to pass until it is opened. */
class Gate {
  readonly #reached = Promise.withResolvers<void>();
  readonly #opened = Promise.withResolvers<void>();
  readonly reached = this.#reached.promise;

  open(): void {
    this.#opened.resolve();
  }

  async pass(): Promise<void> {
    this.#reached.resolve();
    await this.#opened.promise;
  }
}

/** The pool of a leader who is stopped before or after it looks for orders. */
function paused(pool: pg.Pool, when: "before" | "after", gate: Gate): pg.Pool {
  return new Proxy(pool, {
    get(_, property) {
      if (property !== "query") return Reflect.get(pool, property);
      return async (text: string, ...values: any[]) => {
        const isLook = text.startsWith("SELECT id");
        if (isLook && when === "before") await gate.pass();
        const result = await pool.query(text, ...values);
        if (isLook && when === "after") await gate.pass();
        return result;
      };
    },
  });
}

class MemoryCache {
  readonly entries = new Map<string, Entry<string>>();

  async get(key: string): Promise<Entry<string> | undefined> {
    return this.entries.get(key);
  }

  async set(key: string, entry: Entry<string>): Promise<void> {
    this.entries.set(key, entry);
  }
}

/** Of a caller with a client of its own. */
function flight(settings: Partial<Settings<string>> & Pick<Settings<string>, "cache">) {
  const later = () => {};
  const own = new Leasehold(workerd.url);
  return singleFlight({ locks: own, freshMs: 60_000, usableMs: 600_000, later, ...settings });
}

async function hasWaiters(lock: string, count: number): Promise<void> {
  await until(async () => (await locks.inspect(lock)).waiters.length === count, SOON_MS);
}

/** A process that runs a recipe. */
class Service implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(recipe: string, url = workerd.url, where = postgres.connection.host) {
    const program = resolve(import.meta.dirname, "support/recipe-process.ts");
    const stdio = ["pipe", "pipe", "inherit"] as const;
    this.#process = spawn(process.execPath, [program, recipe, url, where], { stdio: [...stdio] });
    this.#lines = createInterface(this.#process.stdout!)[Symbol.asyncIterator]();
  }

  /** The next line that it says. */
  async next(): Promise<string> {
    return (await this.#lines.next()).value;
  }

  async says(line: string): Promise<void> {
    assert.equal(await this.next(), line);
  }

  goOn(): void {
    this.#process.stdin!.write("\n");
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL");
  }
}

/** An API that counts how many calls are made at once. What asks for /held is not answered. */
class Api implements AsyncDisposable {
  most = 0;
  held = 0;
  #now = 0;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      if (request.url === "/held") this.#hold(response);
      else void this.#serve(response);
    });
  }

  static async start(): Promise<Api> {
    const api = new Api();
    await new Promise<void>((done) => api.#server.listen(0, "127.0.0.1", done));
    return api;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #hold(response: ServerResponse): void {
    this.held += 1;
    response.on("close", () => (this.held -= 1));
  }

  async #serve(response: ServerResponse): Promise<void> {
    this.#now += 1;
    this.most = Math.max(this.most, this.#now);
    // So long that there can be more, if there may.
    await until(async () => this.most >= 5, SOON_MS);
    await sleep(50);
    this.#now -= 1;
    response.end("ok");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
