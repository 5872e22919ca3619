// The Rust half of the Worker: one instance for all objects of an isolate.
import { __wbg_reset_state, initSync } from "#glue/worker.js";
import module from "./worker.wasm";

initSync({ module });
let generation = 1;

/** Which instance this is: whatever was made by an earlier one is void. */
export function instance(): number {
  return generation;
}

/** After a trap the memory of an instance cannot be trusted: starts over with a new one. */
export function restart(): void {
  __wbg_reset_state();
  generation += 1;
}
