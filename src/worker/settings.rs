//! What an operator sets: keys, origins, bounds. Read strictly, once; a mistake is told without what was set.

use crate::json::Json;
use crate::ledger::Limits;
use crate::types::Name;
use crate::worker::access::{Right, Rights};
use crate::worker::json;

/// Settings that are right.
pub struct Settings {
    pub keys: Vec<Key>,
    /// Whether everybody is let in as long as there is no key.
    pub is_open: bool,
    pub origins: Vec<String>,
    pub bounds: Bounds,
}

/// How much is taken from one client and kept in one space.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub limits: Limits,
    /// Commands of one socket in one turn.
    pub commands: usize,
}

impl Bounds {
    pub const DEFAULT: Self = Self { limits: limits(200_000, 10_000), commands: 4_096 };
}

/// Beside one for each lock, there is room for so many more who hold, wait or are remembered. Each takes some 300 bytes of
/// the object's 128 MB.
const BESIDE: usize = 100_000;

const fn limits(locks: usize, waiters: usize) -> Limits {
    Limits { locks, entries: locks + BESIDE, waiters }
}

/// Somebody who is let in.
pub struct Key {
    pub id: String,
    /// SHA-256 of the key.
    pub digest: [u8; 32],
    spaces: Vec<Pattern>,
    rights: Rights,
}

impl Key {
    /// What it may do in the space of that name.
    pub fn rights_in(&self, space: &str) -> Rights {
        if self.spaces.iter().any(|pattern| pattern.matches(space)) { self.rights } else { Rights::NONE }
    }
}

enum Pattern {
    Name(String),
    /// Every name that starts with it.
    Prefix(String),
}

impl Pattern {
    fn matches(&self, space: &str) -> bool {
        match self {
            Pattern::Name(name) => space == name,
            Pattern::Prefix(prefix) => space.starts_with(prefix.as_str()),
        }
    }
}

/// The text of each variable; empty where it is not set.
pub struct Texts<'a> {
    pub keys: &'a str,
    pub open: &'a str,
    pub origins: &'a str,
    pub locks_per_space: &'a str,
    pub waiters_per_lock: &'a str,
    pub commands_per_socket: &'a str,
}

impl Settings {
    /// # Errors
    /// What is wrong, for the log: the variable, which part of it, and what it must be; nothing of what was set.
    pub fn read(texts: &Texts<'_>) -> Result<Self, String> {
        let Bounds { limits: Limits { locks, waiters, .. }, commands } = Bounds::DEFAULT;
        let locks = bound("LEASEHOLD_LOCKS_PER_SPACE", texts.locks_per_space, locks, 10_000_000)?;
        let waiters = bound("LEASEHOLD_WAITERS_PER_LOCK", texts.waiters_per_lock, waiters, 10_000)?;
        let commands = bound("LEASEHOLD_COMMANDS_PER_SOCKET", texts.commands_per_socket, commands, 65_536)?;
        Ok(Self {
            keys: keys(texts.keys).map_err(|wrong| format!("LEASEHOLD_KEYS: {wrong}"))?,
            is_open: texts.open == "true",
            origins: origins(texts.origins)?,
            bounds: Bounds { limits: limits(locks, waiters), commands },
        })
    }
}

fn bound(name: &str, text: &str, default: usize, max: usize) -> Result<usize, String> {
    if text.is_empty() {
        return Ok(default);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| digits && (1..=max).contains(number));
    number.ok_or_else(|| format!("{name} must be an integer from 1 to {max}"))
}

/// Exact origins, separated by commas.
fn origins(text: &str) -> Result<Vec<String>, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let origin = |(at, item): (usize, &str)| {
        let host = item.strip_prefix("https://").or_else(|| item.strip_prefix("http://")).unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_:[]".contains(&byte);
        if !host.is_empty() && host.bytes().all(is_plain) {
            Ok(item.to_owned())
        } else {
            let number = at + 1;
            Err(format!("LEASEHOLD_ORIGINS: number {number} must be an origin such as https://app.example.com"))
        }
    };
    items.enumerate().map(origin).collect()
}

fn keys(text: &str) -> Result<Vec<Key>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let list = json::read(text, "").map_err(|_| "it must be well-formed JSON, with no member twice")?;
    let Json::List(items) = list else { return Err("it must be a list".into()) };
    let mut keys: Vec<Key> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let key = key(item).map_err(|wrong| format!("entry {}: {wrong}", at + 1))?;
        if keys.iter().any(|other| other.id == key.id || other.digest == key.digest) {
            return Err(format!("entry {}: another has the same id or sha256", at + 1));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn key(json: &Json) -> Result<Key, &'static str> {
    const MEMBERS: &str = "it must be an object with id, sha256, spaces and allow, and nothing else";
    let Json::Object(members) = json else { return Err(MEMBERS) };
    let (Some(id), Some(sha256), Some(spaces), Some(allow)) =
        (json.member("id"), json.member("sha256"), json.member("spaces"), json.member("allow"))
    else {
        return Err(MEMBERS);
    };
    if members.len() != 4 {
        return Err(MEMBERS);
    }
    Ok(Key { id: id_of(id)?, digest: digest_of(sha256)?, spaces: spaces_of(spaces)?, rights: rights_of(allow)? })
}

fn id_of(json: &Json) -> Result<String, &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match json {
        Json::Text(id) if (1..=64).contains(&id.len()) && id.bytes().all(is_plain) => Ok(id.to_string()),
        _ => Err("id must be 1 to 64 letters, digits, dots, underscores and hyphens"),
    }
}

fn digest_of(json: &Json) -> Result<[u8; 32], &'static str> {
    let Json::Text(text) = json else { return Err(DIGEST) };
    digest(text).ok_or(DIGEST)
}

const DIGEST: &str = "sha256 must be 64 hexadecimal digits";

/// Reads 64 hexadecimal digits.
pub fn digest(text: &str) -> Option<[u8; 32]> {
    let mut digits = text.chars().map(|digit| digit.to_digit(16));
    let mut digest = [0; 32];
    for byte in &mut digest {
        *byte = u8::try_from(digits.next()?? * 16 + digits.next()??).ok()?;
    }
    digits.next().is_none().then_some(digest)
}

fn spaces_of(json: &Json) -> Result<Vec<Pattern>, &'static str> {
    const SPACES: &str = "spaces must be a list of names of spaces, each of which may end with a *";
    let pattern = |json: &Json| {
        let Json::Text(text) = json else { return Err(SPACES) };
        match text.strip_suffix('*') {
            Some(prefix) if !prefix.contains('*') && prefix.len() <= Name::MAX_BYTES => {
                Ok(Pattern::Prefix(prefix.to_owned()))
            }
            None if !text.contains('*') && Name::new(text).is_ok() => Ok(Pattern::Name(text.to_string())),
            _ => Err(SPACES),
        }
    };
    match json {
        Json::List(items) if !items.is_empty() => items.iter().map(pattern).collect(),
        _ => Err(SPACES),
    }
}

fn rights_of(json: &Json) -> Result<Rights, &'static str> {
    const ALLOW: &str = "allow must be a list of read, lock and admin, each at most once";
    let Json::List(items) = json else { return Err(ALLOW) };
    let mut rights = Rights::NONE;
    for item in items {
        let named = |right: &Right| matches!(item, Json::Text(name) if **name == *right.name());
        let right = Right::ALL.into_iter().find(named).ok_or(ALLOW)?;
        if rights.include(right) {
            return Err(ALLOW);
        }
        rights = rights.with(right);
    }
    if rights == Rights::NONE { Err(ALLOW) } else { Ok(rights) }
}
