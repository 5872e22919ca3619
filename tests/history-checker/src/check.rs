//! What a history must be: of each lock linearizable, and its fences in one order over all locks.

use std::collections::HashMap;

use anyhow::{Result, bail, ensure};
use todc_utils::{Action, WGLChecker};

use crate::history::{Event, Fence, History, Micros};
use crate::lock::LockSpecification;

/// Says what is wrong with the history.
pub fn all(history: &History) -> Result<()> {
    fences_rise(history)?;
    for lock in history.locks() {
        ensure!(is_linearizable(history.of(lock)), "the events of {lock} have no order in which the rules hold");
    }
    Ok(())
}

/// Rule 2 over the whole space: what was granted before another was asked for has the smaller fence.
fn fences_rise(history: &History) -> Result<()> {
    let mut grants: HashMap<Fence, &Event> = HashMap::new();
    for event in &history.events {
        if let Some(fence) = event.grants()
            && let Some(other) = grants.insert(fence, event)
        {
            bail!("fence {fence} was given twice, for {} and for {}", other.lock, event.lock);
        }
    }
    let mut by_fence: Vec<(Fence, &Event)> = grants.into_iter().collect();
    by_fence.sort_by_key(|(fence, _)| *fence);
    let mut latest_call: Micros = 0;
    for (fence, event) in by_fence {
        ensure!(event.answered_at >= latest_call, "fence {fence} was granted before a smaller one was asked for");
        latest_call = latest_call.max(event.called_at);
    }
    Ok(())
}

fn is_linearizable<'a>(events: impl Iterator<Item = &'a Event>) -> bool {
    let mut actions: Vec<(Micros, u8, usize, Action<Event>)> = Vec::new();
    for (id, event) in events.enumerate() {
        actions.push((event.called_at, 0, id, Action::Call(event.clone())));
        actions.push((event.answered_at, 1, id, Action::Response(event.clone())));
    }
    // Of one instant, calls first: what may have overlapped did.
    actions.sort_by_key(|(at, kind, id, _)| (*at, *kind, *id));
    let actions = actions.into_iter().map(|(_, _, id, action)| (id, action)).collect();
    WGLChecker::<LockSpecification>::is_linearizable(todc_utils::History::from_actions(actions))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDS: &str = r#"{"lock":"a","calledAt":0,"answeredAt":1000,"what":"granted","fence":1,"limit":null,"sentAt":0,"expiresInMs":100}"#;

    fn verdict(lines: &[&str]) -> Result<()> {
        all(&History::read(&lines.join("\n")).unwrap())
    }

    fn accepts(lines: &[&str]) {
        verdict(lines).unwrap();
    }

    fn refuses(lines: &[&str]) {
        assert!(verdict(lines).is_err());
    }

    #[test]
    fn a_successor_after_the_release_or_the_end() {
        let next = r#"{"lock":"a","calledAt":9000,"answeredAt":10000,"what":"granted","fence":2,"limit":null,"sentAt":9000,"expiresInMs":100}"#;
        let late = r#"{"lock":"a","calledAt":90000,"answeredAt":101000,"what":"granted","fence":2,"limit":null,"sentAt":99000,"expiresInMs":100}"#;
        accepts(&[HOLDS, r#"{"lock":"a","calledAt":2000,"answeredAt":3000,"what":"released","fence":1}"#, next]);
        accepts(&[HOLDS, r#"{"lock":"a","calledAt":2000,"answeredAt":3000,"what":"perhapsReleased","fence":1}"#, next]);
        accepts(&[HOLDS, late]);
        refuses(&[HOLDS, next]);
        refuses(&[HOLDS, r#"{"lock":"a","calledAt":10001,"answeredAt":10002,"what":"released","fence":1}"#, next]);
    }

    #[test]
    fn a_fence_that_falls_or_comes_twice() {
        let released = r#"{"lock":"a","calledAt":2000,"answeredAt":3000,"what":"released","fence":1}"#;
        let other = |fence| {
            format!(
                r#"{{"lock":"b","calledAt":5000,"answeredAt":6000,"what":"granted","fence":{fence},"limit":null,"sentAt":5000,"expiresInMs":100}}"#
            )
        };
        accepts(&[HOLDS, released, &other(2)]);
        refuses(&[HOLDS, released, &other(1)]);
        refuses(&[HOLDS, released, &other(0)]);
    }

    #[test]
    fn a_renewal_of_what_is_over() {
        let renewed = |called_at: Micros| {
            format!(
                r#"{{"lock":"a","calledAt":{called_at},"answeredAt":{},"what":"renewed","fence":1,"expiresInMs":100}}"#,
                called_at + 10
            )
        };
        accepts(&[HOLDS, &renewed(50_000)]);
        accepts(&[HOLDS, &renewed(50_000), &renewed(120_000)]);
        refuses(&[HOLDS, &renewed(120_000)]);
        accepts(&[
            HOLDS,
            r#"{"lock":"a","calledAt":60000,"answeredAt":70000,"what":"perhapsRenewed","fence":1}"#,
            &renewed(120_000),
        ]);
        refuses(&[HOLDS, r#"{"lock":"a","calledAt":60000,"answeredAt":70000,"what":"lost","fence":1}"#]);
    }

    #[test]
    fn a_belief_in_what_has_passed_on() {
        let believed = |called_at: Micros| {
            format!(
                r#"{{"lock":"a","calledAt":{called_at},"answeredAt":{},"what":"believed","fence":1}}"#,
                called_at + 1
            )
        };
        let kept = r#"{"lock":"a","calledAt":0,"answeredAt":1000,"what":"kept","fence":1,"limit":null,"ttlMs":100}"#;
        let next = r#"{"lock":"a","calledAt":150000,"answeredAt":151000,"what":"granted","fence":2,"limit":null,"sentAt":150000,"expiresInMs":100}"#;
        accepts(&[kept, &believed(149_000), next]);
        refuses(&[kept, &believed(152_000), next]);
    }

    #[test]
    fn a_lease_that_goes_on_after_a_revocation() {
        let revoked = r#"{"lock":"a","calledAt":2000,"answeredAt":3000,"what":"revoked","fence":1}"#;
        let perhaps = r#"{"lock":"a","calledAt":2000,"answeredAt":2000,"what":"perhapsRevoked","fence":1}"#;
        let next = r#"{"lock":"a","calledAt":9000,"answeredAt":10000,"what":"granted","fence":2,"limit":null,"sentAt":9000,"expiresInMs":100}"#;
        let renewed = r#"{"lock":"a","calledAt":3001,"answeredAt":3002,"what":"renewed","fence":1,"expiresInMs":100}"#;
        let released = r#"{"lock":"a","calledAt":3001,"answeredAt":3002,"what":"released","fence":1}"#;
        let lost = r#"{"lock":"a","calledAt":3001,"answeredAt":3002,"what":"lost","fence":1}"#;
        let nobody = r#"{"lock":"a","calledAt":3001,"answeredAt":3002,"what":"seen","holders":[]}"#;
        for possible in [next, lost, nobody] {
            accepts(&[HOLDS, revoked, possible]);
            accepts(&[HOLDS, perhaps, possible]);
            refuses(&[HOLDS, possible]);
        }
        for impossible in [renewed, released, revoked.replace("2000", "3001").replace("3000", "3002").as_str()] {
            refuses(&[HOLDS, revoked, impossible]);
            accepts(&[HOLDS, perhaps, impossible]);
        }
        refuses(&[HOLDS, perhaps, next, renewed.replace("300", "1100").as_str()]);
    }

    #[test]
    fn a_lease_that_goes_on_after_it_was_stolen() {
        let stolen = r#"{"lock":"a","calledAt":9000,"answeredAt":10000,"what":"granted","fence":2,"limit":null,"sentAt":9000,"expiresInMs":100,"steal":true}"#;
        let renewed =
            r#"{"lock":"a","calledAt":11000,"answeredAt":12000,"what":"renewed","fence":1,"expiresInMs":100}"#;
        accepts(&[HOLDS, stolen]);
        accepts(&[HOLDS, renewed]);
        refuses(&[HOLDS, stolen.replace("true", "false").as_str()]);
        refuses(&[HOLDS, stolen, renewed]);
        // Nobody heard of the theft, and perhaps there was none.
        let perhaps =
            r#"{"lock":"a","calledAt":2000,"answeredAt":50000,"what":"abandoned","ask":"y","limit":null,"steal":true}"#;
        let lost = r#"{"lock":"a","calledAt":3001,"answeredAt":3002,"what":"lost","fence":1}"#;
        accepts(&[HOLDS, perhaps, renewed]);
        accepts(&[HOLDS, perhaps, lost]);
        refuses(&[HOLDS, perhaps, lost, renewed]);
        let seen = r#"{"lock":"a","calledAt":3001,"answeredAt":3002,"what":"seen","holders":[{"fence":2,"ask":"y"}]}"#;
        accepts(&[HOLDS, perhaps, seen]);
        refuses(&[HOLDS, perhaps, seen, renewed]);
        refuses(&[HOLDS, perhaps.replace("true", "false").as_str(), seen]);
    }

    /// Whoever holds may not have been told yet: until the lease would have ended anyway.
    #[test]
    fn a_belief_in_what_somebody_else_ended() {
        let kept = r#"{"lock":"a","calledAt":0,"answeredAt":1000,"what":"kept","fence":1,"limit":null,"ttlMs":100}"#;
        let believed = |called_at: Micros| {
            let answered_at = called_at + 1;
            format!(r#"{{"lock":"a","calledAt":{called_at},"answeredAt":{answered_at},"what":"believed","fence":1}}"#)
        };
        let revoked = r#"{"lock":"a","calledAt":49000,"answeredAt":50000,"what":"revoked","fence":1}"#;
        let perhaps = r#"{"lock":"a","calledAt":49000,"answeredAt":49000,"what":"perhapsRevoked","fence":1}"#;
        let next = r#"{"lock":"a","calledAt":50100,"answeredAt":51000,"what":"granted","fence":2,"limit":null,"sentAt":50100,"expiresInMs":100}"#;
        let stolen = next.replace(":100}", r#":100,"steal":true}"#);
        for ended in [vec![revoked], vec![revoked, next], vec![perhaps, next], vec![stolen.as_str()]] {
            accepts(&[&[kept], ended.as_slice(), &[&believed(140_000)]].concat());
            refuses(&[&[kept], ended.as_slice(), &[&believed(160_000)]].concat());
        }
    }

    #[test]
    fn what_refusals_show() {
        let seen = |fences: &str| {
            format!(r#"{{"lock":"a","calledAt":5000,"answeredAt":6000,"what":"seen","holders":[{fences}]}}"#)
        };
        accepts(&[HOLDS, &seen(r#"{"fence":1,"ask":"x"}"#)]);
        refuses(&[HOLDS, &seen("")]);
        refuses(&[HOLDS, &seen(r#"{"fence":1,"ask":"x"},{"fence":2,"ask":"y"}"#)]);
        // Somebody gave up, and was granted all the same.
        let ended = r#"{"lock":"a","calledAt":2000,"answeredAt":2500,"what":"released","fence":1}"#;
        let given_up = r#"{"lock":"a","calledAt":100,"answeredAt":20000,"what":"abandoned","ask":"y","limit":null}"#;
        accepts(&[HOLDS, ended, given_up, &seen(r#"{"fence":2,"ask":"y"}"#)]);
        refuses(&[HOLDS, ended, &seen(r#"{"fence":2,"ask":"y"}"#)]);
    }

    #[test]
    fn more_permits_than_there_are() {
        let permit = |fence: Fence| {
            format!(
                r#"{{"lock":"s","calledAt":{fence},"answeredAt":{},"what":"granted","fence":{fence},"limit":2,"sentAt":{fence},"expiresInMs":100}}"#,
                fence + 100
            )
        };
        accepts(&[&permit(1), &permit(2)]);
        refuses(&[&permit(1), &permit(2), &permit(3)]);
        // One of two is an ask that was given up.
        let given_up = r#"{"lock":"s","calledAt":5,"answeredAt":9,"what":"abandoned","ask":"y","limit":2}"#;
        let seen = r#"{"lock":"s","calledAt":200,"answeredAt":300,"what":"seen","holders":[{"fence":1,"ask":"x"},{"fence":2,"ask":"y"}]}"#;
        accepts(&[&permit(1), given_up, seen]);
    }
}
