//! What a seed makes of a world: who lives in it, and what can go wrong.

use std::collections::HashSet;

use leasehold::types::Ms;

use crate::support::dice::Dice;

/// Something that can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Messages are lost.
    Loss,
    /// Messages are seconds late, and so overtake each other.
    Lateness,
    /// Messages arrive twice.
    Repetition,
    /// A client does nothing for a while, and its clock runs on.
    Pause,
    /// A client does nothing for a while, and its clock stands still: nobody can tell it how long it slept.
    Sleep,
    /// A client is killed.
    Death,
    /// A client's line to the store is cut.
    CutOff,
    /// Clocks run at different rates, as far apart as the margin allows.
    Drift,
    /// A client's clock leaps ahead.
    Leap,
    /// The store's host sets its clock back.
    SetBack,
    /// The store's host sets its clock ahead.
    SetAhead,
    /// The store's object is evicted, and starts again.
    Eviction,
    /// The store dies after a commit, before it replies.
    Crash,
    /// A commit fails, or succeeds without the store's knowing.
    FailedFlush,
    /// The store is replaced, and messages still reach the instance that was.
    Replacement,
    /// The store that starts may be that of the first version.
    OldCode,
    LateAlarm,
    NoAlarm,
    /// The storage is lost, and the fence counter with it.
    Wipe,
    /// Leases are revoked, or stolen.
    Force,
    /// Somebody asks with a token, a fence or a lock that do not belong together.
    Meddling,
    /// Two clients have the same token.
    SharedToken,
}

impl Kind {
    pub const ALL: [Self; 22] = [
        Self::Loss,
        Self::Lateness,
        Self::Repetition,
        Self::Pause,
        Self::Sleep,
        Self::Death,
        Self::CutOff,
        Self::Drift,
        Self::Leap,
        Self::SetBack,
        Self::SetAhead,
        Self::Eviction,
        Self::Crash,
        Self::FailedFlush,
        Self::Replacement,
        Self::OldCode,
        Self::LateAlarm,
        Self::NoAlarm,
        Self::Wipe,
        Self::Force,
        Self::Meddling,
        Self::SharedToken,
    ];

    /// One world in so many has it.
    fn rarity(self) -> u64 {
        match self {
            Self::Wipe => 12,
            Self::NoAlarm | Self::SetAhead | Self::Sleep | Self::SharedToken => 5,
            Self::SetBack | Self::Leap | Self::Death => 3,
            _ => 2,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Setting {
    pub seed: u64,
    pub clients: u64,
    pub locks: u64,
    /// The most leases that one client asks for.
    pub asks: u64,
    /// Leases are held, and waited for, for most of an hour: longer than a margin bears clocks that are taken to agree.
    pub is_long: bool,
    pub kinds: u32,
    /// The faults that do not happen all the same, by their numbers.
    pub spared: HashSet<u64>,
}

impl Setting {
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(!seed);
        let mut kinds = 0;
        // One in ten has only what no holder notices.
        let is_calm = dice.once_in(10);
        for kind in Kind::ALL {
            if dice.once_in(kind.rarity()) && (!is_calm || kind == Kind::Drift) {
                kinds |= 1 << kind as u32;
            }
        }
        // A storage that was lost knows no clock: the counter is above what it was only where the host's went on.
        if kinds & 1 << Kind::Wipe as u32 != 0 {
            kinds &= !(1 << Kind::SetBack as u32);
        }
        Self {
            seed,
            clients: dice.between(2, 5),
            locks: dice.between(1, 2),
            asks: dice.between(1, 3),
            is_long: dice.once_in(30),
            kinds,
            spared: HashSet::new(),
        }
    }

    /// From here on nothing goes wrong any more.
    pub fn calm_from(&self) -> Ms {
        if self.is_long { 3_000_000 } else { 60_000 }
    }

    pub fn has(&self, kind: Kind) -> bool {
        self.kinds & 1 << kind as u32 != 0
    }

    pub fn without(&self, kind: Kind) -> Self {
        Self { kinds: self.kinds & !(1 << kind as u32), ..self.clone() }
    }

    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| self.has(*kind))
    }

    /// Whether nothing goes wrong that a holder can notice.
    pub fn is_calm(&self) -> bool {
        self.kinds().all(|kind| kind == Kind::Drift)
    }
}
