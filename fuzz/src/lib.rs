//! The bodies of the targets, where the tests have them, too.

#[path = "../../tests/fuzz/mod.rs"]
pub mod fuzz;
#[path = "../../tests/support/mod.rs"]
mod support;
