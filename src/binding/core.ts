// The Rust half: started on first use, since a module may do little while a Worker loads it, and
// started over after a trap, since the memory of an instance that trapped cannot be trusted.

// First, and so first in the script: gzip makes less of it between two pieces of code.
import { wasm } from "#wasm";
import { __wbg_reset_state, initSync, mint as minted } from "#glue/binding.js";
import { errorOf, isProblem, unavailable } from "./errors.ts";

export { check, checkSpace, Due, Session, Status } from "#glue/binding.js";

let generation = 0;

/** Which instance it is: what was made by an earlier one is void. */
export function instance(): number {
  if (generation === 0) {
    initSync({ module: wasm() });
    generation = 1;
  }
  return generation;
}

/**
 * Calls into Rust. Throws a LeaseError: `invalid_argument` where Rust says so, `unavailable` where it
 * trapped, now or since the instance `made` was the one.
 */
export function enter<T>(call: () => T, made: number = instance()): T {
  if (made !== instance()) throw unavailable("what this belongs to was lost in a fault");
  try {
    return call();
  } catch (error) {
    if (isProblem(error)) throw errorOf(error);
    __wbg_reset_state();
    generation += 1;
    throw unavailable("a fault in Leasehold itself", error);
  }
}

/** A new UUID v4. */
export function mint(): string {
  // The engine's own way is the quickest; a page that did not come over TLS has none.
  return globalThis.crypto?.randomUUID?.() ?? enter(minted);
}
