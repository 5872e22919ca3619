//! A history of a space, carried out by the engine and by a plain model of the rules: every answer, every push and every
//! row must be the same, and what the rules promise must hold after every turn.

use std::collections::{BTreeSet, HashMap};

use leasehold::command::{
    Acquire, Cancel, Command, Entrance, List, Lost, Push, Release, Renew, Reply, Request, Revoke, Terms,
};
use leasehold::engine::Event;
use leasehold::ledger::{InMemory, Ledger};
use leasehold::lock::{self, Claim};
use leasehold::service::{Call, Happened, Service, Ticket, Turn};
use leasehold::types::{
    ClientId, Connection, Fence, Limit, LockDelay, MaxHold, Mode, Ms, Name, PageSize, RequestId, Token, Ttl, Wait,
};

use super::model::{Entry, Model, State};
use super::rows::Rows;

/// One thing that happens; small numbers, so that a history that fails shrinks to a plain one.
#[derive(Debug, Clone)]
pub struct Act {
    /// In the turn of the act before.
    pub joins: bool,
    pub pause: u8,
    pub kind: u8,
    pub lock: u8,
    pub who: u8,
    /// Which of the things known so far, the latest first.
    pub pick: u8,
    pub ttl: u8,
    pub wait: u8,
    pub mode: u8,
    pub extra: u8,
    pub via: u8,
}

/// Whether a history is printed as it goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Story {
    Told,
    Untold,
}

#[derive(Debug, Default, Clone)]
pub struct Counts {
    pub acts: u64,
    pub turns: u64,
    pub granted: u64,
    pub woken: u64,
    pub pushed: u64,
    pub lost: u64,
    pub lapsed: u64,
    pub restarts: u64,
    /// Turns after which a lock had so many entries that it keeps an index of them.
    pub crowded: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.acts += other.acts;
        self.turns += other.turns;
        self.granted += other.granted;
        self.woken += other.woken;
        self.pushed += other.pushed;
        self.lost += other.lost;
        self.lapsed += other.lapsed;
        self.restarts += other.restarts;
        self.crowded += other.crowded;
    }
}

/// The engine over rows, the engine in memory until the first restart, and the model.
pub struct World {
    story: Story,
    locks: u8,
    /// Many come at once and have patience: queues are long.
    is_rush: bool,
    rows: Rows,
    stored: Service<Rows>,
    memory: Option<Service<InMemory>>,
    model: Model,
    host_now: Ms,
    /// Of the last turn.
    hints: (Option<Ms>, Option<Ms>),
    calls: Vec<Call>,
    closed: Vec<Connection>,
    next_ticket: Ticket,
    next_request: u64,
    asked: Vec<(Name, Acquire)>,
    /// Leases that somebody was told of: lock, token, the model's fence.
    known: Vec<(Name, Token, u64)>,
    /// The engine's fence by the model's.
    fences: HashMap<u64, u64>,
    /// Leases whose end was told of, by the engine's fences.
    ended: BTreeSet<u64>,
    counts: Counts,
}

const START_MS: Ms = 1_000_000;
const TTLS: [u64; 6] = [1_000, 50, 100, 5_000, 10_000, 60_000];
const WAITS: [u64; 7] = [10_000, 0, 0, 1, 500, 2_000, 60_000];
const PAUSES: [u64; 17] = [0, 0, 0, 1, 1, 49, 50, 51, 100, 499, 500, 1_000, 1_000, 2_500, 5_000, 5_001, 30_000];

impl World {
    /// With so many locks. In a rush many come at once and have patience: queues are long.
    pub fn new(locks: u8, is_rush: bool, story: Story) -> Self {
        let rows = Rows::default();
        Self {
            story,
            locks,
            is_rush,
            stored: start(rows.clone()),
            rows,
            memory: Some(start(InMemory)),
            model: Model::default(),
            host_now: START_MS,
            hints: (None, None),
            calls: Vec::new(),
            closed: Vec::new(),
            next_ticket: 1,
            next_request: 1,
            asked: Vec::new(),
            known: Vec::new(),
            fences: HashMap::new(),
            ended: BTreeSet::new(),
            counts: Counts::default(),
        }
    }

    /// Panics where engine and model differ, or a rule is broken.
    pub fn live(mut self, acts: &[Act]) -> Counts {
        acts.iter().for_each(|act| self.act(act));
        self.end();
        self.counts
    }

    fn act(&mut self, act: &Act) {
        self.counts.acts += 1;
        if !act.joins {
            self.turn();
            self.pause(act);
        }
        let lock = Name::new(&format!("lock {}", act.lock % self.locks)).unwrap();
        match act.kind {
            0..42 => self.acquire(lock, act),
            42..89 if self.is_rush && act.pick < 8 => self.acquire(lock, act),
            42..56 => self.on_a_lease(act, |token, fence| {
                let ttl = (act.extra < 5).then(|| Ttl::new(TTLS[usize::from(act.ttl)] as f64).unwrap());
                Command::Renew(Renew { token, fence, ttl })
            }),
            56..72 => self.on_a_lease(act, |token, fence| Command::Release(Release { token, fence })),
            72..80 => {
                if let Some((lock, acquire)) = nth_latest(&self.asked, act.pick).cloned() {
                    let Terms { token, request_id, .. } = acquire.terms;
                    self.call(act, lock, Command::Cancel(Cancel { token, request_id }));
                }
            }
            80..83 => self.call(act, lock, Command::Inspect),
            83..86 => {
                let cursor = (act.extra < 5).then_some(lock);
                let prefix = if act.via == 1 { "lock 1".into() } else { String::new() };
                let page_size = PageSize::new(f64::from(act.pick % 4 + 1)).unwrap();
                self.request(act, Request::List(List { prefix, cursor, page_size }));
            }
            86..89 => {
                let fence = nth_latest(&self.known, act.pick).map(|(_, _, fence)| to_fence(*fence));
                let fence = fence.filter(|_| act.extra < 8);
                self.call(act, lock, Command::Revoke(Revoke { fence, reason: None }));
            }
            89..92 => self.closed.push(Connection(u64::from(act.via % 3 + 1))),
            92..94 => self.restart(),
            94..100 => self.turn(),
            _ => unreachable!("kinds are below 100"),
        }
    }

    fn pause(&mut self, act: &Act) {
        let host_now = match usize::from(act.pause) {
            at if at < PAUSES.len() && self.is_rush => self.host_now + PAUSES[at].min(50),
            at if at < PAUSES.len() => self.host_now + PAUSES[at],
            // To the very instant that the last turn named, or just before it.
            17 | 18 => self.host_now + self.hints.0.or(self.hints.1).unwrap_or(0),
            19 => self.host_now + self.hints.1.unwrap_or(0),
            20 => self.host_now + self.hints.0.or(self.hints.1).unwrap_or(1).saturating_sub(1),
            _ => self.host_now.saturating_sub(7_000),
        };
        self.host_now = host_now.max(START_MS / 2);
    }

    fn acquire(&mut self, lock: Name, act: &Act) {
        let wait = if self.is_rush { Wait::MAX } else { Wait::new(WAITS[usize::from(act.wait)] as f64).unwrap() };
        if act.extra < 4
            && let Some((lock, acquire)) = nth_latest(&self.asked, act.pick).cloned()
        {
            self.call(act, lock, Command::Acquire(Acquire { wait, ..acquire }));
            return;
        }
        let limit = |limit: u8| Some(Limit::new(f64::from(limit)).unwrap());
        let mode = match act.mode {
            0..5 => Mode::Exclusive,
            5..8 => Mode::Shared(None),
            8..11 => Mode::Shared(limit(act.lock % self.locks + 1)),
            _ => Mode::Shared(limit(3)),
        };
        let is_steal = mode == Mode::Exclusive && act.extra == 15;
        let who = format!("client {}", act.who);
        let acquire = Acquire {
            terms: Terms {
                token: Token::new(&who).unwrap(),
                request_id: RequestId::new(&format!("request {}", self.next_request)).unwrap(),
                mode,
                ttl: Ttl::new(TTLS[usize::from(act.ttl)] as f64).unwrap(),
                max_hold: [Some(1), Some(700), Some(8_000)]
                    .get(usize::from(act.extra).wrapping_sub(5))
                    .and_then(|max_hold| max_hold.map(|max_hold| MaxHold::new(f64::from(max_hold)).unwrap())),
                lock_delay: LockDelay::new(if act.extra > 12 { 3_000.0 } else { 0.0 }).unwrap(),
                client_id: Some(ClientId::new(&who).unwrap()),
                info: None,
            },
            wait,
            entry: if is_steal { Entrance::Steal } else { Entrance::Queue },
        };
        self.next_request += 1;
        self.asked.push((lock.clone(), acquire.clone()));
        self.call(act, lock, Command::Acquire(acquire));
    }

    /// Mostly by its holder; sometimes by another, with another fence, or at another lock.
    fn on_a_lease(&mut self, act: &Act, command: impl FnOnce(Token, Fence) -> Command) {
        let Some((lock, token, fence)) = nth_latest(&self.known, act.pick).cloned() else { return };
        let stranger = Token::new(&format!("client {}", act.who)).unwrap();
        let elsewhere = Name::new(&format!("lock {}", act.lock % self.locks)).unwrap();
        let nobodys = 1 << 50;
        let (lock, command) = match act.mode {
            0 => (lock, command(stranger, to_fence(fence))),
            1 => (lock, command(token, to_fence(nobodys))),
            2 => (elsewhere, command(token, to_fence(fence))),
            _ => (lock, command(token, to_fence(fence))),
        };
        self.call(act, lock, command);
    }

    fn call(&mut self, act: &Act, lock: Name, command: Command) {
        self.request(act, Request::Lock { lock, command });
    }

    fn request(&mut self, act: &Act, request: Request) {
        let via = (act.via < 3).then_some(Connection(u64::from(act.via + 1)));
        self.calls.push(Call { ticket: self.next_ticket, via, request: Ok(request) });
        self.next_ticket += 1;
    }

    fn restart(&mut self) {
        self.turn();
        self.counts.restarts += 1;
        if self.story == Story::Told {
            println!("\nthe store starts again");
        }
        self.stored = start(self.rows.clone());
        self.memory = None;
        self.model.restart(self.rows.latest_at());
    }

    /// Has all that was asked since the last turn carried out, and compares.
    fn turn(&mut self) {
        self.counts.turns += 1;
        let (calls, closed) = (std::mem::take(&mut self.calls), std::mem::take(&mut self.closed));
        let expected = self.model.turn(&calls, &closed, self.host_now);
        let actual_calls: Vec<Call> = calls.iter().map(|call| self.with_actual_fence(call)).collect();
        let actual = self.stored.turn(actual_calls.clone(), &closed, self.host_now).expect("storage works");
        if let Some(memory) = &mut self.memory {
            let in_memory = memory.turn(actual_calls, &closed, self.host_now).expect("memory works");
            assert_eq!(in_memory, actual, "in memory as over rows");
        }
        if self.story == Story::Told {
            println!("\nat {} ms: {:?}, closed {closed:?}", self.host_now, calls);
            println!("  engine {actual:?}\n  model  {:?} {:?}", expected.answers, expected.pushes);
        }
        let Turn { mut answers, mut pushes, events, wake_in, ring_in, due_in, .. } = actual;
        for Happened { event, .. } in events {
            if let Event::Ended { fence, .. } | Event::Released { fence, .. } = event {
                assert!(self.ended.insert(fence.value()), "the end of a lease is told once: {event:?}");
            }
        }
        let due_in = ring_in.into_iter().chain(due_in).min();
        self.compare_answers(expected.answers, &mut answers);
        self.compare_pushes(expected.pushes, &mut pushes);
        self.check_hints(wake_in, due_in);
        self.check_rows();
        self.hints = (wake_in, due_in);
        let woken = |ticket: &Ticket| calls.iter().all(|call| call.ticket != *ticket);
        for (ticket, reply) in &answers {
            match reply {
                Reply::Granted { .. } if woken(ticket) => self.counts.woken += 1,
                Reply::Granted { .. } => self.counts.granted += 1,
                Reply::Lost { .. } => self.counts.lost += 1,
                Reply::Held { .. } if woken(ticket) => self.counts.lapsed += 1,
                _ => {}
            }
        }
        self.counts.pushed += pushes.len() as u64;
    }

    fn with_actual_fence(&self, call: &Call) -> Call {
        let actual = |fence: Fence| self.fences.get(&fence.value()).map_or(fence, |actual| to_fence(*actual));
        let mut call = call.clone();
        match &mut call.request {
            Ok(Request::Lock { command: Command::Renew(Renew { fence, .. }), .. })
            | Ok(Request::Lock { command: Command::Release(Release { fence, .. }), .. })
            | Ok(Request::Lock { command: Command::Revoke(Revoke { fence: Some(fence), .. }), .. }) => {
                *fence = actual(*fence)
            }
            _ => {}
        }
        call
    }

    fn compare_answers(&mut self, mut expected: Vec<(Ticket, Reply)>, actual: &mut Vec<(Ticket, Reply)>) {
        expected.sort_by_key(|(ticket, _)| *ticket);
        actual.sort_by_key(|(ticket, _)| *ticket);
        for ((_, expected), (_, actual)) in expected.iter().zip(actual.iter_mut()) {
            let fences: Vec<u64> = fences(&mut expected.clone()).into_iter().map(|fence| fence.value()).collect();
            self.bind(&fences, fences_mut(actual));
            if let Reply::Granted { lease, .. } | Reply::Renewed { lease } = actual {
                let known = (lease.lock.clone(), lease.token.clone(), lease.fence.value());
                if !self.known.contains(&known) {
                    self.known.push(known);
                }
            }
        }
        assert_eq!(*actual, expected, "answers (engine, model) at {} ms", self.model.now);
    }

    fn compare_pushes(&mut self, mut expected: Vec<(Connection, Push)>, actual: &mut Vec<(Connection, Push)>) {
        let key = |(connection, push): &(Connection, Push)| match push {
            Push::Granted { request_id, lease, .. } => {
                (*connection, 0, lease.lock.clone(), request_id.as_str().to_owned())
            }
            Push::Ended { lock, .. } => (*connection, 1, lock.clone(), String::new()),
            Push::Changed { now, .. } => (*connection, 2, now.lock.clone(), String::new()),
        };
        expected.sort_by_key(key);
        actual.sort_by_key(key);
        for ((_, expected), (_, actual)) in expected.iter().zip(actual.iter_mut()) {
            match (expected, actual) {
                (Push::Granted { lease: expected, .. }, Push::Granted { lease: actual, .. }) => {
                    self.bind(&[expected.fence.value()], vec![&mut actual.fence])
                }
                (Push::Ended { fence: expected, .. }, Push::Ended { fence: actual, .. }) => {
                    self.bind(&[expected.value()], vec![actual])
                }
                _ => {}
            }
        }
        assert_eq!(*actual, expected, "pushes (engine, model) at {} ms", self.model.now);
    }

    /// Rule 2: the engine's fences rise as the model's do, wherever the order of two grants is to be seen. Puts the
    /// model's in their stead.
    fn bind(&mut self, expected: &[u64], actual: Vec<&mut Fence>) {
        assert_eq!(expected.len(), actual.len(), "as many fences at {} ms", self.model.now);
        for (expected, actual) in expected.iter().zip(actual) {
            let value = actual.value();
            if !self.fences.contains_key(expected) {
                let (lock, turn) = &self.model.grants[*expected as usize - 1];
                for (other, other_value) in &self.fences {
                    let (other_lock, other_turn) = &self.model.grants[*other as usize - 1];
                    if other_lock == lock || other_turn != turn {
                        assert_eq!(expected.cmp(other), value.cmp(other_value), "fences rise");
                    }
                    assert_ne!(value, *other_value, "a fence is given once");
                }
                self.fences.insert(*expected, value);
            }
            assert_eq!(self.fences[expected], value, "the same grant has the same fence");
            *actual = to_fence(*expected);
        }
    }

    /// Nobody who waits is woken too late, and nothing is left without a date.
    fn check_hints(&self, wake_in: Option<Ms>, due_in: Option<Ms>) {
        let model = &self.model;
        // While the space's clock stands, the host's has some way to go to it.
        let now = self.host_now + model.ahead;
        let next = model.asks.iter().map(|ask| ask.deadline.min(model.moves_at(&ask.lock).unwrap_or(Ms::MAX))).min();
        match (wake_in, next) {
            (Some(wake_in), Some(next)) => assert!(now + wake_in <= next, "woken in {wake_in}, needed at {next}"),
            (None, None) => {}
            (wake_in, next) => panic!("wake_in is {wake_in:?} where something happens at {next:?}"),
        }
        let next = model.entries.iter().map(|entry| model.due_at(entry)).min();
        match (due_in, next) {
            (Some(due_in), Some(next)) => assert!(now + due_in <= next.max(now), "due in {due_in}, needed at {next}"),
            (None, None) => {}
            (due_in, next) => panic!("due_in is {due_in:?} where something happens at {next:?}"),
        }
    }

    /// Storage says what the model says, entry by entry, and what it says keeps the rules.
    fn check_rows(&mut self) {
        let now = self.model.now;
        let mut modelled: Vec<_> = self.model.entries.iter().collect();
        modelled.sort_by(|one, other| (&one.lock, one.arrival).cmp(&(&other.lock, other.arrival)));
        let rows = self.rows.entries();
        assert_eq!(rows.len(), modelled.len(), "rows at {now} ms: {rows:#?}\n{modelled:#?}");
        for ((lock, row), entry) in rows.iter().zip(&modelled) {
            assert_eq!((lock, &row.terms), (&entry.lock, &entry.terms));
            let state = match row.state {
                lock::State::Waiting { until } => State::Waiting { until },
                lock::State::Holding(holding) => State::Lease {
                    fence: holding.fence.value(),
                    granted_at: holding.granted_at,
                    expires_at: holding.expires_at,
                    claim: holding.claim,
                },
                lock::State::Ended { fence, reason, until, closed_until: _ } => {
                    State::Ended { fence: fence.value(), reason, until }
                }
            };
            let modelled = written_as(&row.state, entry, self.model.due_at(entry));
            assert_eq!(without_fence(state), without_fence(modelled), "{lock:?} {:?}", row.terms);
        }
        for name in self.model.locks() {
            let of_lock: Vec<_> = rows.iter().filter(|(lock, _)| *lock == name).map(|(_, row)| row).collect();
            // A lock that the store has not read again since it started is as it was.
            if !self.model.overslept.contains(&name) {
                check_rules(&of_lock, now);
            }
            self.counts.crowded += u64::from(of_lock.len() > 8);
        }
        assert!(self.rows.reserved() >= self.fences.values().max().copied().unwrap_or(0), "fences are reserved");
    }

    /// Nobody asks any more: everything ends, and no row is left.
    fn end(&mut self) {
        self.turn();
        for _ in 0..200 {
            let Some(next) = self.hints.0.or(self.hints.1) else { break };
            self.host_now += next;
            self.turn();
        }
        assert_eq!(self.rows.len(), 0, "a free lock has no row");
        assert!(self.model.asks.is_empty(), "every ask was answered");
    }
}

/// The rules as one reads them off the rows of one lock, after a turn.
fn check_rules(rows: &[&lock::Entry], now: Ms) {
    let mut live = Vec::new();
    let mut waiting = Vec::new();
    let mut closed = false;
    for row in rows {
        match row.state {
            lock::State::Holding(holding) => {
                let length = holding.expires_at - holding.granted_at;
                assert!(length > 0, "0 < expiresAt - grantedAt");
                assert!(row.terms.max_hold.is_none_or(|max_hold| length <= max_hold.value()), "rule 12");
                assert!(holding.expires_at <= now + 60_000, "no lease is longer than the longest ttl there is");
                if now < holding.expires_at {
                    live.push((row, holding));
                } else if holding.claim != Claim::Open {
                    closed |= now < holding.expires_at + row.terms.lock_delay.value();
                }
            }
            lock::State::Waiting { until } => {
                assert!(now < until && until <= now + 65_000, "rule 8: a place lives while it is asked for");
                waiting.push(*row);
            }
            lock::State::Ended { until, closed_until, .. } => {
                assert!(now < until, "what is over is forgotten in time");
                closed |= now < closed_until;
            }
        }
    }
    let exclusive = live.iter().filter(|(row, _)| row.terms.mode == Mode::Exclusive).count();
    assert!(exclusive == 0 || live.len() == 1, "rule 1: exclusion");
    for (row, _) in &live {
        if let Mode::Shared(Some(limit)) = row.terms.mode {
            assert!(live.len() as u64 <= limit.value(), "rule 1: the limit");
        }
    }
    // A lease granted from the queue was in front of all who still wait.
    for (row, holding) in &live {
        let overtook = waiting.iter().any(|waiter| waiter.place < row.place);
        assert!(holding.claim != Claim::Open || !overtook, "rule 7: first in, first out");
    }
    if let Some(head) = waiting.first() {
        let fits = match head.terms.mode {
            Mode::Exclusive => live.is_empty(),
            Mode::Shared(limit) => exclusive == 0 && limit.is_none_or(|limit| (live.len() as u64) < limit.value()),
        };
        assert!(!fits || closed, "rule 7: nobody waits for a lock that is free");
    }
}

/// A lease that expired may be stored as it was, or as over once its successor is, too.
fn written_as(row: &lock::State, entry: &Entry, until: Ms) -> State {
    match (row, entry.state) {
        (lock::State::Ended { reason: Lost::Expired, .. }, State::Lease { fence, .. }) => {
            State::Ended { fence, reason: Lost::Expired, until }
        }
        (_, state) => state,
    }
}

fn without_fence(state: State) -> State {
    match state {
        State::Waiting { .. } => state,
        State::Lease { granted_at, expires_at, claim, .. } => State::Lease { fence: 0, granted_at, expires_at, claim },
        State::Ended { reason, until, .. } => State::Ended { fence: 0, reason, until },
    }
}

fn fences(reply: &mut Reply) -> Vec<Fence> {
    fences_mut(reply).into_iter().map(|fence| *fence).collect()
}

/// Every fence that a reply shows.
fn fences_mut(reply: &mut Reply) -> Vec<&mut Fence> {
    match reply {
        Reply::Granted { lease, .. } | Reply::Renewed { lease } => vec![&mut lease.fence],
        Reply::Held { holders, .. } | Reply::Inspected { holders, .. } => {
            holders.iter_mut().map(|holder| &mut holder.fence).collect()
        }
        Reply::Listed { locks, .. } | Reply::Watching { locks, .. } => {
            locks.iter_mut().flat_map(|lock| lock.holders.iter_mut().map(|holder| &mut holder.fence)).collect()
        }
        Reply::Waiting { .. }
        | Reply::Lost { .. }
        | Reply::Released
        | Reply::Cancelled
        | Reply::Revoked { .. }
        | Reply::Unwatched
        | Reply::Refused(_) => vec![],
    }
}

fn nth_latest<T>(all: &[T], pick: u8) -> Option<&T> {
    all.iter().rev().nth(usize::from(pick) % all.len().max(1))
}

fn to_fence(value: u64) -> Fence {
    Fence::new(value as f64).unwrap()
}

fn start<S: leasehold::ledger::Storage>(storage: S) -> Service<S> {
    Service::new(Ledger::start(storage, 0).expect("the storage can be read"))
}
