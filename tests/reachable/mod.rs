//! Everything that can happen in a small world, rather than some of what can happen in a larger one.

pub mod protocol;
pub mod search;
pub mod store;
