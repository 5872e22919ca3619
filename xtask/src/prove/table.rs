//! Every way in which the rules are broken on purpose, to see that it is noticed.

/// A change of the sources that breaks a rule.
pub struct Mutation {
    pub rule: u8,
    /// What is wrong with it, in words.
    pub name: &'static str,
    pub file: &'static str,
    /// Text that occurs once in the file. What stands between « and » in it is changed.
    pub site: &'static str,
    /// What stands there instead: as the site, an expression, or whole statements.
    pub instead: &'static str,
    /// The test that has to notice.
    pub test: &'static str,
}

pub const SIMULATION: &str = "simulation";

const fn mutation(
    rule: u8,
    name: &'static str,
    file: &'static str,
    site: &'static str,
    instead: &'static str,
) -> Mutation {
    Mutation { rule, name, file, site, instead, test: SIMULATION }
}

impl Mutation {
    const fn noticed_by(self, test: &'static str) -> Self {
        Self { test, ..self }
    }
}

pub const MUTATIONS: &[Mutation] = &[
    // 1. Exclusion.
    mutation(1, "a second writer joins the first", "lock.rs", "Mode::Exclusive => «holding == 0»", "true"),
    mutation(1, "a reader joins a writer", "lock.rs", "«!alone» && limit", "true"),
    mutation(
        1,
        "a semaphore has one permit too many",
        "lock.rs",
        "«(holding as u64) < limit.value()»",
        "(holding as u64) <= limit.value()",
    ),
    // 2. Fence.
    mutation(2, "a restart forgets the counter", "ledger.rs", "Journal::new(«start.fence», fence_floor)", "0"),
    mutation(2, "the floor is not kept", "types.rs", "«last.saturating_add(1).max(floor)»", "last.saturating_add(1)"),
    mutation(2, "fences are not reserved", "ledger.rs", "if «self.fence <= self.reserved»", "true"),
    mutation(2, "a lease keeps the fence before it", "ledger.rs", "«self.fence = fence.value();»", ""),
    // 3. Expiry is a comparison.
    mutation(
        3,
        "a lease is over after its last instant, not at it",
        "engine.rs",
        "«*due_at <= self.now»",
        "*due_at < self.now",
    ),
    mutation(
        3,
        "an end is seen a second late",
        "engine.rs",
        "«*due_at <= self.now»",
        "due_at.saturating_add(1_000) <= self.now",
    ),
    mutation(
        3,
        "a lease ends a little early",
        "engine.rs",
        "«*due_at <= self.now»",
        "due_at.saturating_sub(20) <= self.now",
    ),
    // 4. Time.
    mutation(4, "the clock runs back with the host's", "ledger.rs", "self.latest = «self.latest.max(now)»", "now"),
    mutation(4, "a restart forgets where the clock was", "ledger.rs", "latest: «start.clock»", "0"),
    // 5. Guard.
    mutation(
        5,
        "the token is not looked at",
        "engine.rs",
        "«self.open.lock.by_fence(fence).filter(|entry| entry.terms.token == *token)»",
        "self.open.lock.by_fence(fence)",
    ),
    mutation(
        5,
        "the fence is not looked at",
        "engine.rs",
        "«self.open.lock.by_fence(fence).filter(|entry| entry.terms.token == *token)»",
        "self.open.lock.holders().map(|(entry, _)| entry).find(|entry| entry.terms.token == *token)",
    ),
    mutation(
        5,
        "a lease that is over is renewed back to life",
        "engine.rs",
        "Some((_, State::Ended { reason, .. })) => «Err(reason)»",
        "match self.open.lock.by_fence(fence) {
            Some(entry) => Ok((
                entry.place,
                Holding { fence, granted_at: entry.asked_at, expires_at: self.now, claim: Claim::Made },
            )),
            None => Err(reason),
        }",
    ),
    mutation(
        5,
        "that a lease has expired is not written",
        "engine.rs",
        "«self.open.change(place, &mut end)»",
        "if reason == Lost::Expired {
            self.open.lock.change(place, &mut end)
        } else {
            self.open.change(place, &mut end)
        }",
    )
    .noticed_by("traces"),
    // 6. Idempotence.
    mutation(
        6,
        "a repeated ask is a new one",
        "engine.rs",
        "= «self.open.lock.by_request(&terms.token, &terms.request_id)»",
        "None::<&Entry>",
    ),
    mutation(
        6,
        "all asks of a token are one",
        "lock.rs",
        "«self.terms.request_id == *request_id && self.terms.token == *token»",
        "self.terms.token == *token",
    ),
    mutation(
        6,
        "a late copy of a cancelled ask is a new one",
        "engine.rs",
        "= «self.open.notes.gone_request(self.open.name, &terms.token, &terms.request_id)»",
        "None::<Lost>",
    ),
    mutation(
        6,
        "what expired is forgotten at once",
        "engine.rs",
        "«holding.expires_at.saturating_add(entry.terms.ttl.value()).max(closed_until)»",
        "closed_until",
    ),
    // 7. Queue.
    mutation(7, "a newcomer barges", "engine.rs", "«self.open.lock.waiting() == 0» && self.admits", "true"),
    mutation(
        7,
        "the last in the queue is the first out",
        "lock.rs",
        "None => «self.entries().find(|entry| matches!(entry.state, State::Waiting { .. }))»",
        "self.entries().filter(|entry| matches!(entry.state, State::Waiting { .. })).last()",
    ),
    mutation(7, "the queue does not move when a lease ends", "engine.rs", "«turn.settle();»\n    outcome", ""),
    mutation(
        7,
        "who is granted is not told",
        "service.rs",
        "Event::Left { place } => «self.tell_waiter(lock, place, now, turn)?»",
        "()",
    ),
    mutation(
        7,
        "everybody who waits is woken",
        "service.rs",
        "Event::Left { place } => «self.tell_waiter(lock, place, now, turn)?»",
        "{
            let waiting: Vec<_> = self.ledger.open(lock)?.lock.waiters().map(|entry| entry.place).collect();
            self.ledger.close(lock, now);
            for other in waiting {
                self.tell_waiter(lock, other, now, turn)?;
            }
            self.tell_waiter(lock, place, now, turn)?
        }",
    ),
    // 8. Waiting is bounded.
    mutation(8, "a waiter's lease needs no claim", "engine.rs", "Claim::Open => «ttl.min(CLAIM_MS)»", "ttl"),
    mutation(
        8,
        "a place outlives who asks for it",
        "engine.rs",
        "«self.now.saturating_add(acquire.wait.value()).saturating_add(GRACE_MS)»",
        "self.now.saturating_add(3_600_000)",
    ),
    mutation(
        8,
        "a place does not last for the grace",
        "engine.rs",
        "«self.now.saturating_add(acquire.wait.value()).saturating_add(GRACE_MS)»",
        "self.now.saturating_add(acquire.wait.value())",
    ),
    mutation(
        8,
        "the waiters of a closed socket stay",
        "engine.rs",
        "«turn.open.remove(place);»\n        turn.events.push(Event::Left",
        "",
    ),
    mutation(8, "who cancels keeps its place", "engine.rs", "State::Waiting { .. } => «self.forget(place)»", "()"),
    mutation(
        8,
        "a claim does not make a lease full",
        "engine.rs",
        "end_of(entry.terms.max_hold, holding.granted_at, self.now, «entry.terms.ttl.value()»)",
        "entry.terms.ttl.value().min(CLAIM_MS)",
    ),
    mutation(
        8,
        "an ask has no deadline",
        "session.rs",
        "Phase::Asking(asking) if «asking.deadline.is_some_and(|deadline| deadline <= now)» => {\n                self.give_up_with(End::TimedOut, now)\n            }\n            Phase::Asking(_) |",
        "false",
    ),
    // 9. Store, then speak.
    mutation(9, "nothing is stored", "ledger.rs", "«self.storage.write(&changes, reserved)?;»", ""),
    mutation(
        9,
        "a write that fails is told as done",
        "ledger.rs",
        "«self.storage.write(&changes, reserved)?;»",
        "self.storage.write(&changes, reserved).unwrap_or_default();",
    ),
    mutation(9, "a store that was replaced answers", "service.rs", "«self.ledger.probe()?;»", ""),
    mutation(
        9,
        "a renewal is not stored",
        "engine.rs",
        "«self.open.change(place, &mut prolong)»",
        "self.open.lock.change(place, &mut prolong)",
    ),
    // 10. The holder is told the truth.
    mutation(
        10,
        "a deadline counts from the answer",
        "session.rs",
        "«self.hold(grant, flight.sent_at, now)»",
        "self.hold(grant, now, now)",
    ),
    mutation(10, "there is no margin", "session.rs", "«(length / 10).min(500) + drift(length)»", "0"),
    mutation(
        10,
        "a long wait is counted as if clocks agreed",
        "session.rs",
        "«waited.saturating_sub(drift(waited))»",
        "waited",
    ),
    mutation(
        10,
        "an answer that did not come extends the lease",
        "session.rs",
        "«held.renew_at = Some(again_at)»",
        "{
            held.deadline = held.deadline.saturating_add(held.grant.ttl.value());
            held.renew_at = Some(again_at)
        }",
    ),
    mutation(10, "the clock is not looked at", "session.rs", "«now < held.deadline»", "held.deadline > 0"),
    mutation(
        10,
        "a shorter renewal counts when it is answered",
        "session.rs",
        "held.deadline = «held.deadline.min(believed_until(now, ttl.value()))»",
        "held.deadline",
    ),
    mutation(
        10,
        "nobody wakes the holder at the end",
        "session.rs",
        "Phase::Holding(held) => «Some(held.deadline).filter(|deadline| *deadline > 0)»",
        "None",
    ),
    mutation(
        10,
        "a late answer to an ask that is over counts for the next",
        "session.rs",
        "// What is still heard is about the ask that is over.\n                    «self.flights.clear();»",
        "",
    )
    .noticed_by("holder"),
    // 11. Renewal and release never race.
    mutation(
        11,
        "released is said before the store has heard of it",
        "session.rs",
        "«self.go(Phase::Releasing { fence, next_at: now, end: None })»",
        "self.go(Phase::Over(End::Released))",
    ),
    mutation(
        11,
        "a lease that ended by itself counts as released",
        "session.rs",
        "reason == Lost::Unknown && «now < self.would_end_at»",
        "true",
    )
    .noticed_by("holder"),
    mutation(
        11,
        "a renewal is sent while it releases",
        "session.rs",
        "«Command::Release(Release { token: token.clone(), fence: *fence })»",
        "Command::Renew(Renew { token: token.clone(), fence: *fence, ttl: None })",
    ),
    mutation(
        11,
        "a timer is left after the release",
        "session.rs",
        "if let Phase::Over(_) = self.phase {\n            «return Step::Over;»",
        "",
    ),
    // 12. Limits on a holder.
    mutation(
        12,
        "renewals go past maxHoldMs",
        "engine.rs",
        "«wanted.min(granted_at.saturating_add(max_hold.value()))»",
        "wanted",
    ),
    mutation(
        12,
        "the lock delay is not kept",
        "engine.rs",
        "«self.open.lock.closed_until() <= self.now» && self",
        "true",
    ),
    mutation(
        12,
        "a lease that nobody claimed closes the lock",
        "engine.rs",
        "Claim::Open => «0»,",
        "entry.terms.lock_delay.value()",
    ),
    mutation(
        12,
        "a lock is closed after a revoke, too",
        "engine.rs",
        "(now.saturating_add(entry.terms.ttl.value()), «0»)",
        "now.saturating_add(entry.terms.lock_delay.value())",
    ),
    // 13. Bounded.
    mutation(13, "fractions are integers", "types.rs", "if «integer as f64 == value»", "true").noticed_by("wire"),
    mutation(
        13,
        "no text is too long",
        "types.rs",
        "«(1..=Self::MAX_BYTES).contains(&text.len())»",
        "!text.is_empty()",
    )
    .noticed_by("wire"),
    mutation(13, "unknown fields are passed over", "wire.rs", "match «self.0.first()»", "None").noticed_by("wire"),
    mutation(13, "a member may occur twice", "json.rs", "«members.iter().any(|(other, _)| **other == *name)»", "false")
        .noticed_by("wire"),
    mutation(
        13,
        "the queue has no end",
        "engine.rs",
        "«self.open.lock.waiting() >= self.open.notes.queue_max().min(QUEUE_MAX)»",
        "false",
    )
    .noticed_by("store"),
    // 14. No panic.
    mutation(
        14,
        "a cancel of nothing panics",
        "engine.rs",
        "None => «self.open.notes.remember(self.open.name, token, request_id, None, Lost::Released)»",
        "panic!(\"nobody asked for this\")",
    ),
    mutation(14, "a record is followed as deep as it goes", "record.rs", "if «self.0 > json::MAX_DEPTH»", "false")
        .noticed_by("record"),
    // And liveness.
    mutation(
        LIVENESS,
        "nothing is cleaned up by itself",
        "service.rs",
        "Some(LOADING_MS) } else { «self.ledger.next_quiet().map(length)» }",
        "None",
    ),
];

/// No rule of the list: once the faults end, everything comes to its end.
pub const LIVENESS: u8 = 15;
