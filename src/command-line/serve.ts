// `serve`: a lease store for one machine, without a Cloudflare account. workerd runs the Worker, its state is on disk.
import type { StdioOptions } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { Child } from "./child.ts";
import { Exit, Failure, misused, unavailable } from "./exit.ts";
import { lockFile } from "./lock-file.ts";
import { print, printJson } from "./print.ts";
import { Signals } from "./signals.ts";
import { port, textOf } from "./values.ts";
import type { Command, Words } from "./words.ts";
import { configuration, findWorkerd, SETTINGS } from "./workerd.ts";

/** So long workerd may finish what it is answering. What is cut off was not answered. */
const KILL_AFTER_MS = 1_000;

const CONFIGURATION = "workerd.capnp";

/** It answers by then, or not at all. */
const START_MS = 30_000;

export const serve: Command = {
  summary: "be a lease store for this machine, with its state on disk",
  words: "",
  isLocal: true,
  options: {
    port: { short: "p", value: "n", help: "else 8787; 0 is any that is free" },
    host: { value: "address", help: "else 127.0.0.1, which only this machine reaches" },
    dir: { value: "path", help: "where its state is; else ./.leasehold" },
    keys: { value: "path", help: "who is let in: a JSON list of entries, as key writes it" },
    open: { help: "everybody is let in; only on a host that no other machine reaches" },
    "open-to-network": { help: "everybody is let in, on any host" },
    json: { help: "print JSON, one object a line" },
  },
  more: `Without --keys, LEASEHOLD_KEYS or --open it does not start. It speaks plain HTTP: over a network, put a proxy with TLS
in front of it. It needs workerd, as npm install workerd or wrangler bring it.`,
  async run(words) {
    const plan = planOf(words);
    const workerd = findWorkerd();
    await vacant(plan);
    const signals = new Signals();
    const child = await start(workerd, plan, settle(plan));
    try {
      const url = await Promise.race([answering(child, plan), endOf(child), stopped(signals)]);
      if (url === undefined) return Exit.done;
      if (words.has("json")) printJson({ url, dir: plan.folder });
      else print(`leasehold: serving ${url}, state in ${plan.folder}`);
      await Promise.race([endOf(child), stopped(signals)]);
      return Exit.done;
    } finally {
      await child.end();
      await child.leave();
    }
  },
};

interface Plan {
  readonly host: string;
  readonly port: number;
  readonly folder: string;
  /** Settings of the store that are set. */
  readonly settings: Readonly<Record<string, string>>;
}

function planOf(words: Words): Plan {
  const [word] = words.given;
  if (word !== undefined) throw misused(`one word too many: ${word}`);
  const host = words.text("host") ?? "127.0.0.1";
  const values = { ...process.env, ...entranceOf(words, host) };
  return {
    host,
    port: words.value("port", port) ?? 8787,
    folder: resolve(words.text("dir") ?? ".leasehold"),
    settings: Object.fromEntries(
      SETTINGS.flatMap((name) => (values[name] ? [[name, values[name]]] : [])),
    ),
  };
}

/** Who is let in: nobody by mistake. */
function entranceOf(words: Words, host: string): Record<string, string | undefined> {
  const LEASEHOLD_KEYS = words.value("keys", textOf) ?? process.env["LEASEHOLD_KEYS"];
  const isOpen = words.has("open") || words.has("open-to-network");
  if (isOpen && LEASEHOLD_KEYS) {
    throw misused("--open and keys (--keys, LEASEHOLD_KEYS) exclude each other: leave one out");
  }
  if (!isOpen && !LEASEHOLD_KEYS) {
    throw misused(
      "nobody would be let in, since --keys is missing: make one with `leasehold key me --spaces '*' " +
        "--allow read,lock,admin --keys keys.json` and give --keys keys.json, or give --open",
    );
  }
  const isLoopback = /^(localhost|127(\.\d+){3}|::1)$/.test(host);
  if (words.has("open") && !words.has("open-to-network") && !isLoopback) {
    throw misused(
      `--open with --host ${host} would let in whoever reaches it: give --keys, or --open-to-network to mean that`,
    );
  }
  return { LEASEHOLD_KEYS, LEASEHOLD_OPEN: isOpen ? "true" : undefined };
}

/** Rejects where nothing can listen, before anything is made on disk. */
function vacant({ host, port }: Plan): Promise<void> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once("error", ({ message }) =>
      reject(unavailable(`serve cannot listen (${message}): --port and --host set where`)),
    );
    server.listen({ host, port }, () => server.close(() => resolve()));
  });
}

/** Makes what workerd is given. Returns the lock of the folder, an open file. */
function settle(plan: Plan): number {
  const { folder, settings } = plan;
  const state = join(folder, "state");
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const lock = lockFile(folder);
    mkdirSync(state, { recursive: true });
    const config = configuration(addressOf(plan), state, Object.keys(settings));
    writeFileSync(join(folder, CONFIGURATION), config);
    return lock;
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw unavailable(`${(error as Error).message}: --dir sets another folder`);
  }
}

/** `lock` is inherited: as long as workerd lives, also without us, nobody else serves that folder. */
async function start(file: string, { folder, settings }: Plan, lock: number): Promise<Child> {
  const program = {
    file,
    args: ["serve", "--import-path=/", "--control-fd=3", join(folder, CONFIGURATION)],
    env: { PATH: process.env["PATH"], ...settings },
    stdio: ["ignore", 2, 2, "pipe", lock] as StdioOptions,
  };
  try {
    return await Child.start(program, { reach: "group", killAfterMs: KILL_AFTER_MS });
  } catch (error) {
    throw unavailable(`${file} cannot be run: ${(error as Error).message}`);
  }
}

/** Resolves with the URL once it answers, and lets in whom it is told to. */
async function answering(child: Child, plan: Plan): Promise<string> {
  const port = await listening(child.process.stdio[3] as Readable);
  // What listens everywhere is reached here, too.
  const near = { "0.0.0.0": "127.0.0.1", "::": "::1" }[plan.host] ?? plan.host;
  const url = `http://${addressOf({ host: near, port })}`;
  const until = performance.now() + START_MS;
  while (!(await fetch(`${url}/healthz`).catch(() => undefined))?.ok) {
    if (performance.now() > until) throw unavailable(`workerd does not answer at ${url}`);
    await sleep(50);
  }
  const answer = await fetch(`${url}/v1/spaces/default/locks`);
  if (answer.status !== 503) return url;
  const { title } = (await answer.json()) as { title: string };
  throw misused(`--keys, or another setting, is not as it must be: ${title}`);
}

async function listening(control: Readable): Promise<number> {
  let text = "";
  for await (const chunk of control.setEncoding("utf8")) {
    text += chunk;
    const port = /"socket":"http","port":(\d+)/.exec(text)?.[1];
    if (port !== undefined) return Number(port);
  }
  // It has ended, which is told elsewhere.
  return new Promise(() => {});
}

/** Rejects when workerd has ended by itself. */
async function endOf(child: Child): Promise<never> {
  const exit = await child.ended;
  throw new Failure(
    Exit.software,
    "workerd_ended",
    `workerd ended with ${exit}: what it said is above`,
  );
}

function stopped(signals: Signals): Promise<undefined> {
  return new Promise((resolve) => {
    if (signals.signal.aborted) resolve(undefined);
    signals.signal.addEventListener("abort", () => resolve(undefined));
  });
}

function addressOf({ host, port }: Pick<Plan, "host" | "port">): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
