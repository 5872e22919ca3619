//! What one can see of a store from outside, its rows and what it says, held against the rules after every turn.
//!
//! It has no model of the store: each check compares what was there before a turn, what was asked, and what is there and
//! was said after it. Rule numbers are those of ARCHITECTURE.md.

use std::collections::HashMap;

use leasehold::command::{
    Acquire, Cancel, Command, Entrance, Lease, Lost, Push, Release, Renew, Reply, Request, Revoke,
};
use leasehold::lock::{Claim, Entry, Holding, State};
use leasehold::service::{Call, Ticket, Turn};
use leasehold::types::{Connection, Fence, MaxHold, Mode, Ms, Name, RequestId, Token};

use super::rule::{Rule, broken, holds};

/// Rule 8, as the design gives it.
const GRACE_MS: Ms = 5_000;
const CLAIM_MS: Ms = 5_000;

/// Who asks, in one acquire call and all its repetitions.
type Asker = (Name, Token, RequestId);

#[derive(Default)]
pub struct Witness {
    /// Every lease there was, by its fence.
    leases: HashMap<u64, Seen>,
    /// No fence that was seen is larger.
    highest: u64,
    asks: HashMap<Asker, Ask>,
    /// Asks that wait with an open line, and until when they may.
    open: HashMap<Ticket, (Asker, Ms)>,
    arrivals: u64,
    restarts: u64,
}

struct Seen {
    asker: Asker,
    over: Option<Over>,
}

/// A lease that was ended, not one that expired.
#[derive(Clone, Copy)]
struct Over {
    reason: Lost,
    restarts: u64,
}

#[derive(Default)]
struct Ask {
    /// Its number among those that joined a queue or were granted.
    arrival: u64,
    /// Its place lives so long at most.
    until: Ms,
    fence: Option<u64>,
    /// It was cancelled, and by which start of the store.
    cancelled: Option<u64>,
}

/// One turn of the store.
pub struct Scene<'a> {
    /// On the space's clock.
    pub now: Ms,
    pub calls: &'a [Call],
    pub closed: &'a [Connection],
    pub before: &'a [(Name, Entry)],
    pub after: &'a [(Name, Entry)],
    /// What was said; `None` where the storage failed, or seemed to.
    pub turn: Option<&'a Turn>,
}

impl Witness {
    pub fn restart(&mut self) {
        self.restarts += 1;
        self.open.clear();
    }

    /// The storage was lost: whatever there was is over.
    pub fn wipe(&mut self) {
        let over = Over { reason: Lost::Unknown, restarts: self.restarts };
        self.leases.values_mut().for_each(|seen| seen.over = seen.over.or(Some(over)));
        self.asks.clear();
    }

    pub fn turn(&mut self, scene: &Scene<'_>) {
        self.note_asks(scene);
        exclusion(scene);
        self.fences(scene);
        one_each(scene);
        if let Some(turn) = scene.turn {
            self.replies(scene, turn);
        }
        self.ends(scene);
        self.lengths(scene);
        self.places(scene);
        self.queue(scene);
        if let Some(turn) = scene.turn {
            self.told(scene, turn);
            self.open.retain(|ticket, _| turn.answers.iter().all(|(answered, _)| answered != ticket));
            for (call, asker, acquire) in scene.acquires() {
                if call.via.is_none() && turn.answers.iter().all(|(answered, _)| *answered != call.ticket) {
                    self.open.insert(call.ticket, (asker, scene.now + acquire.wait.value()));
                }
            }
        }
        self.learn(scene);
    }

    fn note_asks(&mut self, scene: &Scene<'_>) {
        for (_, asker, acquire) in scene.acquires() {
            self.asks.entry(asker).or_default().until = scene.now + acquire.wait.value() + GRACE_MS;
        }
    }

    /// Rule 2: a fence that was not seen before is above all that were.
    fn fences(&self, scene: &Scene<'_>) {
        let mut new: HashMap<u64, Asker> = HashMap::new();
        for (lock, entry) in scene.after {
            let Some(fence) = entry.fence().map(Fence::value) else { continue };
            let asker = asker_of(lock, entry);
            match self.leases.get(&fence) {
                Some(seen) => holds!(Fence, seen.asker == asker, "fence {fence} was given before, to another"),
                None => {
                    holds!(Fence, fence > self.highest, "fence {fence} was given after {}", self.highest);
                    let other = new.insert(fence, asker);
                    holds!(Fence, other.is_none(), "fence {fence} was given twice in one turn");
                }
            }
        }
    }

    /// Rules 5, 3 and 6: a live lease ends by its holder's word, by force, or at its instant; it does not live again, and
    /// is not forgotten at once.
    fn ends(&self, scene: &Scene<'_>) {
        for (lock, entry, holding) in scene.held_before().filter(|(.., holding)| scene.now < holding.expires_at) {
            let fence = holding.fence;
            let is_there = scene.held_after().any(|(.., other)| other.fence == fence);
            let is_asked_for = scene.commands().any(|(other, command)| other == lock && ends(command, entry, holding));
            holds!(Expiry, is_there || is_asked_for, "the lease of fence {} was ended by nobody", fence.value());
        }
        for (lock, entry) in scene.before {
            let remembered_until = match entry.state {
                State::Holding(holding) if holding.expires_at <= scene.now => {
                    holding.expires_at + entry.terms.ttl.value().max(delay_of(entry, &holding))
                }
                State::Ended { until, .. } => until,
                State::Holding(_) | State::Waiting { .. } => continue,
            };
            let is_there = scene.after.iter().any(|(other, entry)| asker_of(other, entry) == asker_of(lock, entry));
            let is_due = remembered_until <= scene.now;
            holds!(Idempotence, is_there || is_due, "{:?} is forgotten too early", entry.terms.request_id);
        }
        for (lock, entry) in scene.after {
            let State::Ended { reason: Lost::Expired, closed_until, .. } = entry.state else { continue };
            let before = scene
                .before
                .iter()
                .find(|(other, entry_before)| asker_of(other, entry_before) == asker_of(lock, entry));
            let owed = match before.map(|(_, entry)| (entry, entry.state)) {
                Some((entry, State::Holding(holding))) => holding.expires_at + delay_of(entry, &holding),
                Some((_, State::Ended { closed_until, .. })) => closed_until,
                Some((_, State::Waiting { .. })) | None => continue,
            };
            holds!(Limits, closed_until == owed, "the lock is closed until {closed_until}, and was to be until {owed}");
        }
        for (lock, entry, holding) in scene.held_after() {
            let fence = holding.fence.value();
            let Some(seen) = self.leases.get(&fence) else { continue };
            let was_there = scene.held_before().any(|(.., other)| other.fence == holding.fence);
            holds!(Guard, seen.over.is_none() && was_there, "the lease of fence {fence} came back to life");
            holds!(Idempotence, seen.asker == asker_of(lock, entry), "fence {fence} is another's now");
        }
    }

    /// Rules 12, 8 and 5: how long a lease is, when it is granted and whenever that changes.
    fn lengths(&self, scene: &Scene<'_>) {
        for (lock, entry, holding) in scene.held_after() {
            let fence = holding.fence.value();
            let before = scene.held_before().find(|(.., other)| other.fence == holding.fence);
            let until = match before {
                Some((_, entry, before)) => scene.renewed_until(lock, entry, before),
                None => {
                    holds!(Time, holding.granted_at == scene.now, "fence {fence} was granted at another time");
                    let waited = scene.waited_before(lock, entry) || holding.claim == Claim::Open;
                    let ttl = entry.terms.ttl.value();
                    let length = if waited { ttl.min(CLAIM_MS) } else { ttl };
                    if waited {
                        holds!(Waiting, holding.expires_at <= scene.now + length, "fence {fence} is beyond its claim");
                    }
                    (scene.now + length).min(limit_of(entry.terms.max_hold, holding))
                }
            };
            let is_longer = holding.expires_at > limit_of(entry.terms.max_hold, holding);
            holds!(Limits, !is_longer, "fence {fence} is held for longer than its maxHoldMs");
            let is_live = before.is_none_or(|(.., before)| scene.now < before.expires_at);
            let is_same = before.is_some_and(|(.., before)| before.expires_at == holding.expires_at);
            holds!(Guard, is_live || is_same, "the lease of fence {fence} was over, and was renewed");
            let (is, owed) = (holding.expires_at, until);
            holds!(Expiry, is == owed, "fence {fence} ends at {is}, and was to at {owed}");
        }
    }

    /// Rules 8 and 7: a place lives as long as it is asked for, no longer and no shorter.
    fn places(&self, scene: &Scene<'_>) {
        for (lock, entry) in scene.before {
            let State::Waiting { until } = entry.state else { continue };
            let asker = asker_of(lock, entry);
            let is_asked = scene.acquires().any(|(_, other, _)| other == asker);
            let now_held =
                scene.held_after().any(|(_, other, _)| other.place == entry.place && other.terms == entry.terms);
            if until <= scene.now {
                holds!(Waiting, !now_held || is_asked, "a waiter was granted whose place had lapsed");
                continue;
            }
            let is_there = scene.after.iter().any(|(other, entry)| asker_of(other, entry) == asker);
            let has_left = entry.connection.is_some_and(|connection| scene.closed.contains(&connection));
            let terms = &entry.terms;
            let is_given_up = scene.commands().any(|(other, command)| {
                other == lock
                    && matches!(command, Command::Cancel(Cancel { token, request_id })
                        if (token, request_id) == (&terms.token, &terms.request_id))
            });
            holds!(Queue, is_there || has_left || is_given_up, "the place of {:?} was lost", asker.2);
        }
        for (lock, entry) in scene.after {
            let State::Waiting { until } = entry.state else { continue };
            let asker = asker_of(lock, entry);
            let asked_until = self.asks.get(&asker).map_or(0, |ask| ask.until);
            holds!(Waiting, until <= asked_until, "a place lives until {until}, and was asked for until {asked_until}");
            let is_kept = until == asked_until || scene.acquires().all(|(_, other, _)| other != asker);
            holds!(Waiting, is_kept, "a place lives until {until} only, and was asked for until {asked_until}");
            let has_left = entry.connection.is_some_and(|connection| scene.closed.contains(&connection));
            let is_asked = scene.acquires().any(|(_, other, _)| other == asker);
            holds!(Waiting, !has_left || is_asked, "a socket closed, and its waiter is still there");
        }
    }

    /// Rules 7, 12 and 6: who is granted, in which order, and when.
    fn queue(&mut self, scene: &Scene<'_>) {
        let mut entering: Vec<Asker> = Vec::new();
        for (_, asker, _) in scene.acquires() {
            if entering.contains(&asker) {
                continue;
            }
            entering.push(asker.clone());
            let entered = scene.after.iter().find(|(lock, entry)| asker_of(lock, entry) == asker);
            if entered.is_some_and(|(lock, entry)| scene.is_new(entry) && !scene.waited_before(lock, entry)) {
                self.is_no_ghost(&asker);
                self.arrivals += 1;
                self.asks.entry(asker).or_default().arrival = self.arrivals;
            }
        }
        let arrival = |lock: &Name, entry: &Entry| self.asks.get(&asker_of(lock, entry)).map_or(0, |ask| ask.arrival);
        for (lock, entry, holding) in scene.granted() {
            if scene.is_steal(lock, entry) {
                continue;
            }
            let overtook = scene.after.iter().find(|(other, waiter)| {
                other == lock
                    && matches!(waiter.state, State::Waiting { .. })
                    && arrival(other, waiter) < arrival(lock, entry)
            });
            let fence = holding.fence.value();
            holds!(Queue, overtook.is_none(), "fence {fence} overtook {:?}", overtook.map(|(_, entry)| &entry.terms));
            let is_closed = scene.is_closed(scene.before, lock);
            holds!(Limits, !is_closed, "fence {fence} was granted before the lock delay was over");
        }
        for (lock, _) in scene.commands() {
            let Some(head) = scene.waiters(lock).next() else { continue };
            let fits = scene.has_room(lock, head.terms.mode) && !scene.is_closed(scene.after, lock);
            holds!(Queue, !fits, "{:?} waits for a lock that is free", head.terms.request_id);
        }
    }

    /// Rule 6: an ask that is over is not begun again by a late copy of it, while its end is remembered.
    fn is_no_ghost(&self, asker: &Asker) {
        let Some(ask) = self.asks.get(asker) else { return };
        let is_cancelled = ask.cancelled == Some(self.restarts);
        holds!(Idempotence, !is_cancelled, "{:?} was cancelled, and asks again", asker.2);
        let Some(seen) = ask.fence.and_then(|fence| self.leases.get(&fence)) else { return };
        let is_remembered =
            matches!(seen.over, Some(Over { reason: Lost::Released, restarts }) if restarts == self.restarts);
        holds!(Idempotence, !is_remembered, "{:?} had a lease, and its ask is taken for a new one", asker.2);
    }

    /// Rules 5, 3, 4 and 6: whether what was answered was so.
    fn replies(&self, scene: &Scene<'_>, turn: &Turn) {
        let live = scene.held_before().filter(|(.., holding)| scene.now < holding.expires_at);
        let mut live: HashMap<u64, (Asker, Claim)> = live
            .map(|(lock, entry, holding)| (holding.fence.value(), (asker_of(lock, entry), holding.claim)))
            .collect();
        for (ticket, reply) in &turn.answers {
            let call = scene.calls.iter().find(|call| call.ticket == *ticket);
            let command = call.and_then(|call| Some((call, locked(call)?)));
            let Some((_, (lock, command))) = command else {
                // Who waited has its lease by now, and another call of this turn may be about it.
                if let (Reply::Granted { lease, .. }, Some((asker, _))) = (reply, self.open.get(ticket)) {
                    is_timely(scene, lease);
                    live.insert(lease.fence.value(), (asker.clone(), Claim::Open));
                }
                continue;
            };
            match (command, reply) {
                (Command::Acquire(acquire), Reply::Granted { lease, .. }) => {
                    is_timely(scene, lease);
                    let asker = (lock.clone(), acquire.terms.token.clone(), acquire.terms.request_id.clone());
                    let known = self.leases.get(&lease.fence.value());
                    let is_own = known.is_none_or(|seen| seen.asker == asker) && lease.token == acquire.terms.token;
                    holds!(Idempotence, is_own, "an ask was answered with the lease of another");
                    if acquire.entry == Entrance::Steal && known.is_none() {
                        live.retain(|_, (asker, _)| asker.0 != *lock);
                    }
                    live.entry(lease.fence.value()).or_insert((asker, Claim::Answered));
                }
                (Command::Acquire(acquire), Reply::Held { .. }) if scene.calls.len() == 1 => {
                    let waits = |(other, entry): &(Name, Entry)| {
                        other == lock && matches!(entry.state, State::Waiting { until } if scene.now < until)
                    };
                    let is_held = !scene.has_room(lock, acquire.terms.mode)
                        || scene.is_closed(scene.after, lock)
                        || scene.before.iter().chain(scene.after).any(waits);
                    holds!(Expiry, is_held, "the lock is free, and was refused");
                }
                (Command::Renew(Renew { token, fence, .. }), Reply::Renewed { lease }) => {
                    is_timely(scene, lease);
                    is_guarded(&live, lock, token, *fence);
                    if let Some((_, claim)) = live.get_mut(&fence.value()) {
                        *claim = Claim::Made;
                    }
                }
                (Command::Release(Release { token, fence }), Reply::Released) => {
                    is_guarded(&live, lock, token, *fence);
                    live.remove(&fence.value());
                }
                (
                    Command::Renew(Renew { token, fence, .. }) | Command::Release(Release { token, fence }),
                    Reply::Lost { reason },
                ) => {
                    let is_live = live.get(&fence.value()).is_some_and(|((of, by, _), _)| of == lock && by == token);
                    holds!(Guard, !is_live, "the holder of fence {} was told that it is lost", fence.value());
                    let seen = self.leases.get(&fence.value()).filter(|seen| seen.asker.0 == *lock);
                    let told = seen.filter(|seen| seen.asker.1 == *token).and_then(|seen| seen.over);
                    let is_true = told.is_none_or(|over| *reason == over.reason || *reason == Lost::Unknown);
                    holds!(Guard, is_true, "fence {} is said to be lost as {reason:?}", fence.value());
                }
                (Command::Cancel(Cancel { token, request_id }), Reply::Cancelled) => {
                    live.retain(|_, (asker, claim)| {
                        (&asker.0, &asker.1, &asker.2) != (lock, token, request_id) || *claim == Claim::Made
                    });
                }
                (Command::Revoke(Revoke { fence, .. }), Reply::Revoked { .. }) => {
                    live.retain(|other, (asker, _)| {
                        asker.0 != *lock || fence.is_some_and(|fence| fence.value() != *other)
                    });
                }
                _ => {}
            }
        }
    }

    /// Rules 9 and 7: what is said is stored, and said to exactly those whom it concerns.
    fn told(&self, scene: &Scene<'_>, turn: &Turn) {
        for (ticket, reply) in &turn.answers {
            is_stored(scene, *ticket, reply);
            if let (Reply::Waiting { .. }, Some((asker, deadline))) = (reply, self.open.get(ticket)) {
                let is_repeated = scene.acquires().any(|(_, other, _)| other == *asker);
                holds!(Queue, *deadline <= scene.now || is_repeated, "{:?} was woken for nothing", asker.2);
            }
        }
        for (lock, entry, _) in scene.granted() {
            let asker = asker_of(lock, entry);
            let is_repeated = scene.acquires().any(|(_, other, _)| other == asker);
            let lines = self.open.iter().filter(|(_, (other, _))| *other == asker);
            let answered =
                lines.clone().filter(|(ticket, _)| turn.answers.iter().any(|(other, _)| other == *ticket)).count();
            let pushed = turn
                .pushes
                .iter()
                .filter(|(connection, push)| {
                    entry.connection == Some(*connection)
                        && matches!(push, Push::Granted { request_id, lease, .. }
                            if *request_id == entry.terms.request_id && lease.lock == *lock)
                })
                .count();
            let listens = lines.count() > 0 || entry.connection.is_some();
            if !is_repeated {
                let owed = usize::from(listens);
                let told = answered + pushed;
                holds!(Queue, told == owed, "{:?} was granted, and told so {told} times", asker.2);
            }
        }
        for (_, push) in &turn.pushes {
            if let Push::Granted { lease, .. } = push {
                is_timely(scene, lease);
                let is_new = scene.granted().any(|(.., holding)| holding.fence == lease.fence);
                holds!(Queue, is_new || scene.calls.len() > 1, "fence {} was told of twice", lease.fence.value());
            }
        }
    }

    /// What this turn will be held against later.
    fn learn(&mut self, scene: &Scene<'_>) {
        let restarts = self.restarts;
        for (lock, entry) in scene.after {
            let (Some(fence), asker) = (entry.fence().map(Fence::value), asker_of(lock, entry)) else { continue };
            self.highest = self.highest.max(fence);
            self.asks.entry(asker.clone()).or_default().fence = Some(fence);
            let seen = self.leases.entry(fence).or_insert(Seen { asker, over: None });
            if let State::Ended { reason, .. } = entry.state
                && reason != Lost::Expired
            {
                seen.over = seen.over.or(Some(Over { reason, restarts }));
            }
        }
        for (lock, entry, holding) in scene.held_before().filter(|(.., holding)| scene.now < holding.expires_at) {
            let is_held = scene.held_after().any(|(.., other)| other.fence == holding.fence);
            let ended = scene.commands().find(|(other, command)| *other == lock && ends(command, entry, holding));
            if let (false, Some((_, command))) = (is_held, ended)
                && let Some(seen) = self.leases.get_mut(&holding.fence.value())
            {
                let reason = match command {
                    Command::Revoke(_) => Lost::Revoked,
                    Command::Acquire(_) => Lost::Stolen,
                    _ => Lost::Released,
                };
                seen.over = seen.over.or(Some(Over { reason, restarts }));
            }
        }
        let Some(turn) = scene.turn else { return };
        for (ticket, reply) in &turn.answers {
            let command = scene.calls.iter().find(|call| call.ticket == *ticket).and_then(locked);
            match (command, reply) {
                (Some((lock, Command::Cancel(Cancel { token, request_id }))), Reply::Cancelled) => {
                    let ask = self.asks.entry((lock.clone(), token.clone(), request_id.clone())).or_default();
                    let has_ended = ask.fence.and_then(|fence| self.leases.get(&fence)).is_some();
                    // Whoever had a lease is remembered with it, and no longer.
                    ask.cancelled = (!has_ended).then_some(restarts);
                }
                (_, Reply::Granted { lease, .. }) => self.highest = self.highest.max(lease.fence.value()),
                _ => {}
            }
        }
    }
}

impl<'a> Scene<'a> {
    fn commands(&self) -> impl Iterator<Item = (&'a Name, &'a Command)> {
        self.calls.iter().filter_map(locked)
    }

    fn acquires(&self) -> impl Iterator<Item = (&'a Call, Asker, &'a Acquire)> {
        self.calls.iter().filter_map(|call| match locked(call) {
            Some((lock, Command::Acquire(acquire))) => {
                let terms = &acquire.terms;
                Some((call, (lock.clone(), terms.token.clone(), terms.request_id.clone()), acquire))
            }
            _ => None,
        })
    }

    fn held_before(&self) -> impl Iterator<Item = (&'a Name, &'a Entry, &'a Holding)> + use<'a> {
        holding(self.before)
    }

    fn held_after(&self) -> impl Iterator<Item = (&'a Name, &'a Entry, &'a Holding)> + use<'a> {
        holding(self.after)
    }

    /// Leases that are new.
    fn granted(&self) -> impl Iterator<Item = (&'a Name, &'a Entry, &'a Holding)> {
        let before = self.before;
        self.held_after().filter(move |(.., new)| holding(before).all(|(.., old)| old.fence != new.fence))
    }

    fn waiters(&self, lock: &Name) -> impl Iterator<Item = &'a Entry> {
        self.after
            .iter()
            .filter(move |(other, entry)| other == lock && matches!(entry.state, State::Waiting { .. }))
            .map(|(_, entry)| entry)
    }

    fn waited_before(&self, lock: &Name, entry: &Entry) -> bool {
        let asker = asker_of(lock, entry);
        // One whose place had lapsed and who asks again is a newcomer.
        let waits = |until: Ms| self.now < until;
        self.before.iter().any(|(lock, entry)| {
            asker_of(lock, entry) == asker && matches!(entry.state, State::Waiting { until } if waits(until))
        })
    }

    /// Whether it waits, or has a lease that it had not before.
    fn is_new(&self, entry: &Entry) -> bool {
        match entry.state {
            State::Waiting { .. } => true,
            State::Holding(holding) => self.held_before().all(|(.., old)| old.fence != holding.fence),
            State::Ended { .. } => false,
        }
    }

    fn is_steal(&self, lock: &Name, entry: &Entry) -> bool {
        let asker = asker_of(lock, entry);
        self.acquires().any(|(_, other, acquire)| other == asker && acquire.entry == Entrance::Steal)
    }

    /// Whether one more lease of this mode could live.
    fn has_room(&self, lock: &Name, mode: Mode) -> bool {
        let live = || self.held_after().filter(|(other, _, holding)| *other == lock && self.now < holding.expires_at);
        match mode {
            Mode::Exclusive => live().count() == 0,
            Mode::Shared(limit) => {
                live().all(|(_, entry, _)| entry.terms.mode != Mode::Exclusive)
                    && limit.is_none_or(|limit| (live().count() as u64) < limit.value())
            }
        }
    }

    /// Whether a lease that expired keeps the lock closed.
    fn is_closed(&self, rows: &[(Name, Entry)], lock: &Name) -> bool {
        rows.iter().filter(|(other, _)| other == lock).any(|(_, entry)| match entry.state {
            State::Ended { reason: Lost::Expired, closed_until, .. } => self.now < closed_until,
            // What was ended otherwise closes nothing.
            State::Ended { .. } => false,
            State::Holding(holding) => {
                holding.expires_at <= self.now && self.now < holding.expires_at + delay_of(entry, &holding)
            }
            State::Waiting { .. } => false,
        })
    }

    /// When a lease is to end after all its renewals in this turn.
    fn renewed_until(&self, lock: &Name, entry: &Entry, before: &Holding) -> Ms {
        let mut ttl = entry.terms.ttl;
        let mut until = before.expires_at;
        for (other, command) in self.commands() {
            if let Command::Renew(renew) = command
                && other == lock
                && (&renew.token, renew.fence) == (&entry.terms.token, before.fence)
                && self.now < before.expires_at
            {
                ttl = renew.ttl.unwrap_or(ttl);
                until = (self.now + ttl.value()).min(limit_of(entry.terms.max_hold, before));
            }
        }
        until
    }
}

/// Rule 1: one live exclusive lease, or shared ones up to their limit.
fn exclusion(scene: &Scene<'_>) {
    let live: Vec<_> = scene.held_after().filter(|(.., holding)| scene.now < holding.expires_at).collect();
    for (lock, entry, holding) in &live {
        let count = live.iter().filter(|(other, ..)| other == lock).count() as u64;
        let fence = holding.fence.value();
        match entry.terms.mode {
            Mode::Exclusive => holds!(Exclusion, count == 1, "fence {fence} is exclusive, and {count} hold {lock:?}"),
            Mode::Shared(Some(limit)) => {
                let limit = limit.value();
                holds!(Exclusion, count <= limit, "{count} hold {lock:?}, whose limit is {limit}");
            }
            Mode::Shared(None) => {}
        }
    }
}

/// Rule 6: an ask has one place, or one lease.
fn one_each(scene: &Scene<'_>) {
    for (at, (lock, entry)) in scene.after.iter().enumerate() {
        let asker = asker_of(lock, entry);
        let is_doubled = scene.after.iter().skip(at + 1).any(|(lock, entry)| asker_of(lock, entry) == asker);
        holds!(Idempotence, !is_doubled, "{:?} is there twice", asker.2);
    }
}

/// Rule 5.
fn is_guarded(live: &HashMap<u64, (Asker, Claim)>, lock: &Name, token: &Token, fence: Fence) {
    let is_owner = live.get(&fence.value()).is_some_and(|((of, by, _), _)| of == lock && by == token);
    holds!(Guard, is_owner, "who does not hold fence {} renewed or released it", fence.value());
}

/// Rule 4: what is left of a lease is counted on the space's one clock.
fn is_timely(scene: &Scene<'_>, lease: &Lease) {
    let now = lease.expires_at.checked_sub(lease.expires_in);
    holds!(Time, now == Some(scene.now), "the store's clock says {now:?}, and it is {}", scene.now);
    holds!(Expiry, lease.expires_in > 0, "fence {} is told of, and is over", lease.fence.value());
}

/// Rule 9: what is said is in the rows. Where more was asked in that turn, it may be past already.
fn is_stored(scene: &Scene<'_>, ticket: Ticket, reply: &Reply) {
    let stored = |fence: Fence| scene.held_after().find(|(.., holding)| holding.fence == fence);
    let own = scene.calls.iter().find(|call| call.ticket == ticket).and_then(locked);
    match reply {
        Reply::Granted { lease, .. } | Reply::Renewed { lease } if scene.calls.len() <= 1 => {
            let row = stored(lease.fence).map(|(.., holding)| holding.expires_at);
            let (told, fence) = (lease.expires_at, lease.fence.value());
            holds!(StoreThenSpeak, row == Some(told), "fence {fence} ends at {told}, was said; stored is {row:?}");
        }
        Reply::Released => {
            let Some((_, Command::Release(Release { fence, .. }))) = own else {
                broken(Rule::StoreThenSpeak, "released was said to another command".into())
            };
            holds!(StoreThenSpeak, stored(*fence).is_none(), "fence {} is released, and stored", fence.value());
        }
        Reply::Cancelled => {
            let Some((lock, Command::Cancel(Cancel { token, request_id }))) = own else { return };
            let is_left = |(other, entry): &(Name, Entry)| {
                (other, &entry.terms.token, &entry.terms.request_id) == (lock, token, request_id)
                    && match entry.state {
                        State::Waiting { .. } => true,
                        State::Holding(holding) => holding.claim != Claim::Made && scene.now < holding.expires_at,
                        State::Ended { .. } => false,
                    }
            };
            holds!(Waiting, !scene.after.iter().any(is_left), "{request_id:?} is cancelled, and still there");
        }
        Reply::Waiting { .. } if scene.calls.len() == 1 => {
            let Some((lock, Command::Acquire(acquire))) = own else { return };
            let is_there = scene.waiters(lock).any(|entry| entry.terms.request_id == acquire.terms.request_id);
            holds!(StoreThenSpeak, is_there, "{:?} waits, was said; no row does", acquire.terms.request_id);
        }
        _ => {}
    }
}

/// Whether the command may end that lease.
fn ends(command: &Command, entry: &Entry, holding: &Holding) -> bool {
    let terms = &entry.terms;
    match command {
        Command::Release(Release { token, fence }) => (token, *fence) == (&terms.token, holding.fence),
        Command::Cancel(Cancel { token, request_id }) => {
            (token, request_id) == (&terms.token, &terms.request_id) && holding.claim != Claim::Made
        }
        Command::Revoke(Revoke { fence, .. }) => fence.is_none_or(|fence| fence == holding.fence),
        Command::Acquire(Acquire { entry, terms: other, .. }) => {
            *entry == Entrance::Steal && other.request_id != terms.request_id
        }
        Command::Renew(_) | Command::Inspect => false,
    }
}

fn locked(call: &Call) -> Option<(&Name, &Command)> {
    match &call.request {
        Ok(Request::Lock { lock, command }) => Some((lock, command)),
        _ => None,
    }
}

fn holding(rows: &[(Name, Entry)]) -> impl Iterator<Item = (&Name, &Entry, &Holding)> {
    rows.iter().filter_map(|(lock, entry)| match &entry.state {
        State::Holding(holding) => Some((lock, entry, holding)),
        State::Waiting { .. } | State::Ended { .. } => None,
    })
}

fn asker_of(lock: &Name, entry: &Entry) -> Asker {
    (lock.clone(), entry.terms.token.clone(), entry.terms.request_id.clone())
}

/// How long a lease keeps its lock closed when it expires: one that nobody claimed closes nothing.
fn delay_of(entry: &Entry, holding: &Holding) -> Ms {
    if holding.claim == Claim::Open { 0 } else { entry.terms.lock_delay.value() }
}

fn limit_of(max_hold: Option<MaxHold>, holding: &Holding) -> Ms {
    max_hold.map_or(Ms::MAX, |max_hold| holding.granted_at + max_hold.value())
}
