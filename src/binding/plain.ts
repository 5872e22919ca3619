// What a caller gave, copied into plain values before it goes to Rust: no getter runs twice, and
// nothing crosses that would arrive as something else.
import { invalid } from "./errors.ts";

/**
 * The members of an options object that are given. What JSON cannot say (a BigInt, a function, a lone
 * surrogate) becomes null, which Rust refuses with the name of the field.
 */
export function fieldsOf(options: unknown): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(checked(options))) {
    if (value !== undefined) fields[name] = name === "info" ? json(value) : scalar(value);
  }
  return fields;
}

/** Options are an object, whatever is in it. */
export function checked<T>(options: T): T & object {
  if (typeof options === "object" && options !== null && !Array.isArray(options)) return options;
  throw invalid("options", "an object");
}

/** A copy of options of which none but these may be given: one that is misspelt is not overlooked. */
export function known<T>(options: T, names: readonly string[]): T & object {
  const given = { ...checked(options) };
  for (const [name, value] of Object.entries(given)) {
    const isKnown = names.includes(name) || value === undefined;
    if (!isKnown) throw invalid(name, "left out: there is no such option");
  }
  return given;
}

/** What a lease is to be like, whoever asks for it. */
export const TERMS = ["ttlMs", "info", "maxHoldMs", "lockDelayMs", "token"] as const;

export function isSignal(value: unknown): value is AbortSignal {
  return typeof (value as AbortSignal | null)?.throwIfAborted === "function";
}

export function checkSignal(signal: unknown): void {
  if (signal !== undefined && !isSignal(signal)) throw invalid("signal", "an AbortSignal");
}

/** A string, number or boolean; null for anything else. */
export function scalar(value: unknown): string | number | boolean | null {
  switch (typeof value) {
    case "string":
      return isWellFormed(value) ? value : null;
    case "number":
    case "boolean":
      return value;
    default:
      return null;
  }
}

export function isWellFormed(text: string): boolean {
  return text.isWellFormed?.() ?? !/\p{Surrogate}/u.test(text);
}

/** What `info` is once it has been JSON; refused where that would be another thing. */
function json(value: unknown): unknown {
  // As a replacer: `this` has the member as it was given, before a `toJSON` made another thing of it.
  function check(this: Record<string, unknown>, name: string): unknown {
    const member = this[name];
    if (!isWellFormed(name) || !isJson(member)) throw new TypeError();
    return member;
  }
  try {
    return JSON.parse(JSON.stringify(value, check)) as unknown;
  } catch {
    throw invalid("info", "at most 1024 bytes of JSON");
  }
}

function isJson(member: unknown): boolean {
  switch (typeof member) {
    case "number":
      return Number.isFinite(member);
    case "string":
      return isWellFormed(member);
    case "object":
      return member === null || Array.isArray(member) || isPlain(member);
    default:
      return typeof member === "boolean" || member === undefined;
  }
}

/** Whether it is no instance of anything: a Date or a Map would arrive as something else. */
function isPlain(object: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(object);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
