//! The holder's machine, as JavaScript drives it.

use js_sys::Array;
use wasm_bindgen::prelude::*;

use crate::command::{Command, Refusal, Renew, Request};
use crate::session::{self, End, Failure, Patience, Renewal, Step};
use crate::types::{Expected, MAX_SAFE_INTEGER, Ms, Ttl};
use crate::wire::{self, Op};

use super::values::{instant, problem, read, write};

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

#[wasm_bindgen]
pub struct Session {
    session: session::Session,
    token: String,
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
            let token = acquire.terms.token.as_str().into();
            let session = session::Session::acquire(acquire, patience(wait)?, renewal(renew_every)?, instant(now));
            Ok(Self { session, token })
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
            let text = token.as_str().into();
            let mut session = session::Session::attach(token, fence, renewal, instant(now));
            if renewal != Renewal::Manual {
                session.renew(ttl, instant(now));
            }
            Ok(Self { session, token: text })
        };
        begin().map_err(|refusal| problem(&refusal))
    }

    /// What to do at this instant: an array of number, verb and fields to be sent, after which the next step is asked
    /// for at once; or the instant until which there is nothing to do, `Infinity` where only an answer will change that;
    /// or `undefined` when the session is over.
    pub fn step(&mut self, now: f64, dice: f64) -> JsValue {
        match self.session.step(instant(now), dice) {
            Step::Send { number, command } => {
                let (op, fields) = wire::fields(&command);
                Array::of3(&JsValue::from_f64(f64::from(number)), &JsValue::from_str(op.name()), &write(&fields)).into()
            }
            Step::Wait { until } => JsValue::from_f64(until.map_or(f64::INFINITY, |until| until as f64)),
            Step::Over => JsValue::UNDEFINED,
        }
    }

    /// Reports the reply to what was sent under `number`. False where it was none, but an error.
    pub fn heard(&mut self, number: u32, reply: JsValue, now: f64, dice: f64) -> bool {
        let heard = read(&reply).ok().as_ref().and_then(wire::heard);
        match heard {
            Some(heard) => self.session.heard(number, heard, instant(now)),
            None => self.session.failed(number, Failure::Unknown, instant(now), dice),
        }
        heard.is_some()
    }

    /// Reports what the store says without having been asked. False where it is not meant for this session.
    pub fn told(&mut self, push: JsValue, now: f64) -> bool {
        let (request_id, fence) = (self.session.request_id(), self.session.grant().map(|grant| grant.fence));
        let heard = read(&push).ok().and_then(|push| wire::told(&push, request_id, fence));
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

    #[wasm_bindgen(getter)]
    pub fn token(&self) -> String {
        self.token.clone()
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
