//! The user's Worker in Rust that the tests run: built as a user would, with cargo and wasm-bindgen, from a folder that
//! is no part of the workspace.

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::command::{cargo, root, run};
use crate::freshness::{Step, this_xtask};
use crate::tools::WASM_TARGET;
use crate::wasm::same_everywhere;

const MANIFEST: &str = "tests/rust-worker/Cargo.toml";
/// With the artefact `worker`: both are made of the same crates, compiled in the same way.
const TARGET: &str = "target/worker";
const OUTPUT: &str = "target/rust-worker/build";

/// Makes `rust_worker.js` and `rust_worker_bg.wasm`, and what they import.
pub fn build() -> Result<()> {
    let mut build = cargo(&["build", "--release", "--manifest-path", MANIFEST, "--target-dir", TARGET]);
    run(build.args(["--target", WASM_TARGET]).env("CARGO_ENCODED_RUSTFLAGS", same_everywhere()))?;
    let output = root().join(OUTPUT);
    let step = Step {
        stamp: output.join(".stamp"),
        maker: this_xtask()?,
        inputs: &[root().join(TARGET).join(WASM_TARGET).join("release/rust_worker.wasm")],
        outputs: &[output.join("rust_worker.js"), output.join("rust_worker_bg.wasm")],
    };
    step.unless_fresh(|| {
        let mut bindgen = Bindgen::new();
        bindgen.input_path(&step.inputs[0]).typescript(false).omit_default_module_path(true);
        bindgen.web(true)?.generate(&output).context("wasm-bindgen refused the Worker in Rust")
    })
}
