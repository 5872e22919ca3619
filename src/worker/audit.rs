//! Administrative acts: who ended whose lease. Each is a line in the log; those that came over HTTP or a socket are kept
//! with the space, the latest [`KEPT`] of them.

use crate::command::{Acquire, Command, Entrance, Lost, Refusal, Request};
use crate::engine::Event;
use crate::json::Json;
use crate::service::{Happened, Ticket};
use crate::types::{Expected, Ms, Name, PageSize};
use crate::wire;
use crate::worker::access::Caller;
use crate::worker::json::Members;

/// How many acts a space remembers.
pub const KEPT: u32 = 1_000;

/// Something asked that may end other people's leases.
pub struct Attempt {
    ticket: Ticket,
    /// Whether the account's own code asks: that is not kept.
    pub is_own: bool,
    key: Option<String>,
    via: &'static str,
    act: &'static str,
    lock: Name,
    reason: Option<String>,
}

impl Attempt {
    /// `None` where the request ends no lease but the caller's own.
    pub fn of(ticket: Ticket, caller: &Caller, over_socket: bool, request: &Request) -> Option<Self> {
        let Request::Lock { lock, command } = request else { return None };
        let (act, reason) = match command {
            Command::Revoke(revoke) => ("revoke", revoke.reason.as_ref().map(|reason| reason.as_str().to_owned())),
            Command::Acquire(Acquire { entry: Entrance::Steal, .. }) => ("steal", None),
            Command::Acquire(Acquire { entry: Entrance::Queue, .. })
            | Command::Renew(_)
            | Command::Release(_)
            | Command::Cancel(_)
            | Command::Inspect => return None,
        };
        let is_own = *caller == Caller::Own;
        let via = match (is_own, over_socket) {
            (true, _) => "binding",
            (false, true) => "socket",
            (false, false) => "http",
        };
        let key = caller.key().map(str::to_owned);
        Some(Self { ticket, is_own, key, via, act, lock: lock.clone(), reason })
    }

    /// The act as JSON, where it was one: a lease ended by it.
    pub fn record(&self, events: &[Happened], now: Ms) -> Option<String> {
        let own = events.iter().filter(|happened| happened.by == Some(self.ticket));
        let mut ended = Vec::new();
        let mut granted = None;
        for happened in own {
            match happened.event {
                Event::Ended { fence, reason: Lost::Revoked | Lost::Stolen, .. } => ended.push(fence),
                Event::Acquired { fence } => granted = Some(fence),
                Event::Ended { .. }
                | Event::Queued
                | Event::Granted { .. }
                | Event::Left { .. }
                | Event::Lapsed { .. }
                | Event::Released { .. } => {}
            }
        }
        let first = ended.first()?;
        let mut record = Members::new("act", self.act)
            .number("at", now)
            .text("lock", self.lock.as_str())
            .number("fence", first.value())
            .number("ended", ended.len() as u64)
            .maybe("key", self.key.as_deref())
            .text("via", self.via);
        if let Some(fence) = granted {
            record = record.number("newFence", fence.value());
        }
        if let Some(reason) = &self.reason {
            record = record.text("reason", reason);
        }
        Some(record.end())
    }
}

/// The line for the log about an act.
pub fn line(record: &str, space: &str) -> String {
    let start = Members::new("event", "act").text("space", space).end();
    [start.strip_suffix('}').unwrap_or_default(), ",", record.strip_prefix('{').unwrap_or_default()].concat()
}

/// A page of the trail, the latest act first.
pub struct Page {
    /// Only acts before this one.
    pub before: u64,
    pub size: u32,
}

const CURSOR: Expected = Expected("the cursor of the page before");

impl Page {
    /// # Errors
    /// [`Refusal::Invalid`] with the parameter that is wrong or not known.
    pub fn read(fields: &Json) -> Result<Self, Refusal> {
        let mut page = Self { before: u64::from(u32::MAX), size: PageSize::DEFAULT.value() as u32 };
        let Json::Object(members) = fields else { return Ok(page) };
        for (name, value) in members {
            match (&**name, value) {
                ("cursor", Json::Text(text)) => {
                    let number = text.parse::<u32>().ok().filter(|_| !text.starts_with('+'));
                    page.before = number.map(u64::from).ok_or_else(|| wire::invalid("cursor", CURSOR))?;
                }
                ("pageSize", Json::Number(number)) => {
                    let size = PageSize::new(*number).map_err(|expected| wire::invalid("pageSize", expected))?;
                    page.size = size.value() as u32;
                }
                ("pageSize", _) => {
                    let size = PageSize::new(f64::NAN).map_err(|expected| wire::invalid("pageSize", expected));
                    return size.map(|_| page);
                }
                _ => return Err(wire::invalid(name, Expected("left out: there is no such field"))),
            }
        }
        Ok(page)
    }
}
