//! `check`: format, lint, documentation and types. The first complaint ends it.

use std::process::ExitCode;

use anyhow::Result;

use crate::build;
use crate::command::{cargo, run, say};
use crate::tools::{self, WASM_TARGET, run_npm};
use crate::wit;

/// The features for WebAssembly: each is built without the others.
const FEATURES: [&str; 8] =
    ["worker", "worker,faults", "client", "binding", "memory", "component", "provider", "provider-sync"];

/// Crates by themselves: a user's Worker in Rust, the host of the component's tests, the engine's benchmark, the fuzzer.
const RUST_WORKER: &str = "tests/rust-worker/Cargo.toml";
const WASMTIME: &str = "tests/component/wasmtime/Cargo.toml";
const BENCH: &str = "bench/engine/Cargo.toml";
const FUZZ: &str = "fuzz/Cargo.toml";

pub fn everything() -> Result<ExitCode> {
    say("Checking", "format of the Rust");
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    for manifest in [RUST_WORKER, WASMTIME, BENCH, FUZZ] {
        run(&mut cargo(&["fmt", "--manifest-path", manifest, "--check"]))?;
    }

    say("Checking", "lints and documentation, native");
    clippy(&["--workspace", "--all-targets"])?;
    document(&["--workspace"])?;
    clippy(&["--manifest-path", WASMTIME, "--target-dir", "target/wasmtime", "--all-targets"])?;

    tools::wasm_target()?;
    for feature in FEATURES {
        say("Checking", &format!("lints and documentation, {feature}"));
        let artefact = ["--package", "leasehold", "--lib", "--target", WASM_TARGET, "--features", feature];
        clippy(&artefact)?;
        document(&artefact)?;
    }
    clippy(&["--manifest-path", RUST_WORKER, "--target-dir", "target/rust-worker/check", "--target", WASM_TARGET])?;

    say("Checking", "the page of the WIT interfaces");
    wit::check()?;

    // The types are those of the glue and of the npm package, so both are built first.
    build::everything()?;
    build::components_in_javascript()?;
    tools::TESTS.install()?;
    say("Checking", "types and format of the TypeScript");
    run_npm("tsc", &["--project", "."])?;
    run_npm("tsc", &["--project", "tsconfig.www.json"])?;
    run_npm("prettier", &["--check", "--log-level=warn", "."])?;
    Ok(ExitCode::SUCCESS)
}

fn clippy(selection: &[&str]) -> Result<()> {
    run(cargo(&["clippy", "--quiet"]).args(selection).args(["--", "-D", "warnings"]))
}

fn document(selection: &[&str]) -> Result<()> {
    run(cargo(&["doc", "--quiet", "--no-deps"]).args(selection).env("RUSTDOCFLAGS", "-D warnings"))
}
