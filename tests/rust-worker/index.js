// What joins the two: the Worker in Rust, as wasm-bindgen made it, and the class of the lease store.
import { fetch, initSync } from "./build/rust_worker.js";
import module from "./build/rust_worker_bg.wasm";

export { LeaseStore } from "leasehold/worker";

initSync({ module });

export default { fetch };
