//! An entry of a lock as versioned bytes: what a row of the lease store holds. And a whole lock as versioned bytes, for
//! a host that keeps one record a lock: its entries in that very form, and what else a decision needs.
//!
//! The stored form is a type of its own, so that the core's types can change without it. A new form gets a new version
//! byte, and the old ones stay readable: old and new code run side by side for minutes after a deploy.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error as _, SeqAccess, VariantAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::command::{Lost, Terms};
use crate::json::{self, Json};
use crate::ledger::Fault;
use crate::lock::{Claim, Entry, Holding, Place, State};
use crate::types::{
    ClientId, Connection, Expected, Fence, Info, Limit, LockDelay, MaxHold, Mode, Ms, RequestId, Token, Ttl,
};

const VERSION: u8 = 1;

/// A record without `info` is about as long.
const USUAL_BYTES: usize = 128;

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    token: &'a str,
    request_id: &'a str,
    mode: StoredMode,
    ttl: u64,
    max_hold: Option<u64>,
    lock_delay: u64,
    client_id: Option<&'a str>,
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

#[derive(Serialize)]
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
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.push(VERSION);
    postcard::to_extend(&store(entry), bytes).unwrap_or_default()
}

/// # Errors
/// [`Fault`] where the bytes are of a newer version, damaged, or say what no entry can be.
pub fn read(place: Place, bytes: &[u8]) -> Result<Entry, Fault> {
    match bytes.split_first() {
        Some((&VERSION, body)) => {
            let (stored, rest) = postcard::take_from_bytes::<Stored<'_>>(body).map_err(|_| damaged())?;
            if rest.is_empty() { restore(place, stored).map_err(|_| damaged()) } else { Err(damaged()) }
        }
        Some((version, _)) => {
            Err(Fault(format!("a stored record has version {version}, which this code does not know")))
        }
        None => Err(damaged()),
    }
}

/// One lock, with all that the next decision about it needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Whole {
    /// The lock's clock when this was written.
    pub clock: Ms,
    /// No fence of this lock is larger.
    pub fence: u64,
    pub entries: Vec<Entry>,
    /// Asks and leases that are over, the oldest first.
    pub remembered: Vec<Remembered>,
}

/// An ask or a lease that its owner ended, known until `until` so that its late messages are.
#[derive(Debug, Clone, PartialEq)]
pub struct Remembered {
    pub token: Token,
    pub request_id: RequestId,
    pub fence: Option<Fence>,
    pub reason: Lost,
    pub until: Ms,
}

impl Remembered {
    pub fn is_of(&self, token: &Token, request_id: &RequestId) -> bool {
        self.request_id == *request_id && self.token == *token
    }
}

/// Why a whole lock could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// This version, of the lock or of an entry, is newer than what this code knows.
    Newer(u8),
    Damaged,
}

const WHOLE_VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
struct StoredWhole<'a> {
    clock: Ms,
    fence: u64,
    #[serde(borrow)]
    entries: Vec<(Place, &'a [u8])>,
    remembered: Vec<StoredRemembered>,
}

#[derive(Serialize, Deserialize)]
struct StoredRemembered {
    token: String,
    request_id: String,
    fence: Option<u64>,
    reason: StoredLost,
    until: Ms,
}

/// The bytes of a whole lock.
pub fn write_whole(whole: &Whole) -> Vec<u8> {
    let Whole { clock, fence, entries, remembered } = whole;
    let rows: Vec<_> = entries.iter().map(|entry| (entry.place, write(entry))).collect();
    let stored = StoredWhole {
        clock: *clock,
        fence: *fence,
        entries: rows.iter().map(|(place, row)| (*place, row.as_slice())).collect(),
        remembered: remembered
            .iter()
            .map(|gone| StoredRemembered {
                token: gone.token.as_str().into(),
                request_id: gone.request_id.as_str().into(),
                fence: gone.fence.map(Fence::value),
                reason: store_lost(gone.reason),
                until: gone.until,
            })
            .collect(),
    };
    postcard::to_extend(&stored, vec![WHOLE_VERSION]).unwrap_or_default()
}

/// # Errors
/// [`Unreadable`] where the bytes are of a newer version, damaged, or say what no lock can be.
pub fn read_whole(bytes: &[u8]) -> Result<Whole, Unreadable> {
    let (version, body) = bytes.split_first().ok_or(Unreadable::Damaged)?;
    if *version > WHOLE_VERSION {
        return Err(Unreadable::Newer(*version));
    }
    let stored = match (*version, postcard::take_from_bytes::<StoredWhole<'_>>(body)) {
        (WHOLE_VERSION, Ok((stored, []))) => stored,
        _ => return Err(Unreadable::Damaged),
    };
    let entry = |(place, row): (Place, &[u8])| match row.first() {
        Some(version) if *version > VERSION => Err(Unreadable::Newer(*version)),
        Some(_) | None => read(place, row).map_err(|_| Unreadable::Damaged),
    };
    let gone = |gone: StoredRemembered| -> Result<_, Expected> {
        Ok(Remembered {
            token: Token::new(&gone.token)?,
            request_id: RequestId::new(&gone.request_id)?,
            fence: gone.fence.map(|fence| Fence::new(fence as f64)).transpose()?,
            reason: restore_lost(gone.reason),
            until: gone.until,
        })
    };
    let remembered: Result<_, _> = stored.remembered.into_iter().map(gone).collect();
    Ok(Whole {
        clock: stored.clock,
        fence: stored.fence,
        entries: stored.entries.into_iter().map(entry).collect::<Result<_, _>>()?,
        remembered: remembered.map_err(|_| Unreadable::Damaged)?,
    })
}

fn damaged() -> Fault {
    Fault("a stored record cannot be read".into())
}

fn store(entry: &Entry) -> Stored<'_> {
    let Entry { place: _, terms, asked_at, connection, former: _, state, is_stored: _ } = entry;
    Stored {
        token: terms.token.as_str(),
        request_id: terms.request_id.as_str(),
        mode: match terms.mode {
            Mode::Exclusive => StoredMode::Exclusive,
            Mode::Shared(limit) => StoredMode::Shared(limit.map(Limit::value)),
        },
        ttl: terms.ttl.value(),
        max_hold: terms.max_hold.map(MaxHold::value),
        lock_delay: terms.lock_delay.value(),
        client_id: terms.client_id.as_ref().map(ClientId::as_str),
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
                StoredState::Ended { fence: fence.value(), reason: store_lost(reason), until, closed_until }
            }
        },
    }
}

fn restore(place: Place, stored: Stored<'_>) -> Result<Entry, Expected> {
    Ok(Entry {
        place,
        terms: Terms {
            token: Token::new(stored.token)?,
            request_id: RequestId::new(stored.request_id)?,
            mode: match stored.mode {
                StoredMode::Exclusive => Mode::Exclusive,
                StoredMode::Shared(limit) => Mode::Shared(limit.map(|limit| Limit::new(limit as f64)).transpose()?),
            },
            ttl: Ttl::new(stored.ttl as f64)?,
            max_hold: stored.max_hold.map(|max_hold| MaxHold::new(max_hold as f64)).transpose()?,
            lock_delay: LockDelay::new(stored.lock_delay as f64)?,
            client_id: stored.client_id.map(ClientId::new).transpose()?,
            info: stored.info.map(|info| Info::new(restore_json(info))).transpose()?,
        },
        asked_at: stored.asked_at,
        connection: stored.connection.map(Connection),
        former: None,
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
            StoredState::Ended { fence, reason, until, closed_until } => {
                State::Ended { fence: Fence::new(fence as f64)?, reason: restore_lost(reason), until, closed_until }
            }
        },
        is_stored: true,
    })
}

fn store_lost(reason: Lost) -> StoredLost {
    match reason {
        Lost::Expired => StoredLost::Expired,
        Lost::Released => StoredLost::Released,
        Lost::Revoked => StoredLost::Revoked,
        Lost::Stolen => StoredLost::Stolen,
        Lost::Unknown => StoredLost::Unknown,
    }
}

fn restore_lost(stored: StoredLost) -> Lost {
    match stored {
        StoredLost::Expired => Lost::Expired,
        StoredLost::Released => Lost::Released,
        StoredLost::Revoked => Lost::Revoked,
        StoredLost::Stolen => Lost::Stolen,
        StoredLost::Unknown => Lost::Unknown,
    }
}

fn store_json(json: &Json) -> StoredJson {
    match json {
        Json::Null => StoredJson::Null,
        Json::Bool(value) => StoredJson::Bool(*value),
        Json::Number(number) => StoredJson::Number(*number),
        Json::Text(text) => StoredJson::Text(text.clone()),
        Json::List(items) => StoredJson::List(items.iter().map(store_json).collect()),
        Json::Object(members) => {
            StoredJson::Object(members.iter().map(|(name, value)| (name.as_ref().into(), store_json(value))).collect())
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
        StoredJson::Object(members) => Json::Object(
            members.into_iter().map(|(name, value)| (String::from(name).into(), restore_json(value))).collect(),
        ),
    }
}

impl<'de> Deserialize<'de> for StoredJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AtDepth(0).deserialize(deserializer)
    }
}

/// Reads a value that lies this deep in others. A derived reader would follow damaged bytes as deep as they go, and
/// overflow the stack.
#[derive(Clone, Copy)]
struct AtDepth(usize);

/// Reads the items of a list, or the members of an object.
struct Items(AtDepth);
struct Members(AtDepth);
struct Member(AtDepth);

impl<'de> DeserializeSeed<'de> for AtDepth {
    type Value = StoredJson;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<StoredJson, D::Error> {
        if self.0 > json::MAX_DEPTH {
            return Err(D::Error::custom("nested too deeply"));
        }
        deserializer.deserialize_enum("StoredJson", &["Null", "Bool", "Number", "Text", "List", "Object"], self)
    }
}

impl<'de> Visitor<'de> for AtDepth {
    type Value = StoredJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stored JSON value")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<StoredJson, A::Error> {
        let inner = AtDepth(self.0 + 1);
        let (variant, content) = data.variant::<u32>()?;
        match variant {
            0 => content.unit_variant().map(|()| StoredJson::Null),
            1 => content.newtype_variant().map(StoredJson::Bool),
            2 => content.newtype_variant().map(StoredJson::Number),
            3 => content.newtype_variant().map(StoredJson::Text),
            4 => content.newtype_variant_seed(Items(inner)).map(StoredJson::List),
            5 => content.newtype_variant_seed(Members(inner)).map(StoredJson::Object),
            _ => Err(A::Error::custom("no such JSON value")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Items {
    type Value = Vec<StoredJson>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<StoredJson>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stored JSON values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.0)? {
            items.push(item);
        }
        Ok(items)
    }
}

impl<'de> DeserializeSeed<'de> for Members {
    type Value = Vec<(Box<str>, StoredJson)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Box<str>, StoredJson)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("members of a stored JSON object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = seq.next_element_seed(Member(self.0))? {
            members.push(member);
        }
        Ok(members)
    }
}

impl<'de> DeserializeSeed<'de> for Member {
    type Value = (Box<str>, StoredJson);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for Member {
    type Value = (Box<str>, StoredJson);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member of a stored JSON object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let missing = || A::Error::custom("half a member");
        let name = seq.next_element()?.ok_or_else(missing)?;
        Ok((name, seq.next_element_seed(self.0)?.ok_or_else(missing)?))
    }
}
