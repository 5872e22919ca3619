//! One lock: who holds it, who waits, what it remembers of leases that ended, and when something is due.
//!
//! A container. It keeps its entries findable (by place, by request, by fence, by due time) and says what is true of
//! them; what may happen to them is the engine's to say.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::agenda::Agenda;
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
    pub state: State,
    /// Whether storage has a row of it, current or not, or gets one at the end of this turn.
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

    fn is_asked_by(&self, token: &Token, request_id: &RequestId) -> bool {
        self.terms.request_id == *request_id && self.terms.token == *token
    }
}

#[derive(Debug, Default)]
pub struct Lock {
    entries: Entries,
    /// Only for a crowd: most locks have one entry, and an index would be most of their memory.
    index: Option<Box<Index>>,
    totals: Totals,
    /// The largest place there was: none is given twice while somebody may ask for the entry that had it.
    last_place: Place,
    /// Leases that expired, and whose rows do not say so, in the order of their fences.
    unwritten_ends: VecDeque<(u64, Place)>,
}

/// From this many entries on a lock keeps an index; below it, looking at each entry is quicker.
const CROWD: usize = 9;

/// The component reads and writes every entry for every decision: an index would make it larger and nothing quicker.
const HAS_INDEX: bool = cfg!(not(feature = "component"));

impl Lock {
    pub fn is_free(&self) -> bool {
        self.entries.first.is_none()
    }

    pub fn entry(&self, place: Place) -> Option<&Entry> {
        self.entries.get(place)
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
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
                let place = index.held.place_at(fence.value()).or_else(|| index.ended.place_at(fence.value()))?;
                self.entry(place)
            }
            None => self.entries().find(|entry| entry.fence() == Some(fence)),
        }
    }

    /// The first in the queue.
    pub fn head(&self) -> Option<&Entry> {
        match self.index() {
            Some(index) => index.queue.front().and_then(|place| self.entry(*place)),
            None => self.entries().find(|entry| matches!(entry.state, State::Waiting { .. })),
        }
    }

    /// When the first entry is due, and its place.
    pub fn first_due(&self) -> Option<(Ms, Place)> {
        match self.index() {
            Some(index) => index.expiries.first().into_iter().chain(index.lapses.first()).min(),
            None => self.entries().map(|entry| (entry.due_at(), entry.place)).min(),
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
            Some(index) => Box::new(index.held.places().filter_map(|place| self.entry(place).and_then(held))),
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
        self.totals.holding
    }

    pub fn waiting(&self) -> usize {
        self.totals.waiting
    }

    /// The earliest end of a live lease.
    pub fn first_expiry(&self) -> Option<Ms> {
        match self.index() {
            Some(index) => index.expiries.first().map(|(expires_at, _)| expires_at),
            None => self.holders().map(|(_, holding)| holding.expires_at).min(),
        }
    }

    /// How many wait in front of this place.
    pub fn ahead_of(&self, place: Place) -> usize {
        match self.index() {
            Some(index) => either(position(&index.queue, place, |place| *place)),
            None => self.waiters().take_while(|entry| entry.place < place).count(),
        }
    }

    /// The place of the next arrival.
    pub fn next_place(&self) -> Place {
        self.last_place.saturating_add(1)
    }

    /// The limit of the shared entries that hold or wait, where there are any.
    pub fn shared_limit(&self) -> Option<Option<Limit>> {
        (self.totals.shared > 0).then_some(self.totals.limit)
    }

    /// Whether one more lease of this mode can live beside those that do.
    pub fn has_room_for(&self, mode: Mode) -> bool {
        let holding = self.totals.holding;
        match mode {
            Mode::Exclusive => holding == 0,
            Mode::Shared(limit) => {
                let alone = self.holders().next().is_some_and(|(entry, _)| entry.terms.mode == Mode::Exclusive);
                !alone && limit.is_none_or(|limit| (holding as u64) < limit.value())
            }
        }
    }

    pub fn closed_until(&self) -> Ms {
        self.totals.closed_until
    }

    /// The next instant at which something happens to this lock by itself; `None` when it is free.
    pub fn due_at(&self, now: Ms) -> Option<Ms> {
        let (first, _) = self.first_due()?;
        let opens = self.waiting() > 0 && now < self.closed_until();
        Some(if opens { first.min(self.closed_until()) } else { first })
    }

    /// Adds an entry, or puts it in the stead of the one at its place.
    pub fn put(&mut self, entry: Entry) {
        self.remove(entry.place);
        self.last_place = self.last_place.max(entry.place);
        self.totals.add(&entry);
        if let Some(index) = self.index_mut() {
            index.add(&entry);
        }
        self.entries.insert(entry);
        if HAS_INDEX && self.index.is_none() && self.entries.len() >= CROWD {
            let mut index = Box::<Index>::default();
            self.entries().for_each(|entry| index.add(entry));
            self.index = Some(index);
        }
    }

    /// Changes the entry at a place: anything but its place, and who asked.
    pub fn change(&mut self, place: Place, change: &mut dyn FnMut(&mut Entry)) -> Option<&Entry> {
        let entry = self.entries.get_mut(place)?;
        let mut index = if HAS_INDEX { self.index.as_deref_mut() } else { None };
        self.totals.remove(entry);
        if let Some(index) = &mut index {
            index.remove_state(entry);
        }
        change(entry);
        self.totals.add(entry);
        if let Some(index) = index {
            index.add_state(entry);
        }
        Some(entry)
    }

    /// Notes that a lease has expired, which its row does not say.
    pub fn note_unwritten_end(&mut self, fence: Fence, place: Place) {
        let at = self.unwritten_ends.partition_point(|(other, _)| *other < fence.value());
        self.unwritten_ends.insert(at, (fence.value(), place));
    }

    /// The place of such a lease, if its fence is older than this one. It is noted no longer.
    pub fn take_unwritten_end(&mut self, before: Fence) -> Option<Place> {
        self.unwritten_ends.front().filter(|(fence, _)| *fence < before.value())?;
        self.unwritten_ends.pop_front().map(|(_, place)| place)
    }

    pub fn remove(&mut self, place: Place) -> Option<Entry> {
        let entry = self.entries.remove(place)?;
        self.totals.remove(&entry);
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
}

/// Entries in the order of their places. Who comes is the last, and who goes is mostly among the first.
#[derive(Debug, Default)]
struct Entries {
    /// In the lock itself, since most have no other.
    first: Option<Entry>,
    rest: VecDeque<Box<Entry>>,
}

impl Entries {
    fn len(&self) -> usize {
        self.rest.len() + usize::from(self.first.is_some())
    }

    fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.first.iter().chain(self.rest.iter().map(Box::as_ref))
    }

    fn get(&self, place: Place) -> Option<&Entry> {
        match &self.first {
            Some(first) if first.place == place => Some(first),
            _ => self.rest.get(self.position(place).ok()?).map(Box::as_ref),
        }
    }

    fn get_mut(&mut self, place: Place) -> Option<&mut Entry> {
        if self.first.as_ref().is_some_and(|first| first.place == place) {
            return self.first.as_mut();
        }
        let at = self.position(place).ok()?;
        self.rest.get_mut(at).map(Box::as_mut)
    }

    /// Its place is not yet there.
    fn insert(&mut self, entry: Entry) {
        let second = match &mut self.first {
            Some(first) if first.place < entry.place => entry,
            first => match first.replace(entry) {
                Some(second) => second,
                None => return,
            },
        };
        let at = either(self.position(second.place));
        self.rest.insert(at, Box::new(second));
    }

    fn remove(&mut self, place: Place) -> Option<Entry> {
        match &mut self.first {
            Some(first) if first.place == place => {
                let second = self.rest.pop_front().map(|entry| *entry);
                std::mem::replace(&mut self.first, second)
            }
            _ => self.rest.remove(self.position(place).ok()?).map(|entry| *entry),
        }
    }

    /// Where it is in the rest.
    fn position(&self, place: Place) -> Result<usize, usize> {
        position(&self.rest, place, |entry| entry.place)
    }
}

/// Where a place is among others in order, or else where it belongs.
///
/// No two are the same. So there cannot be more of them in front of it than there are numbers between the first and it,
/// nor more behind it than up to the last: where few are missing, little is left to be searched.
fn position<T>(ring: &VecDeque<T>, place: Place, place_of: fn(&T) -> Place) -> Result<usize, usize> {
    let (Some(first), Some(last)) = (ring.front().map(place_of), ring.back().map(place_of)) else { return Err(0) };
    let at_most = |from: Place, to: Place| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let mut low = ring.len().saturating_sub(at_most(place, last.saturating_add(1)));
    let mut high = ring.len().min(at_most(first, place));
    while low < high {
        let middle = low.midpoint(high);
        if ring.get(middle).is_some_and(|other| place_of(other) < place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if ring.get(low).is_some_and(|other| place_of(other) == place) { Ok(low) } else { Err(low) }
}

fn either(position: Result<usize, usize>) -> usize {
    position.unwrap_or_else(|at| at)
}

/// What is true of all entries together.
#[derive(Debug, Default)]
struct Totals {
    holding: usize,
    waiting: usize,
    /// Shared entries that hold or wait, and the limit they agree on.
    shared: usize,
    limit: Option<Limit>,
    /// No grant before this instant.
    closed_until: Ms,
}

impl Totals {
    fn add(&mut self, entry: &Entry) {
        match entry.state {
            State::Waiting { .. } => self.waiting += 1,
            State::Holding(_) => self.holding += 1,
            State::Ended { closed_until, .. } => {
                self.closed_until = self.closed_until.max(closed_until);
                return;
            }
        }
        if let Mode::Shared(limit) = entry.terms.mode {
            self.shared += 1;
            // That of the latest to come: it agreed with all who were there, and who was gone by then may have had another.
            self.limit = limit;
        }
    }

    fn remove(&mut self, entry: &Entry) {
        match entry.state {
            State::Waiting { .. } => self.waiting -= 1,
            State::Holding(_) => self.holding -= 1,
            State::Ended { .. } => return,
        }
        if let Mode::Shared(_) = entry.terms.mode {
            self.shared -= 1;
        }
    }
}

/// What makes the cost of every look-up independent of how many hold and wait.
#[derive(Debug, Default)]
struct Index {
    requests: FxHashMap<(Token, RequestId), Place>,
    /// The places that wait, in order.
    queue: VecDeque<Place>,
    /// Those that hold and those that have ended, by their fences.
    held: Agenda,
    ended: Agenda,
    /// Those that hold by when that ends, and the others by when they go.
    expiries: Agenda,
    lapses: Agenda,
}

impl Index {
    fn add(&mut self, entry: &Entry) {
        self.requests.insert(asked_by(entry), entry.place);
        self.add_state(entry);
    }

    fn remove(&mut self, entry: &Entry) {
        self.requests.remove(&asked_by(entry));
        self.remove_state(entry);
    }

    fn add_state(&mut self, entry: &Entry) {
        let place = entry.place;
        match entry.state {
            State::Waiting { until } => {
                if let Err(at) = position(&self.queue, place, |place| *place) {
                    self.queue.insert(at, place);
                }
                self.lapses.add(until, place, None);
            }
            State::Holding(Holding { fence, expires_at, .. }) => {
                self.held.add(fence.value(), place, None);
                self.expiries.add(expires_at, place, None);
            }
            State::Ended { fence, until, .. } => {
                self.ended.add(fence.value(), place, None);
                self.lapses.add(until, place, None);
            }
        }
    }

    fn remove_state(&mut self, entry: &Entry) {
        let place = entry.place;
        match entry.state {
            State::Waiting { until } => {
                if let Ok(at) = position(&self.queue, place, |place| *place) {
                    self.queue.remove(at);
                }
                self.lapses.remove(until, place, None);
            }
            State::Holding(Holding { fence, expires_at, .. }) => {
                self.held.remove(fence.value(), place, None);
                self.expiries.remove(expires_at, place, None);
            }
            State::Ended { fence, until, .. } => {
                self.ended.remove(fence.value(), place, None);
                self.lapses.remove(until, place, None);
            }
        }
    }
}

fn asked_by(entry: &Entry) -> (Token, RequestId) {
    (entry.terms.token.clone(), entry.terms.request_id.clone())
}
