//! Version 1 of a stored record, as it was when it was first deployed: a reader and a writer that never change.
//!
//! After a deploy old and new code share the rows for minutes. Where a world's store is to be the old one, it reads and
//! writes with this; and whatever looks at rows from outside does, so that it does not trust what it checks. `info` is
//! left out: no world stores any.

use leasehold::command::{Lost, Terms};
use leasehold::ledger::Fault;
use leasehold::lock::{Claim, Entry, Holding, Place, State};
use leasehold::types::{ClientId, Connection, Fence, Limit, LockDelay, MaxHold, Mode, RequestId, Token, Ttl};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Record {
    token: String,
    request_id: String,
    mode: RecordMode,
    ttl: u64,
    max_hold: Option<u64>,
    lock_delay: u64,
    client_id: Option<String>,
    info: Option<()>,
    asked_at: u64,
    connection: Option<u64>,
    state: RecordState,
}

#[derive(Serialize, Deserialize)]
enum RecordMode {
    Exclusive,
    Shared(Option<u64>),
}

#[derive(Serialize, Deserialize)]
enum RecordState {
    Waiting { until: u64 },
    Holding { fence: u64, granted_at: u64, expires_at: u64, claim: u32 },
    Ended { fence: u64, reason: u32, until: u64, closed_until: u64 },
}

/// In the order in which version 1 counts them.
const CLAIMS: [Claim; 3] = [Claim::Answered, Claim::Open, Claim::Made];
const REASONS: [Lost; 5] = [Lost::Expired, Lost::Released, Lost::Revoked, Lost::Stolen, Lost::Unknown];

pub fn write(entry: &Entry) -> Vec<u8> {
    let terms = &entry.terms;
    assert!(terms.info.is_none(), "version 1 knew info; here nobody gives any");
    let record = Record {
        token: terms.token.as_str().into(),
        request_id: terms.request_id.as_str().into(),
        mode: match terms.mode {
            Mode::Exclusive => RecordMode::Exclusive,
            Mode::Shared(limit) => RecordMode::Shared(limit.map(Limit::value)),
        },
        ttl: terms.ttl.value(),
        max_hold: terms.max_hold.map(MaxHold::value),
        lock_delay: terms.lock_delay.value(),
        client_id: terms.client_id.as_ref().map(|client_id| client_id.as_str().into()),
        info: None,
        asked_at: entry.asked_at,
        connection: entry.connection.map(|connection| connection.0),
        state: match entry.state {
            State::Waiting { until } => RecordState::Waiting { until },
            State::Holding(Holding { fence, granted_at, expires_at, claim }) => {
                RecordState::Holding { fence: fence.value(), granted_at, expires_at, claim: number_of(&CLAIMS, claim) }
            }
            State::Ended { fence, reason, until, closed_until } => {
                RecordState::Ended { fence: fence.value(), reason: number_of(&REASONS, reason), until, closed_until }
            }
        },
    };
    postcard::to_extend(&record, vec![1]).expect("memory does not fail")
}

pub fn read(place: Place, bytes: &[u8]) -> Result<Entry, Fault> {
    let unreadable = || Fault("version 1 cannot read this record".into());
    let body = bytes.strip_prefix(&[1]).ok_or_else(unreadable)?;
    let record: Record = postcard::from_bytes(body).map_err(|_| unreadable())?;
    let fence = |fence: u64| Fence::new(fence as f64).expect("a fence counts from 1");
    Ok(Entry {
        place,
        terms: Terms {
            token: Token::new(&record.token).map_err(|_| unreadable())?,
            request_id: RequestId::new(&record.request_id).map_err(|_| unreadable())?,
            mode: match record.mode {
                RecordMode::Exclusive => Mode::Exclusive,
                RecordMode::Shared(limit) => {
                    Mode::Shared(limit.map(|limit| Limit::new(limit as f64).expect("a limit counts from 1")))
                }
            },
            ttl: Ttl::new(record.ttl as f64).map_err(|_| unreadable())?,
            max_hold: record.max_hold.map(|length| MaxHold::new(length as f64).expect("a length that was given")),
            lock_delay: LockDelay::new(record.lock_delay as f64).map_err(|_| unreadable())?,
            client_id: record.client_id.map(|client_id| ClientId::new(&client_id).expect("a name that was given")),
            info: None,
        },
        asked_at: record.asked_at,
        connection: record.connection.map(Connection),
        former: None,
        state: match record.state {
            RecordState::Waiting { until } => State::Waiting { until },
            RecordState::Holding { fence: number, granted_at, expires_at, claim } => State::Holding(Holding {
                fence: fence(number),
                granted_at,
                expires_at,
                claim: *CLAIMS.get(claim as usize).ok_or_else(unreadable)?,
            }),
            RecordState::Ended { fence: number, reason, until, closed_until } => State::Ended {
                fence: fence(number),
                reason: *REASONS.get(reason as usize).ok_or_else(unreadable)?,
                until,
                closed_until,
            },
        },
        is_stored: true,
    })
}

fn number_of<T: PartialEq>(all: &[T], one: T) -> u32 {
    all.iter().position(|other| *other == one).expect("all are there") as u32
}
