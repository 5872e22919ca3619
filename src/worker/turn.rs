//! A turn: what JavaScript hands over of it, as text, and what it is told, part by part.
//!
//! Each line in is `ticket TAB verb TAB subject TAB caller TAB content`. For a command `subject` is the lock, as JSON,
//! `caller` is who asks ([`Caller::read`]), and `content` its fields, as JSON. Where they came as text of their own it is
//! `=` and that text, or, if the text has a line break in it, `~` and a JSON string of it. What is wrong with a line is
//! wrong with that call alone. A `message` has no subject; its content is a command that says itself what it is, or a list
//! of them. `metrics` has the number of open sockets as its content, `audit` its fields. For a socket `subject` is its
//! connection:
//!
//! | verb | content |
//! | --- | --- |
//! | `frame` | a message of it: text of its own |
//! | `close` | `null`: it has closed |
//! | `cut` | `null`: it is gone, and has not said so |
//! | `resume` | a JSON list of the prefixes that it watched before this core was started |
//!
//! What comes of it all is told to [`Told`].

use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::{Command, Refusal, Reply, Request};
use crate::engine::Event;
use crate::json::Json;
use crate::ledger::{Fault, Storage};
use crate::service::{Call, Happened, Service, Ticket, Turn};
use crate::types::{Connection, Expected, Fence, Ms};
use crate::wire::{self, Frame, Framed, MAX_BODY_BYTES, Op, TOO_LARGE};
use crate::worker::access::{Caller, Right};
use crate::worker::audit::{self, Attempt, Page};
use crate::worker::json;
use crate::worker::meter::{self, Meter};
use crate::worker::routes::{Answer, Kind, refused};
use crate::worker::storage::Trail;

/// The space that has a turn, and what it is watched with.
pub struct Host<'a> {
    pub space: &'a str,
    pub meter: &'a mut Meter,
    pub trail: &'a dyn Fn() -> Result<Trail, Fault>,
    /// Whether events are counted elsewhere, too.
    pub has_events: bool,
    /// Commands that one socket may have in a turn.
    pub commands_per_socket: usize,
}

/// The text of one turn, understood.
#[derive(Default)]
pub struct Batch {
    calls: Vec<Call>,
    attempts: Vec<Attempt>,
    /// Lines for the log.
    lines: Vec<String>,
    /// Commands of each socket so far.
    commands: Vec<(Connection, usize)>,
    /// Who asks for the metrics, and how many sockets are open.
    metrics: Vec<(Ticket, u64)>,
    pages: Vec<(Ticket, Page)>,
    closed: Vec<Connection>,
    cut_off: Vec<Connection>,
    resumed: Vec<(Connection, String)>,
    frames: Vec<OpenFrame>,
    /// Calls that have nothing to say but that they are done.
    done: Vec<Ticket>,
}

/// A message of a socket, whose commands are answered together.
struct OpenFrame {
    ticket: Ticket,
    via: Connection,
    /// What its sender calls each command, if it does, and the answer as text.
    replies: Vec<(Option<Json>, String)>,
    is_many: bool,
    is_understood: bool,
    watches: bool,
}

/// Tickets of commands in frames: JavaScript's own never get there.
const FRAMED: Ticket = 1 << 62;

/// The largest number of commands in a frame; a message has no room for more.
const FRAME_BITS: u32 = 16;

impl Batch {
    /// Reads a turn. A line that no JavaScript of ours writes is passed over.
    pub fn read(text: &str, host: &Host<'_>) -> Self {
        let mut batch = Self::default();
        for line in text.lines() {
            batch.line(line, host);
        }
        batch
    }

    fn line(&mut self, line: &str, host: &Host<'_>) -> Option<()> {
        let mut content = line;
        let [ticket, verb, subject, caller] = [(); 4].map(|()| part(&mut content));
        let (ticket, verb, subject, caller) = (ticket?.parse().ok()?, verb?, subject?, Caller::read(caller?));
        match verb {
            "frame" => self.frame(ticket, Connection(subject.parse().ok()?), &caller, content, host),
            "message" => self.message(ticket, &caller, content, host),
            "metrics" => match caller.needs(Right::Read) {
                Ok(()) => self.metrics.push((ticket, content.parse().unwrap_or_default())),
                Err(refusal) => self.calls.push(Call { ticket, via: None, request: Err(refusal) }),
            },
            "audit" => match caller.needs(Right::Admin).and_then(|()| Page::read(&json::read(content, "body")?)) {
                Ok(page) => self.pages.push((ticket, page)),
                Err(refusal) => self.calls.push(Call { ticket, via: None, request: Err(refusal) }),
            },
            "close" => {
                self.closed.push(Connection(subject.parse().ok()?));
                self.done.push(ticket);
            }
            "cut" => {
                self.cut_off.push(Connection(subject.parse().ok()?));
                self.done.push(ticket);
            }
            "resume" => {
                let connection = Connection(subject.parse().ok()?);
                if let Ok(Json::List(prefixes)) = json::read(content, "body") {
                    self.resumed.extend(prefixes.into_iter().filter_map(|prefix| match prefix {
                        Json::Text(prefix) => Some((connection, prefix.into())),
                        _ => None,
                    }));
                }
            }
            #[cfg(feature = "faults")]
            "panic" => panic!("told to"),
            op => {
                let request = request(Op::from_name(op)?, subject, content);
                self.call(ticket, None, &caller, request, host);
            }
        }
        Some(())
    }

    /// Takes up a command, if whoever asks may ask it.
    fn call(
        &mut self,
        ticket: Ticket,
        via: Option<Connection>,
        caller: &Caller,
        request: Result<Request, Refusal>,
        host: &Host<'_>,
    ) {
        let permitted = request.and_then(|request| match caller.permit(&request) {
            Ok(()) => Ok(request),
            Err(refusal) => {
                self.lines.push(refused(&refusal, host.space, op_of(&request).name(), caller.key()));
                Err(refusal)
            }
        });
        if let Ok(request) = &permitted {
            let over_socket = via.is_some_and(|via| via != Connection::NOBODY);
            self.attempts.extend(Attempt::of(ticket, caller, over_socket, request));
        }
        self.calls.push(Call { ticket, via, request: permitted });
    }

    fn frame(&mut self, ticket: Ticket, via: Connection, caller: &Caller, content: &str, host: &Host<'_>) {
        let (frame, is_understood) = match body(content) {
            Ok(json) => (wire::frame(json), true),
            Err((id, refusal)) => (Frame::One(Framed { id, request: Err(refusal) }), false),
        };
        let (commands, is_many) = match frame {
            Frame::One(command) => (vec![command], false),
            Frame::Many(commands) => (commands, true),
        };
        let watches = |command: &Framed| matches!(command.request, Ok(Request::Watch(_) | Request::Unwatch(_)));
        let watches = commands.iter().any(watches);
        let commands = commands.into_iter().map(|Framed { id, request }| (Some(id), request)).collect();
        let open = OpenFrame { ticket, via, is_many, is_understood, watches, replies: Vec::new() };
        self.open(open, commands, caller, host);
    }

    /// By itself a command is a call as any other, and may hold its caller's line. Several are answered together, and so
    /// at once.
    fn message(&mut self, ticket: Ticket, caller: &Caller, content: &str, host: &Host<'_>) {
        match body(content).map_err(|(_, refusal)| refusal) {
            Ok(Json::List(items)) if !items.is_empty() => {
                let commands = items.into_iter().map(|item| (None, wire::command_of(item))).collect();
                let (via, replies) = (Connection::NOBODY, Vec::new());
                let open = OpenFrame { ticket, via, is_many: true, is_understood: true, watches: false, replies };
                self.open(open, commands, caller, host);
            }
            other => self.call(ticket, None, caller, other.and_then(wire::command_of), host),
        }
    }

    fn open(
        &mut self,
        mut open: OpenFrame,
        commands: Vec<(Option<Json>, Result<Request, Refusal>)>,
        caller: &Caller,
        host: &Host<'_>,
    ) {
        let base = FRAMED | ((self.frames.len() as Ticket) << FRAME_BITS);
        let via = open.via;
        for (at, (id, request)) in commands.into_iter().enumerate() {
            open.replies.push((id, String::new()));
            let is_one_too_many = via != Connection::NOBODY && self.count(via) > host.commands_per_socket;
            let request = if is_one_too_many { Err(Refusal::TooMany) } else { request };
            self.call(base | at as Ticket, Some(via), caller, request, host);
        }
        self.frames.push(open);
    }

    /// How many commands this is of that socket. The lines of one mostly follow one another.
    fn count(&mut self, via: Connection) -> usize {
        let at = self.commands.iter().rposition(|(other, _)| *other == via).unwrap_or_else(|| {
            self.commands.push((via, 0));
            self.commands.len() - 1
        });
        self.commands.get_mut(at).map_or(0, |(_, count)| {
            *count += 1;
            *count
        })
    }

    /// Carries it out, and tells what JavaScript is to say: nothing of it before all is durable, and for nothing after a
    /// fault.
    ///
    /// # Errors
    /// As [`Service::turn`].
    pub fn carry_out<S: Storage>(
        self,
        service: &mut Service<S>,
        host: &mut Host<'_>,
        now: Ms,
        told: &Told,
    ) -> Result<(), Fault> {
        let Batch { calls, closed, cut_off, resumed, mut frames, done, attempts, mut lines, metrics, pages, .. } = self;
        let space = host.space;
        let commands = calls.len();
        for (connection, prefix) in resumed {
            service.watch_again(connection, prefix);
        }
        for connection in cut_off {
            service.cut_off(connection);
        }
        let mut turn = service.turn(calls, &closed, now)?;
        let census = if metrics.is_empty() { None } else { Some(service.census(now, &mut turn)?) };
        host.meter.note(&turn, commands);
        for attempt in attempts {
            if let Some(record) = attempt.record(&turn.events, now) {
                lines.push(audit::line(&record, space));
                if !attempt.is_own {
                    (host.trail)()?.keep(&record)?;
                }
            }
        }
        let length = |length: Option<Ms>| length.map_or(f64::NAN, |length| length as f64);
        told.due(length(turn.wake_in), length(turn.ring_in), length(turn.due_in));
        for (ticket, reply) in &turn.answers {
            let framed = ticket.checked_sub(FRAMED).and_then(|rest| {
                let (frame, at) = (rest >> FRAME_BITS, rest & ((1 << FRAME_BITS) - 1));
                frames.get_mut(frame as usize)?.replies.get_mut(at as usize)
            });
            match framed {
                Some((id, answer)) => *answer = json::reply(id.as_ref(), reply, space),
                None => Answer::new(reply, space).tell(*ticket, told),
            }
        }
        for ticket in done {
            Answer::new(&Reply::Released, space).tell(ticket, told);
        }
        for (ticket, sockets) in metrics {
            Answer::text(&host.meter.text(census.unwrap_or_default(), sockets)).tell(ticket, told);
        }
        for (ticket, page) in pages {
            told.answer(ticket as f64, 200, Kind::Reply, 0, &(host.trail)()?.page(&page)?);
        }
        for frame in frames {
            tell_frame(frame, service, told);
        }
        for (Connection(connection), push) in &turn.pushes {
            told.push(*connection as f64, &json::push(push, space));
        }
        for line in lines {
            told.line(&line);
        }
        if host.has_events {
            tell_events(&turn, told);
        }
        Ok(())
    }
}

#[wasm_bindgen]
extern "C" {
    /// What JavaScript is told of a turn. It takes note and does nothing before the turn is over.
    pub type Told;

    /// When the next turns are wanted, see [`Turn`]; NaN is never.
    #[wasm_bindgen(method)]
    fn due(this: &Told, wake_in: f64, ring_in: f64, due_in: f64);

    /// A call is answered: with an HTTP status, seconds for Retry-After or 0, and JSON.
    #[wasm_bindgen(method)]
    pub fn answer(this: &Told, ticket: f64, status: u16, kind: Kind, retry_after: u32, text: &str);

    /// A message to a socket that it did not ask for, as JSON.
    #[wasm_bindgen(method)]
    fn push(this: &Told, connection: f64, text: &str);

    /// What a socket watches from now on: a JSON list of prefixes.
    #[wasm_bindgen(method)]
    fn watching(this: &Told, connection: f64, prefixes: &str);

    /// A line for the log, as JSON.
    #[wasm_bindgen(method)]
    fn line(this: &Told, line: &str);

    /// Something to be counted elsewhere, as JSON `[event, lock, reason, fence, waitedMs]`.
    #[wasm_bindgen(method)]
    fn event(this: &Told, event: &str);
}

/// What happened in a turn, and what its callers were told.
fn tell_events(turn: &Turn, told: &Told) {
    for Happened { lock, event, .. } in &turn.events {
        let (name, reason, fence, waited) = match *event {
            Event::Queued => ("queued", "", None, 0),
            Event::Acquired { fence } => ("granted", "", Some(fence), 0),
            Event::Granted { fence, waited, .. } => ("granted", "waited", Some(fence), waited),
            Event::Left { .. } => ("left", "", None, 0),
            Event::Lapsed { .. } => ("left", "lapsed", None, 0),
            Event::Released { fence, .. } => ("released", "", Some(fence), 0),
            Event::Ended { fence, reason, .. } => ("lost", wire::lost_name(reason), Some(fence), 0),
        };
        told.event(&counted([name, lock.as_str(), reason], fence, waited));
    }
    for (_, reply) in &turn.answers {
        if let Some(reason) = meter::refusal(reply) {
            told.event(&counted(["refused", "", reason], None, 0));
        } else if let Reply::Renewed { lease } = reply {
            told.event(&counted(["renewed", lease.lock.as_str(), ""], Some(lease.fence), 0));
        }
    }
}

fn counted(texts: [&str; 3], fence: Option<Fence>, waited: Ms) -> String {
    let mut text = String::from("[");
    for part in texts {
        json::write_string(part, &mut text);
        text.push(',');
    }
    json::write_integer(fence.map_or(0, Fence::value) as i64, &mut text);
    text.push(',');
    json::write_integer(waited as i64, &mut text);
    text.push(']');
    text
}

/// What comes before the next tab of a line, which goes on after it.
fn part<'a>(line: &mut &'a str) -> Option<&'a str> {
    let at = line.bytes().position(|byte| byte == b'\t')?;
    let (part, rest) = line.split_at_checked(at)?;
    *line = rest.get(1..)?;
    Some(part)
}

fn op_of(request: &Request) -> Op {
    match request {
        Request::List(_) => Op::List,
        Request::Watch(_) => Op::Watch,
        Request::Unwatch(_) => Op::Unwatch,
        Request::Lock { command, .. } => match command {
            Command::Acquire(_) => Op::Acquire,
            Command::Renew(_) => Op::Renew,
            Command::Release(_) => Op::Release,
            Command::Cancel(_) => Op::Cancel,
            Command::Inspect => Op::Inspect,
            Command::Revoke(_) => Op::Revoke,
        },
    }
}

/// As an answer: 400 where the message could not be understood at all, which a socket may do a few times only.
fn tell_frame<S: Storage>(frame: OpenFrame, service: &Service<S>, told: &Told) {
    let OpenFrame { ticket, via, replies, is_many, is_understood, watches } = frame;
    let status = if is_understood { 200 } else { 400 };
    let reply = match replies.as_slice() {
        [(_, reply)] if !is_many => reply,
        replies => {
            let replies: Vec<&str> = replies.iter().map(|(_, reply)| reply.as_str()).collect();
            &["[", &replies.join(","), "]"].concat()
        }
    };
    told.answer(ticket as f64, status, Kind::Reply, 0, reply);
    if watches {
        let prefixes = service.watched_by(via).map(|prefix| Json::Text(prefix.into())).collect();
        told.watching(via.0 as f64, &json::text(&Json::List(prefixes)));
    }
}

fn request(op: Op, lock: &str, fields: &str) -> Result<Request, Refusal> {
    let lock = json::read(lock, "lock")?;
    let fields = if fields.starts_with(['~', '=']) {
        body(fields).map_err(|(_, refusal)| refusal)?
    } else {
        json::read(fields, "body")?
    };
    wire::request(op, &lock, fields)
}

/// JSON that came as text of its own. An error comes with the message's `id`, if that at least can be read.
fn body(content: &str) -> Result<Json, (Json, Refusal)> {
    let read = |text: &str| {
        let json = if text.len() > MAX_BODY_BYTES { Err(TOO_LARGE) } else { json::read(text, "body") };
        json.map_err(|refusal| (json::salvaged_id(text), refusal))
    };
    if let Some(text) = content.strip_prefix('=') {
        return read(text);
    }
    let quoted = content.strip_prefix('~').unwrap_or(content);
    match json::read(quoted, "body").map_err(|refusal| (Json::Null, refusal))? {
        Json::Text(text) => read(&text),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::List(_) | Json::Object(_) => {
            Err((Json::Null, wire::invalid("body", Expected("one JSON object"))))
        }
    }
}
