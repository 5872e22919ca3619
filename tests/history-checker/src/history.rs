//! What clients saw, as they wrote it down.

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Context, Result};
use serde::Deserialize;

/// Microseconds of one monotonic clock that all clients share.
pub type Micros = u64;
pub type Fence = u64;

/// An answer outlives the history where there was none.
pub const NEVER: Micros = u64::MAX;

/// One call and what came of it. It took effect, if at all, at an instant between the two times.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub lock: String,
    pub called_at: Micros,
    pub answered_at: Micros,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum What {
    /// An acquire was granted. What was left of the lease is counted from the attempt that was answered.
    Granted {
        fence: Fence,
        limit: Option<usize>,
        sent_at: Micros,
        expires_in_ms: u64,
        /// It ended the leases that there were.
        #[serde(default)]
        steal: bool,
    },
    /// The same by a client that renews by itself, so that nobody knows when the lease ends at the latest.
    Kept {
        fence: Fence,
        limit: Option<usize>,
        ttl_ms: u64,
        #[serde(default)]
        steal: bool,
    },
    /// An acquire that was given up: it may have been granted, and `ask` is what its holder would be seen with.
    Abandoned {
        ask: String,
        limit: Option<usize>,
        #[serde(default)]
        steal: bool,
    },
    /// A refusal or an inspection, which name all who hold.
    Seen {
        holders: Vec<Seen>,
    },
    Renewed {
        fence: Fence,
        expires_in_ms: u64,
    },
    Released {
        fence: Fence,
    },
    /// Somebody else ended it.
    Revoked {
        fence: Fence,
    },
    /// Renew, release or revoke answered that the lease is over.
    Lost {
        fence: Fence,
    },
    /// A renewal of which nothing was heard: from the call on it may have been carried out. That only widens what is
    /// possible, so that both times of it are those of the call.
    PerhapsRenewed {
        fence: Fence,
    },
    /// The same of a release.
    PerhapsReleased {
        fence: Fence,
    },
    /// The same of a revocation.
    PerhapsRevoked {
        fence: Fence,
    },
    /// The holder was asked, and believed that it holds.
    Believed {
        fence: Fence,
    },
}

/// A holder as others see it.
#[derive(Debug, Clone, Deserialize)]
pub struct Seen {
    pub fence: Fence,
    pub ask: String,
}

#[derive(Debug, Clone)]
pub struct History {
    pub events: Vec<Event>,
}

impl History {
    /// Reads a JSON object per line, and finds out which abandoned acquires were granted all the same.
    pub fn read(text: &str) -> Result<Self> {
        let events = text
            .lines()
            .enumerate()
            .map(|(at, line)| serde_json::from_str(line).with_context(|| format!("line {}", at + 1)))
            .collect::<Result<Vec<Event>>>()?;
        Ok(Self { events: settle(events) })
    }

    pub fn locks(&self) -> BTreeSet<&str> {
        self.events.iter().map(|event| event.lock.as_str()).collect()
    }

    pub fn of<'a>(&'a self, lock: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |event| event.lock == lock)
    }
}

impl Event {
    /// The fence, where the event is the grant of one.
    pub fn grants(&self) -> Option<Fence> {
        match self.what {
            What::Granted { fence, .. } | What::Kept { fence, .. } => Some(fence),
            _ => None,
        }
    }
}

/// An abandoned acquire whose lease somebody saw becomes one that was granted, and perhaps given back at once. One that
/// nobody saw has kept nobody out, and is nothing, unless it may have ended somebody's lease.
fn settle(events: Vec<Event>) -> Vec<Event> {
    let known: HashSet<Fence> = events.iter().filter_map(Event::grants).collect();
    let seen: HashMap<String, Fence> = events
        .iter()
        .filter_map(|event| match &event.what {
            What::Seen { holders } => Some(holders),
            _ => None,
        })
        .flatten()
        .filter(|holder| !known.contains(&holder.fence))
        .map(|holder| (holder.ask.clone(), holder.fence))
        .collect();
    let settled = |event: Event| match &event.what {
        What::Abandoned { ask, limit, steal } => match seen.get(ask) {
            Some(fence) => {
                Some(Event { what: What::Kept { fence: *fence, limit: *limit, ttl_ms: 0, steal: *steal }, ..event })
            }
            None => steal.then_some(event),
        },
        _ => Some(event),
    };
    events.into_iter().filter_map(settled).collect()
}
