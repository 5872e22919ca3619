//! HTTP in and out: which command a request is, and how a reply looks.
//!
//! Under `/v1/spaces/{space}`: `POST /locks/{lock}/{acquire|renew|release|cancel|revoke}`, `GET /locks/{lock}`,
//! `GET /locks?prefix=&cursor=&pageSize=`, `GET /session` (a WebSocket). A `{space}` obeys the rules of a lock's name, so that a space per lock can
//! have the lock's name. Both are one percent-encoded segment: `a%2Fb` is the lock `a/b`.

use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::{Refusal, Reply};
use crate::json::Json;
use crate::types::{Expected, Name};
use crate::wire::{self, MAX_BODY_BYTES, Op};
use crate::worker::{access, json};

/// Where the space's locks are.
const SPACES: &str = "/v1/spaces/";

/// Parameters of a query that are numbers. All others are text.
const NUMBERS: [&str; 1] = ["pageSize"];

const ESCAPED: Expected = Expected("percent-encoded UTF-8");
const ONCE: Expected = Expected("given once");
const NO_QUERY: Expected = Expected("left out: this address takes no query");

/// The route of a request of the account's own code: everybody who reaches the object is trusted.
///
/// `length` is the Content-Length, NaN where there is none. The outcome is JSON: `["call", space, op, lock, fields]`
/// with `fields` null where they are the body's, or `["answer", answer, allow]`, or `["health"]`, or
/// `["session", space]` for a WebSocket, or `["elsewhere", answer, ""]` for an address that is not of this API, with the answer in case nobody else serves it.
#[wasm_bindgen]
pub fn route(method: &str, url: &str, content_type: &str, length: f64) -> String {
    outcome(find(method, url, content_type, length))
}

/// The route of a request from anywhere. `open`: the variable `LEASEHOLD_OPEN`.
#[wasm_bindgen]
pub fn public_route(method: &str, url: &str, content_type: &str, length: f64, open: Option<String>) -> String {
    let found = find(method, url, content_type, length);
    outcome(match &found {
        Ok(Route::Health | Route::Elsewhere) => found,
        // Before anything is said about what there is.
        Ok(Route::Call { .. } | Route::Session { .. }) | Err(_) => match access::admit(open.as_deref()) {
            Ok(()) => found,
            Err(refusal) => Err(refusal.into()),
        },
    })
}

/// The answer to a body that is longer than its Content-Length said, or that said nothing.
#[wasm_bindgen]
pub fn too_large() -> String {
    outcome(Err(TOO_LARGE.into()))
}

/// The answer to a request for a socket that is none.
#[wasm_bindgen]
pub fn not_a_socket() -> String {
    outcome(Err(Refusal::UpgradeRequired.into()))
}

/// The answer to a body that is not UTF-8.
#[wasm_bindgen]
pub fn not_text() -> String {
    outcome(Err(wire::invalid("body", Expected("UTF-8")).into()))
}

/// The largest body, in bytes.
#[wasm_bindgen]
pub fn max_body_bytes() -> usize {
    MAX_BODY_BYTES
}

const TOO_LARGE: Refusal = Refusal::TooLarge { expected: "at most 16384 bytes" };

/// A reply as JavaScript carries it.
pub struct Answer {
    status: u16,
    /// Whether it is problem details.
    is_problem: bool,
    /// Seconds for Retry-After.
    retry_after: Option<u64>,
    body: Json,
}

impl Answer {
    pub fn new(reply: &Reply, space: &str) -> Self {
        let (status, body) = wire::reply(reply, space);
        Self { status, is_problem: matches!(reply, Reply::Refused(_)), retry_after: retry_after(reply), body }
    }

    /// Appends `status TAB (reply|problem) TAB retryAfterSeconds TAB body`.
    pub fn write(&self, text: &mut String) {
        let kind = if self.is_problem { "problem" } else { "reply" };
        let retry_after = self.retry_after.map(|seconds| seconds.to_string()).unwrap_or_default();
        text.push_str(&format!("{}\t{kind}\t{retry_after}\t", self.status));
        json::write(&self.body, text);
    }
}

fn retry_after(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Held { retry_after, .. } => Some(retry_after.div_ceil(1_000).max(1)),
        Reply::Refused(Refusal::QueueFull | Refusal::Unavailable | Refusal::NotConfigured) => Some(1),
        Reply::Refused(
            Refusal::Invalid { .. }
            | Refusal::TooLarge { .. }
            | Refusal::LimitMismatch
            | Refusal::NotFound
            | Refusal::MethodNotAllowed
            | Refusal::NeedsSocket
            | Refusal::UpgradeRequired
            | Refusal::UnsupportedMediaType,
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
    Call { space: Name, op: Op, lock: Json, fields: Option<Json> },
    Session { space: Name },
    Health,
    Elsewhere,
}

/// A request that is no command, and the methods that the address would take.
struct Miss {
    refusal: Refusal,
    allow: &'static str,
}

impl From<Refusal> for Miss {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, allow: "" }
    }
}

fn outcome(found: Result<Route, Miss>) -> String {
    let text = |text: &str| Json::Text(text.into());
    let answer = |refusal| {
        let mut answer = String::new();
        Answer::new(&Reply::Refused(refusal), "").write(&mut answer);
        text(&answer)
    };
    let list = match found {
        Ok(Route::Health) => vec![text("health")],
        Ok(Route::Elsewhere) => vec![text("elsewhere"), answer(Refusal::NotFound), text("")],
        Ok(Route::Call { space, op, lock, fields }) => {
            vec![text("call"), text(space.as_str()), text(op.name()), lock, fields.unwrap_or(Json::Null)]
        }
        Ok(Route::Session { space }) => vec![text("session"), text(space.as_str())],
        Err(Miss { refusal, allow }) => vec![text("answer"), answer(refusal), text(allow)],
    };
    let mut text = String::new();
    json::write(&Json::List(list), &mut text);
    text
}

fn find(method: &str, url: &str, content_type: &str, length: f64) -> Result<Route, Miss> {
    let (path, query) = target(url);
    if path == "/healthz" {
        allow(method, "GET")?;
        return Ok(Route::Health);
    }
    let Some(rest) = path.strip_prefix(SPACES) else {
        let is_ours = path.starts_with("/v1/") || path == "/openapi.json";
        return if is_ours { Err(Refusal::NotFound.into()) } else { Ok(Route::Elsewhere) };
    };
    let segments: Vec<&str> = rest.split('/').collect();
    if let [space, "session"] = segments[..] {
        allow(method, "GET")?;
        return Ok(Route::Session { space: space_name(space)? });
    }
    let (space, op, lock) = match segments[..] {
        [space, "locks"] => {
            allow(method, "GET")?;
            (space, Op::List, None)
        }
        [space, "locks", lock] => {
            allow(method, "GET")?;
            (space, Op::Inspect, Some(lock))
        }
        [space, "locks", lock, op] => {
            let op = Op::from_name(op).filter(|op| is_posted(*op)).ok_or(Refusal::NotFound)?;
            allow(method, "POST")?;
            (space, op, Some(lock))
        }
        _ => return Err(Refusal::NotFound.into()),
    };
    let space = space_name(space)?;
    let lock = match lock.map(|lock| decoded(lock).ok_or_else(|| wire::invalid("lock", ESCAPED))).transpose()? {
        Some(lock) => Json::Text(lock.into()),
        None => Json::Null,
    };
    let fields = if is_posted(op) {
        check_body(content_type, length)?;
        if let Some((name, _)) = parameters(query)?.first() {
            return Err(wire::invalid(name, NO_QUERY).into());
        }
        None
    } else {
        Some(Json::Object(parameters(query)?))
    };
    Ok(Route::Call { space, op, lock, fields })
}

fn space_name(segment: &str) -> Result<Name, Refusal> {
    let name = decoded(segment).ok_or(ESCAPED).and_then(|space| Name::new(&space));
    name.map_err(|expected| wire::invalid("space", expected))
}

fn is_posted(op: Op) -> bool {
    match op {
        Op::Acquire | Op::Renew | Op::Release | Op::Cancel | Op::Revoke => true,
        Op::Inspect | Op::List | Op::Watch | Op::Unwatch => false,
    }
}

fn allow(method: &str, allow: &'static str) -> Result<(), Miss> {
    if method == allow { Ok(()) } else { Err(Miss { refusal: Refusal::MethodNotAllowed, allow }) }
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

/// Path and query of an absolute URL.
fn target(url: &str) -> (&str, &str) {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let without_fragment = after_scheme.split('#').next().unwrap_or_default();
    let (authority_and_path, query) = without_fragment.split_once('?').unwrap_or((without_fragment, ""));
    (authority_and_path.find('/').and_then(|at| authority_and_path.get(at..)).unwrap_or("/"), query)
}

/// The parameters of a query, each name once.
fn parameters(query: &str) -> Result<Vec<(Box<str>, Json)>, Refusal> {
    let mut all: Vec<(Box<str>, Json)> = Vec::new();
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
