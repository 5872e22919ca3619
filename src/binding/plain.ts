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
  if (typeof options === "object" && options !== null) return options;
  throw invalid("options", "an object");
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
  const check = (name: string, member: unknown) => {
    const isJson =
      isWellFormed(name) &&
      (typeof member === "number"
        ? Number.isFinite(member)
        : typeof member === "string"
          ? isWellFormed(member)
          : typeof member === "boolean" || typeof member === "object" || member === undefined);
    if (!isJson) throw new TypeError();
    return member;
  };
  try {
    return JSON.parse(JSON.stringify(value, check)) as unknown;
  } catch {
    throw invalid("info", "at most 1024 bytes of JSON");
  }
}
