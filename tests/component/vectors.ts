// Plays tests/traces/vectors.json: command sequences with the replies that every build of the engine gives.
import { readFileSync } from "node:fs";

export type Fields = Record<string, unknown>;
export type Reply = Record<string, unknown>;

export interface Call {
  readonly call: number;
  readonly op: string;
  readonly lock: unknown;
  readonly fields: Fields;
}

/** One turn of a store. */
export interface Step {
  readonly atMs: number;
  readonly calls: readonly Call[];
  readonly expect: readonly { readonly call: number; readonly reply: Reply }[];
  readonly queued?: readonly { readonly call: number; readonly position: number }[];
  /** The store starts again from its storage, and open calls are never answered. */
  readonly restart?: boolean;
  /** Its storage fails in this turn. */
  readonly fault?: boolean;
}

export interface Vector {
  readonly name: string;
  readonly needs: readonly string[];
  readonly steps: readonly Step[];
}

/** A store that a vector is played to. */
export interface Store {
  /** Everything that is answered in this turn, by call. */
  turn(step: Step): Promise<Map<number, Reply>>;
  /** Where an open call stands. */
  position(call: number): Promise<unknown>;
}

export const vectors: readonly Vector[] = JSON.parse(
  readFileSync(new URL("../traces/vectors.json", import.meta.url), "utf8"),
);

/** Where the store's clock stands when a vector says 0. */
export const START_MS = 1_700_000_000_000;

/** What differs from the vector; undefined where nothing does. */
export async function difference(vector: Vector, store: Store): Promise<string | undefined> {
  const reading = new Reading();
  for (const step of vector.steps) {
    const told = { ...step, calls: step.calls.map((call) => reading.told(call)) };
    const answers = await store.turn(told);
    reading.restarted ||= step.restart === true;
    const differences: string[] = [];
    for (const { call, reply } of step.expect) {
      const answer = answers.get(call);
      if (!answer || !reading.matches(reply, answer)) {
        differences.push(`expected ${JSON.stringify(reply)}, answered ${JSON.stringify(answer)}`);
      }
      answers.delete(call);
    }
    for (const { call, position } of step.queued ?? []) {
      const actual = await store.position(call);
      if (actual !== position)
        differences.push(`call ${call} stands at ${actual}, not ${position}`);
    }
    for (const [call, reply] of answers) {
      differences.push(`call ${call} was answered ${JSON.stringify(reply)}`);
    }
    if (differences.length > 0) {
      return `${vector.name}, at ${step.atMs} ms:\n  ${differences.join("\n  ")}`;
    }
  }
  return undefined;
}

/** Where the fence of a command is given in the very turn that it is sent in: a space's fences begin at its clock. */
export function foreseen(fields: Fields, firstTurnAtMs: number): Fields {
  const { fence } = fields;
  const isCount = Number.isInteger(fence) && Number(fence) > 0 && Number(fence) < 1_000;
  return isCount ? { ...fields, fence: firstTurnAtMs * 1_000 + Number(fence) - 1 } : fields;
}

/** What a vector says and a store does not: its fences count its grants, its instants start at 0. */
class Reading {
  readonly #fences = new Map<unknown, unknown>();
  /** A store that was restarted has forgotten who released, while a record remembers. */
  restarted = false;

  told(call: Call): Call {
    if (!Object.hasOwn(call.fields, "fence")) return call;
    const { fence } = call.fields;
    return { ...call, fields: { ...call.fields, fence: this.#fences.get(fence) ?? fence } };
  }

  /** Every member that is expected is there and equal; a list has as many items. */
  matches(expected: unknown, actual: unknown, name = ""): boolean {
    if (name === "fence") {
      if (!this.#fences.has(expected)) this.#fences.set(expected, actual);
      return this.#fences.get(expected) === actual;
    }
    if (name === "expiresAt") return actual === Number(expected) + START_MS;
    if (name === "reason" && this.restarted && expected === "unknown") {
      return actual === "unknown" || actual === "released";
    }
    if (Array.isArray(expected)) {
      return (
        Array.isArray(actual) &&
        expected.length === actual.length &&
        expected.every((item, at) => this.matches(item, actual[at]))
      );
    }
    if (expected !== null && typeof expected === "object") {
      const members = Object.entries(expected);
      return members.every(([name, value]) =>
        this.matches(value, (actual as Reply | undefined)?.[name] ?? null, name),
      );
    }
    return expected === actual;
  }
}
