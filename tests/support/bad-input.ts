// Commands that are wrong in exactly one place, made at random from what the OpenAPI document says is right.
import { at } from "./openapi.ts";
import type { Dice } from "./generate.ts";
import { ask, type Fields, type Json } from "./store.ts";

/** A command that has to be refused: by that field's name, by any where it is not certain which. */
interface Bad {
  readonly op: string;
  readonly lock: string;
  readonly field: string | undefined;
  /** Its fields as text, for whoever carries text. */
  readonly text?: string;
  /** Its fields as values, in the notation of rpc-worker.js. */
  readonly values?: Fields;
}

/** What is wrong with one member: as text, as a value, or both. */
interface Member {
  readonly text?: string;
  readonly value?: unknown;
}

/** Two locks that are held, and one that is free. */
export const LOCKS = ["held", "shared", "free"] as const;

const COMMANDS: readonly Json[] = at("/components/schemas/Command")[1].oneOf;
export const OPS: readonly string[] = COMMANDS.map(({ properties }) => properties.op.const);

/** One that text can say. */
export function badText(ops: readonly string[], dice: Dice): Bad & { readonly text: string } {
  for (;;) {
    const bad = badCommand(ops, dice);
    if (bad.text !== undefined) return { ...bad, text: bad.text };
  }
}

/** One that values can say. */
export function badValues(ops: readonly string[], dice: Dice): Bad & { readonly values: Fields } {
  for (;;) {
    const bad = badCommand(ops, dice);
    if (bad.values !== undefined) return { ...bad, values: bad.values };
  }
}

function badCommand(ops: readonly string[], dice: Dice): Bad {
  const op = dice.pick(ops);
  const { properties } = COMMANDS.find((command) => command.properties.op.const === op)!;
  const known = Object.keys(properties).filter((name) => !["id", "op", "lock"].includes(name));
  const lock = dice.pick(LOCKS);
  const right = rightFields(op);
  const fault = dice.roll(known.length > 0 ? 12 : 2);
  if (fault === 0) {
    const field = dice.pick([
      "ttl",
      "TTLMS",
      "ttlMs ",
      "",
      "constructor",
      "\u{1f512}",
      "x".repeat(500),
    ]);
    return both(op, lock, field, { ...right, [field]: 1 });
  }
  if (fault === 1) return { op, lock, ...brokenText(JSON.stringify(right), dice) };
  if (fault === 2 && Object.keys(right).length > 0) {
    const field = dice.pick(Object.keys(right));
    const { [field]: _, ...rest } = right;
    return both(op, lock, field, rest);
  }
  if (fault === 3 && Object.keys(right).length > 0) {
    const field = dice.pick(Object.keys(right));
    const again = `${JSON.stringify(field)}:${JSON.stringify(right[field])}`;
    return { op, lock, field, text: joined(JSON.stringify(right), again) };
  }
  const field = dice.pick(known);
  if (field === "limit" && dice.once(8)) return both(op, lock, field, { ...right, limit: 3 });
  if (field === "steal" && dice.once(4)) {
    return both(op, lock, field, { ...right, mode: "shared", steal: true });
  }
  const { [field]: _, ...beside } = field === "limit" ? { ...right, mode: "shared" } : right;
  const { text, value } = dice.pick(badMembers(properties[field], dice));
  return {
    op,
    lock,
    field,
    ...(text !== undefined && { text: joined(JSON.stringify(beside), `"${field}":${text}`) }),
    ...(value !== undefined && { values: { ...beside, [field]: value } }),
  };
}

/** Names that no lock and no space may have, and things that are no names. */
export function badName(dice: Dice): unknown {
  return dice.pick([
    "",
    "-",
    "-a",
    ".",
    "..",
    "x".repeat(513 + dice.roll(1_000)),
    "\u00e9".repeat(257),
    "\ud800",
    `a${String.fromCharCode(0xdc00 + dice.roll(0x400))}b`,
    dice.roll(100),
    null,
    true,
    ["a"],
    { a: 1 },
  ]);
}

function both(op: string, lock: string, field: string, fields: Fields): Bad {
  return { op, lock, field, text: JSON.stringify(fields), values: fields };
}

/** Enough for the command to be right, and to find nothing. */
function rightFields(op: string): Fields {
  switch (op) {
    case "acquire":
      return ask();
    case "renew":
    case "release":
      return { token: "t", fence: 1 };
    case "cancel":
      return { token: "t", requestId: "r" };
    default:
      return {};
  }
}

/** Text that is no JSON object at all. */
function brokenText(right: string, dice: Dice): { text: string; field: string | undefined } {
  const whole = [
    "",
    " ",
    "[]",
    "null",
    "true",
    "7",
    '"text"',
    "{}{}",
    "{'a':1}",
    "{,}",
    "\ufeff{}",
    "\0",
    "NaN",
    `${right}x`,
  ];
  if (dice.once(2)) return { text: dice.pick(whole), field: "body" };
  const nested = "[".repeat(40) + "]".repeat(40);
  const texts = [
    right.slice(0, dice.roll(right.length)),
    right.replace("{", '{"a":' + nested + ","),
    right.replace("}", ",}"),
  ];
  return { text: dice.pick(texts), field: undefined };
}

function joined(text: string, member: string): string {
  return text === "{}" ? `{${member}}` : `${text.slice(0, -1)},${member}}`;
}

function same(value: unknown): Member {
  return { text: JSON.stringify(value), value };
}

/** Values that RPC carries and JSON does not say. */
const UNSAYABLE = [
  "NaN",
  "Infinity",
  "-Infinity",
  "bigint",
  "date",
  "map",
  "set",
  "bytes",
  "boxed",
  "function",
  "cyclic",
  "hole",
  "error",
  "proxy",
];

/** JSON texts of no value. */
const NO_VALUE = [
  "NaN",
  "Infinity",
  "-Infinity",
  "undefined",
  "01",
  "+1",
  ".5",
  "1.",
  "1e",
  "'a'",
  "tru",
  '"\\x"',
  '"\\ud800"',
  '"\\ud800\\u0041"',
  '"\n"',
  '"\t',
  "1e400",
  "[1,]",
  '{"a":1,"a":1}',
  "[".repeat(40) + "1" + "]".repeat(40),
];

function badMembers(given: Json, dice: Dice): Member[] {
  const schema: Json = given.$ref ? at(given.$ref.slice(1))[1] : given;
  const unsayable = UNSAYABLE.map((name) => ({ value: { $: name } }));
  const common = [...unsayable, ...NO_VALUE.map((text) => ({ text }))];
  if (schema.type === undefined && schema.enum === undefined)
    return [...common, ...badInfos(schema, dice)];
  const wrongType = [null, [], {}, [1], { a: {} }];
  const wrong = (values: readonly unknown[]) => [...common, ...[...wrongType, ...values].map(same)];
  switch (schema.enum ? "enum" : schema.type) {
    case "enum":
      return wrong([
        7,
        true,
        "",
        "no",
        ...schema.enum.flatMap((name: string) => [`${name} `, name.toUpperCase()]),
      ]);
    case "boolean":
      return wrong([0, 1, "true", "false", ""]);
    case "integer": {
      const { minimum, maximum } = schema;
      const inside = minimum + dice.roll(Math.min(maximum - minimum, 10_000));
      const numbers = [
        minimum - 1,
        -1,
        -inside - 1,
        maximum + 1,
        maximum * 2 + 2,
        inside + 0.5,
        minimum - 0.5,
        1e300,
        -1e300,
        5e-324,
        2 ** 53,
      ];
      return wrong([...numbers, String(inside), "", "abc", true, false]);
    }
    case "string": {
      const { minLength = 0, maxLength, "x-maxBytes": maxBytes } = schema;
      const long = "x".repeat(maxLength + 1 + dice.roll(200));
      const wide = "\u00e9".repeat(maxBytes / 2 + 1);
      const halves = ["\ud800", `a${String.fromCharCode(0xd800 + dice.roll(0x800))}`];
      const names = schema.pattern ? ["-a", ".", ".."] : [];
      return wrong([
        ...(minLength > 0 ? [""] : []),
        long,
        wide,
        ...halves,
        ...names,
        0,
        7,
        1.5,
        true,
      ]);
    }
    default:
      throw new Error(`a field of a kind that nothing is known of: ${JSON.stringify(schema)}`);
  }
}

/** Anything that JSON says is right here, if it is short. */
function badInfos(schema: Json, dice: Dice): Member[] {
  const { "x-maxBytes": maxBytes } = schema;
  const nested = (value: unknown) => (dice.once(2) ? { a: [value] } : [1, { a: value }]);
  const within = UNSAYABLE.map((name) => ({ value: nested({ $: name }) }));
  const long = [
    "x".repeat(maxBytes - 1),
    Array(maxBytes).fill(1),
    "\u00e9".repeat(maxBytes / 2),
    { a: "\u0001".repeat(maxBytes / 6) },
  ];
  const halves = ["\ud800", ["\udfff"], { "\ud800": 1 }];
  return [...within, ...[...long, ...halves].map(same)];
}
