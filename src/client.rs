//! Leases for a Worker in Rust: the holder's side, over the stub of a `LeaseStore`.
//!
//! A lease is held for as long as a future runs: [`Leases::hold`] asks for it, renews it meanwhile and gives it back. Where
//! it is lost its future is dropped, so that nothing after the next `.await` is done without it.
//!
//! ```ignore
//! let leases = Leases::new(&env, "LEASES")?;
//! let fence = leases.hold("report", Ask::default(), async |lease| build(lease.fence()).await).await?;
//! ```

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, pending, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use worker::{Delay, Env, Headers, Method, ObjectNamespace, Request, RequestInit};

pub use crate::command::{Command, Lost, Revoke};
pub use crate::json::Json;
pub use crate::session::Patience;
pub use crate::types::{Fence, Info, Limit, LockDelay, MaxHold, Mode, Note, Ttl};

use crate::command::{Acquire, Entrance, Terms};
use crate::session::{End, Failure, Renewal, Session, Status, Step};
use crate::types::{Expected, Ms, Name, RequestId, Token, Wait};
use crate::wire;

/// The leases of one space.
#[derive(Debug, Clone)]
pub struct Leases {
    namespace: ObjectNamespace,
    space: String,
}

/// What a lease is to be like, and how long to wait for it.
#[derive(Debug, Clone)]
pub struct Ask {
    pub ttl: Ttl,
    pub mode: Mode,
    pub patience: Patience,
    pub max_hold: Option<MaxHold>,
    pub lock_delay: LockDelay,
    /// Public.
    pub info: Option<Info>,
}

impl Default for Ask {
    /// Alone, for half a minute between renewals, and waiting without end.
    fn default() -> Self {
        Self {
            ttl: Ttl::DEFAULT,
            mode: Mode::Exclusive,
            patience: Patience::Unlimited,
            max_hold: None,
            lock_delay: LockDelay::NONE,
            info: None,
        }
    }
}

/// Why there is no lease, or none any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// Somebody else has the lock, and the ask was not to wait.
    Held,
    /// The wait was longer than `patience`, and the store has answered meanwhile.
    TimedOut,
    /// The lease ended before its future did.
    Lost(Lost),
    /// The store refused, or could not be reached: the code of the protocol, and what there is to say about it.
    Refused { code: String, detail: String },
}

/// A lease in the hands of what it is held for.
#[derive(Debug, Clone)]
pub struct Lease {
    session: Rc<RefCell<Session>>,
    fence: Fence,
}

impl Lease {
    /// Larger than that of every lease granted before it in its space. To be sent with every write.
    pub fn fence(&self) -> u64 {
        self.fence.value()
    }

    /// Whether the lease is held at this instant, as far as can be known.
    pub fn is_held(&self) -> bool {
        self.session.borrow().is_held(now())
    }
}

impl Leases {
    /// Those of the space `default`, in the Durable Object namespace that is bound under this name.
    ///
    /// # Errors
    /// Where nothing is bound under it.
    pub fn new(env: &Env, binding: &str) -> worker::Result<Self> {
        Ok(Self { namespace: env.durable_object(binding)?, space: "default".into() })
    }

    /// Those of another space.
    #[must_use]
    pub fn in_space(self, space: &str) -> Self {
        Self { space: space.into(), ..self }
    }

    /// Runs what `work` makes of a lease, and gives the lease back.
    ///
    /// # Errors
    /// [`Denied`]: without a lease `work` is not called; with one that was lost it is not run to its end.
    pub async fn hold<F: Future>(
        &self,
        lock: &str,
        ask: Ask,
        work: impl FnOnce(Lease) -> F,
    ) -> Result<F::Output, Denied> {
        let mut holder = Holder::new(self, lock, ask)?;
        let (Status::Holding, Some(lease)) = (holder.drive(|status| status != Status::Asking).await, holder.lease())
        else {
            return Err(holder.denied());
        };
        let ended = {
            let work = pin!(work(lease));
            let lost = pin!(holder.drive(|status| status != Status::Holding));
            match select(work, lost).await {
                Either::Left((output, _)) => Some(output),
                Either::Right(_) => None,
            }
        };
        let Some(output) = ended else { return Err(holder.denied()) };
        holder.session.borrow_mut().release(now());
        match holder.drive(|status| status == Status::Unconfirmed).await {
            Status::Over(End::Lost(reason)) => Err(Denied::Lost(reason)),
            // A release that nobody confirmed is no reason to lose the output: the lease ends by itself.
            _ => Ok(output),
        }
    }

    /// Sends one command, such as [`Command::Inspect`] or [`Command::Revoke`], and resolves with the reply.
    ///
    /// # Errors
    /// [`Denied::Refused`]: also where it could not be sent, and whether it was carried out is unknown.
    pub async fn send(&self, lock: &str, command: &Command) -> Result<Json, Denied> {
        let reply = self.exchange(lock, command).await.map_err(|error| refused("unavailable", &error.to_string()))?;
        match text(&reply, "code") {
            Some(code) => Err(refused(code, text(&reply, "detail").unwrap_or_default())),
            None => Ok(reply),
        }
    }

    /// A stub is fetched afresh for every attempt: one that has failed goes on failing.
    async fn exchange(&self, lock: &str, command: &Command) -> worker::Result<Json> {
        let (op, fields) = wire::fields(command);
        let [space, lock] = [&self.space, lock].map(encode);
        let path = format!("https://leasehold/v1/spaces/{space}/locks/{lock}");
        let request = match command {
            Command::Inspect => Request::new(&path, Method::Get)?,
            _ => {
                let headers = Headers::new();
                headers.set("content-type", "application/json")?;
                let mut init = RequestInit::new();
                init.with_method(Method::Post).with_headers(headers);
                init.with_body(Some(JsValue::from_str(&serde_json::to_string(&fields)?)));
                Request::new_with_init(&format!("{path}/{}", op.name()), &init)?
            }
        };
        let stub = self.namespace.get_by_name(&self.space)?;
        let body = stub.fetch_with_request(request).await?.text().await?;
        Json::read(&mut serde_json::Deserializer::from_str(&body)).map_err(|(_, error)| error.into())
    }
}

/// What came of a command.
type Answer = (u32, Result<Json, Denied>);

/// Drives a session: sends what it says, and tells it what came of that. Nothing is decided here.
struct Holder<'a> {
    leases: &'a Leases,
    lock: String,
    session: Rc<RefCell<Session>>,
    /// Commands that were sent and not answered yet.
    calls: FuturesUnordered<Pin<Box<dyn Future<Output = Answer> + 'a>>>,
    /// What went wrong last.
    problem: Option<Denied>,
    /// Whether the store has answered anything.
    is_heard: bool,
}

impl<'a> Holder<'a> {
    fn new(leases: &'a Leases, lock: &str, ask: Ask) -> Result<Self, Denied> {
        Name::new(lock).map_err(|expected| wrong("lock", expected))?;
        let Ask { ttl, mode, patience, max_hold, lock_delay, info } = ask;
        let mint = || uuid::Uuid::new_v4().to_string();
        let token = Token::new(&mint()).map_err(|expected| wrong("token", expected))?;
        let request_id = RequestId::new(&mint()).map_err(|expected| wrong("requestId", expected))?;
        let terms = Terms { token, request_id, mode, ttl, max_hold, lock_delay, client_id: None, info };
        let acquire = Acquire { terms, wait: Wait::NONE, entry: Entrance::Queue };
        let session = Session::acquire(acquire, patience, Renewal::Auto, now());
        Ok(Self {
            leases,
            lock: lock.into(),
            session: Rc::new(RefCell::new(session)),
            calls: FuturesUnordered::new(),
            problem: None,
            is_heard: false,
        })
    }

    /// Until the session stands as asked for, or is over.
    async fn drive(&mut self, has_come: impl Fn(Status) -> bool) -> Status {
        loop {
            let status = self.session.borrow().status();
            if has_come(status) {
                return status;
            }
            let step = self.session.borrow_mut().step(now(), js_sys::Math::random());
            match step {
                Step::Send { number, command } => {
                    let (leases, lock) = (self.leases, self.lock.clone());
                    self.calls.push(Box::pin(async move { (number, leases.send(&lock, &command).await) }));
                }
                Step::Wait { until } => self.wait(until).await,
                Step::Over => return self.session.borrow().status(),
            }
        }
    }

    /// Until something is heard, or that instant comes.
    async fn wait(&mut self, until: Option<Ms>) {
        let heard = {
            let answered = async {
                match self.calls.next().await {
                    Some(answer) => answer,
                    None => pending().await,
                }
            };
            match select(pin!(answered), pin!(pass(until))).await {
                Either::Left((answer, _)) => Some(answer),
                Either::Right(_) => None,
            }
        };
        if let Some((number, answer)) = heard {
            self.report(number, answer);
        }
    }

    fn report(&mut self, number: u32, answer: Result<Json, Denied>) {
        let mut session = self.session.borrow_mut();
        let problem = match answer {
            Ok(reply) => match wire::heard(&reply) {
                Some(heard) => {
                    self.is_heard = true;
                    return session.heard(number, heard, now());
                }
                None => refused("unavailable", "what answers is no lease store"),
            },
            Err(problem) => problem,
        };
        let failure = if may_pass(&problem) { Failure::Unknown } else { Failure::Final };
        session.failed(number, failure, now(), js_sys::Math::random());
        self.problem = Some(problem);
    }

    fn lease(&self) -> Option<Lease> {
        let grant = self.session.borrow().grant()?;
        Some(Lease { session: self.session.clone(), fence: grant.fence })
    }

    /// Why there is no lease.
    fn denied(&self) -> Denied {
        match self.session.borrow().status() {
            Status::Over(End::Held) => Denied::Held,
            // Who has heard nothing does not know whether anybody has the lock.
            Status::Over(End::TimedOut) if self.is_heard => Denied::TimedOut,
            Status::Over(End::Lost(reason)) => Denied::Lost(reason),
            _ => self.problem.clone().unwrap_or_else(|| refused("unavailable", "the store did not answer")),
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Held => f.write_str("somebody else has the lock"),
            Denied::TimedOut => f.write_str("the wait was too long"),
            Denied::Lost(reason) => write!(f, "the lease is lost: {}", wire::lost_name(*reason)),
            Denied::Refused { code, detail } => write!(f, "{code}: {detail}"),
        }
    }
}

impl std::error::Error for Denied {}

impl From<Expected> for Denied {
    fn from(Expected(expected): Expected) -> Self {
        refused("invalid_argument", &format!("expected {expected}"))
    }
}

impl From<Denied> for worker::Error {
    fn from(denied: Denied) -> Self {
        worker::Error::RustError(denied.to_string())
    }
}

fn refused(code: &str, detail: &str) -> Denied {
    Denied::Refused { code: code.into(), detail: detail.into() }
}

fn wrong(field: &str, Expected(expected): Expected) -> Denied {
    refused("invalid_argument", &format!("{field} must be {expected}"))
}

/// Whether asking again may help. An object that is overloaded only gets more of it.
fn may_pass(problem: &Denied) -> bool {
    let Denied::Refused { code, detail } = problem else { return false };
    let passes = matches!(code.as_str(), "unavailable" | "too_many_requests" | "too_slow");
    passes && !detail.contains("overloaded")
}

fn text<'a>(reply: &'a Json, name: &str) -> Option<&'a str> {
    match reply.member(name) {
        Some(Json::Text(text)) => Some(text),
        _ => None,
    }
}

/// One segment of a path.
fn encode(text: &str) -> String {
    js_sys::encode_uri_component(text).into()
}

/// Timers are no longer than this; whoever waits asks again.
const LONGEST_MS: Ms = 60_000;

async fn pass(until: Option<Ms>) {
    match until {
        Some(until) => Delay::from(Duration::from_millis(until.saturating_sub(now()).min(LONGEST_MS))).await,
        None => pending().await,
    }
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn monotonic() -> f64;
}

/// What is not yet a whole millisecond has not passed.
fn now() -> Ms {
    monotonic() as Ms
}
