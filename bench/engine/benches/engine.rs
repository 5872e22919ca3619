//! What a command costs by how many locks a space has, and how many wait for one of them.

use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use leasehold_bench_engine::{Names, Queue, Space, scattered};

const LOCKS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// The queue of a lock has at most this many.
const WAITERS: [usize; 4] = [10, 100, 1_000, 9_999];
/// Commands of a turn.
const TURN: u64 = 64;

fn locks(criterion: &mut Criterion) {
    for count in LOCKS {
        let (mut space, held) = Space::with_locks(count).expect("a space with locks");
        criterion.bench_function(&format!("cycle {count}"), |bencher| {
            bencher.iter(|| space.cycle().expect("a free lock"));
        });
        // The commands of a turn are read, then carried out.
        let turn = BatchSize::NumIterations(TURN);
        let mut numbers = scattered(count);
        let mut number = || numbers.next().expect("a number");
        criterion.bench_function(&format!("renew {count}"), |bencher| {
            bencher.iter_batched_ref(
                || held.renewal(number()).expect("a renewal"),
                |(lock, renew)| space.renew(lock, renew).expect("a held lock"),
                turn,
            );
        });
        let names = Names::new(count).expect("names");
        criterion.bench_function(&format!("look-up {count}"), |bencher| {
            bencher.iter_batched_ref(
                || Names::name(number()).expect("a name"),
                |name| names.look_up(name).expect("a number"),
                turn,
            );
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
