//! The kernel natively: the vectors, its records, and what it makes of bytes that are none.

mod support;
#[path = "component/vectors.rs"]
mod vectors;

use leasehold::command::{Reply, Request};
use leasehold::json::Json;
use leasehold::kernel::{self, Decision, Limits, Order, Space};
use leasehold::record::Unreadable;
use leasehold::types::Name;
use leasehold::wire::{self, Op};
use serde_json::Value;
use support::dice::Dice;
use vectors::{Call, Change, Decided, Kernel};

const LIMITS: Limits = Limits { remember: 3_600_000, record_bytes: usize::MAX };

#[test]
fn every_vector_holds() {
    vectors::play(&mut Native);
}

/// A record of every version there was stays readable, and says what it said.
#[test]
fn old_records_stay_readable() {
    for line in include_str!("golden/lock-record-v1.txt").lines() {
        let (about, hex) = line.split_once(": ").expect("a line says what it is");
        let bytes = from_hex(hex);
        assert!(leasehold::record::read_whole(&bytes).is_ok(), "{about}");
    }
}

/// `LEASEHOLD_BLESS=1 cargo test --test kernel` writes the file anew, while a version has not been released.
#[test]
fn records_are_written_as_the_golden_ones() {
    let mut lines = String::new();
    let mut prior = None;
    let calls = [
        (
            "granted",
            "acquire",
            r#"{"token":"a","requestId":"1","ttlMs":10000,"clientId":"A","info":{"n":[1,null,true,0.5]}}"#,
        ),
        (
            "with a waiter",
            "acquire",
            r#"{"token":"b","requestId":"2","waitMs":60000,"maxHoldMs":5000,"lockDelayMs":100}"#,
        ),
        ("with two", "acquire", r#"{"token":"c","requestId":"3","waitMs":60000,"mode":"shared","limit":3}"#),
        ("handed on", "release", r#"{"token":"a","fence":8}"#),
        ("revoked", "revoke", "{}"),
    ];
    for (at, (about, op, fields)) in calls.iter().enumerate() {
        let decision = decide(prior.as_deref(), op, fields, 1_000 + at as u64, 7, LIMITS).unwrap();
        if let kernel::Change::Store(bytes) = decision.change {
            lines += &format!("{about}: {}\n", to_hex(&bytes));
            prior = Some(bytes);
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/lock-record-v1.txt");
    if std::env::var_os("LEASEHOLD_BLESS").is_some() {
        std::fs::write(path, &lines).unwrap();
    }
    assert_eq!(lines, std::fs::read_to_string(path).unwrap(), "the stored form has changed: it needs a new version");
}

#[test]
fn a_newer_record_is_told_from_a_damaged_one() {
    let newer = decide(Some(&[2, 0]), "inspect", "{}", 0, 0, LIMITS);
    assert_eq!(newer, Err(Unreadable::Newer(2)));
    for damaged in [&[][..], &[0], &[1], &[1, 0, 0, 0], &[1, 0, 0, 0, 0, 0]] {
        assert_eq!(decide(Some(damaged), "inspect", "{}", 0, 0, LIMITS), Err(Unreadable::Damaged), "{damaged:?}");
    }
}

/// What nests as deep as a record is long neither overflows the stack nor is believed.
#[test]
fn a_record_that_nests_without_end_is_damaged() {
    let acquire = r#"{"token":"a","requestId":"1","info":[[[7]]]}"#;
    let kernel::Change::Store(bytes) = decide(None, "acquire", acquire, 0, 0, LIMITS).unwrap().change else {
        panic!("a lease is stored")
    };
    let at = bytes.windows(7).position(|part| part[..6] == [4, 1, 4, 1, 4, 1]).expect("the info is in it");
    for depth in [40, 100_000] {
        let mut deep = bytes[..at].to_vec();
        deep.extend([4, 1].repeat(depth));
        assert_eq!(decide(Some(&deep), "inspect", "{}", 0, 0, LIMITS), Err(Unreadable::Damaged));
    }
}

/// Records that were changed at random, and bytes that never were records, at every instant there is: an answer or an
/// error, and what is stored after an answer is readable again.
#[test]
fn no_bytes_make_it_panic() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(6);
    println!("SEED={seed}");
    let mut dice = Dice::new(seed);
    let records = golden();
    let calls = [
        ("tick", "{}"),
        ("inspect", "{}"),
        ("acquire", r#"{"token":"z","requestId":"9","waitMs":60000}"#),
        ("acquire", r#"{"token":"z","requestId":"9","steal":true}"#),
        ("release", r#"{"token":"a","fence":8}"#),
        ("cancel", r#"{"token":"b","requestId":"2"}"#),
        ("standing", r#"{"token":"c","requestId":"3"}"#),
        ("revoke", "{}"),
    ];
    let mut answered = 0;
    for _ in 0..100_000 {
        let mut bytes = records[dice.below(records.len() as u64) as usize].clone();
        for _ in 0..dice.between(1, 4) {
            let at = dice.below(bytes.len() as u64) as usize;
            match dice.below(4) {
                0 => bytes[at] = dice.roll() as u8,
                1 => bytes[at] ^= 1 << dice.below(8),
                2 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, dice.roll() as u8),
            }
        }
        let now = dice.pick(&[0, 1_002, 6_000, 20_000, 1 << 53, u64::MAX]);
        let (op, fields) = dice.pick(&calls);
        let Ok(decision) = decide(Some(&bytes), op, fields, now, dice.pick(&[0, 7, u64::MAX]), LIMITS) else {
            continue;
        };
        answered += 1;
        if let kernel::Change::Store(bytes) = decision.change {
            decide(Some(&bytes), "tick", "{}", now, 0, LIMITS).expect("what it wrote can be read");
        }
    }
    assert!(answered > 1_000, "{answered} of the changed records could be read");
}

#[test]
fn a_decision_that_changes_nothing_writes_nothing() {
    let granted = decide(None, "acquire", r#"{"token":"a","requestId":"1"}"#, 0, 0, LIMITS).unwrap();
    let kernel::Change::Store(bytes) = granted.change else { panic!("a lease is stored") };
    for (op, fields) in [
        ("inspect", "{}"),
        ("tick", "{}"),
        ("acquire", r#"{"token":"b","requestId":"2"}"#),
        ("acquire", r#"{"token":"a","requestId":"1"}"#),
        ("acquire", r#"{"token":"a","requestId":"1","ttlMs":0}"#),
        ("renew", r#"{"token":"a","fence":2}"#),
        ("standing", r#"{"token":"b","requestId":"2"}"#),
    ] {
        let decision = decide(Some(&bytes), op, fields, 10, 1, LIMITS).unwrap();
        assert_eq!(decision.change, kernel::Change::Unchanged, "{op} {fields}");
        assert_eq!(decision.last_fence, 1);
    }
}

/// A host that wants nothing remembered has no record of a free lock.
#[test]
fn a_free_lock_has_no_record() {
    let forgetful = Limits { remember: 0, ..LIMITS };
    let granted = decide(None, "acquire", r#"{"token":"a","requestId":"1"}"#, 0, 0, forgetful).unwrap();
    let kernel::Change::Store(bytes) = granted.change else { panic!("a lease is stored") };
    let released = decide(Some(&bytes), "release", r#"{"token":"a","fence":1}"#, 10, 1, forgetful).unwrap();
    assert_eq!((released.change, released.times.clean_at), (kernel::Change::Delete, None));

    let released = decide(Some(&bytes), "release", r#"{"token":"a","fence":1}"#, 10, 1, LIMITS).unwrap();
    let kernel::Change::Store(bytes) = released.change else { panic!("what was released is remembered") };
    assert_eq!(released.times.clean_at, Some(3_600_010));
    let forgotten = decide(Some(&bytes), "tick", "{}", 3_600_010, 1, LIMITS).unwrap();
    assert_eq!((forgotten.change, forgotten.times.clean_at), (kernel::Change::Delete, None));
}

/// Fences rise whatever the host passes: above the space's, above the record's own, not below the floor.
#[test]
fn a_fence_is_above_all_that_went_before() {
    let acquire = r#"{"token":"a","requestId":"1","mode":"shared"}"#;
    let fence = |prior: Option<&[u8]>, fields: &str, space| {
        let order = Order::read("acquire", "lock", serde_json_of(fields)).unwrap();
        let decision = kernel::decide(prior, &name("lock"), &order, 0, space, LIMITS).unwrap();
        let Some(Reply::Granted { lease, .. }) = decision.reply else { panic!("it is free") };
        assert_eq!(decision.last_fence, lease.fence.value());
        (lease.fence.value(), decision.change)
    };
    let (first, change) = fence(None, acquire, Space { last_fence: 41, fence_floor: 0 });
    assert_eq!(first, 42);
    let kernel::Change::Store(bytes) = change else { panic!("a lease is stored") };
    let other = r#"{"token":"b","requestId":"2","mode":"shared"}"#;
    assert_eq!(fence(Some(&bytes), other, Space { last_fence: 0, fence_floor: 0 }).0, 43);
    assert_eq!(fence(Some(&bytes), other, Space { last_fence: 100, fence_floor: 99 }).0, 101);
    assert_eq!(fence(Some(&bytes), other, Space { last_fence: 100, fence_floor: 200 }).0, 200);
}

/// A record never grows past what the host can store, also not when its waiters become holders.
#[test]
fn a_full_record_refuses_newcomers_and_serves_the_queue() {
    let limits = Limits { remember: 60_000, record_bytes: 4_000 };
    let (mut prior, mut last_fence, mut now, mut refused) = (None, 0, 1_000_000, 0);
    let mut asks = 0;
    let mut step = |prior: &mut Option<Vec<u8>>, op: &str, fields: &str, now| {
        let decision = decide(prior.as_deref(), op, fields, now, last_fence, limits).unwrap();
        last_fence = decision.last_fence;
        match decision.change {
            kernel::Change::Unchanged => {}
            kernel::Change::Store(bytes) => {
                assert!(bytes.len() <= limits.record_bytes, "{op} made a record of {} bytes", bytes.len());
                *prior = Some(bytes);
            }
            kernel::Change::Delete => *prior = None,
        }
        decision.reply
    };
    while refused < 5 {
        asks += 1;
        let ask = format!(
            r#"{{"token":"token {asks}","requestId":"{asks}","waitMs":60000,"ttlMs":86400000,"mode":"shared"}}"#
        );
        let first = r#"{"token":"first","requestId":"0","ttlMs":1000}"#;
        let fields = if asks == 1 { first } else { &ask };
        if let Some(Reply::Refused(refusal)) = step(&mut prior, "acquire", fields, now) {
            assert_eq!(refusal, leasehold::command::Refusal::QueueFull);
            refused += 1;
        }
    }
    assert!(asks > 30, "{asks} fit");
    now += 1_000;
    assert_eq!(step(&mut prior, "tick", "{}", now), None);
    let Some(Reply::Inspected { holders, waiters, .. }) = step(&mut prior, "inspect", "{}", now) else { panic!() };
    assert_eq!((holders.len(), waiters.len()), (asks - refused - 1, 0));
}

/// The lock's clock stands still while the host's is behind it.
#[test]
fn a_clock_that_runs_back_ends_nothing_early() {
    let granted = decide(None, "acquire", r#"{"token":"a","requestId":"1","ttlMs":1000}"#, 50_000, 0, LIMITS).unwrap();
    let kernel::Change::Store(bytes) = granted.change else { panic!("a lease is stored") };
    let renew = |now| decide(Some(&bytes), "renew", r#"{"token":"a","fence":1}"#, now, 1, LIMITS).unwrap().reply;
    for now in [0, 49_999, 50_999] {
        assert!(matches!(renew(now), Some(Reply::Renewed { .. })), "{now}");
    }
    assert!(matches!(renew(51_000), Some(Reply::Lost { .. })));
}

/// A queue as long as it may be, whose places all lapse at once.
#[test]
fn the_longest_queue_is_settled_in_a_moment() {
    use leasehold::command::Lost;
    let (mut prior, mut entries) = (None::<Vec<u8>>, Vec::new());
    let ask = |n: usize| format!(r#"{{"token":"token","requestId":"{n}","waitMs":60000}}"#);
    for n in 0..2 {
        let decision = decide(prior.as_deref(), "acquire", &ask(n), 1_000, 0, LIMITS).unwrap();
        let kernel::Change::Store(bytes) = decision.change else { panic!("an ask is stored") };
        prior = Some(bytes);
    }
    let mut whole = leasehold::record::read_whole(&prior.unwrap()).unwrap();
    entries.append(&mut whole.entries);
    for n in 2..10_000 {
        let mut next = entries[1].clone();
        next.place = n as u64 + 1;
        next.terms.request_id = leasehold::types::RequestId::new(&n.to_string()).unwrap();
        entries.push(next);
    }
    whole.entries = entries;
    let bytes = leasehold::record::write_whole(&whole);
    let decision = decide(Some(&bytes), "tick", "{}", 1_000_000, 1, LIMITS).unwrap();
    assert_eq!(decision.waiters.len(), 9_999);
    assert_eq!(decision.endings.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [Lost::Expired]);
    assert_eq!(decision.change, kernel::Change::Delete);
}

struct Native;

impl Kernel for Native {
    fn decide(&mut self, prior: Option<&[u8]>, call: &Call, now_at: u64, last_fence: u64) -> Decided {
        let order = Order::read(call.op, call.lock, serde_json_of(call.fields)).unwrap_or_else(Order::Refuse);
        let space = Space { last_fence, fence_floor: 0 };
        let Ok(lock) = Name::new(call.lock) else {
            let Order::Refuse(refusal) = order else { panic!("no lock of that name") };
            let (status, reply) = shown(&Reply::Refused(refusal));
            let change = Change::Unchanged;
            return Decided { status, reply, change, last_fence, waiters: vec![], wake_at: None, clean_at: None };
        };
        let decision = kernel::decide(prior, &lock, &order, now_at, space, LIMITS).expect("what it wrote can be read");
        let (status, reply) = decision.reply.as_ref().map_or((200, Value::Null), shown);
        Decided {
            status,
            reply,
            change: match decision.change {
                kernel::Change::Unchanged => Change::Unchanged,
                kernel::Change::Store(bytes) => Change::Store(bytes),
                kernel::Change::Delete => Change::Delete,
            },
            last_fence: decision.last_fence,
            waiters: decision
                .waiters
                .iter()
                .map(|told| (told.token.as_str().into(), told.request_id.as_str().into(), shown(&told.reply).1))
                .collect(),
            wake_at: decision.times.wake_at,
            clean_at: decision.times.clean_at,
        }
    }

    fn read_list(&mut self, fields: &str) -> Result<(String, Option<String>, u64), Value> {
        match wire::request(Op::List, &Json::Null, serde_json_of(fields)) {
            Ok(Request::List(list)) => {
                Ok((list.prefix, list.cursor.map(|cursor| cursor.as_str().into()), list.page_size.value()))
            }
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(shown(&Reply::Refused(refusal)).1),
        }
    }
}

fn decide(
    prior: Option<&[u8]>,
    op: &str,
    fields: &str,
    now: u64,
    last_fence: u64,
    limits: Limits,
) -> Result<Decision, Unreadable> {
    let order = Order::read(op, "lock", serde_json_of(fields)).unwrap_or_else(Order::Refuse);
    kernel::decide(prior, &name("lock"), &order, now, Space { last_fence, fence_floor: 0 }, limits)
}

fn shown(reply: &Reply) -> (u16, Value) {
    let (status, reply) = wire::reply(reply, "a space");
    (status, serde_json::to_value(&reply).expect("a reply is JSON"))
}

fn serde_json_of(text: &str) -> Json {
    Json::read(&mut serde_json::Deserializer::from_str(text)).expect("JSON")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn golden() -> Vec<Vec<u8>> {
    include_str!("golden/lock-record-v1.txt").lines().map(|line| from_hex(line.rsplit(' ').next().unwrap())).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}
