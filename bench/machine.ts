// What the figures were measured on, and with which versions.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { cpus, release, totalmem, type } from "node:os";
import { delimiter, join } from "node:path";

const root = join(import.meta.dirname, "..");

/** Whether there is such a program on the path. */
export function isInstalled(program: string): boolean {
  return (process.env["PATH"] ?? "")
    .split(delimiter)
    .some((folder) => existsSync(join(folder, program)));
}

/** The version of an npm package of the benchmark's or of the workspace's own. */
export function versionOf(name: string): string {
  const folders = [import.meta.dirname, root].map((folder) =>
    join(folder, "node_modules", name, "package.json"),
  );
  const found = folders.find((folder) => existsSync(folder));
  return found
    ? (JSON.parse(readFileSync(found, "utf8")) as { version: string }).version
    : "(not installed)";
}

export function machine(): string {
  const processors = cpus();
  const gib = Math.round(totalmem() / 2 ** 30);
  return `${processors.length} cores of ${processors[0]?.model ?? "an unknown processor"}, ${gib} GiB, ${type()} ${release()}`;
}

/** Name and version of each thing that took part. */
export function versions(): [string, string][] {
  const leasehold = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    version: string;
  };
  return [
    ["Leasehold", leasehold.version],
    ["workerd", firstLine(join(root, "node_modules/workerd/bin/workerd"), "--version")],
    ["Node.js", process.version],
    ["Rust", firstLine("rustc", "--version")],
    ["Redis", firstLine("redis-server", "--version")],
    ["etcd", firstLine("etcd", "--version")],
    ...["ioredis", "redis-semaphore", "redlock", "etcd3"].map((name): [string, string] => [
      name,
      versionOf(name),
    ]),
  ];
}

function firstLine(program: string, ...words: string[]): string {
  try {
    return execFileSync(program, words, { encoding: "utf8" }).split("\n")[0]?.trim() ?? "";
  } catch {
    return "(not installed)";
  }
}
