//! Every history of two or three clients of one lock: the engine by itself with commands in any order, and sessions
//! against it over a network that delays, loses and repeats messages. See `reachable/`.
//!
//! `LEASEHOLD_SECONDS=600 cargo test --test exhaustive -- --nocapture` lets more go wrong, and goes as far as it gets.

mod reachable;
mod support;

use std::time::Duration;

use leasehold::session::Patience;
use reachable::protocol::{Harm, Protocol};
use reachable::search::{Bound, Machine, Reached, search};
use reachable::store::Store;
use support::limits::number;

/// Searches that share the time there is, and how many of them run at once.
const SEARCHES: u64 = 6;
const AT_ONCE: u64 = 2;

/// What the short run looks at in one search, at most.
const STATES: usize = 80_000;

#[test]
fn two_clients_of_a_lock_with_two_requests_each() {
    let reached = everything("2 clients of a lock, 2 requests each", &Store::exclusive(2, 2));
    assert!(reached.is_all || reached.depth >= 8, "{reached:?}");
}

#[test]
fn three_clients_of_a_lock() {
    let reached = everything("3 clients of a lock", &Store::exclusive(3, 1));
    assert!(reached.is_all, "{reached:?}");
}

#[test]
fn three_clients_of_a_semaphore_for_two() {
    let reached = everything("3 clients of a semaphore for 2", &Store::semaphore(3, 2.0));
    assert!(reached.is_all, "{reached:?}");
}

#[test]
fn two_sessions_whose_messages_are_late_lost_or_repeated() {
    let harm = short_or_long(Harm { faults: 1, late: 1, leavers: 0, leaps: 4 }, Harm { faults: 2, late: 1, ..LONG });
    sessions("2 sessions that wait", [Patience::Unlimited, Patience::Unlimited], harm);
}

#[test]
fn two_sessions_of_which_one_has_had_enough() {
    let harm = short_or_long(Harm { faults: 0, late: 1, leavers: 1, leaps: 4 }, Harm { faults: 0, leavers: 2, ..LONG });
    sessions("2 sessions that wait, and leave", [Patience::Unlimited, Patience::Unlimited], harm);
}

#[test]
fn a_session_that_tries_and_one_that_waits_for_a_while() {
    let harm = short_or_long(Harm { faults: 1, late: 1, leavers: 0, leaps: 4 }, Harm { leavers: 1, ..LONG });
    sessions("a session that tries, and one that waits for 200 ms", [Patience::None, Patience::For(200)], harm);
}

/// More than can be tried: the long run sees how far it gets.
const LONG: Harm = Harm { faults: 1, late: 2, leavers: 0, leaps: 12 };

fn short_or_long(short: Harm, long: Harm) -> Harm {
    if number("LEASEHOLD_SECONDS").is_some() { long } else { short }
}

fn sessions(about: &str, patience: [Patience; 2], harm: Harm) {
    let Harm { faults, late, leavers, leaps } = harm;
    let about = format!("{about} ({faults} faults, {late} late, {leavers} may leave, time passes {leaps} times)");
    let reached = everything(&about, &Protocol { patience, harm });
    assert!(reached.is_all || reached.depth >= 8, "{reached:?}");
}

fn everything<M: Machine>(about: &str, machine: &M) -> Reached {
    let bound = match number("LEASEHOLD_SECONDS") {
        Some(seconds) => Bound::Time(Duration::from_secs(seconds * AT_ONCE / SEARCHES)),
        None => Bound::States(STATES),
    };
    let reached = search(machine, bound);
    let Reached { states, moves, depth, is_all } = &reached;
    let far = if *is_all { "all there are".into() } else { format!("all histories of {depth} moves") };
    println!("proof: {about}: {states} states, {moves} moves, {far}");
    reached
}
