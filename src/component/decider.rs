//! The world `decider`: [`kernel`](crate::kernel) behind WIT, typed and as the wire's JSON.

use crate::command::{List, Lost, Refusal, Reply, Request};
use crate::component::bindings::exports::leasehold::lease::{kernel as wit, wire as wit_wire};
use crate::component::{bindings, data, types};
use crate::json::Json;
use crate::kernel::{self, Change, Order, Times};
use crate::record::Unreadable;
use crate::types::{Fence, Name, RequestId, Token};
use crate::wire::{self, MAX_BODY_BYTES, Op, TOO_LARGE};

struct Decider;

#[allow(unsafe_code, reason = "generated")]
mod exported {
    use super::{Decider, bindings};
    bindings::export!(Decider with_types_in bindings);
}

impl wit::Guest for Decider {
    fn decide(
        prior: Option<Vec<u8>>,
        lock: String,
        command: wit::Command,
        now_at: u64,
        space: wit::Space,
        limits: wit::Limits,
    ) -> Result<wit::Decision, wit::Fault> {
        let desk = Desk { prior, now_at, space, limits };
        desk.decide(&lock, order(&lock, command), |decision, space| {
            let mut grants = Vec::new();
            let mut departures = Vec::new();
            for told in &decision.waiters {
                let (_, json) = wire::reply(&told.reply, space);
                match (&told.reply, data::grant(&json)) {
                    (Reply::Granted { .. }, Some(grant)) => {
                        grants.push(wit::GrantedWaiter { request_id: told.request_id.as_str().into(), grant });
                    }
                    _ => departures.push(wit::DepartedWaiter { ask: ask(told), reply: reply(&told.reply, space) }),
                }
            }
            wit::Decision {
                reply: decision.reply.as_ref().map_or(wit::Reply::Settled, |told| reply(told, space)),
                change: change(decision.change),
                last_fence: decision.last_fence,
                grants,
                departures,
                endings: decision.endings.into_iter().map(ending).collect(),
                wake_at: decision.times.wake_at,
                clean_at: decision.times.clean_at,
            }
        })
    }
}

impl wit_wire::Guest for Decider {
    fn decide(
        prior: Option<Vec<u8>>,
        op: String,
        lock: String,
        fields: String,
        now_at: u64,
        space: wit::Space,
        limits: wit::Limits,
    ) -> Result<wit_wire::Answer, wit::Fault> {
        let order = read(&fields).and_then(|fields| Order::read(&op, &lock, fields)).unwrap_or_else(Order::Refuse);
        let desk = Desk { prior, now_at, space, limits };
        desk.decide(&lock, order, |decision, space| wit_wire::Answer {
            message: match &decision.reply {
                Some(reply) => message(reply, space),
                None => wit_wire::Message { status: 200, body: "{}".into() },
            },
            change: change(decision.change),
            last_fence: decision.last_fence,
            waiters: decision
                .waiters
                .iter()
                .map(|told| wit_wire::ToldWaiter { ask: ask(told), message: message(&told.reply, space) })
                .collect(),
            endings: decision.endings.into_iter().map(ending).collect(),
            wake_at: decision.times.wake_at,
            clean_at: decision.times.clean_at,
        })
    }

    fn read_list(fields: String) -> Result<wit_wire::PageRequest, wit_wire::Message> {
        let request = read(&fields).and_then(|fields| wire::request(Op::List, &Json::Null, fields));
        match request {
            Ok(Request::List(List { prefix, cursor, page_size })) => Ok(wit_wire::PageRequest {
                prefix,
                cursor: cursor.map(|cursor| cursor.as_str().into()),
                page_size: page_size.value(),
            }),
            Ok(Request::Lock { .. } | Request::Watch(_) | Request::Unwatch(_)) => Err(refusal(Refusal::NotFound)),
            Err(refused) => Err(refusal(refused)),
        }
    }
}

/// What both interfaces decide from.
struct Desk {
    prior: Option<Vec<u8>>,
    now_at: u64,
    space: wit::Space,
    limits: wit::Limits,
}

impl Desk {
    fn decide<T>(
        self,
        lock: &str,
        order: Order,
        show: impl FnOnce(kernel::Decision, &str) -> T,
    ) -> Result<T, wit::Fault> {
        let wit::Space { name, last_fence, fence_floor } = self.space;
        let lock = match Name::new(lock) {
            Ok(lock) => lock,
            // No such lock can have a record.
            Err(expected) => return Ok(show(nothing(wire::invalid("lock", expected), last_fence), &name)),
        };
        let space = kernel::Space { last_fence, fence_floor };
        let limits = kernel::Limits {
            remember: self.limits.remember_ms,
            record_bytes: usize::try_from(self.limits.record_bytes_max).unwrap_or(usize::MAX),
        };
        match kernel::decide(self.prior.as_deref(), &lock, &order, self.now_at, space, limits) {
            Ok(decision) => Ok(show(decision, &name)),
            Err(Unreadable::Newer(version)) => Err(wit::Fault::NewerRecord(version)),
            Err(Unreadable::Damaged) => Err(wit::Fault::UnreadableRecord),
        }
    }
}

fn nothing(refusal: Refusal, last_fence: u64) -> kernel::Decision {
    kernel::Decision {
        reply: Some(Reply::Refused(refusal)),
        change: Change::Unchanged,
        last_fence,
        waiters: Vec::new(),
        endings: Vec::new(),
        times: Times::default(),
    }
}

fn order(lock: &str, command: wit::Command) -> Order {
    let (op, fields) = match command {
        wit::Command::Acquire(acquire) => ("acquire", data::acquire(acquire)),
        wit::Command::Renew(renew) => ("renew", Ok(data::renew(&renew))),
        wit::Command::Release(release) => ("release", Ok(data::release(&release))),
        wit::Command::Cancel(ask) => ("cancel", Ok(data::ask(&ask))),
        wit::Command::Revoke(revoke) => ("revoke", Ok(data::revoke(&revoke))),
        wit::Command::Inspect => ("inspect", Ok(Json::Object(Vec::new()))),
        wit::Command::Standing(ask) => ("standing", Ok(data::ask(&ask))),
        wit::Command::Tick => return Order::Tick,
    };
    fields.and_then(|fields| Order::read(op, lock, fields)).unwrap_or_else(Order::Refuse)
}

fn read(fields: &str) -> Result<Json, Refusal> {
    if fields.len() > MAX_BODY_BYTES {
        return Err(TOO_LARGE);
    }
    data::read_json(fields, "body")
}

fn ask(told: &kernel::Told) -> types::Ask {
    let kernel::Told { token, request_id, .. } = told;
    types::Ask { token: Token::as_str(token).into(), request_id: RequestId::as_str(request_id).into() }
}

fn refusal(refusal: Refusal) -> wit_wire::Message {
    message(&Reply::Refused(refusal), "")
}

fn message(reply: &Reply, space: &str) -> wit_wire::Message {
    let (status, body) = wire::reply(reply, space);
    wit_wire::Message { status, body: data::write_json(&body) }
}

fn reply(told: &Reply, space: &str) -> wit::Reply {
    let (_, json) = wire::reply(told, space);
    let json = &json;
    match told {
        Reply::Granted { .. } => data::grant(json).map(wit::Reply::Granted),
        Reply::Held { .. } => data::held(json).map(wit::Reply::Held),
        Reply::Waiting { .. } => data::waiting(json).map(wit::Reply::Waiting),
        Reply::Renewed { .. } => data::lease(json).map(wit::Reply::Renewed),
        Reply::Lost { .. } => data::lost(json).map(wit::Reply::Lost),
        Reply::Released => Some(wit::Reply::Released),
        Reply::Cancelled => Some(wit::Reply::Cancelled),
        Reply::Revoked { count } => Some(wit::Reply::Revoked(*count as u64)),
        Reply::Inspected { .. } => data::inspection(json).map(wit::Reply::Inspected),
        Reply::Refused(refusal) => Some(wit::Reply::Refused(refused(refusal))),
        // About a space, not a lock: nobody asks the kernel.
        Reply::Listed { .. } | Reply::Watching { .. } | Reply::Unwatched => None,
    }
    .unwrap_or(wit::Reply::Settled)
}

fn refused(refusal: &Refusal) -> wit::Refusal {
    match refusal {
        Refusal::Invalid { field, expected } => {
            wit::Refusal::InvalidArgument(types::InvalidArgument { field: field.clone(), expected: (*expected).into() })
        }
        Refusal::LimitMismatch => wit::Refusal::LimitMismatch,
        Refusal::QueueFull => wit::Refusal::QueueFull,
        // The engine's `unavailable`; all others are HTTP's, and no command's.
        _ => wit::Refusal::OutOfFences,
    }
}

fn change(change: Change) -> wit::Change {
    match change {
        Change::Unchanged => wit::Change::Unchanged,
        Change::Store(bytes) => wit::Change::Store(bytes),
        Change::Delete => wit::Change::Delete,
    }
}

fn ending((fence, reason): (Fence, Lost)) -> wit::EndedLease {
    let reason = match reason {
        Lost::Expired => types::Lost::Expired,
        Lost::Released => types::Lost::Released,
        Lost::Revoked => types::Lost::Revoked,
        Lost::Stolen => types::Lost::Stolen,
        Lost::Unknown => types::Lost::Unknown,
    };
    wit::EndedLease { fence: fence.value(), reason }
}
