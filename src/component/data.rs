//! Between WIT's records and the wire's JSON.
//!
//! Commands become the wire's fields and are read by [`wire`](crate::wire), replies are read as the wire writes them:
//! so both interfaces refuse the same values by the same names, and say the same.

use crate::command::Refusal;
use crate::component::types::{
    AcquireRequest, Ask, Grant, Held, Holder, Inspection, Lease, Lost, Mode, ReleaseRequest, RenewRequest,
    RevokeRequest, Waiter, Waiting,
};
use crate::json::Json;
use crate::types::Expected;
use crate::wire;

/// Reads a text that is one JSON value.
///
/// # Errors
/// A refusal of the outermost member that cannot be read, or of `whole` where it is not about a member.
pub fn read_json(text: &str, whole: &str) -> Result<Json, Refusal> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let json = Json::read(&mut reader).map_err(|(member, _)| {
        wire::invalid(
            member.as_deref().unwrap_or(whole),
            Expected("well-formed JSON, with no member twice and nothing nested deeper than 32"),
        )
    })?;
    match reader.end() {
        Ok(()) => Ok(json),
        Err(_) => Err(wire::invalid(whole, Expected("one JSON value and nothing after it"))),
    }
}

pub fn write_json(json: &Json) -> String {
    // Writing to a string has no error.
    serde_json::to_string(json).unwrap_or_default()
}

pub fn acquire(acquire: AcquireRequest) -> Result<Json, Refusal> {
    let info = acquire.info.map(|info| read_json(&info, "info")).transpose()?;
    let mode = match acquire.mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    };
    Ok(object([
        ("token", Some(text(&acquire.token))),
        ("requestId", Some(text(&acquire.request_id))),
        ("ttlMs", acquire.ttl_ms.map(number)),
        ("waitMs", acquire.wait_ms.map(number)),
        ("mode", Some(text(mode))),
        ("limit", acquire.limit.map(number)),
        ("maxHoldMs", acquire.max_hold_ms.map(number)),
        ("lockDelayMs", acquire.lock_delay_ms.map(number)),
        ("clientId", acquire.client_id.as_deref().map(text)),
        ("info", info),
        ("steal", acquire.steal.then_some(Json::Bool(true))),
    ]))
}

pub fn renew(renew: &RenewRequest) -> Json {
    object([
        ("token", Some(text(&renew.token))),
        ("fence", Some(number(renew.fence))),
        ("ttlMs", renew.ttl_ms.map(number)),
    ])
}

pub fn release(release: &ReleaseRequest) -> Json {
    object([("token", Some(text(&release.token))), ("fence", Some(number(release.fence)))])
}

pub fn ask(ask: &Ask) -> Json {
    object([("token", Some(text(&ask.token))), ("requestId", Some(text(&ask.request_id)))])
}

pub fn revoke(revoke: &RevokeRequest) -> Json {
    object([("fence", revoke.fence.map(number)), ("reason", revoke.reason.as_deref().map(text))])
}

/// Reads a reply of the wire; as the functions below, `None` where the JSON is not such a one.
pub fn grant(reply: &Json) -> Option<Grant> {
    Some(Grant { lease: lease(reply)?, waited_ms: number_at(reply, "waitedMs")? })
}

pub fn lease(reply: &Json) -> Option<Lease> {
    let lease = reply.member("lease")?;
    Some(Lease {
        lock: text_at(lease, "lock")?.into(),
        token: text_at(lease, "token")?.into(),
        fence: number_at(lease, "fence")?,
        mode: mode(lease)?,
        ttl_ms: number_at(lease, "ttlMs")?,
        expires_in_ms: number_at(lease, "expiresInMs")?,
        expires_at: number_at(lease, "expiresAt")?,
    })
}

pub fn held(reply: &Json) -> Option<Held> {
    Some(Held {
        holders: list_at(reply, "holders", holder)?,
        queue: number_at(reply, "queue")?,
        retry_after_ms: number_at(reply, "retryAfterMs")?,
    })
}

pub fn waiting(reply: &Json) -> Option<Waiting> {
    Some(Waiting { position: number_at(reply, "position")?, retry_after_ms: number_at(reply, "retryAfterMs")? })
}

pub fn lost(reply: &Json) -> Option<Lost> {
    Some(match text_at(reply, "reason")? {
        "expired" => Lost::Expired,
        "released" => Lost::Released,
        "revoked" => Lost::Revoked,
        "stolen" => Lost::Stolen,
        _ => Lost::Unknown,
    })
}

pub fn inspection(reply: &Json) -> Option<Inspection> {
    Some(Inspection { holders: list_at(reply, "holders", holder)?, waiters: list_at(reply, "waiters", waiter)? })
}

pub fn text_at<'a>(json: &'a Json, name: &str) -> Option<&'a str> {
    if let Json::Text(text) = json.member(name)? { Some(text) } else { None }
}

fn holder(json: &Json) -> Option<Holder> {
    Some(Holder {
        fence: number_at(json, "fence")?,
        mode: mode(json)?,
        client_id: text_at(json, "clientId").map(String::from),
        info: json.member("info").map(write_json),
        held_ms: number_at(json, "heldMs"),
        expires_in_ms: number_at(json, "expiresInMs")?,
    })
}

fn waiter(json: &Json) -> Option<Waiter> {
    Some(Waiter {
        mode: mode(json)?,
        client_id: text_at(json, "clientId").map(String::from),
        info: json.member("info").map(write_json),
        waited_ms: number_at(json, "waitedMs")?,
    })
}

fn mode(json: &Json) -> Option<Mode> {
    match text_at(json, "mode")? {
        "exclusive" => Some(Mode::Exclusive),
        "shared" => Some(Mode::Shared),
        _ => None,
    }
}

pub fn number_at(json: &Json, name: &str) -> Option<u64> {
    match json.member(name)? {
        Json::Number(number) if *number >= 0.0 => Some(*number as u64),
        _ => None,
    }
}

fn list_at<T>(json: &Json, name: &str, read: fn(&Json) -> Option<T>) -> Option<Vec<T>> {
    if let Json::List(items) = json.member(name)? { items.iter().map(read).collect() } else { None }
}

fn object<const N: usize>(members: [(&'static str, Option<Json>); N]) -> Json {
    Json::Object(members.into_iter().filter_map(|(name, value)| Some((name.into(), value?))).collect())
}

fn text(text: &str) -> Json {
    Json::Text(text.into())
}

/// What is too large to be exact is out of every range, before and after.
fn number(value: u64) -> Json {
    Json::Number(value as f64)
}
