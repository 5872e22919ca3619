// `cargo xtask bench`: runs every section, or those whose name contains the word, and says what came of them. A full run
// also writes REPORT.md and its plots.
import { setTimeout as sleep } from "node:timers/promises";
import { isInstalled } from "./machine.ts";
import { printed, writeReport } from "./report.ts";
import { coldImport } from "./sections/import.ts";
import { engine } from "./sections/engine.ts";
import { handoff } from "./sections/handoff.ts";
import { http } from "./sections/http.ts";
import { memory } from "./sections/memory.ts";
import { rows } from "./sections/rows.ts";
import type { Outcome, Section } from "./sections/section.ts";
import { sizes } from "./sections/sizes.ts";
import { socket } from "./sections/socket.ts";
import { spaces } from "./sections/spaces.ts";
import { start } from "./sections/start.ts";
import { stub } from "./sections/stub.ts";
import { takeover } from "./sections/takeover.ts";
import { peers as all } from "./services/kinds.ts";
import { serviceOn } from "./services/leasehold.ts";
import type { Kind, Service } from "./services/service.ts";
import { Workerd } from "./workerd.ts";

const SECTIONS = [
  stub,
  socket,
  handoff,
  takeover,
  http,
  memory,
  spaces,
  engine,
  start,
  rows,
  sizes,
  coldImport,
];

const word = process.argv[2] ?? "";
const chosen = SECTIONS.filter(({ name }) => name.includes(word));
if (chosen.length === 0) {
  console.error(
    `there is no section "${word}"; there are: ${SECTIONS.map(({ name }) => name).join(", ")}`,
  );
  process.exit(2);
}

const workerd = await Workerd.start();
const peers: [Kind, Service][] = [];
for (const kind of all) {
  if (isInstalled(kind.program)) peers.push([kind, await kind.start()]);
  else console.error(`${kind.name} is left out: there is no ${kind.program} on this machine`);
}

const outcomes: [Section, Outcome][] = [];
const startedAt = Date.now();
for (const section of chosen) {
  console.error(`\n${section.title} ...`);
  try {
    const outcome = await section.run({ workerd, service: serviceOn(workerd), peers });
    outcomes.push([section, outcome]);
    console.log(printed(outcome.rows));
  } catch (error) {
    // The other sections have their worth without it.
    process.exitCode = 1;
    console.error(`${section.name} failed:`, error);
  }
  // What one section left to be done does not slow the next.
  await sleep(500);
}
console.error(`\nMeasured in ${Math.round((Date.now() - startedAt) / 1_000)} s.`);
if (chosen.length === SECTIONS.length && outcomes.length === SECTIONS.length) {
  const used = peers.map(([kind, { used }]) => `${kind.name}: ${used}`);
  console.error(
    `The report is ${writeReport(outcomes, [`Leasehold: ${serviceOn(workerd).used}`, ...used])}`,
  );
}

await workerd.stop();
for (const [, service] of peers) await service.stop();
process.exit();
