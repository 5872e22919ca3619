// What clients saw of a store in trouble has an order in which every rule holds, and what they believed has its place in
// it. `cargo xtask prove histories` records for longer.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { record } from "./histories/record.ts";
import type { Recorded } from "./histories/recorder.ts";

/** What never happens proves nothing. */
const NEEDED = "granted kept seen renewed released believed lost revoked stolen".split(" ");
const FOLDER = "target/histories";
const ROUNDS = 30;
const seed = Number(process.env["LEASEHOLD_SEED"] ?? 1);
const seconds = Number(process.env["LEASEHOLD_SECONDS"] ?? 0);

test("what ten clients saw in thirty rounds of SIGKILL is linearizable, and forgeries of it are not", async () => {
  const end = performance.now() + seconds * 1_000;
  const seen: Record<string, number> = { histories: 0, events: 0 };
  let next = seed;
  do {
    const { events, leapUs, faults } = await record(next, ROUNDS);
    const told = { histories: 1, events: events.length, ...faults, ...counts(events) };
    for (const [what, count] of Object.entries(told)) seen[what] = (seen[what] ?? 0) + count;
    assert.equal(faults.killed, ROUNDS);
    for (const what of NEEDED) {
      assert.ok((counts(events)[what] ?? 0) > 0, `nothing was ${what}`);
    }
    judge(`${FOLDER}/${next}.jsonl`, events, leapUs);
    next += 1;
  } while (performance.now() < end);
  const words = Object.entries(seen).map(([what, count]) => `${count} ${what}`);
  console.log(`proof: ${words.join(", ")}`);
});

function counts(events: readonly Recorded[]): Record<string, number> {
  const counted: Record<string, number> = {};
  const count = (what: string) => (counted[what] = (counted[what] ?? 0) + 1);
  for (const event of events) {
    count(event.what);
    if (event.what === "granted" && event.steal) count("stolen");
  }
  return counted;
}

function judge(file: string, events: readonly Recorded[], leapUs: number): void {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(file, events.map((event) => JSON.stringify(event)).join("\n"));
  const words = ["run", "--quiet", "--package", "history-checker", "--", String(leapUs), file];
  const checker = spawnSync("cargo", words, { encoding: "utf8" });
  assert.equal(checker.status, 0, `${checker.stderr}\nthe clock of the day leapt ${leapUs} µs`);
}
