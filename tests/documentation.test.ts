// The pages tell the truth about what there is: links, tests, metrics, settings, log events, options.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { Leasehold, memoryStore } from "leasehold";
import { anchorsOf, blocksOf, linksOf, PAGES, pageOf } from "./support/documentation.ts";
import { Workerd } from "./support/workerd.ts";

const root = resolve(import.meta.dirname, "..");
const production = pageOf("docs/production.md");

test("every link within the repository leads somewhere, and so does what it names there", () => {
  let count = 0;
  for (const page of PAGES) {
    for (const { path, anchor } of linksOf(page)) {
      assert.ok(existsSync(join(root, path)), `${page}: there is no ${path}`);
      if (anchor !== undefined) {
        assert.ok(anchorsOf(path).has(anchor), `${page}: ${path} has no #${anchor}`);
      }
      count += 1;
    }
  }
  assert.ok(count > 150);
});

test("every test that docs/guarantees.md names is where it is said to be", () => {
  const rows = rowsOf(pageOf("docs/guarantees.md"), "what happens");
  assert.ok(rows.length > 20);
  for (const [, , , shown = ""] of rows) {
    const files = [...shown.matchAll(/`(tests\/[^`]+)`(?:: (.+))?/g)];
    assert.ok(files.length > 0, shown);
    for (const [, file, name] of files) {
      const text = readFileSync(join(root, file!), "utf8");
      if (name !== undefined) assert.ok(text.includes(name), `${file} has no test named ${name}`);
    }
  }
});

test("docs/production.md has every metric and every reason, and no other", async () => {
  await using workerd = await Workerd.start();
  const text = await (await fetch(`${workerd.url}/v1/spaces/default/metrics`)).text();
  const metrics = [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name!);
  assert.deepEqual(codesOf("metric"), metrics.sort());
  const samples = [...text.matchAll(/^leasehold_refusals_total\{reason="(\w+)"\}/gm)];
  const reasons = samples
    .map(([, reason]) => reason!)
    .filter((it) => it !== "held" && it !== "lost");
  assert.deepEqual(codesOf("`reason`"), reasons.sort());
  // Also where it speaks of them elsewhere.
  const spoken = production.matchAll(/\bleasehold_\w+/g);
  for (const [name] of spoken) assert.ok(metrics.includes(name), name);
});

test("docs/production.md has every setting, and no other", () => {
  const source = ["gate.ts", "worker.ts"]
    .map((name) => readFileSync(join(root, "src/worker", name), "utf8"))
    .join("\n");
  const settings = [...source.matchAll(/readonly (LEASEHOLD_\w+)\?/g)].map(([, name]) => name!);
  assert.ok(settings.length > 5);
  assert.deepEqual(codesOf("setting"), settings.sort());
  const spoken = production.matchAll(/\bLEASEHOLD_\w+/g);
  for (const [name] of spoken) assert.ok(settings.includes(name), name);
});

test("docs/production.md has every event of the log, and no other", () => {
  const folder = join(root, "src/worker");
  const source = readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("\n");
  const named = [...source.matchAll(/event: "(\w+)"|\("event", "(\w+)"\)/g)];
  const chosen = [
    ...source.matchAll(/event = .* \? "(\w+)" : "(\w+)"|event: \w+ \? "(\w+)" : "(\w+)"/g),
  ];
  const events = [...named, ...chosen].flatMap(([, ...names]) => names.filter(Boolean));
  assert.deepEqual(codesOf("`event`"), [...new Set(events)].sort());
});

test("a store takes the lengths of every workload of docs/production.md", async () => {
  const rows = rowsOf(production, "workload");
  assert.ok(rows.length > 5);
  const locks = new Leasehold(memoryStore());
  const length = (text = "") => (text === "" ? undefined : Number(text.replaceAll("_", "")));
  for (const [workload, ...lengths] of rows) {
    const [ttlMs, waitMs, maxHoldMs, lockDelayMs] = lengths.map(length);
    const lease = await locks.acquire(workload!, { ttlMs, waitMs, maxHoldMs, lockDelayMs });
    await lease.release();
  }
});

test("the options of the unit and of the container are those of serve", () => {
  const command = join(root, "dist/command-line.js");
  const help = execFileSync(process.execPath, [command, "serve", "--help"], { encoding: "utf8" });
  const examples = blocksOf("docs/production.md").filter(
    ({ text }) => text.includes("leasehold serve") || text.includes('"serve"'),
  );
  assert.deepEqual(
    examples.map(({ language }) => language),
    ["ini", "dockerfile"],
  );
  for (const { text } of examples) {
    const line = text.split("\n").find((line) => /^(ExecStart|CMD)/.test(line))!;
    const options = line.match(/--[a-z-]+/g)!;
    assert.ok(options.includes("--keys") && options.includes("--dir"), line);
    for (const option of options) assert.ok(help.includes(option), option);
  }
});

/** The cells of the table whose first column has that heading. */
function rowsOf(page: string, heading: string): string[][] {
  const tables = page.split("\n\n").filter((part) => part.startsWith(`| ${heading} |`));
  assert.equal(tables.length, 1, heading);
  const rows = tables[0]!.trim().split("\n").slice(2);
  return rows.map((row) =>
    row
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/** What stands in code at the beginning of each row of a table of docs/production.md. */
function codesOf(heading: string): string[] {
  const codes = rowsOf(production, heading).flatMap(([first]) =>
    [...first!.matchAll(/`(\w+)`/g)].map(([, code]) => code!),
  );
  return codes.sort();
}
