//! Clients: each has the real session, a clock of its own, and a user who does what users do.

use leasehold::command::{Acquire, Command, Entrance, Terms};
use leasehold::session::{End, Failure, Heard, Patience, Renewal, Session, Status, Step};
use leasehold::types::{Connection, Fence, Limit, LockDelay, MaxHold, Mode, Ms, Name, RequestId, Token, Ttl, Wait};

use super::clock::Clock;
use super::network::{Message, Told};
use super::resource::{Refused, Work};
use super::rule::holds;
use super::setting::{Kind, Setting};
use super::store::PPM;
use super::{Fault, Happening, World, words};
use crate::support::dice::Dice;

pub struct Client {
    clock: Clock,
    /// Its socket, counted among all there were. Whoever has none asks over HTTP.
    pub socket: u64,
    has_socket: bool,
    pub lock: Name,
    token: Token,
    pub session: Option<Session>,
    patience: Patience,
    mode: Mode,
    started_at: Ms,
    /// Counts the sessions, so that what belongs to an earlier one is known.
    pub life: u64,
    asks_left: u64,
    was_held: bool,
    /// The fence of the lease it has, or had last.
    fence: Option<Fence>,
    /// It has asked for another length. Such a renewal may still be under way when the lease is handed over, and nobody
    /// who attaches to it can know: see `Lease.renew`.
    has_changed_ttl: bool,
    is_over: bool,
    /// Nothing is left to do, not even to clean up.
    is_done: bool,
    wants_out: bool,
    /// Its clock, or the store's, has done what no margin covers: its belief may be wrong, and the fence is all there is.
    pub is_deceived: bool,
    /// Something is under way to the resource, or was lost on the way: nothing more is sent in this lease.
    is_working: bool,
    pub paused_until: Ms,
    pub cut_until: Ms,
    /// When it next does what its session says, as far as that is planned.
    pub steps_at: Option<Ms>,
}

#[derive(Debug, Clone, Copy)]
pub enum Deed {
    Start,
    Release,
    Renew(Option<u64>),
    SetRenewal(Renewal),
    Revoke,
    /// Another process goes on with the lease, and this one forgets it.
    HandOver,
    /// Reads what the lock protects, and writes it back larger by one.
    Work,
}

impl Client {
    pub fn new(number: u64, setting: &Setting, dice: &mut Dice) -> Self {
        let ppm = dice.pick(&PPM);
        let whose = if setting.has(Kind::SharedToken) { number / 2 } else { number };
        Self {
            // Its clock has nothing to do with anybody else's.
            clock: Clock::new(10_000_000 + dice.below(1 << 40), if setting.has(Kind::Drift) { ppm } else { 0 }),
            // None is nobody's.
            socket: number + 1,
            has_socket: dice.once_in(2),
            lock: Name::new(&format!("lock {}", dice.below(setting.locks))).expect("a name"),
            token: Token::new(&format!("token {whose}")).expect("a token"),
            session: None,
            patience: Patience::None,
            mode: Mode::Exclusive,
            started_at: 0,
            life: 0,
            asks_left: dice.between(1, setting.asks),
            was_held: false,
            fence: None,
            has_changed_ttl: false,
            is_over: true,
            is_done: true,
            wants_out: false,
            is_deceived: false,
            is_working: false,
            paused_until: 0,
            cut_until: 0,
            steps_at: None,
        }
    }

    pub fn connection(&self) -> Option<Connection> {
        self.has_socket.then_some(Connection(self.socket))
    }

    pub fn is_through(&self) -> bool {
        let is_over = |session: &Session| matches!(session.status(), Status::Over(_) | Status::Unconfirmed);
        self.session.as_ref().is_none_or(is_over)
    }

    fn now(&self, world: Ms) -> Ms {
        self.clock.at(world)
    }
}

impl World {
    /// When the client can attend to something of this life; `None` when that life is over.
    pub(super) fn attends(&self, client: usize, life: u64) -> Option<Ms> {
        let client = &self.clients[client];
        (client.life == life).then(|| client.paused_until.max(self.now))
    }

    pub(super) fn hear(&mut self, client: usize, number: u32, heard: Result<Heard, Failure>) {
        self.tell_of(client, || format!("hears {} to {number}", words::heard(heard)));
        let (now, dice) = (self.clients[client].now(self.now), self.dice.unit());
        if let Some(session) = &mut self.clients[client].session {
            match heard {
                Ok(heard) => session.heard(number, heard, now),
                Err(failure) => session.failed(number, failure, now, dice),
            }
        }
        self.step(client);
    }

    pub(super) fn be_told(&mut self, client: usize, told: Told) {
        let now = self.clients[client].now(self.now);
        let Some(session) = &mut self.clients[client].session else { return };
        let is_meant = match (&told.request_id, told.fence) {
            (Some(request_id), _) => session.request_id() == Some(request_id),
            (None, fence) => session.grant().is_some_and(|grant| Some(grant.fence) == fence),
        };
        if is_meant {
            session.told(told.heard, now);
            self.tell_of(client, || format!("is told: {}", words::heard(Ok(told.heard))));
            self.step(client);
        }
    }

    pub(super) fn user(&mut self, client: usize, deed: Deed) {
        let now = self.clients[client].now(self.now);
        match deed {
            Deed::Start => return self.start(client),
            Deed::Work => return self.read(client),
            Deed::Revoke => {
                let lock = self.clients[client].lock.clone();
                if self.strikes(Kind::Force, 1) {
                    self.revoke(&lock);
                }
            }
            Deed::HandOver => self.hand_over(client),
            Deed::Release => {
                self.tell_of(client, || "releases".into());
                self.clients[client].wants_out = true;
                if let Some(session) = &mut self.clients[client].session {
                    session.release(now);
                }
            }
            Deed::Renew(ttl) => {
                self.tell_of(client, || format!("renews for {ttl:?}"));
                self.clients[client].has_changed_ttl |= ttl.is_some();
                if let Some(session) = &mut self.clients[client].session {
                    session.renew(ttl.map(|ttl| Ttl::new(ttl as f64).expect("a ttl")), now);
                }
            }
            Deed::SetRenewal(renewal) => {
                self.tell_of(client, || format!("sets its renewal to {renewal:?}"));
                if let Some(session) = &mut self.clients[client].session {
                    session.set_renewal(renewal, now);
                }
            }
        }
        self.step(client);
    }

    fn hand_over(&mut self, client: usize) {
        let state = &self.clients[client];
        let held = state.session.as_ref().and_then(|session| Some((session.status(), session.grant()?)));
        let Some((status, grant)) = held.filter(|_| !state.has_changed_ttl) else { return };
        holds!(Truth, status == Status::Holding, "has a lease, and is {status:?}");
        let renewal = if self.dice.once_in(3) { Renewal::Manual } else { Renewal::Auto };
        self.tell_of(client, || format!("hands fence {} over ({renewal:?})", grant.fence.value()));
        let state = &mut self.clients[client];
        state.session = Some(Session::attach(state.token.clone(), grant.fence, renewal, state.now(self.now)));
        let life = self.begin_life(client);
        let at = self.now + self.dice.between(1, 9_000);
        self.plan(at, Happening::User { client, life, deed: Deed::Release });
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

    fn start(&mut self, client: usize) {
        if self.clients[client].asks_left == 0 || self.now >= self.setting.calm_from() {
            return;
        }
        if !self.clients[client].is_done {
            let (life, at) = (self.clients[client].life, self.now + 500);
            return self.plan(at, Happening::User { client, life, deed: Deed::Start });
        }
        self.clients[client].asks_left -= 1;
        let patience = match self.dice.below(5) {
            0 => Patience::None,
            1 => Patience::For(self.dice.between(1, 20_000)),
            2 => Patience::For(self.dice.between(1, 500)),
            _ => Patience::Unlimited,
        };
        let acquire = self.acquire(client);
        let ttl = acquire.terms.ttl.value();
        let renewal = match self.dice.below(6) {
            0 if !self.setting.is_calm() => Renewal::Manual,
            1 => Renewal::Every(self.dice.between(ttl / 10 + 1, ttl)),
            _ => Renewal::Auto,
        };
        let lock = self.clients[client].lock.clone();
        self.tell_of(client, || {
            format!("asks for {:?}, {patience:?}, renews {renewal:?}: {}", lock.as_str(), words::acquire(&acquire))
        });
        self.clients[client].session = None;
        let life = self.begin_life(client);
        let state = &mut self.clients[client];
        let now = state.now(self.now);
        (state.patience, state.mode, state.started_at) = (patience, acquire.terms.mode, now);
        (state.is_deceived, state.is_working, state.has_changed_ttl) = (false, false, false);
        state.session = Some(Session::acquire(acquire, patience, renewal, now));
        self.plan_deeds(client, life, ttl);
        if self.strikes(Kind::Pause, 3) {
            let lasts = self.dice.pick(&[10, 700, 5_000, 20_000]);
            self.tell_of(client, || format!("is paused for {lasts} ms"));
            self.clients[client].paused_until = self.now + lasts;
        }
        self.step(client);
    }

    fn acquire(&mut self, client: usize) -> Acquire {
        let is_calm = self.setting.is_calm();
        let state = &self.clients[client];
        let dice = &mut self.dice;
        let is_semaphore = state.lock.as_str() == "lock 1";
        let mode = match dice.below(3) {
            0 if is_semaphore => Mode::Shared(Some(Limit::new(2.0).expect("a limit"))),
            0 => Mode::Shared(None),
            _ => Mode::Exclusive,
        };
        let lengths: &[Ms] = match (self.setting.is_long, is_calm) {
            (true, _) => &[6_000, 30_000],
            (false, true) => &[1_000, 3_000, 30_000],
            (false, false) => &[50, 300, 1_000, 6_000, 30_000],
        };
        let ttl = dice.pick(lengths);
        let max_hold = (!is_calm && dice.once_in(8)).then(|| dice.between(1, 9_000));
        let lock_delay = if dice.once_in(5) { 700.0 } else { 0.0 };
        let steals = dice.once_in(15) && mode == Mode::Exclusive && self.setting.has(Kind::Force);
        Acquire {
            terms: Terms {
                token: state.token.clone(),
                request_id: RequestId::new(&format!("{client}, {}", state.life)).expect("a request id"),
                mode,
                ttl: Ttl::new(ttl as f64).expect("a ttl"),
                max_hold: max_hold.map(|length| MaxHold::new(length as f64).expect("a length")),
                lock_delay: LockDelay::new(lock_delay).expect("a length"),
                client_id: None,
                info: None,
            },
            wait: Wait::NONE,
            entry: if steals { Entrance::Steal } else { Entrance::Queue },
        }
    }

    fn plan_deeds(&mut self, client: usize, life: u64, ttl: Ms) {
        let is_patient = matches!(self.clients[client].patience, Patience::Unlimited);
        let lasts = match (self.setting.is_long && is_patient, is_patient || self.dice.once_in(2)) {
            (true, _) => 2_500_000,
            (false, true) => 40_000,
            (false, false) => 8_000,
        };
        let mut deeds = vec![(self.dice.between(1, lasts), Deed::Release)];
        let kinds = if self.setting.is_calm() { 4 } else { 7 };
        for _ in 0..self.dice.below(3) {
            let deed = match self.dice.below(kinds) {
                0 => Deed::Renew(None),
                1 if self.setting.is_long => Deed::Renew(Some(20_000)),
                1 => Deed::Renew(Some(self.dice.pick(&[1_000, 4_000, 20_000]))),
                2 => Deed::SetRenewal(Renewal::Auto),
                3 => Deed::SetRenewal(Renewal::Every(ttl / 2)),
                4 => Deed::SetRenewal(Renewal::Manual),
                5 => Deed::Revoke,
                _ => Deed::HandOver,
            };
            deeds.push((self.dice.between(1, 10_000), deed));
        }
        // When the faults are over, users soon are.
        let latest = self.setting.calm_from() + 40_000;
        for (after, deed) in deeds {
            self.plan((self.now + after).min(latest), Happening::User { client, life, deed });
        }
    }

    /// Does what the session says until it has nothing to say.
    pub(super) fn step(&mut self, client: usize) {
        for _ in 0..10 {
            let (now, dice) = (self.clients[client].now(self.now), self.dice.unit());
            let Some(session) = &mut self.clients[client].session else { return };
            let step = session.step(now, dice);
            let status = session.status();
            let is_held = session.is_held(now);
            self.note(client, status);
            match step {
                Step::Send { number, command } => {
                    self.may_send(client, status, &command);
                    self.tell_of(client, || format!("sends {number}: {}", words::command(&command)));
                    self.send(client, number, command);
                }
                Step::Wait { until } => {
                    let is_over = matches!(status, Status::Over(End::Released | End::Held));
                    holds!(ReleaseWins, !is_over, "a timer is left although it is over: {status:?}");
                    let ends_unseen = is_held
                        && !until.is_some_and(|until| {
                            self.clients[client].session.as_ref().is_some_and(|session| session.is_held(until - 1))
                        });
                    holds!(Truth, !ends_unseen, "nobody wakes its holder when its lease is over");
                    return self.wait(client, now, until);
                }
                Step::Over => {
                    self.clients[client].is_done = true;
                    return;
                }
            }
        }
        holds!(Liveness, false, "a session sends and sends: {:?}", self.clients[client].session);
    }

    /// Rule 11.
    fn may_send(&self, client: usize, status: Status, command: &Command) {
        let cleans_up = matches!(command, Command::Cancel(_) | Command::Release(_));
        let may_send = match status {
            Status::Over(End::Released | End::Held) => false,
            Status::Over(_) => cleans_up,
            Status::Asking | Status::Holding | Status::Releasing | Status::Unconfirmed => {
                !self.clients[client].wants_out || cleans_up
            }
        };
        holds!(ReleaseWins, may_send, "{command:?} is sent although it is over: {status:?}");
    }

    fn wait(&mut self, client: usize, now: Ms, until: Option<Ms>) {
        let Some(until) = until else { return };
        let state = &mut self.clients[client];
        holds!(Liveness, until > now, "no time passes");
        let at = self.now + state.clock.takes(until - now);
        if state.steps_at.is_none_or(|planned| at < planned) {
            state.steps_at = Some(at);
            let life = state.life;
            self.plan(at, Happening::Stepped { client, life });
        }
    }

    /// Keeps account of how the session stands.
    fn note(&mut self, client: usize, status: Status) {
        let now = self.clients[client].now(self.now);
        let state = &mut self.clients[client];
        match status {
            Status::Asking | Status::Releasing => {}
            Status::Holding => {
                state.fence = state.session.as_ref().and_then(Session::grant).map(|grant| grant.fence);
                if !std::mem::replace(&mut state.was_held, true) {
                    if let Patience::For(length) = state.patience {
                        holds!(Waiting, now < state.started_at + length, "granted after its own deadline");
                    }
                    self.counts.count("leases granted");
                    self.plan_work(client);
                }
            }
            Status::Unconfirmed => {
                let life = state.life;
                if self.dice.once_in(4) || self.now > self.setting.calm_from() {
                    let at = self.now + self.dice.between(500, 3_000);
                    self.plan(at, Happening::User { client, life, deed: Deed::Release });
                }
            }
            Status::Over(_) if state.is_over => {}
            Status::Over(end) => {
                state.is_over = true;
                self.is_rightly_over(client, end, now);
                let life = self.clients[client].life;
                let at = self.now + self.dice.between(0, 2_000);
                self.plan(at, Happening::User { client, life, deed: Deed::Start });
            }
        }
    }

    /// Rules 10, 8 and 11: whether it may be over in that way.
    fn is_rightly_over(&mut self, client: usize, end: End, now: Ms) {
        let state = &self.clients[client];
        let is_calm = self.setting.is_calm();
        let ended = match end {
            End::Released => {
                holds!(Truth, state.wants_out && state.was_held, "released by nobody");
                let left = state.fence.and_then(|fence| self.store.lease(&state.lock, fence));
                holds!(ReleaseWins, left.is_none(), "it is released, and the store has it until {left:?}");
                "leases released"
            }
            End::Lost(reason) => {
                holds!(Truth, state.was_held, "loss is told only after a grant: {reason:?}");
                holds!(Truth, !is_calm, "lost ({reason:?}) though the network works");
                "leases lost"
            }
            End::Held => {
                holds!(Queue, state.patience == Patience::None, "who waits is turned away");
                "asks refused"
            }
            End::TimedOut => {
                let Patience::For(length) = state.patience else {
                    return holds!(Waiting, false, "there is no time to be out of");
                };
                holds!(Waiting, now >= state.started_at + length, "timed out too early");
                "asks timed out"
            }
            End::GivenUp => {
                holds!(Waiting, state.wants_out, "nobody gave up");
                "asks given up"
            }
            End::Failed => {
                holds!(Liveness, !is_calm, "failed though the network works");
                "asks failed"
            }
        };
        self.counts.count(ended);
    }

    /// Rule 10: what holders believe is no more than what the store says.
    pub(super) fn nobody_is_deceived(&self) {
        let store_now = self.store.now(self.now);
        let mut believers: Vec<(&Name, Mode)> = Vec::new();
        for client in &self.clients {
            let Some(session) = &client.session else { continue };
            let Some(grant) = session.grant().filter(|_| session.is_held(client.now(self.now))) else { continue };
            if client.is_deceived || self.store.is_forced(grant.fence) {
                continue;
            }
            let fence = grant.fence.value();
            let expires_at = self.store.lease(&client.lock, grant.fence).unwrap_or(0);
            holds!(Truth, store_now < expires_at, "believes in fence {fence}, which is over");
            let over_at = self.now + self.store.clock.takes(expires_at - store_now);
            let is_held = session.is_held(client.now(over_at));
            holds!(Truth, !is_held, "will believe in fence {fence} when it is over");
            believers.push((&client.lock, client.mode));
        }
        for (lock, mode) in &believers {
            let others = believers.iter().filter(|(other, _)| other == lock).count() - 1;
            holds!(Exclusion, *mode != Mode::Exclusive || others == 0, "two believe that they hold {lock:?}");
        }
    }

    fn plan_work(&mut self, client: usize) {
        let life = self.clients[client].life;
        for _ in 0..self.dice.between(1, 3) {
            let at = self.now + self.dice.pick(&[0, 40, 900, 7_000]);
            self.plan(at, Happening::User { client, life, deed: Deed::Work });
        }
    }

    /// Only who holds alone writes, and only who believes so begins.
    fn read(&mut self, client: usize) {
        let state = &mut self.clients[client];
        let Some(session) = &state.session else { return };
        let believes = session.is_held(state.clock.at(self.now)) && state.mode == Mode::Exclusive;
        if let Some(grant) = session.grant()
            && believes
            && !std::mem::replace(&mut state.is_working, true)
        {
            let (lock, fence) = (state.lock.clone(), grant.fence);
            self.work(Message::Worked { from: client, lock, fence, work: Work::Read });
        }
    }

    pub(super) fn work_arrives(&mut self, from: usize, lock: Name, fence: Fence, work: Work) {
        let came_to = self.resource.work(&lock, fence, work);
        self.tell(|| format!("the resource is asked by client {from}, fence {}: {work:?}: {came_to:?}", fence.value()));
        self.counts.count(if came_to.is_ok() { "works done" } else { "late works refused" });
        if came_to == Err(Refused) {
            // Whose lease is live, nobody after it has worked.
            let is_live = self.store.lease(&lock, fence).is_some_and(|end| self.store.now(self.now) < end);
            holds!(Exclusion, !is_live, "the holder of fence {} is refused by what it holds", fence.value());
        }
        self.work(Message::WorkDone { to: from, fence, work, came_to });
    }

    /// The number was read, or written. Nothing keeps a client from writing late.
    pub(super) fn go_on_working(&mut self, client: usize, fence: Fence, work: Work, came_to: Result<u64, Refused>) {
        let state = &mut self.clients[client];
        if state.fence != Some(fence) {
            return;
        }
        match (work, came_to) {
            (Work::Read, Ok(read)) => {
                let lock = state.lock.clone();
                self.work(Message::Worked { from: client, lock, fence, work: Work::Write { read } });
            }
            (Work::Write { .. }, Ok(_)) => state.is_working = false,
            (_, Err(Refused)) => {}
        }
    }

    pub(super) fn cut(&mut self, client: usize) {
        let lasts = self.dice.pick(&[100, 2_000, 12_000, 30_000]);
        self.tell_of(client, || format!("is cut off for {lasts} ms"));
        self.clients[client].cut_until = self.now + lasts;
        if let Some(connection) = self.clients[client].connection() {
            // Its next socket is another.
            self.clients[client].socket += 1_000;
            if self.dice.once_in(2) { self.close(connection) } else { self.lose_socket(connection) }
        }
        self.plan(self.now + lasts, Happening::Fault(Fault::Reconnected { client }));
    }

    pub(super) fn reconnect(&mut self, client: usize) {
        let at = self.clients[client].paused_until;
        if at > self.now {
            return self.plan(at, Happening::Fault(Fault::Reconnected { client }));
        }
        let now = self.clients[client].now(self.now);
        if let Some(session) = &mut self.clients[client].session {
            session.missed(now);
            self.step(client);
        }
    }

    /// It does nothing for a while, and does not know that time has passed.
    pub(super) fn sleep(&mut self, client: usize) {
        let lasts = self.dice.pick(&[300, 3_000, 20_000, 100_000]);
        self.tell_of(client, || format!("sleeps for {lasts} ms, its clock with it"));
        let state = &mut self.clients[client];
        let since = state.paused_until.max(self.now);
        state.paused_until = since + lasts;
        let asleep = state.clock.at(since + lasts) - state.clock.at(since);
        state.clock.shift(-(asleep as i64));
        state.is_deceived = true;
    }

    pub(super) fn leap(&mut self, client: usize) {
        let by = self.dice.pick(&[20, 1_000, 30_000, 86_400_000]);
        self.tell_of(client, || format!("has its clock leap by {by} ms"));
        self.clients[client].clock.shift(by);
        self.step_if_awake(client);
    }

    fn step_if_awake(&mut self, client: usize) {
        let life = self.clients[client].life;
        if self.attends(client, life) == Some(self.now) {
            self.step(client);
        }
    }

    /// It is killed: nothing is released, and nobody hears what it was told.
    pub(super) fn die(&mut self, client: usize) {
        self.tell_of(client, || "is killed".into());
        let state = &mut self.clients[client];
        (state.session, state.asks_left) = (None, 0);
        self.begin_life(client);
    }
}
