//! Leasehold's component in wasmtime.

pub mod lease_server;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Error, Result, Store};

wasmtime::component::bindgen!({ path: "../../../wit", world: "decider" });

pub use exports::leasehold::lease::{kernel, types, wire};

/// An instance of the component. It keeps nothing from one decision to the next.
pub struct Instance {
    store: Store<()>,
    decider: Decider,
}

impl Instance {
    /// # Errors
    /// Where the component was not built (`cargo xtask build component`), or imports anything: nothing is linked.
    pub fn new() -> Result<Self> {
        static COMPILED: OnceLock<Result<Component, String>> = OnceLock::new();
        let compile = || Component::from_file(&Engine::default(), file()).map_err(|error| format!("{error:#}"));
        let component = COMPILED.get_or_init(compile).as_ref().map_err(Error::msg)?;
        let mut store = Store::new(component.engine(), ());
        let decider = Decider::instantiate(&mut store, component, &Linker::new(component.engine()))?;
        Ok(Self { store, decider })
    }

    /// A decision of `wire`; the outer error is a trap.
    #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
    pub fn decide(
        &mut self,
        prior: Option<&[u8]>,
        op: &str,
        lock: &str,
        fields: &str,
        now_at: u64,
        space: &kernel::Space,
        limits: kernel::Limits,
    ) -> Result<Result<wire::Answer, kernel::Fault>> {
        let prior = prior.map(<[u8]>::to_vec);
        let wire = self.decider.leasehold_lease_wire();
        wire.call_decide(&mut self.store, prior.as_deref(), op, lock, fields, now_at, space, limits)
    }

    pub fn read_list(&mut self, fields: &str) -> Result<Result<wire::PageRequest, wire::Message>> {
        self.decider.leasehold_lease_wire().call_read_list(&mut self.store, fields)
    }

    /// A decision of `kernel`; the outer error is a trap.
    pub fn decide_typed(
        &mut self,
        prior: Option<&[u8]>,
        lock: &str,
        command: &kernel::Command,
        now_at: u64,
        space: &kernel::Space,
        limits: kernel::Limits,
    ) -> Result<Result<kernel::Decision, kernel::Fault>> {
        let kernel = self.decider.leasehold_lease_kernel();
        kernel.call_decide(&mut self.store, prior, lock, command, now_at, space, limits)
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../dist/leasehold.component.wasm")
}
