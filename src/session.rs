//! The rules, the holder's side: what to send next and when, and whether the lease is held.
//!
//! A machine without a clock or a connection. Its driver asks [`Session::step`] what to do, sends what it says, reports
//! what came of it with [`Session::heard`] or [`Session::failed`], and asks again, at the latest at the instant the step
//! named. Instants are those of one monotonic clock of the driver's; `dice` are random numbers from 0 to 1.
//!
//! What it promises (rule 10): it never believes in a lease for longer than the store does, whatever is lost, late or
//! repeated; an answer that did not come means unknown, and unknown extends nothing.

use crate::command::{Acquire, Cancel, Command, Lost, Release, Renew};
use crate::types::{Fence, Ms, RequestId, Token, Ttl, Wait};

/// The longest ask: shorter than the idle time-outs of common proxies.
const ASK_MS: Ms = 25_000;

/// How long after it is due an answer counts as lost.
const ANSWER_MS: Ms = 5_000;

/// The same for a cancel: somebody awaits it who has no time left.
const CANCEL_MS: Ms = 1_000;

/// How long an acquire keeps trying to reach a store that does not answer.
const UNREACHABLE_MS: Ms = 15_000;

/// The same for one that is not to wait.
const UNREACHABLE_TRY_MS: Ms = 3_000;

/// Unanswered commands whose late answers are still of use.
const FLIGHTS: usize = 8;

/// Retries start this far apart and double up to the cap.
const BACKOFF_MS: Ms = 50;
const BACKOFF_CAP_MS: Ms = 2_000;

/// How much earlier than the store the holder stops believing in a lease of this length.
///
/// A tenth of it, at most 500 ms, for timers and scheduling; and a thousandth for clocks that run at different rates.
pub fn margin(length: Ms) -> Ms {
    (length / 10).min(500) + drift(length)
}

/// How far two clocks that run at different rates may come apart in so long.
fn drift(length: Ms) -> Ms {
    length / 1_000
}

/// When the holder stops believing in a lease that ends `length` after an instant it can be counted from.
fn believed_until(since: Ms, length: Ms) -> Ms {
    since.saturating_add(length.saturating_sub(margin(length)))
}

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Send it, and report what came of it under this number. Then ask for the next step at once.
    Send { number: u32, command: Command },
    /// Nothing until something is heard, or this instant comes.
    Wait { until: Option<Ms> },
    /// Nothing any more.
    Over,
}

/// How the session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Not answered yet.
    Asking,
    /// Granted, and neither released nor known to be lost. [`Session::is_held`] says whether to believe it.
    Holding,
    /// Released by its holder; the store has yet to confirm.
    Releasing,
    /// The release was not confirmed: unknown. It can be repeated.
    Unconfirmed,
    Over(End),
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Released,
    Lost(Lost),
    /// Somebody else has the lock, and the ask was not to wait.
    Held,
    TimedOut,
    /// The driver gave up.
    GivenUp,
    /// The store refused, or could not be reached; the driver knows the error.
    Failed,
}

/// What the store answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    Granted { grant: Grant, waited: Ms },
    Held { retry_after: Ms },
    Waiting { retry_after: Ms },
    Renewed { grant: Grant },
    Lost(Lost),
    Released,
    Cancelled,
}

/// A lease as the store reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub fence: Fence,
    pub ttl: Ttl,
    pub expires_in: Ms,
    /// On the store's clock, for display.
    pub expires_at: Ms,
}

/// Why no answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The store may or may not have acted: ask again.
    Unknown,
    /// The store refused, and will again.
    Final,
}

/// How long an acquire is willing to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    None,
    For(Ms),
    Unlimited,
}

/// When renewals are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// Every third of the ttl.
    Auto,
    Every(Ms),
    /// Only when asked for, and to claim a lease that was waited for.
    Manual,
}

#[derive(Debug, Clone)]
pub struct Session {
    token: Token,
    phase: Phase,
    renewal: Renewal,
    /// Sent, not answered, and still meaning something if it is; the oldest first.
    flights: Vec<Flight>,
    /// The shortest length that a renewal asked for. A copy of it may reach the store at any time, and so after a renewal
    /// that asked for more: nothing longer is believed in.
    shortest: Ms,
    /// The one that is waited for before anything else is sent.
    awaited: Option<u32>,
    failures: u32,
    failing_since: Option<Ms>,
    /// A release was sent, and what it came to is unknown.
    may_be_released: bool,
    /// The end of the lease that is given back, as far as it is known: before it, nothing else can have made it one that
    /// the store does not know.
    would_end_at: Ms,
    next_number: u32,
}

#[derive(Debug, Clone)]
enum Phase {
    Asking(Asking),
    /// The ask is over, but the store may have a place or a lease of it.
    Cancelling {
        request_id: RequestId,
        next_at: Ms,
        end: End,
    },
    Holding(Held),
    Releasing {
        fence: Fence,
        next_at: Ms,
        end: Option<End>,
    },
    Unconfirmed {
        fence: Fence,
    },
    Over(End),
}

#[derive(Debug, Clone)]
struct Asking {
    acquire: Acquire,
    /// The request id it began with, and how often it went on with another.
    first_request: RequestId,
    asked_anew: u32,
    deadline: Option<Ms>,
    patience: Patience,
    first_sent_at: Option<Ms>,
    next_at: Ms,
    /// Leases that were over when they arrived.
    late: u32,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    grant: Grant,
    /// The lease is believed in before this instant, and not at it.
    deadline: Ms,
    /// The instant that the lease's remaining time was counted from.
    since: Ms,
    renew_at: Option<Ms>,
    /// Short, as it was waited for, until its first renewal is answered: that one is due whatever the renewal.
    is_unclaimed: bool,
    /// The length the next renewal asks for, where it is another than before.
    ttl: Option<Ttl>,
    /// Asked for while a renewal was on its way: the answer to that one is not the answer to this.
    again: bool,
}

/// What was sent and not answered yet.
#[derive(Debug, Clone, Copy)]
struct Flight {
    number: u32,
    sent_at: Ms,
    answer_by: Ms,
}

impl Session {
    /// A session that asks for a lease. The acquire's own `wait` is not used: each ask waits as `patience` bids.
    pub fn acquire(acquire: Acquire, patience: Patience, renewal: Renewal, now: Ms) -> Self {
        let deadline = match patience {
            Patience::For(length) => Some(now.saturating_add(length)),
            Patience::None | Patience::Unlimited => None,
        };
        let token = acquire.terms.token.clone();
        let first_request = acquire.terms.request_id.clone();
        let asking = Asking {
            acquire,
            first_request,
            asked_anew: 0,
            deadline,
            patience,
            first_sent_at: None,
            next_at: now,
            late: 0,
        };
        Self::new(token, Phase::Asking(asking), renewal)
    }

    /// A session that goes on with a lease of which only token and fence are known: not held until a renewal says so.
    pub fn attach(token: Token, fence: Fence, renewal: Renewal, now: Ms) -> Self {
        let grant = Grant { fence, ttl: Ttl::DEFAULT, expires_in: 0, expires_at: 0 };
        let renew_at = match renewal {
            Renewal::Auto | Renewal::Every(_) => Some(now),
            Renewal::Manual => None,
        };
        // The instant 0 is past: nothing is believed yet, and nothing is given up either.
        Self::new(
            token,
            Phase::Holding(Held {
                grant,
                deadline: 0,
                since: 0,
                renew_at,
                is_unclaimed: false,
                ttl: None,
                again: false,
            }),
            renewal,
        )
    }

    fn new(token: Token, phase: Phase, renewal: Renewal) -> Self {
        Self {
            token,
            phase,
            renewal,
            flights: Vec::new(),
            shortest: Ms::MAX,
            awaited: None,
            failures: 0,
            failing_since: None,
            may_be_released: false,
            would_end_at: 0,
            next_number: 1,
        }
    }

    pub fn status(&self) -> Status {
        match &self.phase {
            // Who waited long enough is not to wait for a store that does not answer.
            Phase::Cancelling { end, .. } if self.failures > 0 => Status::Over(*end),
            Phase::Asking(_) | Phase::Cancelling { .. } => Status::Asking,
            Phase::Holding(_) => Status::Holding,
            Phase::Releasing { end: Some(end), .. } => Status::Over(*end),
            Phase::Releasing { end: None, .. } => Status::Releasing,
            Phase::Unconfirmed { .. } => Status::Unconfirmed,
            Phase::Over(end) => Status::Over(*end),
        }
    }

    /// Whether the lease is held at this instant, as far as the holder can know.
    pub fn is_held(&self, now: Ms) -> bool {
        matches!(&self.phase, Phase::Holding(held) if now < held.deadline)
    }

    /// How much longer the lease is held, if no renewal is answered.
    pub fn held_for(&self, now: Ms) -> Ms {
        match &self.phase {
            Phase::Holding(held) => held.deadline.saturating_sub(now),
            Phase::Asking(_)
            | Phase::Cancelling { .. }
            | Phase::Releasing { .. }
            | Phase::Unconfirmed { .. }
            | Phase::Over(_) => 0,
        }
    }

    /// The lease as last reported, while it is neither released nor known to be lost.
    pub fn grant(&self) -> Option<Grant> {
        match &self.phase {
            Phase::Holding(held) => Some(held.grant),
            Phase::Asking(_)
            | Phase::Cancelling { .. }
            | Phase::Releasing { .. }
            | Phase::Unconfirmed { .. }
            | Phase::Over(_) => None,
        }
    }

    /// What to do at this instant.
    pub fn step(&mut self, now: Ms, dice: f64) -> Step {
        self.pass(now, dice);
        if let Phase::Over(_) = self.phase {
            return Step::Over;
        }
        if let Some(flight) = self.awaited() {
            return Step::Wait {
                until: Some(self.phase.ends_at().map_or(flight.answer_by, |at| at.min(flight.answer_by))),
            };
        }
        match self.phase.next_command(&self.token, now) {
            Some((command, answer_in)) => Step::Send { number: self.take_off(&command, now, answer_in), command },
            None => Step::Wait { until: self.phase.next_change() },
        }
    }

    /// What time alone does.
    fn pass(&mut self, now: Ms, dice: f64) {
        match &self.phase {
            Phase::Holding(held) if held.is_over(now) => self.lose(Lost::Expired, now),
            Phase::Asking(asking) if asking.deadline.is_some_and(|deadline| deadline <= now) => {
                self.give_up_with(End::TimedOut, now)
            }
            Phase::Asking(_) | Phase::Cancelling { .. } | Phase::Holding(_) | Phase::Releasing { .. } => {}
            Phase::Unconfirmed { .. } | Phase::Over(_) => {}
        }
        if self.awaited().is_some_and(|flight| flight.answer_by <= now) {
            self.awaited = None;
            self.retry(Failure::Unknown, now, dice);
        }
    }

    /// Reports the store's answer to what was sent under `number`.
    pub fn heard(&mut self, number: u32, heard: Heard, now: Ms) {
        let was_awaited = self.awaited == Some(number);
        let Some(flight) = self.land(number) else { return };
        if !self.phase.expects(heard) {
            // No answer to what was asked, and so none.
            if was_awaited {
                self.retry(Failure::Unknown, now, 1.0);
            }
            return;
        }
        self.failures = 0;
        self.failing_since = None;
        match (&mut self.phase, heard) {
            (Phase::Asking(asking), Heard::Granted { grant, waited }) => {
                let since = asking.lease_began(flight.sent_at, waited, now);
                self.enter(grant, since, now)
            }
            (Phase::Asking(asking), Heard::Held { retry_after } | Heard::Waiting { retry_after }) => {
                match asking.patience {
                    Patience::None => self.phase = Phase::Over(End::Held),
                    // Not at once, whatever the store says, when it has not let the ask wait.
                    Patience::For(_) | Patience::Unlimited => {
                        let earliest = flight.sent_at.saturating_add(BACKOFF_MS);
                        asking.next_at = now.saturating_add(retry_after).max(earliest);
                    }
                }
            }
            // The ask was granted and ended while its answers were lost. Who never heard of a lease has lost none.
            (Phase::Asking(asking), Heard::Lost(_)) => match asking.patience {
                // Nobody has said that somebody else has it.
                Patience::None => self.phase = Phase::Over(End::Failed),
                Patience::For(_) | Patience::Unlimited => {
                    asking.ask_anew(now);
                    // What is still heard is about the ask that is over.
                    self.flights.clear();
                    self.awaited = None;
                }
            },
            (Phase::Asking(_), Heard::Cancelled) => self.phase = Phase::Over(End::GivenUp),
            (Phase::Cancelling { end, .. }, Heard::Cancelled | Heard::Lost(_)) => self.phase = Phase::Over(*end),
            (Phase::Cancelling { end, .. }, Heard::Granted { grant, .. }) => {
                self.phase = Phase::Releasing { fence: grant.fence, next_at: now, end: Some(*end) };
            }
            (Phase::Holding(_), Heard::Renewed { grant } | Heard::Granted { grant, .. }) => {
                self.hold(grant, flight.sent_at, now)
            }
            (Phase::Holding(_), Heard::Lost(reason)) => self.phase = Phase::Over(End::Lost(reason)),
            (Phase::Releasing { end, .. }, Heard::Released) => self.phase = Phase::Over(end.unwrap_or(End::Released)),
            (Phase::Releasing { end, .. }, Heard::Lost(reason)) => {
                // Its own release, whose answer was lost, and which the store may have forgotten.
                let is_forgotten = reason == Lost::Unknown && now < self.would_end_at;
                let is_own = self.may_be_released && (reason == Lost::Released || is_forgotten);
                let ended = if is_own { End::Released } else { End::Lost(reason) };
                self.phase = Phase::Over(end.unwrap_or(ended))
            }
            // Not expected, and dealt with above.
            _ => {}
        }
    }

    /// The request it asks for a lease with, while it does. Not always the one it began with.
    pub fn request_id(&self) -> Option<&RequestId> {
        if let Phase::Asking(asking) = &self.phase { Some(&asking.acquire.terms.request_id) } else { None }
    }

    /// Reports what the store says without having been asked: that the wait is over, or the lease. Only what it says of
    /// [`request_id`](Self::request_id), or of the fence of [`grant`](Self::grant), is meant for this session.
    pub fn told(&mut self, heard: Heard, now: Ms) {
        match (&self.phase, heard) {
            (Phase::Asking(asking), Heard::Granted { grant, waited }) => {
                if let Some(first) = asking.first_sent_at {
                    let since = asking.lease_began(first, waited, now);
                    self.enter(grant, since, now);
                    // The ask that is open has its answer; the claim need not wait for another.
                    self.flights.clear();
                    self.awaited = None;
                }
            }
            (Phase::Holding(_), Heard::Lost(reason)) => self.go(Phase::Over(End::Lost(reason))),
            _ => {}
        }
    }

    /// Reports that something the store said without having been asked may not have arrived, as when what it comes by
    /// was broken and is there again: who waits asks again at once, and who renews anyway renews now.
    pub fn missed(&mut self, now: Ms) {
        let is_free = self.awaited.is_none();
        match &mut self.phase {
            Phase::Asking(asking) if is_free && asking.first_sent_at.is_some() => asking.next_at = now,
            Phase::Holding(held) if is_free && self.renewal != Renewal::Manual => held.renew_at = Some(now),
            Phase::Asking(_) | Phase::Cancelling { .. } | Phase::Holding(_) => {}
            Phase::Releasing { .. } | Phase::Unconfirmed { .. } | Phase::Over(_) => {}
        }
    }

    /// Reports that what was sent under `number` was not answered, or refused.
    pub fn failed(&mut self, number: u32, failure: Failure, now: Ms, dice: f64) {
        let was_awaited = self.awaited == Some(number);
        if self.land(number).is_some() && was_awaited {
            self.retry(failure, now, dice);
        }
    }

    fn retry(&mut self, failure: Failure, now: Ms, dice: f64) {
        let cap = match &self.phase {
            // So that a lease outlives a fault that lasts as long as most of it.
            Phase::Holding(held) => (held.grant.ttl.value() / 10).clamp(10, BACKOFF_CAP_MS),
            Phase::Asking(_) | Phase::Cancelling { .. } | Phase::Releasing { .. } => BACKOFF_CAP_MS,
            Phase::Unconfirmed { .. } | Phase::Over(_) => return,
        };
        let again_at = now.saturating_add(backoff(self.failures, cap, dice));
        let lasted = now.saturating_sub(*self.failing_since.get_or_insert(now));
        self.failures = self.failures.saturating_add(1);
        let is_final = failure == Failure::Final;
        self.may_be_released |= !is_final && matches!(self.phase, Phase::Releasing { .. });
        match &mut self.phase {
            Phase::Asking(_) if is_final => self.phase = Phase::Over(End::Failed),
            Phase::Asking(asking) if lasted >= asking.bears() => self.give_up_with(End::Failed, now),
            Phase::Asking(asking) => asking.next_at = again_at,
            // Attached, and never heard of.
            Phase::Holding(held) if held.deadline == 0 && (is_final || lasted >= UNREACHABLE_MS) => {
                self.phase = Phase::Over(End::Failed)
            }
            // A refused renewal is no loss: the lease lives until its deadline, and what refuses may stop refusing.
            Phase::Holding(held) => held.renew_at = Some(again_at),
            Phase::Cancelling { end, .. } if is_final || lasted >= ANSWER_MS => self.phase = Phase::Over(*end),
            Phase::Releasing { fence, end, .. } if is_final || lasted >= ANSWER_MS => {
                self.phase = end.map_or(Phase::Unconfirmed { fence: *fence }, Phase::Over);
            }
            Phase::Cancelling { next_at, .. } | Phase::Releasing { next_at, .. } => *next_at = again_at,
            Phase::Unconfirmed { .. } | Phase::Over(_) => {}
        }
    }

    /// Ends the session, from wherever it stands: a place is left, a lease given back. Again after it was not confirmed.
    pub fn release(&mut self, now: Ms) {
        match &self.phase {
            Phase::Asking(_) => self.give_up_with(End::GivenUp, now),
            Phase::Holding(Held { grant: Grant { fence, .. }, .. }) | Phase::Unconfirmed { fence } => {
                let fence = *fence;
                if let Phase::Holding(held) = &self.phase {
                    self.would_end_at = held.deadline;
                }
                self.go(Phase::Releasing { fence, next_at: now, end: None });
            }
            Phase::Cancelling { .. } | Phase::Releasing { .. } | Phase::Over(_) => {}
        }
    }

    /// Renews as soon as may be, for `ttl` from then on where one is given.
    pub fn renew(&mut self, ttl: Option<Ttl>, now: Ms) {
        if let Phase::Holding(held) = &mut self.phase {
            held.renew_at = Some(now);
            held.ttl = ttl.or(held.ttl);
            held.again = self.awaited.is_some();
        }
    }

    /// From now on renews like this.
    pub fn set_renewal(&mut self, renewal: Renewal, now: Ms) {
        self.renewal = renewal;
        let every = self.renew_every();
        if let Phase::Holding(held) = &mut self.phase
            && !held.is_unclaimed
        {
            held.renew_at = every(held.grant.ttl).map(|every| held.since.saturating_add(every).max(now));
        }
    }

    fn renew_every(&self) -> impl Fn(Ttl) -> Option<Ms> + use<> {
        let renewal = self.renewal;
        move |ttl| match renewal {
            Renewal::Auto => Some(ttl.value() / 3),
            Renewal::Every(every) => Some(every.min(ttl.value() / 2)),
            Renewal::Manual => None,
        }
    }

    /// The ask is granted: the lease is held, unless it comes too late for the one or the other.
    fn enter(&mut self, grant: Grant, since: Ms, now: Ms) {
        match &mut self.phase {
            Phase::Asking(asking) if asking.deadline.is_some_and(|deadline| deadline <= now) => {
                self.give_up_with(End::TimedOut, now)
            }
            // Over, as far as one can know here. Whether it is, the store says when it is asked again; but where the way
            // there and back is longer than the lease, to go on would keep the lock from those who could have it.
            Phase::Asking(asking) if believed_until(since, grant.expires_in) <= now => {
                asking.late += 1;
                asking.next_at = now;
                if asking.late >= asking.bears_late() {
                    self.go(Phase::Over(End::Failed));
                }
            }
            _ => self.hold(grant, since, now),
        }
    }

    /// `since`: an instant that the lease's remaining time can safely be counted from.
    fn hold(&mut self, grant: Grant, since: Ms, now: Ms) {
        let deadline = believed_until(since, grant.expires_in.min(self.shortest));
        let is_unclaimed = matches!(self.phase, Phase::Asking(_)) && grant.expires_in < grant.ttl.value();
        let next = self.renew_every()(grant.ttl).map(|every| since.saturating_add(every.min(self.shortest / 3)));
        let renew_at = if is_unclaimed { Some(now) } else { next };
        let held = Held { grant, deadline, since, renew_at, is_unclaimed, ttl: None, again: false };
        self.phase = match self.phase {
            Phase::Holding(Held { again: true, ttl, .. }) => {
                Phase::Holding(Held { renew_at: Some(now), ttl, again: false, ..held })
            }
            _ => Phase::Holding(held),
        };
    }

    /// The lease is over for its holder. The store is told, since a renewal on its way may have kept it alive there; but
    /// where none was meant to, whoever has attached to it and renews it elsewhere is to keep it.
    fn lose(&mut self, reason: Lost, now: Ms) {
        if let Phase::Holding(held) = &self.phase {
            let (fence, end) = (held.grant.fence, End::Lost(reason));
            let lets_expire =
                self.renewal == Renewal::Manual && self.flights.is_empty() && self.failing_since.is_none();
            self.go(if lets_expire {
                Phase::Over(end)
            } else {
                Phase::Releasing { fence, next_at: now, end: Some(end) }
            });
        }
    }

    fn give_up_with(&mut self, end: End, now: Ms) {
        if let Phase::Asking(asking) = &self.phase {
            let phase = match asking.first_sent_at {
                None => Phase::Over(end),
                Some(_) => {
                    let request_id = asking.acquire.terms.request_id.clone();
                    Phase::Cancelling { request_id, next_at: now, end }
                }
            };
            self.go(phase);
        }
    }

    /// Into a phase in which answers to earlier commands mean nothing.
    fn go(&mut self, phase: Phase) {
        self.phase = phase;
        self.flights.clear();
        self.awaited = None;
        self.failures = 0;
        self.failing_since = None;
    }

    fn awaited(&self) -> Option<&Flight> {
        self.flights.last().filter(|flight| self.awaited == Some(flight.number))
    }

    fn take_off(&mut self, command: &Command, now: Ms, answer_in: Ms) -> u32 {
        if let (Phase::Holding(held), Command::Renew(Renew { ttl: Some(ttl), .. })) = (&mut self.phase, command) {
            self.shortest = self.shortest.min(ttl.value());
            // As soon as it is under way, the store may have done it.
            held.deadline = held.deadline.min(believed_until(now, ttl.value()));
        }
        if self.flights.len() == FLIGHTS {
            self.flights.clear();
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.awaited = Some(number);
        self.flights.push(Flight { number, sent_at: now, answer_by: now.saturating_add(answer_in) });
        number
    }

    /// Takes note that `number` was answered, and that older answers are none any more.
    fn land(&mut self, number: u32) -> Option<Flight> {
        let at = self.flights.iter().position(|flight| flight.number == number)?;
        let flight = self.flights.drain(..=at).next_back();
        self.awaited = self.awaited.filter(|awaited| *awaited != number);
        flight
    }
}

impl Phase {
    /// Whether the store can have answered that to what is sent in this phase.
    fn expects(&self, heard: Heard) -> bool {
        match heard {
            Heard::Lost(_) => true,
            Heard::Granted { .. } => matches!(self, Phase::Asking(_) | Phase::Cancelling { .. } | Phase::Holding(_)),
            Heard::Held { .. } | Heard::Waiting { .. } => matches!(self, Phase::Asking(_)),
            Heard::Renewed { .. } => matches!(self, Phase::Holding(_)),
            Heard::Released => matches!(self, Phase::Releasing { .. }),
            Heard::Cancelled => matches!(self, Phase::Asking(_) | Phase::Cancelling { .. }),
        }
    }

    /// The instant at which the next step differs, if nothing is heard.
    fn next_change(&self) -> Option<Ms> {
        match self {
            Phase::Asking(asking) => earlier(Some(asking.next_at), self.ends_at()),
            Phase::Holding(held) => earlier(held.renew_at, self.ends_at()),
            Phase::Cancelling { next_at, .. } | Phase::Releasing { next_at, .. } => Some(*next_at),
            Phase::Unconfirmed { .. } | Phase::Over(_) => None,
        }
    }

    /// The instant at which the phase itself is over, whatever is in flight.
    fn ends_at(&self) -> Option<Ms> {
        match self {
            Phase::Asking(asking) => asking.deadline,
            Phase::Holding(held) => Some(held.deadline).filter(|deadline| *deadline > 0),
            Phase::Cancelling { .. } | Phase::Releasing { .. } | Phase::Unconfirmed { .. } | Phase::Over(_) => None,
        }
    }

    /// The command that is due now, and how soon it must be answered.
    fn next_command(&mut self, token: &Token, now: Ms) -> Option<(Command, Ms)> {
        match self {
            Phase::Asking(asking) if asking.next_at <= now => {
                asking.first_sent_at.get_or_insert(now);
                let wait = asking.wait(now);
                let acquire = Acquire { wait, ..asking.acquire.clone() };
                Some((Command::Acquire(acquire), wait.value().saturating_add(ANSWER_MS)))
            }
            Phase::Cancelling { request_id, next_at, .. } if *next_at <= now => {
                Some((Command::Cancel(Cancel { token: token.clone(), request_id: request_id.clone() }), CANCEL_MS))
            }
            Phase::Holding(held) if held.renew_at.is_some_and(|renew_at| renew_at <= now) => {
                held.again = false;
                let renew = Renew { token: token.clone(), fence: held.grant.fence, ttl: held.ttl };
                Some((Command::Renew(renew), (held.grant.ttl.value() / 3).clamp(20, ANSWER_MS)))
            }
            Phase::Releasing { fence, next_at, .. } if *next_at <= now => {
                Some((Command::Release(Release { token: token.clone(), fence: *fence }), ANSWER_MS))
            }
            Phase::Asking(_) | Phase::Cancelling { .. } | Phase::Holding(_) | Phase::Releasing { .. } => None,
            Phase::Unconfirmed { .. } | Phase::Over(_) => None,
        }
    }
}

impl Asking {
    /// How long it keeps trying to reach a store that does not answer.
    fn bears(&self) -> Ms {
        match self.patience {
            Patience::None => UNREACHABLE_TRY_MS,
            Patience::For(_) | Patience::Unlimited => UNREACHABLE_MS,
        }
    }

    /// How many leases may be over when they arrive: one that slept is not one whose line is too slow.
    fn bears_late(&self) -> u32 {
        match self.patience {
            Patience::None => 2,
            Patience::For(_) | Patience::Unlimited => 4,
        }
    }

    fn wait(&self, now: Ms) -> Wait {
        let length = match (self.patience, self.deadline) {
            (Patience::None, _) => 0,
            (_, Some(deadline)) => deadline.saturating_sub(now).min(ASK_MS),
            (_, None) => ASK_MS,
        };
        Wait::new(length as f64).unwrap_or(Wait::NONE)
    }

    /// Becomes an ask under a request id of its own: the first one, as much of it as there is room for, and a number.
    fn ask_anew(&mut self, now: Ms) {
        self.asked_anew = self.asked_anew.saturating_add(1);
        let own = format!("~{}", self.asked_anew);
        let first = self.first_request.as_str();
        let room = first.floor_char_boundary(RequestId::MAX_BYTES.saturating_sub(own.len()));
        let kept = first.get(..room).unwrap_or_default();
        if let Ok(request_id) = RequestId::new(&format!("{kept}{own}")) {
            self.acquire.terms.request_id = request_id;
        }
        self.first_sent_at = None;
        self.next_at = now.saturating_add(BACKOFF_MS);
    }

    /// An instant not later than the one at which the store counted what remains of the lease.
    ///
    /// It counted after this ask was sent. A lease that was waited for was granted `waited` after the store first heard
    /// of the ask, which is later and so leaves more of the lease: by the store's clock, which may run fast. It was not
    /// after now, unless the store's clock has leapt, and then it is not to be relied on.
    fn lease_began(&self, sent_at: Ms, waited: Ms, now: Ms) -> Ms {
        let granted_at = self.first_sent_at.unwrap_or(sent_at).saturating_add(waited.saturating_sub(drift(waited)));
        if granted_at <= now { granted_at.max(sent_at) } else { sent_at }
    }
}

impl Held {
    fn is_over(&self, now: Ms) -> bool {
        self.deadline > 0 && self.deadline <= now
    }
}

fn earlier(one: Option<Ms>, other: Option<Ms>) -> Option<Ms> {
    one.into_iter().chain(other).min()
}

fn backoff(failures: u32, cap: Ms, dice: f64) -> Ms {
    let full = BACKOFF_MS.saturating_mul(1 << failures.min(16)).min(cap);
    // Full jitter over the upper half: apart from each other, and never at once.
    full / 2 + (full as f64 / 2.0 * dice.clamp(0.0, 1.0)) as Ms
}
