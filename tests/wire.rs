//! What comes in and what goes out: every field at both its edges, every number that is none, every text that is no
//! name; and that what is written can be read again.

mod support;

use leasehold::command::{
    Acquire, Cancel, Command, Entrance, Holder, Lease, Lost, Push, Refusal, Release, Renew, Reply, Request, Revoke,
    Summary, Terms, Waiter,
};
use leasehold::json::Json;
use leasehold::session::{Grant, Heard};
use leasehold::types::{
    ClientId, Fence, Info, Limit, LockDelay, MaxHold, Mode, Name, Note, RequestId, Token, Ttl, Wait,
};
use leasehold::wire::{self, Op};
use support::dice::Dice;

/// The numeric fields of each command: smallest, largest.
const NUMBERS: [(Op, &str, &str, f64, f64); 9] = [
    (Op::Acquire, "ttlMs", "", 50.0, 86_400_000.0),
    (Op::Acquire, "waitMs", "", 0.0, 60_000.0),
    (Op::Acquire, "maxHoldMs", "", 1.0, 604_800_000.0),
    (Op::Acquire, "lockDelayMs", "", 0.0, 604_800_000.0),
    (Op::Acquire, "limit", r#","mode":"shared""#, 1.0, 1_000_000.0),
    (Op::Renew, "ttlMs", r#","fence":1"#, 50.0, 86_400_000.0),
    (Op::Release, "fence", "", 1.0, 9_007_199_254_740_991.0),
    (Op::Revoke, "fence", "", 1.0, 9_007_199_254_740_991.0),
    (Op::List, "pageSize", "", 1.0, 1_000.0),
];

/// The fields that a command cannot be without, as JSON text; the braces are left open.
fn required(op: Op) -> &'static str {
    match op {
        Op::Acquire | Op::Cancel => r#"{"token":"t","requestId":"r""#,
        Op::Renew | Op::Release => r#"{"token":"t""#,
        _ => "{",
    }
}

fn with(op: Op, others: &str, field: &str, value: &str) -> String {
    let mut text = format!("{}{others}", required(op));
    if !text.ends_with('{') {
        text.push(',');
    }
    text + &format!("\"{field}\":{value}}}")
}

/// As the Worker reads a body: a member that cannot be read is refused by its name.
fn ask(op: Op, lock: &str, body: &str) -> Result<Request, Refusal> {
    let read = |text: &str| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let json = Json::read(&mut deserializer).map_err(|(member, _)| member.unwrap_or("body".into()))?;
        deserializer.end().map_err(|_| "body".to_owned())?;
        Ok::<Json, String>(json)
    };
    let refused = |field: String| Refusal::Invalid { field, expected: "readable" };
    let lock = read(lock).map_err(|_| refused("lock".into()))?;
    wire::request(op, &lock, read(body).map_err(refused)?)
}

fn refused_field(result: Result<Request, Refusal>) -> String {
    match result {
        Err(Refusal::Invalid { field, .. }) => field,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_push_is_for_whoever_asks_under_its_request_id_or_holds_its_fence() {
    let lease = Lease {
        lock: Name::new("lock").unwrap(),
        token: Token::new("t").unwrap(),
        fence: Fence::new(7.0).unwrap(),
        mode: Mode::Exclusive,
        ttl: Ttl::DEFAULT,
        expires_in: 5_000,
        expires_at: 9_000,
    };
    let mine = RequestId::new("mine").unwrap();
    let granted = Push::Granted { request_id: mine.clone(), lease: lease.clone(), waited: 3 };
    let granted = wire::push(&granted, "space");
    assert!(matches!(wire::told(&granted, Some(&mine), None), Some(Heard::Granted { waited: 3, .. })));
    assert_eq!(wire::told(&granted, Some(&RequestId::new("another").unwrap()), Some(lease.fence)), None);
    let ended = Push::Ended { lock: lease.lock, fence: lease.fence, reason: Lost::Stolen };
    let ended = wire::push(&ended, "space");
    assert_eq!(wire::told(&ended, None, Some(lease.fence)), Some(Heard::Lost(Lost::Stolen)));
    assert_eq!(wire::told(&ended, Some(&mine), Fence::new(8.0).ok()), None);
}

#[test]
fn every_number_is_accepted_at_both_its_edges_and_refused_beyond() {
    for (op, field, others, least, most) in NUMBERS {
        for value in [least, most, least + 1.0, most - 1.0] {
            let body = with(op, others, field, &value.to_string());
            assert!(ask(op, "\"lock\"", &body).is_ok(), "{body}");
        }
        for value in [least - 1.0, most + 1.0] {
            let body = with(op, others, field, &value.to_string());
            assert_eq!(refused_field(ask(op, "\"lock\"", &body)), field, "{body}");
        }
    }
}

#[test]
fn what_is_no_finite_integer_is_refused_by_name() {
    let wrong = [
        "-1",
        "1.5",
        "50.000001",
        "1e300",
        "-1e300",
        "1e-300",
        "1e999",
        "-1e999",
        "9007199254740993",
        "null",
        "true",
        "\"30\"",
        "\"\"",
        "[]",
        "[30]",
        "{}",
        "NaN",
        "Infinity",
        "-Infinity",
    ];
    for (op, field, others, _, _) in NUMBERS {
        for value in wrong {
            let body = with(op, others, field, value);
            assert_eq!(refused_field(ask(op, "\"lock\"", &body)), field, "{body}");
        }
    }
}

/// JavaScript objects can hold what JSON cannot.
#[test]
fn nan_and_the_infinities_are_refused_without_json_text_too() {
    for (op, field, _, least, _) in NUMBERS {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, least + 0.5, f64::MAX, f64::MIN_POSITIVE] {
            let text = |text: &str| Json::Text(text.into());
            let mut members = vec![(field.into(), Json::Number(value))];
            if matches!(op, Op::Acquire | Op::Renew | Op::Release) {
                members.push(("token".into(), text("t")));
            }
            if op == Op::Acquire {
                members.extend([("requestId".into(), text("r")), ("mode".into(), text("shared"))]);
            }
            if (op, field) == (Op::Renew, "ttlMs") {
                members.push(("fence".into(), Json::Number(1.0)));
            }
            assert_eq!(refused_field(wire::request(op, &text("lock"), Json::Object(members))), field, "{value}");
        }
    }
    let info = Json::Object(vec![("x".into(), Json::List(vec![Json::Number(f64::NAN)]))]);
    assert!(Info::new(info).is_err());
}

#[test]
fn integers_may_be_written_as_floats() {
    for value in ["50.0", "5e1", "0.5e2", "500e-1"] {
        let body = with(Op::Acquire, "", "ttlMs", value);
        match ask(Op::Acquire, "\"lock\"", &body) {
            Ok(Request::Lock { command: Command::Acquire(acquire), .. }) => assert_eq!(acquire.terms.ttl, Ttl::MIN),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn texts_are_measured_in_bytes_of_utf8() {
    let texts: [(Op, &str, &str, usize); 5] = [
        (Op::Cancel, "requestId", r#"{"token":"t""#, 128),
        (Op::Cancel, "token", r#"{"requestId":"r""#, 128),
        (Op::Acquire, "clientId", r#"{"token":"t","requestId":"r""#, 128),
        (Op::Revoke, "reason", "{", 256),
        (Op::List, "cursor", "{", 512),
    ];
    for (op, field, start, most) in texts {
        let ask = |text: String| {
            let comma = if start == "{" { "" } else { "," };
            ask(op, "\"lock\"", &format!("{start}{comma}\"{field}\":\"{text}\"}}"))
        };
        for text in ["x".into(), "x".repeat(most), "\u{fc}".repeat(most / 2), "\u{1f512}".repeat(most / 4)] {
            assert!(ask(text).is_ok(), "{field}");
        }
        for text in
            [String::new(), "x".repeat(most + 1), "\u{fc}".repeat(most / 2) + "x", "\u{1f512}".repeat(most / 4) + "x"]
        {
            assert_eq!(refused_field(ask(text)), field);
        }
    }
}

/// symfony PR 42212, yii2 PR 16836: long names failed, were cut, or collided.
#[test]
fn names_are_1_to_512_bytes_and_never_cut() {
    let name = |text: &str| Name::new(text);
    assert!(name("").is_err());
    assert!(name(&"x".repeat(513)).is_err());
    assert!(name(&("\u{fc}".repeat(256) + "x")).is_err());
    let long = "x".repeat(511);
    assert_ne!(name(&(long.clone() + "a")).unwrap(), name(&(long + "b")).unwrap());
    for refused in ["-", "-a", ".", ".."] {
        assert!(name(refused).is_err(), "{refused}");
    }
    for accepted in ["a-", "...", ".a", "a/b", "a%2Fb", " ", "\n", "\u{0}", "\u{feff}"] {
        assert_eq!(name(accepted).unwrap().as_str(), accepted);
    }
    // Composed and decomposed look the same and are two.
    assert_ne!(name("\u{e9}").unwrap(), name("e\u{301}").unwrap());
}

#[test]
fn lone_surrogates_are_refused_by_name() {
    for lone in [r"\ud800", r"\udc00", r"a\ud83d", r"\udd12\ud83d", r"\ud800x"] {
        for field in ["token", "requestId", "clientId"] {
            let others: String = ["token", "requestId", "clientId"]
                .iter()
                .filter(|other| **other != field)
                .map(|other| format!("\"{other}\":\"x\","))
                .collect();
            let body = format!("{{{others}\"{field}\":\"{lone}\"}}");
            assert_eq!(refused_field(ask(Op::Acquire, "\"lock\"", &body)), field, "{body}");
        }
        let body = format!(r#"{{"token":"t","requestId":"r","info":{{"deep":["{lone}"]}}}}"#);
        assert_eq!(refused_field(ask(Op::Acquire, "\"lock\"", &body)), "info", "{body}");
        assert_eq!(refused_field(ask(Op::Inspect, &format!("\"{lone}\""), "{}")), "lock");
    }
    let pair = r#"{"token":"\ud83d\udd12","requestId":"r"}"#;
    assert!(ask(Op::Cancel, "\"lock\"", pair).is_ok(), "two surrogates that belong together are one character");
}

#[test]
fn doubled_members_are_refused_by_name() {
    let body = r#"{"token":"a","requestId":"r","token":"b"}"#;
    assert_eq!(refused_field(ask(Op::Acquire, "\"lock\"", body)), "token");
    let escaped = r#"{"token":"a","requestId":"r","\u0074oken":"b"}"#;
    assert_eq!(refused_field(ask(Op::Acquire, "\"lock\"", escaped)), "token");
    let inside = r#"{"token":"a","requestId":"r","info":{"x":1,"y":{"z":1,"z":1}}}"#;
    assert_eq!(refused_field(ask(Op::Acquire, "\"lock\"", inside)), "info");
}

#[test]
fn unknown_members_are_refused_by_name_and_long_ones_are_cut() {
    for op in Op::ALL.into_iter().filter(|op| !matches!(op, Op::Watch | Op::Unwatch)) {
        let fence = if matches!(op, Op::Renew | Op::Release) { r#","fence":1"# } else { "" };
        let body = with(op, fence, "ttl", "1");
        assert_eq!(refused_field(ask(op, "\"lock\"", &body)), "ttl", "{body}");
    }
    let long = "x".repeat(10_000);
    assert_eq!(refused_field(ask(Op::Inspect, "\"lock\"", &format!("{{\"{long}\":1}}"))).len(), 64);
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    for body in ["null", "[]", "1", "\"x\"", "true", "", "{", "{}x", "{\"a\":1,}", "{}{}"] {
        let field = refused_field(ask(Op::Inspect, "\"lock\"", body));
        assert!(field == "body" || field == "a", "{body}: {field}");
    }
}

#[test]
fn json_is_bounded_in_depth_and_members() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let with_info = |info: String| ask(Op::Acquire, "\"lock\"", &with(Op::Acquire, "", "info", &info));
    assert!(with_info(nested(32)).is_ok());
    assert_eq!(refused_field(with_info(nested(33))), "info");
    assert_eq!(refused_field(with_info(nested(8_000))), "info");
    let many = |count: usize| {
        let members: Vec<_> = (0..count).map(|at| format!("\"{at:x}\":1")).collect();
        format!("{{{}}}", members.join(","))
    };
    assert!(with_info(many(120)).is_ok());
    assert_eq!(refused_field(with_info(many(257))), "info");
}

#[test]
fn info_is_at_most_1024_bytes_of_its_shortest_json() {
    let with_info = |info: &str| ask(Op::Acquire, "\"lock\"", &with(Op::Acquire, "", "info", info));
    let text = |length: usize| format!("\"{}\"", "x".repeat(length));
    assert!(with_info(&text(1_022)).is_ok());
    assert_eq!(refused_field(with_info(&text(1_023))), "info");
    // White space of the sender's does not count, and an escape counts as what it is.
    assert!(with_info(&format!("[ {:2000} 1 ]", "")).is_ok());
    assert!(with_info(&format!("\"{}\"", r"\u0078".repeat(1_022))).is_ok());
    assert_eq!(refused_field(with_info(&format!("\"{}\"", r"\u0000".repeat(200)))), "info");
    for info in ["null", "0", "false", "[]", "{}", "-0.5", "\"\""] {
        assert!(with_info(info).is_ok(), "{info}");
    }
}

#[test]
fn byte_len_is_that_of_the_shortest_text() {
    let mut dice = Dice::new(7);
    for _ in 0..20_000 {
        let json = any_json(&mut dice, 4);
        let text = serde_json::to_string(&json).unwrap();
        let floats = text_floats(&json);
        if floats == 0 {
            assert_eq!(json.byte_len(), text.len(), "{text}");
        } else {
            assert!(json.byte_len() >= text.len(), "{text}");
        }
        let mut deserializer = serde_json::Deserializer::from_str(&text);
        assert_eq!(Json::read(&mut deserializer).unwrap(), json, "{text}");
    }
}

/// Numbers that are no integers: their length is only bounded.
fn text_floats(json: &Json) -> usize {
    match json {
        Json::Number(number) => usize::from(number.fract() != 0.0 || number.abs() > 9e15),
        Json::List(items) => items.iter().map(text_floats).sum(),
        Json::Object(members) => members.iter().map(|(_, value)| text_floats(value)).sum(),
        Json::Null | Json::Bool(_) | Json::Text(_) => 0,
    }
}

fn any_json(dice: &mut Dice, depth: u64) -> Json {
    let text = |dice: &mut Dice| {
        let pieces = ["", "a", "\"", "\\", "\n", "\u{1}", "\u{7f}", "\u{e9}", "\u{1f512}", "/", "</script>", "\u{8}"];
        (0..dice.below(4)).map(|_| dice.pick(&pieces)).collect::<String>()
    };
    match dice.below(if depth == 0 { 5 } else { 7 }) {
        0 => Json::Null,
        1 => Json::Bool(dice.once_in(2)),
        2 => Json::Number(dice.pick(&[0.0, 1.0, -1.0, 10.0, -99.0, 1e15, 9_007_199_254_740_991.0])),
        3 => Json::Number(dice.pick(&[0.5, -1e-300, 1.0 / 3.0, 1e300, -2.225_073_858_507_201_4e-308, 1e16])),
        4 => Json::Text(text(dice).into()),
        5 => Json::List((0..dice.below(4)).map(|_| any_json(dice, depth - 1)).collect()),
        _ => Json::Object(
            (0..dice.below(4)).map(|at| (format!("{at}{}", text(dice)).into(), any_json(dice, depth - 1))).collect(),
        ),
    }
}

#[test]
fn a_command_that_is_written_reads_the_same() {
    let mut dice = Dice::new(11);
    for _ in 0..20_000 {
        let command = any_command(&mut dice);
        let (op, fields) = wire::fields(&command);
        let text = serde_json::to_string(&fields).unwrap();
        let read = ask(op, "\"lock\"", &text);
        assert_eq!(read, Ok(Request::Lock { lock: Name::new("lock").unwrap(), command }), "{text}");
    }
}

fn any_command(dice: &mut Dice) -> Command {
    let token = Token::new("the token").unwrap();
    let request_id = RequestId::new("the request").unwrap();
    let fence = Fence::new(dice.pick(&[1.0, 2.0, 9_007_199_254_740_991.0])).unwrap();
    match dice.below(6) {
        0 => Command::Renew(Renew { token, fence, ttl: dice.once_in(2).then_some(Ttl::MAX) }),
        1 => Command::Release(Release { token, fence }),
        2 => Command::Cancel(Cancel { token, request_id }),
        3 => Command::Inspect,
        4 => Command::Revoke(Revoke {
            fence: dice.once_in(2).then_some(fence),
            reason: dice.once_in(2).then(|| Note::new("stuck").unwrap()),
        }),
        _ => {
            let mode = match dice.below(3) {
                0 => Mode::Exclusive,
                1 => Mode::Shared(None),
                _ => Mode::Shared(Some(dice.pick(&[Limit::MIN, Limit::MAX]))),
            };
            let steals = mode == Mode::Exclusive && dice.once_in(2);
            Command::Acquire(Acquire {
                terms: Terms {
                    token,
                    request_id,
                    mode,
                    ttl: dice.pick(&[Ttl::MIN, Ttl::DEFAULT, Ttl::MAX]),
                    max_hold: dice.once_in(2).then_some(MaxHold::MIN),
                    lock_delay: dice.pick(&[LockDelay::NONE, LockDelay::MAX]),
                    client_id: dice.once_in(2).then(|| ClientId::new("me").unwrap()),
                    info: dice.once_in(2).then(|| Info::new(any_json(dice, 3)).ok()).flatten(),
                },
                wait: dice.pick(&[Wait::NONE, Wait::MAX]),
                entry: if steals { Entrance::Steal } else { Entrance::Queue },
            })
        }
    }
}

#[test]
fn a_reply_that_is_written_is_heard_the_same() {
    let lease = Lease {
        lock: Name::new("a lock").unwrap(),
        token: Token::new("the token").unwrap(),
        fence: Fence::MAX,
        mode: Mode::Exclusive,
        ttl: Ttl::DEFAULT,
        expires_in: 29_999,
        expires_at: 1_700_000_000_000,
    };
    let grant = Grant { fence: Fence::MAX, ttl: Ttl::DEFAULT, expires_in: 29_999, expires_at: 1_700_000_000_000 };
    let lost = [Lost::Expired, Lost::Released, Lost::Revoked, Lost::Stolen, Lost::Unknown];
    let mut heard = vec![
        (200, Reply::Granted { lease: lease.clone(), waited: 7 }, Some(Heard::Granted { grant, waited: 7 })),
        (409, Reply::Held { holders: vec![], queue: 3, retry_after: 9 }, Some(Heard::Held { retry_after: 9 })),
        (202, Reply::Waiting { position: 3, retry_after: 0 }, Some(Heard::Waiting { retry_after: 0 })),
        (200, Reply::Renewed { lease }, Some(Heard::Renewed { grant })),
        (200, Reply::Released, Some(Heard::Released)),
        (200, Reply::Cancelled, Some(Heard::Cancelled)),
        (200, Reply::Revoked { count: 1 }, None),
        (200, Reply::Listed { locks: vec![], cursor: None }, None),
        (429, Reply::Refused(Refusal::QueueFull), None),
        (409, Reply::Refused(Refusal::LimitMismatch), None),
        (503, Reply::Refused(Refusal::Unavailable), None),
        (400, Reply::Refused(Refusal::Invalid { field: "ttlMs".into(), expected: "else" }), None),
    ];
    heard.extend(lost.map(|reason| (409, Reply::Lost { reason }, Some(Heard::Lost(reason)))));
    for (status, reply, expected) in heard {
        let (actual_status, json) = wire::reply(&reply, "a space");
        assert_eq!((actual_status, wire::heard(&json)), (status, expected), "{reply:?}");
    }
}

#[test]
fn what_is_no_reply_is_not_heard() {
    let granted = r#"{"status":"granted","lease":{"fence":1,"ttlMs":50,"expiresInMs":50,"expiresAt":9},"waitedMs":0}"#;
    let read = |text: &str| wire::heard(&Json::read(&mut serde_json::Deserializer::from_str(text)).unwrap());
    assert!(read(granted).is_some());
    for (part, instead) in [
        ("\"granted\"", "\"grunted\""),
        ("\"fence\":1", "\"fence\":0"),
        ("\"fence\":1", "\"fence\":\"1\""),
        ("\"ttlMs\":50", "\"ttlMs\":49"),
        ("\"expiresInMs\":50", "\"expiresInMs\":-1"),
        ("\"expiresInMs\":50", "\"x\":50"),
        ("\"waitedMs\":0", "\"waitedMs\":null"),
    ] {
        assert_eq!(read(&granted.replace(part, instead)), None, "{instead}");
    }
    for text in ["null", "[]", "{}", r#"{"status":200}"#, r#"{"status":"lost"}"#, r#"{"status":"held"}"#] {
        assert_eq!(read(text), None, "{text}");
    }
}

/// Rule: the token is the holder's secret.
#[test]
fn nobody_but_its_holder_is_shown_a_token() {
    let name = Name::new("a lock").unwrap();
    let client_id = Some(ClientId::new("me").unwrap());
    let holder = Holder {
        fence: Fence::MIN,
        mode: Mode::Exclusive,
        client_id: client_id.clone(),
        info: None,
        held: 1,
        expires_in: 2,
    };
    let waiter = Waiter { mode: Mode::Shared(None), client_id, info: None, waited: 3 };
    let holders = vec![holder];
    let summary = Summary { lock: name.clone(), holders: holders.clone(), queue: 1 };
    for reply in [
        Reply::Held { holders: holders.clone(), queue: 1, retry_after: 1 },
        Reply::Inspected { lock: name, holders, waiters: vec![waiter] },
        Reply::Listed { locks: vec![summary], cursor: None },
    ] {
        let (_, json) = wire::reply(&reply, "a space");
        let text = serde_json::to_string(&json).unwrap();
        assert!(!text.contains("token") && text.contains("me"), "{text}");
    }
    assert_eq!(format!("{:?}", Token::new("secret").unwrap()), "Token(..)");
}

/// Rule 14: no bytes panic the reader.
#[test]
fn no_body_panics() {
    let mut dice = Dice::new(3);
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"token\"",
        "\"requestId\"",
        "\"ttlMs\"",
        "\"info\"",
        "\"\\ud800\"",
        "1e999",
        "-0",
        "null",
        "\"\"",
        "9007199254740992",
        "\"mode\"",
        "\"shared\"",
        "\u{0}",
        "\u{feff}",
        "\"limit\"",
        "true",
        "0",
    ];
    for _ in 0..100_000 {
        let body: String = (0..dice.below(14)).map(|_| dice.pick(&pieces)).collect();
        let op = dice.pick(&Op::ALL);
        let _ = ask(op, "\"lock\"", &body);
    }
}
