//! `check`: format, lint, documentation and types. The first complaint ends it.

use std::process::ExitCode;

use anyhow::Result;

use crate::build;
use crate::command::{cargo, run, say};
use crate::tools::{self, WASM_TARGET, run_npm};
use crate::wit;

/// The features that make a WebAssembly artefact: each is built without the others.
const ARTEFACTS: [&str; 6] = ["worker", "worker,faults", "binding", "component", "provider", "provider-sync"];

/// Crates by themselves: the host of the component's tests, and the engine's benchmark.
const WASMTIME: &str = "tests/component/wasmtime/Cargo.toml";
const BENCH: &str = "bench/engine/Cargo.toml";

pub fn everything() -> Result<ExitCode> {
    say("Checking", "format of the Rust");
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    for manifest in [WASMTIME, BENCH] {
        run(&mut cargo(&["fmt", "--manifest-path", manifest, "--check"]))?;
    }

    say("Checking", "lints and documentation, native");
    clippy(&["--workspace", "--all-targets"])?;
    document(&["--workspace"])?;
    clippy(&["--manifest-path", WASMTIME, "--target-dir", "target/wasmtime", "--all-targets"])?;

    tools::wasm_target()?;
    for feature in ARTEFACTS {
        say("Checking", &format!("lints and documentation, {feature}"));
        let artefact = ["--package", "leasehold", "--lib", "--target", WASM_TARGET, "--features", feature];
        clippy(&artefact)?;
        document(&artefact)?;
    }

    say("Checking", "the page of the WIT interfaces");
    wit::check()?;

    // The types are those of the glue and of the npm package, so both are built first.
    build::everything()?;
    build::components_in_javascript()?;
    say("Checking", "types and format of the TypeScript");
    run_npm("tsc", &["--project", "."])?;
    run_npm("prettier", &["--check", "--log-level=warn", "."])?;
    Ok(ExitCode::SUCCESS)
}

fn clippy(selection: &[&str]) -> Result<()> {
    run(cargo(&["clippy", "--quiet"]).args(selection).args(["--", "-D", "warnings"]))
}

fn document(selection: &[&str]) -> Result<()> {
    run(cargo(&["doc", "--quiet", "--no-deps"]).args(selection).env("RUSTDOCFLAGS", "-D warnings"))
}
