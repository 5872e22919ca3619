//! Who is let in over HTTP and over sockets, and what for. Fails closed.
//!
//! A right is what `allow` of a key says, and nothing more: none implies another. Whoever came through the Durable
//! Object's binding is the account's own code, and trusted.

use std::hint::black_box;

use wasm_bindgen::prelude::wasm_bindgen;

use crate::command::{Acquire, Command, Entrance, Refusal, Request};
use crate::worker::settings::{Bounds, Key, Settings, Texts, digest};

/// What a key may allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Inspect, list, watch, metrics.
    Read,
    /// Acquire, renew, release, cancel.
    Lock,
    /// Revoke and the audit trail; and, beside `Lock`, to steal.
    Admin,
}

impl Right {
    pub const ALL: [Right; 3] = [Right::Read, Right::Lock, Right::Admin];

    pub fn name(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Lock => "lock",
            Right::Admin => "admin",
        }
    }

    fn letter(self) -> char {
        match self {
            Right::Read => 'r',
            Right::Lock => 'l',
            Right::Admin => 'a',
        }
    }

    fn bit(self) -> u8 {
        match self {
            Right::Read => 1,
            Right::Lock => 2,
            Right::Admin => 4,
        }
    }
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    pub const NONE: Self = Self(0);
    const ALL: Self = Self(7);

    pub fn include(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    #[must_use]
    pub fn with(self, right: Right) -> Self {
        Self(self.0 | right.bit())
    }
}

/// On whose behalf something is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// The account's own code.
    Own,
    /// Somebody with a key; with none, and all rights, where everybody is let in.
    Outside { key: Option<String>, rights: Rights },
}

impl Caller {
    /// Reads what [`text`](Self::text) wrote. Whatever else it is has no right.
    pub fn read(text: &str) -> Self {
        if text == "*" {
            return Caller::Own;
        }
        let (letters, key) = text.split_once(':').unwrap_or_default();
        let rights = Right::ALL.into_iter().filter(|right| letters.contains(right.letter()));
        let key = (!key.is_empty()).then(|| key.to_owned());
        Caller::Outside { key, rights: rights.fold(Rights::NONE, Rights::with) }
    }

    /// As JavaScript carries it: the letters of the rights, a colon, the key's id; `*` for the account's own code.
    pub fn text(&self) -> String {
        match self {
            Caller::Own => "*".into(),
            Caller::Outside { key, rights } => {
                let letters: String =
                    Right::ALL.into_iter().filter(|right| rights.include(*right)).map(Right::letter).collect();
                format!("{letters}:{}", key.as_deref().unwrap_or_default())
            }
        }
    }

    /// Whether it may do what takes that right.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`] with the right.
    pub fn needs(&self, right: Right) -> Result<(), Refusal> {
        match self {
            Caller::Own => Ok(()),
            Caller::Outside { rights, .. } if rights.include(right) => Ok(()),
            Caller::Outside { .. } => Err(Refusal::Forbidden { right: right.name() }),
        }
    }

    /// Whether it may ask that.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`] with the first right that is missing.
    pub fn permit(&self, request: &Request) -> Result<(), Refusal> {
        match request {
            Request::List(_) | Request::Watch(_) | Request::Unwatch(_) => self.needs(Right::Read),
            Request::Lock { command, .. } => match command {
                Command::Inspect => self.needs(Right::Read),
                Command::Renew(_) | Command::Release(_) | Command::Cancel(_) => self.needs(Right::Lock),
                Command::Acquire(Acquire { entry: Entrance::Queue, .. }) => self.needs(Right::Lock),
                Command::Acquire(Acquire { entry: Entrance::Steal, .. }) => {
                    self.needs(Right::Lock).and_then(|()| self.needs(Right::Admin))
                }
                Command::Revoke(_) => self.needs(Right::Admin),
            },
        }
    }
}

/// The settings of a Worker, and who they let in.
#[wasm_bindgen]
pub struct Gate {
    settings: Result<Settings, String>,
}

#[wasm_bindgen]
impl Gate {
    /// The texts of `LEASEHOLD_KEYS`, `_OPEN`, `_ORIGINS`, `_LOCKS_PER_SPACE`, `_WAITERS_PER_LOCK` and
    /// `_COMMANDS_PER_SOCKET`; empty where one is not set.
    #[wasm_bindgen(constructor)]
    pub fn new(keys: &str, open: &str, origins: &str, locks: &str, waiters: &str, commands: &str) -> Self {
        let texts = Texts {
            keys,
            open,
            origins,
            locks_per_space: locks,
            waiters_per_lock: waiters,
            commands_per_socket: commands,
        };
        Self { settings: Settings::read(&texts) }
    }

    /// What is wrong with the settings, for the log.
    pub fn complaint(&self) -> Option<String> {
        self.settings.as_ref().err().cloned()
    }

    /// Whether any origin is on the list, so that answers depend on who asks.
    pub fn has_origins(&self) -> bool {
        self.settings.as_ref().is_ok_and(|settings| !settings.origins.is_empty())
    }

    /// Whether pages of that origin may ask.
    pub fn allows_origin(&self, origin: &str) -> bool {
        self.settings.as_ref().is_ok_and(|settings| settings.origins.iter().any(|allowed| allowed == origin))
    }

    /// What a socket's sender may do now that was let in as `pass` says ([`Admitted::pass`]); empty where it has no right in
    /// that space any more.
    pub fn again(&self, pass: &str, space: &str) -> String {
        let Ok(settings) = &self.settings else { return String::new() };
        let caller = match pass.split_once(' ') {
            None => settings.everybody(),
            Some((id, sha256)) => {
                let is_it = |key: &&Key| key.id == id && digest(sha256).is_some_and(|sha256| key.digest == sha256);
                settings.keys.iter().find(is_it).map(|key| Settings::caller(key, space))
            }
        };
        caller.filter(Caller::has_any_right).map(|caller| caller.text()).unwrap_or_default()
    }
}

impl Gate {
    /// Who asks, with a key of that SHA-256; an empty one is no key.
    ///
    /// # Errors
    /// [`Refusal::Misconfigured`], [`Refusal::NotConfigured`] or [`Refusal::Unauthorized`].
    pub fn admit(&self, sha256: &[u8]) -> Result<Admitted<'_>, Refusal> {
        let settings = self.settings.as_ref().map_err(|_| Refusal::Misconfigured)?;
        if settings.keys.is_empty() {
            return settings.everybody().map(|_| Admitted(None)).ok_or(Refusal::NotConfigured);
        }
        // Every key is compared, and all of it. What is compared is a digest, so that nobody can steer how much of it
        // matches; and how long it takes depends on nothing but the number of keys.
        let mut found = None;
        for key in &settings.keys {
            if is_same(&key.digest, sha256) {
                found = Some(key);
            }
        }
        found.map(|key| Admitted(Some(key))).ok_or(Refusal::Unauthorized)
    }

    pub fn bounds(&self) -> Bounds {
        self.settings.as_ref().map_or(Bounds::DEFAULT, |settings| settings.bounds)
    }
}

impl Settings {
    /// Whoever asks, where there are no keys and none are wanted.
    fn everybody(&self) -> Option<Caller> {
        (self.is_open && self.keys.is_empty()).then_some(Caller::Outside { key: None, rights: Rights::ALL })
    }

    fn caller(key: &Key, space: &str) -> Caller {
        Caller::Outside { key: Some(key.id.clone()), rights: key.rights_in(space) }
    }
}

impl Caller {
    pub fn has_any_right(&self) -> bool {
        Right::ALL.into_iter().any(|right| self.needs(right).is_ok())
    }

    pub fn key(&self) -> Option<&str> {
        match self {
            Caller::Own => None,
            Caller::Outside { key, .. } => key.as_deref(),
        }
    }
}

/// Somebody who was let in: with a key, or as everybody.
pub struct Admitted<'a>(Option<&'a Key>);

impl Admitted<'_> {
    /// What it may do in that space.
    pub fn caller(&self, space: &str) -> Caller {
        match self.0 {
            Some(key) => Settings::caller(key, space),
            None => Caller::Outside { key: None, rights: Rights::ALL },
        }
    }

    /// What a socket keeps, so that its key can be looked up once more: id, space, SHA-256; empty without a key.
    pub fn pass(&self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        self.0.map(|key| format!("{} {}", key.id, hex(&key.digest))).unwrap_or_default()
    }
}

/// Whether two digests are the same, in a time that depends on their length alone.
fn is_same(digest: &[u8; 32], other: &[u8]) -> bool {
    let differing = digest.iter().zip(other).fold(0, |bits, (one, other)| black_box(bits | (one ^ other)));
    other.len() == digest.len() && differing == 0
}
