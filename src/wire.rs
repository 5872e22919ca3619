//! The wire format: every field name there is, in and out, and what each reply is in HTTP.
//!
//! Commands come in as [`Json`] and become data that cannot be wrong ([`request`]); replies go out as [`Members`]
//! ([`write_reply`]). For the other end, [`fields`] writes a command and [`heard`] reads a reply.

use crate::command::{
    Acquire, Cancel, Change, Command, Entrance, Holder, Lease, List, Lost, Push, Refusal, Release, Renew, Reply,
    Request, Revoke, Summary, Terms, Waiter, Watch,
};
use crate::json::{Json, Key};
use crate::session::{Grant, Heard};
use crate::types::{
    ClientId, Expected, Fence, Info, Limit, LockDelay, MaxHold, Mode, Name, Note, PageSize, RequestId, Token, Ttl, Wait,
};

/// The largest body of a command, in bytes.
pub const MAX_BODY_BYTES: usize = 16 * 1024;

/// What a longer one is told.
pub const TOO_LARGE: Refusal = Refusal::TooLarge { expected: "at most 16384 bytes" };

/// What is asked for, before its fields are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Acquire,
    Renew,
    Release,
    Cancel,
    Inspect,
    List,
    Revoke,
    Watch,
    Unwatch,
}

impl Op {
    pub const ALL: [Op; 9] =
        [Op::Acquire, Op::Renew, Op::Release, Op::Cancel, Op::Inspect, Op::List, Op::Revoke, Op::Watch, Op::Unwatch];

    pub fn name(self) -> &'static str {
        match self {
            Op::Acquire => "acquire",
            Op::Renew => "renew",
            Op::Release => "release",
            Op::Cancel => "cancel",
            Op::Inspect => "inspect",
            Op::List => "list",
            Op::Revoke => "revoke",
            Op::Watch => "watch",
            Op::Unwatch => "unwatch",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }
}

/// Reads what was asked.
///
/// # Errors
/// [`Refusal::Invalid`] with the first field that is missing, wrong, or not known.
pub fn request(op: Op, lock: &Json, fields: Json) -> Result<Request, Refusal> {
    let mut fields = Fields::new(fields)?;
    let request = match op {
        Op::List => Request::List(List {
            prefix: fields.optional("prefix", prefix)?.unwrap_or_default(),
            cursor: fields.optional("cursor", name)?,
            page_size: fields.optional("pageSize", number(PageSize::new))?.unwrap_or(PageSize::DEFAULT),
        }),
        Op::Watch => Request::Watch(watch(&mut fields)?),
        Op::Unwatch => Request::Unwatch(watch(&mut fields)?),
        Op::Acquire | Op::Renew | Op::Release | Op::Cancel | Op::Inspect | Op::Revoke => {
            let lock = name(lock).map_err(|expected| invalid("lock", expected))?;
            Request::Lock { lock, command: command(op, &mut fields)? }
        }
    };
    fields.end()?;
    Ok(request)
}

fn command(op: Op, fields: &mut Fields) -> Result<Command, Refusal> {
    Ok(match op {
        Op::Acquire => Command::Acquire(acquire(fields)?),
        Op::Renew => Command::Renew(Renew {
            token: fields.required("token", text(Token::new))?,
            fence: fields.required("fence", number(Fence::new))?,
            ttl: fields.optional("ttlMs", number(Ttl::new))?,
        }),
        Op::Release => Command::Release(Release {
            token: fields.required("token", text(Token::new))?,
            fence: fields.required("fence", number(Fence::new))?,
        }),
        Op::Cancel => Command::Cancel(Cancel {
            token: fields.required("token", text(Token::new))?,
            request_id: fields.required("requestId", text(RequestId::new))?,
        }),
        Op::Revoke => Command::Revoke(Revoke {
            fence: fields.optional("fence", number(Fence::new))?,
            reason: fields.optional("reason", text(Note::new))?,
        }),
        Op::Inspect | Op::List | Op::Watch | Op::Unwatch => Command::Inspect,
    })
}

fn watch(fields: &mut Fields) -> Result<Watch, Refusal> {
    Ok(Watch { prefix: fields.optional("prefix", prefix)?.unwrap_or_default() })
}

fn acquire(fields: &mut Fields) -> Result<Acquire, Refusal> {
    let token = fields.required("token", text(Token::new))?;
    let request_id = fields.required("requestId", text(RequestId::new))?;
    let wait = fields.optional("waitMs", number(Wait::new))?.unwrap_or(Wait::NONE);
    let is_shared = fields.optional("mode", is_shared)?.unwrap_or(false);
    let limit = fields.optional("limit", number(Limit::new))?;
    let mode = match (is_shared, limit) {
        (true, limit) => Mode::Shared(limit),
        (false, None) => Mode::Exclusive,
        (false, Some(_)) => return Err(invalid("limit", Expected("left out unless mode is \"shared\""))),
    };
    let entry = match (fields.optional("steal", boolean)?.unwrap_or(false), mode) {
        (false, _) => Entrance::Queue,
        (true, Mode::Exclusive) => Entrance::Steal,
        (true, Mode::Shared(_)) => return Err(invalid("steal", Expected("left out or false when mode is \"shared\""))),
    };
    let terms = Terms {
        token,
        request_id,
        mode,
        ttl: fields.optional("ttlMs", number(Ttl::new))?.unwrap_or(Ttl::DEFAULT),
        max_hold: fields.optional("maxHoldMs", number(MaxHold::new))?,
        lock_delay: fields.optional("lockDelayMs", number(LockDelay::new))?.unwrap_or(LockDelay::NONE),
        client_id: fields.optional("clientId", text(ClientId::new))?,
        info: fields.optional("info", |json| Info::new(json.clone()))?,
    };
    Ok(Acquire { terms, wait, entry })
}

/// What a socket sent in one message: one command, or those of one turn of its client.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    One(Framed),
    Many(Vec<Framed>),
}

/// A command in a frame, with what its sender calls it.
#[derive(Debug, Clone, PartialEq)]
pub struct Framed {
    /// `Null` where there was none that could be used.
    pub id: Json,
    pub request: Result<Request, Refusal>,
}

/// Reads a frame. What is wrong with one command refuses that one only.
pub fn frame(json: Json) -> Frame {
    match json {
        Json::List(items) if !items.is_empty() => Frame::Many(items.into_iter().map(framed).collect()),
        other => Frame::One(framed(other)),
    }
}

fn framed(json: Json) -> Framed {
    let mut fields = match Fields::new(json) {
        Ok(fields) => fields,
        Err(refusal) => return Framed { id: Json::Null, request: Err(refusal) },
    };
    let id = match fields.required("id", id) {
        Ok(id) => id,
        Err(refusal) => return Framed { id: Json::Null, request: Err(refusal) },
    };
    Framed { id, request: addressed(fields) }
}

/// Reads a command that says itself what it is and which lock it is about.
///
/// # Errors
/// As [`request`].
pub fn command_of(json: Json) -> Result<Request, Refusal> {
    addressed(Fields::new(json)?)
}

fn addressed(mut fields: Fields) -> Result<Request, Refusal> {
    let op = fields.required("op", op)?;
    let lock =
        fields.0.iter().position(|(name, _)| **name == *"lock").map_or(Json::Null, |at| fields.0.swap_remove(at).1);
    request(op, &lock, Json::Object(fields.0))
}

fn op(json: &Json) -> Result<Op, Expected> {
    let op = if let Json::Text(name) = json { Op::from_name(name) } else { None };
    op.ok_or(Expected("one of acquire, renew, release, cancel, inspect, list, revoke, watch, unwatch"))
}

fn id(json: &Json) -> Result<Json, Expected> {
    match json {
        Json::Number(_) => Ok(json.clone()),
        Json::Text(text) if text.len() <= 128 => Ok(json.clone()),
        _ => Err(Expected("a number, or a string of at most 128 bytes")),
    }
}

/// Where the members of an object go: into a tree ([`Tree`]), or straight into text.
pub trait Members: Sized {
    fn text(&mut self, name: &'static str, value: &str);
    fn integer(&mut self, name: &'static str, value: u64);
    fn json(&mut self, name: &'static str, value: &Json);
    fn object(&mut self, name: &'static str, write: impl FnOnce(&mut Self));
    fn objects<T>(&mut self, name: &'static str, items: &[T], write: impl Fn(&T, &mut Self));
}

/// Members as data.
#[derive(Default)]
pub struct Tree(Vec<(Key, Json)>);

impl Tree {
    fn of(write: impl FnOnce(&mut Self)) -> Json {
        let mut tree = Self::default();
        write(&mut tree);
        Json::Object(tree.0)
    }
}

impl Members for Tree {
    fn text(&mut self, name: &'static str, value: &str) {
        self.0.push((name.into(), string(value)));
    }

    fn integer(&mut self, name: &'static str, value: u64) {
        self.0.push((name.into(), integer(value)));
    }

    fn json(&mut self, name: &'static str, value: &Json) {
        self.0.push((name.into(), value.clone()));
    }

    fn object(&mut self, name: &'static str, write: impl FnOnce(&mut Self)) {
        self.0.push((name.into(), Self::of(write)));
    }

    fn objects<T>(&mut self, name: &'static str, items: &[T], write: impl Fn(&T, &mut Self)) {
        let items = items.iter().map(|item| Self::of(|tree| write(item, tree))).collect();
        self.0.push((name.into(), Json::List(items)));
    }
}

/// A push as data.
pub fn push(push: &Push, space: &str) -> Json {
    Tree::of(|tree| write_push(push, space, tree))
}

/// A push as a frame of its own.
pub fn write_push(push: &Push, space: &str, to: &mut impl Members) {
    match push {
        Push::Granted { request_id, lease, waited } => {
            to.text("push", "granted");
            to.text("lock", lease.lock.as_str());
            to.text("requestId", request_id.as_str());
            to.text("status", "granted");
            write_lease(lease, space, to);
            to.integer("waitedMs", *waited);
        }
        Push::Ended { lock, fence, reason } => {
            to.text("push", "ended");
            to.text("lock", lock.as_str());
            to.integer("fence", fence.value());
            to.text("status", "lost");
            to.text("reason", lost_name(*reason));
        }
        Push::Changed { change, fence, now } => {
            to.text("push", "changed");
            to.text("change", change_name(*change));
            if let Some(fence) = fence {
                to.integer("fence", fence.value());
            }
            write_summary(now, to);
        }
    }
}

fn change_name(change: Change) -> &'static str {
    match change {
        Change::Acquired => "acquired",
        Change::Released => "released",
        Change::Expired => "expired",
        Change::Revoked => "revoked",
        Change::Stolen => "stolen",
        Change::Queued => "queued",
        Change::Left => "left",
    }
}

/// The members of a command that nobody has asked for yet.
struct Fields(Vec<(Key, Json)>);

impl Fields {
    fn new(json: Json) -> Result<Self, Refusal> {
        match json {
            Json::Object(members) => Ok(Self(members)),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_) => {
                Err(invalid("body", Expected("one JSON object")))
            }
        }
    }

    fn optional<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&Json) -> Result<T, Expected>,
    ) -> Result<Option<T>, Refusal> {
        match self.0.iter().position(|(name, _)| **name == *field) {
            Some(at) => parse(&self.0.swap_remove(at).1).map(Some).map_err(|expected| invalid(field, expected)),
            None => Ok(None),
        }
    }

    fn required<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&Json) -> Result<T, Expected>,
    ) -> Result<T, Refusal> {
        self.optional(field, parse)?.ok_or_else(|| invalid(field, Expected("given")))
    }

    fn end(self) -> Result<(), Refusal> {
        match self.0.first() {
            Some((field, _)) => Err(invalid(field, Expected("left out: there is no such field"))),
            None => Ok(()),
        }
    }
}

/// A refusal of `field`. A field named by somebody else may be long: it is cut.
pub fn invalid(field: &str, expected: Expected) -> Refusal {
    Refusal::Invalid { field: field.chars().take(64).collect(), expected: expected.0 }
}

fn number<T>(new: fn(f64) -> Result<T, Expected>) -> impl FnOnce(&Json) -> Result<T, Expected> {
    move |json| match json {
        Json::Number(number) => new(*number),
        Json::Null | Json::Bool(_) | Json::Text(_) | Json::List(_) | Json::Object(_) => new(f64::NAN),
    }
}

fn text<T>(new: fn(&str) -> Result<T, Expected>) -> impl FnOnce(&Json) -> Result<T, Expected> {
    move |json| match json {
        Json::Text(text) => new(text),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::List(_) | Json::Object(_) => new(""),
    }
}

fn name(json: &Json) -> Result<Name, Expected> {
    text(Name::new)(json)
}

fn prefix(json: &Json) -> Result<String, Expected> {
    match json {
        Json::Text(text) if text.len() <= Name::MAX_BYTES => Ok(text.to_string()),
        _ => Err(Expected("at most 512 bytes of UTF-8")),
    }
}

fn boolean(json: &Json) -> Result<bool, Expected> {
    if let Json::Bool(value) = json { Ok(*value) } else { Err(Expected("true or false")) }
}

fn is_shared(json: &Json) -> Result<bool, Expected> {
    match json {
        Json::Text(mode) if **mode == *"exclusive" => Ok(false),
        Json::Text(mode) if **mode == *"shared" => Ok(true),
        _ => Err(Expected("\"exclusive\" or \"shared\"")),
    }
}

/// A reply as data: its HTTP status, and its members.
pub fn reply(reply: &Reply, space: &str) -> (u16, Json) {
    let mut tree = Tree::default();
    (write_reply(reply, space, &mut tree), Json::Object(tree.0))
}

/// Writes a reply as it goes out, and gives its HTTP status. `space` is the name of the space that replies.
pub fn write_reply(reply: &Reply, space: &str, to: &mut impl Members) -> u16 {
    match reply {
        Reply::Granted { lease, waited } => {
            to.text("status", "granted");
            write_lease(lease, space, to);
            to.integer("waitedMs", *waited);
        }
        Reply::Held { holders, queue, retry_after } => {
            to.text("status", "held");
            to.objects("holders", holders, write_holder);
            to.integer("queue", *queue as u64);
            to.integer("retryAfterMs", *retry_after);
            return 409;
        }
        Reply::Waiting { position, retry_after } => {
            to.text("status", "waiting");
            to.integer("position", *position as u64);
            to.integer("retryAfterMs", *retry_after);
            return 202;
        }
        Reply::Renewed { lease } => {
            to.text("status", "renewed");
            write_lease(lease, space, to);
        }
        Reply::Lost { reason } => {
            to.text("status", "lost");
            to.text("reason", lost_name(*reason));
            return 409;
        }
        Reply::Released => to.text("status", "released"),
        Reply::Cancelled => to.text("status", "cancelled"),
        Reply::Inspected { lock, holders, waiters } => {
            to.text("lock", lock.as_str());
            write_holders(holders, to);
            to.objects("waiters", waiters, write_waiter);
        }
        Reply::Listed { locks, cursor } => write_page(locks, cursor.as_ref(), to),
        Reply::Watching { locks, cursor } => {
            to.text("status", "watching");
            write_page(locks, cursor.as_ref(), to);
        }
        Reply::Unwatched => to.text("status", "unwatched"),
        Reply::Revoked { count } => to.integer("revoked", *count as u64),
        Reply::Refused(refusal) => return write_problem(refusal, to),
    }
    200
}

/// The code of [`Refusal::Invalid`].
pub const INVALID_ARGUMENT: &str = "invalid_argument";

/// What programs tell refusals apart by.
pub fn code(refusal: &Refusal) -> &'static str {
    heading(refusal).1
}

/// HTTP status, code and title.
fn heading(refusal: &Refusal) -> (u16, &'static str, &'static str) {
    match refusal {
        Refusal::Invalid { .. } => (400, INVALID_ARGUMENT, "A field is missing or wrong"),
        Refusal::LimitMismatch => (409, "limit_mismatch", "The lock is in use with another limit"),
        Refusal::QueueFull => (429, "queue_full", "Too many wait for this lock"),
        Refusal::Unavailable => (503, "unavailable", "The lease store could not answer"),
        Refusal::TooLarge { .. } => (413, "too_large", "The request is too large"),
        Refusal::NotFound => (404, "not_found", "There is nothing at this address"),
        Refusal::MethodNotAllowed => (405, "method_not_allowed", "This address does not know that method"),
        Refusal::UnsupportedMediaType => (415, "unsupported_media_type", "The body is not application/json"),
        Refusal::UpgradeRequired => (426, "upgrade_required", "This address opens a WebSocket"),
        Refusal::NeedsSocket => (400, "needs_socket", "Changes are told over a WebSocket only"),
        Refusal::AddressTooLong => (414, "too_large", "The address is too long"),
        Refusal::HeadersTooLarge => (431, "too_large", "The headers are too large"),
        Refusal::TooSlow => (408, "too_slow", "The body did not come in time"),
        Refusal::SpaceFull => (429, "space_full", "The space has as much in it as it may"),
        Refusal::TooMany => (429, "too_many_requests", "Too much was asked at once or too often"),
        Refusal::Unauthorized => (401, "unauthorized", "A key is needed that this service knows"),
        Refusal::Forbidden { .. } => (403, "forbidden", "The key does not have the right to do that"),
        Refusal::ForeignOrigin => (403, "forbidden", "The origin of the web page is not on the list"),
        Refusal::Misconfigured => (503, "unavailable", "This service lets nobody in: its settings cannot be read"),
        Refusal::NotConfigured => (503, "unavailable", "This service has no keys and so lets nobody in"),
    }
}

/// Problem details of a refusal as data.
pub fn problem(refusal: &Refusal) -> (u16, Json) {
    let mut tree = Tree::default();
    (write_problem(refusal, &mut tree), Json::Object(tree.0))
}

/// Problem details (RFC 9457) of a refusal, and its HTTP status.
fn write_problem(refusal: &Refusal, to: &mut impl Members) -> u16 {
    let (status, code, title) = heading(refusal);
    let detail = match refusal {
        Refusal::Invalid { field, expected } => format!("{field} must be {expected}"),
        Refusal::TooLarge { expected } => format!("it must be {expected}"),
        Refusal::LimitMismatch => {
            "ask with the limit that the holders and waiters have, or wait until they are gone".into()
        }
        Refusal::QueueFull | Refusal::TooMany => "try again later".into(),
        Refusal::SpaceFull => "try again when locks have come free: those in use go on".into(),
        Refusal::AddressTooLong | Refusal::HeadersTooLarge => "they must be at most 16384 bytes".into(),
        Refusal::TooSlow => "send it within 10 seconds".into(),
        Refusal::Unauthorized => "send Authorization: Bearer and a key".into(),
        Refusal::Forbidden { right } => format!("it takes the right \"{right}\" in this space"),
        Refusal::ForeignOrigin => "it must be one of LEASEHOLD_ORIGINS".into(),
        Refusal::Misconfigured => "its log says which of them, and what is wrong".into(),
        Refusal::Unavailable => "repeat the request as it is: whether it took effect is unknown".into(),
        Refusal::NotFound => "see /openapi.json for what there is".into(),
        Refusal::UpgradeRequired => "ask for it with Upgrade: websocket".into(),
        Refusal::NeedsSocket => "open GET /v1/spaces/{space}/session as a WebSocket".into(),
        Refusal::MethodNotAllowed => "see the Allow header".into(),
        Refusal::UnsupportedMediaType => "send Content-Type: application/json".into(),
        Refusal::NotConfigured => {
            "set the secret LEASEHOLD_KEYS, or LEASEHOLD_OPEN to \"true\" for local development".into()
        }
    };
    to.text("type", &["urn:leasehold:problem:", code].concat());
    to.text("title", title);
    to.integer("status", u64::from(status));
    to.text("code", code);
    to.text("detail", &detail);
    if let Refusal::Invalid { field, .. } = refusal {
        to.text("field", field);
    }
    if let Refusal::Forbidden { right } = refusal {
        to.text("right", right);
    }
    status
}

fn write_lease(lease: &Lease, space: &str, to: &mut impl Members) {
    to.object("lease", |to| {
        to.text("space", space);
        to.text("lock", lease.lock.as_str());
        to.text("token", lease.token.as_str());
        to.integer("fence", lease.fence.value());
        to.text("mode", mode_name(lease.mode));
        to.integer("ttlMs", lease.ttl.value());
        to.integer("expiresInMs", lease.expires_in);
        to.integer("expiresAt", lease.expires_at);
    });
}

/// A holder as a refusal shows it.
fn write_holder(holder: &Holder, to: &mut impl Members) {
    to.integer("fence", holder.fence.value());
    write_contender(holder.mode, holder.client_id.as_ref(), holder.info.as_ref(), to);
    to.integer("expiresInMs", holder.expires_in);
}

/// Holders as an inspection shows them: since when, too.
fn write_holders(holders: &[Holder], to: &mut impl Members) {
    to.objects("holders", holders, |holder, to| {
        write_holder(holder, to);
        to.integer("heldMs", holder.held);
    });
}

fn write_waiter(waiter: &Waiter, to: &mut impl Members) {
    write_contender(waiter.mode, waiter.client_id.as_ref(), waiter.info.as_ref(), to);
    to.integer("waitedMs", waiter.waited);
}

fn write_contender(mode: Mode, client_id: Option<&ClientId>, info: Option<&Info>, to: &mut impl Members) {
    to.text("mode", mode_name(mode));
    if let Some(client_id) = client_id {
        to.text("clientId", client_id.as_str());
    }
    if let Some(info) = info {
        to.json("info", info.as_json());
    }
}

fn write_page(locks: &[Summary], cursor: Option<&Name>, to: &mut impl Members) {
    to.objects("locks", locks, write_summary);
    if let Some(cursor) = cursor {
        to.text("cursor", cursor.as_str());
    }
}

fn write_summary(summary: &Summary, to: &mut impl Members) {
    to.text("lock", summary.lock.as_str());
    write_holders(&summary.holders, to);
    to.integer("queue", summary.queue as u64);
}

/// The members of a command, as [`request`] reads them.
pub fn fields(command: &Command) -> (Op, Json) {
    let (op, members) = match command {
        Command::Acquire(acquire) => (Op::Acquire, acquire_fields(acquire)),
        Command::Renew(Renew { token, fence, ttl }) => {
            let mut members = vec![("token", string(token.as_str())), ("fence", integer(fence.value()))];
            members.extend(ttl.map(|ttl| ("ttlMs", integer(ttl.value()))));
            (Op::Renew, members)
        }
        Command::Release(Release { token, fence }) => {
            (Op::Release, vec![("token", string(token.as_str())), ("fence", integer(fence.value()))])
        }
        Command::Cancel(Cancel { token, request_id }) => {
            (Op::Cancel, vec![("token", string(token.as_str())), ("requestId", string(request_id.as_str()))])
        }
        Command::Inspect => (Op::Inspect, vec![]),
        Command::Revoke(Revoke { fence, reason }) => {
            let mut members = Vec::new();
            members.extend(fence.map(|fence| ("fence", integer(fence.value()))));
            members.extend(reason.as_ref().map(|reason| ("reason", string(reason.as_str()))));
            (Op::Revoke, members)
        }
    };
    (op, object(members))
}

fn acquire_fields(acquire: &Acquire) -> Vec<(&'static str, Json)> {
    let Acquire { terms, wait, entry } = acquire;
    let mut members = vec![
        ("token", string(terms.token.as_str())),
        ("requestId", string(terms.request_id.as_str())),
        ("ttlMs", integer(terms.ttl.value())),
        ("waitMs", integer(wait.value())),
        ("mode", string(mode_name(terms.mode))),
    ];
    if let Mode::Shared(Some(limit)) = terms.mode {
        members.push(("limit", integer(limit.value())));
    }
    members.extend(terms.max_hold.map(|max_hold| ("maxHoldMs", integer(max_hold.value()))));
    if terms.lock_delay != LockDelay::NONE {
        members.push(("lockDelayMs", integer(terms.lock_delay.value())));
    }
    members.extend(terms.client_id.as_ref().map(|client_id| ("clientId", string(client_id.as_str()))));
    members.extend(terms.info.as_ref().map(|info| ("info", info.as_json().clone())));
    if *entry == Entrance::Steal {
        members.push(("steal", Json::Bool(true)));
    }
    members
}

/// Reads a reply to acquire, renew, release or cancel; `None` where it is none of those that [`reply`] writes.
pub fn heard(json: &Json) -> Option<Heard> {
    Said::read(json).heard()
}

/// Reads a push that is meant for whoever asks under `request_id`, or holds `fence`; `None` where it is not.
pub fn told(push: &Json, request_id: Option<&RequestId>, fence: Option<Fence>) -> Option<Heard> {
    Said::read(push).told(request_id, fence)
}

/// What a session listens to in a reply, or in what it is told without having asked: its members, whatever form they came
/// in. What is of another type is not there.
#[derive(Debug, Default)]
pub struct Said<'a> {
    pub status: Option<&'a str>,
    pub reason: Option<&'a str>,
    pub request_id: Option<&'a str>,
    pub fence: Option<f64>,
    pub waited_ms: Option<f64>,
    pub retry_after_ms: Option<f64>,
    pub lease: Option<SaidLease>,
}

/// What a session listens to of a lease.
#[derive(Debug, Default)]
pub struct SaidLease {
    pub fence: Option<f64>,
    pub ttl_ms: Option<f64>,
    pub expires_in_ms: Option<f64>,
    pub expires_at: Option<f64>,
}

impl<'a> Said<'a> {
    fn read(json: &'a Json) -> Self {
        let text = |name| member(json, name).and_then(text_of);
        let number = |json, name| member(json, name).and_then(number_of);
        Self {
            status: text("status"),
            reason: text("reason"),
            request_id: text("requestId"),
            fence: number(json, "fence"),
            waited_ms: number(json, "waitedMs"),
            retry_after_ms: number(json, "retryAfterMs"),
            lease: member(json, "lease").map(|lease| SaidLease {
                fence: number(lease, "fence"),
                ttl_ms: number(lease, "ttlMs"),
                expires_in_ms: number(lease, "expiresInMs"),
                expires_at: number(lease, "expiresAt"),
            }),
        }
    }

    /// As [`heard`].
    pub fn heard(&self) -> Option<Heard> {
        let grant = || self.lease.as_ref().and_then(SaidLease::grant);
        Some(match self.status? {
            "granted" => Heard::Granted { grant: grant()?, waited: length(self.waited_ms)? },
            "held" => Heard::Held { retry_after: length(self.retry_after_ms)? },
            "waiting" => Heard::Waiting { retry_after: length(self.retry_after_ms)? },
            "renewed" => Heard::Renewed { grant: grant()? },
            "lost" => Heard::Lost(lost_from(self.reason?)),
            "released" => Heard::Released,
            "cancelled" => Heard::Cancelled,
            _ => return None,
        })
    }

    /// As [`told`].
    pub fn told(&self, request_id: Option<&RequestId>, fence: Option<Fence>) -> Option<Heard> {
        let is_of_ask = request_id.is_some_and(|id| self.request_id == Some(id.as_str()));
        let is_of_lease = fence.is_some_and(|fence| length(self.fence) == Some(fence.value()));
        if is_of_ask || is_of_lease { self.heard() } else { None }
    }
}

impl SaidLease {
    fn grant(&self) -> Option<Grant> {
        Some(Grant {
            fence: Fence::new(self.fence?).ok()?,
            ttl: Ttl::new(self.ttl_ms?).ok()?,
            expires_in: length(self.expires_in_ms)?,
            expires_at: length(self.expires_at)?,
        })
    }
}

fn member<'a>(json: &'a Json, name: &str) -> Option<&'a Json> {
    match json {
        Json::Object(members) => members.iter().find(|(other, _)| **other == *name).map(|(_, value)| value),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_) => None,
    }
}

fn text_of(json: &Json) -> Option<&str> {
    if let Json::Text(text) = json { Some(text) } else { None }
}

fn number_of(json: &Json) -> Option<f64> {
    if let Json::Number(number) = json { Some(*number) } else { None }
}

fn length(number: Option<f64>) -> Option<u64> {
    number.filter(|number| *number >= 0.0).map(|number| number as u64)
}

pub fn lost_name(reason: Lost) -> &'static str {
    match reason {
        Lost::Expired => "expired",
        Lost::Released => "released",
        Lost::Revoked => "revoked",
        Lost::Stolen => "stolen",
        Lost::Unknown => "unknown",
    }
}

fn lost_from(name: &str) -> Lost {
    let all = [Lost::Expired, Lost::Released, Lost::Revoked, Lost::Stolen];
    all.into_iter().find(|reason| lost_name(*reason) == name).unwrap_or(Lost::Unknown)
}

pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared(_) => "shared",
    }
}

fn object(members: Vec<(&'static str, Json)>) -> Json {
    Json::Object(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn string(text: &str) -> Json {
    Json::Text(text.into())
}

fn integer(value: u64) -> Json {
    Json::Number(value as f64)
}
