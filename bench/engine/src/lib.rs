//! A space in memory with much in it, and the commands that are timed on it.

use std::collections::VecDeque;

use leasehold::command::{Acquire, Command, Entrance, Release, Renew, Reply, Terms};
use leasehold::engine::{self, Event, Outcome};
use leasehold::ledger::{Fault, InMemory, Ledger};
use leasehold::types::{Expected, Fence, LockDelay, Mode, Ms, Name, RequestId, Token, Ttl, Wait};

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
    pub fn with_locks(count: usize) -> Result<(Self, Vec<(Name, Renew)>), Trouble> {
        let mut space = Self { ledger: Ledger::start(InMemory, 0).map_err(Trouble::Storage)?, asks: vec![], next: 0 };
        let mut held = Vec::with_capacity(count);
        for number in 0..count {
            let (lock, acquire) = ask(&format!("held:{number}"), number, Wait::NONE)?;
            let fence = space.acquire(&lock, &acquire)?;
            held.push((lock, Renew { token: acquire.terms.token, fence, ttl: None }));
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

    pub fn renew(&mut self, lock: &Name, renew: &Renew) -> Result<(), Trouble> {
        match self.apply(lock, &Command::Renew(renew.clone()))? {
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
