//! Stored bytes: a row of the Durable Object, a record of the component, and what is decided over either. Bytes that are
//! no record are refused as such; those that are may say what no store of ours ever wrote.

use leasehold::json::Json;
use leasehold::kernel::{self, Change, Limits, Order, Space};
use leasehold::ledger::Ledger;
use leasehold::record;
use leasehold::service::{Call, Service};
use leasehold::types::Name;
use leasehold::wire::{self, Op};
use leasehold::worker::json;

use crate::support::rows::Rows;

const PLACE: u64 = 7;
const LOCK: &str = "a lock";
const LIMITS: Limits = Limits { remember: 3_600_000, record_bytes: 1 << 20 };

/// What may be asked of a lock of which nothing is known.
const ASKED: [(&str, &str); 9] = [
    ("tick", "{}"),
    ("inspect", "{}"),
    ("acquire", r#"{"token":"z","requestId":"9"}"#),
    ("acquire", r#"{"token":"z","requestId":"9","waitMs":60000,"mode":"shared","limit":3}"#),
    ("acquire", r#"{"token":"a","requestId":"1","steal":true}"#),
    ("renew", r#"{"token":"a","fence":8,"ttlMs":86400000}"#),
    ("release", r#"{"token":"a","fence":8}"#),
    ("cancel", r#"{"token":"a","requestId":"1"}"#),
    ("revoke", "{}"),
];

/// Where a clock may stand, also one that is far off.
const CLOCKS: [u64; 6] = [0, 1_002, 1_700_000_000_000, 1_700_000_031_000, 1 << 53, u64::MAX];

/// The first byte says what the bytes after the next two are; those choose what is asked, and when.
pub fn run(bytes: &[u8]) {
    let [kind, asked, clock, record @ ..] = bytes else { return };
    let asked = ASKED[usize::from(*asked) % ASKED.len()];
    let now = CLOCKS[usize::from(*clock) % CLOCKS.len()];
    if kind % 2 == 0 { row(record, asked, now) } else { whole(record, asked, now) }
}

fn row(bytes: &[u8], (op, fields): (&str, &str), now: u64) {
    if let Ok(entry) = record::read(PLACE, bytes) {
        let again = record::read(PLACE, &record::write(&entry));
        assert_eq!(again.as_ref(), Ok(&entry), "what was written is read again");
    }
    let rows = Rows::default();
    rows.put_raw(LOCK, PLACE, bytes.to_vec());
    let mut service = Service::new(Ledger::start(rows, 0).expect("the rows can be counted"));
    let calls = Op::from_name(op).map(|op| {
        let fields = json::read(fields, "body").expect("the fields are JSON");
        Call { ticket: 1, via: None, request: wire::request(op, &Json::Text(LOCK.into()), fields) }
    });
    let list = Call { ticket: 2, via: None, request: wire::request(Op::List, &Json::Null, Json::Object(vec![])) };
    // The store answers, or says that it cannot read its rows; either way it can be asked again later.
    for (calls, now) in [(calls.into_iter().collect(), now), (vec![list], now.saturating_add(60_000))] {
        let _ = service.turn(calls, &[], now);
    }
}

fn whole(bytes: &[u8], (op, fields): (&str, &str), now: u64) {
    if let Ok(whole) = record::read_whole(bytes) {
        let again = record::read_whole(&record::write_whole(&whole));
        assert_eq!(again.as_ref(), Ok(&whole), "what was written is read again");
    }
    let name = Name::new(LOCK).expect("a name");
    let fields = json::read(fields, "body").expect("the fields are JSON");
    let order = Order::read(op, LOCK, fields).expect("it can be asked");
    let space = Space { last_fence: 7, fence_floor: 0 };
    let Ok(decision) = kernel::decide(Some(bytes), &name, &order, now, space, LIMITS) else { return };
    assert!(decision.last_fence >= space.last_fence, "rule 2: fences never fall");
    if let Change::Store(bytes) = decision.change {
        let later = now.saturating_add(60_000);
        let again = kernel::decide(Some(&bytes), &name, &Order::Tick, later, space, LIMITS);
        again.expect("what it wrote can be read");
    }
}
