//! The holder's machine, as JavaScript drives it.

use wasm_bindgen::prelude::*;

use crate::command::{Acquire, Cancel, Command, Refusal, Release, Renew, Request};
use crate::session::{self, End, Failure, Patience, Renewal, Step};
use crate::types::{Expected, MAX_SAFE_INTEGER, Ms, RequestId, Ttl};
use crate::wire::{self, Op, Said, SaidLease};

use super::values::{instant, problem, read};

/// How a session stands.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum Status {
    /// Not answered yet.
    Asking,
    /// Granted, and neither released nor known to be lost.
    Holding,
    Releasing,
    /// The release was not confirmed; it can be repeated.
    Unconfirmed,
    Released,
    /// See [`Session::reason`].
    Lost,
    /// Somebody else has it, and the ask was not to wait.
    Held,
    TimedOut,
    /// The holder gave up asking.
    GivenUp,
    /// The store refused, or could not be reached.
    Failed,
}

/// What is to be done.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum Due {
    /// Nothing any more.
    Over,
    /// Nothing yet.
    Wait,
    /// One of these is to be sent, under [`Session::number`]: as the ask was made, with [`Session::wait_ms`].
    Acquire,
    /// With [`Session::fence_sent`], and [`Session::ttl_ms`] where there is one.
    Renew,
    /// With [`Session::fence_sent`].
    Release,
    Cancel,
}

/// A session, and what its latest step came to, which JavaScript reads member by member: an object would cost more than
/// all the rest.
#[wasm_bindgen]
pub struct Session {
    session: session::Session,
    /// What the ask was made under.
    asked: Option<RequestId>,
    /// What it is asked under now, where that is another.
    asked_anew: Option<RequestId>,
    number: u32,
    until: f64,
    wait: f64,
    fence_sent: f64,
    ttl: Option<f64>,
}

#[wasm_bindgen]
impl Session {
    /// Asks for a lease. `fields` are those of the command acquire, without `waitMs`: that is `wait`, any length,
    /// `Infinity` too, which it also is when `undefined`. `renew_every` as in [`set_renewal`](Self::set_renewal).
    ///
    /// # Errors
    /// Problem details of the first field that is wrong.
    pub fn acquire(
        lock: JsValue,
        fields: JsValue,
        wait: JsValue,
        renew_every: JsValue,
        now: f64,
    ) -> Result<Session, JsValue> {
        let begin = || {
            let acquire = match request(Op::Acquire, lock, fields)? {
                Command::Acquire(acquire) => acquire,
                _ => return Err(Refusal::NotFound),
            };
            let asked = acquire.terms.request_id.clone();
            let session = session::Session::acquire(acquire, patience(wait)?, renewal(renew_every)?, instant(now));
            Ok(Self::new(session, Some(asked)))
        };
        begin().map_err(|refusal| problem(&refusal))
    }

    /// Goes on with a lease of which `token` and `fence` are known; with `ttlMs`, its first renewal asks for that length.
    ///
    /// # Errors
    /// Problem details of the first field that is wrong.
    pub fn attach(lock: JsValue, fields: JsValue, renew_every: JsValue, now: f64) -> Result<Session, JsValue> {
        let begin = || {
            let renewal = renewal(renew_every)?;
            let Renew { token, fence, ttl } = match request(Op::Renew, lock, fields)? {
                Command::Renew(renew) => renew,
                _ => return Err(Refusal::NotFound),
            };
            let mut session = session::Session::attach(token, fence, renewal, instant(now));
            if renewal != Renewal::Manual {
                session.renew(ttl, instant(now));
            }
            Ok(Self::new(session, None))
        };
        begin().map_err(|refusal| problem(&refusal))
    }

    /// What to do at this instant. Then there is nothing to do until [`until`](Self::until).
    pub fn step(&mut self, now: f64, dice: f64) -> Due {
        let now = instant(now);
        let step = self.session.step(now, dice);
        let then = if let Step::Send { .. } = step { &self.session.step(now, dice) } else { &step };
        if let Step::Wait { until } = then {
            self.until = until.map_or(f64::INFINITY, |until| until as f64);
        }
        let (number, command) = match step {
            Step::Send { number, command } => (number, command),
            Step::Wait { .. } => return Due::Wait,
            Step::Over => return Due::Over,
        };
        self.number = number;
        match command {
            Command::Acquire(Acquire { terms, wait, .. }) => {
                self.wait = wait.value() as f64;
                self.asked_anew = Some(terms.request_id).filter(|id| self.asked.as_ref() != Some(id));
                Due::Acquire
            }
            Command::Renew(Renew { fence, ttl, .. }) => {
                self.fence_sent = fence.value() as f64;
                self.ttl = ttl.map(|ttl| ttl.value() as f64);
                Due::Renew
            }
            Command::Release(Release { fence, .. }) => {
                self.fence_sent = fence.value() as f64;
                Due::Release
            }
            Command::Cancel(Cancel { .. }) => Due::Cancel,
            // No session asks for these.
            Command::Inspect | Command::Revoke(_) => Due::Over,
        }
    }

    #[wasm_bindgen(getter)]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// `Infinity` where only an answer will change anything.
    #[wasm_bindgen(getter)]
    pub fn until(&self) -> f64 {
        self.until
    }

    #[wasm_bindgen(getter, js_name = waitMs)]
    pub fn wait_ms(&self) -> f64 {
        self.wait
    }

    #[wasm_bindgen(getter, js_name = fenceSent)]
    pub fn fence_sent(&self) -> f64 {
        self.fence_sent
    }

    #[wasm_bindgen(getter, js_name = ttlMs)]
    pub fn ttl_ms(&self) -> Option<f64> {
        self.ttl
    }

    /// What an ask goes under, where that is not what it was made under: it was asked anew.
    #[wasm_bindgen(getter, js_name = requestIdAnew)]
    pub fn request_id_anew(&self) -> Option<String> {
        self.asked_anew.as_ref().map(|id| id.as_str().into())
    }

    /// Reports the reply to what was sent under `number`. False where it was none, but an error.
    pub fn heard(&mut self, number: u32, reply: &Reply, now: f64, dice: f64) -> bool {
        let heard = reply.said(|said| said.heard());
        match heard {
            Some(heard) => self.session.heard(number, heard, instant(now)),
            None => self.session.failed(number, Failure::Unknown, instant(now), dice),
        }
        heard.is_some()
    }

    /// Reports what the store says without having been asked. False where it is not meant for this session.
    pub fn told(&mut self, push: &Reply, now: f64) -> bool {
        let (request_id, fence) = (self.session.request_id(), self.session.grant().map(|grant| grant.fence));
        let heard = push.said(|said| said.told(request_id, fence));
        if let Some(heard) = heard {
            self.session.told(heard, instant(now));
        }
        heard.is_some()
    }

    /// Reports that what the store says without having been asked may not have arrived.
    pub fn missed(&mut self, now: f64) {
        self.session.missed(instant(now));
    }

    /// Reports that what was sent under `number` brought no reply, and whether asking again is of no use.
    pub fn failed(&mut self, number: u32, is_final: bool, now: f64, dice: f64) {
        let failure = if is_final { Failure::Final } else { Failure::Unknown };
        self.session.failed(number, failure, instant(now), dice);
    }

    /// Renews as soon as may be, for `ttl` ms from then on unless that is `undefined`.
    ///
    /// # Errors
    /// Problem details.
    pub fn renew(&mut self, ttl: JsValue, now: f64) -> Result<(), JsValue> {
        let length = length(ttl, "ttlMs", Ttl::new).map_err(|refusal| problem(&refusal))?;
        self.session.renew(length, instant(now));
        Ok(())
    }

    /// How often it renews from now on: every so many ms; `undefined` is every third of the ttl, 0 only when told to.
    ///
    /// # Errors
    /// Problem details.
    #[wasm_bindgen(js_name = setRenewal)]
    pub fn set_renewal(&mut self, every: JsValue, now: f64) -> Result<(), JsValue> {
        let renewal = renewal(every).map_err(|refusal| problem(&refusal))?;
        self.session.set_renewal(renewal, instant(now));
        Ok(())
    }

    pub fn release(&mut self, now: f64) {
        self.session.release(instant(now));
    }

    #[wasm_bindgen(js_name = heldForMs)]
    pub fn held_for(&self, now: f64) -> f64 {
        self.session.held_for(instant(now)) as f64
    }

    #[wasm_bindgen(getter)]
    pub fn status(&self) -> Status {
        match self.session.status() {
            session::Status::Asking => Status::Asking,
            session::Status::Holding => Status::Holding,
            session::Status::Releasing => Status::Releasing,
            session::Status::Unconfirmed => Status::Unconfirmed,
            session::Status::Over(End::Released) => Status::Released,
            session::Status::Over(End::Lost(_)) => Status::Lost,
            session::Status::Over(End::Held) => Status::Held,
            session::Status::Over(End::TimedOut) => Status::TimedOut,
            session::Status::Over(End::GivenUp) => Status::GivenUp,
            session::Status::Over(End::Failed) => Status::Failed,
        }
    }

    /// Why the lease was lost, where it was.
    #[wasm_bindgen(getter)]
    pub fn reason(&self) -> Option<String> {
        match self.session.status() {
            session::Status::Over(End::Lost(reason)) => Some(wire::lost_name(reason).into()),
            _ => None,
        }
    }

    /// While the lease is neither released nor known to be lost.
    #[wasm_bindgen(getter)]
    pub fn fence(&self) -> Option<f64> {
        self.session.grant().map(|grant| grant.fence.value() as f64)
    }

    /// As [`fence`](Self::fence): epoch ms on the store's clock.
    #[wasm_bindgen(getter, js_name = expiresAt)]
    pub fn expires_at(&self) -> Option<f64> {
        self.session.grant().map(|grant| grant.expires_at as f64)
    }
}

impl Session {
    fn new(session: session::Session, asked: Option<RequestId>) -> Self {
        Self { session, asked, asked_anew: None, number: 0, until: 0.0, wait: 0.0, fence_sent: 0.0, ttl: None }
    }
}

#[wasm_bindgen]
extern "C" {
    /// A reply or a push, as it came: an object of which nothing is known. Only what a session listens to is fetched.
    pub type Reply;

    #[wasm_bindgen(method, getter)]
    fn status(this: &Reply) -> JsValue;

    #[wasm_bindgen(method, getter)]
    fn reason(this: &Reply) -> JsValue;

    #[wasm_bindgen(method, getter, js_name = requestId)]
    fn request_id(this: &Reply) -> JsValue;

    #[wasm_bindgen(method, getter)]
    fn fence(this: &Reply) -> JsValue;

    #[wasm_bindgen(method, getter, js_name = waitedMs)]
    fn waited_ms(this: &Reply) -> JsValue;

    #[wasm_bindgen(method, getter, js_name = retryAfterMs)]
    fn retry_after_ms(this: &Reply) -> JsValue;

    #[wasm_bindgen(method, getter)]
    fn lease(this: &Reply) -> Option<Reply>;

    #[wasm_bindgen(method, getter, js_name = ttlMs)]
    fn ttl_ms(this: &Reply) -> JsValue;

    #[wasm_bindgen(method, getter, js_name = expiresInMs)]
    fn expires_in_ms(this: &Reply) -> JsValue;

    #[wasm_bindgen(method, getter, js_name = expiresAt)]
    fn expires_at(this: &Reply) -> JsValue;
}

impl Reply {
    fn said<T>(&self, listen: impl FnOnce(&Said<'_>) -> T) -> T {
        let [status, reason, request_id] = [self.status(), self.reason(), self.request_id()].map(|it| it.as_string());
        listen(&Said {
            status: status.as_deref(),
            reason: reason.as_deref(),
            request_id: request_id.as_deref(),
            fence: self.fence().as_f64(),
            waited_ms: self.waited_ms().as_f64(),
            retry_after_ms: self.retry_after_ms().as_f64(),
            lease: self.lease().map(|lease| SaidLease {
                fence: lease.fence().as_f64(),
                ttl_ms: lease.ttl_ms().as_f64(),
                expires_in_ms: lease.expires_in_ms().as_f64(),
                expires_at: lease.expires_at().as_f64(),
            }),
        })
    }
}

fn request(op: Op, lock: JsValue, fields: JsValue) -> Result<Command, Refusal> {
    let lock = read(&lock).map_err(|_| wire::invalid("lock", Expected("a string")))?;
    match wire::request(op, &lock, read(&fields)?)? {
        Request::Lock { command, .. } => Ok(command),
        _ => Err(Refusal::NotFound),
    }
}

/// The longest wait that is not `Infinity`, and the longest time between renewals: what JavaScript counts exactly.
const LONGEST: f64 = MAX_SAFE_INTEGER as f64;

fn patience(wait: JsValue) -> Result<Patience, Refusal> {
    let new = |value: f64| match value {
        f64::INFINITY => Ok(Patience::Unlimited),
        0.0 => Ok(Patience::None),
        1.0..=LONGEST if value.fract() == 0.0 => Ok(Patience::For(value as Ms)),
        _ => Err(Expected("an integer from 0 on, or Infinity (milliseconds)")),
    };
    Ok(length(wait, "waitMs", new)?.unwrap_or(Patience::Unlimited))
}

fn renewal(every: JsValue) -> Result<Renewal, Refusal> {
    let new = |value: f64| match value {
        0.0 => Ok(Renewal::Manual),
        1.0..=LONGEST if value.fract() == 0.0 => Ok(Renewal::Every(value as Ms)),
        _ => Err(Expected("an integer from 1 on (milliseconds)")),
    };
    Ok(length(every, "renewEveryMs", new)?.unwrap_or(Renewal::Auto))
}

fn length<T>(
    value: JsValue,
    field: &'static str,
    new: impl FnOnce(f64) -> Result<T, Expected>,
) -> Result<Option<T>, Refusal> {
    if value.is_undefined() {
        return Ok(None);
    }
    // Not NaN itself: a value of another type.
    new(value.as_f64().unwrap_or(f64::NAN)).map(Some).map_err(|expected| wire::invalid(field, expected))
}
