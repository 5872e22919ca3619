//! An entry of a lock as versioned bytes: what a row of the lease store holds.
//!
//! The stored form is a type of its own, so that the core's types can change without it. A new form gets a new version
//! byte, and the old ones stay readable: old and new code run side by side for minutes after a deploy.

use serde::{Deserialize, Serialize};

use crate::command::{Lost, Terms};
use crate::json::Json;
use crate::ledger::Fault;
use crate::lock::{Claim, Entry, Holding, Place, State};
use crate::types::{
    ClientId, Connection, Expected, Fence, Info, Limit, LockDelay, MaxHold, Mode, Ms, RequestId, Token, Ttl,
};

const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
struct Stored {
    token: String,
    request_id: String,
    mode: StoredMode,
    ttl: u64,
    max_hold: Option<u64>,
    lock_delay: u64,
    client_id: Option<String>,
    info: Option<StoredJson>,
    asked_at: Ms,
    connection: Option<u64>,
    state: StoredState,
}

#[derive(Serialize, Deserialize)]
enum StoredMode {
    Exclusive,
    Shared(Option<u64>),
}

#[derive(Serialize, Deserialize)]
enum StoredState {
    Waiting { until: Ms },
    Holding { fence: u64, granted_at: Ms, expires_at: Ms, claim: StoredClaim },
    Ended { fence: u64, reason: StoredLost, until: Ms, closed_until: Ms },
}

#[derive(Serialize, Deserialize)]
enum StoredClaim {
    Answered,
    Open,
    Made,
}

#[derive(Serialize, Deserialize)]
enum StoredLost {
    Expired,
    Released,
    Revoked,
    Stolen,
    Unknown,
}

#[derive(Serialize, Deserialize)]
enum StoredJson {
    Null,
    Bool(bool),
    Number(f64),
    Text(Box<str>),
    List(Vec<StoredJson>),
    Object(Vec<(Box<str>, StoredJson)>),
}

/// The entry's bytes. Its place is not among them: it is the row's key.
pub fn write(entry: &Entry) -> Vec<u8> {
    // Writing to a growing vector has no error; were there one, the empty record would be refused on reading.
    postcard::to_extend(&store(entry), vec![VERSION]).unwrap_or_default()
}

/// # Errors
/// [`Fault`] where the bytes are of a newer version, damaged, or say what no entry can be.
pub fn read(place: Place, bytes: &[u8]) -> Result<Entry, Fault> {
    match bytes.split_first() {
        Some((&VERSION, body)) => {
            let (stored, rest) = postcard::take_from_bytes::<Stored>(body).map_err(|_| damaged())?;
            if rest.is_empty() { restore(place, stored).map_err(|_| damaged()) } else { Err(damaged()) }
        }
        Some((version, _)) => {
            Err(Fault(format!("a stored record has version {version}, which this code does not know")))
        }
        None => Err(damaged()),
    }
}

fn damaged() -> Fault {
    Fault("a stored record cannot be read".into())
}

fn store(entry: &Entry) -> Stored {
    let Entry { place: _, terms, asked_at, connection, state, is_stored: _ } = entry;
    Stored {
        token: terms.token.as_str().into(),
        request_id: terms.request_id.as_str().into(),
        mode: match terms.mode {
            Mode::Exclusive => StoredMode::Exclusive,
            Mode::Shared(limit) => StoredMode::Shared(limit.map(Limit::value)),
        },
        ttl: terms.ttl.value(),
        max_hold: terms.max_hold.map(MaxHold::value),
        lock_delay: terms.lock_delay.value(),
        client_id: terms.client_id.as_ref().map(|client_id| client_id.as_str().into()),
        info: terms.info.as_ref().map(|info| store_json(info.as_json())),
        asked_at: *asked_at,
        connection: connection.map(|connection| connection.0),
        state: match *state {
            State::Waiting { until } => StoredState::Waiting { until },
            State::Holding(Holding { fence, granted_at, expires_at, claim }) => {
                let claim = match claim {
                    Claim::Answered => StoredClaim::Answered,
                    Claim::Open => StoredClaim::Open,
                    Claim::Made => StoredClaim::Made,
                };
                StoredState::Holding { fence: fence.value(), granted_at, expires_at, claim }
            }
            State::Ended { fence, reason, until, closed_until } => {
                let reason = match reason {
                    Lost::Expired => StoredLost::Expired,
                    Lost::Released => StoredLost::Released,
                    Lost::Revoked => StoredLost::Revoked,
                    Lost::Stolen => StoredLost::Stolen,
                    Lost::Unknown => StoredLost::Unknown,
                };
                StoredState::Ended { fence: fence.value(), reason, until, closed_until }
            }
        },
    }
}

fn restore(place: Place, stored: Stored) -> Result<Entry, Expected> {
    Ok(Entry {
        place,
        terms: Terms {
            token: Token::new(&stored.token)?,
            request_id: RequestId::new(&stored.request_id)?,
            mode: match stored.mode {
                StoredMode::Exclusive => Mode::Exclusive,
                StoredMode::Shared(limit) => Mode::Shared(limit.map(|limit| Limit::new(limit as f64)).transpose()?),
            },
            ttl: Ttl::new(stored.ttl as f64)?,
            max_hold: stored.max_hold.map(|max_hold| MaxHold::new(max_hold as f64)).transpose()?,
            lock_delay: LockDelay::new(stored.lock_delay as f64)?,
            client_id: stored.client_id.map(|client_id| ClientId::new(&client_id)).transpose()?,
            info: stored.info.map(|info| Info::new(restore_json(info))).transpose()?,
        },
        asked_at: stored.asked_at,
        connection: stored.connection.map(Connection),
        state: match stored.state {
            StoredState::Waiting { until } => State::Waiting { until },
            StoredState::Holding { fence, granted_at, expires_at, claim } => State::Holding(Holding {
                fence: Fence::new(fence as f64)?,
                granted_at,
                expires_at,
                claim: match claim {
                    StoredClaim::Answered => Claim::Answered,
                    StoredClaim::Open => Claim::Open,
                    StoredClaim::Made => Claim::Made,
                },
            }),
            StoredState::Ended { fence, reason, until, closed_until } => State::Ended {
                fence: Fence::new(fence as f64)?,
                reason: match reason {
                    StoredLost::Expired => Lost::Expired,
                    StoredLost::Released => Lost::Released,
                    StoredLost::Revoked => Lost::Revoked,
                    StoredLost::Stolen => Lost::Stolen,
                    StoredLost::Unknown => Lost::Unknown,
                },
                until,
                closed_until,
            },
        },
        is_stored: true,
    })
}

fn store_json(json: &Json) -> StoredJson {
    match json {
        Json::Null => StoredJson::Null,
        Json::Bool(value) => StoredJson::Bool(*value),
        Json::Number(number) => StoredJson::Number(*number),
        Json::Text(text) => StoredJson::Text(text.clone()),
        Json::List(items) => StoredJson::List(items.iter().map(store_json).collect()),
        Json::Object(members) => {
            StoredJson::Object(members.iter().map(|(name, value)| (name.clone(), store_json(value))).collect())
        }
    }
}

fn restore_json(stored: StoredJson) -> Json {
    match stored {
        StoredJson::Null => Json::Null,
        StoredJson::Bool(value) => Json::Bool(value),
        StoredJson::Number(number) => Json::Number(number),
        StoredJson::Text(text) => Json::Text(text),
        StoredJson::List(items) => Json::List(items.into_iter().map(restore_json).collect()),
        StoredJson::Object(members) => {
            Json::Object(members.into_iter().map(|(name, value)| (name, restore_json(value))).collect())
        }
    }
}
