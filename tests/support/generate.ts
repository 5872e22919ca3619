// Requests at random from what the OpenAPI document says: mostly right, often wrong in one place.
import { at, type Operation } from "./openapi.ts";
import type { Json } from "./store.ts";

/** Random numbers that a seed gives again (mulberry32). */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** An integer from 0 up to but not including `end`. */
  roll(end: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let bits = this.#state;
    bits = Math.imul(bits ^ (bits >>> 15), bits | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return Math.floor((((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32) * end);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.roll(items.length)]!;
  }

  /** Once in so many times. */
  once(inSoMany: number): boolean {
    return this.roll(inSoMany) === 0;
  }
}

export interface Generated {
  readonly to: Operation;
  readonly url: string;
  readonly init: RequestInit;
}

/** Few of them, so that requests meet. */
const FEW = ["a", "b", "t"];
const TEXTS = [
  "",
  "\0",
  "\ud800",
  "-a",
  ".",
  "..",
  "a/b",
  "a%2Fb",
  "é".repeat(300),
  "x".repeat(600),
  '"',
  "\u{1f512}",
];
const VALUES = [null, true, 0, -1, 1.5, 1e300, 2 ** 53, "", "30", [], [1], {}, { a: {} }];

export function generate(to: Operation, dice: Dice, base: string, key: string): Generated {
  const parameters: Json[] = (to.content.parameters ?? []).map(
    (_: Json, index: number) => at(`${to.pointer}/parameters/${index}`)[1],
  );
  let path = to.path;
  const query = new URLSearchParams();
  for (const { name, in: place, schema } of parameters) {
    const text = String(dice.once(6) ? dice.pick(TEXTS) : valueOf(schema, dice));
    if (place === "path") path = path.replace(`{${name}}`, segment(text));
    else if (dice.once(2)) query.append(name, text);
  }
  if (dice.once(20)) query.append(dice.pick(["prefix", "pageSize", "other", ""]), "1");
  const headers: Record<string, string> = { authorization: `Bearer ${key}` };
  const init: RequestInit = { method: to.method, headers };
  if (to.method === "POST") {
    headers["content-type"] = dice.once(30) ? "text/plain" : "application/json";
    init.body = bodyOf(to, dice);
  }
  const search = query.size > 0 ? `?${query}` : "";
  return { to, url: base + path + search, init };
}

/** A segment of a path that stays one: "." and "" would be another address. */
function segment(text: string): string {
  const fit = ["", ".", ".."].includes(text) ? "-" : text.toWellFormed();
  return encodeURIComponent(fit);
}

function bodyOf(to: Operation, dice: Dice): string {
  const [, schema] = at(`${to.pointer}/requestBody/content/application~1json/schema`);
  const fields = valueOf(schema, dice) as Record<string, unknown>;
  if (dice.once(5)) {
    const name = dice.pick([...Object.keys(schema.properties), "other"]);
    fields[name] = dice.pick([...VALUES, ...TEXTS]);
  }
  if (dice.once(10)) delete fields[dice.pick(Object.keys(schema.properties))];
  const text = JSON.stringify(fields);
  if (dice.once(20)) return text.slice(0, dice.roll(text.length));
  if (dice.once(20)) return text.replace("{", '{"token":"twice",');
  return text;
}

/** A value that the schema allows, often at one of its edges. */
function valueOf(schema: Json, dice: Dice): unknown {
  if (schema.$ref) {
    return valueOf({ ...at(schema.$ref.slice(1))[1], ...schema, $ref: undefined }, dice);
  }
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return dice.pick(schema.enum);
  switch (schema.type) {
    case "object": {
      const required: string[] = schema.required ?? [];
      const names = Object.keys(schema.properties).filter(
        (name) => required.includes(name) || dice.once(4),
      );
      return Object.fromEntries(
        names.map((name) => [name, valueOf(schema.properties[name], dice)]),
      );
    }
    case "integer": {
      const { minimum = 0, maximum = 2 ** 53 - 1 } = schema;
      // Not longer than the test has time.
      const few = Math.min(maximum, minimum + 20);
      return dice.once(20) && maximum !== 60_000 ? maximum : minimum + dice.roll(few - minimum + 1);
    }
    case "boolean":
      return dice.once(2);
    case "string":
      if (schema.pattern?.includes("[0-9]")) return String(dice.roll(100));
      return dice.once(20) ? "x".repeat(schema.maxLength) : dice.pick(FEW);
    default:
      return dice.pick([...VALUES, "public"]);
  }
}
