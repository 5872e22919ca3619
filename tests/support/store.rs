//! A store to talk to in a line: what is asked, and what is answered.

use leasehold::command::{
    Acquire, Cancel, Command, Entrance, Lease, Push, Release, Renew, Reply, Request, Revoke, Terms,
};
use leasehold::ledger::{InMemory, Ledger, Storage};
use leasehold::service::{Call, Service, Ticket, Turn};
use leasehold::types::{ClientId, Connection, Fence, LockDelay, Mode, Ms, Name, RequestId, Token, Ttl, Wait};

pub struct Store<S> {
    pub service: Service<S>,
    pub now: Ms,
    next_ticket: Ticket,
}

impl Store<InMemory> {
    pub fn in_memory() -> Self {
        Self::over(InMemory, 0)
    }
}

impl<S: Storage> Store<S> {
    pub fn over(storage: S, fence_floor: u64) -> Self {
        let service = Service::new(Ledger::start(storage, fence_floor).expect("the storage can be read"));
        Self { service, now: 1_000_000, next_ticket: 0 }
    }

    pub fn turn(&mut self, requests: Vec<(Option<Connection>, Request)>, closed: &[Connection]) -> Turn {
        let calls = requests.into_iter().map(|(via, request)| {
            self.next_ticket += 1;
            Call { ticket: self.next_ticket, via, request: Ok(request) }
        });
        let calls = calls.collect();
        self.service.turn(calls, closed, self.now).expect("the storage works")
    }

    pub fn tick(&mut self) -> Turn {
        self.turn(Vec::new(), &[])
    }

    /// The turn of one request, and the answer to it where it has one in that turn.
    pub fn ask(&mut self, via: Option<Connection>, request: Request) -> (Option<Reply>, Turn) {
        let mut turn = self.turn(vec![(via, request)], &[]);
        let own = turn.answers.iter().position(|(ticket, _)| *ticket == self.next_ticket);
        (own.map(|at| turn.answers.remove(at).1), turn)
    }

    pub fn reply(&mut self, request: Request) -> Reply {
        self.ask(None, request).0.expect("it is answered")
    }

    pub fn granted(&mut self, request: Request) -> Lease {
        match self.reply(request) {
            Reply::Granted { lease, .. } => lease,
            other => panic!("not granted: {other:?}"),
        }
    }
}

pub fn on(lock: &str, command: Command) -> Request {
    Request::Lock { lock: Name::new(lock).unwrap(), command }
}

pub fn acquire(who: &str) -> Acquire {
    Acquire {
        terms: Terms {
            token: Token::new(&format!("token of {who}")).unwrap(),
            request_id: RequestId::new(&format!("request of {who}")).unwrap(),
            mode: Mode::Exclusive,
            ttl: Ttl::DEFAULT,
            max_hold: None,
            lock_delay: LockDelay::NONE,
            client_id: Some(ClientId::new(who).unwrap()),
            info: None,
        },
        wait: Wait::NONE,
        entry: Entrance::Queue,
    }
}

pub fn try_acquire(lock: &str, who: &str) -> Request {
    on(lock, Command::Acquire(acquire(who)))
}

pub fn wait_for(lock: &str, who: &str) -> Request {
    on(lock, Command::Acquire(Acquire { wait: Wait::MAX, ..acquire(who) }))
}

pub fn renew(lock: &str, who: &str, fence: Fence) -> Request {
    on(lock, Command::Renew(Renew { token: acquire(who).terms.token, fence, ttl: None }))
}

pub fn release(lock: &str, who: &str, fence: Fence) -> Request {
    on(lock, Command::Release(Release { token: acquire(who).terms.token, fence }))
}

pub fn cancel(lock: &str, who: &str) -> Request {
    let Terms { token, request_id, .. } = acquire(who).terms;
    on(lock, Command::Cancel(Cancel { token, request_id }))
}

pub fn revoke(lock: &str) -> Request {
    on(lock, Command::Revoke(Revoke { fence: None, reason: None }))
}

/// Who is told of a grant, over which socket.
pub fn grants(turn: &Turn) -> Vec<(Connection, String)> {
    let grant = |(connection, push): &(Connection, Push)| match push {
        Push::Granted { request_id, .. } => Some((*connection, request_id.as_str().to_owned())),
        Push::Ended { .. } | Push::Changed { .. } => None,
    };
    turn.pushes.iter().filter_map(grant).collect()
}
