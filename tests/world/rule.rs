//! The rules of the design, by number and name, and how a world says that one was broken.

use std::fmt;
use std::panic::panic_any;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    Exclusion = 1,
    Fence,
    Expiry,
    Time,
    Guard,
    Idempotence,
    Queue,
    Waiting,
    StoreThenSpeak,
    Truth,
    ReleaseWins,
    Limits,
    /// Is about inputs, which no world has wrong: see tests/wire.rs.
    #[allow(dead_code, reason = "the list is whole")]
    Bounded,
    NoPanic,
    /// No rule of the list: once the faults end, every waiter is granted or told no, and every lock becomes free.
    Liveness,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Exclusion => "exclusion",
            Self::Fence => "fence",
            Self::Expiry => "expiry is a comparison",
            Self::Time => "time",
            Self::Guard => "guard",
            Self::Idempotence => "idempotence",
            Self::Queue => "queue",
            Self::Waiting => "waiting is bounded",
            Self::StoreThenSpeak => "store, then speak",
            Self::Truth => "the holder is told the truth",
            Self::ReleaseWins => "renewal and release never race",
            Self::Limits => "limits on a holder",
            Self::Bounded => "bounded",
            Self::NoPanic => "no panic",
            Self::Liveness => return f.write_str("liveness"),
        };
        write!(f, "rule {}, {name}", *self as u8)
    }
}

/// A rule that was broken, and how.
#[derive(Debug, Clone)]
pub struct Violation {
    pub rule: Rule,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Ends the world.
pub fn broken(rule: Rule, what: String) -> ! {
    panic_any(Violation { rule, what })
}

/// `holds!(Queue, condition, "what is wrong where it does not hold")`
macro_rules! holds {
    ($rule:ident, $condition:expr, $($what:tt)+) => {
        if !$condition {
            $crate::world::rule::broken($crate::world::rule::Rule::$rule, format!($($what)+))
        }
    };
}
pub(crate) use holds;
