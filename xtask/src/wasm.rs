//! Rust to WebAssembly with its JavaScript glue: cargo, then wasm-bindgen, then wasm-opt.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::command::{cargo, root, run, say};
use crate::freshness::{Step, make_room, this_xtask};
use crate::tools::{WASM_TARGET, run_npm};

/// One build of the library, with one feature set: no build carries another's exports.
pub struct Artefact {
    /// Names its target folder `target/<name>` and its glue `target/glue/<name>.js`.
    pub name: &'static str,
    pub features: &'static str,
    /// rustc's: `s`, or `z` where size is all.
    pub opt_level: &'static str,
}

impl Artefact {
    /// Where wasm-bindgen's output lies: `<name>.js`, `<name>.d.ts` and `<name>_bg.wasm`.
    fn glue(&self, ending: &str) -> PathBuf {
        root().join("target/glue").join(format!("{}{ending}", self.name))
    }

    pub fn compiled(&self) -> PathBuf {
        root().join("target").join(self.name).join(WASM_TARGET).join("release/leasehold.wasm")
    }

    /// Runs cargo. Each artefact has a target folder of its own, since all make the same file.
    pub fn compile(&self) -> Result<()> {
        let folder = format!("target/{}", self.name);
        let mut rustc = cargo(&["rustc", "--package", "leasehold", "--lib", "--release", "--crate-type", "cdylib"]);
        rustc.args(["--target", WASM_TARGET, "--target-dir", &folder, "--features", self.features]);
        rustc.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", self.opt_level);
        run(rustc.env("CARGO_ENCODED_RUSTFLAGS", same_everywhere()))
    }

    /// Makes the JavaScript glue and shrinks the module into `module`.
    pub fn post_process(&self, module: &Path) -> Result<()> {
        let raw = self.glue("_bg.wasm");
        let bindgen = Step {
            stamp: self.glue(".stamp"),
            maker: this_xtask()?,
            inputs: &[self.compiled()],
            outputs: &[raw.clone(), self.glue(".js"), self.glue(".d.ts")],
        };
        bindgen.unless_fresh(|| self.bindgen())?;

        let shrink = Step {
            stamp: self.glue(".opt.stamp"),
            maker: this_xtask()?,
            inputs: std::slice::from_ref(&raw),
            outputs: &[module.to_path_buf()],
        };
        shrink.unless_fresh(|| {
            say("Shrinking", &module.strip_prefix(root()).unwrap_or(module).to_string_lossy());
            make_room(module)?;
            // A long function that is called once is left where it is: joined with its caller it compresses worse.
            let inline = "--one-caller-inline-max-function-size=20";
            run_npm("wasm-opt", &["-Oz", inline, &raw.to_string_lossy(), "-o", &module.to_string_lossy()])
        })
    }

    fn bindgen(&self) -> Result<()> {
        let mut bindgen = Bindgen::new();
        bindgen
            .input_path(self.compiled())
            .out_name(self.name)
            .typescript(true)
            .remove_name_section(true)
            .remove_producers_section(true)
            // Where the module comes from differs from place to place; the TypeScript half knows.
            .omit_default_module_path(true)
            // After a trap the Worker starts over with a new instance.
            .reset_state_function(true);
        bindgen.web(true)?;
        bindgen.generate(root().join("target/glue")).with_context(|| format!("wasm-bindgen refused the {}", self.name))
    }
}

/// Panic messages name source files; without this they would name the folders of this machine, and no
/// two clones would build the same bytes.
fn same_everywhere() -> String {
    let home = env::var("CARGO_HOME").ok().or_else(|| env::var("HOME").ok().map(|home| format!("{home}/.cargo")));
    let folders = [Some(root().to_string_lossy().into_owned()), home];
    let flags = folders.into_iter().flatten().map(|folder| format!("--remap-path-prefix={folder}/="));
    flags.collect::<Vec<_>>().join("\u{1f}")
}
