//! All locks of a space: in memory, written through to a storage port.
//!
//! The ledger keeps what the rules are about (locks, the fence counter, the clock) and knows which rows a turn touched.
//! What may happen to them is the engine's to say.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::command::Lost;
use crate::lock::{Entry, Lock, Place, State};
use crate::types::{Connection, Fence, Ms, Name, RequestId, Token};

/// Where entries are kept: one row an entry, keyed by lock and place, and one row for the space.
pub trait Storage {
    /// What the space's own row says, and the latest instant that any row was written at.
    fn start(&mut self) -> Result<Start, Fault>;

    /// Every row of one lock, read with [`record::read`](crate::record::read).
    fn load(&mut self, lock: &Name) -> Result<Vec<Entry>, Fault>;

    /// The names after `after` that start with `prefix`, in byte order, at most `count` of them; `None` where nothing
    /// is stored and memory is to be asked.
    fn names(&mut self, prefix: &str, after: Option<&Name>, count: usize) -> Result<Option<Vec<Name>>, Fault>;

    /// Reads a row. Where another instance has taken over the storage this fails, and stale memory answers nobody.
    fn probe(&mut self) -> Result<(), Fault>;

    /// Makes one turn's changes durable, all of them or none.
    fn write(&mut self, changes: &[Change<'_>], reserved: Option<Reserved>) -> Result<(), Fault>;
}

/// What a storage knows before any lock is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Start {
    /// No fence above it was ever given.
    pub fence: u64,
    /// No row was written at a later instant.
    pub clock: Ms,
}

/// One row to be written with [`record::write`](crate::record::write), or to be deleted where there is no entry.
#[derive(Debug)]
pub struct Change<'a> {
    pub lock: &'a Name,
    pub place: Place,
    pub entry: Option<&'a Entry>,
    pub at: Ms,
}

/// The space's row: fences up to `fence` may be given without writing it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    pub fence: u64,
    pub at: Ms,
}

/// The storage failed, or holds what cannot be read. Memory may be ahead of it: start anew from storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(pub String);

/// Fences reserved at a time: one row written for as many grants. Those not given when the space restarts are gaps.
const RESERVE: u64 = 4_096;

/// Locks read at once where all of them are needed.
const LOADED_AT_ONCE: usize = 4_096;

/// No storage: what is in memory is all there is.
#[derive(Debug, Default)]
pub struct InMemory;

impl Storage for InMemory {
    fn start(&mut self) -> Result<Start, Fault> {
        Ok(Start::default())
    }

    fn load(&mut self, _: &Name) -> Result<Vec<Entry>, Fault> {
        Ok(Vec::new())
    }

    fn names(&mut self, _: &str, _: Option<&Name>, _: usize) -> Result<Option<Vec<Name>>, Fault> {
        Ok(None)
    }

    fn probe(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn write(&mut self, _: &[Change<'_>], _: Option<Reserved>) -> Result<(), Fault> {
        Ok(())
    }
}

pub struct Ledger<S> {
    storage: S,
    locks: HashMap<Name, Kept>,
    /// The locks by the instants they are armed at.
    due: BTreeSet<(Ms, Name)>,
    journal: Journal,
    waiters: Waiters,
    clock: Clock,
    loaded: Loaded,
}

#[derive(Default)]
struct Kept {
    lock: Lock,
    /// An instant not later than the next at which something happens to the lock by itself.
    armed_at: Option<Ms>,
}

/// How much of the storage is in memory. A lock beyond it is read when it is asked for.
enum Loaded {
    UpTo(Option<Name>),
    All,
}

/// A lock that is being worked on, and where its changes are noted.
pub struct Open<'a> {
    pub name: &'a Name,
    pub lock: &'a mut Lock,
    pub journal: &'a mut Journal,
    waiters: &'a mut Waiters,
}

impl<S: Storage> Ledger<S> {
    /// `fence_floor`: no fence below it will be given, whatever the storage says.
    pub fn start(mut storage: S, fence_floor: u64) -> Result<Self, Fault> {
        let start = storage.start()?;
        Ok(Self {
            storage,
            locks: HashMap::new(),
            due: BTreeSet::new(),
            journal: Journal {
                rows: BTreeMap::new(),
                fence: start.fence,
                fence_floor,
                reserved: start.fence,
                gone: Gone::default(),
            },
            waiters: Waiters::default(),
            clock: Clock { ahead: 0, latest: start.clock },
            loaded: Loaded::UpTo(None),
        })
    }

    /// The space's clock when the host's says `host_now`: it never runs back.
    pub fn now(&mut self, host_now: Ms) -> Ms {
        self.clock.now(host_now)
    }

    /// The lock of that name, free if there is none. [`close`](Self::close) it after work on it.
    pub fn open<'a>(&'a mut self, name: &'a Name) -> Result<Open<'a>, Fault> {
        let kept = match self.locks.entry(name.clone()) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                let mut kept = Kept::default();
                if !self.loaded.covers(name) {
                    for entry in self.storage.load(name)? {
                        self.waiters.note(name, None, Some(&entry));
                        kept.lock.put(entry);
                    }
                }
                slot.insert(kept)
            }
        };
        Ok(Open { name, lock: &mut kept.lock, journal: &mut self.journal, waiters: &mut self.waiters })
    }

    /// Notes when the lock is next due, and forgets it when it is free.
    pub fn close(&mut self, name: &Name, now: Ms) {
        let Some(kept) = self.locks.get_mut(name) else { return };
        let due_at = kept.lock.due_at(now);
        // An instant too early costs one look; moving it with every renewal would cost more.
        let stays = matches!((kept.armed_at, due_at), (Some(armed_at), Some(due_at)) if armed_at <= due_at);
        if !stays {
            if let Some(at) = kept.armed_at {
                self.due.remove(&(at, name.clone()));
            }
            if let Some(at) = due_at {
                self.due.insert((at, name.clone()));
            }
            kept.armed_at = due_at;
        }
        if due_at.is_none() {
            self.locks.remove(name);
        }
    }

    /// A lock at which something may be due, taken off the list until it is closed again.
    pub fn take_due(&mut self, now: Ms) -> Option<Name> {
        if self.next_due()? > now {
            return None;
        }
        let (_, name) = self.due.pop_first()?;
        if let Some(kept) = self.locks.get_mut(&name) {
            kept.armed_at = None;
        }
        Some(name)
    }

    /// The first instant at which a lock in memory may be due.
    pub fn next_due(&self) -> Option<Ms> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Reads `count` more locks into memory; false when all are there. Only after a [`flush`](Self::flush).
    pub fn load_more(&mut self, count: usize, now: Ms) -> Result<bool, Fault> {
        let Loaded::UpTo(after) = &self.loaded else { return Ok(false) };
        let names = self.storage.names("", after.as_ref(), count)?.unwrap_or_default();
        for name in &names {
            self.open(name)?;
            self.close(name, now);
        }
        self.loaded = match names.last() {
            Some(last) if names.len() == count => Loaded::UpTo(Some(last.clone())),
            _ => Loaded::All,
        };
        Ok(matches!(self.loaded, Loaded::UpTo(_)))
    }

    /// The places in queues that a connection asked for. Reads the rest of the storage if it has to; only after a
    /// [`flush`](Self::flush).
    pub fn waiters_of(&mut self, connection: Connection, now: Ms) -> Result<Vec<(Name, Place)>, Fault> {
        while self.load_more(LOADED_AT_ONCE, now)? {}
        Ok(self.waiters.0.get(&connection).into_iter().flatten().cloned().collect())
    }

    /// The names after `after` that start with `prefix`, in byte order. Only after a [`flush`](Self::flush).
    pub fn names(&mut self, prefix: &str, after: Option<&Name>, count: usize) -> Result<Vec<Name>, Fault> {
        if let Some(names) = self.storage.names(prefix, after, count)? {
            return Ok(names);
        }
        let mut names: Vec<_> = self
            .locks
            .keys()
            .filter(|name| name.as_str().starts_with(prefix) && after.is_none_or(|after| *name > after))
            .collect();
        names.sort_unstable();
        names.truncate(count);
        Ok(names.into_iter().cloned().collect())
    }

    /// See [`Storage::probe`].
    pub fn probe(&mut self) -> Result<(), Fault> {
        self.storage.probe()
    }

    /// Makes everything that was done durable. After a fault the ledger is ahead of its storage: drop it.
    pub fn flush(&mut self, now: Ms) -> Result<Flushed, Fault> {
        let reserved = self.journal.reserve(now);
        let rows = std::mem::take(&mut self.journal.rows);
        if rows.is_empty() && reserved.is_none() {
            return Ok(Flushed::Nothing);
        }
        for (lock, place) in rows.keys() {
            if let Some(kept) = self.locks.get_mut(lock) {
                kept.lock.mark_stored(*place);
            }
        }
        let locks = &self.locks;
        let entry = |lock, place| locks.get(lock).and_then(|kept| kept.lock.entry(place));
        let changes: Vec<_> = rows
            .keys()
            .map(|(lock, place)| Change { lock, place: *place, entry: entry(lock, *place), at: now })
            .collect();
        self.storage.write(&changes, reserved)?;
        Ok(Flushed::Rows(changes.len() + usize::from(reserved.is_some())))
    }
}

/// What a flush wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    Nothing,
    Rows(usize),
}

impl Loaded {
    fn covers(&self, name: &Name) -> bool {
        match self {
            Loaded::All => true,
            Loaded::UpTo(last) => last.as_ref().is_some_and(|last| name <= last),
        }
    }
}

impl Open<'_> {
    pub fn put(&mut self, entry: Entry) {
        self.journal.note_put(self.name, &entry);
        self.put_unwritten(entry);
    }

    /// Changes an entry in memory only: what it becomes follows from what is stored and the clock.
    pub fn put_unwritten(&mut self, entry: Entry) {
        self.waiters.note(self.name, self.lock.entry(entry.place), Some(&entry));
        self.lock.put(entry);
    }

    pub fn remove(&mut self, place: Place) -> Option<Entry> {
        let entry = self.lock.remove(place)?;
        self.waiters.note(self.name, Some(&entry), None);
        self.journal.note_removed(self.name, &entry);
        Some(entry)
    }
}

/// What a turn has to write, beside the locks themselves.
pub struct Journal {
    rows: BTreeMap<(Name, Place), Row>,
    fence: u64,
    fence_floor: u64,
    reserved: u64,
    pub gone: Gone,
}

/// Whether the storage has the row as yet: one that came and went within a turn is never written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Absent,
    Present,
}

impl Journal {
    /// The next fence; `None` when the space has used up its integers.
    pub fn next_fence(&mut self) -> Option<Fence> {
        let fence = Fence::after(self.fence, self.fence_floor)?;
        self.fence = fence.value();
        Some(fence)
    }

    fn reserve(&mut self, now: Ms) -> Option<Reserved> {
        if self.fence <= self.reserved {
            return None;
        }
        self.reserved = self.fence.saturating_add(RESERVE);
        Some(Reserved { fence: self.reserved, at: now })
    }

    fn note_put(&mut self, lock: &Name, entry: &Entry) {
        let row = if entry.is_stored { Row::Present } else { Row::Absent };
        self.rows.entry((lock.clone(), entry.place)).or_insert(row);
    }

    fn note_removed(&mut self, lock: &Name, entry: &Entry) {
        let key = (lock.clone(), entry.place);
        match self.rows.get(&key) {
            Some(Row::Present) => {}
            Some(Row::Absent) => {
                self.rows.remove(&key);
            }
            None => {
                self.rows.insert(key, Row::Present);
            }
        }
    }
}

/// The places in queues, by the socket that asked for them.
#[derive(Default)]
struct Waiters(HashMap<Connection, BTreeSet<(Name, Place)>>);

impl Waiters {
    /// Takes note that one entry of a lock is another now.
    fn note(&mut self, lock: &Name, before: Option<&Entry>, after: Option<&Entry>) {
        fn of(entry: &Entry) -> Option<Connection> {
            if let State::Waiting { .. } = entry.state { entry.connection } else { None }
        }
        if let Some((entry, connection)) = before.and_then(|entry| of(entry).map(|connection| (entry, connection)))
            && let Some(places) = self.0.get_mut(&connection)
        {
            places.remove(&(lock.clone(), entry.place));
            if places.is_empty() {
                self.0.remove(&connection);
            }
        }
        if let Some((entry, connection)) = after.and_then(|entry| of(entry).map(|connection| (entry, connection))) {
            self.0.entry(connection).or_default().insert((lock.clone(), entry.place));
        }
    }
}

/// A clock that never runs back: when the host's is set back, it goes on from where it was.
struct Clock {
    ahead: Ms,
    latest: Ms,
}

impl Clock {
    fn now(&mut self, host_now: Ms) -> Ms {
        let now = host_now.saturating_add(self.ahead);
        self.ahead = self.ahead.saturating_add(self.latest.saturating_sub(now));
        self.latest = self.latest.max(now);
        self.latest
    }
}

/// Leases and asks that are over, so that their late messages are known for what they are.
///
/// In memory only, the latest [`Gone::REMEMBERED`] of the space: it makes refusals more telling, and keeps a repeated
/// acquire that arrives after its own release or cancel from becoming a lease that nobody knows of.
#[derive(Debug, Default)]
pub struct Gone {
    requests: HashMap<(Name, Token, RequestId), Lost>,
    leases: HashMap<(Name, Token, Fence), Lost>,
    order: VecDeque<(Name, Token, RequestId, Option<Fence>)>,
}

impl Gone {
    pub const REMEMBERED: usize = 4_096;

    pub fn remember(&mut self, lock: &Name, token: &Token, request_id: &RequestId, fence: Option<Fence>, reason: Lost) {
        self.requests.insert((lock.clone(), token.clone(), request_id.clone()), reason);
        if let Some(fence) = fence {
            self.leases.insert((lock.clone(), token.clone(), fence), reason);
        }
        self.order.push_back((lock.clone(), token.clone(), request_id.clone(), fence));
        if self.order.len() <= Self::REMEMBERED {
            return;
        }
        if let Some((lock, token, request_id, fence)) = self.order.pop_front() {
            if let Some(fence) = fence {
                self.leases.remove(&(lock.clone(), token.clone(), fence));
            }
            self.requests.remove(&(lock, token, request_id));
        }
    }

    pub fn request(&self, lock: &Name, token: &Token, request_id: &RequestId) -> Option<Lost> {
        self.requests.get(&(lock.clone(), token.clone(), request_id.clone())).copied()
    }

    pub fn lease(&self, lock: &Name, token: &Token, fence: Fence) -> Option<Lost> {
        self.leases.get(&(lock.clone(), token.clone(), fence)).copied()
    }
}
