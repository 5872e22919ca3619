//! The engine over one lock's record: bytes and a command in, bytes and a reply out, nothing kept in between.
//!
//! For hosts that keep one record a lock and can store it with a transaction, with compare-and-swap, or as the single
//! writer. No line is held open here: an ask that waits is told so at once, and a later decision names it when it has
//! its lease. The host holds the line, if it likes.

use crate::command::{Command, Lost, Refusal, Reply, Request};
use crate::engine::{self, Event, Outcome};
use crate::json::Json;
use crate::ledger::{Notes, Open};
use crate::lock::{Entry, Lock, Place};
use crate::record::{self, Remembered, Unreadable, Whole};
use crate::types::{Expected, Fence, LockDelay, Ms, Name, RequestId, Token};
use crate::wire::{self, Op};

/// What the host keeps beside the locks' records, one of it for all locks of a space.
#[derive(Debug, Clone, Copy, Default)]
pub struct Space {
    /// The largest fence given so far.
    pub last_fence: u64,
    /// No fence below it is given.
    pub fence_floor: u64,
}

/// What the host can bear.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long what its owner ended is remembered. More than a week counts as a week.
    pub remember: Ms,
    /// The longest record that can be stored.
    pub record_bytes: usize,
}

/// The most asks and leases that a record remembers.
pub const REMEMBERED: usize = 256;

/// How much a place may grow when it becomes a lease: kept free in every record, so that time never finds one full.
const ROOM_PER_PLACE: usize = 40;

/// What is to be decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    Command(Command),
    /// How the ask with this token and requestId stands.
    Standing(Token, RequestId),
    /// What time alone does.
    Tick,
    /// What was asked could not be understood.
    Refuse(Refusal),
}

impl Order {
    /// Reads a verb of the wire that is about one lock; or `standing`, named as a cancel is, or `tick`, which are the
    /// host's own.
    ///
    /// # Errors
    /// As [`wire::request`], and where there is no such verb.
    pub fn read(op: &str, lock: &str, fields: Json) -> Result<Self, Refusal> {
        const NO_OP: Expected = Expected(
            "one of acquire, renew, release, cancel, revoke, inspect; or standing or tick, which are the host's",
        );
        let (op, is_standing) = match op {
            "tick" => return Ok(Self::Tick),
            "standing" => (Op::Cancel, true),
            _ => (Op::from_name(op).ok_or_else(|| wire::invalid("op", NO_OP))?, false),
        };
        match wire::request(op, &Json::Text(lock.into()), fields)? {
            Request::Lock { command: Command::Cancel(cancel), .. } if is_standing => {
                Ok(Self::Standing(cancel.token, cancel.request_id))
            }
            Request::Lock { command, .. } => Ok(Self::Command(command)),
            Request::List(_) | Request::Watch(_) | Request::Unwatch(_) => Err(wire::invalid("op", NO_OP)),
        }
    }
}

/// What was decided. It is so, and may be told, once the change and the last fence are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// `None` for a tick.
    pub reply: Option<Reply>,
    pub change: Change,
    pub last_fence: u64,
    /// Waiters whose asks are over: each is told this.
    pub waiters: Vec<Told>,
    /// Leases that ended otherwise than by their own release.
    pub endings: Vec<(Fence, Lost)>,
    pub times: Times,
}

/// When a tick has something to do, on the host's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Somebody waits: tick at this instant.
    pub wake_at: Option<Ms>,
    /// Nobody waits: a tick at this instant or later cleans up.
    pub clean_at: Option<Ms>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub token: Token,
    pub request_id: RequestId,
    pub reply: Reply,
}

/// What becomes of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Unchanged,
    Store(Vec<u8>),
    Delete,
}

/// Decides about one lock, whose record is `prior`; `host_now` is the host's clock.
///
/// Where that clock runs back, the lock's own stands still until it has caught up. It does not go on from where it was,
/// as a space's does: of several hosts that share a storage, each a little behind another, every one would push it.
///
/// # Errors
/// [`Unreadable`] where the record is. Nothing else fails.
pub fn decide(
    prior: Option<&[u8]>,
    name: &Name,
    order: &Order,
    host_now: Ms,
    space: Space,
    limits: Limits,
) -> Result<Decision, Unreadable> {
    let whole = prior.map(record::read_whole).transpose()?.unwrap_or_default();
    Ok(Desk::open(whole, name, host_now, space, limits).decide(prior.unwrap_or_default(), order, limits))
}

/// One decision's work.
struct Desk<'a> {
    name: &'a Name,
    lock: Lock,
    pad: Pad,
    now: Ms,
    /// The record's, from before.
    clock: Ms,
    fence: u64,
    /// Who waited before, by place.
    waiters: Vec<(Place, Token, RequestId)>,
}

impl<'a> Desk<'a> {
    fn open(whole: Whole, name: &'a Name, host_now: Ms, space: Space, limits: Limits) -> Self {
        let Whole { clock, fence, entries, mut remembered } = whole;
        let now = host_now.max(clock);
        let fences = entries.iter().filter_map(Entry::fence).map(Fence::value);
        let fence = fences.fold(space.last_fence.max(fence), u64::max);
        let mut lock = Lock::default();
        entries.into_iter().for_each(|entry| lock.put(entry));
        remembered.retain(|gone| gone.until > now);
        let until = now.saturating_add(limits.remember.min(LockDelay::MAX.value()));
        let pad = Pad { fence, fence_floor: space.fence_floor, remembered, now, until };
        let waiters = lock.waiters().map(asker).collect();
        Self { name, lock, pad, now, clock, fence, waiters }
    }

    fn decide(mut self, prior: &[u8], order: &Order, limits: Limits) -> Decision {
        let untouched = self.times();
        let mut events = Vec::new();
        let reply = self.carry_out(order, &mut events);
        let change = self.change(prior, limits.record_bytes);
        if let (Order::Command(Command::Acquire(_)), Change::Store(bytes)) = (order, &change)
            && bytes.len() > prior.len().max(self.room(limits))
        {
            return Decision {
                reply: Some(Reply::Refused(Refusal::QueueFull)),
                change: Change::Unchanged,
                last_fence: self.fence,
                waiters: Vec::new(),
                endings: Vec::new(),
                times: untouched,
            };
        }
        let waiters = events.iter().filter_map(|event| self.told(event)).collect();
        let endings = events.iter().filter_map(ended).collect();
        Decision { reply, change, last_fence: self.pad.fence, waiters, endings, times: self.times() }
    }

    fn carry_out(&mut self, order: &Order, events: &mut Vec<Event>) -> Option<Reply> {
        let open = Open { name: self.name, lock: &mut self.lock, notes: &mut self.pad };
        let Order::Command(command) = order else {
            engine::settle_in(open, self.now, events);
            return match order {
                Order::Command(_) | Order::Tick => None,
                Order::Standing(token, request_id) => Some(self.standing(token, request_id)),
                Order::Refuse(refusal) => Some(Reply::Refused(refusal.clone())),
            };
        };
        let reply = match engine::apply_to(open, command, None, self.now, events) {
            Outcome::Reply(reply) => reply,
            Outcome::Queued(place) => self.place(place),
        };
        Some(match (reply, command) {
            (Reply::Waiting { position, .. }, Command::Acquire(acquire)) => {
                Reply::Waiting { position, retry_after: acquire.wait.value() }
            }
            (reply, _) => reply,
        })
    }

    fn standing(&self, token: &Token, request_id: &RequestId) -> Reply {
        match self.lock.by_request(token, request_id) {
            Some(entry) => self.place(entry.place),
            None => {
                let reason = self.pad.gone_request(self.name, token, request_id);
                Reply::Lost { reason: reason.unwrap_or(Lost::Unknown) }
            }
        }
    }

    fn place(&self, place: Place) -> Reply {
        engine::standing(&self.lock, self.name, place, self.now).unwrap_or(Reply::Cancelled)
    }

    /// What an event tells a waiter who waited before this decision.
    fn told(&self, event: &Event) -> Option<Told> {
        let (place, reply) = match *event {
            Event::Granted { place, .. } | Event::Left { place } => (place, self.place(place)),
            Event::Lapsed { place } => (place, engine::held(&self.lock, self.now)),
            Event::Queued | Event::Acquired { .. } | Event::Released { .. } | Event::Ended { .. } => return None,
        };
        let at = self.waiters.binary_search_by_key(&place, |(place, ..)| *place).ok()?;
        let (_, token, request_id) = self.waiters.get(at)?;
        Some(Told { token: token.clone(), request_id: request_id.clone(), reply })
    }

    /// Compares what is to be stored with what is, so that a decision that changed nothing costs no write.
    fn change(&mut self, prior: &[u8], longest: usize) -> Change {
        if self.lock.is_free() && self.pad.remembered.is_empty() {
            return if prior.is_empty() { Change::Unchanged } else { Change::Delete };
        }
        let remembered = std::mem::take(&mut self.pad.remembered);
        let entries = self.lock.entries().cloned().collect();
        let mut whole = Whole { clock: self.clock, fence: self.pad.fence, entries, remembered };
        let change = if record::write_whole(&whole) == prior {
            Change::Unchanged
        } else {
            whole.clock = self.now;
            // To remember is a courtesy: it goes first where there is no room.
            let mut bytes = record::write_whole(&whole);
            while bytes.len() > longest && !whole.remembered.is_empty() {
                whole.remembered.drain(..whole.remembered.len().div_ceil(2));
                bytes = record::write_whole(&whole);
            }
            Change::Store(bytes)
        };
        self.pad.remembered = whole.remembered;
        change
    }

    /// The longest record that leaves every place the room it may need.
    fn room(&self, limits: Limits) -> usize {
        limits.record_bytes.saturating_sub(self.lock.waiting().saturating_mul(ROOM_PER_PLACE))
    }

    fn times(&self) -> Times {
        let due_at = self.lock.due_at(self.now);
        if self.lock.waiting() > 0 {
            Times { wake_at: due_at, clean_at: None }
        } else {
            let forgets = self.pad.remembered.iter().map(|gone| gone.until);
            Times { wake_at: None, clean_at: due_at.into_iter().chain(forgets).min() }
        }
    }
}

fn asker(entry: &Entry) -> (Place, Token, RequestId) {
    (entry.place, entry.terms.token.clone(), entry.terms.request_id.clone())
}

fn ended(event: &Event) -> Option<(Fence, Lost)> {
    match *event {
        Event::Ended { fence, reason, .. } => Some((fence, reason)),
        Event::Queued
        | Event::Acquired { .. }
        | Event::Granted { .. }
        | Event::Left { .. }
        | Event::Lapsed { .. }
        | Event::Released { .. } => None,
    }
}

/// What is noted for the record. The entries are written whole, with what follows from the clock.
struct Pad {
    fence: u64,
    fence_floor: u64,
    remembered: Vec<Remembered>,
    now: Ms,
    /// How long what ends now is remembered.
    until: Ms,
}

impl Notes for Pad {
    fn next_fence(&mut self) -> Option<Fence> {
        let fence = Fence::after(self.fence, self.fence_floor)?;
        self.fence = fence.value();
        Some(fence)
    }

    fn put(&mut self, _: &Name, _: Option<&Entry>, _: &Entry) {}

    fn removed(&mut self, _: &Name, _: &Entry) {}

    fn remember(&mut self, _: &Name, token: &Token, request_id: &RequestId, fence: Option<Fence>, reason: Lost) {
        let is_that = |gone: &Remembered| gone.is_of(token, request_id) && gone.fence == fence;
        if self.until > self.now && !self.remembered.iter().any(is_that) {
            let excess = (self.remembered.len() + 1).saturating_sub(REMEMBERED);
            self.remembered.drain(..excess);
            let (token, request_id) = (token.clone(), request_id.clone());
            self.remembered.push(Remembered { token, request_id, fence, reason, until: self.until });
        }
    }

    fn gone_request(&self, _: &Name, token: &Token, request_id: &RequestId) -> Option<Lost> {
        self.remembered.iter().rfind(|gone| gone.is_of(token, request_id)).map(|gone| gone.reason)
    }

    fn gone_lease(&self, _: &Name, token: &Token, fence: Fence) -> Option<Lost> {
        let is_that = |gone: &&Remembered| gone.fence == Some(fence) && gone.token == *token;
        self.remembered.iter().rfind(is_that).map(|gone| gone.reason)
    }
}
