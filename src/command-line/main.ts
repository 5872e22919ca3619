// The command `leasehold`: finds the command that is meant, runs it, and ends with its exit code.
import { readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { isMainThread } from "node:worker_threads";
import { askedOf } from "./client.ts";
import { Exit, Failure, failureOf, fault, misused, unwritten } from "./exit.ts";
import { help, helpOf } from "./help.ts";
import { key } from "./key.ts";
import { acquire, release, renew } from "./lease.ts";
import { inspect, ls, revoke, watch } from "./look.ts";
import { complain, print } from "./print.ts";
import { run } from "./run.ts";
import { serve } from "./serve.ts";
import { type Command, Words } from "./words.ts";

const COMMANDS: Readonly<Record<string, Command>> = {
  run,
  acquire,
  renew,
  release,
  inspect,
  ls,
  watch,
  revoke,
  serve,
  key,
};

/** Who reads no more of what is printed ends what prints it, as SIGPIPE would. */
process.stdout.on("error", (error) => {
  const { exit, message } = unwritten(error);
  if (exit !== Exit.unread) complain(message);
  process.exit(exit);
});

process.exitCode = await main(process.argv.slice(2));
// A thread ends by itself, once what it printed has been passed on.
if (isMainThread) {
  // That something could not be written is told after this turn.
  await setImmediate();
  process.exit();
}

async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  try {
    return await meant(name, rest);
  } catch (error) {
    const { exit, code, message } = error instanceof Failure ? error : fault(error);
    const own = rest.includes("--") ? rest.slice(0, rest.indexOf("--")) : rest;
    // `eval "$(leasehold acquire ...)"` sees no exit code: the shell must not go on without the lock.
    if (name === "acquire" && isForShell(own)) print(`exit ${exit}`);
    if (own.includes("--json")) {
      process.stderr.write(`${JSON.stringify({ code, message })}\n`);
      return exit;
    }
    if (message !== "") complain(message);
    if (exit === Exit.usage) complain(`see leasehold ${commandOf(name) ? `${name} ` : ""}--help`);
    return exit;
  }
}

function isForShell(words: readonly string[]): boolean {
  return /(^|\n)--format[=\n]env(\n|$)/.test(words.join("\n"));
}

async function meant(name: string | undefined, rest: readonly string[]): Promise<number> {
  if (name === undefined) throw misused("a command is missing");
  if (name === "--help" || name === "-h" || name === "help") return said(help(COMMANDS));
  if (name === "--version") return said(version());
  const command = commandOf(name);
  if (command === undefined) throw misused(`there is no command ${name}`);
  const words = Words.read(command, rest);
  if (words.has("help")) return said(helpOf(name, command));
  if (words.rest !== undefined && !command.words.includes("-- ")) {
    throw misused("nothing may follow --: only run takes a command");
  }
  try {
    return await command.run(words);
  } catch (error) {
    throw command.isLocal ? error : failureOf(error, askedOf(words));
  }
}

function commandOf(name: string | undefined): Command | undefined {
  return name !== undefined && Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
}

function said(text: string): number {
  print(text);
  return Exit.done;
}

function version(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
