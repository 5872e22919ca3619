//! What can be asked of a space and what it answers, as data.

use crate::types::{
    ClientId, Fence, Info, LockDelay, MaxHold, Mode, Ms, Name, Note, PageSize, RequestId, Token, Ttl, Wait,
};

/// Something asked of a space.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Lock {
        lock: Name,
        command: Command,
    },
    List(List),
    /// The first page of a list, and from then on every change of the locks with that prefix. Over a socket only.
    Watch(Watch),
    /// No more changes for that prefix.
    Unwatch(Watch),
}

/// Something asked about one lock.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Acquire(Acquire),
    Renew(Renew),
    Release(Release),
    Cancel(Cancel),
    Inspect,
    Revoke(Revoke),
}

/// Asks for a lease. Repeated with the same token and requestId it is the same ask.
#[derive(Debug, Clone, PartialEq)]
pub struct Acquire {
    pub terms: Terms,
    /// How long this ask may wait in the queue.
    pub wait: Wait,
    pub entry: Entrance,
}

/// How a newcomer enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entrance {
    /// Behind everybody who waits.
    Queue,
    /// At once, ending every live lease of the lock. Exclusive only.
    Steal,
}

/// What is asked for and by whom: kept with the place in the queue and with the lease.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    pub token: Token,
    pub request_id: RequestId,
    pub mode: Mode,
    pub ttl: Ttl,
    pub max_hold: Option<MaxHold>,
    pub lock_delay: LockDelay,
    pub client_id: Option<ClientId>,
    pub info: Option<Info>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Renew {
    pub token: Token,
    pub fence: Fence,
    /// The lease's length from now on; as before when absent.
    pub ttl: Option<Ttl>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    pub token: Token,
    pub fence: Fence,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cancel {
    pub token: Token,
    pub request_id: RequestId,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Revoke {
    /// Every live lease of the lock when absent.
    pub fence: Option<Fence>,
    pub reason: Option<Note>,
}

/// A page of the locks whose names start with `prefix`, in byte order, after `cursor`.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    pub prefix: String,
    pub cursor: Option<Name>,
    pub page_size: PageSize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    pub prefix: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Granted {
        lease: Lease,
        waited: Ms,
    },
    /// Somebody else has it. Shows at most [`HOLDERS_SHOWN`] holders.
    Held {
        holders: Vec<Holder>,
        queue: usize,
        retry_after: Ms,
    },
    /// The ask ended, the place is kept: ask again with the same requestId.
    Waiting {
        position: usize,
        retry_after: Ms,
    },
    Renewed {
        lease: Lease,
    },
    Lost {
        reason: Lost,
    },
    Released,
    Cancelled,
    Inspected {
        lock: Name,
        holders: Vec<Holder>,
        waiters: Vec<Waiter>,
    },
    Listed {
        locks: Vec<Summary>,
        cursor: Option<Name>,
    },
    Revoked {
        count: usize,
    },
    Watching {
        locks: Vec<Summary>,
        cursor: Option<Name>,
    },
    Unwatched,
    Refused(Refusal),
}

/// How many holders a refusal or a list shows of one lock.
pub const HOLDERS_SHOWN: usize = 10;

/// How many holders, and how many waiters, an inspection shows.
pub const INSPECTED: usize = 10_000;

/// A lease as its holder sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    pub lock: Name,
    pub token: Token,
    pub fence: Fence,
    pub mode: Mode,
    pub ttl: Ttl,
    pub expires_in: Ms,
    /// For display: decisions use `expires_in`.
    pub expires_at: Ms,
}

/// A lease as others see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Holder {
    pub fence: Fence,
    pub mode: Mode,
    pub client_id: Option<ClientId>,
    pub info: Option<Info>,
    pub held: Ms,
    pub expires_in: Ms,
}

/// A place in the queue as others see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiter {
    pub mode: Mode,
    pub client_id: Option<ClientId>,
    pub info: Option<Info>,
    pub waited: Ms,
}

/// A lock in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub lock: Name,
    pub holders: Vec<Holder>,
    pub queue: usize,
}

/// What a socket is told without having asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Push {
    /// The ask that waited has its lease.
    Granted { request_id: RequestId, lease: Lease, waited: Ms },
    /// A lease was ended by somebody else.
    Ended { lock: Name, fence: Fence, reason: Lost },
    /// A watched lock changed: how, and what it is now.
    Changed { change: Change, fence: Option<Fence>, now: Summary },
}

/// How a lock changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Acquired,
    Released,
    Expired,
    Revoked,
    Stolen,
    Queued,
    Left,
}

/// Why a token and fence no longer hold the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Expired,
    Released,
    Revoked,
    Stolen,
    /// The store does not know this lease, or no longer.
    Unknown,
}

/// A command that was not carried out. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Invalid {
        field: String,
        expected: &'static str,
    },
    TooLarge {
        expected: &'static str,
    },
    QueueFull,
    LimitMismatch,
    /// The store could not make it durable. Whether it happened is unknown until asked again.
    Unavailable,
    NotFound,
    /// Asked for by other means than a socket, which alone can be told of changes.
    NeedsSocket,
    /// A socket is what this address opens, and no socket was asked for.
    UpgradeRequired,
    MethodNotAllowed,
    UnsupportedMediaType,
    AddressTooLong,
    HeadersTooLarge,
    /// The body did not come in time.
    TooSlow,
    /// The space has as many locks, or entries of locks, as it may; those it has go on.
    SpaceFull,
    /// More at once, or more often, than one client may ask.
    TooMany,
    /// No key, or none that is known.
    Unauthorized,
    /// The key does not have this right in this space.
    Forbidden {
        right: &'static str,
    },
    /// A web page of an origin that is not on the list asks.
    ForeignOrigin,
    /// Keys, origins or bounds that cannot be read: nobody is let in.
    Misconfigured,
    /// Neither keys nor the word that none are wanted: nobody is let in.
    NotConfigured,
}
