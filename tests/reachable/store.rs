//! One lock and a few clients who ask for it, in every order: the engine over the lock's record.
//!
//! Two states are the same when they differ only in when it is and in how fences and places are counted, so there are not
//! endlessly many, and histories of any length are tried. Each client has a few request ids and uses them again: what
//! comes late, or twice, is among what it may do.

use std::hash::{DefaultHasher, Hash, Hasher};

use leasehold::command::{Acquire, Cancel, Command, Entrance, Release, Renew, Reply, Terms};
use leasehold::kernel::{self, Change, Decision, Limits, Order, Space};
use leasehold::lock::{Entry, State as Kept};
use leasehold::record::{self, Whole};
use leasehold::types::{Fence, Limit, LockDelay, Mode, Ms, Name, RequestId, Token, Ttl, Wait};

use super::search::Machine;

/// Time passes in such steps: two to a ttl and to a claim, three to a place in the queue.
const STEP_MS: Ms = 2_500;
const TTL_MS: f64 = 5_000.0;

/// It is always now.
const NOW: Ms = 1_000_000;

/// What ended so long ago makes no difference any more.
const LONG_AGO: Ms = NOW - 20_000;

/// A lock is free by then, if nobody does anything.
const STEPS_TO_FREEDOM: usize = 16;

pub struct Store {
    pub clients: usize,
    pub requests: usize,
    pub mode: Mode,
}

#[derive(Clone)]
pub struct State {
    whole: Option<Whole>,
    last_fence: u64,
    /// The fence that each client was last told of, by request.
    known: Vec<Vec<Option<u64>>>,
}

#[derive(Clone, Copy, Debug)]
pub enum Move {
    TimePasses,
    /// What an alarm does; it need not ring.
    Tick,
    Try {
        client: usize,
        request: usize,
    },
    Wait {
        client: usize,
        request: usize,
    },
    Renew {
        client: usize,
        request: usize,
    },
    Release {
        client: usize,
        request: usize,
    },
    Cancel {
        client: usize,
        request: usize,
    },
}

impl Store {
    pub fn exclusive(clients: usize, requests: usize) -> Self {
        Self { clients, requests, mode: Mode::Exclusive }
    }

    pub fn semaphore(clients: usize, limit: f64) -> Self {
        Self { clients, requests: 1, mode: Mode::Shared(Some(Limit::new(limit).expect("a limit"))) }
    }

    fn limit(&self) -> usize {
        match self.mode {
            Mode::Exclusive => 1,
            Mode::Shared(limit) => limit.map_or(usize::MAX, |limit| limit.value() as usize),
        }
    }

    fn command(&self, state: &State, next: Move) -> Option<Command> {
        let fence = |client: usize, request: usize| {
            Fence::new(state.known[client][request].unwrap_or(1) as f64).expect("a fence counts from 1")
        };
        Some(match next {
            Move::TimePasses | Move::Tick => return None,
            Move::Try { client, request } => Command::Acquire(self.acquire(client, request, Wait::NONE)),
            Move::Wait { client, request } => {
                let wait = Wait::new(STEP_MS as f64).expect("a wait");
                Command::Acquire(self.acquire(client, request, wait))
            }
            Move::Renew { client, request } => {
                Command::Renew(Renew { token: token(client), fence: fence(client, request), ttl: None })
            }
            Move::Release { client, request } => {
                Command::Release(Release { token: token(client), fence: fence(client, request) })
            }
            Move::Cancel { client, request } => {
                Command::Cancel(Cancel { token: token(client), request_id: request_id(request) })
            }
        })
    }

    fn acquire(&self, client: usize, request: usize, wait: Wait) -> Acquire {
        let terms = Terms {
            token: token(client),
            request_id: request_id(request),
            mode: self.mode,
            ttl: Ttl::new(TTL_MS).expect("a ttl"),
            max_hold: None,
            lock_delay: LockDelay::NONE,
            client_id: None,
            info: None,
        };
        Acquire { terms, wait, entry: Entrance::Queue }
    }

    /// Notes who was told of which fence.
    fn learn(&self, state: &mut State, next: Move, decision: &Decision) {
        let fence_of = |reply: &Reply| match reply {
            Reply::Granted { lease, .. } => Some(lease.fence.value()),
            _ => None,
        };
        if let (Move::Try { client, request } | Move::Wait { client, request }, Some(reply)) = (next, &decision.reply)
            && let Some(fence) = fence_of(reply)
        {
            state.known[client][request] = Some(fence);
        }
        for told in &decision.waiters {
            for client in (0..self.clients).filter(|client| token(*client) == told.token) {
                for request in (0..self.requests).filter(|request| request_id(*request) == told.request_id) {
                    state.known[client][request] = fence_of(&told.reply).or(state.known[client][request]);
                }
            }
        }
    }

    /// The rules, of one decision.
    fn judge(
        &self,
        before: &State,
        command: Option<&Command>,
        decision: &Decision,
        after: &[Entry],
    ) -> Result<(), String> {
        let was = entries(before);
        let live = after.iter().filter(|entry| is_live(entry)).count();
        let mut broken = Vec::new();
        let mut holds = |holds: bool, what: &str| {
            if !holds {
                broken.push(what.to_owned());
            }
        };
        holds(live <= self.limit(), "rule 1: more hold it than may");
        let new: Vec<&Entry> = after
            .iter()
            .filter(|entry| matches!(entry.state, Kept::Holding(_)))
            .filter(|entry| was.iter().all(|old| old.fence() != entry.fence()))
            .collect();
        let mut last = before.last_fence;
        let mut fences: Vec<u64> = new.iter().filter_map(|entry| entry.fence()).map(Fence::value).collect();
        fences.sort_unstable();
        for fence in fences {
            holds(fence > last, "rule 2: a fence does not rise");
            last = fence;
        }
        holds(decision.last_fence >= last, "rule 2: the counter is behind");
        let waiting = || after.iter().filter(|entry| matches!(entry.state, Kept::Waiting { .. }));
        for granted in &new {
            holds(waiting().all(|entry| granted.place < entry.place), "rule 7: somebody was overtaken");
        }
        if command.is_some() {
            holds(waiting().count() == 0 || live == self.limit(), "rule 7: somebody waits for a lock that is free");
        }
        for place in was.iter().filter(|entry| matches!(entry.state, Kept::Waiting { until } if NOW < until)) {
            let is_there = after.iter().any(|entry| is_of(entry, place));
            let is_cancelled = matches!(command, Some(Command::Cancel(cancel))
                if (&cancel.token, &cancel.request_id) == (&place.terms.token, &place.terms.request_id));
            holds(is_there || is_cancelled, "rule 7: a place was lost");
        }
        let of = |token: &Token, fence: Fence| {
            was.iter().any(|entry| is_live(entry) && entry.terms.token == *token && entry.fence() == Some(fence))
        };
        match (command, &decision.reply) {
            (Some(Command::Renew(Renew { token, fence, .. })), Some(reply)) => {
                let is_renewed = matches!(reply, Reply::Renewed { .. });
                holds(is_renewed == of(token, *fence), "rule 5: renewed by who does not hold it, or not by who does");
            }
            (Some(Command::Release(Release { token, fence })), Some(reply)) => {
                holds((*reply == Reply::Released) == of(token, *fence), "rule 5: released by who does not hold it");
            }
            (Some(Command::Acquire(acquire)), Some(reply)) => {
                let held = was.iter().find(|entry| {
                    is_live(entry)
                        && (&entry.terms.token, &entry.terms.request_id)
                            == (&acquire.terms.token, &acquire.terms.request_id)
                });
                let is_same = |fence| matches!(reply, Reply::Granted { lease, .. } if Some(lease.fence) == fence);
                holds(held.is_none_or(|entry| is_same(entry.fence())), "rule 6: a repeated ask has another lease");
            }
            _ => {}
        }
        for (at, entry) in after.iter().enumerate() {
            let is_alone = after.iter().skip(at + 1).all(|other| !is_of(other, entry));
            holds(is_alone, "rule 6: an ask is there twice");
        }
        if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
    }
}

impl Machine for Store {
    type State = State;
    type Move = Move;

    fn first(&self) -> State {
        State { whole: None, last_fence: 0, known: vec![vec![None; self.requests]; self.clients] }
    }

    fn moves(&self, state: &State) -> Vec<Move> {
        let mut all = vec![Move::TimePasses, Move::Tick];
        for client in 0..self.clients {
            for request in 0..self.requests {
                all.push(Move::Try { client, request });
                all.push(Move::Wait { client, request });
                all.push(Move::Cancel { client, request });
                if state.known[client][request].is_some() {
                    all.push(Move::Renew { client, request });
                    all.push(Move::Release { client, request });
                }
            }
        }
        all
    }

    fn apply(&self, state: &State, next: Move) -> Result<State, String> {
        let command = self.command(state, next);
        if let Move::TimePasses = next {
            return Ok(renumbered(state.clone(), STEP_MS));
        }
        let order = command.clone().map_or(Order::Tick, Order::Command);
        let (mut new, decision) = decide(state, &order);
        self.judge(state, command.as_ref(), &decision, &entries(&new))?;
        self.learn(&mut new, next, &decision);
        Ok(renumbered(new, 0))
    }

    /// No deadlock: if nobody does anything any more, time alone sets the lock free.
    fn check(&self, state: &State) -> Result<(), String> {
        let mut state = state.clone();
        for _ in 0..STEPS_TO_FREEDOM {
            state = renumbered(decide(&state, &Order::Tick).0, STEP_MS);
            if state.whole.is_none() {
                return Ok(());
            }
        }
        Err("liveness: the lock does not become free by itself".into())
    }

    fn show(&self, state: &State) -> String {
        let entry = |entry: &Entry| {
            let left = |at: Ms| at as i64 - NOW as i64;
            let how = match entry.state {
                Kept::Waiting { until } => format!("waits for {} ms", left(until)),
                Kept::Holding(held) => {
                    format!("holds fence {} for {} ms, {:?}", held.fence.value(), left(held.expires_at), held.claim)
                }
                Kept::Ended { fence, reason, .. } => format!("had fence {}, {reason:?}", fence.value()),
            };
            format!("      {:?} {}: {how}", entry.terms.request_id, entry.place)
        };
        let lines: Vec<_> = entries(state).iter().map(entry).collect();
        format!("{}\n      known: {:?}", lines.join("\n"), state.known)
    }

    fn key(&self, state: &State) -> u128 {
        let bytes = state.whole.as_ref().map(record::write_whole);
        let hash = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            (salt, &bytes, state.last_fence, &state.known).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        hash(0) << 64 | hash(1)
    }
}

fn decide(state: &State, order: &Order) -> (State, Decision) {
    let limits = Limits { remember: STEP_MS, record_bytes: usize::MAX };
    let space = Space { last_fence: state.last_fence, fence_floor: 0 };
    let prior = state.whole.as_ref().map(record::write_whole);
    let lock = Name::new("lock").expect("a name");
    let decision =
        kernel::decide(prior.as_deref(), &lock, order, NOW, space, limits).expect("what was written can be read");
    let whole = match &decision.change {
        Change::Unchanged => state.whole.clone(),
        Change::Delete => None,
        Change::Store(bytes) => Some(record::read_whole(bytes).expect("what was written can be read")),
    };
    (State { whole, last_fence: decision.last_fence, known: state.known.clone() }, decision)
}

/// The same state, later, with its instants, fences and places counted anew.
fn renumbered(mut state: State, later: Ms) -> State {
    let at = |instant: Ms| instant.saturating_sub(later).max(LONG_AGO);
    let mut fences = Vec::new();
    if let Some(whole) = &mut state.whole {
        whole.clock = NOW;
        for (place, entry) in whole.entries.iter_mut().enumerate() {
            entry.place = place as u64 + 1;
            // For display only.
            entry.asked_at = NOW;
            match &mut entry.state {
                Kept::Waiting { until } => *until = at(*until),
                Kept::Holding(holding) => {
                    holding.granted_at = NOW;
                    holding.expires_at = at(holding.expires_at);
                }
                Kept::Ended { until, closed_until, .. } => {
                    *until = at(*until);
                    *closed_until = at(*closed_until);
                }
            }
            fences.extend(entry.fence().map(Fence::value));
        }
        whole.remembered.iter_mut().for_each(|gone| gone.until = at(gone.until));
        whole.remembered.retain(|gone| gone.until > NOW);
        fences.extend(whole.remembered.iter().filter_map(|gone| gone.fence).map(Fence::value));
    }
    fences.sort_unstable();
    fences.dedup();
    // Fences of which no trace is left are all the same.
    let number = |fence: u64| fences.binary_search(&fence).map_or(1, |at| at as u64 + 2);
    let renumber = |fence: &mut Fence| *fence = Fence::new(number(fence.value()) as f64).expect("a fence");
    if let Some(whole) = &mut state.whole {
        for entry in &mut whole.entries {
            match &mut entry.state {
                Kept::Waiting { .. } => {}
                Kept::Holding(holding) => renumber(&mut holding.fence),
                Kept::Ended { fence, .. } => renumber(fence),
            }
        }
        whole.remembered.iter_mut().filter_map(|gone| gone.fence.as_mut()).for_each(renumber);
        whole.fence = fences.len() as u64 + 1;
    }
    state.last_fence = fences.len() as u64 + 1;
    state.known.iter_mut().flatten().flatten().for_each(|fence| *fence = number(*fence));
    state
}

fn entries(state: &State) -> Vec<Entry> {
    state.whole.as_ref().map(|whole| whole.entries.clone()).unwrap_or_default()
}

fn is_live(entry: &Entry) -> bool {
    matches!(entry.state, Kept::Holding(holding) if NOW < holding.expires_at)
}

fn is_of(entry: &Entry, other: &Entry) -> bool {
    (&entry.terms.token, &entry.terms.request_id) == (&other.terms.token, &other.terms.request_id)
}

fn token(client: usize) -> Token {
    Token::new(&format!("client {client}")).expect("a token")
}

fn request_id(request: usize) -> RequestId {
    RequestId::new(&format!("request {request}")).expect("a request id")
}
