//! What no host should pass to the component, and one may all the same: an error or a refusal each time, never a trap.

use serde_json::Value;
use wasmtime_host::types::{AcquireRequest, Mode, RenewRequest};
use wasmtime_host::{Instance, kernel};

const LIMITS: kernel::Limits = kernel::Limits { remember_ms: 60_000, record_bytes_max: 1 << 20 };

#[test]
fn bytes_that_are_no_record_are_a_fault() {
    let mut instance = instance();
    let newer = instance.decide(Some(&[2, 9, 9]), "inspect", "lock", "{}", 0, &space(), LIMITS).expect("no trap");
    assert!(matches!(newer, Err(kernel::Fault::NewerRecord(2))));

    let record = a_record(&mut instance);
    let mut seed = 6_u64;
    let mut roll = |end: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % end
    };
    let (mut answers, mut faults) = (0, 0);
    for _ in 0..5_000 {
        let mut bytes = record.clone();
        for _ in 0..=roll(3) {
            let at = roll(bytes.len());
            match roll(3) {
                0 => bytes[at] = roll(256) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, roll(256) as u8),
            }
        }
        let call =
            [("tick", "{}"), ("inspect", "{}"), ("acquire", r#"{"token":"z","requestId":"9","waitMs":1}"#)][roll(3)];
        let now = [0, 5_000, 1 << 53, u64::MAX][roll(4)];
        match instance.decide(Some(&bytes), call.0, "lock", call.1, now, &space(), LIMITS).expect("no trap") {
            Ok(_) => answers += 1,
            Err(_) => faults += 1,
        }
    }
    assert!(answers > 100 && faults > 100, "{answers} answers, {faults} faults");
}

#[test]
fn a_record_that_nests_without_end_is_a_fault() {
    let mut instance = instance();
    let record = a_record(&mut instance);
    let at = record.windows(4).position(|part| part == [4, 1, 4, 1]).expect("the info is in it");
    let mut deep = record[..at].to_vec();
    deep.extend([4, 1].repeat(1_000_000));
    let fault = instance.decide(Some(&deep), "inspect", "lock", "{}", 0, &space(), LIMITS).expect("no trap");
    assert!(matches!(fault, Err(kernel::Fault::UnreadableRecord)));
}

/// What it imports is WASI 0.2's, and no function of it is asynchronous: it is a component to every host there is.
#[test]
fn the_synchronous_provider_loads_without_asynchronous_functions() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../dist/leasehold-provider-sync.component.wasm");
    wasmtime::component::Component::from_file(&wasmtime::Engine::default(), file).expect("it loads");
}

/// Rule 13, as the wire's JSON.
#[test]
fn every_bad_value_is_refused_by_its_name() {
    let mut instance = instance();
    let numbers = ["0", "-1", "1.5", "1e300", "-0.5", "\"30\"", "null", "true", "[]", "{}", "9007199254740993"];
    let fields = ["ttlMs", "maxHoldMs", "limit"];
    let mut calls: Vec<(String, String)> = Vec::new();
    for field in fields {
        for number in numbers {
            let mode = if field == "limit" { r#""mode":"shared","# } else { "" };
            calls.push((field.into(), format!(r#"{{"token":"t","requestId":"r",{mode}"{field}":{number}}}"#)));
        }
    }
    for field in ["waitMs", "lockDelayMs"] {
        for number in numbers.iter().skip(1) {
            calls.push((field.into(), format!(r#"{{"token":"t","requestId":"r","{field}":{number}}}"#)));
        }
    }
    let long = "x".repeat(1_025);
    for (field, fields) in [
        ("token", r#"{"requestId":"r"}"#.to_string()),
        ("token", r#"{"token":"","requestId":"r"}"#.into()),
        ("token", format!(r#"{{"token":"{long}","requestId":"r"}}"#)),
        ("requestId", r#"{"token":"t","requestId":7}"#.into()),
        ("clientId", r#"{"token":"t","requestId":"r","clientId":""}"#.into()),
        ("info", format!(r#"{{"token":"t","requestId":"r","info":"{long}"}}"#)),
        ("info", format!(r#"{{"token":"t","requestId":"r","info":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000))),
        ("mode", r#"{"token":"t","requestId":"r","mode":"both"}"#.into()),
        ("steal", r#"{"token":"t","requestId":"r","steal":1}"#.into()),
        ("limit", r#"{"token":"t","requestId":"r","limit":2}"#.into()),
        ("token", r#"{"token":"t","token":"t","requestId":"r"}"#.into()),
        ("ttl", r#"{"token":"t","requestId":"r","ttl":30000}"#.into()),
        ("body", "[]".into()),
        ("body", "{} {}".into()),
        ("token", r#"{"token":"\ud800","requestId":"r"}"#.into()),
        ("ttlMs", r#"{"token":"t","requestId":"r","ttlMs":NaN}"#.into()),
    ] {
        calls.push((field.into(), fields));
    }
    for (field, fields) in &calls {
        let (status, body) = refusal(&mut instance, "lock", fields);
        assert_eq!((status, body["code"].as_str()), (400, Some("invalid_argument")), "{fields} -> {body}");
        assert_eq!(body["field"].as_str(), Some(field.as_str()), "{fields} -> {body}");
    }
    for lock in ["", "-a", ".", "..", &"x".repeat(513)] {
        assert_eq!(refusal(&mut instance, lock, r#"{"token":"t","requestId":"r"}"#).1["field"], "lock", "{lock}");
    }
    let huge = format!(r#"{{"token":"t","requestId":"r","info":"{}"}}"#, "x".repeat(20_000));
    assert_eq!(refusal(&mut instance, "lock", &huge).1["code"], "too_large");
    assert_eq!(refusal(&mut instance, "lock", &"[".repeat(16_000)).0, 400);
}

/// Rule 13, as typed commands.
#[test]
fn every_bad_number_is_refused_in_a_typed_command() {
    let mut instance = instance();
    let bad = [0, 86_400_001, 604_800_001, 1 << 32, (1 << 32) + 30_000, (1 << 53) + 1, u64::MAX];
    type Set = fn(&mut AcquireRequest, u64);
    let set: [(&str, Set); 5] = [
        ("ttlMs", |acquire, value| acquire.ttl_ms = Some(value)),
        ("maxHoldMs", |acquire, value| acquire.max_hold_ms = Some(value)),
        ("limit", |acquire, value| (acquire.limit, acquire.mode) = (Some(value), Mode::Shared)),
        ("waitMs", |acquire, value| acquire.wait_ms = Some(value)),
        ("lockDelayMs", |acquire, value| acquire.lock_delay_ms = Some(value)),
    ];
    for (field, set) in set {
        for value in bad {
            let is_allowed = match field {
                "waitMs" | "lockDelayMs" => value == 0 || (field == "lockDelayMs" && value == 86_400_001),
                "maxHoldMs" => value == 86_400_001,
                _ => false,
            };
            let mut acquire = an_acquire();
            set(&mut acquire, value);
            let refused = refused_field(&mut instance, kernel::Command::Acquire(acquire));
            assert_eq!(refused.as_deref(), (!is_allowed).then_some(field), "{field} {value}");
        }
    }
    for fence in [0, 1 << 53, u64::MAX] {
        let renew = RenewRequest { token: "t".into(), fence, ttl_ms: None };
        assert_eq!(refused_field(&mut instance, kernel::Command::Renew(renew)).as_deref(), Some("fence"), "{fence}");
    }
    let info = |info: &str| kernel::Command::Acquire(AcquireRequest { info: Some(info.into()), ..an_acquire() });
    for bad in ["", "{", "nul", "1 2", &"[".repeat(100_000), &format!("\"{}\"", "x".repeat(1_023))] {
        assert_eq!(refused_field(&mut instance, info(bad)).as_deref(), Some("info"), "{bad:.20}");
    }
    assert_eq!(refused_field(&mut instance, info(&format!("\"{}\"", "x".repeat(1_022)))), None);
}

fn refused_field(instance: &mut Instance, command: kernel::Command) -> Option<String> {
    let decision =
        instance.decide_typed(None, "lock", &command, 0, &space(), LIMITS).expect("no trap").expect("no fault");
    match decision.reply {
        kernel::Reply::Refused(kernel::Refusal::InvalidArgument(invalid)) => {
            assert!(matches!(decision.change, kernel::Change::Unchanged));
            Some(invalid.field)
        }
        _ => None,
    }
}

fn refusal(instance: &mut Instance, lock: &str, fields: &str) -> (u16, Value) {
    let answer =
        instance.decide(None, "acquire", lock, fields, 0, &space(), LIMITS).expect("no trap").expect("no fault");
    assert!(matches!(answer.change, kernel::Change::Unchanged));
    (answer.message.status, serde_json::from_str(&answer.message.body).expect("problem details are JSON"))
}

fn a_record(instance: &mut Instance) -> Vec<u8> {
    let mut prior = None;
    for fields in [r#"{"token":"a","requestId":"1","info":[[7]]}"#, r#"{"token":"b","requestId":"2","waitMs":60000}"#] {
        let answer = instance.decide(prior.as_deref(), "acquire", "lock", fields, 0, &space(), LIMITS);
        let kernel::Change::Store(bytes) = answer.expect("no trap").expect("no fault").change else { panic!("stored") };
        prior = Some(bytes);
    }
    prior.expect("a record")
}

fn an_acquire() -> AcquireRequest {
    AcquireRequest {
        token: "t".into(),
        request_id: "r".into(),
        ttl_ms: None,
        wait_ms: None,
        mode: Mode::Exclusive,
        limit: None,
        max_hold_ms: None,
        lock_delay_ms: None,
        client_id: None,
        info: None,
        steal: false,
    }
}

fn space() -> kernel::Space {
    kernel::Space { name: "a space".into(), last_fence: 0, fence_floor: 0 }
}

fn instance() -> Instance {
    Instance::new().expect("the component is there, and imports nothing")
}
