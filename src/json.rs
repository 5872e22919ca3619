//! JSON as data: what commands, replies and `info` are made of, whoever carries them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// A JSON value. Members keep their order, and no two of one object have the same name.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(Box<str>),
    List(Vec<Json>),
    Object(Vec<(Key, Json)>),
}

/// The name of a member: those of replies are known beforehand.
pub type Key = Cow<'static, str>;

/// Deeper nesting is refused.
pub(crate) const MAX_DEPTH: usize = 32;

/// More members in one object are refused: the look for doubled ones is quadratic.
const MAX_MEMBERS: usize = 256;

/// JSON's floats are as long as this at most; a number that is no integer counts as that.
const FLOAT_BYTES: usize = 24;

impl Json {
    /// Reads any self-describing format; doubled members are refused.
    ///
    /// # Errors
    /// The name of the outermost member that could not be read, where there is one, beside the format's own error.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, (Option<String>, D::Error)> {
        let member = RefCell::new(None);
        Seed { depth: 0, member: &member }.deserialize(deserializer).map_err(|error| (member.take(), error))
    }

    /// The member of that name, where it is an object that has one.
    pub fn member(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(other, _)| **other == *name).map(|(_, value)| value),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_) => None,
        }
    }

    /// Whether JSON text can say it: NaN and the infinities are numbers in memory alone.
    pub fn is_finite(&self) -> bool {
        match self {
            Json::Null | Json::Bool(_) | Json::Text(_) => true,
            Json::Number(number) => number.is_finite(),
            Json::List(items) => items.iter().all(Json::is_finite),
            Json::Object(members) => members.iter().all(|(_, value)| value.is_finite()),
        }
    }

    /// The bytes of its shortest JSON text. A number that is no integer counts as 24.
    pub fn byte_len(&self) -> usize {
        let commas = |count: usize| count.saturating_sub(1);
        match self {
            Json::Null | Json::Bool(true) => 4,
            Json::Bool(false) => 5,
            Json::Number(number) => match integer(*number) {
                Some(integer) => decimal_len(integer.unsigned_abs()) + usize::from(integer < 0),
                None => FLOAT_BYTES,
            },
            Json::Text(text) => text_len(text),
            Json::List(items) => 2 + commas(items.len()) + items.iter().map(Json::byte_len).sum::<usize>(),
            Json::Object(members) => {
                2 + commas(members.len())
                    + members.iter().map(|(name, value)| text_len(name) + 1 + value.byte_len()).sum::<usize>()
            }
        }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(number) => match integer(*number) {
                Some(integer) => serializer.serialize_i64(integer),
                None => serializer.serialize_f64(*number),
            },
            Json::Text(text) => serializer.serialize_str(text),
            Json::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Json::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

/// The integer that a number is, where it is one that JavaScript holds exactly.
fn integer(number: f64) -> Option<i64> {
    let integer = number as i64;
    (integer as f64 == number && integer.unsigned_abs() <= crate::types::MAX_SAFE_INTEGER).then_some(integer)
}

fn decimal_len(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn text_len(text: &str) -> usize {
    2 + text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
            0..=0x1f => 6,
            _ => 1,
        })
        .sum::<usize>()
}

/// Reads one value and notes, at the top, which member was being read when it failed.
#[derive(Clone, Copy)]
struct Seed<'a> {
    depth: usize,
    member: &'a RefCell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        if self.depth > MAX_DEPTH {
            return Err(D::Error::custom("nested too deeply"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_none<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        let inner = Seed { depth: self.depth + 1, ..self };
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut members: Vec<(Key, Json)> = Vec::new();
        let inner = Seed { depth: self.depth + 1, ..self };
        while let Some(name) = map.next_key::<String>()? {
            let note = |error| {
                if self.depth == 0 {
                    *self.member.borrow_mut() = Some(name.clone());
                }
                error
            };
            if members.len() == MAX_MEMBERS {
                return Err(note(A::Error::custom("too many members")));
            }
            if members.iter().any(|(other, _)| **other == *name) {
                return Err(note(A::Error::custom("a member occurs twice")));
            }
            let value = map.next_value_seed(inner).map_err(note)?;
            members.push((name.into(), value));
        }
        Ok(Json::Object(members))
    }
}
