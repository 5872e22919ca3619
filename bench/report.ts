// The table, in the terminal and as a page with plots.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { init } from "echarts";
import { machine, versions } from "./machine.ts";
import type { Figure } from "./measure.ts";
import type { Goal, Outcome, Plot, Row, Section, Unit } from "./sections/section.ts";

const HEAD = ["", "Leasehold", "beside it", "ratio", "goal", ""];

/** The table as text in columns. */
export function printed(rows: readonly Row[]): string {
  const lines = [HEAD, ...rows.map(cells)];
  const widths = HEAD.map((_, column) =>
    Math.max(...lines.map((line) => line[column]?.length ?? 0)),
  );
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Writes the page and its plots; gives its path from the workspace's folder. */
export function writeReport(
  outcomes: readonly [Section, Outcome][],
  used: readonly string[],
): string {
  const folder = import.meta.dirname;
  mkdirSync(join(folder, "plots"), { recursive: true });
  for (const plot of outcomes.flatMap(([, { plots = [] }]) => plots)) {
    writeFileSync(join(folder, plotFile(plot)), drawn(plot));
  }
  writeFileSync(join(folder, "REPORT.md"), page(outcomes, used));
  return "bench/REPORT.md";
}

function page(outcomes: readonly [Section, Outcome][], used: readonly string[]): string {
  const goals = outcomes.flatMap(([, { rows }]) => rows).filter(({ goal }) => goal);
  const missed = goals.filter((row) => !isMet(row));
  const parts = [
    "# Leasehold, measured",
    `By \`cargo xtask bench\` on ${new Date().toISOString().slice(0, 10)}, in one run on one machine: ${machine()}. A figure is the median of several
rounds, in which those who are compared took turns; the range in brackets is from the worst round to the best. Servers and
clients share the machine's cores. A benchmark is not a test: on another machine the figures differ, and the ratios a little.`,
    `${goals.length - missed.length} of ${goals.length} goals are met.${missed.length ? " Missed:" : ""}`,
    ...(missed.length
      ? [missed.map((row) => `- ${cells(row).filter(Boolean).join(", ")}`).join("\n")]
      : []),
    ...outcomes.map(([section, outcome]) => chapter(section, outcome)),
    "## Versions and settings",
    versions()
      .map(([name, version]) => `- ${name}: ${version}`)
      .join("\n"),
    "Each at its defaults:",
    used.map((line) => `- ${line}`).join("\n"),
  ];
  return parts.join("\n\n") + "\n";
}

function chapter({ title, about }: Section, { rows, plots = [] }: Outcome): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const table = [
    line(HEAD),
    line(HEAD.map(() => "---")),
    ...rows.map((row) => line(cells(row))),
  ].join("\n");
  const pictures = plots.map((plot) => `![${plot.title}, in ${plot.unit}](${plotFile(plot)})`);
  return [`## ${title}`, about, table, ...pictures].join("\n\n");
}

function cells(row: Row): string[] {
  const { what, unit, ours, peer, goal } = row;
  const theirs = peer ? `${peer.name}: ${shown(peer.figure, unit)}` : "";
  const ratio = peer ? `${short(ratioOf(row))}x` : "";
  return [
    what,
    shown(ours, unit),
    theirs,
    ratio,
    goal ? wanted(goal, peer ? "x" : ` ${unit}`) : "",
    goal ? verdict(row) : "",
  ];
}

const verdict = (row: Row) => (isMet(row) ? "met" : "missed");

function isMet(row: Row): boolean {
  const { atLeast = -Infinity, atMost = Infinity } = row.goal ?? {};
  const reached = row.peer ? ratioOf(row) : middle(row.ours);
  return atLeast <= reached && reached <= atMost;
}

function wanted({ atLeast, atMost }: Goal, unit: string): string {
  return atLeast === undefined
    ? `at most ${short(atMost ?? NaN)}${unit}`
    : `at least ${short(atLeast)}${unit}`;
}

function ratioOf({ ours, peer }: Row): number {
  return middle(ours) / middle(peer?.figure ?? NaN);
}

const middle = (figure: Figure | number) => (typeof figure === "number" ? figure : figure.median);

function shown(figure: Figure | number, unit: Unit): string {
  if (typeof figure === "number") return `${short(figure)} ${unit}`;
  return `${short(figure.median)} ${unit} (${short(figure.low)} to ${short(figure.high)})`;
}

/** Three digits are more than such a measurement has. */
function short(value: number): string {
  if (Number.isNaN(value)) return "unknown";
  return Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 4 });
}

const plotFile = ({ name }: Plot) => `plots/${name}.svg`;

/** Bars on a logarithmic scale: some are a hundred times others. */
function drawn({ title, unit, bars, series }: Plot): string {
  const least = Math.min(...series.flatMap(({ values }) => values));
  const chart = init(null, null, { renderer: "svg", ssr: true, width: 800, height: 400 });
  chart.setOption({
    animation: false,
    backgroundColor: "#fff",
    title: { text: `${title} (${unit})`, left: "center" },
    legend: { bottom: 0 },
    grid: { left: 60, right: 20 },
    xAxis: { type: "category", data: [...bars] },
    yAxis: { type: "log", min: 10 ** Math.floor(Math.log10(least)) },
    series: series.map(({ name, values }) => ({
      ...{ name, type: "bar" as const },
      data: values.map((value) => Number(value.toPrecision(3))),
      label: { show: true, position: "top" as const, fontSize: 10 },
    })),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
