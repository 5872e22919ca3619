//! Runs the scenarios in tests/traces: what each says is answered, and nothing else is.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use leasehold::command::Refusal;
use leasehold::json::Json;
use leasehold::ledger::{InMemory, Ledger, Storage};
use leasehold::service::{self, Service};
use leasehold::wire::{self, Op};
use serde_json::Value;
use support::rows::Rows;
use support::trace::{Before, Call, Step, Trace};

/// Where the store's clock stands when a trace says `@0`.
const START_MS: u64 = 1_700_000_000_000;

#[test]
fn every_trace_holds_in_memory() {
    run_all(|trace| {
        let needs = trace.needs();
        (!needs.contains(&"restart") && !needs.contains(&"fault")).then(|| Run::new(InMemory))
    });
}

#[test]
fn every_trace_holds_over_stored_rows() {
    run_all(|_| Some(Run::new(Rows::default())));
}

/// Where no trace says otherwise, memory and stored rows give the same answers to the last member.
#[test]
fn memory_and_stored_rows_answer_alike() {
    for trace in traces() {
        let needs = trace.needs();
        if needs.contains(&"restart") || needs.contains(&"fault") {
            continue;
        }
        let (mut memory, mut rows) = (Run::new(InMemory), Run::new(Rows::default()));
        for step in &trace.steps {
            assert_eq!(memory.turn(step), rows.turn(step), "{}, at @{} ms", trace.name, step.at_ms);
        }
    }
}

/// `LEASEHOLD_BLESS=1 cargo test --test traces` writes the file anew.
#[test]
fn vectors_json_is_what_the_traces_say() {
    let vectors: Vec<Value> = traces().iter().map(Trace::to_json).collect();
    let text = format!("[\n{}\n]\n", vectors.iter().map(Value::to_string).collect::<Vec<_>>().join(",\n"));
    let path = folder().join("vectors.json");
    if std::env::var_os("LEASEHOLD_BLESS").is_some() {
        fs::write(&path, &text).expect("vectors.json can be written");
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == text,
        "tests/traces/vectors.json is out of date: LEASEHOLD_BLESS=1 cargo test --test traces"
    );
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/traces")
}

fn traces() -> Vec<Trace> {
    let mut paths: Vec<_> =
        fs::read_dir(folder()).expect("the folder is there").map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "trace"));
    paths.sort();
    assert!(!paths.is_empty());
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy();
        Trace::parse(&name, &fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{error}"))
    };
    paths.iter().map(read).collect()
}

/// Runs them all and tells of every one that fails, not of the first alone.
fn run_all<S: Restartable>(new: impl Fn(&Trace) -> Option<Run<S>>) {
    let mut failures = Vec::new();
    let mut count = 0;
    for trace in traces() {
        let Some(mut run) = new(&trace) else { continue };
        count += 1;
        for step in &trace.steps {
            if let Err(error) = run.check(step) {
                failures.push(format!("{}\n{}\n    {error}", trace.name, indented(step)));
                break;
            }
        }
    }
    assert!(count > 0);
    assert!(failures.is_empty(), "{} of {count} traces fail\n\n{}\n", failures.len(), failures.join("\n\n"));
}

fn indented(step: &Step) -> String {
    step.lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// A storage that a new ledger can be started over.
trait Restartable: Storage + Sized {
    fn again(&self) -> Self;
    fn breaks(&self, _is_broken: bool) {}
}

impl Restartable for Rows {
    fn again(&self) -> Self {
        self.clone()
    }

    fn breaks(&self, is_broken: bool) {
        if is_broken { self.break_down() } else { self.mend() }
    }
}

/// Memory has nothing to start again from: traces that restart do not run on it.
impl Restartable for InMemory {
    fn again(&self) -> Self {
        Self
    }
}

/// A store that a trace is played to.
struct Run<S> {
    storage: S,
    service: Service<S>,
    /// Calls that are not answered yet, the oldest first.
    open: Vec<Call>,
    fences: Fences,
}

impl<S: Restartable> Run<S> {
    fn new(storage: S) -> Self {
        let service = start(storage.again());
        Self { storage, service, open: Vec::new(), fences: Fences::default() }
    }

    /// Plays a step: every answer by call, as the wire carries it.
    fn turn(&mut self, step: &Step) -> BTreeMap<u64, Value> {
        if step.before == Some(Before::Restart) {
            self.service = start(self.storage.again());
            self.open.clear();
        }
        self.storage.breaks(step.before == Some(Before::Fault));
        let call = |call: &Call| service::Call { ticket: call.id, via: None, request: self.fences.request(call) };
        let calls = step.calls.iter().map(call).collect();
        self.open.extend(step.calls.iter().cloned());
        let answers = match self.service.turn(calls, &[], START_MS + step.at_ms) {
            Ok(turn) => turn.answers,
            Err(_) => {
                self.service = start(self.storage.again());
                let unavailable = || leasehold::command::Reply::Refused(Refusal::Unavailable);
                self.open.iter().map(|call| (call.id, unavailable())).collect()
            }
        };
        self.storage.breaks(false);
        let mut replies = BTreeMap::new();
        for (call, reply) in answers {
            let (status, reply) = wire::reply(&reply, "a space");
            assert!((200..600).contains(&status));
            let reply = serde_json::to_value(&reply).expect("a reply is JSON");
            assert!(replies.insert(call, reply).is_none(), "call {call} is answered twice");
            assert!(self.open.iter().any(|open| open.id == call), "call {call} is not open");
            self.open.retain(|open| open.id != call);
        }
        replies
    }

    fn check(&mut self, step: &Step) -> Result<(), String> {
        let mut answers = self.turn(step);
        for expected in &step.expect {
            let who = &expected.who;
            let answer = answers.remove(&expected.call).ok_or(format!("{who} was not answered"))?;
            self.fences
                .matches(&expected.reply, &answer)
                .map_err(|error| format!("{who}: {error}\n    expected {}\n    answered {answer}", expected.reply))?;
        }
        for queued in &step.queued {
            if let Some(answer) = answers.remove(&queued.call) {
                return Err(format!("was to wait, and was answered {answer}"));
            }
            let position = self.position(queued.call, step.at_ms)?;
            if position != queued.position {
                return Err(format!("waits at position {position}"));
            }
        }
        if answers.is_empty() { Ok(()) } else { Err(format!("more was answered: {answers:?}")) }
    }

    /// Where a call that is not answered stands in its queue: as an inspection shows it.
    fn position(&mut self, call: u64, at_ms: u64) -> Result<u64, String> {
        let call = self.open.iter().find(|open| open.id == call).ok_or("is not open")?.clone();
        let inspect = Call { id: 0, op: "inspect".into(), fields: serde_json::json!({}), ..call.clone() };
        let step = Step { at_ms, calls: vec![inspect], ..Step::default() };
        let answers = self.turn(&step);
        let waiters = answers[&0]["waiters"].as_array().cloned().unwrap_or_default();
        let at = waiters.iter().position(|waiter| waiter["clientId"] == call.who.as_str());
        at.map(|at| at as u64 + 1).ok_or(format!("is not in the queue: {waiters:?}"))
    }
}

fn start<S: Storage>(storage: S) -> Service<S> {
    Service::new(Ledger::start(storage, 0).expect("the storage can be read"))
}

/// The fences of a trace count its grants; the store's have gaps.
#[derive(Default)]
struct Fences(BTreeMap<u64, u64>);

impl Fences {
    fn request(&self, call: &Call) -> Result<leasehold::command::Request, Refusal> {
        let mut fields = call.fields.clone();
        if let Some(actual) = fields["fence"].as_u64().and_then(|fence| self.0.get(&fence)) {
            fields["fence"] = (*actual).into();
        }
        if fields["fence"].is_null() && call.fields.get("fence").is_none() {
            fields.as_object_mut().unwrap().remove("fence");
        }
        let op = Op::from_name(&call.op).expect("a known op");
        wire::request(op, &to_json(&call.lock), to_json(&fields))
    }

    /// Every member that is expected is there and equal; a list has as many items.
    fn matches(&mut self, expected: &Value, actual: &Value) -> Result<(), String> {
        match (expected, actual) {
            (Value::Object(expected), Value::Object(actual)) => {
                for (name, expected) in expected {
                    let actual = actual.get(name).unwrap_or(&Value::Null);
                    match name.as_str() {
                        "fence" => self.is_same(expected.as_u64(), actual.as_u64())?,
                        "expiresAt" => {
                            let actual = actual.as_u64().map(|at| at - START_MS);
                            if actual != expected.as_u64() {
                                return Err(format!("expires at {actual:?} ms"));
                            }
                        }
                        _ => self.matches(expected, actual).map_err(|error| format!("{name}: {error}"))?,
                    }
                }
                Ok(())
            }
            (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
                expected.iter().zip(actual).try_for_each(|(expected, actual)| self.matches(expected, actual))
            }
            _ if expected == actual => Ok(()),
            _ => Err(format!("is {actual}, not {expected}")),
        }
    }

    /// A fence seen for the first time lies between those of the grants before and after it.
    fn is_same(&mut self, count: Option<u64>, actual: Option<u64>) -> Result<(), String> {
        let (Some(count), Some(actual)) = (count, actual) else { return Err("a fence is missing".into()) };
        let below = self.0.range(..count).next_back().is_none_or(|(_, fence)| *fence < actual);
        let above = self.0.range(count + 1..).next().is_none_or(|(_, fence)| *fence > actual);
        if *self.0.entry(count).or_insert(actual) == actual && below && above {
            Ok(())
        } else {
            Err(format!("fence {actual} is not that of grant {count}: {:?}", self.0))
        }
    }
}

fn to_json(value: &Value) -> Json {
    Json::read(value.clone()).expect("a trace's JSON can be read")
}
