// docs/field-reports.md tells the truth; and the tests of reports that have no other place.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Leasehold, memoryStore } from "leasehold";

const docs = resolve(import.meta.dirname, "../docs");

test("every report has its tests, and each of them is where it is said to be", () => {
  const rows = readFileSync(resolve(docs, "field-reports.md"), "utf8")
    .split("\n")
    .filter((line) => line.startsWith("| ") && !/^\| (report|---) \|/.test(line));
  assert.equal(rows.length, 50);
  for (const row of rows) {
    const links = [...row.matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)];
    assert.ok(links.length > 0, row);
    for (const [, name, path] of links) {
      const text = readFileSync(resolve(docs, path!), "utf8");
      const isThere = path!.endsWith(".trace")
        ? path!.endsWith(`/${name!.replaceAll(" ", "-")}.trace`)
        : text.includes(name!);
      assert.ok(isThere, `${path} has no test named ${name}`);
    }
  }
});

// vert.x#2484, hazelcast#4432
test("100 000 names acquired and released leave the memory of a client as it was", async () => {
  const locks = new Leasehold(memoryStore());
  const cycle = async (from: number, to: number) => {
    for (let first = from; first < to; first += 500) {
      const names = Array.from({ length: 500 }, (_, at) => `name ${first + at}`);
      const leases = await Promise.all(names.map((name) => locks.acquire(name)));
      await Promise.all(leases.map((lease) => lease.release()));
    }
  };
  // What is remembered of late is bounded, and full after this.
  await cycle(0, 10_000);
  const before = bytes();
  await cycle(10_000, 110_000);
  const grownBy = bytes() - before;
  assert.ok(grownBy <= 4_000_000, `it grew by ${grownBy} bytes`);
  assert.deepEqual((await locks.list()).locks, []);
});

/** What is in use, of JavaScript and of WebAssembly. */
function bytes(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
