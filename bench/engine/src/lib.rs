//! A space in memory with much in it, and the commands that are timed on it.

use std::collections::VecDeque;

use leasehold::command::{Acquire, Command, Entrance, Release, Renew, Reply, Terms};
use leasehold::engine::{self, Event, Outcome};
use leasehold::ledger::{Fault, InMemory, Ledger};
use leasehold::types::{Expected, Fence, LockDelay, Mode, Ms, Name, RequestId, Token, Ttl, Wait};
use rustc_hash::FxHashMap;

/// Stands still: nothing expires while it is timed.
const NOW: Ms = 1_800_000_000_000;

/// More asks than a space remembers of those that ended: by the time one is repeated, it is forgotten.
const ASKS: usize = 8_192;

/// A space, and asks that are made over and over.
pub struct Space {
    ledger: Ledger<InMemory>,
    asks: Vec<(Name, Acquire)>,
    next: usize,
}

#[derive(Debug)]
pub enum Trouble {
    Refused(Expected),
    Storage(Fault),
    Unexpected(Outcome),
}

impl Space {
    /// With as many locks that are held all the time.
    pub fn with_locks(count: usize) -> Result<(Self, Held), Trouble> {
        let mut space = Self { ledger: Ledger::start(InMemory, 0).map_err(Trouble::Storage)?, asks: vec![], next: 0 };
        let mut held = Held(Vec::with_capacity(count));
        for number in 0..count {
            let (lock, acquire) = ask(&held_name(number), number, Wait::NONE)?;
            held.0.push(space.acquire(&lock, &acquire)?);
        }
        space.asks =
            (0..ASKS).map(|number| ask(&format!("free:{number}"), number, Wait::NONE)).collect::<Result<_, _>>()?;
        Ok((space, held))
    }

    /// A free lock, acquired and released.
    pub fn cycle(&mut self) -> Result<(), Trouble> {
        let (lock, acquire) = self.asks[self.next].clone();
        self.next = (self.next + 1) % ASKS;
        let fence = self.acquire(&lock, &acquire)?;
        self.release(&lock, acquire.terms.token, fence).map(drop)
    }

    pub fn renew(&mut self, lock: &Name, renew: &Command) -> Result<(), Trouble> {
        match self.apply(lock, renew)? {
            (Outcome::Reply(Reply::Renewed { .. }), _) => Ok(()),
            (other, _) => Err(Trouble::Unexpected(other)),
        }
    }

    fn acquire(&mut self, lock: &Name, acquire: &Acquire) -> Result<Fence, Trouble> {
        match self.apply(lock, &Command::Acquire(acquire.clone()))? {
            (Outcome::Reply(Reply::Granted { lease, .. }), _) => Ok(lease.fence),
            (other, _) => Err(Trouble::Unexpected(other)),
        }
    }

    fn release(&mut self, lock: &Name, token: Token, fence: Fence) -> Result<Vec<Event>, Trouble> {
        match self.apply(lock, &Command::Release(Release { token, fence }))? {
            (Outcome::Reply(Reply::Released), events) => Ok(events),
            (other, _) => Err(Trouble::Unexpected(other)),
        }
    }

    fn apply(&mut self, lock: &Name, command: &Command) -> Result<(Outcome, Vec<Event>), Trouble> {
        let mut events = Vec::new();
        let outcome =
            engine::apply(&mut self.ledger, lock, command, None, NOW, &mut events).map_err(Trouble::Storage)?;
        self.ledger.flush(NOW).map_err(Trouble::Storage)?;
        Ok((outcome, events))
    }
}

/// The locks that are held all the time.
pub struct Held(Vec<Fence>);

impl Held {
    /// The renewal of one of them. It is made anew: as in any real store, the command is in the cache, since it was just
    /// read, and shares no memory with what the store keeps.
    pub fn renewal(&self, number: usize) -> Result<(Name, Command), Trouble> {
        let (lock, acquire) = ask(&held_name(number), number, Wait::NONE)?;
        Ok((lock, Command::Renew(Renew { token: acquire.terms.token, fence: self.0[number], ttl: None })))
    }
}

/// As many names as a space has locks, and a number for each: what it costs to find one, and nothing else.
pub struct Names(FxHashMap<Name, usize>);

impl Names {
    pub fn new(count: usize) -> Result<Self, Trouble> {
        (0..count).map(|number| Ok((Self::name(number)?, number))).collect::<Result<_, _>>().map(Self)
    }

    pub fn name(number: usize) -> Result<Name, Trouble> {
        Name::new(&held_name(number)).map_err(Trouble::Refused)
    }

    pub fn look_up(&self, name: &Name) -> Option<usize> {
        self.0.get(name).copied()
    }
}

/// Numbers below `count` in no order that a cache could guess.
pub fn scattered(count: usize) -> impl Iterator<Item = usize> {
    (1..).map(move |at: usize| at.wrapping_mul(618_033_989) % count)
}

fn held_name(number: usize) -> String {
    format!("held:{number}")
}

/// One lock and its queue.
pub struct Queue {
    space: Space,
    lock: Name,
    asks: Vec<Acquire>,
    next: usize,
    holder: (Token, Fence),
    waiting: VecDeque<Token>,
}

impl Queue {
    pub fn with_waiters(count: usize) -> Result<Self, Trouble> {
        let (mut space, _) = Space::with_locks(0)?;
        let asks = (0..ASKS + 2 * count).map(|number| ask("lock", number, Wait::MAX).map(|(_, acquire)| acquire));
        let asks: Vec<_> = asks.collect::<Result<_, _>>()?;
        let (lock, first) = ask("lock", asks.len(), Wait::MAX)?;
        let fence = space.acquire(&lock, &first)?;
        let holder = (first.terms.token, fence);
        let mut queue = Self { space, lock, asks, next: 0, holder, waiting: VecDeque::new() };
        for _ in 0..count {
            queue.join()?;
        }
        Ok(queue)
    }

    /// The holder releases, the first waiter has the lock, and another one joins.
    pub fn hand_off(&mut self) -> Result<(), Trouble> {
        let (token, fence) = self.holder.clone();
        for event in self.space.release(&self.lock, token, fence)? {
            if let Event::Granted { fence, .. } = event
                && let Some(token) = self.waiting.pop_front()
            {
                self.holder = (token, fence);
            }
        }
        self.join()
    }

    fn join(&mut self) -> Result<(), Trouble> {
        let acquire = self.asks[self.next].clone();
        self.next = (self.next + 1) % self.asks.len();
        self.waiting.push_back(acquire.terms.token.clone());
        match self.space.apply(&self.lock, &Command::Acquire(acquire))? {
            (Outcome::Queued(_), _) => Ok(()),
            (other, _) => Err(Trouble::Unexpected(other)),
        }
    }
}

fn ask(lock: &str, number: usize, wait: Wait) -> Result<(Name, Acquire), Trouble> {
    let id = format!("{number:032x}-{number:03}");
    let terms = Terms {
        token: Token::new(&id).map_err(Trouble::Refused)?,
        request_id: RequestId::new(&id).map_err(Trouble::Refused)?,
        mode: Mode::Exclusive,
        ttl: Ttl::MAX,
        max_hold: None,
        lock_delay: LockDelay::NONE,
        client_id: None,
        info: None,
    };
    Ok((Name::new(lock).map_err(Trouble::Refused)?, Acquire { terms, wait, entry: Entrance::Queue }))
}
