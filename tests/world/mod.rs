//! A small deterministic world: holders' sessions, the store, and what the locks protect. A seed makes it, and makes
//! everything in it go wrong; the rules are held against it at every step.
//!
//! Time leaps from one event to the next. Whatever is planned happens in the order of its instants, and of its planning.

pub mod client;
pub mod clock;
pub mod network;
pub mod resource;
pub mod rule;
pub mod setting;
pub mod shrink;
pub mod store;
pub mod witness;
pub mod words;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use leasehold::types::Ms;

use crate::support::dice::Dice;
use client::Client;
use network::Message;
use resource::Resource;
use rule::holds;
use setting::{Kind, Setting};
use store::Store;

/// Threads of this name do not print what worlds panic with.
pub const QUIET_THREAD: &str = "worlds";

/// So long after the faults end everybody has to be done.
const OVER_AFTER: Ms = 400_000;

/// More than ever happens in a minute where nobody asks without end.
const EVENTS_MAX: u64 = 20_000;

pub struct World {
    setting: Setting,
    /// The lines of what happens, where they are wanted.
    story: Option<Vec<String>>,
    dice: Dice,
    /// Milliseconds since the world began.
    now: Ms,
    events: BinaryHeap<Reverse<(Ms, u64)>>,
    happening: HashMap<u64, Happening>,
    next_event: u64,
    store: Store,
    clients: Vec<Client>,
    resource: Resource,
    counts: Counts,
}

enum Happening {
    Arrives(Message),
    /// What has arrived at the store is carried out.
    Turn,
    /// A client does what its session says.
    Stepped {
        client: usize,
        life: u64,
    },
    User {
        client: usize,
        life: u64,
        deed: client::Deed,
    },
    Alarm,
    Fault(Fault),
}

/// Something that goes wrong at an instant of its own, rather than with a message.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Eviction,
    Replacement,
    Wipe,
    ClockSet { by: i64 },
    Cut { client: usize },
    Reconnected { client: usize },
    Sleep { client: usize },
    Leap { client: usize },
    Death { client: usize },
    Meddling,
}

/// How a world went: what happened in it, by name. What never happens proves nothing.
#[derive(Debug, Default, Clone)]
pub struct Counts(pub BTreeMap<&'static str, u64>);

impl Counts {
    pub fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }
}

impl World {
    pub fn new(setting: Setting) -> Self {
        let mut dice = Dice::new(setting.seed);
        let store = Store::new(&setting, &mut dice);
        let clients = (0..setting.clients).map(|number| Client::new(number, &setting, &mut dice)).collect();
        let mut world = Self {
            setting,
            story: None,
            dice,
            now: 0,
            events: BinaryHeap::new(),
            happening: HashMap::new(),
            next_event: 0,
            store,
            clients,
            resource: Resource::default(),
            counts: Counts::default(),
        };
        world.plan_lives();
        world.plan_faults();
        world
    }

    pub fn telling(mut self) -> Self {
        self.story = Some(Vec::new());
        self
    }

    /// Lives it to its end; ends in a [`Violation`](rule::Violation) where a rule is broken.
    pub fn live(&mut self) {
        let mut happened = 0;
        while let Some(Reverse((at, event))) = self.events.pop() {
            self.now = at;
            happened += 1;
            let minutes = self.setting.calm_from() / 60_000;
            holds!(Liveness, happened < EVENTS_MAX * minutes, "the world is too busy: somebody asks without end");
            holds!(Liveness, at < self.setting.calm_from() + OVER_AFTER, "somebody is not done");
            let happening = self.happening.remove(&event).expect("it was planned");
            self.happen(happening);
            self.nobody_is_deceived();
        }
        self.everybody_is_done();
        self.store_comes_to_rest();
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub fn story(&mut self) -> Vec<String> {
        self.story.take().unwrap_or_default()
    }

    fn plan_lives(&mut self) {
        for client in 0..self.clients.len() {
            let at = self.dice.below(3_000);
            self.plan(at, Happening::User { client, life: 0, deed: client::Deed::Start });
        }
    }

    fn plan_faults(&mut self) {
        for _ in 0..3 {
            let leap = self.dice.pick(&[1, 100, 3_000, 40_000, 3_600_000]);
            let client = self.dice.below(self.clients.len() as u64) as usize;
            self.plan_fault(Kind::Eviction, Fault::Eviction);
            self.plan_fault(Kind::Replacement, Fault::Replacement);
            self.plan_fault(Kind::SetBack, Fault::ClockSet { by: -leap });
            self.plan_fault(Kind::SetAhead, Fault::ClockSet { by: leap });
            self.plan_fault(Kind::CutOff, Fault::Cut { client });
            self.plan_fault(Kind::Sleep, Fault::Sleep { client });
            self.plan_fault(Kind::Leap, Fault::Leap { client });
            self.plan_fault(Kind::Meddling, Fault::Meddling);
            self.plan_fault(Kind::Meddling, Fault::Meddling);
        }
        let client = self.dice.below(self.clients.len() as u64) as usize;
        self.plan_fault(Kind::Death, Fault::Death { client });
        self.plan_fault(Kind::Wipe, Fault::Wipe);
    }

    /// Most of what users do is done in the first half minute.
    fn plan_fault(&mut self, kind: Kind, fault: Fault) {
        let end = self.dice.pick(&[10_000, 30_000, 60_000]);
        let at = self.dice.below(end);
        if self.strikes(kind, 1) {
            self.plan(at, Happening::Fault(fault));
        }
    }

    fn plan(&mut self, at: Ms, happening: Happening) {
        self.next_event += 1;
        self.events.push(Reverse((at.max(self.now), self.next_event)));
        self.happening.insert(self.next_event, happening);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrives(message) => self.arrive(message),
            Happening::Turn => self.carry_out(),
            Happening::Stepped { client, life } => {
                let Some(at) = self.attends(client, life) else { return };
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
            Happening::User { client, life, deed } => match self.attends(client, life) {
                Some(at) if at > self.now => self.plan(at, Happening::User { client, life, deed }),
                Some(_) => self.user(client, deed),
                None => {}
            },
            Happening::Alarm => self.ring(),
            Happening::Fault(fault) => self.go_wrong(fault),
        }
    }

    fn go_wrong(&mut self, fault: Fault) {
        match fault {
            Fault::Eviction => self.restart("is evicted"),
            Fault::Replacement => self.replace(),
            Fault::Wipe => self.wipe(),
            Fault::ClockSet { by } => self.set_clock(by),
            Fault::Meddling => self.meddle(),
            Fault::Cut { client } => self.cut(client),
            Fault::Reconnected { client } => self.reconnect(client),
            Fault::Sleep { client } => self.sleep(client),
            Fault::Leap { client } => self.leap(client),
            Fault::Death { client } => self.die(client),
        }
    }

    /// Whether that goes wrong now, which it does once in so many times. Its number is counted, so that it can be spared.
    fn strikes(&mut self, kind: Kind, odds: u64) -> bool {
        let strikes = self.dice.once_in(odds) && self.setting.has(kind) && self.now < self.setting.calm_from();
        if strikes {
            self.counts.count(name_of(kind));
            return !self.setting.spared.contains(&self.counts.faults());
        }
        false
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(format!("{:>9} {}", self.now, what()));
        }
    }

    fn tell_of(&mut self, client: usize, what: impl FnOnce() -> String) {
        self.tell(|| format!("client {client} {}", what()));
    }

    fn everybody_is_done(&self) {
        for client in &self.clients {
            holds!(Liveness, client.is_through(), "not over: {:?}", client.session);
        }
    }

    /// Nobody asks any more: what was lost on the way is gone by itself, and no row is left of a lock that is free.
    fn store_comes_to_rest(&mut self) {
        for _ in 0..100 {
            match self.store.idle_turn(self.now) {
                Some(due_in) => self.now += self.store.clock.takes(due_in),
                None => {
                    let left = self.store.rows.len();
                    holds!(Liveness, left == 0, "{left} rows are left, and nobody is");
                    return;
                }
            }
        }
        holds!(Liveness, false, "the store does not come to rest");
    }
}

impl Counts {
    /// How many things went wrong so far.
    pub fn faults(&self) -> u64 {
        Kind::ALL.into_iter().filter_map(|kind| self.0.get(name_of(kind))).sum()
    }
}

pub fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Loss => "messages lost",
        Kind::Lateness => "messages late",
        Kind::Repetition => "messages repeated",
        Kind::Pause => "clients paused",
        Kind::Sleep => "clients asleep, clock stopped",
        Kind::Death => "clients killed",
        Kind::CutOff => "lines cut",
        Kind::Drift => "clocks drifting",
        Kind::Leap => "clients' clocks leapt",
        Kind::SetBack => "store's clock set back",
        Kind::SetAhead => "store's clock set ahead",
        Kind::Eviction => "evictions",
        Kind::Crash => "crashes between commit and reply",
        Kind::FailedFlush => "flushes failed",
        Kind::Replacement => "stores replaced",
        Kind::OldCode => "starts of the old version",
        Kind::LateAlarm => "alarms late",
        Kind::NoAlarm => "alarms missing",
        Kind::Wipe => "storages lost",
        Kind::Force => "leases ended by force",
        Kind::Meddling => "meddlings",
        Kind::SharedToken => "tokens shared",
    }
}
