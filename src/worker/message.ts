// A message of commands: what a socket sends, or a caller within the account.
import { max_body_bytes } from "#glue/worker.js";
import { Body } from "./core.ts";

const bytes = new TextEncoder();

/** What is too long, or no text, is not JSON either and refused as such. */
export function sentText(message: unknown): Body {
  return new Body(typeof message === "string" && fits(message, max_body_bytes()) ? message : "");
}

function fits(text: string, most: number): boolean {
  // No UTF-16 unit is more than three bytes of UTF-8.
  return text.length * 3 <= most || (text.length <= most && bytes.encode(text).length <= most);
}
