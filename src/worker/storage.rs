//! The storage port over the SQLite database of a Durable Object.
//!
//! A row written is what costs money and time, so there is no index beside the primary key, and a turn is three
//! statements, however many rows it has: the bytes of many travel as one blob, or a few where they are long, and a JSON
//! text says where each is. Only a turn of several statements is a transaction of its own: one statement is all or
//! nothing by itself.

use js_sys::{Array, JsString, Object, Reflect, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use worker::worker_sys::types::{DurableObjectState, SqlStorageCursor};

use crate::ledger::{Change, Fault, Reserved, Start, Storage};
use crate::lock::{Entry, Place};
use crate::record;
use crate::types::Name;
use crate::worker::audit::{KEPT, Page};
use crate::worker::json;

/// SQLite compares TEXT as bytes of UTF-8, and so do the core's names.
const SCHEMA: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS entry (
        lock TEXT NOT NULL, place INTEGER NOT NULL, at INTEGER NOT NULL, record BLOB NOT NULL,
        PRIMARY KEY (lock, place)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS space (
        id INTEGER PRIMARY KEY CHECK (id = 1), fence INTEGER NOT NULL, at INTEGER NOT NULL)",
];

const START: &str = "SELECT coalesce((SELECT fence FROM space), 0) AS fence,
    max(coalesce((SELECT at FROM space), 0), coalesce((SELECT max(at) FROM entry), 0)) AS clock";

const PROBE: &str = "SELECT fence AS value FROM space";

const LOAD: &str = "SELECT lock, place, record FROM entry WHERE lock = ?1 ORDER BY place";

/// To the end of the lock that the last row of the page is of.
const LOAD_AFTER: &str = "SELECT lock, place, record FROM entry
    WHERE lock > ?1 AND lock <= (SELECT max(lock) FROM (SELECT lock FROM entry WHERE lock > ?1 ORDER BY lock LIMIT ?2))
    ORDER BY lock, place";

/// From name to name without the rows between them: a lock may have many.
const NAMES: &str = "WITH RECURSIVE name (value) AS (
        SELECT min(lock) FROM entry WHERE lock > ?1 AND lock >= ?2
        UNION ALL SELECT (SELECT min(lock) FROM entry WHERE lock > value) FROM name WHERE value IS NOT NULL
        LIMIT ?4)
    SELECT group_concat(hex(value)) AS value FROM name WHERE value < ?3";

const DELETE: &str = "DELETE FROM entry WHERE lock = ?1 AND place = ?2";

const PUT: &str = "INSERT OR REPLACE INTO entry (lock, place, record, at) VALUES (?1, ?2, ?3, ?4)";

/// Names travel in the blob too: SQLite ends a JSON string at U+0000, which a name may have in it.
const DELETE_MANY: &str = "DELETE FROM entry WHERE (lock, place) IN (
    SELECT CAST(substr(?2, value ->> 1, value ->> 2) AS TEXT), value ->> 0 FROM json_each(?1))";

const PUT_MANY: &str = "INSERT OR REPLACE INTO entry (lock, place, record, at)
    SELECT CAST(substr(?2, value ->> 1, value ->> 2) AS TEXT), value ->> 0, substr(?2, value ->> 3, value ->> 4), ?3
    FROM json_each(?1)";

const RESERVE: &str = "INSERT OR REPLACE INTO space (id, fence, at) VALUES (1, ?1, ?2)";

/// Made when it is first needed: most spaces never have an act to keep.
const TRAIL: &str = "CREATE TABLE IF NOT EXISTS audit (id INTEGER PRIMARY KEY, record TEXT NOT NULL)";

const KEEP: &str = "INSERT INTO audit (record) VALUES (?1)";

const FORGET: &str = "DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ?1";

const PAGE: &str = "SELECT id, record FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2";

/// A statement takes values of two megabytes at most. So many rows are never as long as a part.
const PART_BYTES: usize = 512 * 1024;
const ROWS_OF_ONE_PART: usize = 128;

/// What a statement with one column calls it.
const VALUE: &str = "value";

/// Above every name: no UTF-8 has this byte pattern's successor.
const AFTER_ALL: &str = "\u{10ffff}\u{10ffff}";

#[wasm_bindgen]
extern "C" {
    /// `ctx.storage` of the object. Declared with the arguments of each statement: an array of them would be a crossing
    /// for each more.
    type Database;

    #[wasm_bindgen(method, catch, js_name = transactionSync)]
    fn transaction(this: &Database, work: &mut dyn FnMut() -> Result<(), JsValue>) -> Result<(), JsValue>;

    #[wasm_bindgen(method, getter)]
    fn sql(this: &Database) -> Statements;

    /// Integers cross as floats.
    type Statements;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn run(this: &Statements, statement: &JsString) -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn load(this: &Statements, statement: &JsString, lock: &str) -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn load_after(this: &Statements, statement: &JsString, after: &str, rows: f64)
    -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn names(
        this: &Statements,
        statement: &JsString,
        after: &str,
        prefix: &str,
        end: &str,
        count: f64,
    ) -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn keep(this: &Statements, statement: &JsString, record: &str) -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn forget(this: &Statements, statement: &JsString, kept: f64) -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn page(this: &Statements, statement: &JsString, before: f64, size: f64) -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn delete(this: &Statements, statement: &JsString, lock: &str, place: f64) -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn delete_many(
        this: &Statements,
        statement: &JsString,
        rows: &str,
        bytes: &[u8],
    ) -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn put(
        this: &Statements,
        statement: &JsString,
        lock: &str,
        place: f64,
        record: &[u8],
        at: f64,
    ) -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn put_many(
        this: &Statements,
        statement: &JsString,
        rows: &str,
        bytes: &[u8],
        at: f64,
    ) -> Result<SqlStorageCursor, JsValue>;

    #[wasm_bindgen(method, catch, js_name = exec)]
    fn reserve(this: &Statements, statement: &JsString, fence: f64, at: f64) -> Result<SqlStorageCursor, JsValue>;
}

/// The database of one Durable Object.
pub struct Sql {
    database: Database,
    statements: Statements,
    texts: Texts,
}

/// The statements of every turn as JavaScript's strings, made once: the runtime finds what it has prepared by the string,
/// and one that it has seen it knows at once.
struct Texts {
    probe: JsString,
    put: JsString,
    put_many: JsString,
    delete: JsString,
    delete_many: JsString,
}

impl Sql {
    pub fn new(state: &DurableObjectState) -> Result<Self, Fault> {
        let database = database(state)?;
        let texts = Texts {
            probe: PROBE.into(),
            put: PUT.into(),
            put_many: PUT_MANY.into(),
            delete: DELETE.into(),
            delete_many: DELETE_MANY.into(),
        };
        Ok(Self { statements: database.sql(), database, texts })
    }
}

impl Storage for Sql {
    fn start(&mut self) -> Result<Start, Fault> {
        for statement in SCHEMA {
            self.statements.run(&statement.into()).map_err(fault)?;
        }
        let row = first(self.statements.run(&START.into()))?;
        let number = |name| value(&row, name).map(|value| value.as_f64().unwrap_or_default() as u64);
        Ok(Start { fence: number("fence")?, clock: number("clock")? })
    }

    fn load(&mut self, lock: &Name) -> Result<Vec<Entry>, Fault> {
        Ok(entries(self.statements.load(&LOAD.into(), lock.as_str()))?.into_iter().map(|(_, entry)| entry).collect())
    }

    fn load_after(&mut self, after: Option<&Name>, rows: usize) -> Result<Vec<(Name, Vec<Entry>)>, Fault> {
        let after = after.map_or("", Name::as_str);
        let mut locks: Vec<(Name, Vec<Entry>)> = Vec::new();
        for (lock, entry) in entries(self.statements.load_after(&LOAD_AFTER.into(), after, rows as f64))? {
            match locks.last_mut() {
                Some((last, entries)) if last.as_str() == lock => entries.push(entry),
                _ => locks.push((Name::new(&lock).map_err(|_| damaged())?, vec![entry])),
            }
        }
        Ok(locks)
    }

    fn names(&mut self, prefix: &str, after: Option<&Name>, count: usize) -> Result<Option<Vec<Name>>, Fault> {
        let after = after.map_or("", Name::as_str);
        let text = text(self.statements.names(&NAMES.into(), after, prefix, &end_of(prefix), count as f64))?;
        let name = |hex| Name::new(&String::from_utf8(bytes(hex)?).ok()?).ok();
        items(&text).map(|hex| name(hex).ok_or_else(damaged)).collect::<Result<_, _>>().map(Some)
    }

    fn probe(&mut self) -> Result<(), Fault> {
        first(self.statements.run(&self.texts.probe)).map(|_| ())
    }

    fn write(&mut self, changes: &[Change<'_>], reserved: Option<Reserved>) -> Result<(), Fault> {
        let (gone, put): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.entry.is_none());
        let statements = [gone.is_empty(), put.is_empty(), reserved.is_none()].iter().filter(|none| !**none).count();
        let mut write = || self.write_all(&gone, &put, reserved);
        if statements > 1 || changes.len() > ROWS_OF_ONE_PART { self.database.transaction(&mut write) } else { write() }
            .map_err(fault)
    }
}

impl Sql {
    fn write_all(&self, gone: &[&Change<'_>], put: &[&Change<'_>], reserved: Option<Reserved>) -> Result<(), JsValue> {
        if let Some(Reserved { fence, at }) = reserved {
            self.statements.reserve(&RESERVE.into(), fence as f64, at as f64)?;
        }
        match gone {
            [] => {}
            [Change { lock, place, .. }] => {
                self.statements.delete(&self.texts.delete, lock.as_str(), *place as f64)?;
            }
            many => {
                for rows in Rows::new(many, |_| Vec::new()) {
                    self.statements.delete_many(&self.texts.delete_many, &rows.text, &rows.bytes)?;
                }
            }
        }
        let record = |change: &Change<'_>| change.entry.map(record::write).unwrap_or_default();
        match put {
            [] => {}
            [change] => {
                let place = change.place as f64;
                self.statements.put(&self.texts.put, change.lock.as_str(), place, &record(change), change.at as f64)?;
            }
            [first, ..] => {
                for rows in Rows::new(put, record) {
                    self.statements.put_many(&self.texts.put_many, &rows.text, &rows.bytes, first.at as f64)?;
                }
            }
        }
        Ok(())
    }
}

/// The administrative acts that are kept beside the leases. What is written in a turn is one commit with the rest of it.
pub struct Trail(Statements);

impl Trail {
    pub fn new(state: &DurableObjectState) -> Result<Self, Fault> {
        Ok(Self(database(state)?.sql()))
    }

    /// Keeps one more, as JSON.
    pub fn keep(&self, record: &str) -> Result<(), Fault> {
        self.0.run(&TRAIL.into()).map_err(fault)?;
        self.0.keep(&KEEP.into(), record).map_err(fault)?;
        self.0.forget(&FORGET.into(), f64::from(KEPT)).map_err(fault).map(|_| ())
    }

    /// A page, as the JSON that it is answered with.
    pub fn page(&self, page: &Page) -> Result<String, Fault> {
        self.0.run(&TRAIL.into()).map_err(fault)?;
        let cursor = self.0.page(&PAGE.into(), page.before as f64, f64::from(page.size)).map_err(fault)?;
        let rows = cursor.to_array();
        let mut text = String::from("{\"acts\":[");
        let mut last = 0;
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&value(&row, "record")?.as_string().unwrap_or_default());
            last = value(&row, "id")?.as_f64().unwrap_or_default() as i64;
        }
        text.push(']');
        if rows.length() == page.size {
            text.push_str(",\"cursor\":\"");
            json::write_integer(last, &mut text);
            text.push('"');
        }
        text.push('}');
        Ok(text)
    }
}

/// The first row of an outcome; undefined where there is none. `to_array` is the one way to read a cursor that does not
/// throw through Rust.
fn first(cursor: Result<SqlStorageCursor, JsValue>) -> Result<JsValue, Fault> {
    let rows: Array = cursor.map_err(fault)?.to_array();
    Ok(rows.get(0))
}

fn value(row: &JsValue, name: &str) -> Result<JsValue, Fault> {
    Reflect::get(row, &name.into()).map_err(fault)
}

/// The text of a statement that has one; empty where it is null.
fn text(cursor: Result<SqlStorageCursor, JsValue>) -> Result<String, Fault> {
    value(&first(cursor)?, VALUE).map(|value| value.as_string().unwrap_or_default())
}

/// The entries of rows `{ lock, place, record }`, each with the name of its lock.
fn entries(cursor: Result<SqlStorageCursor, JsValue>) -> Result<Vec<(String, Entry)>, Fault> {
    let [lock, place, record] = ["lock", "place", "record"].map(JsValue::from);
    let column = |row: &JsValue, name: &JsValue| Reflect::get(row, name).map_err(fault);
    let rows = cursor.map_err(fault)?.to_array();
    let entry = |row: JsValue| {
        let lock = column(&row, &lock)?.as_string().ok_or_else(damaged)?;
        let place = column(&row, &place)?.as_f64().ok_or_else(damaged)?;
        let record = Uint8Array::new(&column(&row, &record)?).to_vec();
        Ok((lock, record::read(place as Place, &record)?))
    };
    rows.iter().map(entry).collect()
}

/// Rows for one statement: `[[place,start,length,start,length],..]`, where in the bytes each name and record are.
#[derive(Default)]
struct Rows {
    text: String,
    bytes: Vec<u8>,
}

impl Rows {
    /// In several parts where they are long.
    fn new(changes: &[&Change<'_>], record: impl Fn(&Change<'_>) -> Vec<u8>) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut rows = Self::default();
        for change in changes {
            rows.text.push(if rows.text.is_empty() { '[' } else { ',' });
            rows.text.push('[');
            json::write_integer(change.place as i64, &mut rows.text);
            rows.add(change.lock.as_str().as_bytes());
            rows.add(&record(change));
            rows.text.push(']');
            if rows.bytes.len() > PART_BYTES {
                parts.push(std::mem::take(&mut rows));
            }
        }
        if !rows.text.is_empty() {
            parts.push(rows);
        }
        for rows in &mut parts {
            rows.text.push(']');
        }
        parts
    }

    fn add(&mut self, part: &[u8]) {
        // SQL counts bytes from 1.
        for number in [self.bytes.len() + 1, part.len()] {
            self.text.push(',');
            json::write_integer(number as i64, &mut self.text);
        }
        self.bytes.extend_from_slice(part);
    }
}

/// What a `group_concat` is made of; nothing where it had no row.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|item| !item.is_empty())
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    hex.as_bytes().chunks(2).map(byte).collect()
}

/// The first text above all that start with `prefix`: its last character that has a successor, raised.
fn end_of(prefix: &str) -> String {
    let mut rest: Vec<char> = prefix.chars().collect();
    while let Some(last) = rest.pop() {
        // The integers between are surrogates, which are no characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            rest.push(next);
            return rest.into_iter().collect();
        }
    }
    AFTER_ALL.into()
}

fn fault(error: JsValue) -> Fault {
    Fault(String::from(Object::from(error).to_string()))
}

fn database(state: &DurableObjectState) -> Result<Database, Fault> {
    state.storage().map(JsCast::unchecked_into).map_err(fault)
}

fn damaged() -> Fault {
    Fault("the storage answered what no lease store writes".into())
}
