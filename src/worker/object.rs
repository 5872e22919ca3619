//! The core of one Durable Object, as JavaScript calls it: a turn at a time, text in and text out.

use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;
use worker::worker_sys::types::DurableObjectState;

use crate::command::{Refusal, Reply};
use crate::ledger::{Fault, Ledger};
use crate::service::Service;
use crate::types::Ms;
use crate::worker::routes::Answer;
use crate::worker::storage::Sql;
use crate::worker::turn::Batch;

/// Fences begin at the clock times this, so that storage which was lost or rewound repeats none (rule 2): no space
/// grants so many in a millisecond.
const FENCES_PER_MS: u64 = 1_000;

/// The space that a Durable Object is. Memory is a cache of its storage: read when first needed, dropped after a fault.
#[wasm_bindgen]
pub struct Space {
    state: DurableObjectState,
    name: String,
    service: RefCell<Option<Service<Sql>>>,
}

#[wasm_bindgen]
impl Space {
    /// `name`: what the space is called in leases.
    #[wasm_bindgen(constructor)]
    pub fn new(state: DurableObjectState, name: String) -> Self {
        Self { state, name, service: RefCell::new(None) }
    }

    /// One turn at the instant `now` of the host's clock, in the words of [`turn`](crate::worker::turn). After a fault the
    /// outcome is `!` and what happened, and memory is dropped: roll back.
    pub fn turn(&self, calls: &str, now: f64) -> String {
        self.carry_out(Batch::read(calls), now as Ms).unwrap_or_else(|Fault(what)| format!("!{what}"))
    }
}

impl Space {
    fn carry_out(&self, batch: Batch, now: Ms) -> Result<String, Fault> {
        let taken = self.service.borrow_mut().take();
        let mut service = match taken {
            Some(service) => service,
            None => {
                let storage = Sql::new(&self.state)?;
                Service::new(Ledger::start(storage, now.saturating_mul(FENCES_PER_MS))?)
            }
        };
        let told = batch.carry_out(&mut service, &self.name, now)?;
        *self.service.borrow_mut() = Some(service);
        Ok(told)
    }
}

/// What is told to callers of whose calls nothing is known.
#[wasm_bindgen]
pub fn unavailable() -> String {
    let mut text = String::new();
    Answer::new(&Reply::Refused(Refusal::Unavailable), "").write(&mut text);
    text
}
