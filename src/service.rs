//! The engine with open asks: which caller is answered what, and when.
//!
//! Commands come in turns: what arrives together is carried out in order, made durable at once, and only then answered
//! (rule 9). An ask that waits keeps its ticket until its lease, its time-out or its end is known.

use std::collections::{BTreeSet, HashMap};

use crate::command::{Command, HOLDERS_SHOWN, List, Refusal, Reply, Request, Summary};
use crate::engine::{self, Event, Outcome};
use crate::ledger::{Fault, Flushed, Ledger, Storage};
use crate::lock::Place;
use crate::types::{Ms, Name};

/// Stands for a caller who awaits an answer.
pub type Ticket = u64;

/// Other locks that a turn looks after beside those it was asked about.
const SWEPT: usize = 64;

/// Locks read from storage per turn while a space is starting.
const LOADED: usize = 512;

/// How soon a space that is still starting wants its next turn, ms.
const LOADING_MS: Ms = 100;

pub struct Service<S> {
    ledger: Ledger<S>,
    asks: Asks,
}

/// What a turn came to, all of it durable.
#[derive(Debug, Default, PartialEq)]
pub struct Turn {
    pub answers: Vec<(Ticket, Reply)>,
    /// Somebody awaits something that may be due then: have a turn in this many ms.
    pub wake_in: Option<Ms>,
    /// Nobody waits, but something is to be cleaned up in this many ms or at any time after.
    pub due_in: Option<Ms>,
}

impl<S: Storage> Service<S> {
    pub fn new(ledger: Ledger<S>) -> Self {
        Self { ledger, asks: Asks::default() }
    }

    /// Carries out the calls of one turn, in order, and whatever is due by itself.
    ///
    /// # Errors
    /// [`Fault`] where the storage failed. Nothing of the turn may be told; memory is ahead of storage: drop this
    /// service, start anew, and answer every open ticket with `unavailable`.
    pub fn turn(&mut self, calls: Vec<(Ticket, Result<Request, Refusal>)>, host_now: Ms) -> Result<Turn, Fault> {
        let now = self.ledger.now(host_now);
        let mut turn = Turn::default();
        let asked = !calls.is_empty();
        for (ticket, call) in calls {
            match call {
                Err(refusal) => turn.answers.push((ticket, Reply::Refused(refusal))),
                Ok(Request::List(list)) => {
                    let reply = self.list(&list, now, &mut turn.answers)?;
                    turn.answers.push((ticket, reply));
                }
                Ok(Request::Lock { lock, command }) => self.command(ticket, &lock, &command, now, &mut turn.answers)?,
            }
        }
        for _ in 0..SWEPT {
            let Some(lock) = self.ledger.take_due(now) else { break };
            self.settle(&lock, now, &mut turn.answers)?;
        }
        while let Some(ask) = self.asks.take_late(now) {
            let reply = self.standing(&ask, now)?;
            turn.answers.push((ask.ticket, reply));
        }
        if self.ledger.flush(now)? == Flushed::Nothing && asked {
            self.ledger.probe()?;
        }
        let loading = self.ledger.load_more(LOADED, now)?;
        let due_at = self.ledger.next_due();
        turn.due_in = if loading { Some(LOADING_MS) } else { due_at.map(|at| at.saturating_sub(now)) };
        turn.wake_in = self.asks.first_deadline().map(|at| at.min(due_at.unwrap_or(at)).saturating_sub(now));
        Ok(turn)
    }

    fn command(
        &mut self,
        ticket: Ticket,
        lock: &Name,
        command: &Command,
        now: Ms,
        answers: &mut Vec<(Ticket, Reply)>,
    ) -> Result<(), Fault> {
        let mut events = Vec::new();
        let outcome = engine::apply(&mut self.ledger, lock, command, now, &mut events)?;
        if let (Outcome::Queued(place), Command::Acquire(acquire)) = (&outcome, command) {
            let deadline = now.saturating_add(acquire.wait.value());
            // The same ask over a new connection: the old one hears how things stand.
            if let Some(earlier) = self.asks.open(Ask { ticket, lock: lock.clone(), place: *place, deadline }) {
                let reply = self.standing(&earlier, now)?;
                answers.push((earlier.ticket, reply));
            }
        }
        self.tell(lock, &events, now, answers)?;
        if let Outcome::Reply(reply) = outcome {
            answers.push((ticket, reply));
        }
        Ok(())
    }

    fn settle(&mut self, lock: &Name, now: Ms, answers: &mut Vec<(Ticket, Reply)>) -> Result<(), Fault> {
        let mut events = Vec::new();
        engine::settle(&mut self.ledger, lock, now, &mut events)?;
        self.tell(lock, &events, now, answers)
    }

    /// Answers exactly those whom an event concerns.
    fn tell(
        &mut self,
        lock: &Name,
        events: &[Event],
        now: Ms,
        answers: &mut Vec<(Ticket, Reply)>,
    ) -> Result<(), Fault> {
        for event in events {
            let (Event::Granted { place, .. } | Event::Left { place }) = event else { continue };
            if let Some(ask) = self.asks.take(lock, *place) {
                let reply = self.standing(&ask, now)?;
                answers.push((ask.ticket, reply));
            }
        }
        Ok(())
    }

    fn standing(&mut self, ask: &Ask, now: Ms) -> Result<Reply, Fault> {
        let open = self.ledger.open(&ask.lock)?;
        let reply = engine::standing(open.lock, &ask.lock, ask.place, now).unwrap_or(Reply::Cancelled);
        self.ledger.close(&ask.lock, now);
        Ok(reply)
    }

    fn list(&mut self, list: &List, now: Ms, answers: &mut Vec<(Ticket, Reply)>) -> Result<Reply, Fault> {
        self.ledger.flush(now)?;
        let count = list.page_size.value() as usize;
        let names = self.ledger.names(&list.prefix, list.cursor.as_ref(), count)?;
        let mut locks = Vec::with_capacity(names.len());
        for name in &names {
            self.settle(name, now, answers)?;
            let open = self.ledger.open(name)?;
            if open.lock.holding() + open.lock.waiting() > 0 {
                let holders = engine::holders(open.lock, now, HOLDERS_SHOWN);
                locks.push(Summary { lock: name.clone(), holders, queue: open.lock.waiting() });
            }
            self.ledger.close(name, now);
        }
        let cursor = if names.len() == count { names.last().cloned() } else { None };
        Ok(Reply::Listed { locks, cursor })
    }
}

/// An acquire that waits in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ask {
    ticket: Ticket,
    lock: Name,
    place: Place,
    deadline: Ms,
}

#[derive(Default)]
struct Asks {
    by_place: HashMap<(Name, Place), (Ticket, Ms)>,
    by_deadline: BTreeSet<(Ms, Name, Place)>,
}

impl Asks {
    /// The ask that was open at the same place, if there was one, is closed.
    fn open(&mut self, ask: Ask) -> Option<Ask> {
        let earlier = self.take(&ask.lock, ask.place);
        self.by_deadline.insert((ask.deadline, ask.lock.clone(), ask.place));
        self.by_place.insert((ask.lock, ask.place), (ask.ticket, ask.deadline));
        earlier
    }

    fn take(&mut self, lock: &Name, place: Place) -> Option<Ask> {
        let ((lock, place), (ticket, deadline)) = self.by_place.remove_entry(&(lock.clone(), place))?;
        self.by_deadline.remove(&(deadline, lock.clone(), place));
        Some(Ask { ticket, lock, place, deadline })
    }

    fn take_late(&mut self, now: Ms) -> Option<Ask> {
        let (deadline, lock, place) = self.by_deadline.first()?.clone();
        if deadline > now {
            return None;
        }
        self.take(&lock, place)
    }

    fn first_deadline(&self) -> Option<Ms> {
        self.by_deadline.first().map(|(deadline, ..)| *deadline)
    }
}
