//! Bytes as a history of a space, for the engine and the model beside it: the first byte is the kind of history, and each
//! eleven after it are something that happens.

use crate::support::history::{Act, Story, World};

/// Longer histories find no more, and take long.
const LONGEST: usize = 120;

pub fn run(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let acts: Vec<Act> = bytes.chunks_exact(11).take(LONGEST).map(act).collect();
    World::new(kind % 4 + 1, kind >= 0x80, Story::Untold).live(&acts);
}

fn act(bytes: &[u8]) -> Act {
    let of = |at: usize, choices: u8| bytes[at] % choices;
    Act {
        joins: of(0, 10) < 3,
        pause: of(1, 22),
        kind: of(2, 100),
        lock: of(3, 4),
        who: of(4, 12),
        pick: of(5, 12),
        ttl: of(6, 6),
        wait: of(7, 7),
        mode: of(8, 12),
        extra: of(9, 16),
        via: of(10, 6),
    }
}
