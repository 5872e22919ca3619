//! Rust to WebAssembly with its JavaScript glue: cargo, then wasm-bindgen, then wasm-opt.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::command::{cargo, root, run, say};
use crate::freshness::{Step, make_room, this_xtask};
use crate::text;
use crate::tools::{WASM_TARGET, run_npm};

/// One build of the library, with one feature set: no build carries another's exports.
pub struct Artefact {
    /// Names its target folder `target/<name>` and its glue `target/glue/<name>.js`.
    pub name: &'static str,
    pub features: &'static str,
    /// rustc's: `s`, or `z` where size is all.
    pub opt_level: &'static str,
    /// wasm-opt's: a function of at most so many of its nodes is copied to wherever it is called. Most are called for a
    /// byte or two, and a call is more than they do; with too many copies the module gets large.
    pub inlined_size: u32,
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
            let once = "--one-caller-inline-max-function-size=20";
            let small = format!("--always-inline-max-function-size={}", self.inlined_size);
            // What the module may use is said to those who compile it, who do not ask.
            let strip = "--strip-target-features";
            // Taken apart first, it is put together in fewer ways, and the text that the client carries is a hundredth shorter.
            let shrink = ["--flatten", "--rereloop", "-Oz", "-Oz", once, &small, strip];
            run_npm("wasm-opt", &[&shrink[..], &[&raw.to_string_lossy(), "-o", &module.to_string_lossy()]].concat())
        })
    }

    /// The shrunk module as a script: `target/glue/<name>.text.js`.
    pub fn write_text(&self, module: &Path) -> Result<()> {
        text::write(module, &self.glue(".text.js"))
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
        bindgen
            .generate(root().join("target/glue"))
            .with_context(|| format!("wasm-bindgen refused the {}", self.name))?;
        self.number_imports()
    }

    /// The names of imports end in hashes, which gzip cannot shrink: numbers of the same length are as distinct.
    fn number_imports(&self) -> Result<()> {
        let (script, module) = (self.glue(".js"), self.glue("_bg.wasm"));
        let mut text = fs::read_to_string(&script)?;
        let mut bytes = fs::read(&module)?;
        for (number, hash) in hashes(&text).iter().enumerate() {
            let numbered = format!("{number:0width$}", width = hash.len());
            text = text.replace(hash, &numbered);
            for at in positions(&bytes, hash.as_bytes()) {
                bytes[at..at + hash.len()].copy_from_slice(numbered.as_bytes());
            }
        }
        fs::write(&script, text)?;
        Ok(fs::write(&module, bytes)?)
    }
}

/// What imports are told apart by in the glue: `__wbg_<name>_<hash>`, once each.
fn hashes(script: &str) -> BTreeSet<String> {
    let names = script.split(|it: char| !it.is_ascii_alphanumeric() && it != '_').filter(|it| it.starts_with("__wbg_"));
    let hash = |name: &str| name.rsplit('_').next().filter(|it| is_hash(it)).map(str::to_owned);
    names.filter_map(hash).collect()
}

fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.chars().all(|it| it.is_ascii_hexdigit())
}

fn positions(bytes: &[u8], part: &[u8]) -> Vec<usize> {
    bytes.windows(part.len()).enumerate().filter(|(_, window)| *window == part).map(|(at, _)| at).collect()
}

/// Panic messages name source files; without this they would name the folders of this machine, and no
/// two clones would build the same bytes.
pub fn same_everywhere() -> String {
    let home = env::var("CARGO_HOME").ok().or_else(|| env::var("HOME").ok().map(|home| format!("{home}/.cargo")));
    let folders = [Some(root().to_string_lossy().into_owned()), home];
    let flags = folders.into_iter().flatten().map(|folder| format!("--remap-path-prefix={folder}/="));
    flags.collect::<Vec<_>>().join("\u{1f}")
}
