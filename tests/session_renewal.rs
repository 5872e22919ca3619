//! What a holder is promised of renewals it asks for itself.

use leasehold::command::{Command, Lost};
use leasehold::session::{End, Grant, Heard, Renewal, Session, Status, Step};
use leasehold::types::{Fence, Token, Ttl};

fn attached(renewal: Renewal) -> Session {
    Session::attach(Token::new("t").unwrap(), Fence::new(1.0).unwrap(), renewal, 1_000)
}

/// The renewal that is due at `now`: its number, and the length that it asks for.
#[track_caller]
fn renewal_at(session: &mut Session, now: u64) -> (u32, Option<u64>) {
    match session.step(now, 0.5) {
        Step::Send { number, command: Command::Renew(renew) } => (number, renew.ttl.map(Ttl::value)),
        step => panic!("no renewal at {now}, but {step:?}"),
    }
}

fn renewed(ttl: f64) -> Heard {
    let ttl = Ttl::new(ttl).unwrap();
    let grant = Grant { fence: Fence::new(1.0).unwrap(), ttl, expires_in: ttl.value(), expires_at: 0 };
    Heard::Renewed { grant }
}

#[test]
fn the_answer_to_an_earlier_renewal_is_not_the_answer_to_a_later_wish() {
    let mut session = attached(Renewal::Auto);
    let (first, length) = renewal_at(&mut session, 1_000);
    assert_eq!(length, None);
    session.renew(Some(Ttl::new(60_000.0).unwrap()), 1_010);
    session.heard(first, renewed(3_000.0), 1_020);
    let (second, length) = renewal_at(&mut session, 1_020);
    assert_eq!(length, Some(60_000));
    session.heard(second, renewed(60_000.0), 1_030);
    assert_eq!(session.step(1_030, 0.5), Step::Wait { until: Some(21_020) });
}

#[test]
fn a_wish_outlives_the_renewal_whose_answer_was_lost() {
    let mut session = attached(Renewal::Auto);
    let (first, _) = renewal_at(&mut session, 1_000);
    session.renew(Some(Ttl::new(60_000.0).unwrap()), 1_010);
    session.failed(first, leasehold::session::Failure::Unknown, 1_020, 0.5);
    let Step::Wait { until: Some(again_at) } = session.step(1_020, 0.5) else { panic!("a pause was due") };
    assert_eq!(renewal_at(&mut session, again_at).1, Some(60_000));
}

#[test]
fn what_is_left_of_a_lease_runs_down_to_the_instant_at_which_it_is_not_believed_any_more() {
    let mut session = attached(Renewal::Auto);
    assert_eq!(session.held_for(1_000), 0);
    let (first, _) = renewal_at(&mut session, 1_000);
    session.heard(first, renewed(3_000.0), 1_020);
    // Counted from before the renewal was sent; the margin is a tenth and a thousandth.
    assert_eq!(session.held_for(1_020), 3_000 - 300 - 3 - 20);
    assert_eq!((session.held_for(3_696), session.is_held(3_696)), (1, true));
    assert_eq!((session.held_for(3_697), session.is_held(3_697)), (0, false));
    session.release(1_030);
    assert_eq!(session.held_for(1_030), 0);
}

#[test]
fn renewing_that_is_switched_on_late_counts_from_the_last_renewal() {
    let mut session = attached(Renewal::Manual);
    session.renew(None, 1_000);
    let (first, _) = renewal_at(&mut session, 1_000);
    session.heard(first, renewed(300.0), 1_001);
    session.set_renewal(Renewal::Every(100), 1_200);
    renewal_at(&mut session, 1_200);
}

/// Somebody else may have attached to the lease and renewed it.
#[test]
fn a_lease_that_nobody_renewed_here_expires_without_a_word_to_the_store() {
    let mut session = attached(Renewal::Manual);
    session.renew(None, 1_000);
    let (first, _) = renewal_at(&mut session, 1_000);
    session.heard(first, renewed(300.0), 1_001);
    assert_eq!(session.step(1_270, 0.5), Step::Over);
    assert_eq!(session.status(), Status::Over(End::Lost(Lost::Expired)));
}
