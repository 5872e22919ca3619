//! The core of one Durable Object, as JavaScript calls it: a turn at a time.

use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;
use worker::worker_sys::types::DurableObjectState;

use crate::command::{Refusal, Reply};
use crate::ledger::{Fault, Ledger, fence_floor};
use crate::service::Service;
use crate::types::Ms;
use crate::worker::access::Gate;
use crate::worker::json;
use crate::worker::meter::Meter;
use crate::worker::routes::Answer;
use crate::worker::settings::Bounds;
use crate::worker::storage::{Sql, Trail};
use crate::worker::turn::{Batch, Host, Told};

/// The space that a Durable Object is. Memory is a cache of its storage: read when first needed, dropped after a fault.
#[wasm_bindgen]
pub struct Space {
    state: DurableObjectState,
    name: String,
    bounds: Bounds,
    has_events: bool,
    /// Apart from the service, so that it outlives a fault.
    meter: RefCell<Option<Meter>>,
    service: RefCell<Option<Service<Sql>>>,
}

#[wasm_bindgen]
impl Space {
    /// `name`: what the space is called in leases. `has_events`: whether a turn tells of its events one by one.
    #[wasm_bindgen(constructor)]
    pub fn new(state: DurableObjectState, name: String, gate: &Gate, has_events: bool) -> Self {
        let (meter, service) = (RefCell::new(None), RefCell::new(None));
        Self { state, name, bounds: gate.bounds(), has_events, meter, service }
    }

    /// One turn at the instant `now` of the host's clock, in the words of [`turn`](crate::worker::turn). What comes back is
    /// what went wrong: memory is dropped then, and what was told is void.
    pub fn turn(&self, calls: &str, now: f64, told: &Told) -> Option<String> {
        self.carry_out(calls, now as Ms, told).err().map(|Fault(what)| what)
    }
}

impl Space {
    fn carry_out(&self, calls: &str, now: Ms, told: &Told) -> Result<(), Fault> {
        let mut meter = self.meter.borrow_mut().take().unwrap_or_else(|| Meter::new(now));
        let outcome = self.carry_out_metered(calls, &mut meter, now, told);
        if outcome.is_err() {
            meter.note_fault();
        }
        *self.meter.borrow_mut() = Some(meter);
        outcome
    }

    fn carry_out_metered(&self, calls: &str, meter: &mut Meter, now: Ms, told: &Told) -> Result<(), Fault> {
        let taken = self.service.borrow_mut().take();
        let mut service = match taken {
            Some(service) => service,
            None => {
                let storage = Sql::new(&self.state)?;
                let mut ledger = Ledger::start(storage, fence_floor(now))?;
                ledger.limit(self.bounds.limits);
                Service::new(ledger)
            }
        };
        let mut host = Host {
            space: &self.name,
            meter,
            trail: &|| Trail::new(&self.state),
            has_events: self.has_events,
            commands_per_socket: self.bounds.commands,
        };
        Batch::read(calls, &host).carry_out(&mut service, &mut host, now, told)?;
        *self.service.borrow_mut() = Some(service);
        Ok(())
    }
}

/// What is told to callers of whose calls nothing is known: JSON of an [`Answer`].
#[wasm_bindgen]
pub fn unavailable() -> String {
    json::text(&Answer::new(&Reply::Refused(Refusal::Unavailable), "").json())
}
