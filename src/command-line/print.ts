// What is printed: lines for people, or one JSON object a line for programs.
import { unwritten } from "./exit.ts";
import type { Holder, LockChange, LockState, Waiter } from "leasehold";

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Resolves when it is written. Rejects with a Failure where it cannot be, which then does not end this process. */
export function printSurely(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => reject(unwritten(error));
    process.stdout.removeAllListeners("error").on("error", fail);
    process.stdout.write(`${text}\n`, (error) => (error ? fail(error) : resolve()));
  });
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

export function complain(line: string): void {
  process.stderr.write(`leasehold: ${line}\n`);
}

/** Names and info are other people's text: nothing in it may steer a terminal or look like another line. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0)!.toString(16);
    return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\u{${code}}`;
  });
}

/** The two largest units that say something. */
export function length(ms: number): string {
  if (ms < 1_000) return `${ms}ms`;
  const seconds = Math.round(ms / 1_000);
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3_600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "m"],
    [seconds % 60, "s"],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count}${unit}`)
    .join("");
}

export function holderLine({ fence, mode, clientId, info, expiresInMs, heldMs }: Holder): string {
  const since = heldMs === undefined ? "" : `, for ${length(heldMs)}`;
  return `fence ${fence}  ${mode}${by(clientId)}${since}, ${length(expiresInMs)} left${about(info)}`;
}

export function waiterLine({ mode, clientId, info, waitedMs }: Waiter): string {
  return `${mode}${by(clientId)}, for ${length(waitedMs)}${about(info)}`;
}

export function stateLine({ lock, holders, queue }: LockState): string {
  const held = holders.map(holderLine).join("; ") || "free";
  return `${plain(lock)}  ${held}${queue > 0 ? `  ${queue} waiting` : ""}`;
}

export function changeLine(change: LockChange): string {
  const fence = change.fence === undefined ? "" : ` fence ${change.fence}`;
  return `${change.change}${fence}  ${stateLine(change)}`;
}

function by(clientId: string | undefined): string {
  return clientId === undefined ? "" : `  ${plain(clientId)}`;
}

function about(info: unknown): string {
  return info === undefined ? "" : `  ${plain(JSON.stringify(info))}`;
}
