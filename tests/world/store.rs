//! The store: the real service over rows, on a host that is evicted, replaced, crashes, and whose clock is moved.

use std::collections::BTreeMap;

use leasehold::command::{Acquire, Command, Entrance, Push, Release, Renew, Reply, Request, Revoke};
use leasehold::json::Json;
use leasehold::ledger::{Ledger, fence_floor};
use leasehold::lock::{Entry, State};
use leasehold::service::{Call, Service, Ticket, Turn};
use leasehold::session::{Failure, Heard};
use leasehold::types::{Connection, Fence, Ms, Name, RequestId, Token};
use leasehold::wire;

use super::clock::Clock;
use super::network::Told;
use super::rule::holds;
use super::setting::{Kind, Setting};
use super::witness::{Scene, Witness};
use super::{Happening, World, words};
use crate::support::dice::Dice;
use crate::support::rows::{Breakage, Code, Rows};

pub struct Store {
    pub rows: Rows,
    service: Service<Rows>,
    /// An instance that was replaced, and does not know it; and how long messages still reach it.
    replaced: Option<(Service<Rows>, Ms)>,
    /// The host's clock.
    pub clock: Clock,
    /// The space's clock, as rule 4 has it: when it was last looked at, and how far it is ahead of the host's.
    latest: Ms,
    ahead: Ms,
    witness: Witness,
    /// What the rows said after the last turn.
    seen: Vec<(Name, Entry)>,
    calls: Vec<Call>,
    has_turn: bool,
    closed: Vec<Connection>,
    tickets: BTreeMap<Ticket, (usize, u64, u32)>,
    next_ticket: Ticket,
    alarm_at: Option<Ms>,
    /// Fences whose leases were ended by force, or lost with the storage.
    forced: Vec<Fence>,
}

/// A host's clock that is behind by no more was not set back: the space's stands still until it has caught up.
const STALE_MS: Ms = 5_000;

const EPOCH: Ms = 1_000_000_000;

/// How fast or slow clocks run, in parts in a million: two of them are at most as far apart as a margin bears.
pub const PPM: [i64; 5] = [-490, -490, 0, 490, 490];

impl Store {
    pub fn new(setting: &Setting, dice: &mut Dice) -> Self {
        let rows = Rows::default();
        let ppm = dice.pick(&PPM);
        let clock = Clock::new(EPOCH, if setting.has(Kind::Drift) { ppm } else { 0 });
        Self {
            service: start(&rows, EPOCH),
            rows,
            replaced: None,
            clock,
            latest: 0,
            ahead: 0,
            witness: Witness::default(),
            seen: Vec::new(),
            calls: Vec::new(),
            has_turn: false,
            closed: Vec::new(),
            tickets: BTreeMap::new(),
            next_ticket: 1,
            alarm_at: None,
            forced: Vec::new(),
        }
    }

    /// The space's clock: the host's, unless that was set back.
    pub fn now(&self, world: Ms) -> Ms {
        (self.clock.at(world) + self.ahead).max(self.latest)
    }

    pub fn is_forced(&self, fence: Fence) -> bool {
        self.forced.contains(&fence)
    }

    /// The end of a lease that is stored as live.
    pub fn lease(&self, lock: &Name, fence: Fence) -> Option<Ms> {
        self.seen.iter().find_map(|(other, entry)| match entry.state {
            State::Holding(holding) if other == lock && holding.fence == fence => Some(holding.expires_at),
            _ => None,
        })
    }

    /// A turn in which nobody asks anything, and when the next is due.
    pub fn idle_turn(&mut self, world: Ms) -> Option<Ms> {
        let turn = self.service.turn(Vec::new(), &[], self.clock.at(world)).expect("the storage works");
        turn.ring_in.into_iter().chain(turn.due_in).min()
    }

    fn tick(&mut self, host_now: Ms) -> Ms {
        let now = host_now + self.ahead;
        let behind = self.latest.saturating_sub(now);
        if behind > STALE_MS {
            self.ahead += behind;
        }
        self.latest = self.latest.max(now);
        self.latest
    }

    fn force(&mut self, lock: &Name, but: Option<&RequestId>) {
        let of_lock = self.seen.iter().filter(|(other, entry)| other == lock && Some(&entry.terms.request_id) != but);
        self.forced.extend(of_lock.filter_map(|(_, entry)| entry.fence()));
    }
}

impl World {
    /// A message has come: it is carried out with whatever comes in the same instants.
    pub(super) fn ask_store(&mut self, from: usize, life: u64, number: u32, command: Command) {
        let lock = self.clients[from].lock.clone();
        let via = self.clients[from].connection();
        let ticket = self.store.next_ticket;
        self.store.next_ticket += 1;
        self.store.tickets.insert(ticket, (from, life, number));
        // Over the wire's own form, both ways.
        let (op, fields) = wire::fields(&command);
        let request = wire::request(op, &Json::Text(lock.as_str().into()), fields).expect("what is asked can be asked");
        let call = Call { ticket, via, request: Ok(request) };
        if let Some((mut service, until)) = self.store.replaced.take()
            && self.now < until
        {
            if self.dice.once_in(2) {
                self.tell(|| format!("the store that was replaced is asked: {}", words::command(&command)));
                let said = service.turn(vec![call], &[], self.store.clock.at(self.now));
                holds!(StoreThenSpeak, said.is_err(), "a store that was replaced answers {said:?}");
                self.store.tickets.remove(&ticket);
                return self.answer(from, life, number, Err(Failure::Unknown));
            }
            self.store.replaced = Some((service, until));
        }
        match command {
            // What ends leases of others is looked at by itself.
            Command::Acquire(Acquire { entry: Entrance::Steal, .. }) | Command::Revoke(_) => {
                self.carry_out();
                let own = if let Command::Acquire(acquire) = &command { Some(&acquire.terms.request_id) } else { None };
                self.store.force(&lock, own);
                self.turn(vec![call]);
            }
            _ => {
                self.store.calls.push(call);
                if !std::mem::replace(&mut self.store.has_turn, true) {
                    let at = self.now + self.dice.pick(&[0, 0, 0, 4]);
                    self.plan(at, Happening::Turn);
                }
            }
        }
    }

    /// The turn of what has come.
    pub(super) fn carry_out(&mut self) {
        self.store.has_turn = false;
        let calls = std::mem::take(&mut self.store.calls);
        if !calls.is_empty() {
            self.turn(calls);
        }
    }

    pub(super) fn ring(&mut self) {
        if self.store.alarm_at == Some(self.now) {
            self.store.alarm_at = None;
            self.turn(Vec::new());
        }
    }

    /// Sockets have closed.
    pub(super) fn close(&mut self, connection: Connection) {
        self.store.closed.push(connection);
        self.turn(Vec::new());
    }

    /// A socket is gone without a word.
    pub(super) fn lose_socket(&mut self, connection: Connection) {
        self.store.service.cut_off(connection);
        self.turn(Vec::new());
    }

    pub(super) fn turn(&mut self, calls: Vec<Call>) {
        let breakage = if self.dice.once_in(2) { Breakage::NothingWritten } else { Breakage::Written };
        let breaks = self.strikes(Kind::FailedFlush, 12);
        if breaks {
            self.store.rows.fail_with(breakage);
        }
        let host_now = self.store.clock.at(self.now);
        let now = self.store.tick(host_now);
        let failures = self.store.rows.failures();
        let closed = std::mem::take(&mut self.store.closed);
        let turn = self.store.service.turn(calls.clone(), &closed, host_now);
        self.store.rows.mend();
        let has_failed = self.store.rows.failures() > failures;
        holds!(StoreThenSpeak, turn.is_err() == has_failed, "the storage failed, and {turn:?} was said");
        if has_failed {
            self.tell(|| format!("the storage fails: {breakage:?}"));
        }
        let turn = turn.ok();
        if let Some(turn) = turn.as_ref().filter(|turn| !turn.answers.is_empty() || !turn.pushes.is_empty()) {
            self.tell(|| format!("the store {}", said(turn)));
        }
        if has_failed && breakage == Breakage::NothingWritten {
            return self.restart("cannot write");
        }
        let after = self.store.rows.entries();
        let before = std::mem::replace(&mut self.store.seen, after);
        let scene = Scene {
            now,
            calls: &calls,
            closed: &closed,
            before: &before,
            after: &self.store.seen,
            turn: turn.as_ref(),
        };
        self.store.witness.turn(&scene);
        match turn {
            None => self.restart("does not know that it has written"),
            Some(_) if self.strikes(Kind::Crash, 30) => self.restart("crashes before it replies"),
            Some(turn) => self.speak(turn),
        }
    }

    fn speak(&mut self, turn: Turn) {
        for (ticket, reply) in &turn.answers {
            let (_, said) = wire::reply(reply, "a space");
            let heard = wire::heard(&said).ok_or(Failure::Final);
            if let Some((to, life, number)) = self.store.tickets.remove(ticket) {
                self.answer(to, life, number, heard);
            }
        }
        for (connection, push) in &turn.pushes {
            let to = self.clients.iter().position(|client| client.connection() == Some(*connection));
            if let (Some(to), Some(told)) = (to, told(push)) {
                self.push(to, told);
            }
        }
        self.set_alarm(&turn);
    }

    fn set_alarm(&mut self, turn: &Turn) {
        let Some(due_in) = turn.wake_in.into_iter().chain(turn.ring_in).chain(turn.due_in).min() else { return };
        if self.setting.has(Kind::NoAlarm) {
            self.counts.count(super::name_of(Kind::NoAlarm));
            return;
        }
        let late = if self.strikes(Kind::LateAlarm, 8) { self.dice.below(3_000) } else { 0 };
        let at = self.now + due_in.max(1) + late;
        if self.store.alarm_at.is_none_or(|planned| at < planned) {
            self.store.alarm_at = Some(at);
            self.plan(at, Happening::Alarm);
        }
    }

    /// The store starts again over its rows. Who awaits an answer gets none.
    pub(super) fn restart(&mut self, why: &'static str) {
        self.tell(|| format!("the store {why}, and starts again"));
        let code = if self.strikes(Kind::OldCode, 2) { Code::Version1 } else { Code::Ours };
        let store = &mut self.store;
        store.rows = store.rows.taken_over(code);
        store.service = start(&store.rows, store.clock.at(self.now));
        (store.latest, store.ahead) = (store.rows.latest_at(), 0);
        store.witness.restart();
        // The first turn after a start looks at everything once.
        store.alarm_at = None;
        let calls = std::mem::take(&mut store.calls);
        let waiting: Vec<_> = calls.iter().map(|call| call.ticket).collect();
        for (ticket, (to, life, number)) in std::mem::take(&mut self.store.tickets) {
            // What has not been carried out yet may reach the new store.
            if waiting.contains(&ticket) && self.dice.once_in(2) {
                self.store.tickets.insert(ticket, (to, life, number));
            } else {
                self.perhaps_break(to, life, number);
            }
        }
        let store = &mut self.store;
        store.calls = calls.into_iter().filter(|call| store.tickets.contains_key(&call.ticket)).collect();
        if !self.setting.has(Kind::NoAlarm) {
            let at = self.now + 1;
            self.store.alarm_at = Some(at);
            self.plan(at, Happening::Alarm);
        }
    }

    /// The store is started elsewhere, and the one that was does not know it.
    pub(super) fn replace(&mut self) {
        let rows = self.store.rows.clone();
        let service = std::mem::replace(&mut self.store.service, start(&rows, 0));
        self.restart("is replaced");
        self.store.replaced = Some((service, self.now + 4_000));
    }

    /// Everything stored is lost; nobody who holds can know.
    pub(super) fn wipe(&mut self) {
        let stored = self.store.seen.iter().filter_map(|(_, entry)| entry.fence());
        self.store.forced.extend(stored);
        self.clients.iter_mut().for_each(|client| client.is_deceived = true);
        self.store.rows.wipe();
        self.store.seen.clear();
        self.store.witness.wipe();
        self.restart("loses its storage");
    }

    pub(super) fn set_clock(&mut self, by: i64) {
        self.tell(|| format!("the store's clock is set by {by} ms"));
        self.store.clock.shift(by);
        if by > 0 {
            // A lease ends before its holder can know; the fence tells it from the next.
            self.clients.iter_mut().for_each(|client| client.is_deceived = true);
        }
        self.turn(Vec::new());
    }

    /// Somebody asks for what is not theirs.
    pub(super) fn meddle(&mut self) {
        self.carry_out();
        let held = self.store.seen.iter().filter(|(_, entry)| entry.fence().is_some());
        let held: Vec<_> = held.map(|(lock, entry)| (lock.clone(), entry.clone())).collect();
        if held.is_empty() {
            return;
        }
        let (lock, entry) = &held[self.dice.below(held.len() as u64) as usize];
        let fence = entry.fence().map_or(1, Fence::value);
        let (mut lock, mut token, mut fence) = (lock.clone(), entry.terms.token.clone(), fence);
        // A late copy of an ask that is over may have another lease for whoever has the token.
        let is_anothers = |fence: u64| {
            held.iter().all(|(_, entry)| entry.terms.token != token || entry.fence().map(Fence::value) != Some(fence))
        };
        match self.dice.below(4) {
            0 => token = Token::new("nobody's").expect("a token"),
            1 => fence = 1 << 52,
            2 if fence > 1 && is_anothers(fence - 1) => fence -= 1,
            _ => lock = Name::new("another lock").expect("a name"),
        }
        let fence = Fence::new(fence as f64).expect("a fence");
        let command = match self.dice.below(3) {
            0 => Command::Release(Release { token, fence }),
            _ => Command::Renew(Renew { token, fence, ttl: None }),
        };
        self.tell(|| format!("somebody meddles with {lock:?}: {}", words::command(&command)));
        let ticket = self.store.next_ticket;
        self.store.next_ticket += 1;
        self.turn(vec![Call { ticket, via: None, request: Ok(Request::Lock { lock, command }) }]);
    }

    /// An admin ends the leases of a lock, or one of them.
    pub(super) fn revoke(&mut self, lock: &Name) {
        self.carry_out();
        let of_lock = self.store.seen.iter().filter(|(other, _)| other == lock);
        let last = of_lock.filter_map(|(_, entry)| entry.fence()).max();
        let fence = last.filter(|_| self.dice.once_in(2));
        match fence {
            Some(fence) => self.store.forced.push(fence),
            None => self.store.force(lock, None),
        }
        let command = Command::Revoke(Revoke { fence, reason: None });
        self.tell(|| format!("an admin revokes at {lock:?}: {fence:?}"));
        let ticket = self.store.next_ticket;
        self.store.next_ticket += 1;
        let request = Ok(Request::Lock { lock: lock.clone(), command });
        self.turn(vec![Call { ticket, via: None, request }]);
    }
}

/// What a turn says, in a line.
fn said(turn: &Turn) -> String {
    let heard =
        |reply| wire::heard(&wire::reply(reply, "a space").1).map_or("refused".into(), |heard| words::heard(Ok(heard)));
    let answers = turn.answers.iter().map(|(ticket, reply)| format!("answers {} to call {ticket}", heard(reply)));
    let pushes = turn.pushes.iter().map(|(connection, _)| format!("pushes to socket {}", connection.0));
    answers.chain(pushes).collect::<Vec<_>>().join(", ")
}

/// What a push means to a session.
fn told(push: &Push) -> Option<Told> {
    match push {
        Push::Granted { request_id, lease, waited } => {
            let reply = Reply::Granted { lease: lease.clone(), waited: *waited };
            let heard = wire::heard(&wire::reply(&reply, "a space").1)?;
            Some(Told { request_id: Some(request_id.clone()), fence: None, heard })
        }
        Push::Ended { fence, reason, .. } => {
            Some(Told { request_id: None, fence: Some(*fence), heard: Heard::Lost(*reason) })
        }
        Push::Changed { .. } => None,
    }
}

fn start(rows: &Rows, host_now: Ms) -> Service<Rows> {
    let ledger = Ledger::start(rows.clone(), fence_floor(host_now)).expect("the storage can be read");
    Service::new(ledger)
}
