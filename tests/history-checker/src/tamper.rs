//! Histories that are not true any more: each kind breaks one rule in a copy, at several places.

use crate::history::{Event, Fence, History, NEVER, What};
use crate::lock;

pub struct Kind {
    pub name: &'static str,
    pub copies: fn(&History) -> Vec<History>,
}

pub const KINDS: [Kind; 9] = [
    Kind { name: "a fence given twice", copies: a_fence_twice },
    Kind { name: "two fences exchanged", copies: fences_exchanged },
    Kind { name: "a lease granted while another one is live", copies: a_second_holder },
    Kind { name: "a renewal after the successor's grant", copies: a_late_renewal },
    Kind { name: "a belief after the successor's grant", copies: a_late_belief },
    Kind { name: "a refusal that hides who holds", copies: a_hidden_holder },
    Kind { name: "a lease that goes on after it was revoked", copies: a_revoked_renewal },
    Kind { name: "a lease that is released after it was revoked", copies: a_revoked_release },
    Kind { name: "a lease that goes on after it was stolen", copies: a_stolen_renewal },
];

/// So many places of a history are tried for each kind.
const PLACES: usize = 4;

fn a_fence_twice(history: &History) -> Vec<History> {
    let twice = |(first, second)| with_fence(history, second, fence_of(history, first));
    spread(successions(history)).into_iter().map(twice).collect()
}

fn fences_exchanged(history: &History) -> Vec<History> {
    spread(successions(history))
        .into_iter()
        .map(|(first, second)| {
            let copy = with_fence(history, first, fence_of(history, second));
            with_fence(&copy, second, fence_of(history, first))
        })
        .collect()
}

/// Right after a grant that is sure to last, somebody else is granted the same lock.
fn a_second_holder(history: &History) -> Vec<History> {
    let fresh = 1 + history.events.iter().filter_map(Event::grants).max().unwrap_or_default();
    lasting(history)
        .map(|(event, _)| {
            let (sent_at, expires_in_ms) = (event.called_at, 1_000);
            let what = What::Granted { fence: fresh, limit: None, sent_at, expires_in_ms, steal: false };
            with_event(history, after(event, what))
        })
        .collect()
}

fn a_late_renewal(history: &History) -> Vec<History> {
    after_successions(history, spread(successions(history)), |fence| What::Renewed { fence, expires_in_ms: 1_000 })
}

/// Who lost its lease to somebody else may believe in it until it is told.
fn a_late_belief(history: &History) -> Vec<History> {
    let ends_by_itself = |(first, second): &(usize, usize)| {
        let (before, after) = (&history.events[*first], &history.events[*second]);
        let fence = fence_of(history, *first);
        !history.of(&before.lock).any(|event| match event.what {
            What::Revoked { fence: ended } | What::PerhapsRevoked { fence: ended } => ended == fence,
            What::Granted { steal, .. } | What::Kept { steal, .. } | What::Abandoned { steal, .. } => {
                steal && event.called_at <= after.answered_at && event.answered_at >= before.called_at
            }
            _ => false,
        })
    };
    let pairs = successions(history).into_iter().filter(ends_by_itself).collect();
    after_successions(history, spread(pairs), |fence| What::Believed { fence })
}

fn a_hidden_holder(history: &History) -> Vec<History> {
    lasting(history)
        .map(|(event, _)| {
            let what = What::Seen { holders: Vec::new() };
            with_event(history, after(event, what))
        })
        .collect()
}

fn a_revoked_renewal(history: &History) -> Vec<History> {
    after_revocations(history, |fence| What::Renewed { fence, expires_in_ms: 1_000 })
}

fn a_revoked_release(history: &History) -> Vec<History> {
    after_revocations(history, |fence| What::Released { fence })
}

/// Once somebody was told that it ended a lease, an event of that lease.
fn after_revocations(history: &History, what: fn(Fence) -> What) -> Vec<History> {
    let revoked = history.events.iter().filter_map(|event| match event.what {
        What::Revoked { fence } => Some((event, fence)),
        _ => None,
    });
    spread(revoked.collect()).into_iter().map(|(event, fence)| with_event(history, after(event, what(fence)))).collect()
}

/// Once a thief was told of its grant, a renewal of the lease before it.
fn a_stolen_renewal(history: &History) -> Vec<History> {
    let stolen = history.events.iter().filter_map(|event| match event.what {
        What::Granted { fence, steal: true, .. } => {
            let before = history.of(&event.lock).filter_map(Event::grants).filter(|other| *other < fence).max()?;
            Some((event, before))
        }
        _ => None,
    });
    let renewal = |fence| What::Renewed { fence, expires_in_ms: 1_000 };
    spread(stolen.collect())
        .into_iter()
        .map(|(event, fence)| with_event(history, after(event, renewal(fence))))
        .collect()
}

/// Once an exclusive successor was told of its grant, an event of the lease before it.
fn after_successions(history: &History, successions: Vec<(usize, usize)>, what: fn(Fence) -> What) -> Vec<History> {
    successions
        .into_iter()
        .map(|(first, second)| {
            let what = what(fence_of(history, first));
            with_event(history, after(&history.events[second], what))
        })
        .collect()
}

/// Pairs of grants of one exclusive lock, the second asked for after the first was answered.
fn successions(history: &History) -> Vec<(usize, usize)> {
    let exclusive: Vec<usize> = (0..history.events.len()).filter(|at| is_exclusive(&history.events[*at])).collect();
    let pairs = exclusive.into_iter().filter_map(|first| {
        let before = &history.events[first];
        let follows =
            |event: &Event| event.lock == before.lock && is_exclusive(event) && event.called_at > before.answered_at;
        let second = history.events.iter().position(follows)?;
        Some((first, second))
    });
    pairs.collect()
}

/// Exclusive grants that had long to live, and for some time after which nobody did anything that ends them, and nobody was
/// granted the lock at an instant that is not known better.
fn lasting(history: &History) -> impl Iterator<Item = (&Event, Fence)> {
    let found: Vec<(&Event, Fence)> = history
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Granted { fence, limit: None, sent_at, expires_in_ms, .. }
                if sent_at + expires_in_ms * 1_000 > event.answered_at + 50_000 + lock::leap() =>
            {
                Some((event, fence))
            }
            _ => None,
        })
        .filter(|(event, fence)| {
            let ends = |other: &&Event| match other.what {
                What::Released { fence }
                | What::PerhapsReleased { fence }
                | What::Revoked { fence }
                | What::PerhapsRevoked { fence }
                | What::Lost { fence } => Some(fence),
                _ => None,
            };
            let may_be_stolen = |other: &Event| matches!(other.what, What::Abandoned { steal: true, .. });
            let soon = event.answered_at + 2;
            !history.of(&event.lock).any(|other| {
                let succeeds = other.grants().is_some_and(|other| other > *fence);
                (ends(&other) == Some(*fence) || succeeds || may_be_stolen(other)) && other.called_at <= soon
            })
        })
        .collect();
    spread(found).into_iter()
}

fn is_exclusive(event: &Event) -> bool {
    matches!(event.what, What::Granted { limit: None, .. })
}

/// A few of them, from all over.
fn spread<T>(all: Vec<T>) -> Vec<T> {
    let step = all.len().div_ceil(PLACES).max(1);
    all.into_iter().step_by(step).collect()
}

/// Something on the same lock, as soon as the event was answered.
fn after(event: &Event, what: What) -> Event {
    Event { lock: event.lock.clone(), called_at: event.answered_at + 1, answered_at: event.answered_at + 2, what }
}

fn fence_of(history: &History, at: usize) -> Fence {
    history.events[at].grants().unwrap_or(NEVER)
}

fn with_event(history: &History, event: Event) -> History {
    let mut copy = history.clone();
    copy.events.push(event);
    copy
}

fn with_fence(history: &History, at: usize, given: Fence) -> History {
    let mut copy = history.clone();
    if let What::Granted { fence, .. } = &mut copy.events[at].what {
        *fence = given;
    }
    copy
}
