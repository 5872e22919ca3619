//! All locks of a space: in memory, written through to a storage port.
//!
//! The ledger keeps what the rules are about (locks, the fence counter, the clock) and knows which rows a turn touched.
//! What may happen to them is the engine's to say.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::agenda::Agenda;
use crate::command::Lost;
use crate::lock::{Entry, Lock, Place, State};
use crate::types::{Connection, Fence, MAX_SAFE_INTEGER, Ms, Name, RequestId, Token};

/// Where entries are kept: one row an entry, keyed by lock and place, and one row for the space.
pub trait Storage {
    /// What the space's own row says, and the latest instant that any row was written at.
    fn start(&mut self) -> Result<Start, Fault>;

    /// Every row of one lock, in the order of their places, read with [`record::read`](crate::record::read).
    fn load(&mut self, lock: &Name) -> Result<Vec<Entry>, Fault>;

    /// The locks after `after` in byte order, each with its rows as [`load`](Self::load) reads them: so many that they have
    /// `rows` rows together, or a few more, since none is cut. Fewer are all there are.
    fn load_after(&mut self, after: Option<&Name>, rows: usize) -> Result<Vec<(Name, Vec<Entry>)>, Fault>;

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

/// Rows read at once where all of them are needed.
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

    fn load_after(&mut self, _: Option<&Name>, _: usize) -> Result<Vec<(Name, Vec<Entry>)>, Fault> {
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
    /// A box each, since a table that grows moves all it has, and is half empty then.
    locks: FxHashMap<Name, Box<Kept>>,
    /// The locks by the instants they are armed at: those that somebody waits for, and the others.
    contended: Agenda,
    quiet: Agenda,
    books: Books,
    clock: Clock,
    loaded: Loaded,
}

#[derive(Default)]
struct Kept {
    lock: Lock,
    /// An instant not later than the next at which something happens to the lock by itself, and on which agenda it is.
    armed: Option<(Ms, Interest)>,
}

impl Kept {
    /// A lock as its rows say.
    fn read(name: &Name, entries: Vec<Entry>, waiters: &mut Waiters, contended: &mut Agenda) -> Self {
        let mut kept = Self::default();
        for entry in entries {
            waiters.add(name, &entry);
            kept.lock.put(entry);
        }
        // The clock may have gone back to before what kept the queue from moving up.
        if kept.lock.head().is_some_and(|head| kept.lock.has_room_for(head.terms.mode)) {
            kept.armed = Some((0, Interest::Contended));
            contended.add(0, WHOLE, Some(name));
        }
        kept
    }
}

/// Whether anybody waits for something to happen to a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interest {
    Contended,
    Quiet,
}

/// An agenda is about places; here it is about a lock as a whole.
const WHOLE: Place = 0;

/// How much of the storage is in memory. A lock beyond it is read when it is asked for.
enum Loaded {
    UpTo(Option<Name>),
    All,
}

/// A lock that is being worked on, and where its changes are noted.
pub struct Open<'a, N = Books> {
    pub name: &'a Name,
    pub lock: &'a mut Lock,
    pub notes: &'a mut N,
}

/// What is noted while a lock is worked on, and what is remembered from before.
pub trait Notes {
    /// The next fence of the space; `None` when it has used up its integers.
    fn next_fence(&mut self) -> Option<Fence>;

    /// An entry is new, or is now what it has become.
    fn comes(&mut self, lock: &Name, entry: &Entry);

    /// An entry is there no more, or not as it was.
    fn goes(&mut self, lock: &Name, entry: &Entry);

    /// The row of an entry is to be written.
    fn write(&mut self, lock: &Name, entry: &mut Entry);

    /// The row of an entry is to be deleted.
    fn delete(&mut self, lock: &Name, entry: &Entry);

    /// An ask or a lease is over; see [`Gone`].
    fn remember(&mut self, lock: &Name, token: &Token, request_id: &RequestId, fence: Option<Fence>, reason: Lost);

    /// Why that ask is over, where that is remembered.
    fn gone_request(&self, lock: &Name, token: &Token, request_id: &RequestId) -> Option<Lost>;

    /// Why that lease is over, where that is remembered.
    fn gone_lease(&self, lock: &Name, token: &Token, fence: Fence) -> Option<Lost>;

    /// Whether there are as many entries as there may be; or as many locks beside the one that is open, where that is new.
    fn is_full(&self, _is_new: bool) -> bool {
        false
    }

    /// How many may wait for one lock, as far as this is less than the engine allows.
    fn queue_max(&self) -> usize {
        usize::MAX
    }
}

/// How much a space may hold. It bounds what is new: what is there goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Locks in use.
    pub locks: usize,
    /// Whoever holds, waits or is remembered, of all locks together.
    pub entries: usize,
    /// Waiters per lock.
    pub waiters: usize,
}

impl Limits {
    pub const NONE: Self = Self { locks: usize::MAX, entries: usize::MAX, waiters: usize::MAX };
}

/// Where a store that begins now has its fences begin: above every one that it can have given before, also where the
/// storage that counted them was lost or rewound, or there is none (rule 2). No space grants a thousand in a millisecond.
pub fn fence_floor(now: Ms) -> u64 {
    now.saturating_mul(1_000)
}

/// What a space holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Locks in use, or remembered.
    pub locks: usize,
    pub leases: usize,
    pub waiters: usize,
}

impl<S: Storage> Ledger<S> {
    /// `fence_floor`: no fence below it will be given, whatever the storage says.
    pub fn start(mut storage: S, fence_floor: u64) -> Result<Self, Fault> {
        let start = storage.start()?;
        Ok(Self {
            storage,
            locks: FxHashMap::default(),
            contended: Agenda::default(),
            quiet: Agenda::default(),
            books: Books {
                journal: Journal::new(start.fence, fence_floor),
                waiters: Waiters::default(),
                locks: 0,
                limits: Limits::NONE,
            },
            clock: Clock { ahead: 0, latest: start.clock, stands_for: 0 },
            loaded: Loaded::UpTo(None),
        })
    }

    /// Bounds what comes from now on.
    pub fn limit(&mut self, limits: Limits) {
        self.books.limits = limits;
    }

    /// What is in memory. Complete after [`load_all`](Self::load_all).
    pub fn census(&self) -> Census {
        let Waiters { holding, waiting, .. } = self.books.waiters;
        Census { locks: self.locks.len(), leases: holding, waiters: waiting }
    }

    /// The space's clock when the host's says `host_now`: it never runs back.
    pub fn now(&mut self, host_now: Ms) -> Ms {
        self.clock.now(host_now)
    }

    /// How long from now it is, as a length for timers of the host, until the space's clock says `at`.
    pub fn until(&self, at: Ms) -> Ms {
        match at.saturating_sub(self.clock.latest) {
            0 => 0,
            length => length.saturating_add(self.clock.stands_for),
        }
    }

    /// The lock of that name, free if there is none. [`close`](Self::close) it after work on it.
    pub fn open<'a>(&'a mut self, name: &'a Name) -> Result<Open<'a>, Fault> {
        self.books.locks = self.locks.len();
        let kept = match self.locks.entry(name.clone()) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                // Freed in this turn, its rows are still in storage.
                let is_stored = !self.loaded.covers(name) && !self.books.journal.touches(name);
                let entries = if is_stored { self.storage.load(name)? } else { Vec::new() };
                slot.insert(Box::new(Kept::read(name, entries, &mut self.books.waiters, &mut self.contended)))
            }
        };
        Ok(Open { name, lock: &mut kept.lock, notes: &mut self.books })
    }

    /// Notes when the lock is next due, and forgets it when it is free.
    pub fn close(&mut self, name: &Name, now: Ms) {
        let Some(kept) = self.locks.get_mut(name) else { return };
        let interest = if kept.lock.waiting() > 0 { Interest::Contended } else { Interest::Quiet };
        let due = kept.lock.due_at(now).map(|at| (at, interest));
        // An instant too early costs one look; moving it with every renewal would cost more.
        let stays = matches!((kept.armed, due), (Some(armed), Some(due)) if armed.1 == due.1 && armed.0 <= due.0);
        if !stays {
            let armed = std::mem::replace(&mut kept.armed, due);
            if due.is_none() {
                self.locks.remove(name);
            }
            if let Some((at, interest)) = armed {
                self.agenda(interest).remove(at, WHOLE, Some(name));
            }
            if let Some((at, interest)) = due {
                self.agenda(interest).add(at, WHOLE, Some(name));
            }
        }
    }

    /// A lock at which something may be due, taken off its agenda until it is closed again.
    pub fn take_due(&mut self, now: Ms) -> Option<Name> {
        let (name, _) = self.contended.take_due(now).or_else(|| self.quiet.take_due(now))?;
        if let Some(kept) = self.locks.get_mut(&name) {
            kept.armed = None;
        }
        Some(name)
    }

    /// The first instant at which a lock in memory may be due that somebody waits for.
    pub fn next_contended(&self) -> Option<Ms> {
        self.contended.first().map(|(at, _)| at)
    }

    /// The first instant at which any other lock in memory may be due.
    pub fn next_quiet(&self) -> Option<Ms> {
        self.quiet.first().map(|(at, _)| at)
    }

    fn agenda(&mut self, interest: Interest) -> &mut Agenda {
        match interest {
            Interest::Contended => &mut self.contended,
            Interest::Quiet => &mut self.quiet,
        }
    }

    /// Reads `rows` more rows into memory; false when all are there. Only after a [`flush`](Self::flush).
    pub fn load_more(&mut self, rows: usize, now: Ms) -> Result<bool, Fault> {
        let Loaded::UpTo(after) = &self.loaded else { return Ok(false) };
        let mut locks = self.storage.load_after(after.as_ref(), rows)?;
        let count: usize = locks.iter().map(|(_, entries)| entries.len()).sum();
        self.loaded = match locks.last() {
            Some((last, _)) if count >= rows => Loaded::UpTo(Some(last.clone())),
            _ => Loaded::All,
        };
        // Those that were asked for before are there, and newer.
        locks.retain(|(name, _)| !self.locks.contains_key(name));
        for (name, entries) in locks {
            let kept = Kept::read(&name, entries, &mut self.books.waiters, &mut self.contended);
            self.locks.insert(name.clone(), Box::new(kept));
            self.close(&name, now);
        }
        Ok(matches!(self.loaded, Loaded::UpTo(_)))
    }

    /// The places in queues that a connection asked for. Reads the rest of the storage if it has to.
    pub fn waiters_of(&mut self, connection: Connection, now: Ms) -> Result<Vec<(Name, Place)>, Fault> {
        self.load_all(now)?;
        Ok(self.books.waiters.of(connection))
    }

    /// Reads the rest of the storage into memory.
    pub fn load_all(&mut self, now: Ms) -> Result<(), Fault> {
        if let Loaded::UpTo(_) = self.loaded {
            self.flush(now)?;
            while self.load_more(LOADED_AT_ONCE, now)? {}
        }
        Ok(())
    }

    /// The names after `after` that start with `prefix`, in byte order, as the turn has left them so far.
    pub fn names(&mut self, prefix: &str, after: Option<&Name>, count: usize) -> Result<Vec<Name>, Fault> {
        // What was changed in this turn is stored at its end.
        // In byte order, as the rows are.
        let mut changed: Vec<&Name> = self.books.journal.rows.iter().map(|(name, _)| name).collect();
        changed.dedup();
        let is_freed = |name: &Name| changed.binary_search(&name).is_ok() && !self.locks.contains_key(name);
        let freed = changed.iter().filter(|name| is_freed(name)).count();
        let stored = self.storage.names(prefix, after, count + freed)?;
        let mut first = BTreeSet::new();
        let mut add = |name: &Name| {
            if name.as_str().starts_with(prefix) && after.is_none_or(|after| name > after) {
                first.insert((name.clone(), WHOLE));
            }
            if first.len() > count {
                first.pop_last();
            }
        };
        match stored {
            Some(stored) => {
                stored.iter().filter(|name| !is_freed(name)).for_each(&mut add);
                changed.iter().filter(|name| self.locks.contains_key(**name)).for_each(|name| add(name));
            }
            None => self.locks.keys().for_each(add),
        }
        Ok(first.into_iter().map(|(name, _)| name).collect())
    }

    /// See [`Storage::probe`].
    pub fn probe(&mut self) -> Result<(), Fault> {
        self.storage.probe()
    }

    /// Makes everything that was done durable. After a fault the ledger is ahead of its storage: drop it.
    pub fn flush(&mut self, now: Ms) -> Result<Flushed, Fault> {
        let reserved = self.books.journal.reserve(now);
        let rows = std::mem::take(&mut self.books.journal.rows);
        if rows.is_empty() && reserved.is_none() {
            return Ok(Flushed::Nothing);
        }
        self.books.journal.fresh.clear();
        let locks = &self.locks;
        let entry = |lock, place| locks.get(lock).and_then(|kept| kept.lock.entry(place));
        let changes: Vec<_> = rows
            .iter()
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

impl<N: Notes> Open<'_, N> {
    /// Adds an entry.
    pub fn put(&mut self, mut entry: Entry) {
        self.notes.comes(self.name, &entry);
        self.notes.write(self.name, &mut entry);
        self.lock.put(entry);
    }

    /// Changes an entry: anything but its place, and who asked.
    pub fn change(&mut self, place: Place, change: &mut dyn FnMut(&mut Entry)) -> Option<&Entry> {
        let Self { name, lock, notes } = self;
        lock.change(place, &mut |entry| {
            notes.goes(name, entry);
            change(entry);
            notes.comes(name, entry);
            notes.write(name, entry);
        })
    }

    pub fn remove(&mut self, place: Place) -> Option<Entry> {
        let entry = self.lock.remove(place)?;
        self.notes.goes(self.name, &entry);
        self.notes.delete(self.name, &entry);
        Some(entry)
    }
}

/// What a ledger notes: the rows to write, and which socket waits where.
pub struct Books {
    journal: Journal,
    waiters: Waiters,
    /// How many locks there were before the latest one was opened.
    locks: usize,
    limits: Limits,
}

impl Notes for Books {
    fn next_fence(&mut self) -> Option<Fence> {
        self.journal.next_fence()
    }

    fn comes(&mut self, lock: &Name, entry: &Entry) {
        self.waiters.add(lock, entry);
    }

    fn goes(&mut self, lock: &Name, entry: &Entry) {
        self.waiters.remove(lock, entry);
    }

    fn write(&mut self, lock: &Name, entry: &mut Entry) {
        self.journal.write(lock, entry);
    }

    fn delete(&mut self, lock: &Name, entry: &Entry) {
        self.journal.delete(lock, entry);
    }

    fn remember(&mut self, lock: &Name, token: &Token, request_id: &RequestId, fence: Option<Fence>, reason: Lost) {
        self.journal.gone.remember(lock, token, request_id, fence, reason);
    }

    fn gone_request(&self, lock: &Name, token: &Token, request_id: &RequestId) -> Option<Lost> {
        self.journal.gone.request(lock, token, request_id)
    }

    fn gone_lease(&self, lock: &Name, token: &Token, fence: Fence) -> Option<Lost> {
        self.journal.gone.lease(lock, token, fence)
    }

    fn is_full(&self, is_new: bool) -> bool {
        self.waiters.entries >= self.limits.entries || (is_new && self.locks >= self.limits.locks)
    }

    fn queue_max(&self) -> usize {
        self.limits.waiters
    }
}

/// What a turn has to write, beside the locks themselves.
struct Journal {
    /// Rows to be written, or deleted where their entry is gone.
    rows: BTreeSet<(Name, Place)>,
    /// Those of them that the storage does not have yet: one that came and went within a turn is never written.
    fresh: BTreeSet<(Name, Place)>,
    fence: u64,
    fence_floor: u64,
    reserved: u64,
    gone: Gone,
}

impl Journal {
    fn new(fence: u64, fence_floor: u64) -> Self {
        let (rows, fresh) = (BTreeSet::new(), BTreeSet::new());
        Self { rows, fresh, fence, fence_floor, reserved: fence, gone: Gone::default() }
    }

    /// The next fence; `None` when the space has used up its integers.
    fn next_fence(&mut self) -> Option<Fence> {
        let fence = Fence::after(self.fence, self.fence_floor)?;
        self.fence = fence.value();
        Some(fence)
    }

    fn reserve(&mut self, now: Ms) -> Option<Reserved> {
        if self.fence <= self.reserved {
            return None;
        }
        self.reserved = self.fence.saturating_add(RESERVE).min(MAX_SAFE_INTEGER);
        Some(Reserved { fence: self.reserved, at: now })
    }

    /// Whether a row of the lock is to be written or deleted.
    fn touches(&self, lock: &Name) -> bool {
        self.rows.range((lock.clone(), 0)..).next().is_some_and(|(first, _)| first == lock)
    }

    fn write(&mut self, lock: &Name, entry: &mut Entry) {
        let row = (lock.clone(), entry.place);
        if self.rows.insert(row.clone()) && !entry.is_stored {
            self.fresh.insert(row);
        }
        entry.is_stored = true;
    }

    fn delete(&mut self, lock: &Name, entry: &Entry) {
        let row = (lock.clone(), entry.place);
        if self.fresh.remove(&row) {
            self.rows.remove(&row);
        } else {
            self.rows.insert(row);
        }
    }
}

/// The places in queues, by the socket that asked for them; and how many entries wait and hold.
#[derive(Default)]
struct Waiters {
    by_connection: Agenda,
    entries: usize,
    waiting: usize,
    holding: usize,
}

impl Waiters {
    fn add(&mut self, lock: &Name, entry: &Entry) {
        self.entries += 1;
        match (entry.state, entry.connection) {
            (State::Waiting { .. }, connection) => {
                self.waiting += 1;
                if let Some(Connection(connection)) = connection {
                    self.by_connection.add(connection, entry.place, Some(lock));
                }
            }
            (State::Holding(_), _) => self.holding += 1,
            (State::Ended { .. }, _) => {}
        }
    }

    fn remove(&mut self, lock: &Name, entry: &Entry) {
        self.entries -= 1;
        match (entry.state, entry.connection) {
            (State::Waiting { .. }, connection) => {
                self.waiting -= 1;
                if let Some(Connection(connection)) = connection {
                    self.by_connection.remove(connection, entry.place, Some(lock));
                }
            }
            (State::Holding(_), _) => self.holding -= 1,
            (State::Ended { .. }, _) => {}
        }
    }

    fn of(&self, Connection(connection): Connection) -> Vec<(Name, Place)> {
        self.by_connection.at(connection)
    }
}

/// A host's clock that is behind by no more than this has not been set back: an event that came a while ago is carried
/// out with the time at which it came, and the next host's clock differs a little from the last one's.
const STALE_MS: Ms = 5_000;

/// A clock that never runs back. When the host's is a little behind, it stands still until that has caught up, so that
/// nothing ends too early; when the host's was set back, it goes on from where it was, so that nothing lasts for ever.
struct Clock {
    ahead: Ms,
    latest: Ms,
    /// For so long it still stands.
    stands_for: Ms,
}

impl Clock {
    fn now(&mut self, host_now: Ms) -> Ms {
        let now = host_now.saturating_add(self.ahead);
        let behind = self.latest.saturating_sub(now);
        if behind > STALE_MS {
            self.ahead = self.ahead.saturating_add(behind);
            self.stands_for = 0;
        } else {
            self.stands_for = behind;
        }
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
    reasons: FxHashMap<Past, Lost>,
    order: VecDeque<Past>,
}

/// What is over: an ask, or a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Past {
    Request(Name, Token, RequestId),
    Lease(Name, Token, Fence),
}

impl Gone {
    pub const REMEMBERED: usize = 4_096;

    pub fn remember(&mut self, lock: &Name, token: &Token, request_id: &RequestId, fence: Option<Fence>, reason: Lost) {
        self.add(Past::Request(lock.clone(), token.clone(), request_id.clone()), reason);
        if let Some(fence) = fence {
            self.add(Past::Lease(lock.clone(), token.clone(), fence), reason);
        }
    }

    pub fn request(&self, lock: &Name, token: &Token, request_id: &RequestId) -> Option<Lost> {
        self.reasons.get(&Past::Request(lock.clone(), token.clone(), request_id.clone())).copied()
    }

    pub fn lease(&self, lock: &Name, token: &Token, fence: Fence) -> Option<Lost> {
        self.reasons.get(&Past::Lease(lock.clone(), token.clone(), fence)).copied()
    }

    fn add(&mut self, past: Past, reason: Lost) {
        // Cancelled once more: it is remembered from the first time on.
        if self.reasons.insert(past.clone(), reason).is_some() {
            return;
        }
        self.order.push_back(past);
        // An ask and its lease are two.
        if self.order.len() > 2 * Self::REMEMBERED
            && let Some(past) = self.order.pop_front()
        {
            self.reasons.remove(&past);
        }
    }
}
