//! The rules once more, as plainly as they can be said: lists that are searched from end to end, nothing indexed,
//! nothing kept up to date, expiry always a comparison. Slow, and the oracle for the engine.

use leasehold::command::{
    Acquire, Cancel, Command, Entrance, HOLDERS_SHOWN, Holder, INSPECTED, Lease, List, Lost, Push, Refusal, Release,
    Renew, Reply, Request, Revoke, Summary, Terms, Waiter,
};
use leasehold::lock::Claim;
use leasehold::service::{Call, Ticket};
use leasehold::types::{Connection, Fence, Mode, Ms, Name, RequestId, Token};

/// Rule 8 and the claim of rule 7, as the design gives them.
const GRACE_MS: Ms = 5_000;
const CLAIM_MS: Ms = 5_000;
/// Rule 4: a host's clock that is behind by more has been set back.
const STALE_MS: Ms = 5_000;
const QUEUE_MAX: usize = 10_000;

#[derive(Default)]
pub struct Model {
    /// In order of arrival.
    pub entries: Vec<Entry>,
    /// Released and cancelled: lock, token, request, fence. Forgotten at a restart.
    gone: Vec<(Name, Token, RequestId, Option<u64>)>,
    pub asks: Vec<Ask>,
    /// Locks that nobody has looked at since the restart: nothing happens to them by itself.
    asleep: Vec<Name>,
    /// Those that were so during the whole of the last turn.
    pub overslept: Vec<Name>,
    /// Every grant there was: of which lock, in which turn. Its fence is its number, counted from 1.
    pub grants: Vec<(Name, u64)>,
    pub now: Ms,
    pub ahead: Ms,
    turns: u64,
    arrivals: u64,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub arrival: u64,
    pub lock: Name,
    pub terms: Terms,
    pub asked_at: Ms,
    pub connection: Option<Connection>,
    /// The other socket over which its holder was heard of. Forgotten at a restart.
    pub former: Option<Connection>,
    pub state: State,
}

impl Entry {
    /// Rule 5: whoever has token and fence goes on with the lease, over whichever socket.
    fn hear_over(&mut self, via: Option<Connection>) {
        if via.is_some() && via != self.connection {
            self.former = self.connection;
            self.connection = via;
        }
    }

    fn heard(&self) -> Vec<Connection> {
        self.connection.into_iter().chain(self.former).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State {
    Waiting {
        until: Ms,
    },
    /// Live until `expires_at`, and remembered as expired after it.
    Lease {
        fence: u64,
        granted_at: Ms,
        expires_at: Ms,
        claim: Claim,
    },
    Ended {
        fence: u64,
        reason: Lost,
        until: Ms,
    },
}

pub struct Ask {
    pub ticket: Ticket,
    pub lock: Name,
    arrival: u64,
    pub deadline: Ms,
}

#[derive(Default)]
pub struct Turn {
    pub answers: Vec<(Ticket, Reply)>,
    pub pushes: Vec<(Connection, Push)>,
}

enum Event {
    Granted(u64),
    Left(u64),
    Lapsed(u64),
    Ended { lock: Name, fence: u64, reason: Lost, told: Vec<Connection> },
}

impl Model {
    /// What is in memory is lost; the clock goes on from `clock` at the earliest.
    pub fn restart(&mut self, clock: Ms) {
        self.gone.clear();
        self.asks.clear();
        self.entries.iter_mut().for_each(|entry| entry.former = None);
        self.asleep = self.entries.iter().map(|entry| entry.lock.clone()).collect();
        self.now = clock;
        self.ahead = 0;
    }

    pub fn turn(&mut self, calls: &[Call], closed: &[Connection], host_now: Ms) -> Turn {
        self.turns += 1;
        if host_now + self.ahead + STALE_MS < self.now {
            self.ahead = self.now - host_now;
        }
        self.now = self.now.max(host_now + self.ahead);
        let mut turn = Turn::default();
        for call in calls {
            self.call(call, &mut turn);
        }
        for connection in closed {
            self.asleep.clear();
            let waits =
                |entry: &&Entry| entry.connection == Some(*connection) && matches!(entry.state, State::Waiting { .. });
            let mut leaving: Vec<Entry> = self.entries.iter().filter(waits).cloned().collect();
            leaving.sort_by(|one, other| (&one.lock, one.arrival).cmp(&(&other.lock, other.arrival)));
            for Entry { lock, arrival, .. } in leaving {
                let mut events = self.settle(&lock);
                if self.find(arrival).is_some_and(|entry| matches!(entry.state, State::Waiting { .. })) {
                    self.entries.retain(|entry| entry.arrival != arrival);
                    events.push(Event::Left(arrival));
                }
                events.extend(self.settle(&lock));
                self.tell(&lock, events, &mut turn);
            }
        }
        for lock in self.locks() {
            if !self.asleep.contains(&lock) {
                let events = self.settle(&lock);
                self.tell(&lock, events, &mut turn);
            }
        }
        let now = self.now;
        let (late, asks) = std::mem::take(&mut self.asks).into_iter().partition(|ask| ask.deadline <= now);
        self.asks = asks;
        for Ask { ticket, arrival, .. } in late {
            turn.answers.push((ticket, self.standing(arrival)));
        }
        self.overslept = std::mem::take(&mut self.asleep);
        turn
    }

    fn call(&mut self, call: &Call, turn: &mut Turn) {
        let Call { ticket, via, request } = call;
        match request {
            Err(refusal) => turn.answers.push((*ticket, Reply::Refused(refusal.clone()))),
            Ok(Request::List(list)) => {
                let reply = self.list(list, turn);
                turn.answers.push((*ticket, reply));
            }
            Ok(Request::Lock { lock, command }) => {
                self.asleep.retain(|asleep| asleep != lock);
                let mut events = self.settle(lock);
                let reply = self.command(lock, command, *via, *ticket, turn, &mut events);
                events.extend(self.settle(lock));
                self.tell(lock, events, turn);
                turn.answers.extend(reply.map(|reply| (*ticket, reply)));
            }
            Ok(Request::Watch(_) | Request::Unwatch(_)) => unreachable!("the histories do not watch"),
        }
    }

    fn command(
        &mut self,
        lock: &Name,
        command: &Command,
        via: Option<Connection>,
        ticket: Ticket,
        turn: &mut Turn,
        events: &mut Vec<Event>,
    ) -> Option<Reply> {
        match command {
            Command::Acquire(acquire) => self.acquire(lock, acquire, via, ticket, turn, events),
            Command::Renew(Renew { token, fence, ttl }) => Some(match self.guard(lock, token, *fence) {
                Err(reason) => Reply::Lost { reason },
                Ok(mut entry) => {
                    let State::Lease { fence, granted_at, .. } = entry.state else { unreachable!() };
                    entry.hear_over(via);
                    entry.terms.ttl = ttl.unwrap_or(entry.terms.ttl);
                    let wanted = self.now + entry.terms.ttl.value();
                    let most = entry.terms.max_hold.map_or(Ms::MAX, |max_hold| granted_at + max_hold.value());
                    let expires_at = wanted.min(most);
                    entry.state = State::Lease { fence, granted_at, expires_at, claim: Claim::Made };
                    let lease = self.lease(&entry);
                    self.put(entry);
                    Reply::Renewed { lease }
                }
            }),
            Command::Release(Release { token, fence }) => Some(match self.guard(lock, token, *fence) {
                Err(reason) => Reply::Lost { reason },
                Ok(entry) => {
                    self.give_back(&entry, via, events);
                    Reply::Released
                }
            }),
            Command::Cancel(Cancel { token, request_id }) => {
                match self.by_request(lock, token, request_id).cloned() {
                    None => self.gone.push((lock.clone(), token.clone(), request_id.clone(), None)),
                    Some(entry) => match entry.state {
                        State::Waiting { .. } => {
                            self.forget(&entry);
                            events.push(Event::Left(entry.arrival));
                        }
                        State::Lease { expires_at, .. } if expires_at <= self.now => {}
                        State::Lease { claim: Claim::Made, .. } => return Some(self.standing(entry.arrival)),
                        State::Lease { .. } => self.give_back(&entry, via, events),
                        State::Ended { .. } => {}
                    },
                }
                Some(Reply::Cancelled)
            }
            Command::Inspect => {
                let waiter = |entry: &Entry| Waiter {
                    mode: entry.terms.mode,
                    client_id: entry.terms.client_id.clone(),
                    info: entry.terms.info.clone(),
                    waited: self.now - entry.asked_at,
                };
                let waiters = self.waiters(lock).iter().map(waiter).collect();
                Some(Reply::Inspected { lock: lock.clone(), holders: self.holders(lock, INSPECTED), waiters })
            }
            Command::Revoke(Revoke { fence, reason: _ }) => {
                let concerned = |entry: &Entry| fence.is_none_or(|fence| fence_of(entry) == Some(fence.value()));
                let ending: Vec<Entry> = self.live(lock).into_iter().filter(concerned).collect();
                let count = ending.len();
                ending.into_iter().for_each(|entry| self.end(entry, Lost::Revoked, events));
                Some(Reply::Revoked { count })
            }
        }
    }

    fn acquire(
        &mut self,
        lock: &Name,
        acquire: &Acquire,
        via: Option<Connection>,
        ticket: Ticket,
        turn: &mut Turn,
        events: &mut Vec<Event>,
    ) -> Option<Reply> {
        let Acquire { terms, wait, entry: entrance } = acquire;
        let until = self.now + wait.value() + GRACE_MS;
        let known = self.by_request(lock, &terms.token, &terms.request_id).cloned();
        let arrival = match known {
            Some(mut entry) => {
                let arrival = entry.arrival;
                match self.standing(arrival) {
                    Reply::Waiting { .. } => {
                        entry.connection = via;
                        entry.state = State::Waiting { until };
                    }
                    Reply::Granted { .. } => entry.hear_over(via),
                    _ => {}
                }
                self.put(entry.clone());
                if !matches!(entry.state, State::Waiting { .. }) {
                    return Some(self.standing(arrival));
                }
                arrival
            }
            None => {
                let is_gone = |(name, token, request_id, _): &(Name, Token, RequestId, Option<u64>)| {
                    name == lock && *token == terms.token && *request_id == terms.request_id
                };
                if self.gone.iter().any(is_gone) {
                    return Some(Reply::Lost { reason: Lost::Released });
                }
                if let Mode::Shared(limit) = terms.mode {
                    let contenders = self.live(lock).into_iter().chain(self.waiters(lock));
                    let other = |entry: Entry| matches!(entry.terms.mode, Mode::Shared(other) if other != limit);
                    if contenders.into_iter().any(other) {
                        return Some(Reply::Refused(Refusal::LimitMismatch));
                    }
                }
                self.arrivals += 1;
                let arrival = self.arrivals;
                let newcomer = Entry {
                    arrival,
                    lock: lock.clone(),
                    terms: terms.clone(),
                    asked_at: self.now,
                    connection: via,
                    former: None,
                    state: State::Waiting { until },
                };
                let at_once = match entrance {
                    Entrance::Steal => {
                        self.live(lock).into_iter().for_each(|entry| self.end(entry, Lost::Stolen, events));
                        true
                    }
                    Entrance::Queue => self.waiters(lock).is_empty() && self.admits(lock, terms.mode),
                };
                if at_once {
                    self.entries.push(newcomer);
                    self.grant(arrival, Claim::Answered);
                    return Some(self.standing(arrival));
                }
                if wait.value() == 0 {
                    return Some(self.held(lock));
                }
                if self.waiters(lock).len() >= QUEUE_MAX {
                    return Some(Reply::Refused(Refusal::QueueFull));
                }
                self.entries.push(newcomer);
                arrival
            }
        };
        // One place, one open ask: the earlier one hears how things stand, and that it is not to be back at once.
        if let Some(at) = self.asks.iter().position(|ask| ask.arrival == arrival) {
            let earlier = self.asks.remove(at);
            let reply = match self.standing(arrival) {
                Reply::Waiting { position, .. } => Reply::Waiting { position, retry_after: 1_000 },
                other => other,
            };
            turn.answers.push((earlier.ticket, reply));
        }
        match via {
            None => {
                let deadline = self.now + wait.value();
                self.asks.push(Ask { ticket, lock: lock.clone(), arrival, deadline });
                None
            }
            Some(_) => match self.standing(arrival) {
                Reply::Waiting { position, .. } => Some(Reply::Waiting { position, retry_after: wait.value() }),
                other => Some(other),
            },
        }
    }

    fn list(&mut self, list: &List, turn: &mut Turn) -> Reply {
        let after = |lock: &Name| list.cursor.as_ref().is_none_or(|cursor| lock > cursor);
        let mut page: Vec<Name> =
            self.locks().into_iter().filter(|lock| lock.as_str().starts_with(&list.prefix) && after(lock)).collect();
        page.truncate(list.page_size.value() as usize);
        let cursor = page.last().filter(|_| page.len() as u64 == list.page_size.value()).cloned();
        let mut locks = Vec::new();
        for lock in page {
            self.asleep.retain(|asleep| *asleep != lock);
            let events = self.settle(&lock);
            self.tell(&lock, events, turn);
            let summary =
                Summary { holders: self.holders(&lock, HOLDERS_SHOWN), queue: self.waiters(&lock).len(), lock };
            if summary.queue > 0 || !summary.holders.is_empty() {
                locks.push(summary);
            }
        }
        Reply::Listed { locks, cursor }
    }

    /// What time does: places lapse, memories fade, the queue moves up.
    fn settle(&mut self, lock: &Name) -> Vec<Event> {
        let mut events = Vec::new();
        for entry in self.of(lock) {
            if self.due_at(&entry) <= self.now {
                self.entries.retain(|other| other.arrival != entry.arrival);
                if let State::Waiting { .. } = entry.state {
                    events.push(Event::Lapsed(entry.arrival));
                }
            }
            // Of two who may believe in a lease, one may not know how short the other has made it.
            if let State::Lease { fence, .. } = entry.state
                && self.is_expired(&entry)
                && entry.former.is_some()
            {
                let (lock, reason, told) = (entry.lock.clone(), Lost::Expired, entry.heard());
                events.push(Event::Ended { lock, fence, reason, told });
                self.put(Entry { former: None, ..entry });
            }
        }
        while let Some(head) = self.waiters(lock).first()
            && self.admits(lock, head.terms.mode)
        {
            self.grant(head.arrival, Claim::Open);
            events.push(Event::Granted(head.arrival));
        }
        events
    }

    /// When the entry is gone, if nobody acts.
    pub fn due_at(&self, entry: &Entry) -> Ms {
        match entry.state {
            State::Waiting { until } | State::Ended { until, .. } => until,
            State::Lease { expires_at, .. } => (expires_at + entry.terms.ttl.value()).max(closed_until(entry)),
        }
    }

    /// Rules 1, 7 and 12: whether one more lease of this mode may live now.
    fn admits(&self, lock: &Name, mode: Mode) -> bool {
        let live = self.live(lock);
        let is_closed = self.of(lock).iter().any(|entry| self.is_expired(entry) && self.now < closed_until(entry));
        let has_room = match mode {
            Mode::Exclusive => live.is_empty(),
            Mode::Shared(limit) => {
                live.iter().all(|entry| entry.terms.mode != Mode::Exclusive)
                    && limit.is_none_or(|limit| (live.len() as u64) < limit.value())
            }
        };
        has_room && !is_closed
    }

    fn grant(&mut self, arrival: u64, claim: Claim) {
        let now = self.now;
        self.grants.push((self.find(arrival).expect("it is there").lock.clone(), self.turns));
        let fence = self.grants.len() as u64;
        let entry = self.entries.iter_mut().find(|entry| entry.arrival == arrival).expect("it is there");
        let ttl = entry.terms.ttl.value();
        let length = if claim == Claim::Open { ttl.min(CLAIM_MS) } else { ttl };
        let length = entry.terms.max_hold.map_or(length, |max_hold| length.min(max_hold.value()));
        entry.state = State::Lease { fence, granted_at: now, expires_at: now + length, claim };
    }

    fn end(&mut self, mut entry: Entry, reason: Lost, events: &mut Vec<Event>) {
        let fence = fence_of(&entry).expect("a lease has a fence");
        events.push(Event::Ended { lock: entry.lock.clone(), fence, reason, told: entry.heard() });
        entry.state = State::Ended { fence, reason, until: self.now + entry.terms.ttl.value() };
        self.put(entry);
    }

    /// Wherever else its holder was heard of, it is told.
    fn give_back(&mut self, entry: &Entry, via: Option<Connection>, events: &mut Vec<Event>) {
        let told = entry.heard().into_iter().filter(|heard| Some(*heard) != via).collect();
        let fence = fence_of(entry).expect("a lease has a fence");
        events.push(Event::Ended { lock: entry.lock.clone(), fence, reason: Lost::Released, told });
        self.forget(entry);
    }

    fn forget(&mut self, entry: &Entry) {
        self.entries.retain(|other| other.arrival != entry.arrival);
        let Terms { token, request_id, .. } = entry.terms.clone();
        self.gone.push((entry.lock.clone(), token, request_id, fence_of(entry)));
    }

    fn tell(&mut self, lock: &Name, events: Vec<Event>, turn: &mut Turn) {
        for event in events {
            match event {
                Event::Granted(arrival) | Event::Left(arrival) | Event::Lapsed(arrival) => {
                    if let Some(at) = self.asks.iter().position(|ask| ask.arrival == arrival) {
                        let Ask { ticket, .. } = self.asks.remove(at);
                        let has_lapsed = matches!(event, Event::Lapsed(_));
                        let reply = if has_lapsed { self.held(lock) } else { self.standing(arrival) };
                        turn.answers.push((ticket, reply));
                    } else if let Some(entry) = self.find(arrival)
                        && let Some(connection) = entry.connection
                        && let Reply::Granted { lease, waited } = self.standing(arrival)
                    {
                        let request_id = entry.terms.request_id.clone();
                        turn.pushes.push((connection, Push::Granted { request_id, lease, waited }));
                    }
                }
                Event::Ended { lock, fence, reason, told } => {
                    let push = Push::Ended { lock, fence: to_fence(fence), reason };
                    turn.pushes.extend(told.into_iter().map(|connection| (connection, push.clone())));
                }
            }
        }
    }

    /// Rule 5.
    fn guard(&self, lock: &Name, token: &Token, fence: Fence) -> Result<Entry, Lost> {
        let fence = fence.value();
        let theirs = |entry: &&Entry| entry.lock == *lock && entry.terms.token == *token;
        match self.entries.iter().filter(theirs).find(|entry| fence_of(entry) == Some(fence)) {
            Some(entry) if self.is_live(entry) => Ok(entry.clone()),
            Some(Entry { state: State::Ended { reason, .. }, .. }) => Err(*reason),
            Some(_) => Err(Lost::Expired),
            None => {
                let is_gone = |gone: &&(Name, Token, RequestId, Option<u64>)| {
                    gone.0 == *lock && gone.1 == *token && gone.3 == Some(fence)
                };
                Err(self.gone.iter().find(is_gone).map_or(Lost::Unknown, |_| Lost::Released))
            }
        }
    }

    /// What an ask at this place hears as things stand.
    fn standing(&self, arrival: u64) -> Reply {
        let Some(entry) = self.find(arrival) else { return Reply::Cancelled };
        match entry.state {
            State::Waiting { .. } => {
                let ahead = self.waiters(&entry.lock).iter().filter(|other| other.arrival < arrival).count();
                Reply::Waiting { position: ahead + 1, retry_after: 0 }
            }
            State::Lease { granted_at, .. } if self.is_live(entry) => {
                Reply::Granted { lease: self.lease(entry), waited: granted_at - entry.asked_at }
            }
            State::Lease { .. } => Reply::Lost { reason: Lost::Expired },
            State::Ended { reason, .. } => Reply::Lost { reason },
        }
    }

    fn held(&self, lock: &Name) -> Reply {
        let first_end = self.live(lock).iter().map(expires_at).min().unwrap_or(0);
        let opens = self.of(lock).iter().filter(|entry| self.is_expired(entry)).map(closed_until).max().unwrap_or(0);
        Reply::Held {
            holders: self.holders(lock, HOLDERS_SHOWN),
            queue: self.waiters(lock).len(),
            retry_after: first_end.max(opens).saturating_sub(self.now).clamp(1, 1_000),
        }
    }

    fn holders(&self, lock: &Name, count: usize) -> Vec<Holder> {
        let mut live = self.live(lock);
        live.sort_by_key(fence_of);
        let holder = |entry: &Entry| {
            let State::Lease { fence, granted_at, expires_at, .. } = entry.state else { unreachable!() };
            Holder {
                fence: to_fence(fence),
                mode: entry.terms.mode,
                client_id: entry.terms.client_id.clone(),
                info: entry.terms.info.clone(),
                held: self.now - granted_at,
                expires_in: expires_at - self.now,
            }
        };
        live.iter().take(count).map(holder).collect()
    }

    fn lease(&self, entry: &Entry) -> Lease {
        let State::Lease { fence, expires_at, .. } = entry.state else { unreachable!("a lease is asked for") };
        Lease {
            lock: entry.lock.clone(),
            token: entry.terms.token.clone(),
            fence: to_fence(fence),
            mode: entry.terms.mode,
            ttl: entry.terms.ttl,
            expires_in: expires_at - self.now,
            expires_at,
        }
    }

    pub fn is_live(&self, entry: &Entry) -> bool {
        matches!(entry.state, State::Lease { expires_at, .. } if self.now < expires_at)
    }

    fn is_expired(&self, entry: &Entry) -> bool {
        matches!(entry.state, State::Lease { .. }) && !self.is_live(entry)
    }

    pub fn live(&self, lock: &Name) -> Vec<Entry> {
        self.of(lock).into_iter().filter(|entry| self.is_live(entry)).collect()
    }

    pub fn waiters(&self, lock: &Name) -> Vec<Entry> {
        self.of(lock).into_iter().filter(|entry| matches!(entry.state, State::Waiting { .. })).collect()
    }

    fn of(&self, lock: &Name) -> Vec<Entry> {
        self.entries.iter().filter(|entry| entry.lock == *lock).cloned().collect()
    }

    /// In byte order, each once.
    pub fn locks(&self) -> Vec<Name> {
        let mut locks: Vec<Name> = self.entries.iter().map(|entry| entry.lock.clone()).collect();
        locks.sort();
        locks.dedup();
        locks
    }

    /// When the queue of this lock may move up by itself.
    pub fn moves_at(&self, lock: &Name) -> Option<Ms> {
        let of_lock = self.of(lock);
        let ends = of_lock.iter().filter_map(|entry| match entry.state {
            State::Waiting { until } => Some(until),
            State::Lease { expires_at, .. } => Some(expires_at).filter(|at| self.now < *at),
            State::Ended { .. } => None,
        });
        let opens = of_lock.iter().map(closed_until).max().filter(|at| self.now < *at);
        ends.chain(opens).min()
    }

    fn find(&self, arrival: u64) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.arrival == arrival)
    }

    fn by_request(&self, lock: &Name, token: &Token, request_id: &RequestId) -> Option<&Entry> {
        let is_asked = |entry: &&Entry| {
            entry.lock == *lock && entry.terms.token == *token && entry.terms.request_id == *request_id
        };
        self.entries.iter().find(is_asked)
    }

    fn put(&mut self, entry: Entry) {
        if let Some(old) = self.entries.iter_mut().find(|old| old.arrival == entry.arrival) {
            *old = entry;
        }
    }
}

fn fence_of(entry: &Entry) -> Option<u64> {
    match entry.state {
        State::Waiting { .. } => None,
        State::Lease { fence, .. } | State::Ended { fence, .. } => Some(fence),
    }
}

fn expires_at(entry: &Entry) -> Ms {
    if let State::Lease { expires_at, .. } = entry.state { expires_at } else { 0 }
}

/// Rule 12: a lease that was lived in and expired keeps its lock closed for a while.
fn closed_until(entry: &Entry) -> Ms {
    match entry.state {
        State::Lease { expires_at, claim: Claim::Answered | Claim::Made, .. } => {
            expires_at + entry.terms.lock_delay.value()
        }
        State::Lease { expires_at, claim: Claim::Open, .. } => expires_at,
        State::Waiting { .. } | State::Ended { .. } => 0,
    }
}

fn to_fence(fence: u64) -> Fence {
    Fence::new(fence as f64).expect("a fence counts from 1")
}
