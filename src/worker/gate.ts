// Settings of the Worker, read once: who is let in, from which pages, and within which bounds.
import { Gate } from "#glue/worker.js";
import { log } from "./log.ts";
import { instance } from "./wasm.ts";

/** What an operator sets. A number or a list may be given as JSON of its own, too. */
export interface Settings {
  /** A secret: a JSON list of `{ id, sha256, spaces, allow }`. */
  readonly LEASEHOLD_KEYS?: unknown;
  /** "true" lets everybody in over HTTP as long as there are no keys: local development only. */
  readonly LEASEHOLD_OPEN?: unknown;
  /** Origins whose pages may ask, separated by commas. */
  readonly LEASEHOLD_ORIGINS?: unknown;
  readonly LEASEHOLD_LOCKS_PER_SPACE?: unknown;
  readonly LEASEHOLD_WAITERS_PER_LOCK?: unknown;
  readonly LEASEHOLD_COMMANDS_PER_SOCKET?: unknown;
}

let known: { readonly gate: Gate; readonly texts: Texts; readonly instance: number } | undefined;

type Texts = readonly [
  keys: string,
  open: string,
  origins: string,
  locks: string,
  waiters: string,
  commands: string,
];

/** Those settings, understood. What is wrong with them is logged, and lets nobody in. @internal */
export function gateOf(env: Settings): Gate {
  const texts: Texts = [
    text(env.LEASEHOLD_KEYS),
    text(env.LEASEHOLD_OPEN),
    text(env.LEASEHOLD_ORIGINS),
    text(env.LEASEHOLD_LOCKS_PER_SPACE),
    text(env.LEASEHOLD_WAITERS_PER_LOCK),
    text(env.LEASEHOLD_COMMANDS_PER_SOCKET),
  ];
  const isKnown =
    known?.instance === instance() && texts.every((it, at) => it === known!.texts[at]);
  if (!isKnown) {
    const gate = new Gate(...texts);
    const detail = gate.complaint();
    if (detail !== undefined) log("error", { event: "misconfigured", detail });
    known = { gate, texts, instance: instance() };
  }
  return known!.gate;
}

function text(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
