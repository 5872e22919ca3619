//! The in-process store: the engine of the Durable Object, over memory.

use js_sys::Array;
use wasm_bindgen::prelude::*;

use crate::command::{Refusal, Reply, Request};
use crate::ledger::{InMemory, Ledger, fence_floor};
use crate::service::{Call, Service, Ticket};
use crate::types::{Connection, Expected};
use crate::wire::{self, Op};

use super::values::{instant, read, write};

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
    pub fn new(space: String, now: f64) -> Result<Store, JsValue> {
        match Ledger::start(InMemory, fence_floor(instant(now))) {
            Ok(ledger) => Ok(Self { service: Service::new(ledger), space, wake_in: None }),
            Err(_) => Err(JsValue::UNDEFINED),
        }
    }

    /// Carries out the calls of one turn: arrays of ticket, verb, lock, fields and the number of the client that calls,
    /// which is how it is told what it did not ask for (0: it is not). The verb `close` takes that client's waiters along. Gives the
    /// answers that are due, arrays of ticket, HTTP status and reply; and after them what clients are told, arrays of
    /// client and push.
    pub fn turn(&mut self, calls: Array, now: f64) -> Result<Array, JsValue> {
        let mut answers: Vec<(Ticket, Reply)> = Vec::new();
        let mut closed = Vec::new();
        let mut asked = Vec::new();
        for call in calls.iter().map(|call| Array::from(&call)) {
            let ticket = whole(&call, 0);
            let via = Connection(whole(&call, 4));
            if call.get(1) == "close" {
                closed.push(via);
                answers.push((ticket, Reply::Released));
            } else {
                asked.push(Call {
                    ticket,
                    via: Some(via).filter(|via| via.0 > 0),
                    request: request(call.get(1), call.get(2), call.get(3)),
                });
            }
        }
        let turn = self.service.turn(asked, &closed, instant(now)).map_err(|_| JsValue::UNDEFINED)?;
        answers.extend(turn.answers);
        // Who waits is told, and does not hold the line: either way somebody is waiting.
        self.wake_in = [turn.wake_in, turn.ring_in].into_iter().flatten().min().map(|length| length as f64);
        let answer = |(ticket, reply)| {
            let (status, reply) = wire::reply(&reply, &self.space);
            Array::of3(&JsValue::from_f64(ticket as f64), &JsValue::from_f64(f64::from(status)), &write(&reply))
        };
        let push = |(Connection(client), push)| {
            Array::of2(&JsValue::from_f64(client as f64), &write(&wire::push(&push, &self.space)))
        };
        let answers: Array = answers.into_iter().map(answer).collect();
        let pushes: Array = turn.pushes.into_iter().map(push).collect();
        Ok(Array::of2(&answers, &pushes))
    }

    /// Somebody waits for something that may be due in so many ms; nobody does where there is none.
    #[wasm_bindgen(getter, js_name = wakeInMs)]
    pub fn wake_in_ms(&self) -> Option<f64> {
        self.wake_in
    }
}

fn whole(call: &Array, at: u32) -> u64 {
    call.get(at).as_f64().unwrap_or_default() as u64
}

fn request(op: JsValue, lock: JsValue, fields: JsValue) -> Result<Request, Refusal> {
    let op = op.as_string().and_then(|name| Op::from_name(&name)).ok_or(Refusal::NotFound)?;
    let lock = read(&lock).map_err(|_| wire::invalid("lock", Expected("a string")))?;
    wire::request(op, &lock, read(&fields)?)
}
