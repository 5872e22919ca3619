//! The components: the rules for every other runtime, behind the WIT interfaces of `wit/`.
//!
//! | module | world | feature |
//! | --- | --- | --- |
//! | `decider` | `decider`: the kernel, importing nothing | `component` |
//! | `provider` | `provider`: a store that is a Leasehold Worker, reached over `wasi:http` | `provider` |
//! | | `provider-sync`: the same for hosts without asynchronous functions | `provider-sync` |
//! | `data` | what both say, between WIT's types and the wire's JSON | |

#[cfg(all(feature = "component", feature = "provider"))]
compile_error!("one build carries the exports of one world: `component` or `provider`");

mod data;
#[cfg(feature = "component")]
mod decider;
#[cfg(feature = "provider")]
mod provider;

#[cfg(feature = "component")]
#[allow(unsafe_code, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "decider" });
}

#[cfg(feature = "provider")]
#[allow(unsafe_code, clippy::all, reason = "generated")]
mod bindings {
    // `-all`: the async functions are lifted synchronously, as WASI 0.2 waits.
    #[cfg(not(feature = "provider-sync"))]
    wit_bindgen::generate!({ path: "wit", world: "provider", async: ["-all"] });
    #[cfg(feature = "provider-sync")]
    wit_bindgen::generate!({ path: "wit", world: "provider-sync" });
}

#[cfg(feature = "component")]
use bindings::exports::leasehold::lease::types;
#[cfg(feature = "provider")]
use bindings::leasehold::lease::types;
