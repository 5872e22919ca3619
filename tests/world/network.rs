//! Messages on their way: each may be lost, late, or arrive twice.

use leasehold::command::{Acquire, Command, Entrance};
use leasehold::session::{Failure, Heard};
use leasehold::types::{Fence, Ms, Name, RequestId};

use super::resource::{Refused, Work};
use super::setting::Kind;
use super::{Happening, World, words};

#[derive(Clone)]
pub enum Message {
    /// To the store.
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
    /// What a client's socket says unasked.
    Pushed {
        to: usize,
        socket: u64,
        told: Told,
    },
    /// To what the lock protects.
    Worked {
        from: usize,
        lock: Name,
        fence: Fence,
        work: Work,
    },
    WorkDone {
        to: usize,
        fence: Fence,
        work: Work,
        came_to: Result<u64, Refused>,
    },
}

/// Which ask, or which lease, is told what.
#[derive(Debug, Clone)]
pub struct Told {
    pub request_id: Option<RequestId>,
    pub fence: Option<Fence>,
    pub heard: Heard,
}

impl World {
    pub(super) fn send(&mut self, from: usize, number: u32, command: Command) {
        self.counts.count("messages");
        if let Command::Acquire(Acquire { entry: Entrance::Steal, .. }) = command {
            self.counts.count("steals");
        }
        let life = self.clients[from].life;
        let is_cut = self.clients[from].cut_until > self.now;
        if is_cut || self.strikes(Kind::Loss, 12) {
            self.tell_of(from, || format!("loses its message {number}"));
            return self.perhaps_break(from, life, number);
        }
        self.post(Message::Asked { from, life, number, command });
    }

    pub(super) fn answer(&mut self, to: usize, life: u64, number: u32, heard: Result<Heard, Failure>) {
        if self.clients[to].cut_until > self.now || self.strikes(Kind::Loss, 10) {
            self.tell_of(to, || format!("will not hear {} to {number}", words::heard(heard)));
            return self.perhaps_break(to, life, number);
        }
        self.post(Message::Answered { to, life, number, heard });
    }

    /// Whoever has lost a message may learn that it has.
    pub(super) fn perhaps_break(&mut self, to: usize, life: u64, number: u32) {
        if self.dice.once_in(2) {
            let at = self.now + self.dice.between(1, 400);
            let message = Message::Answered { to, life, number, heard: Err(Failure::Unknown) };
            self.plan(at, Happening::Arrives(message));
        }
    }

    pub(super) fn push(&mut self, to: usize, told: Told) {
        let socket = self.clients[to].socket;
        if self.clients[to].cut_until <= self.now && !self.strikes(Kind::Loss, 8) {
            self.post(Message::Pushed { to, socket, told });
        }
    }

    /// To the resource and back: never twice, since a copy of a write within one lease is for the resource to know.
    pub(super) fn work(&mut self, message: Message) {
        if !self.strikes(Kind::Loss, 12) {
            let at = self.now + self.delay();
            self.plan(at, Happening::Arrives(message));
        }
    }

    fn post(&mut self, message: Message) {
        if self.strikes(Kind::Repetition, 12) {
            let at = self.now + self.delay();
            self.plan(at, Happening::Arrives(message.clone()));
        }
        let at = self.now + self.delay();
        self.plan(at, Happening::Arrives(message));
    }

    fn delay(&mut self) -> Ms {
        if self.strikes(Kind::Lateness, 10) { self.dice.between(1, 9_000) } else { self.dice.between(1, 20) }
    }

    pub(super) fn arrive(&mut self, message: Message) {
        match message {
            Message::Asked { from, life, number, command } => self.ask_store(from, life, number, command),
            Message::Answered { to, life, number, heard } => match self.attends(to, life) {
                Some(at) if at > self.now => {
                    self.plan(at, Happening::Arrives(Message::Answered { to, life, number, heard }))
                }
                Some(_) => self.hear(to, number, heard),
                None => {}
            },
            Message::Pushed { to, socket, told } => match self.attends(to, self.clients[to].life) {
                // What a socket says is heard by whoever has it.
                Some(at) if at > self.now => self.plan(at, Happening::Arrives(Message::Pushed { to, socket, told })),
                Some(_) if self.clients[to].socket == socket => self.be_told(to, told),
                Some(_) | None => {}
            },
            Message::Worked { from, lock, fence, work } => self.work_arrives(from, lock, fence, work),
            Message::WorkDone { to, fence, work, came_to } => {
                let at = self.clients[to].paused_until;
                if at > self.now {
                    return self.plan(at, Happening::Arrives(Message::WorkDone { to, fence, work, came_to }));
                }
                self.go_on_working(to, fence, work, came_to);
            }
        }
    }
}
