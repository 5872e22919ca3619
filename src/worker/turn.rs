//! A turn as text: what JavaScript hands over of it, and what it is told.
//!
//! Each line in is `ticket TAB verb TAB subject TAB caller TAB content`. For a command `subject` is the lock, as JSON,
//! `caller` is who asks ([`Caller::read`]), and `content` its fields, as JSON, or `~` and a JSON string that holds the
//! text of them as it came over HTTP. What is wrong with a line is wrong with that call alone. `metrics` has the number of
//! open sockets as its content, `audit` its fields. For a socket `subject` is its connection:
//!
//! | verb | content |
//! | --- | --- |
//! | `frame` | `~` and a JSON string that holds a message of it |
//! | `close` | `null`: it has closed |
//! | `cut` | `null`: it is gone, and has not said so |
//! | `resume` | a JSON list of the prefixes that it watched before this core was started |
//!
//! The first line out is `wakeInMs TAB ringInMs TAB dueInMs`, each empty where there is none. After it, in this order:
//! `ticket TAB` and an [`Answer`] per call that is answered; `= TAB connection TAB` and the JSON list of what that socket
//! watches from now on; `> TAB connection TAB` and the JSON of a message to that socket; `* TAB` and the JSON of a line for
//! the log; `+ TAB` and the JSON `[event, lock, reason, fence, waitedMs]` of something that is to be counted elsewhere.

use std::fmt::Write;

use crate::command::{Command, Refusal, Reply, Request};
use crate::engine::Event;
use crate::json::Json;
use crate::ledger::{Fault, Storage};
use crate::service::{Call, Happened, Service, Ticket, Turn};
use crate::types::{Connection, Expected, Fence, Ms};
use crate::wire::{self, Frame, Framed, Op};
use crate::worker::access::{Caller, Right};
use crate::worker::audit::{self, Attempt, Page};
use crate::worker::json;
use crate::worker::meter::{self, Meter};
use crate::worker::routes::{Answer, refused};
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
    /// What its sender calls each command, and the answer.
    replies: Vec<(Json, Option<Json>)>,
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
        let mut parts = line.splitn(5, '\t');
        let (ticket, verb, subject) = (parts.next()?, parts.next()?, parts.next()?);
        let (caller, content) = (Caller::read(parts.next()?), parts.next()?);
        let ticket = ticket.parse().ok()?;
        match verb {
            "frame" => self.frame(ticket, Connection(subject.parse().ok()?), &caller, content, host),
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
            self.attempts.extend(Attempt::of(ticket, caller, via.is_some(), request));
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
        let open = OpenFrame {
            ticket,
            via,
            is_many,
            is_understood,
            watches: commands.iter().any(watches),
            replies: commands.iter().map(|command| (command.id.clone(), None)).collect(),
        };
        let base = FRAMED | ((self.frames.len() as Ticket) << FRAME_BITS);
        self.frames.push(open);
        for (at, command) in commands.into_iter().enumerate() {
            let request =
                if self.count(via) > host.commands_per_socket { Err(Refusal::TooMany) } else { command.request };
            self.call(base | at as Ticket, Some(via), caller, request, host);
        }
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

    /// Carries it out, and says what JavaScript is to say.
    ///
    /// # Errors
    /// As [`Service::turn`].
    pub fn carry_out<S: Storage>(
        self,
        service: &mut Service<S>,
        host: &mut Host<'_>,
        now: Ms,
    ) -> Result<String, Fault> {
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
        let mut text = head(&turn);
        for (ticket, reply) in &turn.answers {
            let framed = ticket.checked_sub(FRAMED).and_then(|rest| {
                let (frame, at) = (rest >> FRAME_BITS, rest & ((1 << FRAME_BITS) - 1));
                frames.get_mut(frame as usize)?.replies.get_mut(at as usize)
            });
            match framed {
                Some((id, answer)) => *answer = Some(wire::framed_reply(id.clone(), reply, space)),
                None => write_answer(&mut text, *ticket, reply, space),
            }
        }
        for ticket in done {
            write_answer(&mut text, ticket, &Reply::Released, space);
        }
        for (ticket, sockets) in metrics {
            let _ = write!(text, "\n{ticket}\t");
            Answer::text(&host.meter.text(census.unwrap_or_default(), sockets)).write(&mut text);
        }
        for (ticket, page) in pages {
            let _ = write!(text, "\n{ticket}\t200\treply\t\t{}", (host.trail)()?.page(&page)?);
        }
        for frame in frames {
            write_frame(&mut text, frame, service);
        }
        for (Connection(connection), push) in &turn.pushes {
            let _ = write!(text, "\n>\t{connection}\t");
            json::write(&wire::push(push, space), &mut text);
        }
        for line in lines {
            let _ = write!(text, "\n*\t{line}");
        }
        if host.has_events {
            write_events(&mut text, &turn);
        }
        Ok(text)
    }
}

/// What happened in a turn, and what its callers were told.
fn write_events(text: &mut String, turn: &Turn) {
    for Happened { lock, event, .. } in &turn.events {
        let (name, reason, fence, waited) = match *event {
            Event::Queued => ("queued", "", None, 0),
            Event::Acquired { fence } => ("granted", "", Some(fence), 0),
            Event::Granted { fence, waited, .. } => ("granted", "waited", Some(fence), waited),
            Event::Left { .. } => ("left", "", None, 0),
            Event::Lapsed { .. } => ("left", "lapsed", None, 0),
            Event::Released { fence } => ("released", "", Some(fence), 0),
            Event::Ended { fence, reason, .. } => ("lost", wire::lost_name(reason), Some(fence), 0),
        };
        write_event(text, [name, lock.as_str(), reason], fence, waited);
    }
    for (_, reply) in &turn.answers {
        if let Some(reason) = meter::refusal(reply) {
            write_event(text, ["refused", "", reason], None, 0);
        } else if let Reply::Renewed { lease } = reply {
            write_event(text, ["renewed", lease.lock.as_str(), ""], Some(lease.fence), 0);
        }
    }
}

fn write_event(text: &mut String, texts: [&str; 3], fence: Option<Fence>, waited: Ms) {
    text.push_str("\n+\t[");
    for part in texts {
        json::write_string(part, text);
        text.push(',');
    }
    let fence = fence.map_or(0, Fence::value);
    text.push_str(&[&fence.to_string(), ",", &waited.to_string(), "]"].concat());
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

fn head(turn: &Turn) -> String {
    let number = |value: Option<Ms>| value.map(|value| value.to_string()).unwrap_or_default();
    format!("{}\t{}\t{}", number(turn.wake_in), number(turn.ring_in), number(turn.due_in))
}

fn write_answer(text: &mut String, ticket: Ticket, reply: &Reply, space: &str) {
    let _ = write!(text, "\n{ticket}\t");
    Answer::new(reply, space).write(text);
}

/// As an answer: 400 where the message could not be understood at all, which a socket may do a few times only.
fn write_frame<S: Storage>(text: &mut String, frame: OpenFrame, service: &Service<S>) {
    let OpenFrame { ticket, via, replies, is_many, is_understood, watches } = frame;
    let status = if is_understood { 200 } else { 400 };
    let _ = write!(text, "\n{ticket}\t{status}\treply\t\t");
    let mut replies: Vec<Json> = replies.into_iter().filter_map(|(_, reply)| reply).collect();
    match (is_many, replies.pop()) {
        (false, Some(reply)) => json::write(&reply, text),
        (_, last) => {
            replies.extend(last);
            json::write(&Json::List(replies), text);
        }
    }
    if watches {
        let prefixes = service.watched_by(via).map(|prefix| Json::Text(prefix.into())).collect();
        let _ = write!(text, "\n=\t{}\t", via.0);
        json::write(&Json::List(prefixes), text);
    }
}

fn request(op: Op, lock: &str, fields: &str) -> Result<Request, Refusal> {
    let lock = json::read(lock, "lock")?;
    let fields = if fields.starts_with('~') {
        body(fields).map_err(|(_, refusal)| refusal)?
    } else {
        json::read(fields, "body")?
    };
    wire::request(op, &lock, fields)
}

/// JSON that came as text of its own. An error comes with the message's `id`, if that at least can be read.
fn body(content: &str) -> Result<Json, (Json, Refusal)> {
    let quoted = content.strip_prefix('~').unwrap_or(content);
    match json::read(quoted, "body").map_err(|refusal| (Json::Null, refusal))? {
        Json::Text(text) => json::read(&text, "body").map_err(|refusal| (json::salvaged_id(&text), refusal)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::List(_) | Json::Object(_) => {
            Err((Json::Null, wire::invalid("body", Expected("one JSON object"))))
        }
    }
}
