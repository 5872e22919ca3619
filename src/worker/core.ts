// The core of one Durable Object: carries turns into Rust, and starts anew when storage or Rust fail.
import { Kind, Space, unavailable } from "#glue/worker.js";
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
  onDue(ringInMs: number | null, dueInMs: number | null, now: number): void;
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
  readonly unavailable = noAnswer();
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
    const now = Date.now();
    try {
      const restarted = this.#instance !== instance();
      if (restarted) {
        this.#space = undefined;
        this.#isFresh = true;
        if (this.#instance) log("warn", { event: "reset", space: nameOf(this.#state) });
      }
      this.#space ??= new Space(
        this.#state,
        nameOf(this.#state),
        gateOf(this.#settings),
        this.#host.onEvents !== undefined,
      );
      this.#instance = instance();
      const told = new Told();
      carryOut(this.#space, this.#isFresh ? [...this.#resumed(), ...calls] : calls, now, told);
      this.#isFresh = false;
      const { answers, pushes, ringInMs, dueInMs } = told;
      this.#host.onDue(finite(ringInMs), finite(dueInMs), now);
      for (const watching of told.watches) this.#host.onWatch(...watching);
      for (const line of told.lines) console.log(line);
      if (told.events.length > 0) this.#host.onEvents?.(told.events);
      return { answers, pushes, wakeInMs: this.#wake(told), restarted };
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
      this.#host.onDue(null, 0, now);
      throw error;
    }
  }

  #resumed(): Call[] {
    const watchers = [...this.#host.watchers()];
    return watchers.map(([connection, prefixes]) => [0, "resume", connection, prefixes]);
  }

  #wake({ wakeInMs, ringInMs }: Told): number | null {
    if (ringInMs <= this.#host.wakefulMs && !(wakeInMs < ringInMs)) return ringInMs;
    return finite(wakeInMs);
  }
}

/** What Rust says of a turn: see turn.rs. NaN is never. */
class Told {
  wakeInMs = NaN;
  ringInMs = NaN;
  dueInMs = NaN;
  readonly answers: (readonly [ticket: number, ...Answer<Reply>])[] = [];
  readonly pushes: Push[] = [];
  readonly watches: (readonly [connection: number, prefixes: string[]])[] = [];
  readonly lines: string[] = [];
  readonly events: string[] = [];

  due(wakeInMs: number, ringInMs: number, dueInMs: number): void {
    this.wakeInMs = wakeInMs;
    this.ringInMs = ringInMs;
    this.dueInMs = dueInMs;
  }

  answer(ticket: number, status: number, kind: Kind, retryAfter: number, text: string): void {
    this.answers.push([ticket, status, reply(kind, retryAfter, text)]);
  }

  push(connection: number, text: string): void {
    this.pushes.push([connection, text]);
  }

  watching(connection: number, prefixes: string): void {
    this.watches.push([connection, JSON.parse(prefixes) as string[]]);
  }

  line(line: string): void {
    this.lines.push(line);
  }

  event(event: string): void {
    this.events.push(event);
  }
}

function finite(lengthMs: number): number | null {
  return lengthMs >= 0 ? lengthMs : null;
}

/** One crossing. */
function carryOut(space: Space, calls: readonly Call[], now: number, told: Told): void {
  const fault = space.turn(calls.map(line).join("\n"), now, told);
  if (fault !== undefined) throw new Fault(fault);
}

/** The storage failed, and Rust has put its memory away in good order. */
class Fault extends Error {}

/** JSON escapes tabs and line breaks, so they are free to separate. */
function line([ticket, op, lock, fields, caller = "*"]: Call): string {
  const text = fields instanceof Body ? whole(fields.text) : json(fields);
  return `${ticket}\t${op}\t${json(lock)}\t${caller}\t${text}`;
}

/** As it is, where it is one line and well-formed, as most are. */
function whole(text: string): string {
  return /[\n\ud800-\udfff]/.test(text) ? "~" + JSON.stringify(text) : "=" + text;
}

/** What stands for what JSON cannot say. Rust refuses it by the name of the member that it is of, or is in (rule 13). */
const UNSAID = "?";

/** What has more values in it than this is longer than any message may be, or has no end. */
const MOST_VALUES = 10_000;

function json(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (value === undefined) return "null";
  if (isJson(value)) return sayable(value);
  if (!isPlain(value)) return UNSAID;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  const said = members.map(([name, member]) => {
    return `${JSON.stringify(name)}:${isJson(member) ? sayable(member) : UNSAID}`;
  });
  return `{${said.join()}}`;
}

function sayable(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    // It is nested more deeply than the stack is.
    return UNSAID;
  }
}

/** Whether JSON says the same, not something else in its place as of NaN, a Date or a Map. A member may be undefined. */
function isJson(whole: unknown): boolean {
  const values = [whole];
  for (let count = 1; values.length > 0; count += 1) {
    const value = values.pop();
    if (count + values.length > MOST_VALUES) return false;
    switch (typeof value) {
      case "string":
      case "boolean":
        break;
      case "number":
        if (!Number.isFinite(value)) return false;
        break;
      case "object":
        if (value === null) break;
        if (Array.isArray(value)) {
          if (value.length > MOST_VALUES || value.includes(undefined)) return false;
          values.push(...(value as unknown[]));
        } else {
          if (!isPlain(value)) return false;
          for (const member of Object.values(value)) {
            if (member !== undefined) values.push(member);
          }
        }
        break;
      default:
        return false;
    }
  }
  return true;
}

/** Whether it is an object as literals make them, in whichever realm. */
function isPlain(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** An answer in one piece, as Rust puts it. @internal */
export type Answered = readonly [status: number, kind: Kind, retryAfter: number, text: string];

/** @internal */
export function answer([status, kind, retryAfter, text]: Answered): Answer<Reply> {
  return [status, reply(kind, retryAfter, text)];
}

function reply(kind: Kind, retryAfter: number, text: string): Reply {
  return {
    text,
    isProblem: kind === Kind.Problem,
    isText: kind === Kind.Text,
    retryAfter: retryAfter > 0 ? String(retryAfter) : "",
  };
}

/** What is told to those of whose calls nothing is known. */
export function noAnswer(): Answer<Reply> {
  return answer(JSON.parse(unavailable()) as Answered);
}
