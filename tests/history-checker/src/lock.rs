//! What a lock is, for a checker: the leases that may be live, each with the times between which it ends by itself.
//!
//! Times are known only as intervals, so the specification refuses what is wrong at every instant of them, and accepts
//! the rest. It is deterministic: an outcome that nobody heard of widens an interval.

use std::sync::atomic::{AtomicU64, Ordering};

use todc_utils::Specification;

use crate::history::{Event, Fence, Micros, NEVER, What};

/// The clocks of store and clients are read in whole milliseconds, and one after the other.
const SLACK: Micros = 2_000;

/// What the store's clock may have leapt, beside that: a clock that is set ahead ends leases early, which no store can know.
static LEAP: AtomicU64 = AtomicU64::new(0);

pub fn bear_with(leap: Micros) {
    LEAP.store(leap, Ordering::Relaxed);
}

pub fn leap() -> Micros {
    LEAP.load(Ordering::Relaxed)
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Lock {
    leases: Vec<Lease>,
    last_fence: Fence,
    /// Leases that others ended, and until when their holders may believe in them: they may not have been told yet.
    ended: Vec<(Fence, Micros)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Lease {
    fence: Fence,
    /// Before this it has not ended by itself.
    ends_from: Micros,
    /// From this on it has.
    ends_by: Micros,
    is_exclusive: bool,
    /// Somebody may have ended it, and nobody heard whether.
    may_be_revoked: bool,
    /// So long its holder may believe in it from the last thing it heard.
    ttl: Micros,
}

pub struct LockSpecification;

impl Specification for LockSpecification {
    type State = Lock;
    type Operation = Event;

    fn init() -> Lock {
        Lock::default()
    }

    fn apply(event: &Event, before: &Lock) -> (bool, Lock) {
        match before.after(event) {
            Some(after) => (true, after),
            None => (false, before.clone()),
        }
    }
}

impl Lock {
    /// What the lock is after the event, if it can have happened.
    fn after(&self, event: &Event) -> Option<Self> {
        let Event { called_at, answered_at, what, .. } = event;
        match what {
            What::Granted { fence, limit, sent_at, expires_in_ms, steal } => {
                let lease = Lease::between(*fence, *sent_at, *answered_at, *expires_in_ms, limit.is_none());
                self.granted(lease, limit.unwrap_or(1), *steal, *answered_at)
            }
            What::Kept { fence, limit, ttl_ms, steal } => {
                let lease = Lease::between(*fence, *called_at, *answered_at, *ttl_ms, limit.is_none());
                self.granted(Lease { ends_by: NEVER, ..lease }, limit.unwrap_or(1), *steal, *answered_at)
            }
            What::Seen { holders } => {
                let is_seen = |lease: &Lease| holders.iter().any(|seen| seen.fence == lease.fence);
                let none_is_missing =
                    self.leases.iter().all(|lease| is_seen(lease) || lease.may_have_ended_at(*answered_at));
                let all_are_live = holders.iter().all(|seen| self.may_be_live(seen.fence, *called_at));
                (none_is_missing && all_are_live).then(|| self.clone())
            }
            What::Believed { fence } => {
                let is_untold = self.ended.iter().any(|(ended, until)| ended == fence && called_at < until);
                (is_untold || self.may_be_live(*fence, *called_at)).then(|| self.clone())
            }
            What::Renewed { fence, expires_in_ms } => self.may_be_live(*fence, *called_at).then(|| {
                self.changed(*fence, |lease| Lease {
                    may_be_revoked: lease.may_be_revoked,
                    ..Lease::between(*fence, *called_at, *answered_at, *expires_in_ms, lease.is_exclusive)
                })
            }),
            What::Released { fence } => self.may_be_live(*fence, *called_at).then(|| self.without(*fence)),
            What::Revoked { fence } => self.may_be_live(*fence, *called_at).then(|| {
                let mut after = self.without(*fence);
                let revoked = self.leases.iter().filter(|lease| lease.fence == *fence);
                after.ended.extend(revoked.map(|lease| lease.untold_until(*answered_at)));
                after
            }),
            What::Lost { fence } => {
                let live = self.leases.iter().find(|lease| lease.fence == *fence);
                live.is_none_or(|lease| lease.may_have_ended_at(*answered_at)).then(|| self.without(*fence))
            }
            What::PerhapsRenewed { fence } => {
                Some(self.changed(*fence, |lease| Lease { ends_by: NEVER, ..lease.clone() }))
            }
            What::PerhapsReleased { fence } => Some(
                self.changed(*fence, |lease| Lease { ends_from: lease.ends_from.min(*called_at), ..lease.clone() }),
            ),
            What::PerhapsRevoked { fence } => Some(self.changed(*fence, |lease| lease.perhaps_revoked(*called_at))),
            What::Abandoned { steal: true, .. } => {
                let leases = self.leases.iter().map(|lease| lease.perhaps_revoked(*called_at)).collect();
                Some(Self { leases, ..self.clone() })
            }
            What::Abandoned { steal: false, .. } => Some(self.clone()),
        }
    }

    /// Rules 1 and 2: there is room, or it is made, and the fence is larger than every one before.
    fn granted(&self, lease: Lease, limit: usize, steal: bool, by: Micros) -> Option<Self> {
        if lease.fence <= self.last_fence {
            return None;
        }
        let live = self.leases.iter().filter(|lease| !lease.may_have_ended_at(by));
        let has_room = match lease.is_exclusive {
            true => live.count() == 0,
            false => live.clone().all(|other| !other.is_exclusive) && live.count() < limit,
        };
        (has_room || steal).then(|| {
            let last_fence = lease.fence;
            // Who gives way to an exclusive lease, or is exclusive and gives way, was over, or is over now.
            let stays = |other: &Lease| !lease.is_exclusive && !other.is_exclusive;
            let (mut leases, over): (Vec<Lease>, Vec<Lease>) = self.leases.iter().cloned().partition(stays);
            let mut ended = self.ended.clone();
            ended.extend(over.iter().filter(|over| steal || over.may_be_revoked).map(|over| over.untold_until(by)));
            leases.push(lease);
            Self { leases, last_fence, ended }
        })
    }

    fn may_be_live(&self, fence: Fence, at: Micros) -> bool {
        self.leases.iter().any(|lease| lease.fence == fence && at < lease.ends_by)
    }

    fn without(&self, fence: Fence) -> Self {
        let mut after = self.clone();
        after.leases.retain(|lease| lease.fence != fence);
        after
    }

    fn changed(&self, fence: Fence, change: impl Fn(&Lease) -> Lease) -> Self {
        let mut after = self.clone();
        after.leases.iter_mut().filter(|lease| lease.fence == fence).for_each(|lease| *lease = change(lease));
        after
    }
}

impl Lease {
    /// A lease of which so much was left at an instant between the two.
    fn between(fence: Fence, from: Micros, to: Micros, left_ms: u64, is_exclusive: bool) -> Self {
        let (left, slack) = (left_ms * 1_000, SLACK + leap());
        Self {
            fence,
            ends_from: (from + left).saturating_sub(slack),
            ends_by: to.saturating_add(left + slack),
            is_exclusive,
            may_be_revoked: false,
            ttl: left,
        }
    }

    /// The same, if from then on somebody may have ended it.
    fn perhaps_revoked(&self, from: Micros) -> Self {
        Self { ends_from: self.ends_from.min(from), may_be_revoked: true, ..self.clone() }
    }

    /// Ended by somebody else at the latest at `by`: when its holder knows.
    fn untold_until(&self, by: Micros) -> (Fence, Micros) {
        (self.fence, by.saturating_add(self.ttl + SLACK))
    }

    fn may_have_ended_at(&self, at: Micros) -> bool {
        self.ends_from <= at
    }
}
