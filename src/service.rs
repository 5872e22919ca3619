//! The engine with those who talk to it: which caller is answered what, which socket is told what, and when.
//!
//! Calls come in turns: what arrives together is carried out in order, made durable at once, and only then answered
//! (rule 9). An ask that waits keeps its ticket until its lease, its time-out or its end is known. A socket's ask does
//! not: it is answered at once that it waits, and told of its lease, so that the object may sleep in between.

use rustc_hash::FxHashMap;

use crate::agenda::Agenda;
use crate::command::{Change, Command, HOLDERS_SHOWN, List, Lost, Push, Refusal, Reply, Request, Summary, Watch};
use crate::engine::{self, Event, Heard, Outcome};
use crate::ledger::{Census, Fault, Flushed, Ledger, Storage};
use crate::lock::Place;
use crate::types::{Connection, Fence, Ms, Name, PageSize};

/// Stands for a caller who awaits an answer.
pub type Ticket = u64;

/// Other locks that a turn looks after beside those it was asked about.
const SWEPT: usize = 64;

/// Rows read from storage per turn while a space is starting.
const LOADED: usize = 512;

/// Prefixes that one socket may watch.
const WATCHED: usize = 16;

/// When an ask that was displaced by its own repetition may ask again, ms.
const DISPLACED_MS: Ms = 1_000;

/// How soon a space that is still starting wants its next turn, ms.
const LOADING_MS: Ms = 100;

pub struct Service<S> {
    ledger: Ledger<S>,
    asks: Asks,
    watchers: Watchers,
    /// Sockets that were cut off since the last turn.
    cut_off: Vec<Connection>,
}

/// Something asked, by whom and by what way.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub ticket: Ticket,
    /// The socket it came over, if it did.
    pub via: Option<Connection>,
    pub request: Result<Request, Refusal>,
}

/// What a turn came to, all of it durable.
#[derive(Debug, Default, PartialEq)]
pub struct Turn {
    pub answers: Vec<(Ticket, Reply)>,
    /// To be sent after the answers.
    pub pushes: Vec<(Connection, Push)>,
    /// What happened, in order, for whoever keeps count.
    pub events: Vec<Happened>,
    /// Rows that were written.
    pub written: usize,
    /// Somebody holds the line for something that may be due then: have a turn in this many ms.
    pub wake_in: Option<Ms>,
    /// Somebody waits, but is told over a socket, which bears the object's sleep: have a turn in this many ms.
    pub ring_in: Option<Ms>,
    /// Nobody waits, but something is to be cleaned up in this many ms or at any time after.
    pub due_in: Option<Ms>,
}

/// Something that happened to a lock in a turn, and the call that made it happen, if it was one.
#[derive(Debug, Clone, PartialEq)]
pub struct Happened {
    pub by: Option<Ticket>,
    pub lock: Name,
    pub event: Event,
}

impl<S: Storage> Service<S> {
    pub fn new(ledger: Ledger<S>) -> Self {
        Self { ledger, asks: Asks::default(), watchers: Watchers::default(), cut_off: Vec::new() }
    }

    /// Carries out the calls of one turn, in order, lets the waiters of sockets that closed leave, and does whatever is
    /// due by itself.
    ///
    /// # Errors
    /// [`Fault`] where the storage failed. Nothing of the turn may be told; memory is ahead of storage: drop this
    /// service, start anew, and answer every open ticket with `unavailable`.
    pub fn turn(&mut self, calls: Vec<Call>, closed: &[Connection], host_now: Ms) -> Result<Turn, Fault> {
        let now = self.ledger.now(host_now);
        let mut turn = Turn::default();
        let asked = !calls.is_empty();
        for call in calls {
            self.call(call, now, &mut turn)?;
        }
        for connection in closed {
            self.close(*connection, now, &mut turn)?;
        }
        for connection in std::mem::take(&mut self.cut_off) {
            self.watchers.remove_all(connection);
            for (lock, place) in self.ledger.waiters_of(connection, now)? {
                engine::keep_for_now(&mut self.ledger, &lock, place, now)?;
            }
        }
        for _ in 0..SWEPT {
            let Some(lock) = self.ledger.take_due(now) else { break };
            self.settle(&lock, now, &mut turn)?;
        }
        while let Some(ask) = self.asks.take_late(now) {
            let reply = self.standing(&ask.lock, ask.place, now)?;
            turn.answers.push((ask.ticket, reply));
        }
        self.flush(now, &mut turn)?;
        if turn.written == 0 && asked {
            self.ledger.probe()?;
        }
        self.look_ahead(now, &mut turn)?;
        Ok(turn)
    }

    /// Counts what the whole space holds, after whatever is due anywhere in it. Adds to a turn that was had.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub fn census(&mut self, host_now: Ms, turn: &mut Turn) -> Result<Census, Fault> {
        let now = self.ledger.now(host_now);
        self.ledger.load_all(now)?;
        while let Some(lock) = self.ledger.take_due(now) {
            self.settle(&lock, now, turn)?;
        }
        self.flush(now, turn)?;
        self.look_ahead(now, turn)?;
        Ok(self.ledger.census())
    }

    fn flush(&mut self, now: Ms, turn: &mut Turn) -> Result<(), Fault> {
        match self.ledger.flush(now)? {
            Flushed::Nothing => {}
            Flushed::Rows(rows) => turn.written += rows,
        }
        Ok(())
    }

    /// When to have the next turn.
    fn look_ahead(&mut self, now: Ms, turn: &mut Turn) -> Result<(), Fault> {
        let loading = self.ledger.load_more(LOADED, now)?;
        let length = |at: Ms| self.ledger.until(at);
        let contended_at = self.ledger.next_contended();
        turn.wake_in = self.asks.first_deadline().map(|at| length(at.min(contended_at.unwrap_or(at))));
        // Who watches is told of what ends by itself, too.
        let watched_at = self.ledger.next_quiet().filter(|_| !self.watchers.0.is_empty());
        turn.ring_in = contended_at.into_iter().chain(watched_at).min().map(length);
        turn.due_in = if loading { Some(LOADING_MS) } else { self.ledger.next_quiet().map(length) };
        Ok(())
    }

    /// The prefixes that a socket watches.
    pub fn watched_by(&self, connection: Connection) -> impl Iterator<Item = &str> {
        self.watchers.0.iter().filter(move |(other, _)| *other == connection).map(|(_, prefix)| prefix.as_str())
    }

    /// Goes on telling a socket of changes that it asked to be told of before this service was started.
    pub fn watch_again(&mut self, connection: Connection, prefix: String) {
        self.watchers.add(connection, prefix);
    }

    /// Notes that a socket is gone without having said so, as when the network broke. With the next turn its waiters
    /// keep their places for the grace and no longer, so that a client that is soon back has lost nothing.
    pub fn cut_off(&mut self, connection: Connection) {
        self.cut_off.push(connection);
    }

    fn call(&mut self, call: Call, now: Ms, turn: &mut Turn) -> Result<(), Fault> {
        let Call { ticket, via, request } = call;
        let reply = match (request, via) {
            (Err(refusal), _) => Reply::Refused(refusal),
            (Ok(Request::Lock { lock, command }), _) => return self.command(ticket, via, &lock, &command, now, turn),
            (Ok(Request::List(list)), _) => {
                let (locks, cursor) = self.list(&list, now, turn)?;
                Reply::Listed { locks, cursor }
            }
            (Ok(Request::Watch(_) | Request::Unwatch(_)), None) => Reply::Refused(Refusal::NeedsSocket),
            (Ok(Request::Watch(Watch { prefix })), Some(connection)) => {
                if self.watched_by(connection).count() >= WATCHED {
                    let expected = "one of at most 16 that a socket watches";
                    let refusal = Refusal::Invalid { field: "prefix".into(), expected };
                    turn.answers.push((ticket, Reply::Refused(refusal)));
                    return Ok(());
                }
                let list = List { prefix: prefix.clone(), cursor: None, page_size: PageSize::DEFAULT };
                let (locks, cursor) = self.list(&list, now, turn)?;
                self.watch_again(connection, prefix);
                Reply::Watching { locks, cursor }
            }
            (Ok(Request::Unwatch(Watch { prefix })), Some(connection)) => {
                self.watchers.remove(connection, &prefix);
                Reply::Unwatched
            }
        };
        turn.answers.push((ticket, reply));
        Ok(())
    }

    fn command(
        &mut self,
        ticket: Ticket,
        via: Option<Connection>,
        lock: &Name,
        command: &Command,
        now: Ms,
        turn: &mut Turn,
    ) -> Result<(), Fault> {
        let mut events = Vec::new();
        let outcome = engine::apply(&mut self.ledger, lock, command, via, now, &mut events)?;
        match (outcome, command) {
            (Outcome::Reply(reply), _) => {
                self.tell(lock, &events, Some(ticket), now, turn)?;
                turn.answers.push((ticket, reply));
                return Ok(());
            }
            (Outcome::Queued(place), Command::Acquire(acquire)) => {
                // The same ask once more, by another way: the earlier one hears how things stand. Not to ask again at
                // once: were they two who share a request by mistake, they would displace each other for ever.
                if let Some(earlier) = self.asks.take(lock, place) {
                    let reply = self.waiting(lock, place, DISPLACED_MS, now)?;
                    turn.answers.push((earlier.ticket, reply));
                }
                let wait = acquire.wait.value();
                match via {
                    None => {
                        self.asks.open(Ask { ticket, lock: lock.clone(), place, deadline: now.saturating_add(wait) })
                    }
                    Some(_) => {
                        let reply = self.waiting(lock, place, wait, now)?;
                        turn.answers.push((ticket, reply));
                    }
                }
            }
            (Outcome::Queued(_), _) => {}
        }
        self.tell(lock, &events, Some(ticket), now, turn)
    }

    /// The waiters of a socket leave with it. Its leases stay: it may come back.
    fn close(&mut self, connection: Connection, now: Ms, turn: &mut Turn) -> Result<(), Fault> {
        self.watchers.remove_all(connection);
        for (lock, place) in self.ledger.waiters_of(connection, now)? {
            let mut events = Vec::new();
            engine::leave(&mut self.ledger, &lock, place, now, &mut events)?;
            self.tell(&lock, &events, None, now, turn)?;
        }
        Ok(())
    }

    fn settle(&mut self, lock: &Name, now: Ms, turn: &mut Turn) -> Result<(), Fault> {
        let mut events = Vec::new();
        engine::settle(&mut self.ledger, lock, now, &mut events)?;
        self.tell(lock, &events, None, now, turn)
    }

    /// Answers and tells exactly those whom an event concerns.
    fn tell(
        &mut self,
        lock: &Name,
        events: &[Event],
        by: Option<Ticket>,
        now: Ms,
        turn: &mut Turn,
    ) -> Result<(), Fault> {
        for event in events {
            turn.events.push(Happened { by, lock: lock.clone(), event: event.clone() });
            match *event {
                Event::Granted { place, .. } | Event::Left { place } => self.tell_waiter(lock, place, now, turn)?,
                // The ask is still open where the store slept through its end: it may ask anew.
                Event::Lapsed { place } => {
                    if let Some(ask) = self.asks.take(lock, place) {
                        let reply = engine::held(self.ledger.open(lock)?.lock, now);
                        self.ledger.close(lock, now);
                        turn.answers.push((ask.ticket, reply));
                    }
                }
                // Of an expiry its holder knows by itself, and earlier; not where another has renewed the lease, and for less.
                Event::Ended { reason: Lost::Expired, heard: [_, None], .. } => {}
                Event::Queued | Event::Acquired { .. } => {}
                Event::Ended { fence, reason, heard } => tell_holder(lock, fence, reason, heard, turn),
                Event::Released { fence, others } => tell_holder(lock, fence, Lost::Released, others, turn),
            }
        }
        let watching = self.watchers.of(lock);
        if watching.is_empty() || events.is_empty() {
            return Ok(());
        }
        let summary = self.summary(lock, now)?;
        for event in events {
            let (change, fence) = change(event);
            for connection in &watching {
                turn.pushes.push((*connection, Push::Changed { change, fence, now: summary.clone() }));
            }
        }
        Ok(())
    }

    fn tell_waiter(&mut self, lock: &Name, place: Place, now: Ms, turn: &mut Turn) -> Result<(), Fault> {
        if let Some(ask) = self.asks.take(lock, place) {
            let reply = self.standing(lock, place, now)?;
            turn.answers.push((ask.ticket, reply));
            return Ok(());
        }
        let open = self.ledger.open(lock)?;
        let entry = open.lock.entry(place);
        let told = entry.and_then(|entry| Some((entry.connection?, entry.terms.request_id.clone())));
        let standing = engine::standing(open.lock, lock, place, now);
        self.ledger.close(lock, now);
        if let (Some((connection, request_id)), Some(Reply::Granted { lease, waited })) = (told, standing) {
            turn.pushes.push((connection, Push::Granted { request_id, lease, waited }));
        }
        Ok(())
    }

    /// How an ask stands that is to be repeated, if it still waits, after so long.
    fn waiting(&mut self, lock: &Name, place: Place, retry_after: Ms, now: Ms) -> Result<Reply, Fault> {
        Ok(match self.standing(lock, place, now)? {
            Reply::Waiting { position, .. } => Reply::Waiting { position, retry_after },
            other => other,
        })
    }

    fn standing(&mut self, lock: &Name, place: Place, now: Ms) -> Result<Reply, Fault> {
        let open = self.ledger.open(lock)?;
        let reply = engine::standing(open.lock, lock, place, now).unwrap_or(Reply::Cancelled);
        self.ledger.close(lock, now);
        Ok(reply)
    }

    fn summary(&mut self, lock: &Name, now: Ms) -> Result<Summary, Fault> {
        let open = self.ledger.open(lock)?;
        let holders = engine::holders(open.lock, now, HOLDERS_SHOWN);
        let summary = Summary { lock: lock.clone(), holders, queue: open.lock.waiting() };
        self.ledger.close(lock, now);
        Ok(summary)
    }

    fn list(&mut self, list: &List, now: Ms, turn: &mut Turn) -> Result<(Vec<Summary>, Option<Name>), Fault> {
        let count = list.page_size.value() as usize;
        let names = self.ledger.names(&list.prefix, list.cursor.as_ref(), count)?;
        let mut locks = Vec::with_capacity(names.len());
        for name in &names {
            self.settle(name, now, turn)?;
            let summary = self.summary(name, now)?;
            // What is only remembered is not there.
            if summary.queue > 0 || !summary.holders.is_empty() {
                locks.push(summary);
            }
        }
        let cursor = if names.len() == count { names.last().cloned() } else { None };
        Ok((locks, cursor))
    }
}

/// Wherever a lease may be believed in.
fn tell_holder(lock: &Name, fence: Fence, reason: Lost, heard: Heard, turn: &mut Turn) {
    for connection in heard.into_iter().flatten() {
        turn.pushes.push((connection, Push::Ended { lock: lock.clone(), fence, reason }));
    }
}

fn change(event: &Event) -> (Change, Option<Fence>) {
    match *event {
        Event::Queued => (Change::Queued, None),
        Event::Left { .. } | Event::Lapsed { .. } => (Change::Left, None),
        Event::Acquired { fence } | Event::Granted { fence, .. } => (Change::Acquired, Some(fence)),
        Event::Released { fence, .. } => (Change::Released, Some(fence)),
        Event::Ended { fence, reason, .. } => {
            let change = match reason {
                Lost::Expired => Change::Expired,
                Lost::Revoked => Change::Revoked,
                Lost::Stolen => Change::Stolen,
                Lost::Released | Lost::Unknown => Change::Released,
            };
            (change, Some(fence))
        }
    }
}

/// An acquire that waits in a queue and holds its caller's line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ask {
    ticket: Ticket,
    lock: Name,
    place: Place,
    deadline: Ms,
}

#[derive(Default)]
struct Asks {
    by_place: FxHashMap<(Name, Place), (Ticket, Ms)>,
    by_deadline: Agenda,
}

impl Asks {
    fn open(&mut self, ask: Ask) {
        self.by_deadline.add(ask.deadline, ask.place, Some(&ask.lock));
        self.by_place.insert((ask.lock, ask.place), (ask.ticket, ask.deadline));
    }

    fn take(&mut self, lock: &Name, place: Place) -> Option<Ask> {
        let ((lock, place), (ticket, deadline)) = self.by_place.remove_entry(&(lock.clone(), place))?;
        self.by_deadline.remove(deadline, place, Some(&lock));
        Some(Ask { ticket, lock, place, deadline })
    }

    fn take_late(&mut self, now: Ms) -> Option<Ask> {
        let (lock, place) = self.by_deadline.take_due(now)?;
        self.take(&lock, place)
    }

    fn first_deadline(&self) -> Option<Ms> {
        self.by_deadline.first().map(|(at, _)| at)
    }
}

/// The sockets that are told of changes, and of which locks, in the order of the sockets.
#[derive(Default)]
struct Watchers(Vec<(Connection, String)>);

impl Watchers {
    fn add(&mut self, connection: Connection, prefix: String) {
        self.remove(connection, &prefix);
        let at = self.0.partition_point(|(other, _)| *other <= connection);
        self.0.insert(at, (connection, prefix));
    }

    fn remove(&mut self, connection: Connection, prefix: &str) {
        self.0.retain(|(other, watched)| *other != connection || watched != prefix);
    }

    fn remove_all(&mut self, connection: Connection) {
        self.0.retain(|(other, _)| *other != connection);
    }

    /// Each socket once, by however many of its prefixes the lock matches.
    fn of(&self, lock: &Name) -> Vec<Connection> {
        let matching = self.0.iter().filter(|(_, prefix)| lock.as_str().starts_with(prefix.as_str()));
        let mut connections: Vec<_> = matching.map(|(connection, _)| *connection).collect();
        connections.dedup();
        connections
    }
}
