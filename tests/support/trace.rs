//! Reads traces (tests/traces/README.md) into plain steps: at which instant, which calls, and what is answered.

use serde_json::{Map, Value, json};

/// A scenario.
pub struct Trace {
    pub name: String,
    pub about: String,
    pub steps: Vec<Step>,
}

/// One turn of the store.
#[derive(Default)]
pub struct Step {
    pub at_ms: u64,
    pub lines: Vec<String>,
    pub calls: Vec<Call>,
    pub before: Option<Before>,
    /// Everything that is answered in this turn.
    pub expect: Vec<Expected>,
    /// The calls of this turn that stay open, and where they stand.
    pub queued: Vec<Queued>,
}

/// What befalls the store before a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It starts again from its storage; open calls are never answered.
    Restart,
    /// Its storage fails in this turn, and it starts again.
    Fault,
}

#[derive(Clone)]
pub struct Call {
    pub id: u64,
    pub who: String,
    pub op: String,
    pub lock: Value,
    pub fields: Value,
}

/// The answer to a call: every member named here is as it says; a list has as many items.
pub struct Expected {
    pub call: u64,
    pub who: String,
    pub reply: Value,
}

pub struct Queued {
    pub call: u64,
    pub position: u64,
}

impl Trace {
    /// # Errors
    /// What is wrong, and in which line.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut reader = Reader::default();
        let mut about = Vec::new();
        for (number, line) in text.lines().enumerate() {
            match line.strip_prefix('#') {
                Some(comment) if reader.steps.is_empty() => about.push(comment.trim()),
                Some(_) => {}
                None if line.trim().is_empty() => {}
                None => reader.line(line).map_err(|error| format!("{name}, line {}: {error}\n  {line}", number + 1))?,
            }
        }
        if about.is_empty() || reader.steps.is_empty() {
            return Err(format!("{name}: a trace says what it shows, and shows it"));
        }
        Ok(Self { name: name.into(), about: about.join(" "), steps: reader.steps })
    }

    /// The trace as data, for runners that do not read the notation.
    pub fn to_json(&self) -> Value {
        let steps: Vec<Value> = self.steps.iter().map(Step::to_json).collect();
        json!({ "name": self.name, "about": self.about, "needs": self.needs(), "steps": steps })
    }

    /// What a runner must be able to do beside carrying calls.
    pub fn needs(&self) -> Vec<&'static str> {
        let any = |before| self.steps.iter().any(|step| step.before == Some(before));
        let sets_back = self.steps.windows(2).any(|pair| pair[1].at_ms < pair[0].at_ms);
        let needs = [(any(Before::Restart), "restart"), (any(Before::Fault), "fault"), (sets_back, "clock set back")];
        needs.into_iter().filter_map(|(is_needed, need)| is_needed.then_some(need)).collect()
    }
}

impl Step {
    fn to_json(&self) -> Value {
        let calls: Vec<_> = self
            .calls
            .iter()
            .map(|call| {
                json!({ "call": call.id, "who": call.who, "op": call.op, "lock": call.lock, "fields": call.fields })
            })
            .collect();
        let expect: Vec<_> = self
            .expect
            .iter()
            .map(|expected| json!({ "call": expected.call, "who": expected.who, "reply": expected.reply }))
            .collect();
        let queued: Vec<_> =
            self.queued.iter().map(|queued| json!({ "call": queued.call, "position": queued.position })).collect();
        let mut step = json!({ "atMs": self.at_ms, "calls": calls, "expect": expect });
        if !queued.is_empty() {
            step["queued"] = queued.into();
        }
        match self.before {
            Some(Before::Restart) => step["restart"] = true.into(),
            Some(Before::Fault) => step["fault"] = true.into(),
            None => {}
        }
        step
    }
}

#[derive(Default)]
struct Reader {
    steps: Vec<Step>,
    /// Calls that are not answered yet, the oldest first.
    open: Vec<Call>,
    calls: u64,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (command, outcome) = match line.split_once("->") {
            Some((command, outcome)) => (command.trim(), Some(outcome.trim())),
            None => (line.trim(), None),
        };
        let mut words = command.split_whitespace();
        let mut call = None;
        match words.next() {
            // More of what the turn before answers.
            None => {}
            Some(time) => {
                match time.strip_prefix('@') {
                    Some(time) => self.steps.push(Step { at_ms: length(time)?, ..Step::default() }),
                    None if time == "&" && !self.steps.is_empty() => {}
                    None => return Err("a line starts with @time, with & for the turn before, or with ->".into()),
                }
                call = self.command(&words.collect::<Vec<_>>())?;
            }
        }
        let step = self.steps.last_mut().ok_or("there is no turn yet")?;
        step.lines.push(line.trim_end().into());
        let Some(outcome) = outcome else {
            return if call.is_none() { Ok(()) } else { Err("a command says what it comes to".into()) };
        };
        for (at, words) in outcome.split(", ").enumerate() {
            let words: Vec<_> = words.split_whitespace().collect();
            let own = call.as_ref().filter(|_| at == 0);
            self.outcome(&words, own)?;
        }
        Ok(())
    }

    /// Adds a command to the last step; the call that it makes, where it makes one.
    fn command(&mut self, words: &[&str]) -> Result<Option<Call>, String> {
        let (&op, words) = words.split_first().ok_or("no command")?;
        let step = self.steps.last_mut().ok_or("there is no turn yet")?;
        match op {
            "tick" => return Ok(None),
            "restart" => {
                step.before = Some(Before::Restart);
                self.open.clear();
                return Ok(None);
            }
            "fault" => {
                step.before = Some(Before::Fault);
                return Ok(None);
            }
            _ => {}
        }
        let (who, words) = match op {
            "inspect" | "list" | "revoke" => ("admin", words),
            _ => match words.split_first() {
                Some((who, words)) => (*who, words),
                None => return Err("who asks?".into()),
            },
        };
        self.calls += 1;
        let call = call(self.calls, op, who, words)?;
        step.calls.push(call.clone());
        self.open.push(call.clone());
        Ok(Some(call))
    }

    /// `own`: the call of this line, where the outcome is the first of it.
    fn outcome(&mut self, words: &[&str], own: Option<&Call>) -> Result<(), String> {
        let (&status, rest) = words.split_first().ok_or("no outcome")?;
        let named = rest.first().filter(|word| status != "revoked" && status != "lost" && !word.contains('='));
        let (named, rest) = match (status, own) {
            ("lost" | "refused" | "revoked", Some(_)) => (None, rest),
            ("lost" | "refused", None) => (rest.first(), rest.get(1..).unwrap_or_default()),
            _ => (named, &rest[usize::from(named.is_some())..]),
        };
        let call = match (named, own) {
            (Some(who), _) => self.open.iter().find(|call| call.who == **who),
            (None, Some(own)) => self.open.iter().find(|call| call.id == own.id),
            (None, None) => None,
        };
        let call = call.cloned().ok_or("nobody by that name has an open call")?;
        let step = self.steps.last_mut().ok_or("there is no turn yet")?;
        if status == "waiting" && named.is_none() {
            let options = Options(rest);
            let position = options.number("position")?.ok_or("at which position?")?;
            step.queued.push(Queued { call: call.id, position });
            return Ok(());
        }
        let reply = reply(status, rest, &call)?;
        self.open.retain(|other| other.id != call.id);
        step.queued.retain(|queued| queued.call != call.id);
        step.expect.push(Expected { call: call.id, who: call.who, reply });
        Ok(())
    }
}

fn call(id: u64, op: &str, who: &str, words: &[&str]) -> Result<Call, String> {
    let mut fields = Map::new();
    let mut lock = json!("lock");
    let mut request = "1";
    let mut without = Vec::new();
    for word in words {
        if let Some((field, text)) = word.split_once(':').filter(|(field, _)| !field.contains('=')) {
            // One of the wire's fields, as JSON.
            let value = serde_json::from_str(text).map_err(|error| format!("{field} is no JSON: {error}"))?;
            if field == "lock" {
                lock = value
            } else {
                drop(fields.insert(field.into(), value))
            }
            continue;
        }
        let (option, value) = word.split_once('=').unwrap_or((word, ""));
        match option {
            "lock" => lock = json!(value),
            "request" => request = value,
            "without" => without.push(value),
            "token" => drop(fields.insert("token".into(), json!(format!("token of {value}")))),
            "shared" => drop(fields.insert("mode".into(), json!("shared"))),
            "steal" => drop(fields.insert("steal".into(), json!(true))),
            "limit" | "fence" => drop(fields.insert(option.into(), json!(integer(value)?))),
            "size" => drop(fields.insert("pageSize".into(), json!(integer(value)?))),
            "info" | "prefix" | "cursor" | "reason" => drop(fields.insert(option.into(), json!(value))),
            "ttl" => drop(fields.insert("ttlMs".into(), json!(length(value)?))),
            "wait" => drop(fields.insert("waitMs".into(), json!(length(value)?))),
            "maxhold" => drop(fields.insert("maxHoldMs".into(), json!(length(value)?))),
            "delay" => drop(fields.insert("lockDelayMs".into(), json!(length(value)?))),
            _ => return Err(format!("no option {option}")),
        }
    }
    let mut add = |field: &str, value: String| {
        fields.entry(field).or_insert(Value::String(value));
    };
    match op {
        "acquire" => {
            add("token", format!("token of {who}"));
            add("requestId", format!("{who} {request}"));
            add("clientId", who.into());
        }
        "cancel" => {
            add("token", format!("token of {who}"));
            add("requestId", format!("{who} {request}"));
        }
        "renew" | "release" => add("token", format!("token of {who}")),
        "inspect" | "list" | "revoke" => {}
        _ => return Err(format!("no command {op}")),
    }
    without.into_iter().for_each(|field| drop(fields.remove(field)));
    Ok(Call { id, who: who.into(), op: op.into(), lock, fields: fields.into() })
}

/// What the wire carries of an outcome.
fn reply(status: &str, words: &[&str], call: &Call) -> Result<Value, String> {
    let options = Options(words);
    Ok(match status {
        "granted" | "renewed" => {
            let fence = match status {
                "granted" => options.number("fence")?.ok_or("with which fence?")?,
                _ => call.fields["fence"].as_u64().ok_or("a renewal has a fence")?,
            };
            let expires = options.length("expires")?.ok_or("when does it expire?")?;
            let mut lease =
                json!({ "lock": call.lock, "token": call.fields["token"], "fence": fence, "expiresAt": expires });
            if status == "granted" {
                lease["mode"] = call.fields.get("mode").cloned().unwrap_or("exclusive".into());
            }
            options.length("ttl")?.into_iter().for_each(|ttl| lease["ttlMs"] = ttl.into());
            let mut reply = json!({ "status": status, "lease": lease });
            options.length("waited")?.into_iter().for_each(|waited| reply["waitedMs"] = waited.into());
            reply
        }
        "held" => {
            let mut reply =
                json!({ "status": "held", "holders": shown(options.names("by"), options.numbers("fences")?) });
            reply["queue"] = options.number("queue")?.unwrap_or(0).into();
            options.length("retry")?.into_iter().for_each(|retry| reply["retryAfterMs"] = retry.into());
            reply
        }
        "waiting" => json!({ "status": "waiting", "position": options.number("position")?.ok_or("which position?")? }),
        "lost" => json!({ "status": "lost", "reason": words.first().ok_or("for what reason?")? }),
        "released" | "cancelled" => json!({ "status": status }),
        "refused" => {
            let mut reply = json!({ "code": words.first().ok_or("with which code?")? });
            options.text("field").into_iter().for_each(|field| reply["field"] = field.into());
            reply
        }
        "revoked" => {
            let count = integer(words.first().ok_or("how many?")?)?;
            json!({ "revoked": count })
        }
        "inspected" => {
            let holders = shown(options.names("holders"), options.numbers("fences")?);
            json!({ "lock": call.lock, "holders": holders, "waiters": shown(options.names("waiters"), vec![]) })
        }
        "listed" => {
            let locks: Vec<_> = options.names("locks").into_iter().map(|lock| json!({ "lock": lock })).collect();
            let cursor = options.text("cursor").map_or(Value::Null, Value::from);
            json!({ "locks": locks, "cursor": cursor })
        }
        _ => return Err(format!("no outcome {status}")),
    })
}

/// Contenders as others see them: by their client ids, here their names.
fn shown(names: Vec<&str>, fences: Vec<u64>) -> Value {
    let mut shown: Vec<_> = names.into_iter().map(|name| json!({ "clientId": name })).collect();
    shown.iter_mut().zip(fences).for_each(|(shown, fence)| shown["fence"] = fence.into());
    shown.into()
}

struct Options<'a>(&'a [&'a str]);

impl<'a> Options<'a> {
    fn text(&self, option: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.split_once('=').filter(|(name, _)| *name == option).map(|(_, value)| value))
    }

    fn names(&self, option: &str) -> Vec<&'a str> {
        self.text(option).map_or(Vec::new(), |names| names.split(',').filter(|name| !name.is_empty()).collect())
    }

    fn number(&self, option: &str) -> Result<Option<u64>, String> {
        self.text(option).map(integer).transpose()
    }

    fn numbers(&self, option: &str) -> Result<Vec<u64>, String> {
        self.names(option).into_iter().map(integer).collect()
    }

    fn length(&self, option: &str) -> Result<Option<u64>, String> {
        self.text(option).map(length).transpose()
    }
}

fn integer(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no whole number"))
}

/// `250ms`, `10s`, `2m`, `1h`, `7d`; 0 needs no unit.
fn length(text: &str) -> Result<u64, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" if number == "0" => 1,
        _ => return Err(format!("{text} is no length: 250ms, 10s, 2m, 1h, 7d")),
    };
    Ok(integer(number)? * unit)
}
