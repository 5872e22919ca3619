//! Entries as bytes: what is written is read again, now and by every later version, and nothing that is not a record
//! panics or passes for one.

mod support;

use std::fs;
use std::path::PathBuf;

use leasehold::command::{Lost, Terms};
use leasehold::json::Json;
use leasehold::ledger::Ledger;
use leasehold::lock::{Claim, Entry, Holding, State};
use leasehold::record;
use leasehold::service::{Call, Service};
use leasehold::types::{ClientId, Connection, Fence, Info, Limit, LockDelay, MaxHold, Mode, RequestId, Token, Ttl};
use support::dice::Dice;
use support::rows::Rows;

/// Every state there is, with and without everything that may be absent.
fn entries() -> Vec<Entry> {
    let holding = |claim| {
        State::Holding(Holding {
            fence: Fence::MAX,
            granted_at: 1_700_000_000_000,
            expires_at: 1_700_000_030_000,
            claim,
        })
    };
    let ended = |reason| State::Ended { fence: Fence::MIN, reason, until: 60_000, closed_until: 50_000 };
    let states = [
        State::Waiting { until: 1_700_000_065_000 },
        holding(Claim::Answered),
        holding(Claim::Open),
        holding(Claim::Made),
        ended(Lost::Expired),
        ended(Lost::Released),
        ended(Lost::Revoked),
        ended(Lost::Stolen),
        ended(Lost::Unknown),
    ];
    let info = Json::Object(vec![
        ("text".into(), Json::Text("a \u{1f512}".into())),
        ("list".into(), Json::List(vec![Json::Null, Json::Bool(true), Json::Number(-0.5), Json::List(vec![])])),
        ("object".into(), Json::Object(vec![("".into(), Json::Bool(false))])),
    ]);
    let plain = Terms {
        token: Token::new("a token").unwrap(),
        request_id: RequestId::new("a request").unwrap(),
        mode: Mode::Exclusive,
        ttl: Ttl::DEFAULT,
        max_hold: None,
        lock_delay: LockDelay::NONE,
        client_id: None,
        info: None,
    };
    let full = Terms {
        token: Token::new(&"t".repeat(128)).unwrap(),
        mode: Mode::Shared(Some(Limit::MAX)),
        ttl: Ttl::MAX,
        max_hold: Some(MaxHold::MAX),
        lock_delay: LockDelay::MAX,
        client_id: Some(ClientId::new("\u{fc}").unwrap()),
        info: Some(Info::new(info).unwrap()),
        ..plain.clone()
    };
    let shared = Terms { mode: Mode::Shared(None), ..plain.clone() };
    let entry = |terms: &Terms, state, connection| Entry {
        place: 7,
        terms: terms.clone(),
        asked_at: 1_700_000_000_000,
        connection,
        former: None,
        state,
        is_stored: true,
    };
    let of_each = |terms: Terms, connection| states.map(|state| entry(&terms, state, connection));
    [of_each(plain, None), of_each(full, Some(Connection(u64::MAX))), of_each(shared, Some(Connection(0)))].concat()
}

#[test]
fn an_entry_that_is_written_reads_the_same() {
    for entry in entries() {
        assert_eq!(record::read(7, &record::write(&entry)), Ok(entry));
    }
}

/// Records of version 1 stay readable for ever. `LEASEHOLD_BLESS=1` writes the file where it is missing; a record that
/// changes needs a new version, not a new file.
#[test]
fn records_of_version_1_read_as_they_always_did() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/record-v1.txt");
    if !path.exists() && std::env::var_os("LEASEHOLD_BLESS").is_some() {
        let lines: Vec<_> = entries().iter().map(|entry| format!("{}\n", hex(&record::write(entry)))).collect();
        fs::write(&path, lines.concat()).unwrap();
    }
    let golden = fs::read_to_string(&path).expect("the records of version 1 are there");
    let lines: Vec<_> = golden.lines().collect();
    assert_eq!(lines.len(), entries().len());
    for (line, entry) in lines.into_iter().zip(entries()) {
        assert_eq!(record::read(7, &unhex(line)), Ok(entry.clone()), "{line}");
        assert_eq!(hex(&record::write(&entry)), line);
    }
}

#[test]
fn a_record_of_a_newer_version_is_an_error_that_says_so() {
    for version in [0, 2, 3, 255] {
        let mut bytes = record::write(&entries()[0]);
        bytes[0] = version;
        let fault = record::read(7, &bytes).unwrap_err();
        assert!(fault.0.contains(&version.to_string()), "{fault:?}");
    }
}

#[test]
fn half_a_record_is_no_record_and_neither_is_one_and_a_half() {
    for entry in entries() {
        let bytes = record::write(&entry);
        for length in 0..bytes.len() {
            assert!(record::read(7, &bytes[..length]).is_err(), "{length} bytes of {}", hex(&bytes));
        }
        assert!(record::read(7, &[&bytes[..], &[0]].concat()).is_err());
    }
}

/// What is read is right, whatever was written: a ttl of 0 would live for days (rustfs#5939), or for ever.
#[test]
fn damaged_records_never_panic_and_never_read_as_impossible() {
    let mut dice = Dice::new(5);
    let originals: Vec<_> = entries().iter().map(record::write).collect();
    for _ in 0..200_000 {
        let mut bytes = originals[dice.below(originals.len() as u64) as usize].clone();
        for _ in 0..dice.between(1, 4) {
            let at = dice.below(bytes.len() as u64) as usize;
            match dice.below(4) {
                0 => bytes[at] = dice.roll() as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, dice.roll() as u8),
                _ => bytes[at] = dice.pick(&[0, 1, 4, 5, 0x7f, 0x80, 0xff]),
            }
            if bytes.is_empty() {
                bytes.push(1);
            }
        }
        if let Ok(entry) = record::read(7, &bytes) {
            assert!(entry.terms.ttl >= Ttl::MIN && entry.terms.ttl <= Ttl::MAX);
            let again = record::read(7, &record::write(&entry));
            assert_eq!(again, Ok(entry));
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut dice = Dice::new(6);
    for _ in 0..200_000 {
        let length = dice.below(200);
        let mut bytes: Vec<u8> = (0..length).map(|_| dice.roll() as u8).collect();
        bytes.insert(0, 1);
        let _ = record::read(7, &bytes);
    }
}

/// A list in a list in a list: two bytes each, and a reader that follows them overflows its stack.
#[test]
fn deeply_nested_info_is_refused_before_the_stack_ends() {
    let nested = |depth: usize| (0..depth).fold(Json::Null, |inner, _| Json::List(vec![inner]));
    let mut entry = entries()[0].clone();
    entry.terms.info = Some(Info::new(nested(32)).unwrap());
    assert_eq!(record::read(7, &record::write(&entry)), Ok(entry.clone()));
    for depth in [40, 500] {
        entry.terms.info = Some(Info::new(nested(depth)).unwrap());
        assert!(record::read(7, &record::write(&entry)).is_err(), "{depth}");
    }
    // As many as a row can hold, after the members before it.
    let bytes = record::write(&Entry { terms: Terms { info: None, ..entry.terms.clone() }, ..entry });
    for at in 0..bytes.len() {
        let deep = [&bytes[..at], &[1], &[4, 1].repeat(500_000), &bytes[at..]].concat();
        let _ = record::read(7, &deep);
        let deep = [&bytes[..at], &[1], &[5, 1, 1, b'x'].repeat(250_000), &bytes[at..]].concat();
        let _ = record::read(7, &deep);
    }
}

/// Claims a length of gigabytes.
#[test]
fn a_record_that_claims_to_be_huge_costs_no_memory() {
    let bytes = record::write(&entries()[0]);
    for at in 1..bytes.len() {
        for kind in [4, 5] {
            let huge = [&bytes[..at], &[1, kind, 0xff, 0xff, 0xff, 0xff, 0x0f], &bytes[at..]].concat();
            let _ = record::read(7, &huge);
        }
    }
}

#[test]
fn a_row_that_cannot_be_read_is_a_fault_and_no_free_lock() {
    let rows = Rows::default();
    rows.put_raw("lock", 1, vec![2, 0, 0]);
    let mut service = Service::new(Ledger::start(rows, 0).unwrap());
    let lock = Json::Text("lock".into());
    let fields = vec![("token".into(), Json::Text("t".into())), ("requestId".into(), Json::Text("r".into()))];
    let request = leasehold::wire::request(leasehold::wire::Op::Acquire, &lock, Json::Object(fields));
    assert!(service.turn(vec![Call { ticket: 1, via: None, request }], &[], 1_000).is_err());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
