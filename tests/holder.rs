//! The holder's machine, a step at a time: what it sends, when, and what it believes. Named for what went wrong elsewhere.

use leasehold::command::{Acquire, Command, Entrance, Lost, Terms};
use leasehold::session::{End, Failure, Grant, Heard, Patience, Renewal, Session, Status, Step, margin};
use leasehold::types::{Fence, LockDelay, Mode, Ms, RequestId, Token, Ttl, Wait};

/// A session, its clock, and what it sent last.
struct Holder {
    session: Session,
    now: Ms,
}

const TTL: Ms = 30_000;

impl Holder {
    fn new(patience: Patience, renewal: Renewal) -> Self {
        Self { session: Session::acquire(acquire(), patience, renewal, 1_000), now: 1_000 }
    }

    /// One that holds since 1 000, and renews every 10 000.
    fn holding() -> Self {
        let mut holder = Self::new(Patience::None, Renewal::Auto);
        let (number, _) = holder.sends();
        holder.hears(number, granted(TTL, 0));
        assert!(holder.session.is_held(holder.now));
        holder
    }

    fn step(&mut self) -> Step {
        self.session.step(self.now, 0.5)
    }

    fn sends(&mut self) -> (u32, Command) {
        match self.step() {
            Step::Send { number, command } => (number, command),
            other => panic!("it was to send, and does {other:?} in {:?}", self.session),
        }
    }

    fn waits(&mut self) -> Option<Ms> {
        match self.step() {
            Step::Wait { until } => until,
            other => panic!("it was to wait, and does {other:?}"),
        }
    }

    fn hears(&mut self, number: u32, heard: Heard) {
        self.session.heard(number, heard, self.now);
    }

    fn fails(&mut self, number: u32) {
        self.session.failed(number, Failure::Unknown, self.now, 0.5);
    }

    /// Waits for as long as it says, and sends what it then says.
    fn sends_next(&mut self) -> (u32, Command) {
        loop {
            match self.step() {
                Step::Send { number, command } => return (number, command),
                Step::Wait { until: Some(until) } => self.now = until,
                other => panic!("it was to send some time, and does {other:?}"),
            }
        }
    }
}

fn acquire() -> Acquire {
    Acquire {
        terms: Terms {
            token: Token::new("the token").unwrap(),
            request_id: RequestId::new("the request").unwrap(),
            mode: Mode::Exclusive,
            ttl: Ttl::new(TTL as f64).unwrap(),
            max_hold: None,
            lock_delay: LockDelay::NONE,
            client_id: None,
            info: None,
        },
        wait: Wait::NONE,
        entry: Entrance::Queue,
    }
}

fn grant(expires_in: Ms) -> Grant {
    Grant { fence: Fence::MIN, ttl: Ttl::new(TTL as f64).unwrap(), expires_in, expires_at: 0 }
}

fn granted(expires_in: Ms, waited: Ms) -> Heard {
    Heard::Granted { grant: grant(expires_in), waited }
}

fn renewed() -> Heard {
    Heard::Renewed { grant: grant(TTL) }
}

#[test]
fn a_lease_is_believed_in_from_before_it_was_asked_for() {
    let mut holder = Holder::new(Patience::None, Renewal::Auto);
    let (number, _) = holder.sends();
    holder.now += 4_000;
    holder.hears(number, granted(TTL, 0));
    let deadline = 1_000 + TTL - margin(TTL);
    assert!(holder.session.is_held(deadline - 1));
    assert!(!holder.session.is_held(deadline), "at its deadline it is over");
}

#[test]
fn a_lease_is_renewed_every_third_of_its_ttl() {
    let mut holder = Holder::holding();
    for round in 1..10 {
        assert_eq!(holder.waits(), Some(1_000 + round * 10_000));
        holder.now = 1_000 + round * 10_000;
        let (number, command) = holder.sends();
        assert!(matches!(command, Command::Renew(_)));
        holder.hears(number, renewed());
    }
}

/// dynamolock#280: a lost heartbeat reply made the next one fail.
#[test]
fn a_renewal_whose_reply_was_lost_is_sent_again_and_succeeds() {
    let mut holder = Holder::holding();
    holder.now = 11_000;
    holder.sends();
    let (number, command) = holder.sends_next();
    assert!(matches!(command, Command::Renew(_)) && holder.now < 20_000);
    holder.hears(number, renewed());
    assert!(holder.session.is_held(holder.now + 20_000));
}

/// cozy-stack PR 4911: one transient failure ended the lease.
#[test]
fn a_lease_outlives_renewals_that_fail_for_half_its_ttl() {
    let mut holder = Holder::holding();
    holder.now = 11_000;
    while holder.now < 26_000 {
        let (number, command) = holder.sends_next();
        assert!(matches!(command, Command::Renew(_)));
        holder.fails(number);
        assert!(holder.session.is_held(holder.now));
    }
    let (number, _) = holder.sends_next();
    holder.hears(number, renewed());
    assert!(holder.session.is_held(holder.now + 25_000));
}

/// redis-semaphore#9, bullmq#3183: the event loop was blocked, the holder not told, the work done twice.
#[test]
fn after_a_block_of_twice_the_ttl_nothing_is_believed() {
    let mut holder = Holder::holding();
    holder.now += 2 * TTL;
    assert!(!holder.session.is_held(holder.now), "before any timer has run");
    let (_, command) = holder.sends();
    assert!(matches!(command, Command::Release(_)), "what a late renewal may have kept alive is given back");
    assert_eq!(holder.session.status(), Status::Over(End::Lost(Lost::Expired)));
}

#[test]
fn a_lease_that_nobody_can_renew_is_lost_at_its_deadline() {
    let mut holder = Holder::holding();
    loop {
        match holder.step() {
            Step::Send { number, command: Command::Renew(_) } => holder.fails(number),
            Step::Wait { until } => holder.now = until.unwrap(),
            Step::Send { .. } | Step::Over => break,
        }
    }
    assert_eq!(holder.now, 1_000 + TTL - margin(TTL));
    assert_eq!(holder.session.status(), Status::Over(End::Lost(Lost::Expired)));
}

/// redis-semaphore#205: workers died of "lock lost" while releasing.
#[test]
fn a_renewal_that_answers_lost_after_release_began_is_no_loss() {
    let mut holder = Holder::holding();
    holder.now = 11_000;
    let (renewal, _) = holder.sends();
    holder.session.release(holder.now);
    let (release, command) = holder.sends();
    assert!(matches!(command, Command::Release(_)), "at once, without waiting for the renewal");
    holder.hears(renewal, Heard::Lost(Lost::Released));
    assert_eq!(holder.session.status(), Status::Releasing);
    holder.hears(release, Heard::Released);
    assert_eq!((holder.session.status(), holder.step()), (Status::Over(End::Released), Step::Over));
}

/// redisson#7272, RedLock.net PR 64: the renewal outlived the unlock.
#[test]
fn after_release_nothing_is_sent_and_no_timer_is_left() {
    let mut holder = Holder::holding();
    holder.session.release(holder.now);
    let (first, _) = holder.sends();
    // The first is thought lost and sent again; then its answer comes after all.
    let (second, _) = holder.sends_next();
    holder.hears(first, Heard::Released);
    assert_eq!((holder.session.status(), holder.step()), (Status::Over(End::Released), Step::Over));
    holder.hears(second, Heard::Lost(Lost::Released));
    holder.now += TTL;
    assert_eq!((holder.session.status(), holder.step()), (Status::Over(End::Released), Step::Over));
}

/// redis-py#3847, #4258: a failed release could not be repeated.
#[test]
fn a_release_that_could_not_be_confirmed_can_be_repeated() {
    let mut holder = Holder::holding();
    holder.session.release(holder.now);
    while holder.session.status() == Status::Releasing {
        let (number, command) = holder.sends_next();
        assert!(matches!(command, Command::Release(_)));
        holder.fails(number);
        assert!(holder.now < 60_000);
    }
    assert_eq!(holder.session.status(), Status::Unconfirmed);
    assert_eq!(holder.waits(), None);
    holder.session.release(holder.now);
    let (number, _) = holder.sends();
    holder.hears(number, Heard::Lost(Lost::Expired));
    assert_eq!(holder.session.status(), Status::Over(End::Lost(Lost::Expired)));
}

/// The store did it, and its answer was lost with the connection.
#[test]
fn a_release_whose_answer_was_lost_has_released() {
    let mut holder = Holder::holding();
    holder.session.release(holder.now);
    let (first, _) = holder.sends();
    holder.fails(first);
    let (second, _) = holder.sends_next();
    holder.hears(second, Heard::Lost(Lost::Released));
    assert_eq!(holder.session.status(), Status::Over(End::Released));
    // It was not confirmed in time, and is repeated later.
    let mut holder = Holder::holding();
    holder.session.release(holder.now);
    while holder.session.status() == Status::Releasing {
        let (number, _) = holder.sends_next();
        holder.fails(number);
    }
    holder.session.release(holder.now);
    let (number, _) = holder.sends();
    holder.hears(number, Heard::Lost(Lost::Released));
    assert_eq!(holder.session.status(), Status::Over(End::Released));
}

/// A store remembers so many releases, and none over a restart.
#[test]
fn a_release_that_the_store_has_forgotten_has_released_while_nothing_else_can_have_ended_the_lease() {
    let asked_again = |later: Ms| {
        let mut holder = Holder::holding();
        holder.session.release(holder.now);
        while holder.session.status() == Status::Releasing {
            let (number, _) = holder.sends_next();
            holder.fails(number);
        }
        holder.now += later;
        holder.session.release(holder.now);
        let (number, _) = holder.sends();
        holder.hears(number, Heard::Lost(Lost::Unknown));
        holder.session.status()
    };
    assert_eq!(asked_again(0), Status::Over(End::Released));
    assert_eq!(asked_again(30_000), Status::Over(End::Lost(Lost::Unknown)));
    // What was not sent before has not done it.
    let mut holder = Holder::holding();
    holder.session.release(holder.now);
    let (number, _) = holder.sends();
    holder.hears(number, Heard::Lost(Lost::Unknown));
    assert_eq!(holder.session.status(), Status::Over(End::Lost(Lost::Unknown)));
}

/// That somebody else had released it before is something else, and so is whatever ended it against its holder's will.
#[test]
fn a_release_that_came_too_late_says_why() {
    let mut holder = Holder::holding();
    holder.session.release(holder.now);
    let (number, _) = holder.sends();
    holder.hears(number, Heard::Lost(Lost::Released));
    assert_eq!(holder.session.status(), Status::Over(End::Lost(Lost::Released)));
    for reason in [Lost::Expired, Lost::Revoked, Lost::Stolen] {
        let mut holder = Holder::holding();
        holder.session.release(holder.now);
        let (first, _) = holder.sends();
        holder.fails(first);
        let (second, _) = holder.sends_next();
        holder.hears(second, Heard::Lost(reason));
        assert_eq!(holder.session.status(), Status::Over(End::Lost(reason)));
    }
    // Refused, the first has done nothing.
    let mut holder = Holder::holding();
    holder.session.release(holder.now);
    let (first, _) = holder.sends();
    holder.session.failed(first, Failure::Final, holder.now, 0.5);
    assert_eq!(holder.session.status(), Status::Unconfirmed);
    holder.session.release(holder.now);
    let (second, _) = holder.sends();
    holder.hears(second, Heard::Lost(Lost::Released));
    assert_eq!(holder.session.status(), Status::Over(End::Lost(Lost::Released)));
}

/// node-redlock#65, #131, #168: release of an expired lock threw, or hung.
#[test]
fn a_release_of_a_lease_that_is_gone_is_over_in_one_round_trip() {
    let mut holder = Holder::holding();
    holder.session.release(holder.now);
    let (number, _) = holder.sends();
    holder.hears(number, Heard::Lost(Lost::Expired));
    assert_eq!(holder.session.status(), Status::Over(End::Lost(Lost::Expired)));
}

#[test]
fn a_lease_that_was_waited_for_is_claimed_at_once() {
    let mut holder = Holder::new(Patience::Unlimited, Renewal::Manual);
    let (number, _) = holder.sends();
    holder.now += 20_000;
    holder.hears(number, granted(5_000, 19_990));
    assert!(holder.session.is_held(holder.now + 4_000), "counted from the grant, not from the ask");
    let (number, command) = holder.sends();
    assert!(matches!(command, Command::Renew(_)));
    holder.hears(number, renewed());
    assert!(holder.session.is_held(holder.now + 29_000));
    assert_eq!(holder.waits(), Some(holder.now + TTL - margin(TTL)));
}

/// A wait of an hour is an hour by the store's clock: by the holder's, which may run slower, the lease began earlier.
#[test]
fn a_long_wait_is_not_counted_as_if_two_clocks_agreed() {
    let mut holder = Holder::new(Patience::Unlimited, Renewal::Auto);
    holder.sends();
    let waited = 3_600_000;
    holder.now += waited;
    holder.session.told(granted(5_000, waited), holder.now);
    let begun = holder.now - waited / 1_000;
    assert!(holder.session.is_held(begun + 5_000 - margin(5_000) - 1));
    assert!(!holder.session.is_held(begun + 5_000 - margin(5_000)));
}

/// redisson#3891, #5762: a missed wake-up meant waiting for ever.
#[test]
fn who_may_have_missed_what_the_store_says_unasked_asks_at_once() {
    let mut holder = Holder::new(Patience::Unlimited, Renewal::Auto);
    let (number, ask) = holder.sends();
    // Nothing is sent twice while an answer is awaited.
    holder.session.missed(holder.now);
    assert!(matches!(holder.step(), Step::Wait { .. }));
    holder.hears(number, Heard::Waiting { retry_after: 25_000 });
    assert_eq!(holder.waits(), Some(holder.now + 25_000));
    holder.now += 100;
    holder.session.missed(holder.now);
    let (number, again) = holder.sends();
    assert_eq!(ask, again);
    holder.hears(number, granted(TTL, 50));
    assert!(matches!(holder.step(), Step::Wait { .. }));
    holder.session.missed(holder.now);
    let (number, command) = holder.sends();
    assert!(matches!(command, Command::Renew(_)));
    holder.hears(number, renewed());
    holder.session.set_renewal(Renewal::Manual, holder.now);
    holder.session.missed(holder.now);
    assert!(matches!(holder.step(), Step::Wait { .. }), "who does not renew by itself does not because of this");
}

/// A loop that is started as soon as the lease is had put its claim off beyond the window.
#[test]
fn a_claim_is_not_put_off_by_another_renewal() {
    for renewal in [Renewal::Auto, Renewal::Every(10_000), Renewal::Manual] {
        let mut holder = Holder::new(Patience::Unlimited, Renewal::Manual);
        let (number, _) = holder.sends();
        holder.now += 20_000;
        holder.hears(number, granted(5_000, 19_990));
        holder.session.set_renewal(renewal, holder.now);
        let (number, command) = holder.sends();
        assert!(matches!(command, Command::Renew(_)), "{renewal:?}");
        holder.fails(number);
        holder.session.set_renewal(renewal, holder.now);
        let (number, command) = holder.sends_next();
        assert!(matches!(command, Command::Renew(_)), "{renewal:?}");
        holder.hears(number, renewed());
        let next = holder.waits().unwrap();
        let every = if renewal == Renewal::Manual { TTL - margin(TTL) } else { 10_000 };
        assert_eq!(next, holder.now + every, "{renewal:?}");
    }
}

#[test]
fn a_renewal_set_late_in_the_lease_is_due_at_once() {
    let mut holder = Holder::new(Patience::None, Renewal::Manual);
    let (number, _) = holder.sends();
    holder.hears(number, granted(TTL, 0));
    holder.now = 25_000;
    holder.session.set_renewal(Renewal::Auto, holder.now);
    assert!(matches!(holder.sends(), (_, Command::Renew(_))));
}

/// Jepsen etcd 3.4.3, etcd#9921: a waiter was granted after its own deadline.
#[test]
fn a_grant_that_comes_after_the_deadline_is_given_back() {
    let mut holder = Holder::new(Patience::For(2_000), Renewal::Auto);
    let (number, command) = holder.sends();
    assert!(matches!(command, Command::Acquire(Acquire { wait, .. }) if wait.value() == 2_000));
    holder.now += 2_000;
    holder.hears(number, granted(5_000, 1_999));
    assert!(!holder.session.is_held(holder.now));
    let (number, command) = holder.sends();
    assert!(matches!(command, Command::Cancel(_)));
    holder.hears(number, Heard::Cancelled);
    assert_eq!((holder.session.status(), holder.step()), (Status::Over(End::TimedOut), Step::Over));
}

/// client-go#1187: "stopped leading" although never leader.
#[test]
fn who_never_heard_of_a_lease_has_lost_none_and_asks_anew() {
    let mut holder = Holder::new(Patience::Unlimited, Renewal::Auto);
    let (number, _) = holder.sends();
    holder.now += 20_000;
    holder.fails(number);
    let (number, _) = holder.sends_next();
    holder.hears(number, Heard::Lost(Lost::Expired));
    assert_eq!(holder.session.status(), Status::Asking);
    match holder.sends_next() {
        (number, Command::Acquire(acquire)) => {
            assert_ne!(acquire.terms.request_id.as_str(), "the request", "the old one is over for good");
            assert_eq!(holder.session.request_id(), Some(&acquire.terms.request_id));
            holder.hears(number, granted(TTL, 0));
        }
        other => panic!("{other:?}"),
    }
    assert!(holder.session.is_held(holder.now));
}

/// Each time under another request id; they grew until there was no room, and then it was told of a loss.
#[test]
fn who_hears_of_its_leases_too_late_goes_on_asking_for_as_long_as_it_likes() {
    let long = RequestId::new(&"\u{e9}".repeat(64)).unwrap();
    let mut acquire = acquire();
    acquire.terms.request_id = long.clone();
    let mut holder = Holder { session: Session::acquire(acquire, Patience::Unlimited, Renewal::Auto, 0), now: 0 };
    let mut asked = std::collections::BTreeSet::new();
    for _ in 0..1_000 {
        let (number, command) = holder.sends_next();
        let Command::Acquire(acquire) = command else { panic!("{command:?}") };
        assert!(asked.insert(acquire.terms.request_id.as_str().to_owned()), "an id is over for good");
        holder.hears(number, Heard::Lost(Lost::Expired));
        assert_eq!(holder.session.status(), Status::Asking);
    }
}

/// The grant of an ask that was over was counted from the ask that came after it, and believed in for a ttl too long.
#[test]
fn a_late_answer_to_an_ask_that_is_over_is_no_answer_to_the_next() {
    let mut holder = Holder::new(Patience::Unlimited, Renewal::Auto);
    let (first, _) = holder.sends();
    let (second, _) = holder.sends_next();
    holder.hears(first, Heard::Lost(Lost::Expired));
    let (third, _) = holder.sends_next();
    holder.hears(second, granted(TTL, 0));
    assert!(!holder.session.is_held(holder.now));
    holder.hears(third, granted(TTL, 0));
    assert!(holder.session.is_held(holder.now));
}

/// It was told that somebody else had the lock, which nobody had said.
#[test]
fn who_only_tries_and_hears_of_its_lease_too_late_has_not_got_it() {
    let mut holder = Holder::new(Patience::None, Renewal::Auto);
    let (number, _) = holder.sends();
    holder.fails(number);
    let (number, _) = holder.sends_next();
    holder.hears(number, Heard::Lost(Lost::Expired));
    assert_eq!((holder.session.status(), holder.step()), (Status::Over(End::Failed), Step::Over));
}

/// The way to the store and back was longer than the lease: it took the lock again and again, for ever and for nothing.
#[test]
fn who_hears_of_each_lease_when_it_is_over_does_not_take_it_for_ever() {
    for (patience, most) in [(Patience::None, 2), (Patience::For(600_000), 4), (Patience::Unlimited, 4)] {
        let mut holder = Holder::new(patience, Renewal::Auto);
        for _ in 0..most {
            assert_eq!(holder.session.status(), Status::Asking);
            let (number, _) = holder.sends();
            holder.now += 1_500;
            holder.hears(number, granted(1_000, 0));
        }
        assert_eq!((holder.session.status(), holder.step()), (Status::Over(End::Failed), Step::Over));
    }
}

/// redis-py#621: the block ran although the lease was not had.
#[test]
fn a_grant_that_is_over_when_it_arrives_is_no_grant() {
    let mut holder = Holder::new(Patience::Unlimited, Renewal::Auto);
    let (number, _) = holder.sends();
    holder.now += 25_000;
    holder.hears(number, granted(300, 0));
    assert_eq!(holder.session.status(), Status::Asking);
    let (number, command) = holder.sends();
    assert!(matches!(command, Command::Acquire(_)), "the store knows whether it is over");
    holder.hears(number, granted(200, 0));
    assert!(holder.session.is_held(holder.now));
}

/// llm-d-rl-time-slicing#80, simstudio PR 6864: the acquire timed out at the client, the server kept the lock.
#[test]
fn an_ask_that_is_given_up_unanswered_is_cancelled() {
    let mut holder = Holder::new(Patience::Unlimited, Renewal::Auto);
    holder.sends();
    holder.session.release(holder.now);
    let (number, command) = holder.sends();
    assert!(matches!(command, Command::Cancel(_)));
    // It had been claimed by a copy of this session elsewhere: then it is released.
    holder.hears(number, granted(TTL, 0));
    let (number, command) = holder.sends();
    assert!(matches!(command, Command::Release(_)));
    holder.hears(number, Heard::Released);
    assert_eq!((holder.session.status(), holder.step()), (Status::Over(End::GivenUp), Step::Over));
}

#[test]
fn an_ask_that_is_given_up_before_it_was_sent_sends_nothing() {
    let mut holder = Holder::new(Patience::Unlimited, Renewal::Auto);
    holder.session.release(holder.now);
    assert_eq!((holder.session.status(), holder.step()), (Status::Over(End::GivenUp), Step::Over));
}

/// redisson#3004: a waiter was dropped after five minutes.
#[test]
fn a_wait_without_limit_asks_on_and_on() {
    let mut holder = Holder::new(Patience::Unlimited, Renewal::Auto);
    for _ in 0..100 {
        let (number, command) = holder.sends_next();
        assert!(matches!(command, Command::Acquire(Acquire { wait, .. }) if wait.value() == 25_000));
        holder.now += 25_010;
        holder.hears(number, Heard::Waiting { retry_after: 0 });
    }
    assert!(holder.now > 1_000_000);
    assert_eq!(holder.session.status(), Status::Asking);
}

/// upstash lock#16, redis-py#656: no release from another process.
#[test]
fn an_attached_lease_is_not_held_until_the_store_says_so() {
    let token = Token::new("the token").unwrap();
    let mut holder = Holder { session: Session::attach(token.clone(), Fence::MIN, Renewal::Auto, 500), now: 500 };
    assert!(!holder.session.is_held(500) && holder.session.status() == Status::Holding);
    let (number, command) = holder.sends();
    assert!(matches!(command, Command::Renew(_)));
    holder.hears(number, renewed());
    assert!(holder.session.is_held(500));

    let mut holder = Holder { session: Session::attach(token, Fence::MIN, Renewal::Manual, 500), now: 500 };
    assert_eq!(holder.waits(), None, "it is not renewed unless that is asked for");
    holder.session.release(500);
    let (number, command) = holder.sends();
    assert!(matches!(command, Command::Release(_)));
    holder.hears(number, Heard::Released);
    assert_eq!(holder.session.status(), Status::Over(End::Released));
}

/// A renewal asked for while another is on its way is one of its own.
#[test]
fn a_longer_ttl_asked_for_during_a_renewal_is_not_forgotten() {
    let mut holder = Holder::holding();
    holder.now = 11_000;
    let (number, _) = holder.sends();
    holder.session.renew(Some(Ttl::MAX), holder.now);
    holder.hears(number, renewed());
    match holder.sends() {
        (_, Command::Renew(renew)) => assert_eq!(renew.ttl, Some(Ttl::MAX)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_to_what_was_never_sent_is_nothing() {
    let mut holder = Holder::holding();
    holder.hears(99, Heard::Lost(Lost::Expired));
    holder.fails(99);
    assert!(holder.session.is_held(holder.now));
}

#[test]
fn the_margin_is_less_than_the_lease() {
    for length in [1, 2, 9, 10, 50, 250, 5_000, 30_000, 86_400_000] {
        assert!(margin(length) < length, "{length}");
    }
}

/// A server that answers `waiting` to whatever it is asked, at once, is not asked again and again without a pause.
#[test]
fn a_store_that_answers_nonsense_is_not_flooded_and_does_not_hold_up_the_deadline() {
    let Holder { mut session, mut now } = Holder::new(Patience::For(1_000), Renewal::Auto);
    let mut sent = 0;
    while now < 20_000 && !matches!(session.status(), Status::Over(_)) {
        match session.step(now, 0.5) {
            Step::Send { number, .. } => {
                sent += 1;
                session.heard(number, Heard::Waiting { retry_after: 0 }, now);
            }
            Step::Wait { until } => now = until.unwrap_or(now + 1_000).max(now + 1),
            Step::Over => break,
        }
    }
    assert_eq!(session.status(), Status::Over(End::TimedOut));
    assert!(now < 8_000, "it took {now} ms");
    assert!(sent < 60, "it was asked {sent} times");
}
