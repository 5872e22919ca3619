//! The store's side in bulk: what is bounded, what costs how much, and who of many is told.

mod support;

use std::collections::BTreeSet;

use leasehold::command::{
    Acquire, Change, Command, Entrance, Lease, List, Lost, Push, Refusal, Renew, Reply, Request, Terms, Watch,
};
use leasehold::ledger::{InMemory, Ledger, Limits};
use leasehold::service::Service;
use leasehold::types::{Connection, Fence, Limit, MAX_SAFE_INTEGER, Mode, PageSize, Ttl, Wait};
use support::rows::Rows;
use support::store::{Store, acquire, cancel, grants, on, release, renew, revoke, try_acquire, wait_for};

#[test]
fn the_queue_takes_10_000_and_refuses_the_next() {
    let mut store = Store::in_memory();
    let lease = store.granted(try_acquire("lock", "holder"));
    let requests = (0..10_000).map(|at| (None, wait_for("lock", &format!("waiter {at}")))).collect();
    assert!(store.turn(requests, &[]).answers.is_empty());
    assert_eq!(store.reply(wait_for("lock", "one more")), Reply::Refused(Refusal::QueueFull));
    assert!(matches!(store.reply(try_acquire("lock", "another")), Reply::Held { queue: 10_000, .. }));
    // One leaves, one comes.
    let turn = store.turn(vec![(None, cancel("lock", "waiter 5000")), (None, wait_for("lock", "one more"))], &[]);
    assert_eq!(turn.answers.iter().filter(|(_, reply)| *reply == Reply::Cancelled).count(), 2);
    assert_eq!(turn.answers.len(), 2, "the one more waits");
    let (reply, turn) = store.ask(None, release("lock", "holder", lease.fence));
    assert_eq!((reply, turn.answers.len()), (Some(Reply::Released), 1));
}

/// Leases whose length is a day and whose longest hold is a moment, and shared ones without a limit, filled the memory.
#[test]
fn what_is_remembered_and_shared_fills_a_space_no_further_than_it_may() {
    let mut ledger = Ledger::start(InMemory, 0).expect("there is nothing to read");
    ledger.limit(Limits { locks: 2, entries: 3, waiters: 10 });
    let mut store = Store::in_memory();
    store.service = Service::new(ledger);
    let shared = |who: &str| {
        let Acquire { terms, .. } = acquire(who);
        let terms = Terms { mode: Mode::Shared(None), ..terms };
        on("shared", Command::Acquire(Acquire { terms, ..acquire(who) }))
    };
    let first = store.granted(shared("a"));
    store.granted(shared("b"));
    store.granted(try_acquire("other", "c"));
    assert_eq!(store.reply(revoke("other")), Reply::Revoked { count: 1 });
    assert_eq!(store.reply(shared("d")), Reply::Refused(Refusal::SpaceFull), "a lease that ended is remembered");
    assert_eq!(store.reply(try_acquire("other", "d")), Reply::Refused(Refusal::SpaceFull));
    // What is there goes on, and whoever sees to what is stuck gets through.
    assert_eq!(store.granted(shared("a")).fence, first.fence);
    assert!(matches!(store.reply(renew("shared", "a", first.fence)), Reply::Renewed { .. }));
    let stolen = Acquire { entry: Entrance::Steal, ..acquire("e") };
    store.granted(on("other", Command::Acquire(stolen)));
    assert_eq!(store.reply(release("shared", "a", first.fence)), Reply::Released);
    assert_eq!(store.reply(shared("d")), Reply::Refused(Refusal::SpaceFull), "there was one more than there may be");
}

/// consul#7523: every waiter woke on each release.
#[test]
fn of_500_waiters_one_is_told_of_a_release() {
    let mut store = Store::in_memory();
    let mut lease = store.granted(try_acquire("lock", "holder"));
    let waiters: Vec<_> = (0..500).map(|at| format!("waiter {at}")).collect();
    store.turn(waiters.iter().map(|who| (None, wait_for("lock", who))).collect(), &[]);
    let mut holder = "holder".to_owned();
    for (at, waiter) in waiters.into_iter().enumerate() {
        let (_, turn) = store.ask(None, release("lock", &holder, lease.fence));
        assert_eq!((turn.answers.len(), turn.pushes.len()), (1, 0));
        match &turn.answers[0] {
            (ticket, Reply::Granted { lease: next, .. }) => {
                assert_eq!(*ticket, at as u64 + 2, "in the order of arrival");
                assert!(next.fence > lease.fence);
                lease = next.clone();
            }
            other => panic!("{other:?}"),
        }
        holder = waiter;
    }
}

#[test]
fn of_500_waiters_on_sockets_one_is_told_of_a_release() {
    let mut store = Store::in_memory();
    let lease = store.granted(try_acquire("lock", "holder"));
    let requests = (1..=500).map(|at| (Some(Connection(at)), wait_for("lock", &format!("waiter {at}")))).collect();
    let turn = store.turn(requests, &[]);
    assert_eq!(turn.answers.len(), 500, "a socket is told at once that it waits");
    assert_eq!(turn.wake_in, None, "and the object may sleep");
    let (_, turn) = store.ask(None, release("lock", "holder", lease.fence));
    assert_eq!(grants(&turn), [(Connection(1), "request of waiter 1".to_owned())]);
    assert_eq!((turn.answers.len(), turn.pushes.len()), (0, 1));
}

/// redisson#1326, #6643: waits that timed out left something behind.
#[test]
fn a_thousand_waits_that_time_out_leave_nothing() {
    let rows = Rows::default();
    let mut store = Store::over(rows.clone(), 0);
    let lease = store.granted(on(
        "lock",
        Command::Acquire(Acquire {
            terms: leasehold::command::Terms { ttl: Ttl::MAX, ..acquire("holder").terms },
            ..acquire("holder")
        }),
    ));
    store.turn((0..1_000).map(|at| (None, wait_for("lock", &format!("waiter {at}")))).collect(), &[]);
    assert_eq!(rows.len(), 1_001);
    store.now += 60_000;
    let turn = store.tick();
    assert_eq!(turn.answers.len(), 1_000);
    let positions: BTreeSet<_> = turn
        .answers
        .iter()
        .map(|(_, reply)| match reply {
            Reply::Waiting { position, .. } => *position,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(positions, (1..=1_000).collect());
    assert_eq!(turn.wake_in, None);
    store.now += 5_000;
    store.tick();
    assert_eq!(rows.len(), 1);
    store.reply(release("lock", "holder", lease.fence));
    assert_eq!(rows.len(), 0);
}

/// vert.x#2484, hazelcast#4432: per-key memory was never freed.
#[test]
fn a_hundred_thousand_names_leave_no_row() {
    let rows = Rows::default();
    let mut store = Store::over(rows.clone(), 0);
    for thousand in 0..100 {
        let names: Vec<_> = (0..1_000).map(|at| format!("name {thousand} {at}")).collect();
        let turn = store.turn(names.iter().map(|name| (None, try_acquire(name, "me"))).collect(), &[]);
        let fences = turn.answers.into_iter().map(|(_, reply)| match reply {
            Reply::Granted { lease, .. } => lease.fence,
            other => panic!("{other:?}"),
        });
        let releases = names.iter().zip(fences).map(|(name, fence)| (None, release(name, "me", fence)));
        let turn = store.turn(releases.collect(), &[]);
        assert!(turn.answers.iter().all(|(_, reply)| *reply == Reply::Released));
        assert_eq!((rows.len(), turn.due_in), (0, None));
    }
}

#[test]
fn a_command_writes_a_row() {
    let rows = Rows::default();
    let mut store = Store::over(rows.clone(), 0);
    let mut written = 0;
    let mut since = || {
        let before = std::mem::replace(&mut written, rows.rows_written());
        written - before
    };
    let lease = store.granted(try_acquire("lock", "a"));
    assert_eq!(since(), 2, "the first grant of a space reserves fences for thousands");
    store.reply(try_acquire("lock", "b"));
    assert_eq!(since(), 0, "a refusal");
    store.reply(renew("lock", "a", lease.fence));
    assert_eq!(since(), 1, "a renewal");
    store.ask(None, wait_for("lock", "b"));
    assert_eq!(since(), 1, "a place in the queue");
    store.reply(release("lock", "a", lease.fence));
    assert_eq!(since(), 2, "a release, and the grant that it makes");
    store.now += 5_000;
    store.tick();
    assert_eq!(since(), 1, "an expiry");
    let lease = store.granted(try_acquire("lock", "c"));
    assert_eq!(since(), 1, "an acquire");
    store.reply(release("lock", "c", lease.fence));
    store.now += 60_000;
    store.tick();
    assert_eq!(since(), 2, "a release, and the memory of the lease before it");
    for at in 0..5_000 {
        let who = format!("d {at}");
        let lease = store.granted(try_acquire("lock", &who));
        store.reply(release("lock", &who, lease.fence));
    }
    assert_eq!(since(), 10_001, "fences are reserved by the thousand");
    assert_eq!(rows.len(), 0);
}

#[test]
fn what_comes_and_goes_in_one_turn_is_never_written() {
    let rows = Rows::default();
    let mut store = Store::over(rows.clone(), 0);
    store.granted(try_acquire("another", "a"));
    let before = rows.rows_written();
    let fence = Fence::new(2.0).unwrap();
    let turn = store.turn(vec![(None, try_acquire("lock", "a")), (None, release("lock", "a", fence))], &[]);
    assert_eq!(turn.answers[1].1, Reply::Released);
    assert_eq!(rows.rows_written(), before);
}

/// redisson#4462, #2045: permits were lost after a crash.
#[test]
fn a_list_among_writes_sees_them_and_costs_no_commit_of_its_own() {
    let rows = Rows::default();
    let mut store = Store::over(rows.clone(), 0);
    let lease = store.granted(try_acquire("a", "me"));
    let mut store = Store::over(rows.clone(), 0);
    let list = || Request::List(List { prefix: String::new(), cursor: None, page_size: PageSize::DEFAULT });
    let before = rows.commits();
    let calls =
        [try_acquire("b", "me"), list(), release("a", "me", lease.fence), list(), try_acquire("c", "me"), list()];
    let turn = store.turn(calls.into_iter().map(|call| (None, call)).collect(), &[]);
    let listed = turn.answers.iter().filter_map(|(_, reply)| match reply {
        Reply::Listed { locks, .. } => {
            Some(locks.iter().map(|summary| summary.lock.as_str()).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    });
    assert_eq!(listed.collect::<Vec<_>>(), ["a b", "b", "b c"]);
    assert_eq!(rows.commits() - before, 1);
}

/// A start reads whole locks, and ends when it has read all, whatever falls on the edge of a page.
#[test]
fn a_queue_longer_than_a_page_is_read_whole_at_the_start() {
    for waiters in [1, 510, 511, 512, 513, 2_000] {
        let rows = Rows::default();
        let mut store = Store::over(rows.clone(), 0);
        let asks = (0..waiters).map(|at| (None, wait_for("long", &format!("waiter {at}"))));
        store.turn(std::iter::once((None, try_acquire("long", "holder"))).chain(asks).collect(), &[]);
        store.turn(vec![(None, try_acquire("zebra", "a"))], &[]);
        let mut store = Store::over(rows, 0);
        let mut turns = 1;
        while store.tick().due_in == Some(100) {
            turns += 1;
        }
        assert!(turns <= 3, "{waiters} waiters took {turns} turns");
        assert_eq!(store.turn(Vec::new(), &[]).ring_in.is_some(), waiters > 0);
        let page = Request::List(List { prefix: String::new(), cursor: None, page_size: PageSize::DEFAULT });
        let Reply::Listed { locks, .. } = store.reply(page) else { panic!("it is a list") };
        assert_eq!(locks.iter().map(|summary| summary.queue).collect::<Vec<_>>(), [waiters, 0]);
    }
}

#[test]
fn fifty_contend_for_five_permits_and_crash() {
    let mut store = Store::in_memory();
    let permit = |who: &str, wait| {
        let mut acquire = Acquire { wait, ..acquire(who) };
        acquire.terms.mode = Mode::Shared(Some(Limit::new(5.0).unwrap()));
        acquire.terms.ttl = Ttl::new(1_000.0).unwrap();
        on("pool", Command::Acquire(acquire))
    };
    let mut served = 0;
    let turn = store.turn((0..50).map(|at| (None, permit(&format!("worker {at}"), Wait::MAX))).collect(), &[]);
    let mut granted = turn.answers;
    let mut wake_in = turn.wake_in;
    let mut turns = 0;
    while let Some(next) = wake_in {
        turns += 1;
        assert!(turns < 100, "it comes to an end");
        let holders = match store.reply(on("pool", Command::Inspect)) {
            Reply::Inspected { holders, .. } => holders.len(),
            other => panic!("{other:?}"),
        };
        assert!(holders <= 5 && granted.len() <= 5);
        served += granted.len();
        // Every other one crashes: its permit comes back with its ttl.
        let releases: Vec<_> = granted
            .drain(..)
            .filter_map(|(ticket, reply)| match reply {
                Reply::Granted { lease, .. } if ticket % 2 == 0 => {
                    Some((None, release("pool", &format!("worker {}", ticket - 1), lease.fence)))
                }
                Reply::Granted { .. } => None,
                other => panic!("{other:?}"),
            })
            .collect();
        store.now += next;
        let turn = store.turn(releases, &[]);
        granted = turn.answers.into_iter().filter(|(_, reply)| matches!(reply, Reply::Granted { .. })).collect();
        wake_in = turn.wake_in;
    }
    assert_eq!(served + granted.len(), 50);
}

#[test]
fn a_space_that_starts_answers_for_locks_it_has_not_read_yet() {
    let rows = Rows::default();
    let mut store = Store::over(rows.clone(), 0);
    let names: Vec<_> = (0..2_000).map(|at| format!("lock {at:04}")).collect();
    store.turn(names.iter().map(|name| (None, try_acquire(name, "a"))).collect(), &[]);
    let mut store = Store::over(rows, 0);
    assert!(matches!(store.reply(try_acquire("lock 1999", "b")), Reply::Held { .. }));
    let page = |cursor: Option<&str>| {
        let cursor = cursor.map(|cursor| leasehold::types::Name::new(cursor).unwrap());
        Request::List(List { prefix: "lock".into(), cursor, page_size: PageSize::MAX })
    };
    let listed = |reply: Reply| match reply {
        Reply::Listed { locks, cursor } => (locks.len(), cursor.map(|cursor| cursor.as_str().to_owned())),
        other => panic!("{other:?}"),
    };
    assert_eq!(listed(store.reply(page(None))), (1_000, Some("lock 0999".into())));
    assert_eq!(listed(store.reply(page(Some("lock 0999")))), (1_000, Some("lock 1999".into())));
    assert_eq!(listed(store.reply(page(Some("lock 1999")))), (0, None));
    let mut turns = 0;
    while store.tick().due_in == Some(100) {
        turns += 1;
        assert!(turns < 10, "it reads on until it has read all");
    }
}

#[test]
fn more_locks_than_a_turn_sweeps_are_swept_in_several() {
    let rows = Rows::default();
    let mut store = Store::over(rows.clone(), 0);
    store.turn((0..1_000).map(|at| (None, try_acquire(&format!("lock {at}"), "a"))).collect(), &[]);
    store.turn((0..1_000).map(|at| (None, wait_for(&format!("lock {at}"), "b"))).collect(), &[]);
    store.now += 30_000;
    let mut granted = 0;
    let mut turns = 0;
    loop {
        let turn = store.tick();
        granted += turn.answers.len();
        turns += 1;
        if granted == 1_000 {
            break;
        }
        assert_eq!(turn.wake_in, Some(0), "somebody who is due has a turn at once");
        assert!(turn.answers.len() <= 100 && turns < 100, "a turn is bounded");
    }
    store.now += 3_600_000;
    while store.tick().due_in.is_some() {
        turns += 1;
        assert!(turns < 100);
    }
    assert_eq!(rows.len(), 0);
}

#[test]
fn held_leases_without_waiters_need_no_timer() {
    let mut store = Store::in_memory();
    store.granted(try_acquire("lock", "a"));
    let turn = store.tick();
    assert_eq!((turn.wake_in, turn.due_in), (None, Some(30_000)));
}

#[test]
fn the_fence_starts_at_the_floor_and_never_below() {
    let rows = Rows::default();
    let floor = 1_700_000_000_000_000;
    let mut store = Store::over(rows.clone(), floor);
    let first = store.granted(try_acquire("lock", "a")).fence.value();
    assert_eq!(first, floor);
    // The storage is lost; the floor has risen with the clock.
    let mut store = Store::over(Rows::default(), floor + 1_000);
    assert!(store.granted(try_acquire("lock", "a")).fence.value() > first);
    // The clock is set back; the storage is there.
    let mut store = Store::over(rows, 5);
    assert!(store.granted(try_acquire("other", "a")).fence.value() > first);
}

#[test]
fn a_space_without_fences_left_changes_nothing() {
    let mut store = Store::over(Rows::default(), MAX_SAFE_INTEGER);
    let last = store.granted(try_acquire("lock", "a"));
    assert_eq!(last.fence, Fence::MAX);
    assert_eq!(store.reply(try_acquire("other", "b")), Reply::Refused(Refusal::Unavailable));
    let steal = on("lock", Command::Acquire(Acquire { entry: Entrance::Steal, ..acquire("b") }));
    assert_eq!(store.reply(steal), Reply::Refused(Refusal::Unavailable));
    assert!(matches!(store.reply(renew("lock", "a", last.fence)), Reply::Renewed { .. }), "nobody stole it");
    store.ask(None, wait_for("lock", "c"));
    assert_eq!(store.reply(release("lock", "a", last.fence)), Reply::Released);
    store.now += 70_000;
    let turn = store.tick();
    assert_eq!((turn.wake_in, turn.due_in), (None, None));
}

/// What the store remembers of leases that are over is bounded, and a client that cancels on and on pushes nobody out.
#[test]
fn the_memory_of_what_is_over_is_bounded() {
    let mut store = Store::in_memory();
    let lease = store.granted(try_acquire("lock", "a"));
    store.reply(release("lock", "a", lease.fence));
    for _ in 0..5_000 {
        store.reply(cancel("lock", "b"));
    }
    assert_eq!(store.reply(try_acquire("lock", "a")), Reply::Lost { reason: Lost::Released });
    for at in 0..10_000 {
        store.reply(cancel("lock", &format!("c {at}")));
    }
    assert!(matches!(store.reply(try_acquire("lock", "a")), Reply::Granted { .. }), "forgotten");
}

#[test]
fn a_socket_that_closes_takes_its_waiters_and_not_its_leases() {
    let mut store = Store::in_memory();
    let (one, other) = (Connection(1), Connection(2));
    let lease = match store.ask(Some(one), try_acquire("held", "a")).0 {
        Some(Reply::Granted { lease, .. }) => lease,
        reply => panic!("{reply:?}"),
    };
    store.granted(try_acquire("lock", "holder"));
    store.ask(Some(one), wait_for("lock", "a"));
    store.ask(Some(other), wait_for("lock", "b"));
    store.turn(Vec::new(), &[one]);
    let queue = |store: &mut Store<_>| match store.reply(on("lock", Command::Inspect)) {
        Reply::Inspected { waiters, .. } => {
            waiters.iter().map(|waiter| waiter.client_id.clone().unwrap().as_str().to_owned()).collect::<Vec<_>>()
        }
        reply => panic!("{reply:?}"),
    };
    assert_eq!(queue(&mut store), ["b"]);
    assert!(matches!(store.reply(renew("held", "a", lease.fence)), Reply::Renewed { .. }));
    // It comes back and asks as before: it is welcome, behind who is there.
    let (reply, _) = store.ask(Some(Connection(3)), wait_for("lock", "a"));
    assert_eq!(reply, Some(Reply::Waiting { position: 2, retry_after: 60_000 }));
    assert_eq!(queue(&mut store), ["b", "a"]);
}

#[test]
fn sockets_that_close_in_one_turn_share_a_commit() {
    let rows = Rows::default();
    let mut store = Store::over(rows.clone(), 0);
    store.granted(try_acquire("lock", "holder"));
    let requests = (1..=100).map(|at| (Some(Connection(at)), wait_for("lock", &format!("waiter {at}"))));
    store.turn(requests.collect(), &[]);
    let before = rows.commits();
    let sockets: Vec<_> = (1..=100).map(Connection).collect();
    store.turn(Vec::new(), &sockets);
    assert_eq!((rows.commits() - before, rows.len()), (1, 1));
}

#[test]
fn a_waiter_that_moved_to_another_socket_stays_when_the_first_closes() {
    let mut store = Store::in_memory();
    let lease = store.granted(try_acquire("lock", "holder"));
    store.ask(Some(Connection(1)), wait_for("lock", "a"));
    store.ask(Some(Connection(2)), wait_for("lock", "a"));
    store.turn(Vec::new(), &[Connection(1)]);
    let (_, turn) = store.ask(None, release("lock", "holder", lease.fence));
    assert_eq!(grants(&turn), [(Connection(2), "request of a".to_owned())]);
}

#[test]
fn a_waiter_of_a_socket_is_found_after_a_restart() {
    let rows = Rows::default();
    let mut store = Store::over(rows.clone(), 0);
    let lease = store.granted(try_acquire("lock", "holder"));
    store.ask(Some(Connection(1)), wait_for("lock", "a"));
    store.ask(Some(Connection(2)), wait_for("lock", "b"));
    let mut store = Store::over(rows, 0);
    store.turn(Vec::new(), &[Connection(1)]);
    let (_, turn) = store.ask(None, release("lock", "holder", lease.fence));
    assert_eq!(grants(&turn), [(Connection(2), "request of b".to_owned())]);
}

#[test]
fn the_waiters_of_a_socket_that_was_cut_off_keep_their_places_for_the_grace() {
    let mut store = Store::in_memory();
    let lease = store.granted(try_acquire("lock", "holder"));
    store.ask(Some(Connection(1)), wait_for("lock", "a"));
    store.ask(Some(Connection(2)), wait_for("lock", "b"));
    store.ask(Some(Connection(3)), wait_for("lock", "c"));
    store.service.cut_off(Connection(1));
    store.service.cut_off(Connection(2));
    store.tick();
    store.now += 4_000;
    // Back in time, by another way.
    store.ask(Some(Connection(4)), wait_for("lock", "b"));
    store.now += 1_000;
    let (_, turn) = store.ask(None, release("lock", "holder", lease.fence));
    assert_eq!(grants(&turn), [(Connection(4), "request of b".to_owned())]);
}

#[test]
fn a_watcher_is_told_in_time_of_a_lease_that_ends_by_itself() {
    let mut store = Store::in_memory();
    store.ask(None, try_acquire("lock", "a"));
    assert_eq!(store.tick().ring_in, None);
    let (_, turn) = store.ask(Some(Connection(1)), Request::Watch(Watch { prefix: String::new() }));
    assert_eq!(turn.ring_in, turn.due_in);
    assert!(turn.ring_in.is_some());
}

#[test]
fn a_holder_on_a_socket_is_told_that_its_lease_was_ended() {
    let mut store = Store::in_memory();
    let lease = granted_over(&mut store, Some(Connection(1)), try_acquire("lock", "a"));
    let (reply, turn) = store.ask(None, revoke("lock"));
    assert_eq!(reply, Some(Reply::Revoked { count: 1 }));
    assert_eq!(turn.pushes, [(Connection(1), ended(&lease, Lost::Revoked))]);
}

/// The object hibernates after it has told of an expiry, and whoever wakes it is told of nothing twice.
#[test]
fn an_expiry_is_told_and_counted_once_also_after_a_restart() {
    let watcher = Connection(9);
    for asks in [false, true] {
        let rows = Rows::default();
        let mut store = Store::over(rows.clone(), 0);
        store.ask(Some(watcher), Request::Watch(Watch { prefix: String::new() }));
        store.granted(try_acquire("lock", "a"));
        store.now += 30_000;
        // By itself, or with whoever asks for something else.
        let turn = if asks { store.ask(None, on("lock", Command::Inspect)).1 } else { store.tick() };
        assert_eq!((turn.events.len(), turn.pushes.len()), (1, 1));
        for _ in 0..2 {
            let now = store.now;
            store = Store::over(rows.clone(), 0);
            store.now = now + 1_000;
            store.service.watch_again(watcher, String::new());
            // The second has read what is stored.
            for turn in [store.tick(), store.tick(), store.ask(None, on("lock", Command::Inspect)).1] {
                assert_eq!((turn.events, turn.pushes), (vec![], vec![]), "it was told before");
            }
        }
    }
}

fn ended(lease: &Lease, reason: Lost) -> Push {
    Push::Ended { lock: lease.lock.clone(), fence: lease.fence, reason }
}

fn granted_over(store: &mut Store<InMemory>, via: Option<Connection>, request: Request) -> Lease {
    match store.ask(via, request).0 {
        Some(Reply::Granted { lease, .. }) => lease,
        reply => panic!("{reply:?}"),
    }
}

/// A process that goes on with a lease, and gives it back, may be another than the one that asked for it.
#[test]
fn a_holder_on_a_socket_is_told_that_another_process_released_its_lease() {
    let (one, other) = (Some(Connection(1)), Some(Connection(2)));
    for via in [None, other, Some(Connection::NOBODY)] {
        let mut store = Store::in_memory();
        let lease = granted_over(&mut store, one, try_acquire("lock", "a"));
        let (reply, turn) = store.ask(via, release("lock", "a", lease.fence));
        assert_eq!(reply, Some(Reply::Released));
        assert_eq!(turn.pushes, [(Connection(1), ended(&lease, Lost::Released))]);
    }
    // It was renewed there before.
    for via in [None, other, Some(Connection::NOBODY)] {
        let mut store = Store::in_memory();
        let lease = granted_over(&mut store, one, try_acquire("lock", "a"));
        store.ask(via, renew("lock", "a", lease.fence));
        store.ask(via, renew("lock", "a", lease.fence));
        let turn = store.ask(via, release("lock", "a", lease.fence)).1;
        assert_eq!(turn.pushes, [(Connection(1), ended(&lease, Lost::Released))]);
    }
    // It is given back by a cancel.
    let mut store = Store::in_memory();
    let lease = granted_over(&mut store, one, try_acquire("lock", "a"));
    assert_eq!(store.ask(None, cancel("lock", "a")).1.pushes, [(Connection(1), ended(&lease, Lost::Released))]);
}

/// Whoever went on with the lease made it shorter, and died: the first holder believed in it for as long as it had been.
#[test]
fn a_holder_is_told_of_the_end_of_a_lease_that_another_has_made_shorter() {
    let (one, other) = (Some(Connection(1)), Some(Connection(2)));
    let mut store = Store::in_memory();
    let lease = granted_over(&mut store, one, try_acquire("lock", "a"));
    let Request::Lock { command: Command::Renew(renewal), .. } = renew("lock", "a", lease.fence) else { panic!() };
    let short = Command::Renew(Renew { ttl: Some(Ttl::new(200.0).unwrap()), ..renewal });
    store.ask(other, on("lock", short));
    store.now += 200;
    let (reply, turn) = store.ask(None, try_acquire("lock", "b"));
    assert!(matches!(reply, Some(Reply::Granted { .. })));
    assert_eq!(turn.pushes, [2, 1].map(|told| (Connection(told), ended(&lease, Lost::Expired))));
}

#[test]
fn whoever_releases_its_own_lease_is_told_nothing_but_the_reply() {
    for via in [None, Some(Connection(1)), Some(Connection::NOBODY)] {
        let mut store = Store::in_memory();
        let lease = granted_over(&mut store, via, try_acquire("lock", "a"));
        store.ask(via, renew("lock", "a", lease.fence));
        assert_eq!(store.ask(via, release("lock", "a", lease.fence)).1.pushes, []);
        granted_over(&mut store, via, try_acquire("lock", "b"));
        assert_eq!(store.ask(via, cancel("lock", "b")).1.pushes, []);
    }
}

/// Two processes renew one lease in turn: whichever ends it, and whoever else does, both know.
#[test]
fn the_two_that_renew_a_lease_over_sockets_are_both_told_of_its_end() {
    let (one, other) = (Connection(1), Connection(2));
    let shared = |store: &mut Store<InMemory>| {
        let lease = granted_over(store, Some(one), try_acquire("lock", "a"));
        for via in [other, one, other, one] {
            let turn = store.ask(Some(via), renew("lock", "a", lease.fence)).1;
            assert_eq!(turn.pushes, [], "nobody has lost anything");
        }
        lease
    };
    let mut store = Store::in_memory();
    let lease = shared(&mut store);
    let turn = store.ask(Some(one), release("lock", "a", lease.fence)).1;
    assert_eq!(turn.pushes, [(other, ended(&lease, Lost::Released))]);
    let mut store = Store::in_memory();
    let lease = shared(&mut store);
    let turn = store.ask(None, revoke("lock")).1;
    assert_eq!(turn.pushes, [one, other].map(|told| (told, ended(&lease, Lost::Revoked))));
    // A client that is back over another socket is told there, and once.
    let mut store = Store::in_memory();
    let lease = granted_over(&mut store, Some(one), try_acquire("lock", "a"));
    store.ask(None, renew("lock", "a", lease.fence));
    store.ask(Some(one), renew("lock", "a", lease.fence));
    assert_eq!(store.ask(None, revoke("lock")).1.pushes, [(one, ended(&lease, Lost::Revoked))]);
}

#[test]
fn a_watcher_is_told_of_every_change_of_its_locks_and_of_no_other() {
    let mut store = Store::in_memory();
    let watcher = Connection(9);
    let watch = |prefix: &str| Watch { prefix: prefix.into() };
    assert_eq!(store.reply(Request::Watch(watch("a/"))), Reply::Refused(Refusal::NeedsSocket));
    let (reply, _) = store.ask(Some(watcher), Request::Watch(watch("a/")));
    assert_eq!(reply, Some(Reply::Watching { locks: vec![], cursor: None }));
    let changes = |turn: leasehold::service::Turn| -> Vec<(Change, usize, usize)> {
        let change = |(connection, push): (Connection, Push)| match push {
            Push::Changed { change, now, .. } if connection == watcher => Some((change, now.holders.len(), now.queue)),
            _ => None,
        };
        turn.pushes.into_iter().filter_map(change).collect()
    };
    let (reply, turn) = store.ask(None, try_acquire("a/1", "x"));
    let Some(Reply::Granted { lease, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(changes(turn), [(Change::Acquired, 1, 0)]);
    assert_eq!(changes(store.ask(None, try_acquire("b/1", "x")).1), []);
    assert_eq!(changes(store.ask(None, wait_for("a/1", "y")).1), [(Change::Queued, 1, 1)]);
    let turn = store.ask(None, release("a/1", "x", lease.fence)).1;
    assert_eq!(changes(turn), [(Change::Released, 1, 0), (Change::Acquired, 1, 0)]);
    store.now += 5_000;
    assert_eq!(changes(store.tick()), [(Change::Expired, 0, 0)]);
    store.ask(Some(watcher), Request::Unwatch(watch("a/")));
    assert_eq!(changes(store.ask(None, try_acquire("a/1", "z")).1), []);
}
