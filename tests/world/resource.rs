//! What the locks protect: a number each, which every holder reads and writes back larger by one. The resource refuses a
//! fence that is older than one it has seen, when it is read, too; that is all it knows of leases.

use std::collections::HashMap;

use leasehold::types::{Fence, Name};

use super::rule::holds;

#[derive(Default)]
pub struct Resource {
    cells: HashMap<Name, Cell>,
}

#[derive(Default)]
struct Cell {
    seen: Option<Fence>,
    value: u64,
}

#[derive(Debug, Clone, Copy)]
pub enum Work {
    Read,
    /// Writes one more than what was read.
    Write {
        read: u64,
    },
}

/// The fence is older than one that was here before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

impl Resource {
    /// The number, as it is afterwards.
    pub fn work(&mut self, lock: &Name, fence: Fence, work: Work) -> Result<u64, Refused> {
        let cell = self.cells.entry(lock.clone()).or_default();
        if cell.seen.is_some_and(|seen| fence < seen) {
            return Err(Refused);
        }
        cell.seen = Some(fence);
        if let Work::Write { read } = work {
            // What the fence is for: however long a holder slept, it writes over nobody's work.
            holds!(Fence, read == cell.value, "fence {} wrote over what another holder wrote", fence.value());
            cell.value = read + 1;
        }
        Ok(cell.value)
    }
}
