//! Commands and answers in a few words, for stories.

use leasehold::command::{Acquire, Command, Entrance};
use leasehold::session::{Failure, Heard};
use leasehold::types::Mode;

pub fn command(command: &Command) -> String {
    match command {
        Command::Acquire(one) => format!("acquire {}", acquire(one)),
        Command::Renew(renew) => {
            let ttl = renew.ttl.map(|ttl| format!(" ttl={}", ttl.value()));
            format!("renew fence={}{}", renew.fence.value(), ttl.unwrap_or_default())
        }
        Command::Release(release) => format!("release fence={}", release.fence.value()),
        Command::Cancel(cancel) => format!("cancel \"{}\"", cancel.request_id.as_str()),
        Command::Revoke(revoke) => format!("revoke fence={:?}", revoke.fence.map(|fence| fence.value())),
        Command::Inspect => "inspect".into(),
    }
}

pub fn acquire(acquire: &Acquire) -> String {
    let terms = &acquire.terms;
    let mut words = format!("\"{}\" ttl={}", terms.request_id.as_str(), terms.ttl.value());
    let mut add = |word: String| {
        words.push(' ');
        words.push_str(&word);
    };
    match terms.mode {
        Mode::Exclusive => {}
        Mode::Shared(None) => add("shared".into()),
        Mode::Shared(Some(limit)) => add(format!("limit={}", limit.value())),
    }
    if acquire.wait.value() > 0 {
        add(format!("wait={}", acquire.wait.value()));
    }
    if let Some(max_hold) = terms.max_hold {
        add(format!("maxhold={}", max_hold.value()));
    }
    if terms.lock_delay.value() > 0 {
        add(format!("delay={}", terms.lock_delay.value()));
    }
    if acquire.entry == Entrance::Steal {
        add("steal".into());
    }
    words
}

pub fn heard(heard: Result<Heard, Failure>) -> String {
    match heard {
        Ok(Heard::Granted { grant, waited }) => format!(
            "granted fence={} expires={} (in {}) waited={waited}",
            grant.fence.value(),
            grant.expires_at,
            grant.expires_in
        ),
        Ok(Heard::Renewed { grant }) => format!("renewed expires={} (in {})", grant.expires_at, grant.expires_in),
        Ok(Heard::Held { .. }) => "held".into(),
        Ok(Heard::Waiting { .. }) => "waiting".into(),
        Ok(Heard::Lost(reason)) => format!("lost {reason:?}"),
        Ok(Heard::Released) => "released".into(),
        Ok(Heard::Cancelled) => "cancelled".into(),
        Err(Failure::Unknown) => "of no answer".into(),
        Err(Failure::Final) => "of a refusal".into(),
    }
}
