//! The rules, the store's side: every decision about leases is made here.
//!
//! [`apply`] carries out one command on one lock; [`settle`] is what time alone does to a lock. Both are functions of
//! what is stored, the command and the instant. Rule numbers are those of ARCHITECTURE.md.

use crate::command::{
    Acquire, Cancel, Command, Entrance, HOLDERS_SHOWN, Holder, INSPECTED, Lease, Lost, Refusal, Release, Renew, Reply,
    Revoke, Waiter,
};
use crate::ledger::{Fault, Ledger, Notes, Open, Storage};
use crate::lock::{Claim, Entry, Holding, Lock, Place, State};
use crate::types::{Connection, Fence, MaxHold, Mode, Ms, Name, Token, Ttl};

/// How long a place outlives the ask that made or kept it, so that the next ask finds it.
pub const GRACE_MS: Ms = 5_000;

/// The first length of a lease that is granted to a waiter: one that died costs the queue no more.
pub const CLAIM_MS: Ms = 5_000;

/// The longest advice to wait before asking again.
const RETRY_AFTER_MS: Ms = 1_000;

/// The most waiters of one lock.
pub const QUEUE_MAX: usize = 10_000;

/// Something that happened to a lock beside the reply to the command that caused it.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Somebody has joined the queue.
    Queued,
    /// A newcomer has a lease, and hears it as the reply to its ask.
    Acquired { fence: Fence },
    /// The waiter at this place has a lease now.
    Granted { place: Place, fence: Fence, waited: Ms },
    /// The waiter at this place has left the queue.
    Left { place: Place },
    /// The waiter at this place has not asked again in time, and has no place any more.
    Lapsed { place: Place },
    /// A live lease was given back. Its holder was heard of over `others` than that socket, too.
    Released { fence: Fence, others: Heard },
    /// A live lease ended otherwise.
    Ended { fence: Fence, reason: Lost, heard: Heard },
}

/// The sockets over which a holder was heard of: the last one, and the one before.
pub type Heard = [Option<Connection>; 2];

/// What a command came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Reply(Reply),
    /// The ask waits at this place: it is answered when an event says so, or with its [`standing`] when it has waited long enough.
    Queued(Place),
}

/// Carries out a command on one lock at the instant `now` of the space's clock. It came over `via`, if over a socket.
///
/// # Errors
/// [`Fault`] where the storage failed; nothing may then be said to anybody.
pub fn apply<S: Storage>(
    ledger: &mut Ledger<S>,
    lock: &Name,
    command: &Command,
    via: Option<Connection>,
    now: Ms,
    events: &mut Vec<Event>,
) -> Result<Outcome, Fault> {
    let outcome = apply_to(ledger.open(lock)?, command, via, now, events);
    ledger.close(lock, now);
    Ok(outcome)
}

/// The same on a lock that is open.
pub fn apply_to<N: Notes>(
    open: Open<'_, N>,
    command: &Command,
    via: Option<Connection>,
    now: Ms,
    events: &mut Vec<Event>,
) -> Outcome {
    // Who cannot be told anything need not be found again.
    let via = via.filter(|via| *via != Connection::NOBODY);
    let mut turn = Turn { open, via, now, events };
    turn.settle();
    let outcome = match command {
        Command::Acquire(acquire) => turn.acquire(acquire),
        Command::Renew(renew) => Outcome::Reply(turn.renew(renew)),
        Command::Release(release) => Outcome::Reply(turn.release(release)),
        Command::Cancel(cancel) => Outcome::Reply(turn.cancel(cancel)),
        Command::Inspect => Outcome::Reply(turn.inspect()),
        Command::Revoke(revoke) => Outcome::Reply(turn.revoke(revoke)),
    };
    turn.settle();
    outcome
}

/// Does to a lock what is due at `now`: expires, forgets, grants.
pub fn settle<S: Storage>(ledger: &mut Ledger<S>, lock: &Name, now: Ms, events: &mut Vec<Event>) -> Result<(), Fault> {
    settle_in(ledger.open(lock)?, now, events);
    ledger.close(lock, now);
    Ok(())
}

/// The same to a lock that is open.
pub fn settle_in<N: Notes>(open: Open<'_, N>, now: Ms, events: &mut Vec<Event>) {
    Turn { open, via: None, now, events }.settle();
}

/// Takes a waiter out of the queue whose socket has closed.
pub fn leave<S: Storage>(
    ledger: &mut Ledger<S>,
    lock: &Name,
    place: Place,
    now: Ms,
    events: &mut Vec<Event>,
) -> Result<(), Fault> {
    let mut turn = Turn { open: ledger.open(lock)?, via: None, now, events };
    turn.settle();
    // Nothing is remembered of it: over another socket the same ask is welcome.
    if turn.open.lock.entry(place).is_some_and(|entry| matches!(entry.state, State::Waiting { .. })) {
        turn.open.remove(place);
        turn.events.push(Event::Left { place });
    }
    turn.settle();
    ledger.close(lock, now);
    Ok(())
}

/// Lets a waiter whose socket was cut off keep its place for the grace, and no longer: it may be back.
pub fn keep_for_now<S: Storage>(ledger: &mut Ledger<S>, lock: &Name, place: Place, now: Ms) -> Result<(), Fault> {
    let mut open = ledger.open(lock)?;
    let lapses_at = now.saturating_add(GRACE_MS);
    if let Some(State::Waiting { until }) = open.lock.entry(place).map(|entry| entry.state)
        && lapses_at < until
    {
        open.change(place, &mut |entry| entry.state = State::Waiting { until: lapses_at });
    }
    ledger.close(lock, now);
    Ok(())
}

/// What the ask at this place is told as things stand; `None` when nobody is there.
pub fn standing(lock: &Lock, name: &Name, place: Place, now: Ms) -> Option<Reply> {
    let entry = lock.entry(place)?;
    Some(match entry.state {
        State::Waiting { .. } => Reply::Waiting { position: lock.ahead_of(place) + 1, retry_after: 0 },
        State::Holding(holding) => granted(name, entry, &holding, now),
        State::Ended { reason, .. } => Reply::Lost { reason },
    })
}

/// What an ask is told that has neither a lease nor a place.
pub fn held(lock: &Lock, now: Ms) -> Reply {
    let opens_at = lock.first_expiry().unwrap_or(0).max(lock.closed_until());
    Reply::Held {
        holders: holders(lock, now, HOLDERS_SHOWN),
        queue: lock.waiting(),
        retry_after: opens_at.saturating_sub(now).clamp(1, RETRY_AFTER_MS),
    }
}

/// One command's work on one lock.
struct Turn<'a, N> {
    open: Open<'a, N>,
    via: Option<Connection>,
    now: Ms,
    events: &'a mut Vec<Event>,
}

impl<N: Notes> Turn<'_, N> {
    fn acquire(&mut self, acquire: &Acquire) -> Outcome {
        let terms = &acquire.terms;
        if let Some(entry) = self.open.lock.by_request(&terms.token, &terms.request_id) {
            let (place, state, moved) = (entry.place, entry.state, entry.is_elsewhere_than(self.via));
            return self.acquire_again(place, state, moved, acquire);
        }
        if let Some(reason) = self.open.notes.gone_request(self.open.name, &terms.token, &terms.request_id) {
            return Outcome::Reply(Reply::Lost { reason });
        }
        if let Mode::Shared(limit) = terms.mode
            && self.open.lock.shared_limit().is_some_and(|agreed| agreed != limit)
        {
            return Outcome::Reply(Reply::Refused(Refusal::LimitMismatch));
        }
        let is_new = self.open.lock.is_free();
        // Who steals does so because something is stuck.
        if (is_new || acquire.entry != Entrance::Steal) && self.open.notes.is_full(is_new) {
            return Outcome::Reply(Reply::Refused(Refusal::SpaceFull));
        }
        let newcomer = Entry {
            place: self.open.lock.next_place(),
            terms: terms.clone(),
            asked_at: self.now,
            connection: self.via,
            former: None,
            state: State::Waiting { until: self.place_until(acquire) },
            is_stored: false,
        };
        match acquire.entry {
            // Nobody loses a lease that the stealer cannot have for want of fences. It costs a gap, and gaps are fine.
            Entrance::Steal if self.open.notes.next_fence().is_none() => {
                Outcome::Reply(Reply::Refused(Refusal::Unavailable))
            }
            Entrance::Steal => {
                self.end_all(Lost::Stolen);
                self.grant_at_once(newcomer)
            }
            // Nobody barges (rule 7): an empty queue is asked for before room is.
            Entrance::Queue if self.open.lock.waiting() == 0 && self.admits(terms.mode) => self.grant_at_once(newcomer),
            Entrance::Queue if acquire.wait.value() == 0 => Outcome::Reply(held(self.open.lock, self.now)),
            Entrance::Queue if self.open.lock.waiting() >= self.open.notes.queue_max().min(QUEUE_MAX) => {
                Outcome::Reply(Reply::Refused(Refusal::QueueFull))
            }
            Entrance::Queue => {
                let place = newcomer.place;
                self.open.put(newcomer);
                self.events.push(Event::Queued);
                Outcome::Queued(place)
            }
        }
    }

    /// The same token and requestId again: the same lease, or the same place (rule 6).
    fn acquire_again(&mut self, place: Place, state: State, moved: bool, acquire: &Acquire) -> Outcome {
        match state {
            State::Waiting { .. } => {
                let until = self.place_until(acquire);
                self.open.change(place, &mut |entry| {
                    entry.connection = self.via;
                    entry.state = State::Waiting { until };
                });
                Outcome::Queued(place)
            }
            State::Ended { reason, .. } => Outcome::Reply(Reply::Lost { reason }),
            State::Holding(_) => {
                if moved {
                    self.open.change(place, &mut |entry| entry.hear_over(self.via));
                }
                Outcome::Reply(self.standing(place))
            }
        }
    }

    fn renew(&mut self, renew: &Renew) -> Reply {
        match self.guard(&renew.token, renew.fence) {
            Err(reason) => Reply::Lost { reason },
            Ok((place, mut holding)) => {
                let name = self.open.name;
                holding.claim = Claim::Made;
                let mut prolong = |entry: &mut Entry| {
                    entry.hear_over(self.via);
                    entry.terms.ttl = renew.ttl.unwrap_or(entry.terms.ttl);
                    holding.expires_at =
                        end_of(entry.terms.max_hold, holding.granted_at, self.now, entry.terms.ttl.value());
                    entry.state = State::Holding(holding);
                };
                match self.open.change(place, &mut prolong) {
                    Some(entry) => Reply::Renewed { lease: lease(name, entry, &holding, self.now) },
                    None => Reply::Lost { reason: Lost::Unknown },
                }
            }
        }
    }

    fn release(&mut self, release: &Release) -> Reply {
        match self.guard(&release.token, release.fence) {
            Err(reason) => Reply::Lost { reason },
            Ok((place, _)) => {
                self.forget(place);
                Reply::Released
            }
        }
    }

    fn cancel(&mut self, cancel: &Cancel) -> Reply {
        let Cancel { token, request_id } = cancel;
        match self.open.lock.by_request(token, request_id).map(|entry| (entry.place, entry.state)) {
            // Remembered, so that an acquire that comes after its own cancel is nobody's ghost.
            None => self.open.notes.remember(self.open.name, token, request_id, None, Lost::Released),
            Some((place, state)) => match state {
                State::Waiting { .. } => self.forget(place),
                State::Holding(Holding { claim: Claim::Answered | Claim::Open, .. }) => self.forget(place),
                // Already lived in: only its release ends it.
                State::Holding(Holding { claim: Claim::Made, .. }) => return self.standing(place),
                State::Ended { .. } => {}
            },
        }
        Reply::Cancelled
    }

    fn inspect(&mut self) -> Reply {
        let waiters = self.open.lock.waiters().take(INSPECTED).map(|entry| waiter(entry, self.now)).collect();
        Reply::Inspected {
            lock: self.open.name.clone(),
            holders: holders(self.open.lock, self.now, INSPECTED),
            waiters,
        }
    }

    fn revoke(&mut self, revoke: &Revoke) -> Reply {
        let count = match revoke.fence {
            None => self.end_all(Lost::Revoked),
            Some(fence) => match self.open.lock.by_fence(fence).map(|entry| (entry.place, entry.state)) {
                Some((place, State::Holding(_))) => {
                    self.end(place, fence, Lost::Revoked);
                    1
                }
                Some(_) | None => 0,
            },
        };
        Reply::Revoked { count }
    }

    /// Rule 5: only the token *and* the fence of a live lease may act on it.
    fn guard(&self, token: &Token, fence: Fence) -> Result<(Place, Holding), Lost> {
        let entry = self.open.lock.by_fence(fence).filter(|entry| entry.terms.token == *token);
        match entry.map(|entry| (entry.place, entry.state)) {
            Some((place, State::Holding(holding))) => Ok((place, holding)),
            Some((_, State::Ended { reason, .. })) => Err(reason),
            Some((_, State::Waiting { .. })) => Err(Lost::Unknown),
            None => Err(self.open.notes.gone_lease(self.open.name, token, fence).unwrap_or(Lost::Unknown)),
        }
    }

    /// What time alone does, up to now: rule 3 (expiry is a comparison), then rule 7 (the queue moves up).
    fn settle(&mut self) {
        while let Some((_, place)) = self.open.lock.first_due().filter(|(due_at, _)| *due_at <= self.now) {
            let Some(state) = self.open.lock.entry(place).map(|entry| entry.state) else { return };
            match state {
                State::Holding(holding) => self.expire(place, holding),
                State::Ended { .. } => {
                    self.open.remove(place);
                }
                State::Waiting { .. } => {
                    self.open.remove(place);
                    self.events.push(Event::Lapsed { place });
                }
            }
        }
        while let Some(head) = self.open.lock.head().filter(|head| self.admits(head.terms.mode)) {
            let (place, waited) = (head.place, self.now.saturating_sub(head.asked_at));
            let (ttl, max_hold) = (head.terms.ttl, head.terms.max_hold);
            let Some(holding) = self.holding(ttl, max_hold, Claim::Open) else { return };
            self.open.change(place, &mut |entry| entry.state = State::Holding(holding));
            self.events.push(Event::Granted { place, fence: holding.fence, waited });
        }
    }

    /// Rule 1, and rule 12's delay: whether one more lease of this mode may live now.
    fn admits(&self, mode: Mode) -> bool {
        self.open.lock.closed_until() <= self.now && self.open.lock.has_room_for(mode)
    }

    /// Grants in the reply to the ask itself.
    fn grant_at_once(&mut self, mut newcomer: Entry) -> Outcome {
        let (place, ttl, max_hold) = (newcomer.place, newcomer.terms.ttl, newcomer.terms.max_hold);
        let Some(holding) = self.holding(ttl, max_hold, Claim::Answered) else {
            return Outcome::Reply(Reply::Refused(Refusal::Unavailable));
        };
        newcomer.state = State::Holding(holding);
        self.open.put(newcomer);
        self.events.push(Event::Acquired { fence: holding.fence });
        Outcome::Reply(self.standing(place))
    }

    /// What the ask is told that is at this place.
    fn standing(&self, place: Place) -> Reply {
        standing(self.open.lock, self.open.name, place, self.now).unwrap_or(Reply::Refused(Refusal::Unavailable))
    }

    /// A new lease; `None` when the space has used up its fences.
    fn holding(&mut self, ttl: Ttl, max_hold: Option<MaxHold>, claim: Claim) -> Option<Holding> {
        let fence = self.open.notes.next_fence()?;
        let ttl = ttl.value();
        let length = match claim {
            Claim::Open => ttl.min(CLAIM_MS),
            Claim::Answered | Claim::Made => ttl,
        };
        let expires_at = end_of(max_hold, self.now, self.now, length);
        Some(Holding { fence, granted_at: self.now, expires_at, claim })
    }

    /// A lease that nobody claimed closes nothing: it costs the queue its window and no more. That it is over is written,
    /// although it follows from what is stored: else it would be found, told and counted once more after a restart.
    fn expire(&mut self, place: Place, holding: Holding) {
        self.close(place, holding.fence, Lost::Expired, |entry| {
            let delay = match holding.claim {
                Claim::Open => 0,
                Claim::Answered | Claim::Made => entry.terms.lock_delay.value(),
            };
            let closed_until = holding.expires_at.saturating_add(delay);
            (holding.expires_at.saturating_add(entry.terms.ttl.value()).max(closed_until), closed_until)
        });
    }

    fn end_all(&mut self, reason: Lost) -> usize {
        let all: Vec<_> = self.open.lock.holders().map(|(entry, holding)| (entry.place, holding.fence)).collect();
        let count = all.len();
        for (place, fence) in all {
            self.end(place, fence, reason);
        }
        count
    }

    /// Ends a live lease and remembers why for its ttl, so that its holder hears it at its next renewal at the latest.
    fn end(&mut self, place: Place, fence: Fence, reason: Lost) {
        let now = self.now;
        self.close(place, fence, reason, |entry| (now.saturating_add(entry.terms.ttl.value()), 0));
    }

    /// `until` says until when it is remembered, and until when the lock stays closed.
    fn close(&mut self, place: Place, fence: Fence, reason: Lost, until: impl Fn(&Entry) -> (Ms, Ms)) {
        let mut end = |entry: &mut Entry| {
            let (until, closed_until) = until(entry);
            entry.state = State::Ended { fence, reason, until, closed_until };
        };
        let ended = self.open.change(place, &mut end);
        let heard = ended.map_or([None, None], |entry| [entry.connection, entry.former]);
        self.events.push(Event::Ended { fence, reason, heard });
    }

    /// Removes an entry whose owner is done with it.
    fn forget(&mut self, place: Place) {
        let Some(entry) = self.open.remove(place) else { return };
        let (terms, fence) = (&entry.terms, entry.fence());
        self.events.push(match fence {
            Some(fence) => {
                let others = [entry.connection, entry.former].map(|heard| heard.filter(|_| heard != self.via));
                Event::Released { fence, others }
            }
            None => Event::Left { place },
        });
        self.open.notes.remember(self.open.name, &terms.token, &terms.request_id, fence, Lost::Released);
    }

    fn place_until(&self, acquire: &Acquire) -> Ms {
        self.now.saturating_add(acquire.wait.value()).saturating_add(GRACE_MS)
    }
}

/// Rule 12: no lease lives past its grant plus maxHoldMs.
fn end_of(max_hold: Option<MaxHold>, granted_at: Ms, now: Ms, length: Ms) -> Ms {
    let wanted = now.saturating_add(length);
    match max_hold {
        Some(max_hold) => wanted.min(granted_at.saturating_add(max_hold.value())),
        None => wanted,
    }
}

fn granted(lock: &Name, entry: &Entry, holding: &Holding, now: Ms) -> Reply {
    let waited = holding.granted_at.saturating_sub(entry.asked_at);
    Reply::Granted { lease: lease(lock, entry, holding, now), waited }
}

fn lease(lock: &Name, entry: &Entry, holding: &Holding, now: Ms) -> Lease {
    Lease {
        lock: lock.clone(),
        token: entry.terms.token.clone(),
        fence: holding.fence,
        mode: entry.terms.mode,
        ttl: entry.terms.ttl,
        expires_in: holding.expires_at.saturating_sub(now),
        expires_at: holding.expires_at,
    }
}

/// The first `count` holders of a lock, in the order of their grants.
pub fn holders(lock: &Lock, now: Ms, count: usize) -> Vec<Holder> {
    let holder = |(entry, holding): (&Entry, &Holding)| Holder {
        fence: holding.fence,
        mode: entry.terms.mode,
        client_id: entry.terms.client_id.clone(),
        info: entry.terms.info.clone(),
        held: now.saturating_sub(holding.granted_at),
        expires_in: holding.expires_at.saturating_sub(now),
    };
    lock.holders().take(count).map(holder).collect()
}

fn waiter(entry: &Entry, now: Ms) -> Waiter {
    Waiter {
        mode: entry.terms.mode,
        client_id: entry.terms.client_id.clone(),
        info: entry.terms.info.clone(),
        waited: now.saturating_sub(entry.asked_at),
    }
}
