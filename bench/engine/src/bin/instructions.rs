//! The same work as the benchmark's, so often and no more: for `valgrind --tool=callgrind`, which counts what it executes
//! between the call of [`counted`] and its end.
//!
//! `instructions (cycle|renew|hand-off) <size> <times>`

use std::env;
use std::hint::black_box;

use leasehold_bench_engine::{Queue, Space, Trouble, scattered};

fn main() -> Result<(), Trouble> {
    let words: Vec<String> = env::args().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok()).expect("a number");
    let (work, size, times) = (words.get(1).map(String::as_str), number(2), number(3));
    match work {
        Some("hand-off") => {
            let mut queue = Queue::with_waiters(size)?;
            counted(times, &mut |_| queue.hand_off())
        }
        Some("renew") => {
            let (mut space, held) = Space::with_locks(size)?;
            let renewals =
                scattered(size).take(times).map(|number| held.renewal(number)).collect::<Result<Vec<_>, _>>()?;
            counted(times, &mut |at| {
                let (lock, renew) = &renewals[at];
                space.renew(lock, renew)
            })
        }
        _ => {
            let (mut space, _) = Space::with_locks(size)?;
            counted(times, &mut |_| space.cycle())
        }
    }
}

/// By this name callgrind knows when to count.
#[unsafe(no_mangle)]
#[inline(never)]
fn counted(times: usize, work: &mut dyn FnMut(usize) -> Result<(), Trouble>) -> Result<(), Trouble> {
    (0..times).try_for_each(|at| black_box(&mut *work)(at))
}
