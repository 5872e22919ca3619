// What `--help` prints.
import { type Command, COMMON, type Options } from "./words.ts";

export function help(commands: Readonly<Record<string, Command>>): string {
  const rows = Object.entries(commands).map(
    ([name, { words, summary }]) => [`${name} ${words}`.trimEnd(), summary] as const,
  );
  return `leasehold: a lock that ends by itself, for commands and scripts

${table(rows)}

leasehold <command> --help says more; --version prints the version.

Every command that asks a lease store takes:
${optionTable(COMMON)}

Durations are seconds, or have a unit: 30, 1.5m, 500ms, 2h, 1d.
Exit codes: 0 done, 1 somebody else has the lock, 64 wrong words, 69 no lease store answers,
75 the lease is lost, 77 the key does not allow it; run passes on its command's.`;
}

export function helpOf(name: string, command: Command): string {
  const { summary, words, options, more, isLocal } = command;
  const usage = `leasehold ${name} [options] ${words}`.trimEnd();
  return [
    `${usage}\n\n${capital(summary)}.`,
    more,
    Object.keys(options).length > 0 && optionTable(options),
    !isLocal && optionTable(COMMON),
  ]
    .filter((part) => part)
    .join("\n\n");
}

function optionTable(options: Options): string {
  return table(
    Object.entries(options).map(([name, { short, value, help }]) => [
      `${short === undefined ? "    " : `-${short}, `}--${name}${value === undefined ? "" : ` <${value}>`}`,
      help,
    ]),
  );
}

function table(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join("\n");
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
