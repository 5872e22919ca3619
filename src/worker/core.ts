// The core of one Durable Object: carries turns into Rust, and starts anew when storage or Rust fail.
import { Space, unavailable } from "#glue/worker.js";
import { gateOf, type Settings } from "./gate.ts";
import { log } from "./log.ts";
import type { Answer, Call, Core, Push, Turned } from "./turns.ts";
import { instance, restart } from "./wasm.ts";

/** A reply as Rust wrote it: JSON for whoever called over HTTP, still to be parsed for the others. */
export interface Reply {
  readonly text: string;
  readonly isProblem: boolean;
  /** Whether it is JSON of a text that is meant for a reader of plain text. */
  readonly isText: boolean;
  /** Seconds, or empty. */
  readonly retryAfter: string;
}

/** The fields of a call that came as text: a body, or a message of a socket, not looked at yet. */
export class Body {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** What the core needs of the Durable Object that it is in. */
export interface Host {
  /**
   * Hears after each turn when to have the next: `ringInMs` for somebody who waits and sleeps, `dueInMs` to clean up.
   * Null is never.
   */
  onDue(ringInMs: number | null, dueInMs: number | null): void;
  /** For somebody who waits no longer than this the object stays awake. */
  readonly wakefulMs: number;
  /** Which sockets watch what, for a core that starts anew: each is resumed with its next turn. */
  watchers(): Iterable<readonly [connection: number, prefixes: readonly string[]]>;
  /** Hears which prefixes a socket watches from now on. */
  onWatch(connection: number, prefixes: readonly string[]): void;
  /** Hears what happened in a turn, where it is there; see turn.rs. */
  readonly onEvents: ((events: readonly string[]) => void) | undefined;
}

/** What a space is called: an object that was made without a name goes by its id. */
export function nameOf(state: DurableObjectState): string {
  return state.id.name ?? state.id.toString();
}

export class SpaceCore implements Core<Reply> {
  readonly unavailable: Answer<Reply> = answer(unavailable().split("\t"));
  readonly #state: DurableObjectState;
  readonly #settings: Settings;
  readonly #host: Host;
  #space: Space | undefined;
  #instance = 0;
  /** Whether the space is yet to read its storage, and knows of no socket. */
  #isFresh = true;

  constructor(state: DurableObjectState, settings: Settings, host: Host) {
    this.#state = state;
    this.#settings = settings;
    this.#host = host;
  }

  turn(calls: readonly Call[]): Turned<Reply> {
    try {
      const restarted = this.#instance !== instance();
      if (restarted) {
        this.#space = undefined;
        this.#isFresh = true;
        if (this.#instance) log("warn", { event: "reset", space: nameOf(this.#state) });
      }
      const resumed = this.#isFresh ? [...this.#host.watchers()].map(resume) : [];
      this.#space ??= new Space(
        this.#state,
        nameOf(this.#state),
        gateOf(this.#settings),
        this.#host.onEvents !== undefined,
      );
      this.#instance = instance();
      const [head = "", ...told] = carryOut(this.#space, [...resumed, ...calls]);
      this.#isFresh = false;
      const [wakeIn, ringIn, dueIn] = head.split("\t");
      this.#host.onDue(milliseconds(ringIn), milliseconds(dueIn));
      const answers: (readonly [number, ...Answer<Reply>])[] = [];
      const pushes: Push[] = [];
      const events: string[] = [];
      for (const line of told) {
        const parts = line.split("\t");
        const [kind, subject = "", text = ""] = parts;
        if (kind === "=") this.#host.onWatch(Number(subject), JSON.parse(text) as string[]);
        else if (kind === ">") pushes.push([Number(subject), text]);
        else if (kind === "*") console.log(subject);
        else if (kind === "+") events.push(subject);
        else answers.push(ticketed(parts));
      }
      if (events.length > 0) this.#host.onEvents?.(events);
      return {
        answers,
        pushes,
        wakeInMs: this.#wake(milliseconds(wakeIn), milliseconds(ringIn)),
        restarted,
      };
    } catch (error) {
      // A turn was undone and the space starts anew from its storage. Anything but a fault is a trap, or has left Rust in
      // the middle of something.
      const event = error instanceof Fault ? "failed_flush" : "reset";
      log("error", { event, space: nameOf(this.#state), detail: String(error) });
      this.#isFresh = true;
      if (!(error instanceof Fault)) {
        restart();
        this.#space = undefined;
      }
      this.#host.onDue(null, 0);
      throw error;
    }
  }

  #wake(wakeInMs: number | null, ringInMs: number | null): number | null {
    const ring = ringInMs !== null && ringInMs <= this.#host.wakefulMs ? ringInMs : Infinity;
    const wake = Math.min(wakeInMs ?? Infinity, ring);
    return wake === Infinity ? null : wake;
  }
}

function resume([connection, prefixes]: readonly [number, readonly string[]]): Call {
  return [0, "resume", connection, prefixes];
}

/** One crossing. */
function carryOut(space: Space, calls: readonly Call[]): string[] {
  const outcome = space.turn(calls.map(line).join("\n"), Date.now());
  if (outcome.startsWith("!")) throw new Fault(outcome.slice(1));
  return outcome.split("\n");
}

/** The storage failed, and Rust has put its memory away in good order. */
class Fault extends Error {}

/** JSON escapes tabs and line breaks, so they are free to separate. */
function line([ticket, op, lock, fields, caller = "*"]: Call): string {
  const text = fields instanceof Body ? "~" + JSON.stringify(fields.text) : json(fields);
  return `${ticket}\t${op}\t${json(lock)}\t${caller}\t${text}`;
}

/** What JSON cannot say becomes null, which no field accepts. */
function json(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "null";
  } catch {
    return withoutBigInts(value);
  }
}

function withoutBigInts(value: unknown): string {
  try {
    return JSON.stringify(value, (_, member) => (typeof member === "bigint" ? null : member));
  } catch {
    return "null";
  }
}

function ticketed([ticket, ...rest]: string[]): readonly [number, ...Answer<Reply>] {
  return [Number(ticket), ...answer(rest)];
}

/** Reads what Rust wrote of an answer. */
export function answer([status, kind, retryAfter = "", text = ""]: string[]): Answer<Reply> {
  const is = { isProblem: kind === "problem", isText: kind === "text" };
  return [Number(status), { text, ...is, retryAfter }];
}

function milliseconds(text: string | undefined): number | null {
  return text ? Number(text) : null;
}
