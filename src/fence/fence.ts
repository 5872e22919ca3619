// The rule, and what may be asked about it. In SQL the rule stands once more, in sql.ts.
import { invalid } from "./errors.ts";

/** A fence, 0 to 9 007 199 254 740 991, or what carries one: a lease, or what its `toJSON` gave. */
export type Fenced = number | { readonly fence: number };

/** What a fence is, in words. */
export const INTEGER = "an integer from 0 to 9007199254740991";

/** A resource that has seen `newest` refuses an older fence and admits the same one or a newer one. */
export function admits(newest: number, fence: number): boolean {
  return newest <= fence;
}

export function fenceOf(fenced: unknown): number {
  const fence: unknown = (fenced as { fence?: unknown } | null | undefined)?.fence ?? fenced;
  if (Number.isSafeInteger(fence) && (fence as number) >= 0) return fence as number;
  throw invalid("fence", `${INTEGER}, or a lease`);
}

/** What a guard knows a resource by: the name of a lock, say. */
export function nameOf(name: unknown): string {
  const isText = typeof name === "string" && name.isWellFormed() && !name.includes("\0");
  const bytes = isText ? new TextEncoder().encode(name).length : 0;
  if (isText && bytes >= 1 && bytes <= 512) return name;
  // Postgres has no text with that character in it.
  throw invalid("name", "1 to 512 bytes of UTF-8, without U+0000");
}

/** What a guard is to work on. A binding that was forgotten is told of before anything is to be written. */
export function having<Target>(target: Target, field: string, methods: readonly string[]): Target {
  const known = target as Readonly<Record<string, unknown>> | null | undefined;
  if (methods.every((method) => typeof known?.[method] === "function")) return target;
  throw invalid(field, `an object with ${methods.join("() and ")}()`);
}

// Every platform has it, and none of their types are needed here.
declare const TextEncoder: new () => { encode(text: string): Uint8Array };
