//! JavaScript values to data and back.

#[cfg(feature = "binding")]
use js_sys::Reflect;
use js_sys::{Array, Object};
#[cfg(feature = "memory")]
use serde::Serialize;
#[cfg(feature = "memory")]
use serde_wasm_bindgen::Serializer;
use wasm_bindgen::{JsCast, JsValue};

use crate::command::Refusal;
use crate::json::Json;
use crate::types::{Expected, Ms};
use crate::wire;

/// Replies and arguments are shallower.
const MAX_DEPTH: usize = 32;

/// Reads a plain value. What is none (a BigInt, a function, something nested too deeply) is not read as anything else.
///
/// By hand: a deserializer would bring the formatting of floating-point numbers into a module that needs none.
///
/// # Errors
/// [`Refusal::Invalid`] that names the outermost member that is none, where there is one.
pub fn read(value: &JsValue) -> Result<Json, Refusal> {
    let mut member = String::from("body");
    json(value, MAX_DEPTH, &mut member).ok_or_else(|| wire::invalid(&member, Expected("JSON, not nested too deeply")))
}

fn json(value: &JsValue, depth: usize, member: &mut String) -> Option<Json> {
    // Every question is a call out: first what there is most of.
    if let Some(text) = value.as_string() {
        return Some(Json::Text(text.into()));
    }
    if let Some(number) = value.as_f64() {
        return Some(Json::Number(number));
    }
    if let Some(value) = value.as_bool() {
        return Some(Json::Bool(value));
    }
    if value.is_null() || value.is_undefined() {
        return Some(Json::Null);
    }
    let within = depth.checked_sub(1)?;
    if Array::is_array(value) {
        let items = value.unchecked_ref::<Array>();
        return items.iter().map(|item| json(&item, within, member)).collect::<Option<_>>().map(Json::List);
    }
    let object = value.dyn_ref::<Object>().filter(|_| value.is_object())?;
    let entry = |entry: JsValue| {
        let entry = entry.unchecked_into::<Array>();
        let name = entry.get(0).as_string()?;
        if depth == MAX_DEPTH {
            member.clone_from(&name);
        }
        Some((name.into(), json(&entry.get(1), within, member)?))
    };
    Object::entries(object).iter().map(entry).collect::<Option<_>>().map(Json::Object)
}

#[cfg(feature = "memory")]
pub fn write(json: &Json) -> JsValue {
    // A `Json` has no map with other keys than text, which is all that serializing refuses.
    json.serialize(&Serializer::json_compatible()).unwrap_or(JsValue::UNDEFINED)
}

/// What JavaScript throws: as much of the problem details as it looks at, and without the words for what only a store
/// refuses. An argument can be nothing but wrong.
#[cfg(feature = "binding")]
pub fn problem(refusal: &Refusal) -> JsValue {
    let Refusal::Invalid { field, expected } = refusal else { return JsValue::UNDEFINED };
    let problem = Object::new();
    let members =
        [("code", wire::INVALID_ARGUMENT), ("detail", &[field, " must be ", expected].concat()), ("field", field)];
    for (name, text) in members {
        // A new object takes every member.
        let _ = Reflect::set(&problem, &name.into(), &text.into());
    }
    problem.into()
}

/// A reading of a clock: what is not yet a whole millisecond has not passed.
pub fn instant(now: f64) -> Ms {
    now as Ms
}
