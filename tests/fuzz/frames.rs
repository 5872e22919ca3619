//! Messages of a socket, to the store where the first byte is even, to a client where it is odd.

use leasehold::command::Reply;
use leasehold::json::Json;
use leasehold::session::{Patience, Renewal, Session, Step};
use leasehold::types::{Fence, RequestId};
use leasehold::wire::{self, Frame, Framed};
use leasehold::worker::json;

use super::wire::{check_refused, check_written};
use crate::support::store::acquire;

pub fn run(bytes: &[u8]) {
    let Some((&to, text)) = bytes.split_first() else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let Ok(json) = json::read(text, "body") else {
        json::salvaged_id(text);
        return;
    };
    if to % 2 == 0 { to_the_store(json) } else { to_a_client(&json) }
}

/// As many answers as there were commands, each with the id that it can be told by.
fn to_the_store(json: Json) {
    let count = if let Json::List(items) = &json { items.len().max(1) } else { 1 };
    let frame = wire::frame(json);
    let commands = match &frame {
        Frame::One(command) => std::slice::from_ref(command),
        Frame::Many(commands) => commands,
    };
    assert_eq!(commands.len(), count, "one answer for each command");
    for Framed { id, request } in commands {
        let reply = match request {
            Ok(request) => {
                assert!(*id != Json::Null, "who is understood has an id");
                check_written(request);
                Reply::Unwatched
            }
            Err(refusal) => {
                check_refused(refusal);
                Reply::Refused(refusal.clone())
            }
        };
        let framed = json::read(&json::reply(Some(id), &reply, "a space"), "body").expect("a reply is JSON");
        assert_eq!(framed.member("id"), Some(id), "answered by its id");
        super::json::check_written(&framed);
    }
}

/// A session that hears any answers, one after the other, stays at peace: it does not ask without end at one instant, and
/// believes in no lease that it was not told of.
fn to_a_client(json: &Json) {
    let messages = if let Json::List(items) = json { items.as_slice() } else { std::slice::from_ref(json) };
    for (patience, renewal) in [(Patience::None, Renewal::Manual), (Patience::Unlimited, Renewal::Auto)] {
        let mut now = 1_000;
        let mut session = Session::acquire(acquire("a client"), patience, renewal, now);
        for message in messages {
            now += 100;
            let sent = settle(&mut session, now);
            let request_id = session.request_id().cloned();
            let fence = session.grant().map(|grant| grant.fence);
            if let Some(heard) = wire::told(message, request_id.as_ref(), fence) {
                session.told(heard, now);
            } else if let (Some(heard), Some(number)) = (wire::heard(message), sent) {
                session.heard(number, heard, now);
            }
            assert!(!session.is_held(now) || session.grant().is_some(), "held is what was granted");
        }
        session.release(now);
        settle(&mut session, now);
        assert!(!session.is_held(now), "rule 11: released");
    }
    let request_id = RequestId::new("request of a client").expect("a request id");
    wire::told(json, Some(&request_id), Some(Fence::MIN));
}

/// Does what is to be done at this instant; the number of what was sent last.
fn settle(session: &mut Session, now: u64) -> Option<u32> {
    let mut sent = None;
    for _ in 0..16 {
        match session.step(now, 0.5) {
            Step::Send { number, .. } => sent = Some(number),
            Step::Wait { until } => {
                assert!(until.is_none_or(|until| until > now), "nothing is left for this instant");
                return sent;
            }
            Step::Over => return sent,
        }
    }
    panic!("it asks without end")
}
