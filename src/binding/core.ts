// The Rust half: started on first use, since a module may do little while a Worker loads it, and
// started over after a trap, since the memory of an instance that trapped cannot be trusted.
import * as glue from "#glue/binding.js";
import { wasm } from "#wasm";
import { errorOf, isProblem, unavailable } from "./errors.ts";

export { Session, Status, Store } from "#glue/binding.js";

let generation = 0;

/** Which instance it is: what was made by an earlier one is void. */
export function instance(): number {
  if (generation === 0) {
    glue.initSync({ module: wasm() });
    generation = 1;
  }
  return generation;
}

/**
 * Calls into Rust. Throws a LeaseError: `invalid_argument` where Rust says so, `unavailable` where it
 * trapped, now or since the instance `made` was the one.
 */
export function enter<T>(call: (rust: typeof glue) => T, made: number = instance()): T {
  if (made !== instance()) throw unavailable("what this belongs to was lost in a fault");
  try {
    return call(glue);
  } catch (error) {
    if (isProblem(error)) throw errorOf(error);
    glue.__wbg_reset_state();
    generation += 1;
    throw unavailable("a fault in Leasehold itself", error);
  }
}

/** A new UUID v4. */
export function mint(): string {
  return enter((rust) => rust.mint());
}
