//! The holder's machine against the real engine, in a small world that is made from a seed: messages are lost, late,
//! doubled and overtaken, clients stop for a while, the store restarts and its clock is set back or ahead.
//!
//! `LEASEHOLD_SEEDS=1000000 cargo test --release --test session` takes more seeds; `LEASEHOLD_SEED=n` tells of one.

mod support;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

use leasehold::command::{Acquire, Command, Entrance, Push, Reply, Request, Revoke, Terms};
use leasehold::ledger::{Ledger, Storage};
use leasehold::lock::State;
use leasehold::service::{Call, Service, Ticket};
use leasehold::session::{End, Failure, Heard, Patience, Renewal, Session, Status, Step};
use leasehold::types::{Connection, Fence, Limit, LockDelay, MaxHold, Mode, Ms, Name, RequestId, Token, Ttl, Wait};
use leasehold::wire;
use support::dice::Dice;
use support::rows::Rows;

/// A quiet network: every lease that is asked for is had, and none is lost.
#[test]
fn a_renewable_lease_is_not_lost_while_the_network_works() {
    run(1_000, Weather::CALM);
}

/// Rule 10: whatever happens to messages and clients, nobody believes in a lease that the store thinks over.
#[test]
fn nobody_believes_in_a_lease_that_is_over() {
    run(6_000, Weather::STORM);
}

/// The same with a store that restarts and whose clock is set back.
#[test]
fn a_store_that_restarts_with_its_clock_set_back_deceives_nobody() {
    run(3_000, Weather { restarts: true, set_back: true, ..Weather::STORM });
}

/// A clock set ahead ends leases before their holders know: the fence tells them apart, and everything goes on.
#[test]
fn a_clock_set_ahead_is_survived() {
    run(1_000, Weather { set_ahead: true, ..Weather::STORM });
}

/// No wake-ups at all: those who ask are served.
#[test]
fn without_alarms_who_asks_is_served() {
    run(1_000, Weather { alarms: false, ..Weather::STORM });
}

#[derive(Clone, Copy)]
struct Weather {
    /// Whether messages are lost, late and doubled, and clients stop.
    faults: bool,
    restarts: bool,
    set_back: bool,
    set_ahead: bool,
    /// Whether the store has turns by itself.
    alarms: bool,
}

impl Weather {
    const CALM: Self = Self { faults: false, restarts: false, set_back: false, set_ahead: false, alarms: true };
    const STORM: Self = Self { faults: true, ..Self::CALM };
}

fn run(seeds: u64, weather: Weather) {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("LEASEHOLD_SEED") {
        World::new(seed, weather, Story::Told).live();
        return;
    }
    let mut counts = Counts::default();
    for seed in 0..number("LEASEHOLD_SEEDS").unwrap_or(seeds) {
        let lived = catch_unwind(AssertUnwindSafe(|| World::new(seed, weather, Story::Untold).live()));
        counts.add(&lived.unwrap_or_else(|_| panic!("LEASEHOLD_SEED={seed} tells what went wrong")));
    }
    println!("{counts:?}");
    assert!(counts.granted > 0 && counts.released > 0);
    assert!(!weather.faults || (counts.lost > 0 && counts.timed_out > 0 && counts.given_up > 0));
}

/// How sessions went.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    messages: u64,
    granted: u64,
    released: u64,
    lost: u64,
    held: u64,
    timed_out: u64,
    given_up: u64,
    failed: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.granted += other.granted;
        self.released += other.released;
        self.lost += other.lost;
        self.held += other.held;
        self.timed_out += other.timed_out;
        self.given_up += other.given_up;
        self.failed += other.failed;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Story {
    Told,
    Untold,
}

/// Faults stop here; what is going on then has to come to its end.
const CALM_FROM: Ms = 60_000;
/// By then nobody may be waiting, holding or cleaning up any more.
const OVER_BY: Ms = CALM_FROM + 400_000;

struct World {
    story: Story,
    dice: Dice,
    weather: Weather,
    /// Milliseconds since the world began.
    now: Ms,
    events: BinaryHeap<Reverse<(Ms, u64)>>,
    happening: HashMap<u64, Happening>,
    next_event: u64,
    store: Store,
    clients: Vec<Client>,
    alarm_at: Option<Ms>,
    counts: Counts,
}

enum Happening {
    /// A message arrives at the store.
    Asked {
        from: usize,
        life: u64,
        number: u32,
        command: Command,
    },
    /// An answer, or the news that there will be none.
    Answered {
        to: usize,
        life: u64,
        number: u32,
        heard: Result<Heard, Failure>,
    },
    Pushed {
        to: usize,
        life: u64,
        request_id: Option<RequestId>,
        heard: Heard,
    },
    /// A client does what its session says.
    Stepped {
        client: usize,
        life: u64,
    },
    User {
        client: usize,
        life: u64,
        deed: Deed,
    },
    Alarm,
    Restart,
    ClockSet {
        by: i64,
    },
    Cut {
        client: usize,
    },
}

#[derive(Clone, Copy)]
enum Deed {
    Start,
    Release,
    Renew(Option<u64>),
    SetRenewal(Renewal),
    Revoke,
    /// Another process goes on with the lease, and this one forgets it.
    HandOver,
}

struct Client {
    /// What its clock says when the world's says 0.
    clock: Ms,
    connection: Option<Connection>,
    lock: Name,
    session: Option<Session>,
    patience: Patience,
    started_at: Ms,
    /// Counts the sessions, so that what belongs to an earlier one is known.
    life: u64,
    asks_left: u64,
    was_held: bool,
    is_attached: bool,
    /// It has asked for another length. Such a renewal may still be under way when the lease is handed over, and nobody
    /// who attaches to it can know: see `Lease.renew`.
    has_changed_ttl: bool,
    is_over: bool,
    /// Nothing is left to do, not even to clean up.
    is_done: bool,
    wants_out: bool,
    paused_until: Ms,
    cut_until: Ms,
    /// When it next does what its session says, as far as that is planned.
    steps_at: Option<Ms>,
}

struct Store {
    rows: Rows,
    service: Service<Rows>,
    /// What the host's clock is ahead of the world's.
    offset: i64,
    clock: Ms,
    ahead: Ms,
    tickets: HashMap<Ticket, (usize, u64, u32)>,
    next_ticket: Ticket,
    /// Live leases as stored: lock, fence, mode, end.
    leases: Vec<(Name, Fence, Mode, Ms)>,
    /// Leases that were ended by force: their holders cannot know before they are told.
    forced: Vec<Fence>,
}

const EPOCH: Ms = 1_000_000_000;

impl World {
    fn new(seed: u64, weather: Weather, story: Story) -> Self {
        let mut dice = Dice::new(seed);
        let rows = Rows::default();
        let store = Store {
            service: start(rows.clone()),
            rows,
            offset: 0,
            clock: 0,
            ahead: 0,
            tickets: HashMap::new(),
            next_ticket: 1,
            leases: Vec::new(),
            forced: Vec::new(),
        };
        let locks = dice.between(1, 2);
        let clients = (0..dice.between(2, 4))
            .map(|client| Client {
                clock: dice.below(1 << 40),
                connection: dice.once_in(2).then_some(Connection(client)),
                lock: Name::new(&format!("lock {}", dice.below(locks))).unwrap(),
                session: None,
                patience: Patience::None,
                started_at: 0,
                life: 0,
                asks_left: dice.between(1, 3),
                was_held: false,
                is_attached: false,
                has_changed_ttl: false,
                is_over: true,
                is_done: true,
                wants_out: false,
                paused_until: 0,
                cut_until: 0,
                steps_at: None,
            })
            .collect::<Vec<_>>();
        let mut world = Self {
            story,
            dice,
            weather,
            now: 0,
            events: BinaryHeap::new(),
            happening: HashMap::new(),
            next_event: 0,
            store,
            clients,
            alarm_at: None,
            counts: Counts::default(),
        };
        for client in 0..world.clients.len() {
            let at = world.dice.below(3_000);
            world.plan(at, Happening::User { client, life: 0, deed: Deed::Start });
        }
        world.plan_weather();
        world
    }

    fn plan_weather(&mut self) {
        let Weather { faults, restarts, set_back, set_ahead, alarms: _ } = self.weather;
        let spells = if faults { self.dice.below(4) } else { 0 };
        for _ in 0..spells {
            let (at, client) = (self.dice.below(CALM_FROM), self.dice.below(self.clients.len() as u64) as usize);
            self.plan(at, Happening::Cut { client });
        }
        for _ in 0..3 {
            let leap = self.dice.pick(&[1, 100, 3_000, 40_000, 3_600_000]);
            if restarts {
                let at = self.dice.below(CALM_FROM);
                self.plan(at, Happening::Restart);
            }
            if set_back {
                let at = self.dice.below(CALM_FROM);
                self.plan(at, Happening::ClockSet { by: -leap });
            }
            if set_ahead {
                let at = self.dice.below(CALM_FROM);
                self.plan(at, Happening::ClockSet { by: leap });
            }
        }
    }

    fn plan(&mut self, at: Ms, happening: Happening) {
        self.next_event += 1;
        self.events.push(Reverse((at.max(self.now), self.next_event)));
        self.happening.insert(self.next_event, happening);
    }

    fn live(mut self) -> Counts {
        let mut happened = 0;
        while let Some(Reverse((at, event))) = self.events.pop() {
            self.now = at;
            happened += 1;
            assert!(happened < 10_000, "the world is too busy: somebody asks without end");
            assert!(at < OVER_BY, "somebody is not done");
            let happening = self.happening.remove(&event).expect("it was planned");
            self.happen(happening);
            self.check();
        }
        self.store_is_clean();
        self.counts
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Asked { from, life, number, command } => self.ask_store(from, life, number, command),
            Happening::Answered { to, life, number, heard } => {
                let Some(at) = self.is_awake(to, life) else { return };
                if at > self.now {
                    return self.plan(at, Happening::Answered { to, life, number, heard });
                }
                let (now, dice) = (self.clients[to].now(self.now), self.dice.unit());
                self.tell(to, || format!("hears {heard:?} to {number}"));
                if let Some(session) = &mut self.clients[to].session {
                    match heard {
                        Ok(heard) => session.heard(number, heard, now),
                        Err(failure) => session.failed(number, failure, now, dice),
                    }
                }
                self.step(to);
            }
            Happening::Pushed { to, life, request_id, heard } => {
                let Some(at) = self.is_awake(to, life) else { return };
                if at > self.now {
                    return self.plan(at, Happening::Pushed { to, life, request_id, heard });
                }
                let now = self.clients[to].now(self.now);
                self.tell(to, || format!("is told {heard:?}"));
                if let Some(session) = &mut self.clients[to].session
                    && (request_id.is_none() || session.request_id() == request_id.as_ref())
                {
                    session.told(heard, now);
                }
                self.step(to);
            }
            Happening::Stepped { client, life } => {
                let Some(at) = self.is_awake(client, life) else { return };
                // Another instant was planned since.
                if self.clients[client].steps_at != Some(self.now) {
                    return;
                }
                if at > self.now {
                    self.clients[client].steps_at = Some(at);
                    return self.plan(at, Happening::Stepped { client, life });
                }
                self.clients[client].steps_at = None;
                self.step(client);
            }
            Happening::User { client, life, deed } => {
                let Some(at) = self.is_awake(client, life) else { return };
                if at > self.now {
                    return self.plan(at, Happening::User { client, life, deed });
                }
                self.user(client, deed);
            }
            Happening::Alarm if self.alarm_at != Some(self.now) => {}
            Happening::Alarm => {
                self.alarm_at = None;
                self.turn(Vec::new(), &[]);
            }
            Happening::Restart => {
                self.tell_all(|| "the store restarts".into());
                self.store.service = start(self.store.rows.clone());
                self.store.clock = self.store.rows.latest_at();
                self.store.ahead = 0;
                let tickets = std::mem::take(&mut self.store.tickets);
                for (to, life, number) in tickets.into_values() {
                    if self.dice.once_in(2) {
                        self.answer(to, life, number, Err(Failure::Unknown));
                    }
                }
            }
            Happening::ClockSet { by } => {
                self.tell_all(|| format!("the store's clock is set by {by} ms"));
                self.store.offset += by;
                self.turn(Vec::new(), &[]);
            }
            Happening::Cut { client } => {
                let lasts = self.dice.pick(&[100, 2_000, 12_000, 30_000]);
                self.tell(client, || format!("is cut off for {lasts} ms"));
                self.clients[client].cut_until = self.now + lasts;
                if let Some(connection) = self.clients[client].connection {
                    self.turn(Vec::new(), &[connection]);
                }
            }
        }
    }

    /// When the client can attend to something of this life; `None` when that life is over.
    fn is_awake(&self, client: usize, life: u64) -> Option<Ms> {
        let client = &self.clients[client];
        (client.life == life).then(|| client.paused_until.max(self.now))
    }

    fn user(&mut self, client: usize, deed: Deed) {
        let now = self.clients[client].now(self.now);
        match deed {
            Deed::Start => return self.start(client),
            Deed::Release => {
                self.clients[client].wants_out = true;
                self.tell(client, || "releases".into());
                if let Some(session) = &mut self.clients[client].session {
                    session.release(now);
                }
            }
            Deed::Renew(ttl) => {
                self.tell(client, || format!("renews for {ttl:?}"));
                self.clients[client].has_changed_ttl |= ttl.is_some();
                if let Some(session) = &mut self.clients[client].session {
                    session.renew(ttl.map(|ttl| Ttl::new(ttl as f64).unwrap()), now);
                }
            }
            Deed::SetRenewal(renewal) => {
                self.tell(client, || format!("sets its renewal to {renewal:?}"));
                if let Some(session) = &mut self.clients[client].session {
                    session.set_renewal(renewal, now);
                }
            }
            Deed::Revoke => {
                let request = Request::Lock {
                    lock: self.clients[client].lock.clone(),
                    command: Command::Revoke(Revoke { fence: None, reason: None }),
                };
                let of_lock = |(lock, ..): &&(Name, Fence, Mode, Ms)| *lock == self.clients[client].lock;
                let forced: Vec<_> = self.store.leases.iter().filter(of_lock).map(|(_, fence, ..)| *fence).collect();
                self.store.forced.extend(forced);
                self.turn(vec![Call { ticket: 0, via: None, request: Ok(request) }], &[]);
            }
            Deed::HandOver if self.clients[client].has_changed_ttl => {}
            Deed::HandOver => {
                let Some((session, grant)) =
                    self.clients[client].session.as_ref().and_then(|session| Some((session, session.grant()?)))
                else {
                    return;
                };
                assert_eq!(session.status(), Status::Holding);
                let renewal = if self.dice.once_in(3) { Renewal::Manual } else { Renewal::Auto };
                self.tell(client, || format!("hands fence {} over ({renewal:?})", grant.fence.value()));
                let token = self.token_of(client);
                let session = Session::attach(token, grant.fence, renewal, now);
                self.clients[client].session = Some(session);
                self.clients[client].is_attached = true;
                let at = self.now + self.dice.between(1, 9_000);
                let life = self.begin_life(client);
                self.plan(at, Happening::User { client, life, deed: Deed::Release });
            }
        }
        self.step(client);
    }

    fn begin_life(&mut self, client: usize) -> u64 {
        let client = &mut self.clients[client];
        client.life += 1;
        client.is_over = false;
        client.is_done = false;
        client.wants_out = false;
        client.steps_at = None;
        client.was_held = client.session.is_some();
        client.life
    }

    fn token_of(&self, client: usize) -> Token {
        Token::new(&format!("token of {client}")).unwrap()
    }

    fn start(&mut self, client: usize) {
        if self.clients[client].asks_left == 0 || self.now >= CALM_FROM {
            return;
        }
        if !self.clients[client].is_done {
            let (life, at) = (self.clients[client].life, self.now + 500);
            return self.plan(at, Happening::User { client, life, deed: Deed::Start });
        }
        self.clients[client].asks_left -= 1;
        let dice = &mut self.dice;
        let is_calm = !self.weather.faults;
        let is_semaphore = self.clients[client].lock.as_str() == "lock 1";
        let mode = match dice.below(3) {
            0 if is_semaphore => Mode::Shared(Some(Limit::new(2.0).unwrap())),
            0 => Mode::Shared(None),
            _ => Mode::Exclusive,
        };
        let ttl =
            if is_calm { dice.pick(&[1_000, 3_000, 30_000]) } else { dice.pick(&[50, 300, 1_000, 6_000, 30_000]) };
        let steals = mode == Mode::Exclusive && !is_calm && dice.once_in(20);
        let max_hold = (!is_calm && dice.once_in(8)).then(|| MaxHold::new(dice.between(1, 9_000) as f64).unwrap());
        let lock_delay = if dice.once_in(8) { LockDelay::new(700.0).unwrap() } else { LockDelay::NONE };
        let patience = match dice.below(5) {
            0 => Patience::None,
            1 => Patience::For(dice.between(1, 20_000)),
            2 => Patience::For(dice.between(1, 500)),
            _ => Patience::Unlimited,
        };
        let renewal = match dice.below(6) {
            0 if !is_calm => Renewal::Manual,
            1 => Renewal::Every(dice.between(ttl / 10 + 1, ttl)),
            _ => Renewal::Auto,
        };
        let acquire = Acquire {
            terms: Terms {
                token: self.token_of(client),
                request_id: RequestId::new(&format!("{client}, {}", self.clients[client].life)).unwrap(),
                mode,
                ttl: Ttl::new(ttl as f64).unwrap(),
                max_hold,
                lock_delay,
                client_id: None,
                info: None,
            },
            wait: Wait::NONE,
            entry: if steals { Entrance::Steal } else { Entrance::Queue },
        };
        let now = self.clients[client].now(self.now);
        self.tell(client, || format!("asks: {patience:?} {renewal:?} {acquire:?}"));
        self.clients[client].session = None;
        let life = self.begin_life(client);
        let state = &mut self.clients[client];
        state.session = Some(Session::acquire(acquire, patience, renewal, now));
        (state.patience, state.started_at, state.is_attached) = (patience, self.now, false);
        let lasts = if matches!(patience, Patience::Unlimited) || self.dice.once_in(2) { 40_000 } else { 8_000 };
        let release_at = self.now + self.dice.between(1, lasts);
        self.plan(release_at, Happening::User { client, life, deed: Deed::Release });
        for _ in 0..self.dice.below(3) {
            let at = self.now + self.dice.between(1, 10_000);
            let deed = match self.dice.below(if is_calm { 4 } else { 7 }) {
                0 => Deed::Renew(None),
                1 => Deed::Renew(Some(self.dice.pick(&[1_000, 4_000, 20_000]))),
                2 => Deed::SetRenewal(Renewal::Auto),
                3 => Deed::SetRenewal(Renewal::Every(ttl / 2)),
                4 => Deed::SetRenewal(Renewal::Manual),
                5 => Deed::Revoke,
                _ => Deed::HandOver,
            };
            self.plan(at, Happening::User { client, life, deed });
        }
        if self.weather.faults && self.dice.once_in(3) {
            let lasts = self.dice.pick(&[10, 700, 5_000, 20_000]);
            self.clients[client].paused_until = self.now + lasts;
        }
        self.step(client);
    }

    /// Does what the session says until it has nothing to say.
    fn step(&mut self, client: usize) {
        for _ in 0..10 {
            let (now, dice) = (self.clients[client].now(self.now), self.dice.unit());
            let life = self.clients[client].life;
            let Some(session) = &mut self.clients[client].session else { return };
            let step = session.step(now, dice);
            let status = session.status();
            self.note(client, status);
            match step {
                Step::Send { number, command } => {
                    let cleans_up = matches!(command, Command::Cancel(_) | Command::Release(_));
                    let may_send = match status {
                        Status::Over(End::Released | End::Held) => false,
                        Status::Over(_) => cleans_up,
                        Status::Asking | Status::Holding | Status::Releasing | Status::Unconfirmed => true,
                    };
                    assert!(may_send, "{command:?} is sent although it is over: {status:?}");
                    self.tell(client, || format!("sends {number}: {command:?}"));
                    self.send(client, life, number, command);
                }
                Step::Wait { until } => {
                    let is_over = matches!(status, Status::Over(End::Released | End::Held));
                    assert!(!is_over, "a timer is left although it is over: {status:?}");
                    if let Some(until) = until {
                        assert!(until > now || self.clients[client].paused_until > self.now, "no time passes");
                        let at = self.now + until.saturating_sub(now);
                        if self.clients[client].steps_at.is_none_or(|planned| at < planned) {
                            self.clients[client].steps_at = Some(at);
                            self.plan(at, Happening::Stepped { client, life });
                        }
                    }
                    return;
                }
                Step::Over => {
                    self.clients[client].is_done = true;
                    return;
                }
            }
        }
        panic!("a session sends and sends: {:?}", self.clients[client].session);
    }

    /// Keeps account of how the session stands.
    fn note(&mut self, client: usize, status: Status) {
        let now = self.now;
        let state = &mut self.clients[client];
        match status {
            Status::Asking | Status::Releasing => {}
            Status::Holding => {
                if !state.was_held {
                    state.was_held = true;
                    self.counts.granted += 1;
                    if let Patience::For(length) = state.patience {
                        assert!(now < state.started_at + length, "granted after its own deadline");
                    }
                }
            }
            Status::Unconfirmed => {
                let life = state.life;
                if self.dice.once_in(4) || now > CALM_FROM {
                    let at = now + self.dice.between(500, 3_000);
                    self.plan(at, Happening::User { client, life, deed: Deed::Release });
                }
            }
            Status::Over(end) => {
                if std::mem::replace(&mut state.is_over, true) {
                    return;
                }
                let asked_out = state.wants_out;
                match end {
                    End::Released => {
                        assert!(asked_out && state.was_held, "released by nobody");
                        self.counts.released += 1;
                    }
                    End::Lost(reason) => {
                        assert!(state.was_held, "loss is told only after a grant: {reason:?}");
                        self.counts.lost += 1;
                        let is_forced = !self.store.forced.is_empty();
                        assert!(self.weather.faults || is_forced, "lost ({reason:?}) though the network works");
                    }
                    End::Held => {
                        assert_eq!(state.patience, Patience::None, "who waits is not turned away");
                        self.counts.held += 1;
                    }
                    End::TimedOut => {
                        let Patience::For(length) = state.patience else { panic!("nothing to time out") };
                        assert!(now >= state.started_at + length, "timed out too early");
                        self.counts.timed_out += 1;
                    }
                    End::GivenUp => {
                        assert!(asked_out, "nobody gave up");
                        self.counts.given_up += 1;
                    }
                    End::Failed => {
                        assert!(self.weather.faults, "failed though the network works");
                        self.counts.failed += 1;
                    }
                }
                let life = state.life;
                let at = now + self.dice.between(0, 2_000);
                self.plan(at, Happening::User { client, life, deed: Deed::Start });
            }
        }
    }

    /// A message on its way to the store: it may be lost, late, or arrive twice.
    fn send(&mut self, from: usize, life: u64, number: u32, command: Command) {
        self.counts.messages += 1;
        let is_cut = self.clients[from].cut_until > self.now;
        if is_cut || self.has_bad_luck(12) {
            self.tell(from, || format!("{number} is lost"));
            if self.dice.once_in(2) {
                let at = self.now + self.dice.between(1, 400);
                self.plan(at, Happening::Answered { to: from, life, number, heard: Err(Failure::Unknown) });
            }
            return;
        }
        if self.has_bad_luck(15) {
            let at = self.now + self.delay();
            self.plan(at, Happening::Asked { from, life, number, command: command.clone() });
        }
        let at = self.now + self.delay();
        self.plan(at, Happening::Asked { from, life, number, command });
    }

    fn has_bad_luck(&mut self, times: u64) -> bool {
        self.weather.faults && self.now < CALM_FROM && self.dice.once_in(times)
    }

    fn delay(&mut self) -> Ms {
        if self.has_bad_luck(10) { self.dice.between(1, 9_000) } else { self.dice.between(1, 20) }
    }

    /// Over the wire's own form, both ways.
    fn ask_store(&mut self, from: usize, life: u64, number: u32, command: Command) {
        let lock = leasehold::json::Json::Text(self.clients[from].lock.as_str().into());
        let (op, fields) = wire::fields(&command);
        let request = wire::request(op, &lock, fields).expect("what a session asks can be asked");
        if let Command::Acquire(Acquire { entry: Entrance::Steal, .. }) = command {
            let of_lock = |(lock, ..): &&(Name, Fence, Mode, Ms)| *lock == self.clients[from].lock;
            let forced: Vec<_> = self.store.leases.iter().filter(of_lock).map(|(_, fence, ..)| *fence).collect();
            self.store.forced.extend(forced);
        }
        let ticket = self.store.next_ticket;
        self.store.next_ticket += 1;
        self.store.tickets.insert(ticket, (from, life, number));
        self.turn(vec![Call { ticket, via: self.clients[from].connection, request: Ok(request) }], &[]);
    }

    fn turn(&mut self, calls: Vec<Call>, closed: &[Connection]) {
        let host_now = self.store.host_now(self.now);
        let store = &mut self.store;
        store.clock = store.now(host_now);
        store.ahead = store.clock - host_now.min(store.clock);
        let turn = store.service.turn(calls, closed, host_now).expect("storage works");
        let lease = |(lock, entry): (Name, leasehold::lock::Entry)| match entry.state {
            State::Holding(holding) => Some((lock, holding.fence, entry.terms.mode, holding.expires_at)),
            State::Waiting { .. } | State::Ended { .. } => None,
        };
        store.leases = store.rows.entries().into_iter().filter_map(lease).collect();
        for (ticket, reply) in turn.answers {
            let (_, reply) = wire::reply(&reply, "a space");
            let heard = wire::heard(&reply).ok_or(Failure::Final);
            if let Some((to, life, number)) = self.store.tickets.remove(&ticket) {
                self.answer(to, life, number, heard);
            }
        }
        for (connection, push) in turn.pushes {
            let Some(to) = self.clients.iter().position(|client| client.connection == Some(connection)) else {
                continue;
            };
            let life = self.clients[to].life;
            let heard = match push {
                Push::Granted { request_id, lease, waited } => {
                    let reply = Reply::Granted { lease, waited };
                    wire::heard(&wire::reply(&reply, "a space").1).map(|heard| (Some(request_id), heard))
                }
                Push::Ended { fence, reason, .. } => {
                    let grant = self.clients[to].session.as_ref().and_then(Session::grant);
                    grant.filter(|grant| grant.fence == fence).map(|_| (None, Heard::Lost(reason)))
                }
                Push::Changed { .. } => None,
            };
            if let Some((request_id, heard)) = heard
                && self.clients[to].cut_until <= self.now
                && !self.has_bad_luck(8)
            {
                let at = self.now + self.delay();
                self.plan(at, Happening::Pushed { to, life, request_id, heard });
            }
        }
        if self.weather.alarms
            && let Some(wake_in) = turn.wake_in.into_iter().chain(turn.ring_in).chain(turn.due_in).min()
        {
            let late = if self.has_bad_luck(10) { self.dice.below(3_000) } else { 0 };
            let at = self.now + wake_in.max(1) + late;
            if self.alarm_at.is_none_or(|planned| at < planned) {
                self.alarm_at = Some(at);
                self.plan(at, Happening::Alarm);
            }
        }
    }

    fn answer(&mut self, to: usize, life: u64, number: u32, heard: Result<Heard, Failure>) {
        if self.clients[to].cut_until > self.now || self.has_bad_luck(10) {
            self.tell(to, || format!("will not hear {heard:?} to {number}"));
            if self.dice.once_in(2) {
                let at = self.now + self.dice.between(1, 400);
                self.plan(at, Happening::Answered { to, life, number, heard: Err(Failure::Unknown) });
            }
            return;
        }
        if self.has_bad_luck(15) {
            let at = self.now + self.delay();
            self.plan(at, Happening::Answered { to, life, number, heard });
        }
        let at = self.now + self.delay();
        self.plan(at, Happening::Answered { to, life, number, heard });
    }

    /// After every event: what holders believe is no more than what the store says.
    fn check(&self) {
        let store_now = self.store.now(self.store.host_now(self.now));
        let mut believers: Vec<(&Name, Mode)> = Vec::new();
        for client in &self.clients {
            let Some(session) = &client.session else { continue };
            let now = client.now(self.now);
            let Some(grant) = session.grant().filter(|_| session.is_held(now)) else { continue };
            if self.store.forced.contains(&grant.fence) || self.weather.set_ahead {
                continue;
            }
            let lease =
                self.store.leases.iter().find(|(lock, fence, ..)| *lock == client.lock && *fence == grant.fence);
            let Some((lock, _, mode, expires_at)) = lease else {
                panic!("believes in fence {}, which the store does not know", grant.fence.value());
            };
            assert!(store_now < *expires_at, "believes in fence {}, which is over", grant.fence.value());
            let left = expires_at - store_now;
            assert!(!session.is_held(now + left), "will believe in fence {} when it is over", grant.fence.value());
            believers.push((lock, *mode));
        }
        for (lock, mode) in &believers {
            let others = believers.iter().filter(|(other, _)| other == lock).count() - 1;
            assert!(*mode == Mode::Shared(None) || *mode != Mode::Exclusive || others == 0, "two hold {lock:?}");
        }
    }

    /// Nobody asks any more: what was lost on the way is gone by itself, and nobody was left waiting.
    fn store_is_clean(&mut self) {
        for client in &self.clients {
            let is_over = |session: &Session| matches!(session.status(), Status::Over(_) | Status::Unconfirmed);
            assert!(client.session.as_ref().is_none_or(is_over), "not over: {:?}", client.session);
        }
        for _ in 0..100 {
            let host_now = self.store.host_now(self.now);
            let turn = self.store.service.turn(Vec::new(), &[], host_now).expect("storage works");
            match turn.ring_in.into_iter().chain(turn.due_in).min() {
                Some(due_in) => self.now += due_in,
                None => return assert_eq!(self.store.rows.len(), 0, "a free lock has no row"),
            }
        }
        panic!("the store does not come to rest");
    }

    fn tell(&self, client: usize, what: impl FnOnce() -> String) {
        if self.story == Story::Told {
            println!("{:>7} client {client} {}", self.now, what());
        }
    }

    fn tell_all(&self, what: impl FnOnce() -> String) {
        if self.story == Story::Told {
            println!("{:>7} {}", self.now, what());
        }
    }
}

impl Client {
    fn now(&self, world_now: Ms) -> Ms {
        self.clock + world_now
    }
}

impl Store {
    fn host_now(&self, world_now: Ms) -> Ms {
        (EPOCH + world_now).saturating_add_signed(self.offset)
    }

    fn now(&self, host_now: Ms) -> Ms {
        (host_now + self.ahead).max(self.clock)
    }
}

fn start<S: Storage>(storage: S) -> Service<S> {
    Service::new(Ledger::start(storage, 0).expect("the storage can be read"))
}
