//! The Rust half of the npm package: the holder's machine, the in-process store, and the judgement of arguments, as
//! JavaScript sees them.
//!
//! The TypeScript half carries messages, keeps timers and aborts signals. It decides nothing about leases: what is sent,
//! when, and what an answer means is said here. It hands over plain values only (no getters, no BigInt, no lone
//! surrogates), so nothing here ever calls back into a caller's code.

mod holder;
mod store;
mod values;

use uuid::Uuid;
use wasm_bindgen::prelude::*;

use crate::types::Name;
use crate::wire::{self, Op};

use values::{problem, read};

/// A new UUID v4: a token, a requestId, a client's name.
#[wasm_bindgen]
pub fn mint() -> String {
    let mut buffer = Uuid::encode_buffer();
    String::from(&*Uuid::new_v4().hyphenated().encode_lower(&mut buffer))
}

/// Judges the fields of a command that is sent as it is: inspect, list, revoke.
///
/// # Errors
/// Problem details of the first field that is wrong.
#[wasm_bindgen]
pub fn check(op: &str, lock: JsValue, fields: JsValue) -> Result<(), JsValue> {
    let judged = match Op::from_name(op) {
        Some(op) => read(&fields).and_then(|fields| wire::request(op, &read(&lock)?, fields)),
        None => Err(crate::command::Refusal::NotFound),
    };
    judged.map(drop).map_err(|refusal| problem(&refusal))
}

/// Judges the name of a space: the same rules as for a lock's.
///
/// # Errors
/// Problem details.
#[wasm_bindgen(js_name = checkSpace)]
pub fn check_space(space: &str) -> Result<(), JsValue> {
    Name::new(space).map(drop).map_err(|expected| problem(&wire::invalid("space", expected)))
}
