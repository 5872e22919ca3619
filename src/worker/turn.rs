//! A turn as text: what JavaScript hands over of it, and what it is told.
//!
//! Each line in is `ticket TAB verb TAB subject TAB content`. For a command `subject` is the lock, as JSON, and `content`
//! its fields, as JSON, or `~` and a JSON string that holds the text of them as it came over HTTP. What is wrong with a
//! line is wrong with that call alone. For a socket `subject` is its connection:
//!
//! | verb | content |
//! | --- | --- |
//! | `frame` | `~` and a JSON string that holds a message of it |
//! | `close` | `null`: it has closed |
//! | `resume` | a JSON list of the prefixes that it watched before this core was started |
//!
//! The first line out is `wakeInMs TAB ringInMs TAB dueInMs`, each empty where there is none. After it, in this order:
//! `ticket TAB` and an [`Answer`] per call that is answered; `= TAB connection TAB` and the JSON list of what that socket
//! watches from now on; `> TAB connection TAB` and the JSON of a message to that socket.

use std::fmt::Write;

use crate::command::{Refusal, Reply, Request};
use crate::json::Json;
use crate::ledger::{Fault, Storage};
use crate::service::{Call, Service, Ticket, Turn};
use crate::types::{Connection, Expected, Ms};
use crate::wire::{self, Frame, Framed, Op};
use crate::worker::json;
use crate::worker::routes::Answer;

/// The text of one turn, understood.
#[derive(Default)]
pub struct Batch {
    calls: Vec<Call>,
    closed: Vec<Connection>,
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
    pub fn read(text: &str) -> Self {
        let mut batch = Self::default();
        for line in text.lines() {
            batch.line(line);
        }
        batch
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let mut parts = line.splitn(4, '\t');
        let (ticket, verb, subject, content) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let ticket = ticket.parse().ok()?;
        match verb {
            "frame" => self.frame(ticket, Connection(subject.parse().ok()?), content),
            "close" => {
                self.closed.push(Connection(subject.parse().ok()?));
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
            op => self.calls.push(Call { ticket, via: None, request: request(Op::from_name(op)?, subject, content) }),
        }
        Some(())
    }

    fn frame(&mut self, ticket: Ticket, via: Connection, content: &str) {
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
        let call = |(at, command): (usize, Framed)| Call {
            ticket: base | at as Ticket,
            via: Some(via),
            request: command.request,
        };
        self.calls.extend(commands.into_iter().enumerate().map(call));
    }

    /// Carries it out, and says what JavaScript is to say.
    ///
    /// # Errors
    /// As [`Service::turn`].
    pub fn carry_out<S: Storage>(self, service: &mut Service<S>, space: &str, now: Ms) -> Result<String, Fault> {
        let Batch { calls, closed, resumed, mut frames, done } = self;
        for (connection, prefix) in resumed {
            service.watch_again(connection, prefix);
        }
        let turn = service.turn(calls, &closed, now)?;
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
        for frame in frames {
            write_frame(&mut text, frame, service);
        }
        for (Connection(connection), push) in &turn.pushes {
            let _ = write!(text, "\n>\t{connection}\t");
            json::write(&wire::push(push, space), &mut text);
        }
        Ok(text)
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
