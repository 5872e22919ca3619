//! Holders' sessions against the real engine over stored rows, and a resource behind the locks, in small worlds that are
//! each made from a seed. Whatever goes wrong in them, the rules hold: see `world/`.
//!
//! `LEASEHOLD_SEEDS=1000000 cargo test --release --test simulation` takes more seeds, `LEASEHOLD_SECONDS` as many as there
//! is time for, `LEASEHOLD_SEED` others than those from 0. `LEASEHOLD_STORY=n` tells what happens with seed n.

mod support;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::limits::number;
use world::setting::{Kind, Setting};
use world::shrink::{shrink, tell, try_out};
use world::{Counts, QUIET_THREAD, name_of};

const SEEDS: u64 = 12_000;

#[test]
fn the_rules_hold_whatever_goes_wrong() {
    if let Some(seed) = number("LEASEHOLD_STORY") {
        return tell_story(seed);
    }
    let lived = live_all();
    println!("{} seeds from {}: {:#?}", lived.seeds, lived.first, lived.counts.0);
    if let Some(seed) = lived.broken {
        fail(seed);
    }
    if lived.seeds >= SEEDS {
        everything_happened(&lived.counts);
    }
    println!("proof: {} worlds from seed {}, no rule broken", lived.seeds, lived.first);
}

struct Lived {
    first: u64,
    seeds: u64,
    counts: Counts,
    /// The first seed with which a rule was broken.
    broken: Option<u64>,
}

/// As many worlds as are wanted, on every processor.
fn live_all() -> Lived {
    let first = number("LEASEHOLD_SEED").unwrap_or(0);
    let until = number("LEASEHOLD_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let seeds = if until.is_some() { u64::MAX - first } else { number("LEASEHOLD_SEEDS").unwrap_or(SEEDS) };
    let (next, broken) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let all = Mutex::new((0, Counts::default()));
    let live = || {
        let (mut lived, mut counts) = (0, Counts::default());
        loop {
            let seed = first + next.fetch_add(1, Ordering::Relaxed);
            let is_late = until.is_some_and(|until| until <= Instant::now());
            if is_late || seed - first >= seeds || broken.load(Ordering::Relaxed) < seed {
                break;
            }
            lived += 1;
            match try_out(&Setting::of(seed)) {
                Ok(world) => counts.add(&world),
                Err(_) => {
                    broken.fetch_min(seed, Ordering::Relaxed);
                }
            }
        }
        let mut all = all.lock().expect("no thread panics");
        all.0 += lived;
        all.1.add(&counts);
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            let thread = thread::Builder::new().name(QUIET_THREAD.into());
            thread.spawn_scoped(scope, live).expect("a thread can be started");
        }
    });
    let (seeds, counts) = all.into_inner().expect("no thread panics");
    let broken = broken.into_inner();
    Lived { first, seeds, counts, broken: (broken < u64::MAX).then_some(broken) }
}

/// Says which rule, with which seed, and how in as few lines as can be found.
fn fail(seed: u64) -> ! {
    let setting = Setting::of(seed);
    let first = try_out(&setting).expect_err("a world is the same every time");
    println!("seed {seed} broke {first}");
    if number("LEASEHOLD_SHRINK") != Some(0) {
        let shortest = shrink(&setting).expect("a world is the same every time");
        println!("\nThe shortest history found, {} lines, of seed {}:\n", shortest.story.len(), shortest.setting.seed);
        println!("{}\n\n{}", shortest.story.join("\n"), shortest.violation);
    }
    panic!("seed {seed} broke {first} (LEASEHOLD_STORY={seed} tells it all)");
}

fn tell_story(seed: u64) {
    let setting = Setting::of(seed);
    let (story, violation) = tell(&setting);
    println!("{}\n\nAll that could go wrong: {:?}", story.join("\n"), setting.kinds().collect::<Vec<_>>());
    match violation {
        Some(violation) => panic!("seed {seed} broke {violation}"),
        None => println!("seed {seed} breaks no rule"),
    }
}

/// What never happens proves nothing.
fn everything_happened(counts: &Counts) {
    let outcomes = [
        "leases granted",
        "leases released",
        "leases lost",
        "asks refused",
        "asks timed out",
        "asks given up",
        "asks failed",
        "steals",
        "works done",
        "late works refused",
    ];
    let faults = Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Drift | Kind::SharedToken)).map(name_of);
    for what in faults.chain(outcomes) {
        assert!(counts.0.get(what).is_some_and(|count| *count > 0), "there were no {what}");
    }
}
