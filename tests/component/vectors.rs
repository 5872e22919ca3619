//! Plays tests/traces/vectors.json to a kernel, native or in a component: a host in memory, with a clock turned by hand,
//! that holds the lines of those who wait.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Where the host's clock stands when a vector says 0.
const START_MS: u64 = 1_700_000_000_000;

/// A kernel as hosts of the wire see it.
pub trait Kernel {
    fn decide(&mut self, prior: Option<&[u8]>, call: &Call, now_at: u64, last_fence: u64) -> Decided;

    /// Prefix, cursor and page size; or the refusal.
    fn read_list(&mut self, fields: &str) -> Result<(String, Option<String>, u64), Value>;
}

/// Something asked of one lock.
pub struct Call<'a> {
    pub op: &'a str,
    pub lock: &'a str,
    pub fields: &'a str,
}

/// What a kernel decided.
#[derive(Debug, PartialEq)]
pub struct Decided {
    pub status: u16,
    pub reply: Value,
    pub change: Change,
    pub last_fence: u64,
    /// Token, requestId and what that waiter is told.
    pub waiters: Vec<(String, String, Value)>,
    pub wake_at: Option<u64>,
    pub clean_at: Option<u64>,
}

#[derive(Debug, PartialEq)]
pub enum Change {
    Unchanged,
    Store(Vec<u8>),
    Delete,
}

/// Plays every vector, each to a new space.
///
/// # Panics
/// With all that differs.
pub fn play(kernel: &mut dyn Kernel) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/traces/vectors.json"));
    let text =
        path.filter_map(|path| fs::read_to_string(path).ok()).next().expect("tests/traces/vectors.json is there");
    let vectors: Vec<Value> = serde_json::from_str(&text).expect("the vectors are JSON");
    assert!(vectors.len() > 50);
    let differences: Vec<_> = vectors.iter().filter_map(|vector| difference(kernel, vector)).collect();
    assert!(
        differences.is_empty(),
        "{} of {} differ\n\n{}\n",
        differences.len(),
        vectors.len(),
        differences.join("\n")
    );
}

fn difference(kernel: &mut dyn Kernel, vector: &Value) -> Option<String> {
    let mut host = Host { kernel, space: Space::default(), open: Vec::new(), reading: Reading::default() };
    for step in items(&vector["steps"]) {
        if let Err(error) = host.check(step) {
            return Some(format!("{}, at {} ms: {error}\n", vector["name"], step["atMs"]));
        }
    }
    None
}

/// What a host keeps: a record a lock, the last fence, and its own clock.
#[derive(Default, Clone)]
struct Space {
    records: BTreeMap<String, Record>,
    last_fence: u64,
    ahead: u64,
    latest: u64,
}

#[derive(Clone, PartialEq)]
struct Record {
    bytes: Vec<u8>,
    due_at: Option<u64>,
}

/// A call whose line is held.
struct Open {
    call: Value,
    lock: String,
    ask: Value,
    deadline: u64,
}

struct Host<'a> {
    kernel: &'a mut dyn Kernel,
    space: Space,
    open: Vec<Open>,
    reading: Reading,
}

impl Host<'_> {
    fn check(&mut self, step: &Value) -> Result<(), String> {
        let mut answers = self.turn(step)?;
        for expected in items(&step["expect"]) {
            let answer = answers.remove(&expected["call"].to_string()).ok_or(format!("no answer: {expected}"))?;
            self.reading
                .matches(&expected["reply"], &answer)
                .map_err(|error| format!("{error}\n    expected {}\n    answered {answer}", expected["reply"]))?;
        }
        for queued in items(&step["queued"]) {
            let position = self.position(&queued["call"]);
            if position != queued["position"].as_u64() {
                return Err(format!("stands at {position:?}: {queued}"));
            }
        }
        if answers.is_empty() { Ok(()) } else { Err(format!("more was answered: {answers:?}")) }
    }

    /// The calls of a step, what is due by itself, and the lines that have been held long enough: answers by call.
    fn turn(&mut self, step: &Value) -> Result<BTreeMap<String, Value>, String> {
        let mut answers = BTreeMap::new();
        if step["restart"] == true {
            self.open.clear();
            self.reading.restarted = true;
        }
        let (before, open) =
            (self.space.clone(), self.open.iter().map(|open| open.call.to_string()).collect::<Vec<_>>());
        let now = self.now(step);
        for call in items(&step["calls"]) {
            self.call(call, now, &mut answers)?;
        }
        let due: Vec<_> =
            self.space.records.iter().filter(|(_, record)| record.due_at.is_some_and(|at| at <= now)).collect();
        for lock in due.into_iter().map(|(lock, _)| lock.clone()).collect::<Vec<_>>() {
            self.decide("tick", &lock, &json!({}), now, &mut answers)?;
        }
        while let Some(at) = self.open.iter().position(|open| open.deadline <= now) {
            let open = self.open.remove(at);
            let decided = self.decide("standing", &open.lock, &open.ask, now, &mut answers)?;
            answers.insert(open.call.to_string(), decided.reply);
        }
        if step["fault"] == true && self.space.records != before.records {
            // The commit failed: nothing happened, and whoever awaits an answer hears that nobody knows.
            self.space = before;
            self.open.clear();
            let asked = items(&step["calls"]).map(|call| call["call"].to_string());
            answers = asked.chain(open).map(|call| (call, json!({ "code": "unavailable" }))).collect();
        }
        Ok(answers)
    }

    fn call(&mut self, call: &Value, now: u64, answers: &mut BTreeMap<String, Value>) -> Result<(), String> {
        let (op, id) = (call["op"].as_str().unwrap_or_default(), call["call"].to_string());
        let lock = call["lock"].as_str().unwrap_or_default();
        let fields = self.reading.told(&call["fields"]);
        if op == "list" {
            let page = self.list(&fields, now, answers)?;
            answers.insert(id, page);
            return Ok(());
        }
        let decided = self.decide(op, lock, &fields, now, answers)?;
        if op == "acquire" && decided.status == 202 {
            let ask = json!({ "token": fields["token"], "requestId": fields["requestId"] });
            // The same ask by another line: the earlier one hears how things stand.
            if let Some(at) = self.open.iter().position(|open| open.lock == lock && open.ask == ask) {
                let earlier = self.open.remove(at);
                let standing = self.decide("standing", lock, &ask, now, answers)?;
                answers.insert(earlier.call.to_string(), standing.reply);
            }
            let deadline = now + decided.reply["retryAfterMs"].as_u64().unwrap_or(0);
            self.open.push(Open { call: call["call"].clone(), lock: lock.into(), ask, deadline });
        } else {
            answers.insert(id, decided.reply);
        }
        Ok(())
    }

    /// Load, decide, commit, tell.
    fn decide(
        &mut self,
        op: &str,
        lock: &str,
        fields: &Value,
        now: u64,
        answers: &mut BTreeMap<String, Value>,
    ) -> Result<Decided, String> {
        let prior = self.space.records.get(lock).map(|record| record.bytes.clone());
        let fields = fields.to_string();
        let call = Call { op, lock, fields: &fields };
        let decided = self.kernel.decide(prior.as_deref(), &call, now, self.space.last_fence);
        let again = self.kernel.decide(prior.as_deref(), &call, now, self.space.last_fence);
        if decided != again {
            return Err(format!("decides in two ways: {decided:?} and {again:?}"));
        }
        let due_at = decided.wake_at.or(decided.clean_at);
        match &decided.change {
            Change::Unchanged => {
                if let Some(record) = self.space.records.get_mut(lock) {
                    record.due_at = due_at;
                }
            }
            Change::Store(bytes) => {
                self.space.records.insert(lock.into(), Record { bytes: bytes.clone(), due_at });
            }
            Change::Delete => drop(self.space.records.remove(lock)),
        }
        self.space.last_fence = decided.last_fence;
        for (token, request_id, reply) in &decided.waiters {
            let ask = json!({ "token": token, "requestId": request_id });
            if let Some(at) = self.open.iter().position(|open| open.lock == lock && open.ask == ask) {
                answers.insert(self.open.remove(at).call.to_string(), reply.clone());
            }
        }
        Ok(decided)
    }

    fn list(&mut self, fields: &Value, now: u64, answers: &mut BTreeMap<String, Value>) -> Result<Value, String> {
        let (prefix, cursor, page_size) = match self.kernel.read_list(&fields.to_string()) {
            Ok(page) => page,
            Err(refusal) => return Ok(refusal),
        };
        let names = self.space.records.keys().filter(|name| name.starts_with(&prefix));
        let names = names.filter(|name| cursor.as_ref().is_none_or(|cursor| *name > cursor));
        let names: Vec<_> = names.take(page_size as usize).cloned().collect();
        let mut page = Map::new();
        let mut locks = Vec::new();
        for name in &names {
            let seen = self.decide("inspect", name, &json!({}), now, answers)?.reply;
            let queue = items(&seen["waiters"]).count();
            if queue > 0 || items(&seen["holders"]).count() > 0 {
                locks.push(json!({ "lock": name, "holders": seen["holders"], "queue": queue }));
            }
        }
        page.insert("locks".into(), locks.into());
        if names.len() as u64 == page_size {
            page.insert("cursor".into(), names.last().cloned().into());
        }
        Ok(page.into())
    }

    fn position(&mut self, call: &Value) -> Option<u64> {
        let open = self.open.iter().find(|open| open.call == *call)?;
        let (lock, ask) = (open.lock.clone(), open.ask.clone());
        let now = self.space.latest;
        self.decide("standing", &lock, &ask, now, &mut BTreeMap::new()).ok()?.reply["position"].as_u64()
    }

    /// A host's clock that is a little behind stands still, and one that is set back goes on from where it was.
    fn now(&mut self, step: &Value) -> u64 {
        let space = &mut self.space;
        let reading = START_MS + step["atMs"].as_u64().unwrap_or(0);
        if step["restart"] == true {
            space.ahead = 0;
        }
        let behind = space.latest.saturating_sub(reading + space.ahead);
        if behind > 5_000 {
            space.ahead += behind;
        }
        space.latest = space.latest.max(reading + space.ahead);
        space.latest
    }
}

/// What a vector says and a host does not: its fences count its grants; and a store that was restarted has forgotten
/// who released, while a record remembers.
#[derive(Default)]
struct Reading {
    fences: BTreeMap<u64, u64>,
    restarted: bool,
}

impl Reading {
    /// The fields, with the fence that was given for the one that is meant.
    fn told(&self, fields: &Value) -> Value {
        let mut fields = fields.clone();
        if let Some(actual) = fields["fence"].as_u64().and_then(|fence| self.fences.get(&fence)) {
            fields["fence"] = (*actual).into();
        }
        fields
    }

    /// Every member that is expected is there and equal; a list has as many items.
    fn matches(&mut self, expected: &Value, actual: &Value) -> Result<(), String> {
        match (expected, actual) {
            (Value::Object(expected), Value::Object(actual)) => expected.iter().try_for_each(|(name, expected)| {
                let actual = actual.get(name).unwrap_or(&Value::Null);
                match (name.as_str(), expected.as_u64(), actual.as_u64()) {
                    ("fence", Some(count), Some(fence)) if *self.fences.entry(count).or_insert(fence) == fence => {
                        Ok(())
                    }
                    ("expiresAt", Some(at), Some(instant)) if START_MS + at == instant => Ok(()),
                    ("reason", ..) if self.restarted && expected == "unknown" && actual == "released" => Ok(()),
                    ("fence" | "expiresAt", ..) => Err(format!("{name} is {actual}, not {expected}")),
                    _ => self.matches(expected, actual).map_err(|error| format!("{name}: {error}")),
                }
            }),
            (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
                expected.iter().zip(actual).try_for_each(|(expected, actual)| self.matches(expected, actual))
            }
            _ if expected == actual => Ok(()),
            _ => Err(format!("is {actual}, not {expected}")),
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
