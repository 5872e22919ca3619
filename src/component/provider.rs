//! The worlds `provider` and `provider-sync`: `lock` as a Leasehold Worker keeps it, reached over `wasi:http`.
//!
//! Configured by the environment: `LEASEHOLD_URL`, and where wanted `LEASEHOLD_SPACE` (`default` unless given) and
//! `LEASEHOLD_KEY`. It retries nothing: what is unknown is `unavailable`, and the caller repeats the call as it is.

use wasip2::cli::environment::get_environment;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme};
use wasip2::io::streams::StreamError;

use crate::command::Refusal;
#[cfg(not(feature = "provider-sync"))]
use crate::component::bindings::exports::leasehold::lease::lock::Guest;
#[cfg(feature = "provider-sync")]
use crate::component::bindings::exports::leasehold::lease::lock_sync::Guest;
use crate::component::types::{
    AcquireRequest, Acquired, Ask, Cancelled, Error, Inspection, InvalidArgument, ReleaseRequest, Released,
    RenewRequest, Renewed, RevokeRequest,
};
use crate::component::{bindings, data};
use crate::json::Json;
use crate::types::Name;
use crate::wire::{self, Op};

struct Provider;

#[allow(unsafe_code, reason = "generated")]
mod exported {
    use super::{Provider, bindings};
    bindings::export!(Provider with_types_in bindings);
}

impl Guest for Provider {
    fn acquire(lock: String, request: AcquireRequest) -> Result<Acquired, Error> {
        let reply = call(&lock, Op::Acquire, data::acquire(request).map_err(refused)?)?;
        understood(match status(&reply) {
            "granted" => data::grant(&reply).map(Acquired::Granted),
            "held" => data::held(&reply).map(Acquired::Held),
            "waiting" => data::waiting(&reply).map(Acquired::Waiting),
            "lost" => data::lost(&reply).map(Acquired::Lost),
            _ => None,
        })
    }

    fn renew(lock: String, request: RenewRequest) -> Result<Renewed, Error> {
        let reply = call(&lock, Op::Renew, data::renew(&request))?;
        understood(match status(&reply) {
            "renewed" => data::lease(&reply).map(Renewed::Renewed),
            "lost" => data::lost(&reply).map(Renewed::Lost),
            _ => None,
        })
    }

    fn release(lock: String, request: ReleaseRequest) -> Result<Released, Error> {
        let reply = call(&lock, Op::Release, data::release(&request))?;
        understood(match status(&reply) {
            "released" => Some(Released::Released),
            "lost" => data::lost(&reply).map(Released::Lost),
            _ => None,
        })
    }

    fn cancel(lock: String, ask: Ask) -> Result<Cancelled, Error> {
        let reply = call(&lock, Op::Cancel, data::ask(&ask))?;
        understood(match status(&reply) {
            "cancelled" => Some(Cancelled::Cancelled),
            "granted" => data::grant(&reply).map(Cancelled::Granted),
            _ => None,
        })
    }

    fn revoke(lock: String, request: RevokeRequest) -> Result<u64, Error> {
        let reply = call(&lock, Op::Revoke, data::revoke(&request))?;
        understood(data::number_at(&reply, "revoked"))
    }

    fn inspect(lock: String) -> Result<Inspection, Error> {
        understood(data::inspection(&call(&lock, Op::Inspect, Json::Object(Vec::new()))?))
    }
}

fn status(reply: &Json) -> &str {
    data::text_at(reply, "status").unwrap_or_default()
}

fn understood<T>(reply: Option<T>) -> Result<T, Error> {
    reply.ok_or(Error::Unavailable)
}

/// Asks the Worker, and tells its refusals from its replies.
fn call(lock: &str, op: Op, fields: Json) -> Result<Json, Error> {
    // Refused here as there, and no name that a URL cannot carry gets into one.
    wire::request(op, &Json::Text(lock.into()), fields.clone()).map_err(refused)?;
    let worker = Worker::from_environment()?;
    let path = format!("/v1/spaces/{}/locks/{}", segment(&worker.space), segment(lock));
    let (status, body) = match op {
        Op::Inspect => worker.send(Method::Get, &path, None),
        _ => worker.send(Method::Post, &format!("{path}/{}", op.name()), Some(&data::write_json(&fields))),
    }
    .ok_or(Error::Unavailable)?;
    let reply = data::read_json(&body, "body").map_err(|_| Error::Unavailable)?;
    match (status, data::text_at(&reply, "code")) {
        (200..=299, _) | (409, None) => Ok(reply),
        _ => Err(error(status, &reply)),
    }
}

/// Refused here, as the Worker would have.
fn refused(refusal: Refusal) -> Error {
    let (status, problem) = wire::problem(&refusal);
    error(status, &problem)
}

fn error(status: u16, problem: &Json) -> Error {
    match (status, data::text_at(problem, "code")) {
        (_, Some("invalid_argument")) => Error::InvalidArgument(invalid(problem)),
        (_, Some("limit_mismatch")) => Error::LimitMismatch,
        (_, Some("queue_full")) => Error::QueueFull,
        (401, _) => Error::Unauthorized,
        (403, _) => Error::Forbidden,
        _ => Error::Unavailable,
    }
}

fn invalid(problem: &Json) -> InvalidArgument {
    let field = data::text_at(problem, "field").unwrap_or_default();
    let detail = data::text_at(problem, "detail").unwrap_or_default();
    let expected = detail.strip_prefix(field).and_then(|rest| rest.strip_prefix(" must be ")).unwrap_or(detail);
    InvalidArgument { field: field.into(), expected: expected.into() }
}

/// Percent-encodes a segment of a path.
fn segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => segment.push(byte.into()),
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

/// Where the leases are kept.
struct Worker {
    scheme: Scheme,
    authority: String,
    base: String,
    space: String,
    key: Option<String>,
}

impl Worker {
    fn from_environment() -> Result<Self, Error> {
        let environment = get_environment();
        let of = |name: &str| environment.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        let wrong = |field: &str, expected: &str| {
            Error::InvalidArgument(InvalidArgument { field: field.into(), expected: expected.into() })
        };
        let url = of("LEASEHOLD_URL").unwrap_or_default();
        let (scheme, rest) = match url.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            _ => {
                return Err(wrong(
                    "LEASEHOLD_URL",
                    "set in the environment to the http or https address of the Worker",
                ));
            }
        };
        let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let space = of("LEASEHOLD_SPACE").unwrap_or_else(|| "default".into());
        Name::new(&space).map_err(|expected| wrong("LEASEHOLD_SPACE", expected.0))?;
        Ok(Self {
            scheme,
            authority: authority.into(),
            base: base.trim_end_matches('/').into(),
            space,
            key: of("LEASEHOLD_KEY"),
        })
    }

    /// Status and body of the response; `None` where there was none.
    fn send(&self, method: Method, path: &str, body: Option<&str>) -> Option<(u16, String)> {
        let headers = Fields::new();
        if body.is_some() {
            headers.append("content-type", b"application/json").ok()?;
        }
        if let Some(key) = &self.key {
            headers.append("authorization", format!("Bearer {key}").as_bytes()).ok()?;
        }
        let request = OutgoingRequest::new(headers);
        request.set_method(&method).ok()?;
        request.set_scheme(Some(&self.scheme)).ok()?;
        request.set_authority(Some(&self.authority)).ok()?;
        request.set_path_with_query(Some(&format!("{}{path}", self.base))).ok()?;
        let outgoing = request.body().ok()?;
        let response = handle(request, None).ok()?;
        write_all(&outgoing, body.unwrap_or_default())?;
        OutgoingBody::finish(outgoing, None).ok()?;
        response.subscribe().block();
        let response = response.get()?.ok()?.ok()?;
        Some((response.status(), read_all(&response)?))
    }
}

/// The most that one write of `wasi:io` takes.
const CHUNK: usize = 4_096;

fn write_all(outgoing: &OutgoingBody, body: &str) -> Option<()> {
    let stream = outgoing.write().ok()?;
    body.as_bytes().chunks(CHUNK).try_for_each(|chunk| stream.blocking_write_and_flush(chunk)).ok()
}

fn read_all(response: &IncomingResponse) -> Option<String> {
    let incoming = response.consume().ok()?;
    let stream = incoming.stream().ok()?;
    let mut body = Vec::new();
    loop {
        match stream.blocking_read(CHUNK as u64) {
            Ok(chunk) => body.extend(chunk),
            Err(StreamError::Closed) => return String::from_utf8(body).ok(),
            Err(StreamError::LastOperationFailed(_)) => return None,
        }
    }
}
