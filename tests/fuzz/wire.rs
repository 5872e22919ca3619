//! A command and its fields. The first byte says which command, the rest is the text of its fields.

use leasehold::command::{Refusal, Reply, Request};
use leasehold::json::Json;
use leasehold::wire::{self, Op};
use leasehold::worker::json;

pub fn run(bytes: &[u8]) {
    let Some((&op, text)) = bytes.split_first() else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let op = Op::ALL[usize::from(op) % Op::ALL.len()];
    let lock = Json::Text("a lock".into());
    match json::read(text, "body").and_then(|fields| wire::request(op, &lock, fields)) {
        Ok(request) => check_written(&request),
        Err(refusal) => check_refused(&refusal),
    }
}

/// A command that was understood is written so that it is understood again, as the same.
pub fn check_written(request: &Request) {
    let Request::Lock { lock, command } = request else { return };
    let (op, fields) = wire::fields(command);
    let fields = json::read(&json::text(&fields), "body").expect("what was written is JSON");
    let again = wire::request(op, &Json::Text(lock.as_str().into()), fields);
    assert_eq!(again.as_ref(), Ok(request), "what was written is read again");
}

/// Rule 13: by name, as the caller's mistake, and in words that are JSON whatever the name was.
pub fn check_refused(refusal: &Refusal) {
    let (status, body) = wire::reply(&Reply::Refused(refusal.clone()), "a space");
    assert_eq!(status, 400, "{refusal:?}");
    let body = json::read(&json::text(&body), "body").expect("a refusal is JSON");
    assert!(matches!(body.member("field"), Some(Json::Text(_))), "{body:?} names the field");
}
