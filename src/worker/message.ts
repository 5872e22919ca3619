// A message of commands: what a socket sends, or a caller within the account.
import { max_body_bytes } from "#glue/worker.js";
import { Body } from "./core.ts";

/** That one is too long can be told by its beginning. */
const TELLING = max_body_bytes() + 1;

/** What is no text is not JSON either, and refused as such. */
export function sentText(message: unknown): Body {
  return new Body(typeof message === "string" ? message.slice(0, TELLING) : "");
}
