//! Text that came from anywhere, as the Worker reads it: what serde_json makes of it, and no more.

use leasehold::command::Refusal;
use leasehold::json::Json;
use leasehold::worker::json;

pub fn run(bytes: &[u8]) {
    // Before this comes a decoder that refuses what is not UTF-8.
    let Ok(text) = str::from_utf8(bytes) else { return };
    match (json::read(text, "body"), by_serde_json(text)) {
        (Ok(ours), Some(theirs)) => {
            assert_eq!(ours, theirs, "the same value");
            check_written(&ours);
        }
        (Err(Refusal::Invalid { .. }), None) => {}
        (ours, theirs) => panic!("ours {ours:?}, by serde_json {theirs:?}"),
    }
    json::salvaged_id(text);
}

/// The bounds on depth and members are those of [`Json::read`], which reads any format.
fn by_serde_json(text: &str) -> Option<Json> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let json = Json::read(&mut deserializer).ok()?;
    deserializer.end().ok().map(|()| json)
}

/// What is written is one line, is as long as was said, and says the same.
pub fn check_written(json: &Json) {
    let text = json::text(json);
    assert!(!text.contains(['\n', '\t']), "one line without a tab");
    assert_eq!(json::read(&text, "body").as_ref(), Ok(json), "what was written is read again");
    if has_integers_only(json) {
        assert_eq!(text.len(), json.byte_len(), "as long as was said");
    }
}

fn has_integers_only(json: &Json) -> bool {
    match json {
        Json::Null | Json::Bool(_) | Json::Text(_) => true,
        Json::Number(number) => number.fract() == 0.0 && number.abs() < (1u64 << 53) as f64,
        Json::List(items) => items.iter().all(has_integers_only),
        Json::Object(members) => members.iter().all(|(_, value)| has_integers_only(value)),
    }
}
