// A message of commands: what a socket sends, or a caller within the account.
import { max_body_bytes } from "#glue/worker.js";
import { Body } from "./core.ts";

const bytes = new TextEncoder();
const MOST_BYTES = max_body_bytes();

/** What is too long, or no text, is not JSON either and refused as such. */
export function sentText(message: unknown): Body {
  return new Body(typeof message === "string" && fits(message) ? message : "");
}

function fits(text: string): boolean {
  // No UTF-16 unit is more than three bytes of UTF-8.
  if (text.length * 3 <= MOST_BYTES) return true;
  return text.length <= MOST_BYTES && bytes.encode(text).length <= MOST_BYTES;
}
