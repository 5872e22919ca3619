//! What the fuzzer looks at: each function takes any bytes, and panics where a promise is broken. `fuzz/` hands them what
//! libFuzzer thinks of; `tests/fuzz_corpus.rs` hands them `corpus/`, the smallest files that reach all that was reached.

pub mod commands;
pub mod frames;
pub mod json;
pub mod records;
pub mod wire;

/// A function, and the folder of its files in `corpus/`.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 5] = [
    ("json", json::run),
    ("wire", wire::run),
    ("frames", frames::run),
    ("records", records::run),
    ("commands", commands::run),
];
