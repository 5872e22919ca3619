//! What a caller gave, judged before anything is sent; and what a caller need not give.

use uuid::Uuid;
use wasm_bindgen::prelude::*;

use crate::command::Refusal;
use crate::types::Name;
use crate::wire::{self, Op};

use super::values::{problem, read};

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
        None => Err(Refusal::NotFound),
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
