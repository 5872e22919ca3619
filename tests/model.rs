//! Random histories of a space, carried out by the engine and by a plain model of the rules: every answer, every push
//! and every row must be the same, and what the rules promise must hold after every turn.
//!
//! `LEASEHOLD_HISTORIES=1000000 cargo test --test model` takes more of them, `LEASEHOLD_SECONDS` as many as there is time
//! for, `LEASEHOLD_SEED` always the same. A history that fails is shrunk, printed, and kept in
//! tests/model.proptest-regressions, which is committed and played first from then on.

mod support;

use std::cell::RefCell;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, RngAlgorithm, TestError, TestRng, TestRunner};
use support::dice::Dice;
use support::history::{Act, Counts, Story, World};
use support::limits::number;

/// Acts in one history, on average.
const LENGTH: usize = 160;

#[test]
fn engine_and_model_agree_on_random_histories() {
    let histories = number("LEASEHOLD_HISTORIES").unwrap_or(2_500);
    let seed = number("LEASEHOLD_SEED");
    let until = number("LEASEHOLD_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    // Shrinking fails a thousand times; only the shortest history is told of.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let counts = RefCell::new(Counts::default());
    let mut batches = 0;
    let result = loop {
        let result = compare(histories, seed.map(|seed| seed + batches), &counts);
        batches += 1;
        if result.is_err() || until.is_none_or(|until| until <= Instant::now()) {
            break result;
        }
    };
    std::panic::set_hook(hook);
    match result {
        Ok(()) => {}
        Err(TestError::Abort(reason)) => panic!("{reason}"),
        Err(TestError::Fail(reason, (locks, is_rush, acts))) => {
            println!("a history of {locks} locks, at its shortest:");
            World::new(locks, is_rush, Story::Told).live(&acts);
            panic!("it failed once, and not again: {reason}");
        }
    }
    let counts = counts.into_inner();
    println!("{counts:?}");
    // What never happens proves nothing.
    let Counts { acts, turns: _, granted, woken, pushed, lost, lapsed, restarts, crowded } = counts;
    assert!([granted, woken, pushed, lost, lapsed, restarts, crowded].iter().all(|count| *count > 0), "{counts:?}");
    println!("proof: {} histories of {acts} acts, {restarts} restarts, engine and model agree", histories * batches);
}

/// So many histories; those of a seed, or others every time.
fn compare(histories: u64, seed: Option<u64>, counts: &RefCell<Counts>) -> Result<(), TestError<(u8, bool, Vec<Act>)>> {
    let config = Config {
        cases: u32::try_from(histories).expect("so many histories are never over"),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        max_shrink_iters: 20_000,
        source_file: Some(file!()),
        ..Config::default()
    };
    let mut runner = match seed {
        None => TestRunner::new(config),
        Some(seed) => {
            let mut dice = Dice::new(seed);
            let bytes: Vec<u8> = (0..4).flat_map(|_| dice.roll().to_le_bytes()).collect();
            TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
        }
    };
    let history = (1..=4u8, prop::bool::weighted(0.2), prop::collection::vec(act(), 1..LENGTH * 2));
    runner.run(&history, |(locks, is_rush, acts)| {
        counts.borrow_mut().add(&World::new(locks, is_rush, Story::Untold).live(&acts));
        Ok(())
    })
}

fn act() -> impl Strategy<Value = Act> {
    let who = (0..4u8, 0..12u8, 0..12u8);
    let terms = (0..6u8, 0..7u8, 0..12u8, 0..16u8);
    (prop::bool::weighted(0.3), 0..22u8, 0..100u8, who, terms, 0..6u8).prop_map(
        |(joins, pause, kind, (lock, who, pick), (ttl, wait, mode, extra), via)| Act {
            joins,
            pause,
            kind,
            lock,
            who,
            pick,
            ttl,
            wait,
            mode,
            extra,
            via,
        },
    )
}
