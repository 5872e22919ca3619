// What options are given as, and what is made of it. Bounds are the store's own to check.
import { readFileSync } from "node:fs";
import type { Json } from "leasehold";
import { misused } from "./exit.ts";

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** `30s`, `500ms`, `1.5m`; a plain number is seconds, as in flock(1). */
export function durationMs(text: string, option: string): number {
  const [, number, unit = "s"] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text) ?? [];
  // In decimals: 1.1 s are 1 100 ms, and not a little more.
  const ms = number === undefined ? NaN : Number((Number(number) * UNITS[unit]!).toPrecision(15));
  if (Number.isSafeInteger(ms)) return ms;
  throw misused(`${option} must be a duration of whole milliseconds: 30, 1.5m, 500ms, 2h or 1d`);
}

export function integer(text: string, option: string): number {
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text);
  throw misused(`${option} must be a whole number`);
}

export function exitCode(text: string, option: string): number {
  const code = integer(text, option);
  if (code <= 255) return code;
  throw misused(`${option} must be an exit code, 0 to 255`);
}

export function port(text: string, option: string): number {
  const port = integer(text, option);
  if (port <= 65_535) return port;
  throw misused(`${option} must be a port, 0 to 65535, where 0 is any that is free`);
}

export function json(text: string, option: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw misused(
      `${option} must be JSON, as in ${option} '{"build": 7}' or ${option} '"nightly"'`,
    );
  }
}

/** A file with nothing but a secret in it; `-` is standard input. */
export function secretIn(path: string, option: string): string {
  const secret = textOf(path, option).trim();
  if (secret !== "") return secret;
  throw misused(`${option} names a file with nothing in it`);
}

export function textOf(path: string, option: string): string {
  try {
    return readFileSync(path === "-" ? 0 : path, "utf8");
  } catch (error) {
    throw misused(`${option} cannot be read: ${(error as Error).message}`);
  }
}
