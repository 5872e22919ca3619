//! One lock: who holds it, who waits, what it remembers of leases that ended, and when something is due.
//!
//! A container. It keeps its entries findable (by place, by request, by fence, by due time) and says what is true of
//! them; what may happen to them is the engine's to say.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::command::{Lost, Terms};
use crate::types::{Connection, Fence, Limit, Mode, Ms, RequestId, Token};

/// An entry's place among the entries of its lock: later arrivals have larger ones.
pub type Place = u64;

/// A contender of a lock, from its place in the queue to the memory of its lease.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub place: Place,
    pub terms: Terms,
    pub asked_at: Ms,
    /// Where its owner was heard of last, if that was a socket: there it is told what happens to it.
    pub connection: Option<Connection>,
    /// The other socket over which a holder was heard of, as where two processes go on with one lease. In memory only.
    pub former: Option<Connection>,
    pub state: State,
    /// Whether storage has a row of it, current or not.
    pub is_stored: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State {
    /// Queued; the place lapses at `until`.
    Waiting {
        until: Ms,
    },
    Holding(Holding),
    /// Remembered until `until`, so that its holder hears why it lost. The lock stays closed until `closed_until`.
    Ended {
        fence: Fence,
        reason: Lost,
        until: Ms,
        closed_until: Ms,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Holding {
    pub fence: Fence,
    pub granted_at: Ms,
    /// At this instant the lease is over.
    pub expires_at: Ms,
    pub claim: Claim,
}

/// Whether a holder has been heard of since the grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Granted in the reply to its ask: full length, nothing to claim, but not yet renewed.
    Answered,
    /// Granted while it waited: short until its first renewal.
    Open,
    /// Renewed at least once.
    Made,
}

impl Entry {
    /// The instant at which the entry becomes something else, if nobody acts.
    pub fn due_at(&self) -> Ms {
        match self.state {
            State::Waiting { until } | State::Ended { until, .. } => until,
            State::Holding(holding) => holding.expires_at,
        }
    }

    pub fn fence(&self) -> Option<Fence> {
        match self.state {
            State::Waiting { .. } => None,
            State::Holding(Holding { fence, .. }) | State::Ended { fence, .. } => Some(fence),
        }
    }

    /// Takes note of where its holder was heard of; false where nothing is to be noted.
    pub fn hear_over(&mut self, via: Option<Connection>) -> bool {
        let is_new = via.is_some() && via != self.connection;
        if is_new {
            self.former = std::mem::replace(&mut self.connection, via);
        }
        is_new
    }

    fn is_asked_by(&self, token: &Token, request_id: &RequestId) -> bool {
        self.terms.request_id == *request_id && self.terms.token == *token
    }
}

#[derive(Debug, Default)]
pub struct Lock {
    entries: BTreeMap<Place, Box<Entry>>,
    /// Only for a crowd: most locks have one entry, and an index would be most of their memory.
    index: Option<Box<Index>>,
    holding: usize,
    waiting: usize,
    /// Shared entries that hold or wait, and the limit they agree on.
    shared: usize,
    limit: Option<Limit>,
    /// The largest place there was: none is given twice while somebody may ask for the entry that had it.
    last_place: Place,
    /// No grant before this instant.
    closed_until: Ms,
}

/// From this many entries on a lock keeps an index; below it, looking at each entry is quicker.
const CROWD: usize = 9;

/// The component reads and writes every entry for every decision: an index would make it larger and nothing quicker.
const HAS_INDEX: bool = cfg!(not(feature = "component"));

impl Lock {
    pub fn is_free(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entry(&self, place: Place) -> Option<&Entry> {
        self.entries.get(&place).map(Box::as_ref)
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(Box::as_ref)
    }

    pub fn by_request(&self, token: &Token, request_id: &RequestId) -> Option<&Entry> {
        match self.index() {
            Some(index) => {
                index.requests.get(&(token.clone(), request_id.clone())).and_then(|place| self.entry(*place))
            }
            None => self.entries().find(|entry| entry.is_asked_by(token, request_id)),
        }
    }

    pub fn by_fence(&self, fence: Fence) -> Option<&Entry> {
        match self.index() {
            Some(index) => {
                let first = index.fences.range((fence.value(), Place::MIN)..).next();
                first.filter(|(found, _)| *found == fence.value()).and_then(|(_, place)| self.entry(*place))
            }
            None => self.entries().find(|entry| entry.fence() == Some(fence)),
        }
    }

    /// The first in the queue.
    pub fn head(&self) -> Option<&Entry> {
        match self.index() {
            Some(index) => index.queue.first().and_then(|place| self.entry(*place)),
            None => self.entries().find(|entry| matches!(entry.state, State::Waiting { .. })),
        }
    }

    /// The entry that is due first.
    pub fn first_due(&self) -> Option<&Entry> {
        match self.index() {
            Some(index) => index.due.first().and_then(|(_, place)| self.entry(*place)),
            None => self.entries().min_by_key(|entry| (entry.due_at(), entry.place)),
        }
    }

    /// Live leases, in the order of their grants, which is that of their places: nobody barges.
    pub fn holders(&self) -> Box<dyn Iterator<Item = (&Entry, &Holding)> + '_> {
        fn held(entry: &Entry) -> Option<(&Entry, &Holding)> {
            match &entry.state {
                State::Holding(holding) => Some((entry, holding)),
                State::Waiting { .. } | State::Ended { .. } => None,
            }
        }
        match self.index() {
            Some(index) => Box::new(index.holding.iter().filter_map(|place| self.entry(*place).and_then(held))),
            None => Box::new(self.entries().filter_map(held)),
        }
    }

    /// The queue, in order.
    pub fn waiters(&self) -> Box<dyn Iterator<Item = &Entry> + '_> {
        match self.index() {
            Some(index) => Box::new(index.queue.iter().filter_map(|place| self.entry(*place))),
            None => Box::new(self.entries().filter(|entry| matches!(entry.state, State::Waiting { .. }))),
        }
    }

    pub fn holding(&self) -> usize {
        self.holding
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The earliest end of a live lease.
    pub fn first_expiry(&self) -> Option<Ms> {
        match self.index() {
            Some(index) => index.expiries.first().map(|(expires_at, _)| *expires_at),
            None => self.holders().map(|(_, holding)| holding.expires_at).min(),
        }
    }

    /// How many wait in front of this place.
    pub fn ahead_of(&self, place: Place) -> usize {
        match self.index() {
            Some(index) => index.queue.before(place),
            None => self.waiters().take_while(|entry| entry.place < place).count(),
        }
    }

    /// The place of the next arrival.
    pub fn next_place(&self) -> Place {
        self.last_place.saturating_add(1)
    }

    /// The limit of the shared entries that hold or wait, where there are any.
    pub fn shared_limit(&self) -> Option<Option<Limit>> {
        (self.shared > 0).then_some(self.limit)
    }

    /// Whether one more lease of this mode can live beside those that do.
    pub fn has_room_for(&self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => self.holding == 0,
            Mode::Shared(limit) => {
                let alone = self.holders().next().is_some_and(|(entry, _)| entry.terms.mode == Mode::Exclusive);
                !alone && limit.is_none_or(|limit| (self.holding as u64) < limit.value())
            }
        }
    }

    pub fn closed_until(&self) -> Ms {
        self.closed_until
    }

    /// The next instant at which something happens to this lock by itself; `None` when it is free.
    pub fn due_at(&self, now: Ms) -> Option<Ms> {
        let first = self.first_due()?.due_at();
        let opens = self.waiting > 0 && now < self.closed_until;
        Some(if opens { first.min(self.closed_until) } else { first })
    }

    /// Adds an entry, or puts it in the stead of the one at its place.
    pub fn put(&mut self, entry: Entry) {
        self.remove(entry.place);
        self.last_place = self.last_place.max(entry.place);
        self.count(&entry, Change::In);
        if let State::Ended { closed_until, .. } = entry.state {
            self.closed_until = self.closed_until.max(closed_until);
        }
        if let Some(index) = self.index_mut() {
            index.add(&entry);
        }
        self.entries.insert(entry.place, Box::new(entry));
        if HAS_INDEX && self.index.is_none() && self.entries.len() >= CROWD {
            let mut index = Box::<Index>::default();
            self.entries().for_each(|entry| index.add(entry));
            self.index = Some(index);
        }
    }

    /// Notes that storage has a row of the entry at this place.
    pub fn mark_stored(&mut self, place: Place) {
        if let Some(entry) = self.entries.get_mut(&place) {
            entry.is_stored = true;
        }
    }

    pub fn remove(&mut self, place: Place) -> Option<Entry> {
        let entry = *self.entries.remove(&place)?;
        self.count(&entry, Change::Out);
        if let Some(index) = self.index_mut() {
            index.remove(&entry);
        }
        // Half of it, so that a lock at the border does not build its index anew again and again.
        if self.entries.len() <= CROWD / 2 {
            self.index = None;
        }
        Some(entry)
    }

    fn index(&self) -> Option<&Index> {
        if HAS_INDEX { self.index.as_deref() } else { None }
    }

    fn index_mut(&mut self) -> Option<&mut Index> {
        if HAS_INDEX { self.index.as_deref_mut() } else { None }
    }

    fn count(&mut self, entry: &Entry, change: Change) {
        let step = |count: &mut usize| match change {
            Change::In => *count += 1,
            Change::Out => *count -= 1,
        };
        match entry.state {
            State::Waiting { .. } => step(&mut self.waiting),
            State::Holding(_) => step(&mut self.holding),
            State::Ended { .. } => return,
        }
        if let Mode::Shared(limit) = entry.terms.mode {
            step(&mut self.shared);
            // That of the latest to come: it agreed with all who were there, and who was gone by then may have had another.
            if let Change::In = change {
                self.limit = limit;
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Change {
    In,
    Out,
}

/// What makes the cost of every look-up independent of how many hold and wait.
#[derive(Debug, Default)]
struct Index {
    requests: FxHashMap<(Token, RequestId), Place>,
    fences: BTreeSet<(u64, Place)>,
    holding: BTreeSet<Place>,
    expiries: BTreeSet<(Ms, Place)>,
    queue: Queue,
    due: BTreeSet<(Ms, Place)>,
}

impl Index {
    fn add(&mut self, entry: &Entry) {
        let place = entry.place;
        self.requests.insert((entry.terms.token.clone(), entry.terms.request_id.clone()), place);
        self.due.insert((entry.due_at(), place));
        if let Some(fence) = entry.fence() {
            self.fences.insert((fence.value(), place));
        }
        match entry.state {
            State::Waiting { .. } => self.queue.add(place),
            State::Holding(holding) => {
                self.holding.insert(place);
                self.expiries.insert((holding.expires_at, place));
            }
            State::Ended { .. } => {}
        }
    }

    fn remove(&mut self, entry: &Entry) {
        let place = entry.place;
        self.requests.remove(&(entry.terms.token.clone(), entry.terms.request_id.clone()));
        self.due.remove(&(entry.due_at(), place));
        if let Some(fence) = entry.fence() {
            self.fences.remove(&(fence.value(), place));
        }
        match entry.state {
            State::Waiting { .. } => self.queue.remove(place),
            State::Holding(holding) => {
                self.holding.remove(&place);
                self.expiries.remove(&(holding.expires_at, place));
            }
            State::Ended { .. } => {}
        }
    }
}

/// The places that wait, in order, counted in blocks so that a position is found without walking the queue.
#[derive(Debug, Default)]
struct Queue {
    places: BTreeSet<Place>,
    /// Which blocks of places have how many that wait, in order.
    blocks: VecDeque<(Place, usize)>,
}

/// Places that share a block. With the largest queue some hundred blocks are summed for a position.
const BLOCK: Place = 64;

impl Queue {
    fn add(&mut self, place: Place) {
        if !self.places.insert(place) {
            return;
        }
        let (at, block) = self.block_of(place);
        match self.blocks.get_mut(at) {
            Some((found, count)) if *found == block => *count += 1,
            _ => self.blocks.insert(at, (block, 1)),
        }
    }

    fn remove(&mut self, place: Place) {
        if !self.places.remove(&place) {
            return;
        }
        let (at, _) = self.block_of(place);
        if let Some((_, count)) = self.blocks.get_mut(at) {
            *count -= 1;
            if *count == 0 {
                self.blocks.remove(at);
            }
        }
    }

    fn first(&self) -> Option<&Place> {
        self.places.first()
    }

    fn iter(&self) -> impl Iterator<Item = &Place> {
        self.places.iter()
    }

    /// Where the block of a place is, or belongs, and which it is.
    fn block_of(&self, place: Place) -> (usize, Place) {
        let block = place / BLOCK;
        (self.blocks.partition_point(|(other, _)| *other < block), block)
    }

    fn before(&self, place: Place) -> usize {
        let (at, block) = self.block_of(place);
        let whole: usize = self.blocks.iter().take(at).map(|(_, count)| count).sum();
        whole + self.places.range(block * BLOCK..place).count()
    }
}
