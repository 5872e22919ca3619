//! Two holders' sessions and the store, with every message between them delivered, delayed, lost or repeated: the engine
//! over the lock's record, the real sessions, and a network that may do so much harm and no more.

use std::hash::{DefaultHasher, Hash, Hasher};

use leasehold::command::{Acquire, Command, Entrance, Reply, Terms};
use leasehold::kernel::{self, Change, Limits, Order, Space};
use leasehold::lock::State as Kept;
use leasehold::record;
use leasehold::session::{End, Failure, Heard, Patience, Renewal, Session, Status, Step};
use leasehold::types::{LockDelay, Mode, Ms, Name, RequestId, Token, Ttl, Wait};
use leasehold::wire;

use super::search::Machine;

const TTL_MS: f64 = 90.0;

/// An instant of every clock.
const START: Ms = 1_000_000;

pub struct Protocol {
    /// How long each client is willing to wait.
    pub patience: [Patience; 2],
    pub harm: Harm,
}

/// How much goes wrong.
#[derive(Clone, Copy)]
pub struct Harm {
    /// Messages that are lost or repeated.
    pub faults: u8,
    /// Messages that may still be under way when time passes.
    pub late: usize,
    /// Users who may have had enough, before or after they hold.
    pub leavers: usize,
    /// How often time may pass, each time to the next instant at which anybody has something to do.
    pub leaps: u8,
}

#[derive(Clone)]
pub struct State {
    now: Ms,
    record: Option<Vec<u8>>,
    wake_at: Option<Ms>,
    last_fence: u64,
    clients: Vec<Client>,
    flying: Vec<Message>,
    faults: u8,
    leaps: u8,
}

#[derive(Clone)]
struct Client {
    session: Session,
    next_at: Option<Ms>,
    was_held: bool,
    has_left: bool,
}

#[derive(Clone, Debug)]
enum Message {
    Ask { client: usize, number: u32, command: Command },
    Answer { client: usize, number: u32, heard: Result<Heard, Failure> },
    Push { client: usize, request_id: RequestId, heard: Heard },
}

#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// The message at this place among those under way arrives.
    Arrives(usize),
    /// It arrives, and will once more.
    ArrivesAndStays(usize),
    /// It is lost, and nobody is told.
    IsLost(usize),
    /// It is lost, and its sender's connection with it.
    Breaks(usize),
    TimePasses,
    /// What the store's alarm does, once it is due.
    Rings,
    /// The user has had enough.
    Leaves {
        client: usize,
    },
}

impl Protocol {
    /// The session says what it has to say, until it waits.
    fn step(&self, state: &mut State, client: usize) -> Result<(), String> {
        for _ in 0..10 {
            let own = &mut state.clients[client];
            let step = own.session.step(state.now, 0.5);
            own.was_held |= own.session.status() == Status::Holding;
            if let Status::Over(End::Lost(_)) = own.session.status()
                && !own.was_held
            {
                return Err("rule 10: a loss is told of a lease that never was".into());
            }
            match step {
                Step::Send { number, command } => {
                    if own.has_left && matches!(command, Command::Renew(_) | Command::Acquire(_)) {
                        return Err(format!("rule 11: {command:?} is sent after the release began"));
                    }
                    state.flying.push(Message::Ask { client, number, command });
                }
                Step::Wait { until } => {
                    own.next_at = until;
                    return Ok(());
                }
                Step::Over => {
                    own.next_at = None;
                    return Ok(());
                }
            }
        }
        Err("liveness: a session sends and sends".into())
    }

    fn arrive(&self, state: &mut State, message: Message) -> Result<(), String> {
        match message {
            Message::Ask { client, number, command } => {
                let reply = decide(state, &Order::Command(command))?;
                if let Some(reply) = reply {
                    let heard = heard(&reply);
                    state.flying.push(Message::Answer { client, number, heard });
                }
                Ok(())
            }
            Message::Answer { client, number, heard } => {
                let session = &mut state.clients[client].session;
                match heard {
                    Ok(heard) => session.heard(number, heard, state.now),
                    Err(failure) => session.failed(number, failure, state.now, 0.5),
                }
                self.step(state, client)
            }
            Message::Push { client, request_id, heard } => {
                let session = &mut state.clients[client].session;
                if session.request_id() == Some(&request_id) {
                    session.told(heard, state.now);
                }
                self.step(state, client)
            }
        }
    }
}

impl Machine for Protocol {
    type State = State;
    type Move = Move;

    fn first(&self) -> State {
        let client = |(number, patience): (usize, &Patience)| Client {
            session: Session::acquire(acquire(number), *patience, Renewal::Auto, START),
            next_at: None,
            was_held: false,
            has_left: false,
        };
        let mut state = State {
            now: START,
            record: None,
            wake_at: None,
            last_fence: 0,
            clients: self.patience.iter().enumerate().map(client).collect(),
            flying: Vec::new(),
            faults: self.harm.faults,
            leaps: self.harm.leaps,
        };
        for client in 0..self.patience.len() {
            self.step(&mut state, client).expect("everybody asks at first");
        }
        state
    }

    fn moves(&self, state: &State) -> Vec<Move> {
        let mut all = Vec::new();
        for at in 0..state.flying.len() {
            all.push(Move::Arrives(at));
            if state.faults > 0 {
                all.extend([Move::ArrivesAndStays(at), Move::IsLost(at), Move::Breaks(at)]);
            }
        }
        if state.leaps > 0 && state.flying.len() <= self.harm.late && next_instant(state).is_some() {
            all.push(Move::TimePasses);
        }
        if state.wake_at.is_some_and(|at| at <= state.now) {
            all.push(Move::Rings);
        }
        let leaving = state.clients.iter().enumerate().take(self.harm.leavers).filter(|(_, client)| !client.has_left);
        all.extend(leaving.map(|(client, _)| Move::Leaves { client }));
        all
    }

    fn apply(&self, state: &State, next: Move) -> Result<State, String> {
        let mut state = state.clone();
        match next {
            Move::Arrives(at) => {
                let message = state.flying.remove(at);
                self.arrive(&mut state, message)?;
            }
            Move::ArrivesAndStays(at) => {
                state.faults -= 1;
                let message = state.flying[at].clone();
                self.arrive(&mut state, message)?;
            }
            Move::IsLost(at) => {
                state.faults -= 1;
                state.flying.remove(at);
            }
            Move::Breaks(at) => {
                state.faults -= 1;
                if let Message::Ask { client, number, .. } | Message::Answer { client, number, .. } =
                    state.flying.remove(at)
                {
                    let heard = Err(Failure::Unknown);
                    state.flying.push(Message::Answer { client, number, heard });
                }
            }
            Move::TimePasses => {
                state.leaps -= 1;
                state.now = next_instant(&state).unwrap_or(state.now);
                for client in 0..state.clients.len() {
                    if state.clients[client].next_at.is_some_and(|at| at <= state.now) {
                        self.step(&mut state, client)?;
                    }
                }
            }
            Move::Rings => {
                decide(&mut state, &Order::Tick)?;
            }
            Move::Leaves { client } => {
                state.clients[client].has_left = true;
                state.clients[client].session.release(state.now);
                self.step(&mut state, client)?;
            }
        }
        Ok(state)
    }

    /// Rules 10 and 1: nobody believes what the store does not say; and liveness, once nobody has anything to do.
    fn check(&self, state: &State) -> Result<(), String> {
        let whole = state.record.as_deref().map(|bytes| record::read_whole(bytes).expect("it was written"));
        let mut believers = 0;
        for client in &state.clients {
            let Some(grant) = client.session.grant().filter(|_| client.session.is_held(state.now)) else { continue };
            believers += 1;
            let is_live = whole.iter().flat_map(|whole| &whole.entries).any(|entry| {
                matches!(entry.state, Kept::Holding(held) if held.fence == grant.fence && state.now < held.expires_at)
            });
            if !is_live {
                return Err(format!("rule 10: fence {} is believed in, and is over", grant.fence.value()));
            }
        }
        if believers > 1 {
            return Err("rule 1: two believe that they hold it".into());
        }
        let is_over = |client: &Client| matches!(client.session.status(), Status::Over(_) | Status::Unconfirmed);
        if state.flying.is_empty() && state.clients.iter().all(|client| client.next_at.is_none() && is_over(client)) {
            return comes_free(state);
        }
        Ok(())
    }

    fn show(&self, state: &State) -> String {
        let mut lines = vec![format!("{} ms:", state.now - START)];
        let whole = state.record.as_deref().map(|bytes| record::read_whole(bytes).expect("it was written"));
        for entry in whole.iter().flat_map(|whole| &whole.entries) {
            let whose = entry.terms.request_id.as_str();
            lines.push(format!("stored: {whose}: {:?} asked at {}", entry.state, entry.asked_at - START));
        }
        for (at, message) in state.flying.iter().enumerate() {
            lines.push(format!("under way: {at}: {}", words(message)));
        }
        for (number, client) in state.clients.iter().enumerate() {
            lines.push(format!("client {number}: {:?} {:?}", client.session.status(), client.session.grant()));
        }
        lines.join("\n      ")
    }

    fn key(&self, state: &State) -> u128 {
        let sessions: Vec<_> = state.clients.iter().map(|client| format!("{:?}", client.session)).collect();
        let flags: Vec<_> =
            state.clients.iter().map(|client| (client.next_at, client.was_held, client.has_left)).collect();
        let mut flying: Vec<_> = state.flying.iter().map(|message| format!("{message:?}")).collect();
        flying.sort();
        let hash = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            (salt, state.now, &state.record, state.wake_at, state.last_fence, &sessions).hash(&mut hasher);
            (&flags, &flying, state.faults, state.leaps).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        hash(0) << 64 | hash(1)
    }
}

/// The next instant at which anybody has something to do.
fn next_instant(state: &State) -> Option<Ms> {
    let own = state.clients.iter().filter_map(|client| client.next_at);
    own.chain(state.wake_at).filter(|at| *at > state.now).min()
}

/// The store carries it out; whoever waited and is told, is sent a message.
fn decide(state: &mut State, order: &Order) -> Result<Option<Reply>, String> {
    let limits = Limits { remember: 60_000, record_bytes: usize::MAX };
    let space = Space { last_fence: state.last_fence, fence_floor: 0 };
    let lock = Name::new("lock").expect("a name");
    let prior = state.record.as_deref();
    let decision = kernel::decide(prior, &lock, order, state.now, space, limits).expect("what was written is read");
    if let Some(Reply::Granted { lease, .. }) = &decision.reply
        && lease.fence.value() > decision.last_fence
    {
        return Err("rule 2: a fence is above the counter".into());
    }
    match decision.change {
        Change::Unchanged => {}
        Change::Delete => state.record = None,
        Change::Store(bytes) => state.record = Some(bytes),
    }
    state.wake_at = decision.times.wake_at;
    state.last_fence = decision.last_fence;
    for told in decision.waiters {
        let client = (0..state.clients.len()).find(|client| token(*client) == told.token);
        if let (Some(client), Ok(heard @ Heard::Granted { .. })) = (client, heard(&told.reply)) {
            state.flying.push(Message::Push { client, request_id: told.request_id, heard });
        }
    }
    Ok(decision.reply)
}

/// Over the wire's own form.
fn heard(reply: &Reply) -> Result<Heard, Failure> {
    wire::heard(&wire::reply(reply, "a space").1).ok_or(Failure::Final)
}

fn comes_free(state: &State) -> Result<(), String> {
    let mut state = state.clone();
    for _ in 0..20 {
        if state.record.is_none() {
            return Ok(());
        }
        state.now += 30_000;
        decide(&mut state, &Order::Tick)?;
    }
    Err("liveness: everybody is done, and the lock is not free".into())
}

fn acquire(client: usize) -> Acquire {
    let terms = Terms {
        token: token(client),
        request_id: RequestId::new(&format!("request {client}")).expect("a request id"),
        mode: Mode::Exclusive,
        ttl: Ttl::new(TTL_MS).expect("a ttl"),
        max_hold: None,
        lock_delay: LockDelay::NONE,
        client_id: None,
        info: None,
    };
    Acquire { terms, wait: Wait::NONE, entry: Entrance::Queue }
}

fn token(client: usize) -> Token {
    Token::new(&format!("client {client}")).expect("a token")
}

fn words(message: &Message) -> String {
    match message {
        Message::Ask { client, number, command } => {
            let command = format!("{command:?}");
            let verb = command.split(['(', ' ']).next().unwrap_or_default();
            format!("client {client} asks {number}: {verb}")
        }
        Message::Answer { client, number, heard } => format!("client {client} hears to {number}: {heard:?}"),
        Message::Push { client, heard, .. } => format!("client {client} is told {heard:?}"),
    }
}
