//! HTTP in and out: which command a request is, and how a reply looks.
//!
//! Under `/v1/spaces/{space}`: `POST /locks/{lock}/{acquire|renew|release|cancel|revoke}`, `GET /locks/{lock}`,
//! `GET /locks?prefix=&cursor=&pageSize=`, `GET /audit?cursor=&pageSize=`, `GET /metrics`, `GET /session` (a WebSocket).
//! HEAD is answered as GET is, but at `/session`.
//! A `{space}` obeys the rules of a lock's name, so that a space per lock can have the lock's name. Both are one
//! percent-encoded segment: `a%2Fb` is the lock `a/b`.

use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::{Refusal, Reply};
use crate::json::{Json, Key};
use crate::service::Ticket;
use crate::types::{Expected, Name};
use crate::wire::{self, MAX_BODY_BYTES, Op, TOO_LARGE};
use crate::worker::access::{Caller, Gate, Right};
use crate::worker::json::{self, Members};
use crate::worker::turn::Told;

/// Where the space's locks are.
const SPACES: &str = "/v1/spaces/";

/// The longest address, and the largest headers: 16 KiB.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The methods of what is read: the run-time sends no body in answer to HEAD.
const READ: &str = "GET, HEAD";

/// Parameters of a query that are numbers. All others are text.
const NUMBERS: [&str; 1] = ["pageSize"];

const ESCAPED: Expected = Expected("percent-encoded UTF-8");
const ONCE: Expected = Expected("given once");
const NO_QUERY: Expected = Expected("left out: this address takes no query");

/// The route of a request of the account's own code: everybody who reaches the object is trusted.
///
/// `length` is the Content-Length, NaN where there is none. The outcome is JSON:
///
/// | outcome | what it is |
/// | --- | --- |
/// | `["call", space, verb, lock, fields, caller]` | a call; `fields` is null where they are the body's |
/// | `["session", space, pass, caller]` | a WebSocket |
/// | `["answer", answer, allow, challenge, log]` | an answer already, with the headers Allow and WWW-Authenticate and a line for the log, each empty where there is none |
/// | `["elsewhere", answer]` | an address that is not of this API, with the answer in case nobody else serves it |
/// | `["health"]`, `["document"]` | what is the same for everybody |
#[wasm_bindgen]
pub fn route(method: &str, url: &str, content_type: &str, length: f64) -> String {
    outcome(find(method, url, content_type, length), &Caller::Own, "")
}

#[wasm_bindgen]
impl Gate {
    /// The route of a request from anywhere, by somebody whose key has the SHA-256 `sha256`: no bytes, no key. `head`
    /// is the size of the headers in bytes, `origin` the Origin of a request for a WebSocket, empty where there is none.
    #[allow(clippy::too_many_arguments, reason = "one crossing of the boundary per request")]
    pub fn route(
        &self,
        method: &str,
        url: &str,
        content_type: &str,
        length: f64,
        head: f64,
        sha256: &[u8],
        origin: &str,
    ) -> String {
        if head > MAX_HEAD_BYTES as f64 {
            return outcome(Err(Refusal::HeadersTooLarge.into()), &Caller::Own, "");
        }
        if url.len() > MAX_HEAD_BYTES {
            return outcome(Err(Refusal::AddressTooLong.into()), &Caller::Own, "");
        }
        let found = find(method, url, content_type, length);
        // Before anything is said about what there is.
        let admitted = match &found {
            Ok(Route::Health | Route::Document | Route::Elsewhere) => return outcome(found, &Caller::Own, ""),
            Ok(Route::Call { .. } | Route::Session { .. }) | Err(_) => self.admit(sha256),
        };
        let space = space_of(&found);
        match admitted {
            Err(refusal) => {
                let challenge = if sha256.is_empty() { CHALLENGE } else { CHALLENGE_AGAIN };
                let log = refused(&refusal, space, verb_of(&found), None);
                outcome(Err(Miss { challenge, log, ..refusal.into() }), &Caller::Own, "")
            }
            Ok(admitted) => {
                let caller = admitted.caller(space);
                let allowed = self.permit(&found, &caller, url, origin);
                match allowed {
                    Ok(()) => outcome(found, &caller, &admitted.pass()),
                    Err(refusal) => {
                        let log = refused(&refusal, space, verb_of(&found), caller.key());
                        outcome(Err(Miss { log, ..refusal.into() }), &caller, "")
                    }
                }
            }
        }
    }
}

impl Gate {
    fn permit(&self, found: &Result<Route, Miss>, caller: &Caller, url: &str, origin: &str) -> Result<(), Refusal> {
        match found {
            Ok(Route::Call { verb, .. }) => caller.needs(verb.right()),
            Ok(Route::Session { .. }) if !origin.is_empty() && !is_own(url, origin) && !self.allows_origin(origin) => {
                Err(Refusal::ForeignOrigin)
            }
            // Any right will do: each frame is looked at by itself.
            Ok(Route::Session { .. }) if caller.has_any_right() => Ok(()),
            Ok(Route::Session { .. }) => caller.needs(Right::Lock),
            Ok(Route::Health | Route::Document | Route::Elsewhere) | Err(_) => Ok(()),
        }
    }
}

const CHALLENGE: &str = "Bearer realm=\"leasehold\"";
const CHALLENGE_AGAIN: &str = "Bearer realm=\"leasehold\", error=\"invalid_token\"";

/// The outcome of a request that only JavaScript can see is none: `large`, a body that is longer than its
/// Content-Length said, or that said nothing; `slow`, one that does not come; `bytes`, one that is not UTF-8; `socket`,
/// none asked for where there is nothing else; `often`, more than the rate limit; `origin`, a page that may not ask. `caller` is who asks, if that is known.
#[wasm_bindgen]
pub fn refusal(what: &str, caller: &str) -> String {
    let refusal = match what {
        "large" => TOO_LARGE,
        "slow" => Refusal::TooSlow,
        "bytes" => wire::invalid("body", Expected("UTF-8")),
        "socket" => Refusal::UpgradeRequired,
        "often" => Refusal::TooMany,
        "origin" => Refusal::ForeignOrigin,
        _ => Refusal::Unavailable,
    };
    let log = refused(&refusal, "", "", Caller::read(caller).key());
    outcome(Err(Miss { log, ..refusal.into() }), &Caller::Own, "")
}

/// The largest body, in bytes.
#[wasm_bindgen]
pub fn max_body_bytes() -> usize {
    MAX_BODY_BYTES
}

/// What the text of an answer is.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum Kind {
    /// JSON of a reply.
    Reply,
    /// JSON of problem details.
    Problem,
    /// JSON of a text that is meant for a reader of plain text.
    Text,
}

/// A reply as JavaScript carries it.
pub struct Answer {
    status: u16,
    kind: Kind,
    /// Seconds for Retry-After.
    retry_after: Option<u32>,
    body: String,
}

impl Answer {
    pub fn new(reply: &Reply, space: &str) -> Self {
        let mut body = Members::default();
        let status = wire::write_reply(reply, space, &mut body);
        let kind = if let Reply::Refused(_) = reply { Kind::Problem } else { Kind::Reply };
        Self { status, kind, retry_after: retry_after(reply), body: body.end() }
    }

    /// One that is plain text; its body is a JSON string of it.
    pub fn text(text: &str) -> Self {
        let body = json::text(&Json::Text(text.into()));
        Self { status: 200, kind: Kind::Text, retry_after: None, body }
    }

    /// `[status, kind, retryAfterSeconds, text]`, 0 seconds for none.
    pub fn json(&self) -> Json {
        let retry_after = self.retry_after.unwrap_or_default();
        let numbers = [f64::from(self.status), f64::from(self.kind as u8), f64::from(retry_after)].map(Json::Number);
        Json::List(numbers.into_iter().chain([Json::Text(self.body.as_str().into())]).collect())
    }

    /// Answers the call that has that ticket.
    pub fn tell(&self, ticket: Ticket, told: &Told) {
        told.answer(ticket as f64, self.status, self.kind, self.retry_after.unwrap_or_default(), &self.body);
    }
}

fn retry_after(reply: &Reply) -> Option<u32> {
    match reply {
        Reply::Held { retry_after, .. } => Some(retry_after.div_ceil(1_000).max(1) as u32),
        Reply::Refused(
            Refusal::QueueFull
            | Refusal::SpaceFull
            | Refusal::TooMany
            | Refusal::Unavailable
            | Refusal::NotConfigured
            | Refusal::Misconfigured,
        ) => Some(1),
        Reply::Refused(
            Refusal::Invalid { .. }
            | Refusal::TooLarge { .. }
            | Refusal::LimitMismatch
            | Refusal::NotFound
            | Refusal::MethodNotAllowed
            | Refusal::NeedsSocket
            | Refusal::UpgradeRequired
            | Refusal::UnsupportedMediaType
            | Refusal::AddressTooLong
            | Refusal::HeadersTooLarge
            | Refusal::TooSlow
            | Refusal::Unauthorized
            | Refusal::Forbidden { .. }
            | Refusal::ForeignOrigin,
        ) => None,
        Reply::Granted { .. }
        | Reply::Waiting { .. }
        | Reply::Renewed { .. }
        | Reply::Lost { .. }
        | Reply::Released
        | Reply::Cancelled
        | Reply::Inspected { .. }
        | Reply::Listed { .. }
        | Reply::Revoked { .. }
        | Reply::Watching { .. }
        | Reply::Unwatched => None,
    }
}

enum Route {
    Call { space: Name, verb: Verb, lock: Json, fields: Option<Json> },
    Session { space: Name },
    Health,
    Document,
    Elsewhere,
}

/// What is asked of a space: a command of the protocol, or what operators want to know.
#[derive(Clone, Copy)]
pub enum Verb {
    Op(Op),
    Metrics,
    Audit,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Verb::Op(op) => op.name(),
            Verb::Metrics => "metrics",
            Verb::Audit => "audit",
        }
    }

    /// The right that it takes at least.
    pub fn right(self) -> Right {
        match self {
            Verb::Op(Op::Acquire | Op::Renew | Op::Release | Op::Cancel) => Right::Lock,
            Verb::Op(Op::Inspect | Op::List | Op::Watch | Op::Unwatch) | Verb::Metrics => Right::Read,
            Verb::Op(Op::Revoke) | Verb::Audit => Right::Admin,
        }
    }
}

fn space_of(found: &Result<Route, Miss>) -> &str {
    match found {
        Ok(Route::Call { space, .. } | Route::Session { space }) => space.as_str(),
        Ok(Route::Health | Route::Document | Route::Elsewhere) | Err(_) => "",
    }
}

fn verb_of(found: &Result<Route, Miss>) -> &'static str {
    match found {
        Ok(Route::Call { verb, .. }) => verb.name(),
        Ok(Route::Session { .. }) => "session",
        Ok(Route::Health | Route::Document | Route::Elsewhere) | Err(_) => "",
    }
}

/// The line for the log about access that was refused; empty for every other refusal.
pub fn refused(refusal: &Refusal, space: &str, verb: &str, key: Option<&str>) -> String {
    let right = match refusal {
        Refusal::Forbidden { right } => Some(*right),
        Refusal::Unauthorized | Refusal::ForeignOrigin | Refusal::TooMany => None,
        _ => return String::new(),
    };
    let mut line = Members::new("event", "refused").text("code", wire::code(refusal)).maybe("key", key);
    for (name, value) in [("right", right.unwrap_or_default()), ("space", space), ("op", verb)] {
        if !value.is_empty() {
            line = line.text(name, value);
        }
    }
    line.end()
}

/// A request that is no command, and the methods that the address would take.
struct Miss {
    refusal: Refusal,
    allow: &'static str,
    challenge: &'static str,
    log: String,
}

impl From<Refusal> for Miss {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, allow: "", challenge: "", log: String::new() }
    }
}

fn outcome(found: Result<Route, Miss>, caller: &Caller, pass: &str) -> String {
    let text = |text: &str| Json::Text(text.into());
    let answer = |refusal| Answer::new(&Reply::Refused(refusal), "").json();
    let list = match found {
        Ok(Route::Health) => vec![text("health")],
        Ok(Route::Document) => vec![text("document")],
        Ok(Route::Elsewhere) => vec![text("elsewhere"), answer(Refusal::NotFound)],
        Ok(Route::Call { space, verb, lock, fields }) => {
            let fields = fields.unwrap_or(Json::Null);
            vec![text("call"), text(space.as_str()), text(verb.name()), lock, fields, text(&caller.text())]
        }
        Ok(Route::Session { space }) => {
            vec![text("session"), text(space.as_str()), text(pass), text(&caller.text())]
        }
        Err(Miss { refusal, allow, challenge, log }) => {
            vec![text("answer"), answer(refusal), text(allow), text(challenge), text(&log)]
        }
    };
    json::text(&Json::List(list))
}

fn find(method: &str, url: &str, content_type: &str, length: f64) -> Result<Route, Miss> {
    if url.len() > MAX_HEAD_BYTES {
        return Err(Refusal::AddressTooLong.into());
    }
    let (path, query) = target(url);
    if path == "/healthz" {
        allow(method, READ)?;
        return Ok(Route::Health);
    }
    if path == "/openapi.json" {
        allow(method, READ)?;
        return Ok(Route::Document);
    }
    let Some(rest) = path.strip_prefix(SPACES) else {
        return if path.starts_with("/v1/") { Err(Refusal::NotFound.into()) } else { Ok(Route::Elsewhere) };
    };
    let segments: Vec<&str> = rest.split('/').collect();
    if let [space, "session"] = segments[..] {
        allow(method, "GET")?;
        return Ok(Route::Session { space: space_name(space)? });
    }
    let (space, verb, lock) = match segments[..] {
        [space, "metrics"] => {
            allow(method, READ)?;
            (space, Verb::Metrics, None)
        }
        [space, "audit"] => {
            allow(method, READ)?;
            (space, Verb::Audit, None)
        }
        [space, "locks"] => {
            allow(method, READ)?;
            (space, Verb::Op(Op::List), None)
        }
        [space, "locks", lock] => {
            allow(method, READ)?;
            (space, Verb::Op(Op::Inspect), Some(lock))
        }
        [space, "locks", lock, op] => {
            let op = Op::from_name(op).filter(|op| is_posted(*op)).ok_or(Refusal::NotFound)?;
            allow(method, "POST")?;
            (space, Verb::Op(op), Some(lock))
        }
        _ => return Err(Refusal::NotFound.into()),
    };
    let space = space_name(space)?;
    let lock = match lock.map(|lock| segment(lock).map_err(|expected| wire::invalid("lock", expected))).transpose()? {
        Some(lock) => Json::Text(lock.into()),
        None => Json::Null,
    };
    let is_posted = matches!(verb, Verb::Op(op) if is_posted(op));
    let fields = if is_posted || matches!(verb, Verb::Metrics) {
        if is_posted {
            check_body(content_type, length)?;
        }
        if let Some((name, _)) = parameters(query)?.first() {
            return Err(wire::invalid(name, NO_QUERY).into());
        }
        (!is_posted).then_some(Json::Null)
    } else {
        Some(Json::Object(parameters(query)?))
    };
    Ok(Route::Call { space, verb, lock, fields })
}

fn space_name(text: &str) -> Result<Name, Refusal> {
    segment(text).and_then(|space| Name::new(&space)).map_err(|expected| wire::invalid("space", expected))
}

/// A name in a path. One that is too long even if every byte of it is escaped is not looked at.
fn segment(text: &str) -> Result<String, Expected> {
    if text.len() > 3 * Name::MAX_BYTES {
        return Err(Expected("at most 512 bytes of UTF-8"));
    }
    decoded(text).ok_or(ESCAPED)
}

fn is_posted(op: Op) -> bool {
    match op {
        Op::Acquire | Op::Renew | Op::Release | Op::Cancel | Op::Revoke => true,
        Op::Inspect | Op::List | Op::Watch | Op::Unwatch => false,
    }
}

fn allow(method: &str, allow: &'static str) -> Result<(), Miss> {
    if allow.split(", ").any(|one| one == method) {
        Ok(())
    } else {
        Err(Miss { allow, ..Refusal::MethodNotAllowed.into() })
    }
}

fn check_body(content_type: &str, length: f64) -> Result<(), Refusal> {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        Err(Refusal::UnsupportedMediaType)
    } else if length > MAX_BODY_BYTES as f64 {
        Err(TOO_LARGE)
    } else {
        Ok(())
    }
}

/// Whether a page of that origin came from the address that is asked.
fn is_own(url: &str, origin: &str) -> bool {
    url.strip_prefix(origin).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

/// Path and query of an absolute URL.
fn target(url: &str) -> (&str, &str) {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let without_fragment = after_scheme.split('#').next().unwrap_or_default();
    let (authority_and_path, query) = without_fragment.split_once('?').unwrap_or((without_fragment, ""));
    (authority_and_path.find('/').and_then(|at| authority_and_path.get(at..)).unwrap_or("/"), query)
}

/// The parameters of a query, each name once.
fn parameters(query: &str) -> Result<Vec<(Key, Json)>, Refusal> {
    let mut all: Vec<(Key, Json)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let unspaced = |text: &str| decoded(&text.replace('+', " "));
        let name = unspaced(name).ok_or_else(|| wire::invalid("query", ESCAPED))?;
        let value = unspaced(value).ok_or_else(|| wire::invalid(&name, ESCAPED))?;
        if all.iter().any(|(other, _)| **other == *name) {
            return Err(wire::invalid(&name, ONCE));
        }
        let value = if NUMBERS.contains(&name.as_str()) { number(&value) } else { Json::Text(value.into()) };
        all.push((name.into(), value));
    }
    Ok(all)
}

/// Decimal digits are a number; what is none, or larger than any that is asked for, stays text and is refused as such.
fn number(text: &str) -> Json {
    match text.parse::<u32>() {
        Ok(value) if !text.starts_with('+') => Json::Number(f64::from(value)),
        _ => Json::Text(text.into()),
    }
}

/// `None` where an escape is broken, or the bytes are not UTF-8.
fn decoded(segment: &str) -> Option<String> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let mut bytes = segment.bytes();
    let mut decoded = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => decoded.push(u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).ok()?),
            other => decoded.push(other),
        }
    }
    String::from_utf8(decoded).ok()
}
