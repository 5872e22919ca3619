//! The Rust half of the npm package, as JavaScript sees it: two modules, so that nobody loads the engine who does not use
//! it. The feature `binding` is what a client needs, the holder's machine and the judgement of arguments; `memory` is the
//! in-process store.
//!
//! The TypeScript half carries messages, keeps timers and aborts signals. It decides nothing about leases: what is sent,
//! when, and what an answer means is said here. It hands over plain values only (no getters, no BigInt, no lone
//! surrogates), so nothing here ever calls back into a caller's code.

#[cfg(feature = "binding")]
mod arguments;
#[cfg(feature = "binding")]
mod holder;
#[cfg(feature = "memory")]
mod store;
mod values;
