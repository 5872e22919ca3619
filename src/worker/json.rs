//! Between [`Json`] and its text, strictly after RFC 8259.
//!
//! Numbers that are no integers go through JavaScript, which reads and writes them exactly: tables for that would be a
//! quarter of the whole Worker. They occur in nothing but `info`. Natively, where the tests and the fuzzer run this very
//! reader, Rust's own do the same.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::command::{Push, Refusal, Reply};
use crate::json::Json;
use crate::types::{Expected, MAX_SAFE_INTEGER};
use crate::wire;

/// Reads a text that is one JSON value.
///
/// # Errors
/// A refusal of the outermost member that cannot be read, or of `whole` where it is not about a member.
pub fn read(text: &str, whole: &str) -> Result<Json, Refusal> {
    let mut text = Text { text, at: 0 };
    let json = Json::read(&mut text).map_err(|(member, Malformed)| {
        wire::invalid(
            member.as_deref().unwrap_or(whole),
            Expected("well-formed JSON, with no member twice and nothing nested deeper than 32"),
        )
    })?;
    match text.peek() {
        None => Ok(json),
        Some(_) => Err(wire::invalid(whole, Expected("one JSON value and nothing after it"))),
    }
}

/// The `id` of a message that could not be read, as far as a look can tell; `Null` where it has none.
pub fn salvaged_id(text: &str) -> Json {
    let value = text.split_once("\"id\"").and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
    let mut value = Text { text: value.unwrap_or_default(), at: 0 };
    let id = match value.peek() {
        Some(b'"') => value.string().map(|id| Json::Text(id.as_ref().into())),
        _ => value.number().map(Json::Number),
    };
    id.unwrap_or(Json::Null)
}

/// The shortest text of a value.
pub fn text(json: &Json) -> String {
    let mut text = String::with_capacity(256);
    write(json, &mut text);
    text
}

/// Appends the shortest text of a value: no line break and no tab is in it.
pub fn write(json: &Json, text: &mut String) {
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(true) => text.push_str("true"),
        Json::Bool(false) => text.push_str("false"),
        Json::Number(number) => write_number(*number, text),
        Json::Text(string) => write_string(string, text),
        Json::List(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                separate(at, text);
                write(item, text);
            }
            text.push(']');
        }
        Json::Object(members) => {
            text.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                separate(at, text);
                write_string(name, text);
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
    }
}

fn separate(at: usize, text: &mut String) {
    if at > 0 {
        text.push(',');
    }
}

fn write_number(number: f64, text: &mut String) {
    let integer = number as i64;
    if integer as f64 == number && integer.unsigned_abs() <= MAX_SAFE_INTEGER {
        write_integer(integer, text);
    } else {
        text.push_str(&float::write(number));
    }
}

/// An object that is written as it comes.
pub struct Members(String);

impl Default for Members {
    fn default() -> Self {
        let mut text = String::with_capacity(256);
        text.push('{');
        Self(text)
    }
}

impl Members {
    /// With its first member.
    pub fn new(name: &str, value: &str) -> Self {
        Self::default().text(name, value)
    }

    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.add_text(name, value);
        self
    }

    pub fn number(mut self, name: &str, value: u64) -> Self {
        self.add_integer(name, value);
        self
    }

    /// The text, or null.
    pub fn maybe(mut self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => {
                self.name(name);
                self.0.push_str("null");
                self
            }
        }
    }

    pub fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn add_text(&mut self, name: &str, value: &str) {
        self.name(name);
        write_string(value, &mut self.0);
    }

    fn add_integer(&mut self, name: &str, value: u64) {
        self.name(name);
        write_integer(value as i64, &mut self.0);
    }

    fn name(&mut self, name: &str) {
        self.separate(b'{');
        write_string(name, &mut self.0);
        self.0.push(':');
    }

    /// Puts a comma after whatever is before, unless that is what opened the object or the list.
    fn separate(&mut self, opened_with: u8) {
        if self.0.as_bytes().last() != Some(&opened_with) {
            self.0.push(',');
        }
    }
}

impl wire::Members for Members {
    fn text(&mut self, name: &'static str, value: &str) {
        self.add_text(name, value);
    }

    fn integer(&mut self, name: &'static str, value: u64) {
        self.add_integer(name, value);
    }

    fn json(&mut self, name: &'static str, value: &Json) {
        self.name(name);
        write(value, &mut self.0);
    }

    fn object(&mut self, name: &'static str, write: impl FnOnce(&mut Self)) {
        self.name(name);
        self.0.push('{');
        write(self);
        self.0.push('}');
    }

    fn objects<T>(&mut self, name: &'static str, items: &[T], write: impl Fn(&T, &mut Self)) {
        self.name(name);
        self.0.push('[');
        for item in items {
            self.separate(b'[');
            self.0.push('{');
            write(item, self);
            self.0.push('}');
        }
        self.0.push(']');
    }
}

/// A reply as a message carries it: with what its sender calls the command, if it does.
pub fn reply(id: Option<&Json>, reply: &Reply, space: &str) -> String {
    let mut members = Members::default();
    if let Some(id) = id {
        wire::Members::json(&mut members, "id", id);
    }
    wire::write_reply(reply, space, &mut members);
    members.end()
}

/// A push as a message of its own.
pub fn push(push: &Push, space: &str) -> String {
    let mut members = Members::default();
    wire::write_push(push, space, &mut members);
    members.end()
}

/// Two digits each.
const PAIRS: &str = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/// Appends it in decimal digits, without what formats everything else.
pub fn write_integer(integer: i64, text: &mut String) {
    if integer < 0 {
        text.push('-');
    }
    let mut rest = integer.unsigned_abs();
    let pairs = rest.checked_ilog10().unwrap_or_default() / 2;
    let mut power = 100_u64.pow(pairs);
    let mut is_first = true;
    while power > 0 {
        let pair = (rest / power) as usize;
        // The first may be one digit.
        let start = 2 * pair + usize::from(std::mem::take(&mut is_first) && pair < 10);
        text.push_str(PAIRS.get(start..2 * pair + 2).unwrap_or_default());
        rest %= power;
        power /= 100;
    }
}

pub fn write_string(string: &str, text: &mut String) {
    text.push('"');
    let mut plain = string;
    while let Some(at) = plain.bytes().position(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        let (before, rest) = plain.split_at(at);
        text.push_str(before);
        let mut rest = rest.chars();
        match rest.next() {
            None => {}
            Some('"') => text.push_str("\\\""),
            Some('\\') => text.push_str("\\\\"),
            Some('\n') => text.push_str("\\n"),
            Some('\r') => text.push_str("\\r"),
            Some('\t') => text.push_str("\\t"),
            Some('\u{8}') => text.push_str("\\b"),
            Some('\u{c}') => text.push_str("\\f"),
            Some(control) => text.push_str(&format!("\\u{:04x}", u32::from(control))),
        }
        plain = rest.as_str();
    }
    text.push_str(plain);
    text.push('"');
}

/// A text that is being read.
struct Text<'a> {
    text: &'a str,
    at: usize,
}

/// The text is not JSON, or not such as is accepted. Which member it is about, [`Json::read`] knows.
#[derive(Debug)]
struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not JSON")
    }
}

impl std::error::Error for Malformed {}

impl de::Error for Malformed {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Malformed
    }
}

impl<'a> Text<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.byte()
    }

    /// Goes past `byte`, and past white space before it.
    fn pass(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    fn pass_word(&mut self, word: &str) -> Result<(), Malformed> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if rest.starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    /// Whether one more item of a list or object follows; goes past the comma before it.
    fn has_next(&mut self, is_first: &mut bool, end: u8) -> Result<bool, Malformed> {
        if self.peek() == Some(end) {
            self.at += 1;
            return Ok(false);
        }
        if !std::mem::take(is_first) {
            self.pass(b',')?;
        }
        Ok(true)
    }

    /// Goes past digits; false where there are none.
    fn pass_digits(&mut self) -> bool {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> Result<f64, Malformed> {
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        let first = self.byte();
        let digits = self.at;
        if !self.pass_digits() || (first == Some(b'0') && self.at > digits + 1) {
            return Err(Malformed);
        }
        let mut is_integer = true;
        if self.byte() == Some(b'.') {
            is_integer = false;
            self.at += 1;
            if !self.pass_digits() {
                return Err(Malformed);
            }
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            is_integer = false;
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            if !self.pass_digits() {
                return Err(Malformed);
            }
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let number = match text.parse::<i64>() {
            Ok(integer) if is_integer && integer.unsigned_abs() <= MAX_SAFE_INTEGER => integer as f64,
            _ => float::read(text),
        };
        if number.is_finite() { Ok(number) } else { Err(Malformed) }
    }

    /// Borrowed where nothing in it is escaped, as nearly always.
    fn string(&mut self) -> Result<Cow<'a, str>, Malformed> {
        self.pass(b'"')?;
        let mut string = Cow::Borrowed("");
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let end = rest.bytes().position(|byte| byte < b' ' || byte == b'"' || byte == b'\\').ok_or(Malformed)?;
            string += rest.get(..end).unwrap_or_default();
            self.at += end;
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => {
                    self.at += 1;
                    string.to_mut().push(self.escaped()?);
                }
                _ => return Err(Malformed),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Malformed> {
        let byte = self.byte().ok_or(Malformed)?;
        self.at += 1;
        Ok(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.unit()?;
                // Half of a pair is no character, and so no text (rule 13).
                match unit {
                    0xd800..=0xdbff => {
                        self.pass_word("\\u")?;
                        let low = self.unit()?.checked_sub(0xdc00).filter(|low| *low < 0x400).ok_or(Malformed)?;
                        char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + low).ok_or(Malformed)?
                    }
                    _ => char::from_u32(unit).ok_or(Malformed)?,
                }
            }
            _ => return Err(Malformed),
        })
    }

    fn unit(&mut self) -> Result<u32, Malformed> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(Malformed)?;
        self.at += 4;
        digits.chars().try_fold(0, |unit, digit| Some(unit * 16 + digit.to_digit(16)?)).ok_or(Malformed)
    }
}

impl<'de> Deserializer<'de> for &mut Text<'_> {
    type Error = Malformed;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        match self.peek().ok_or(Malformed)? {
            b'{' => {
                self.at += 1;
                visitor.visit_map(Items { text: self, is_first: true })
            }
            b'[' => {
                self.at += 1;
                visitor.visit_seq(Items { text: self, is_first: true })
            }
            b'"' => visitor.visit_str(&self.string()?),
            b't' => self.pass_word("true").and_then(|()| visitor.visit_bool(true)),
            b'f' => self.pass_word("false").and_then(|()| visitor.visit_bool(false)),
            b'n' => self.pass_word("null").and_then(|()| visitor.visit_unit()),
            _ => visitor.visit_f64(self.number()?),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The inside of a list or an object.
struct Items<'t, 'a> {
    text: &'t mut Text<'a>,
    is_first: bool,
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = Malformed;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Malformed> {
        if self.text.has_next(&mut self.is_first, b']')? {
            seed.deserialize(&mut *self.text).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<'de> MapAccess<'de> for Items<'_, '_> {
    type Error = Malformed;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Malformed> {
        if !self.text.has_next(&mut self.is_first, b'}')? {
            return Ok(None);
        }
        match self.text.peek() {
            Some(b'"') => seed.deserialize(&mut *self.text).map(Some),
            _ => Err(Malformed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Malformed> {
        self.text.pass(b':')?;
        seed.deserialize(&mut *self.text)
    }
}

#[cfg(all(feature = "worker", target_arch = "wasm32"))]
mod float {
    use js_sys::{Number, parse_float};

    pub fn read(text: &str) -> f64 {
        parse_float(text)
    }

    pub fn write(number: f64) -> String {
        Number::from(number).to_string_with_radix(10).map(String::from).unwrap_or_default()
    }
}

#[cfg(not(all(feature = "worker", target_arch = "wasm32")))]
mod float {
    pub fn read(text: &str) -> f64 {
        text.parse().unwrap_or(f64::NAN)
    }

    pub fn write(number: f64) -> String {
        number.to_string()
    }
}
