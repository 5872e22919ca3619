// What every guard promises, asked of each of them on the real thing.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Leasehold, memoryStore } from "leasehold";
import { FenceWorker, guardedInWorkerd } from "./support/fence-worker.ts";
import {
  type Guarded,
  guardedMemory,
  guardedPg,
  guardedPostgresJs,
  guardedSqlite,
} from "./support/guarded.ts";
import { Postgres } from "./support/postgres.ts";

let server: Postgres;
let worker: FenceWorker;

before(async () => {
  server = await Postgres.start();
  worker = await FenceWorker.start();
});
after(async () => {
  await server?.[Symbol.asyncDispose]();
  await worker?.[Symbol.asyncDispose]();
});

const PLACES: Record<string, () => Guarded | Promise<Guarded>> = {
  memory: guardedMemory,
  "SQLite by node:sqlite": guardedSqlite,
  "Postgres by pg": () => guardedPg(server),
  "Postgres by postgres": () => guardedPostgresJs(server),
  "a Durable Object's SQLite": () => guardedInWorkerd(worker, "object"),
  D1: () => guardedInWorkerd(worker, "d1"),
  R2: () => guardedInWorkerd(worker, "r2"),
};

const MAX = Number.MAX_SAFE_INTEGER;

const NO_FENCES = [
  ...[-1, 1.5, NaN, Infinity, -Infinity, MAX + 1, 1e300],
  ...["7", "", null, true, [], [7], {}],
  ...[{ fence: "7" }, { fence: -1 }, { fence: null }],
];

const ODD_NAMES = [
  `it's "quoted" and \`ticked\``,
  "'); DROP TABLE documents; --",
  "a/b",
  "a%2Fb",
  "a\\b",
  "$1 ? :name @name",
  "🔒 Ünïcødé 名前",
  "u\u0308 is not \u00fc",
  "\u00fc is not u\u0308",
  " spaces ",
  "line\nbreak\ttab",
  "x".repeat(512),
  "ü".repeat(256),
];

for (const [label, open] of Object.entries(PLACES)) {
  describe(label, () => {
    let place: Guarded;
    before(async () => {
      place = await open();
    });
    after(() => place?.[Symbol.asyncDispose]());

    /** That a write is refused by name and newest fence, and leaves everything as it was. */
    async function refuses(name: string, lease: any, newest: number): Promise<void> {
      const was = [await place.read(name), await place.journal?.(name)];
      await assert.rejects(async () => place.write(name, lease, "refused"), {
        name: "FenceError",
        code: "stale_fence",
        fence: lease.fence ?? lease,
        newest,
      });
      assert.deepEqual([await place.read(name), await place.journal?.(name)], was);
    }

    test("an older fence is refused, and the refusal changes nothing", async () => {
      await place.write("older", 5, "five");
      await refuses("older", 4, 5);
      await refuses("older", 0, 5);
      assert.equal(await place.read("older"), "five");
    });

    test("the same fence writes again, and a newer one after it", async () => {
      await place.write("newer", 5, "first");
      await place.write("newer", 5, "second");
      assert.equal(await place.read("newer"), "second");
      await place.write("newer", 6, "third");
      assert.equal(await place.read("newer"), "third");
      await refuses("newer", 5, 6);
    });

    test("the first fence may be any, up to the largest integer, exactly", async () => {
      await place.write("zero", 0, "zero");
      await place.write("largest", MAX - 1, "one less");
      await place.write("largest", MAX, "largest");
      await refuses("largest", MAX - 1, MAX);
      assert.equal(await place.read("largest"), "largest");
    });

    test("every name has a fence of its own", async () => {
      for (const [at, name] of ODD_NAMES.entries()) await place.write(name, at + 1, `${at}`);
      for (const [at, name] of ODD_NAMES.entries()) {
        assert.equal(await place.read(name), `${at}`);
        await refuses(name, at, at + 1);
      }
    });

    test("what is no fence is refused by name", async () => {
      await place.write("no fence", 7, "seven");
      for (const fence of NO_FENCES) {
        await assert.rejects(
          async () => place.write("no fence", fence, "refused"),
          { name: "FenceError", code: "invalid_argument", field: "fence" },
          String(fence),
        );
      }
      assert.equal(await place.read("no fence"), "seven");
    });

    test("a paused holder wakes up late, and its write is refused", async () => {
      let now = 1_000_000;
      const locks = new Leasehold(memoryStore({ now: () => now }));
      const terms = { ttlMs: 1_000, renew: false };
      const paused = await locks.acquire("paused", terms);
      await place.write("paused", paused.toJSON(), "of the first, in time");
      now += 1_000;
      const next = await locks.acquire("paused", terms);
      await place.write("paused", next.toJSON(), "of the next");
      // It does not look at the clock, as a process would not that was stopped just here.
      await refuses("paused", paused.toJSON(), next.fence);
      assert.equal(await place.read("paused"), "of the next");
    });

    test("writers at once, in any order: what the newest wrote stays", async () => {
      for (let round = 0; round < 5; round += 1) {
        const name = `at once ${round}`;
        const fences = shuffled(Array.from({ length: 10 }, (_, at) => at + 1));
        const ends = await Promise.allSettled(
          fences.map(async (fence) => place.write(name, fence, `by ${fence}`)),
        );
        const written = fences.filter((_, at) => ends[at]!.status === "fulfilled");
        for (const end of ends) {
          if (end.status === "rejected") assert.equal(end.reason.code, "stale_fence", end.reason);
        }
        assert.ok(written.includes(10), `${fences}`);
        assert.equal(await place.read(name), "by 10");
        const journal = (await place.journal?.(name)) as number[] | undefined;
        if (journal) {
          assert.deepEqual(
            journal,
            journal.toSorted((a, b) => a - b),
            `${fences}`,
          );
          assert.deepEqual(journal.toSorted(), written.toSorted());
        }
      }
    });

    if (label === "R2") return; // Its names are R2's own, and only what is put can carry a fence.

    test("an announced fence refuses older ones before it has written", async () => {
      await place.write("announced", 1, "one");
      await place.admit!("announced", 3);
      await place.admit!("announced", 3);
      await refuses("announced", 2, 3);
      await assert.rejects(async () => place.admit!("announced", 2), { code: "stale_fence" });
      await place.write("announced", 3, "three");
      assert.equal(await place.read("announced"), "three");
    });

    test("what is no name is refused by name", async () => {
      for (const name of ["", "x".repeat(513), "ü".repeat(257), "a\0b", "\ud800", 7, null, ["a"]]) {
        const refusal = { name: "FenceError", code: "invalid_argument", field: "name" };
        await assert.rejects(async () => place.write(name, 1, "refused"), refusal, String(name));
        await assert.rejects(async () => place.admit!(name, 1), refusal, String(name));
      }
    });
  });
}

/** At random: a failure names the order. */
function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
