//! What `dist/` holds, and what it takes to fill it.

use std::process::ExitCode;
use std::thread;

use anyhow::{Result, anyhow};

use crate::command::root;
use crate::component::{self, Component};
use crate::wasm::Artefact;
use crate::{bundle, rust_worker, tools};

const WORKER: Artefact = Artefact { name: "worker", features: "worker", opt_level: "z", inlined_size: 8 };
/// The Worker that panics when it is told to. It is for the tests, and never in `dist/`.
const FAULTS: Artefact = Artefact { name: "faults", features: "worker,faults", opt_level: "s", inlined_size: 8 };
/// wasm-opt's default.
const LEAST: u32 = 2;

/// What every client of the npm package loads.
const BINDING: Artefact = Artefact { name: "binding", features: "binding", opt_level: "z", inlined_size: LEAST };
/// The engine, for the in-process store of the npm package: who does not use that does not load it.
const MEMORY: Artefact = Artefact { name: "memory", features: "memory", opt_level: "z", inlined_size: LEAST };

/// The rules for every other host. It imports nothing.
const DECIDER: Component = Component {
    artefact: Artefact { name: "component", features: "component", opt_level: "z", inlined_size: LEAST },
    world: "decider",
    file: "dist/leasehold.component.wasm",
    may_import: None,
    most_bytes: 150_000,
};
/// A store for components that is a Worker, reached over HTTP.
const PROVIDER: Component = Component {
    artefact: Artefact { name: "provider", features: "provider", opt_level: "z", inlined_size: LEAST },
    world: "provider",
    file: "dist/leasehold-provider.component.wasm",
    may_import: Some("wasi:"),
    most_bytes: 150_000,
};

/// The same for hosts without asynchronous functions.
const PROVIDER_SYNC: Component = Component {
    artefact: Artefact { name: "provider-sync", features: "provider-sync", opt_level: "z", inlined_size: LEAST },
    world: "provider-sync",
    file: "dist/leasehold-provider-sync.component.wasm",
    may_import: Some("wasi:"),
    most_bytes: 150_000,
};

const COMPONENTS: [&Component; 3] = [&DECIDER, &PROVIDER, &PROVIDER_SYNC];

/// The whole npm package, and the components.
pub fn everything() -> Result<ExitCode> {
    compile(&[&[&WORKER, &BINDING, &MEMORY], &COMPONENTS.map(|component| &component.artefact)[..]].concat())?;
    finish_worker()?;
    finish_binding()?;
    finish_components()?;
    bundle::types()?;
    Ok(ExitCode::SUCCESS)
}

/// The components as JavaScript: no part of the package, but tests and their types are made of them.
pub fn components_in_javascript() -> Result<()> {
    component::to_javascript(&COMPONENTS)
}

/// What the tests need: the npm package, the components as JavaScript, the Worker with faults, and one of a user in Rust.
pub fn for_tests() -> Result<()> {
    everything()?;
    components_in_javascript()?;
    FAULTS.compile()?;
    FAULTS.post_process(&root().join("target/faults/dist/worker.wasm"))?;
    bundle::faults()?;
    rust_worker::build()
}

/// What `start` serves: the Worker, and the client for its pages. Without types.
pub fn for_start() -> Result<()> {
    compile(&[&WORKER, &BINDING])?;
    finish_worker()?;
    finish_client()
}

/// The Worker alone, without types.
pub fn worker() -> Result<ExitCode> {
    compile(&[&WORKER])?;
    finish_worker()?;
    Ok(ExitCode::SUCCESS)
}

/// The npm package without the Worker and without types.
pub fn binding() -> Result<ExitCode> {
    compile(&[&BINDING, &MEMORY])?;
    finish_binding()?;
    Ok(ExitCode::SUCCESS)
}

/// The components alone.
pub fn components() -> Result<ExitCode> {
    compile(&COMPONENTS.map(|component| &component.artefact))?;
    finish_components()?;
    Ok(ExitCode::SUCCESS)
}

fn finish_components() -> Result<()> {
    COMPONENTS.iter().try_for_each(|component| component.finish())
}

fn finish_worker() -> Result<()> {
    WORKER.post_process(&root().join("dist/worker.wasm"))?;
    bundle::worker()
}

fn finish_binding() -> Result<()> {
    finish_client()?;
    shrink_into("dist/leasehold-store.wasm", &MEMORY)?;
    bundle::memory()?;
    bundle::fence()?;
    bundle::command_line()
}

fn finish_client() -> Result<()> {
    shrink_into("dist/leasehold.wasm", &BINDING)?;
    bundle::client()?;
    bundle::pages()
}

fn shrink_into(file: &str, artefact: &Artefact) -> Result<()> {
    let module = root().join(file);
    artefact.post_process(&module)?;
    artefact.write_text(&module)
}

/// Compiles while npm installs: one waits for the processor, the other for the network.
fn compile(artefacts: &[&Artefact]) -> Result<()> {
    thread::scope(|scope| {
        let packages = scope.spawn(|| tools::BUILD.install().and_then(|()| tools::node()));
        tools::wasm_target()?;
        artefacts.iter().try_for_each(|artefact| artefact.compile())?;
        packages.join().map_err(|_| anyhow!("the installation of the npm packages broke off"))?
    })
}
