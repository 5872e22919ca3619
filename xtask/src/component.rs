//! Rust to WebAssembly components: cargo, then wasm-opt, then the component encoding, then the proof of what it imports.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use wit_component::ComponentEncoder;
use wit_parser::decoding::{self, DecodedWasm};
use wit_parser::{Resolve, WorldId};

use crate::command::{root, say};
use crate::freshness::{Step, make_room, this_xtask};
use crate::tools::run_npm;
use crate::wasm::Artefact;
use crate::wit;

/// A component of `dist/`.
pub struct Component {
    pub artefact: Artefact,
    /// The world of `wit/` that it is of.
    pub world: &'static str,
    pub file: &'static str,
    /// What it may import beside what its world says: packages whose names start so.
    pub may_import: Option<&'static str>,
    pub most_bytes: u64,
}

impl Component {
    /// After its artefact is compiled: shrinks it, encodes it and looks at the outcome.
    pub fn finish(&self) -> Result<()> {
        let (compiled, component) = (self.artefact.compiled(), root().join(self.file));
        let step = Step {
            stamp: self.scratch("stamp"),
            maker: this_xtask()?,
            inputs: std::slice::from_ref(&compiled),
            outputs: std::slice::from_ref(&component),
        };
        step.unless_fresh(|| {
            say("Encoding", self.file);
            let module = self.scratch("wasm");
            make_room(&module)?;
            make_room(&component)?;
            let words = ["-Oz", "--strip-debug", "--strip-producers"];
            run_npm("wasm-opt", &[&words[..], &[&text(&compiled), "-o", &text(&module)]].concat())?;
            let bytes = self.encode(&module)?;
            self.prove(&bytes)?;
            fs::write(&component, bytes).with_context(|| format!("{} cannot be written", self.file))
        })
    }

    fn scratch(&self, ending: &str) -> PathBuf {
        root().join("target/components").join(format!("{}.{ending}", self.artefact.name))
    }

    fn encode(&self, module: &Path) -> Result<Vec<u8>> {
        let module = fs::read(module).with_context(|| format!("{} cannot be read", module.display()))?;
        let mut encoder = ComponentEncoder::default();
        encoder.validate(true).module(&module).with_context(|| format!("{} has no world", self.file))?;
        encoder.encode().with_context(|| format!("{} cannot be encoded", self.file))
    }

    /// It exports what its world says and imports what it may, and is no larger than promised.
    fn prove(&self, bytes: &[u8]) -> Result<()> {
        let DecodedWasm::Component(resolve, world) = decoding::decode(bytes)? else {
            bail!("{} is no component", self.file)
        };
        let (documented, promised) = wit::world(self.world)?;
        let (exports, imports) = names(&resolve, world);
        let (promised_exports, promised_imports) = names(&documented, promised);
        ensure!(exports == promised_exports, "{} exports {exports:?}, its world {promised_exports:?}", self.file);
        let is_allowed = |import: &&String| self.may_import.is_some_and(|allowed| import.starts_with(allowed));
        let beyond: Vec<_> = imports.difference(&promised_imports).filter(|import| !is_allowed(import)).collect();
        ensure!(beyond.is_empty(), "{} imports {beyond:?}", self.file);
        let size = bytes.len() as u64;
        ensure!(size <= self.most_bytes, "{} has {size} bytes, {} at most are promised", self.file, self.most_bytes);
        say("Encoded", &format!("{}: {size} bytes, imports {}", self.file, imports.len()));
        Ok(())
    }
}

/// The components as JavaScript modules with types, for the tests in V8: `target/components/js`.
pub fn to_javascript(components: &[&Component]) -> Result<()> {
    const SCRIPT: &str = "tests/component/transpile.ts";
    let folder = root().join("target/components/js");
    let mut inputs = vec![root().join(SCRIPT), root().join("package-lock.json")];
    inputs.extend(components.iter().map(|component| root().join(component.file)));
    let module = |component: &&Component| folder.join(format!("{0}/{0}.js", component.world));
    let outputs: Vec<_> = components.iter().map(module).collect();
    let step = Step { stamp: folder.join("stamp"), maker: this_xtask()?, inputs: &inputs, outputs: &outputs };
    step.unless_fresh(|| {
        say("Transpiling", "the components to JavaScript");
        run_npm("node", &[SCRIPT])
    })
}

fn names(resolve: &Resolve, world: WorldId) -> (BTreeSet<String>, BTreeSet<String>) {
    let world = &resolve.worlds[world];
    let exports = world.exports.keys().map(|key| resolve.name_world_key(key)).collect();
    (exports, world.imports.keys().map(|key| resolve.name_world_key(key)).collect())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
