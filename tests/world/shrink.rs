//! The shortest history found that breaks the same rule: with fewer people, fewer kinds of faults, fewer faults, and of
//! other seeds that go wrong likewise.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::rule::{Rule, Violation};
use super::setting::Setting;
use super::{Counts, World};

/// Seeds that are tried in the simplest setting found.
const OTHER_SEEDS: u64 = 400;

thread_local! {
    /// Where the last panic of this thread was, and what it said.
    static PANICKED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A history that breaks a rule.
pub struct Failure {
    pub setting: Setting,
    pub violation: Violation,
    pub story: Vec<String>,
    faults: u64,
}

/// Lives a world. A panic that is no violation of ours is one of rule 14.
pub fn try_out(setting: &Setting) -> Result<Counts, Violation> {
    lived(World::new(setting.clone())).0
}

fn lived(mut world: World) -> (Result<Counts, Violation>, World) {
    static QUIET: Once = Once::new();
    QUIET.call_once(keep_panics);
    let lived = catch_unwind(AssertUnwindSafe(|| world.live()));
    let outcome = lived.map(|()| world.counts().clone()).map_err(|payload| match payload.downcast::<Violation>() {
        Ok(violation) => *violation,
        Err(_) => Violation { rule: Rule::NoPanic, what: PANICKED.take() },
    });
    (outcome, world)
}

/// What worlds end with is told once, by whoever lives them; what else panics, as ever.
fn keep_panics() {
    let before = take_hook();
    set_hook(Box::new(move |info| {
        if info.payload().is::<Violation>() {
            return;
        }
        PANICKED.set(info.to_string());
        if std::thread::current().name().is_none_or(|name| name != super::QUIET_THREAD) {
            before(info);
        }
    }));
}

/// The history of a setting, line by line, and what it ends with where a rule is broken.
pub fn tell(setting: &Setting) -> (Vec<String>, Option<Violation>) {
    let (outcome, mut world) = lived(World::new(setting.clone()).telling());
    (world.story(), outcome.err())
}

/// The history of a setting that breaks a rule.
fn failure(setting: &Setting) -> Option<Failure> {
    let (outcome, mut world) = lived(World::new(setting.clone()).telling());
    let faults = world.counts().faults();
    let violation = outcome.err()?;
    Some(Failure { setting: setting.clone(), violation, story: world.story(), faults })
}

/// Shorter and shorter, for as long as there is something to leave out.
pub fn shrink(setting: &Setting) -> Option<Failure> {
    let mut best = failure(setting)?;
    loop {
        let rule = best.violation.rule;
        let shorter = |setting: &Setting| {
            failure(setting).filter(|found| {
                found.violation.rule == rule && (found.story.len(), found.faults) < (best.story.len(), best.faults)
            })
        };
        let found = simpler(&best.setting, best.faults).iter().find_map(shorter).or_else(|| {
            let other = |seed| Setting { seed, spared: Default::default(), ..best.setting.clone() };
            let all = (0..OTHER_SEEDS).filter_map(|seed| shorter(&other(seed)));
            all.min_by_key(|found| found.story.len())
        });
        match found {
            Some(found) => best = found,
            None => return Some(best),
        }
    }
}

fn simpler(setting: &Setting, faults: u64) -> Vec<Setting> {
    let mut all: Vec<Setting> = setting.kinds().map(|kind| setting.without(kind)).collect();
    for (clients, locks, asks) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
        let fewer = |count: u64, less: u64| count.saturating_sub(less).max(1);
        all.push(Setting {
            clients: fewer(setting.clients, clients),
            locks: fewer(setting.locks, locks),
            asks: fewer(setting.asks, asks),
            ..setting.clone()
        });
    }
    all.push(Setting { is_long: false, ..setting.clone() });
    for fault in 1..=faults.min(200) {
        if !setting.spared.contains(&fault) {
            let mut spared = setting.spared.clone();
            spared.insert(fault);
            all.push(Setting { spared, ..setting.clone() });
        }
    }
    all
}
