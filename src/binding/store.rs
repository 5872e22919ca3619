//! The in-process store: the engine of the Durable Object, over memory.

use js_sys::Array;
use wasm_bindgen::prelude::*;

use crate::command::{Refusal, Request};
use crate::ledger::{InMemory, Ledger};
use crate::service::{Call, Service, Ticket};
use crate::types::Expected;
use crate::wire::{self, Op};

use super::values::{instant, problem, read, write};

/// One space.
#[wasm_bindgen]
pub struct Store {
    service: Service<InMemory>,
    space: String,
    /// When the next turn is wanted, of the latest one.
    wake_in: Option<f64>,
}

#[wasm_bindgen]
impl Store {
    #[wasm_bindgen(constructor)]
    pub fn new(space: String) -> Result<Store, JsValue> {
        match Ledger::start(InMemory, 0) {
            Ok(ledger) => Ok(Self { service: Service::new(ledger), space, wake_in: None }),
            Err(_) => Err(problem(&Refusal::Unavailable)),
        }
    }

    /// Carries out the calls of one turn: arrays of ticket, verb, lock and fields. Gives the answers that are due:
    /// arrays of ticket, HTTP status and reply.
    pub fn turn(&mut self, calls: Array, now: f64) -> Result<Array, JsValue> {
        let calls = calls.iter().map(|call| self::call(&Array::from(&call))).collect();
        let turn = self.service.turn(calls, &[], instant(now)).map_err(|_| problem(&Refusal::Unavailable))?;
        self.wake_in = turn.wake_in.map(|length| length as f64);
        let answer = |(ticket, reply)| {
            let (status, reply) = wire::reply(&reply, &self.space);
            Array::of3(&JsValue::from_f64(ticket as f64), &JsValue::from_f64(f64::from(status)), &write(&reply))
        };
        Ok(turn.answers.into_iter().map(answer).collect())
    }

    /// Somebody waits for something that may be due in so many ms; nobody does where there is none.
    #[wasm_bindgen(getter, js_name = wakeInMs)]
    pub fn wake_in_ms(&self) -> Option<f64> {
        self.wake_in
    }
}

fn call(call: &Array) -> Call {
    let ticket = call.get(0).as_f64().unwrap_or_default() as Ticket;
    Call { ticket, via: None, request: request(call.get(1), call.get(2), call.get(3)) }
}

fn request(op: JsValue, lock: JsValue, fields: JsValue) -> Result<Request, Refusal> {
    let op = op.as_string().and_then(|name| Op::from_name(&name)).ok_or(Refusal::NotFound)?;
    let lock = read(&lock).map_err(|_| wire::invalid("lock", Expected("a string")))?;
    wire::request(op, &lock, read(&fields)?)
}
