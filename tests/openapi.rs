//! The OpenAPI document against the wire: every field of every command, every limit, every code; each limit is tried at
//! both its edges.

use std::collections::BTreeSet;

use leasehold::command::{
    Acquire, Cancel, Command, Entrance, Holder, Lease, Lost, Push, Refusal, Release, Renew, Reply, Revoke, Summary,
    Terms, Waiter,
};
use leasehold::json::Json;
use leasehold::types::{
    ClientId, Fence, Info, Limit, LockDelay, MaxHold, Mode, Name, Note, RequestId, Token, Ttl, Wait,
};
use leasehold::wire::{self, Op};
use leasehold::worker;
use serde_json::{Value, json};

const TEXT: &str = include_str!("../src/worker/openapi.json");

fn document() -> Value {
    parsed(TEXT)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A schema, with what it refers to laid under its own members.
fn resolved(document: &Value, schema: &Value) -> Value {
    let Some(reference) = schema["$ref"].as_str() else { return schema.clone() };
    let mut whole = resolved(document, &document.pointer(&reference[1..]).unwrap_or(&Value::Null).clone());
    let members = whole.as_object_mut().unwrap_or_else(|| panic!("{reference} is not there"));
    members.extend(
        schema.as_object().unwrap().iter().filter(|(name, _)| *name != "$ref").map(|(n, v)| (n.clone(), v.clone())),
    );
    whole
}

fn schema(document: &Value, name: &str) -> Value {
    resolved(document, &json!({ "$ref": format!("#/components/schemas/{name}") }))
}

fn names(value: &Value) -> BTreeSet<String> {
    value.as_object().map(|members| members.keys().cloned().collect()).unwrap_or_default()
}

fn strings(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn value(json: &Json) -> Value {
    serde_json::to_value(json).unwrap()
}

fn read(value: &Value) -> Json {
    Json::read(value).unwrap()
}

fn terms() -> Terms {
    Terms {
        token: Token::new("t").unwrap(),
        request_id: RequestId::new("r").unwrap(),
        mode: Mode::Shared(Some(Limit::MAX)),
        ttl: Ttl::MAX,
        max_hold: Some(MaxHold::MAX),
        lock_delay: LockDelay::MAX,
        client_id: Some(ClientId::new("c").unwrap()),
        info: Some(Info::new(Json::Bool(true)).unwrap()),
    }
}

/// Each command with every field it can have, the schema of its fields, and which of them it cannot be without.
fn commands() -> Vec<(&'static str, Vec<Command>, &'static [&'static str])> {
    let (token, fence, request_id) = (Token::new("t").unwrap(), Fence::new(1.0).unwrap(), RequestId::new("r").unwrap());
    let acquire = |entry, mode| Command::Acquire(Acquire { terms: Terms { mode, ..terms() }, wait: Wait::MAX, entry });
    vec![
        (
            "Acquire",
            vec![acquire(Entrance::Queue, Mode::Shared(Some(Limit::MAX))), acquire(Entrance::Steal, Mode::Exclusive)],
            &["token", "requestId"],
        ),
        (
            "Renew",
            vec![Command::Renew(Renew { token: token.clone(), fence, ttl: Some(Ttl::MIN) })],
            &["token", "fence"],
        ),
        ("Release", vec![Command::Release(Release { token: token.clone(), fence })], &["token", "fence"]),
        ("Cancel", vec![Command::Cancel(Cancel { token, request_id })], &["token", "requestId"]),
        ("Revoke", vec![Command::Revoke(Revoke { fence: Some(fence), reason: Some(Note::new("n").unwrap()) })], &[]),
    ]
}

fn op_of(name: &str) -> Op {
    Op::from_name(&name.to_lowercase()).unwrap()
}

fn refused_field(op: Op, fields: &Value) -> Option<String> {
    match wire::request(op, &Json::Text("lock".into()), read(fields)) {
        Ok(_) => None,
        Err(Refusal::Invalid { field, .. }) => Some(field),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn the_fields_of_each_command_are_those_that_the_wire_reads() {
    let document = document();
    for (name, variants, required) in commands() {
        let schema = schema(&document, name);
        let mut written = BTreeSet::new();
        for command in &variants {
            let (op, fields) = wire::fields(command);
            assert_eq!(op, op_of(name));
            let fields = value(&fields);
            assert_eq!(refused_field(op, &fields), None, "{name}");
            for field in required {
                let mut less = fields.clone();
                less.as_object_mut().unwrap().remove(*field);
                assert_eq!(refused_field(op, &less).as_deref(), Some(*field), "{name} without {field}");
            }
            written.extend(names(&fields));
        }
        assert_eq!(names(&schema["properties"]), written, "{name}");
        assert_eq!(strings(&schema["required"]), required.iter().map(|field| field.to_string()).collect(), "{name}");
        assert_eq!(schema["additionalProperties"], false, "{name}");
    }
}

#[test]
fn every_limit_is_the_wires_at_both_its_edges() {
    let document = document();
    let mut tried = 0;
    for (name, variants, _) in commands() {
        let op = op_of(name);
        let base = value(&wire::fields(&variants[0]).1);
        for (field, property) in schema(&document, name)["properties"].as_object().unwrap() {
            let property = resolved(&document, property);
            let mut ask = |content: Value, is_right: bool| {
                let mut fields = base.clone();
                fields[field] = content.clone();
                let expected = (!is_right).then(|| field.clone());
                assert_eq!(refused_field(op, &fields), expected, "{name}.{field} = {content}");
                tried += 1;
            };
            if property["type"] == "integer" {
                let (min, max) = (property["minimum"].as_u64().unwrap(), property["maximum"].as_u64().unwrap());
                ask(json!(min), true);
                ask(json!(max), true);
                ask(json!(min as i64 - 1), false);
                ask(json!(max as f64 + 1.0), false);
                ask(json!(min as f64 + 0.5), false);
                ask(json!(min.to_string()), false);
            } else if property["type"] == "string" {
                let max = property["x-maxBytes"].as_u64().unwrap() as usize;
                assert_eq!(property["maxLength"], property["x-maxBytes"], "{name}.{field}");
                ask(json!("x".repeat(max)), true);
                ask(json!("x".repeat(max + 1)), false);
                ask(json!("é".repeat(max / 2 + 1)), false);
                ask(json!(""), false);
                ask(json!(1), false);
            } else if property["type"] == "boolean" {
                ask(json!(false), true);
                ask(json!("false"), false);
            } else if let Some(allowed) = property["enum"].as_array() {
                ask(json!("neither"), false);
                assert_eq!(allowed, &[json!("exclusive"), json!("shared")]);
            } else {
                let max = property["x-maxBytes"].as_u64().unwrap() as usize;
                ask(json!("x".repeat(max - 2)), true);
                ask(json!("x".repeat(max - 1)), false);
            }
        }
    }
    assert!(tried > 60, "{tried}");
}

#[test]
fn defaults_are_those_of_the_types() {
    let properties = schema(&document(), "Acquire")["properties"].clone();
    assert_eq!(properties["ttlMs"]["default"], Ttl::DEFAULT.value());
    assert_eq!(properties["waitMs"]["default"], Wait::NONE.value());
    assert_eq!(properties["lockDelayMs"]["default"], LockDelay::NONE.value());
    assert_eq!(properties["mode"]["default"], "exclusive");
    assert_eq!(properties["steal"]["default"], false);
}

#[test]
fn a_name_is_a_name() {
    let document = document();
    let schema = schema(&document, "Name");
    assert_eq!(schema["x-maxBytes"], Name::MAX_BYTES);
    // What the pattern refuses, in the words of the type.
    for refused in ["", "-a", ".", ".."] {
        assert!(Name::new(refused).is_err());
    }
    for part in ["prefix", "cursor", "pageSize"] {
        let list = self::schema(&document, "List");
        assert!(names(&list["properties"]).contains(part));
    }
}

fn holder() -> Holder {
    Holder {
        fence: Fence::MAX,
        mode: Mode::Exclusive,
        client_id: Some(ClientId::new("c").unwrap()),
        info: Some(Info::new(Json::Null).unwrap()),
        held: 1,
        expires_in: 1,
    }
}

fn lease() -> Lease {
    let Terms { token, mode, ttl, .. } = terms();
    Lease { lock: Name::new("l").unwrap(), token, fence: Fence::MIN, mode, ttl, expires_in: 1, expires_at: 1 }
}

fn summary() -> Summary {
    Summary { lock: Name::new("l").unwrap(), holders: vec![holder()], queue: 1 }
}

/// Whether a value has exactly the members of a schema that has every one of its optional members, as deep as it goes.
fn assert_members(document: &Value, schema: &Value, value: &Value, at: &str) {
    let schema = resolved(document, schema);
    if let Some(items) = value.as_array() {
        assert!(!items.is_empty(), "{at} shows nothing");
        for item in items {
            assert_members(document, &schema["items"], item, at);
        }
    } else if let (Some(members), true) = (value.as_object(), schema["properties"].is_object()) {
        assert_eq!(names(&schema["properties"]), names(value), "{at}");
        for (name, member) in members {
            assert_members(document, &schema["properties"][name], member, &format!("{at}.{name}"));
        }
    } else if let Some(expected) = schema.get("const") {
        assert_eq!(expected, value, "{at}");
    }
}

#[test]
fn the_members_of_each_reply_are_those_that_the_wire_writes() {
    let document = document();
    let cursor = Some(Name::new("l").unwrap());
    let waiter = Waiter { mode: Mode::Exclusive, client_id: terms().client_id, info: terms().info, waited: 1 };
    let lock = Name::new("l").unwrap();
    let replies = [
        ("Granted", Reply::Granted { lease: lease(), waited: 1 }),
        ("Held", Reply::Held { holders: vec![holder()], queue: 1, retry_after: 1 }),
        ("Waiting", Reply::Waiting { position: 1, retry_after: 1 }),
        ("Renewed", Reply::Renewed { lease: lease() }),
        ("Lost", Reply::Lost { reason: Lost::Expired }),
        ("Released", Reply::Released),
        ("Cancelled", Reply::Cancelled),
        ("Inspected", Reply::Inspected { lock, holders: vec![holder()], waiters: vec![waiter] }),
        ("Listed", Reply::Listed { locks: vec![summary()], cursor: cursor.clone() }),
        ("Revoked", Reply::Revoked { count: 1 }),
        ("Watching", Reply::Watching { locks: vec![summary()], cursor }),
        ("Unwatched", Reply::Unwatched),
    ];
    for (name, reply) in replies {
        let written = value(&wire::reply(&reply, "s").1);
        assert_members(&document, &schema(&document, name), &written, name);
        assert_eq!(parsed(&worker::json::reply(None, &reply, "s")), written, "{name} as text");
    }
    let pushes = [
        Push::Granted { request_id: terms().request_id, lease: lease(), waited: 1 },
        Push::Ended { lock: Name::new("l").unwrap(), fence: Fence::MIN, reason: Lost::Revoked },
        Push::Changed { change: leasehold::command::Change::Acquired, fence: Some(Fence::MIN), now: summary() },
    ];
    for (at, push) in pushes.iter().enumerate() {
        let schema = schema(&document, "Push")["oneOf"][at].clone();
        let written = value(&wire::push(push, "s"));
        assert_members(&document, &schema, &written, &format!("push {at}"));
        assert_eq!(parsed(&worker::json::push(push, "s")), written, "push {at} as text");
    }
}

#[test]
fn reasons_are_those_of_the_wire() {
    let all = [Lost::Expired, Lost::Released, Lost::Revoked, Lost::Stolen, Lost::Unknown];
    let reasons = schema(&document(), "Lost")["properties"]["reason"]["enum"].clone();
    assert_eq!(strings(&reasons), all.map(|reason| wire::lost_name(reason).to_owned()).into());
}

/// One of each.
fn refusals() -> Vec<Refusal> {
    vec![
        Refusal::Invalid { field: "f".into(), expected: "e" },
        Refusal::TooLarge { expected: "e" },
        Refusal::QueueFull,
        Refusal::LimitMismatch,
        Refusal::Unavailable,
        Refusal::NotFound,
        Refusal::NeedsSocket,
        Refusal::UpgradeRequired,
        Refusal::MethodNotAllowed,
        Refusal::UnsupportedMediaType,
        Refusal::AddressTooLong,
        Refusal::HeadersTooLarge,
        Refusal::TooSlow,
        Refusal::SpaceFull,
        Refusal::TooMany,
        Refusal::Unauthorized,
        Refusal::Forbidden { right: "read" },
        Refusal::ForeignOrigin,
        Refusal::Misconfigured,
        Refusal::NotConfigured,
    ]
}

#[test]
fn problems_are_those_of_the_wire() {
    let document = document();
    let problem = schema(&document, "Problem");
    let (mut codes, mut members) = (BTreeSet::new(), BTreeSet::new());
    for refusal in refusals() {
        let (status, json) = wire::problem(&refusal);
        let json = value(&json);
        assert_eq!(json["status"], status);
        assert_eq!(json["code"], wire::code(&refusal));
        assert!(strings(&problem["required"]).is_subset(&names(&json)));
        codes.insert(wire::code(&refusal).to_owned());
        members.extend(names(&json));
    }
    assert_eq!(strings(&problem["properties"]["code"]["enum"]), codes);
    assert_eq!(names(&problem["properties"]), members);
}

#[test]
fn every_op_has_a_frame_and_every_posted_one_a_path() {
    let document = document();
    let framed: BTreeSet<String> = document["components"]["schemas"]["Command"]["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| frame["properties"]["op"]["const"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(framed, Op::ALL.map(|op| op.name().to_owned()).into());
    for name in ["acquire", "renew", "release", "cancel", "revoke"] {
        let path = format!("/v1/spaces/{{space}}/locks/{{lock}}/{name}");
        assert_eq!(document["paths"][&path]["post"]["operationId"], name);
    }
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
}
