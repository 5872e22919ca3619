//! What a command costs by how many locks a space has, and how many wait for one of them.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use leasehold_bench_engine::{Queue, Space};

const LOCKS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// The queue of a lock has at most this many.
const WAITERS: [usize; 4] = [10, 100, 1_000, 9_999];

fn locks(criterion: &mut Criterion) {
    for count in LOCKS {
        let (mut space, held) = Space::with_locks(count).expect("a space with locks");
        criterion.bench_function(&format!("cycle {count}"), |bencher| {
            bencher.iter(|| space.cycle().expect("a free lock"));
        });
        // From lock to lock in no order that a cache could guess.
        let mut at = 0;
        criterion.bench_function(&format!("renew {count}"), |bencher| {
            bencher.iter(|| {
                at = (at + 618_033_989) % held.len();
                let (lock, renew) = &held[at];
                space.renew(lock, renew).expect("a held lock")
            });
        });
    }
}

fn waiters(criterion: &mut Criterion) {
    for count in WAITERS {
        let mut queue = Queue::with_waiters(count).expect("a queue");
        criterion.bench_function(&format!("hand-off {count}"), |bencher| {
            bencher.iter(|| queue.hand_off().expect("a waiter"));
        });
    }
}

criterion_group! {
    name = engine;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .without_plots();
    targets = locks, waiters
}
criterion_main!(engine);
