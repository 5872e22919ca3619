//! What a space has done since its object started, as Prometheus reads it (text format 0.0.4).

use crate::command::{Lost, Reply};
use crate::engine::Event;
use crate::ledger::Census;
use crate::service::Turn;
use crate::types::Ms;
use crate::wire;

pub struct Meter {
    started_at: Ms,
    /// As many as there are [`COUNTERS`].
    counts: [u64; COUNTERS.len()],
    waits: Histogram,
    commands_per_commit: Histogram,
}

/// Name and labels of each counter; those of one name stand together.
const COUNTERS: [(&str, &str); 23] = [
    ("grants_total", "after=\"asking\""),
    ("grants_total", "after=\"waiting\""),
    ("renewals_total", ""),
    ("releases_total", ""),
    ("revocations_total", ""),
    ("losses_total", "reason=\"expired\""),
    ("losses_total", "reason=\"revoked\""),
    ("losses_total", "reason=\"stolen\""),
    ("refusals_total", "reason=\"held\""),
    ("refusals_total", "reason=\"lost\""),
    ("refusals_total", "reason=\"queue_full\""),
    ("refusals_total", "reason=\"space_full\""),
    ("refusals_total", "reason=\"limit_mismatch\""),
    ("refusals_total", "reason=\"invalid_argument\""),
    ("refusals_total", "reason=\"forbidden\""),
    ("refusals_total", "reason=\"too_many_requests\""),
    ("refusals_total", "reason=\"needs_socket\""),
    ("refusals_total", "reason=\"unavailable\""),
    ("refusals_total", "reason=\"other\""),
    ("commands_total", ""),
    ("commits_total", ""),
    ("failed_commits_total", ""),
    ("rows_written_total", ""),
];

/// Where in [`COUNTERS`] each is.
mod at {
    pub const ASKING: usize = 0;
    pub const WAITING: usize = 1;
    pub const RENEWALS: usize = 2;
    pub const RELEASES: usize = 3;
    pub const REVOCATIONS: usize = 4;
    pub const EXPIRED: usize = 5;
    pub const REVOKED: usize = 6;
    pub const STOLEN: usize = 7;
    pub const OTHER: usize = 18;
    pub const COMMANDS: usize = 19;
    pub const COMMITS: usize = 20;
    pub const FAILED: usize = 21;
    pub const ROWS: usize = 22;
}

/// What each metric is.
const HELP: [(&str, &str); 16] = [
    ("grants_total", "Leases granted."),
    ("renewals_total", "Leases renewed."),
    ("releases_total", "Leases released."),
    ("revocations_total", "Commands to revoke that were carried out."),
    ("losses_total", "Leases that ended otherwise than by their release."),
    ("refusals_total", "Commands that did not get what they asked for, by what they were told."),
    ("commands_total", "Commands carried out or refused."),
    ("commits_total", "Turns that wrote to storage."),
    ("failed_commits_total", "Turns that were undone."),
    ("rows_written_total", "Rows of leases that were written or deleted."),
    ("wait_seconds", "How long those waited that were granted a lease in the end."),
    ("commands_per_commit", "Commands of each turn that wrote to storage."),
    ("queue_length", "Waiters of all locks."),
    ("held_leases", "Live leases."),
    ("locks", "Locks that are held, awaited or remembered."),
    ("sockets", "Open WebSockets."),
];

/// Upper bounds of waits in ms.
const WAITS: [u64; 14] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000];

const COMMANDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];

impl Meter {
    pub fn new(now: Ms) -> Self {
        let counts = [0; COUNTERS.len()];
        let (waits, commands_per_commit) = (Histogram::new(&WAITS), Histogram::new(&COMMANDS));
        Self { started_at: now, counts, waits, commands_per_commit }
    }

    /// Takes note of a turn that carried out so many commands.
    pub fn note(&mut self, turn: &Turn, commands: usize) {
        self.add(at::COMMANDS, commands as u64);
        if turn.written > 0 {
            self.add(at::COMMITS, 1);
            self.add(at::ROWS, turn.written as u64);
            self.commands_per_commit.note(commands as u64);
        }
        for happened in &turn.events {
            match happened.event {
                Event::Acquired { .. } => self.add(at::ASKING, 1),
                Event::Granted { waited, .. } => {
                    self.add(at::WAITING, 1);
                    self.waits.note(waited);
                }
                Event::Released { .. } | Event::Ended { reason: Lost::Released | Lost::Unknown, .. } => {
                    self.add(at::RELEASES, 1);
                }
                Event::Ended { reason: Lost::Expired, .. } => self.add(at::EXPIRED, 1),
                Event::Ended { reason: Lost::Revoked, .. } => self.add(at::REVOKED, 1),
                Event::Ended { reason: Lost::Stolen, .. } => self.add(at::STOLEN, 1),
                Event::Queued | Event::Left { .. } | Event::Lapsed { .. } => {}
            }
        }
        for (_, reply) in &turn.answers {
            if let Some(reason) = refusal(reply) {
                let label = |(_, labels): &(&str, &str)| labels.split('"').nth(1) == Some(reason);
                let first = at::STOLEN + 1;
                let found = COUNTERS.iter().skip(first).position(label).map_or(at::OTHER, |at| first + at);
                self.add(found, 1);
            } else if let Reply::Renewed { .. } = reply {
                self.add(at::RENEWALS, 1);
            } else if let Reply::Revoked { .. } = reply {
                self.add(at::REVOCATIONS, 1);
            }
        }
    }

    /// A turn was undone.
    pub fn note_fault(&mut self) {
        self.add(at::FAILED, 1);
    }

    fn add(&mut self, at: usize, count: u64) {
        if let Some(counter) = self.counts.get_mut(at) {
            *counter = counter.saturating_add(count);
        }
    }

    pub fn text(&self, census: Census, sockets: u64) -> String {
        let mut text = Text(String::new());
        let mut last = "";
        for ((name, labels), count) in COUNTERS.iter().zip(self.counts) {
            if *name != last {
                text.head(name, "counter");
            }
            last = name;
            text.sample(name, "", labels, &count.to_string());
        }
        text.histogram("wait_seconds", &self.waits, seconds);
        text.histogram("commands_per_commit", &self.commands_per_commit, |count| count.to_string());
        let Census { locks, leases, waiters } = census;
        let gauges = [
            ("queue_length", waiters as u64),
            ("held_leases", leases as u64),
            ("locks", locks as u64),
            ("sockets", sockets),
        ];
        for (name, value) in gauges {
            text.head(name, "gauge");
            text.sample(name, "", "", &value.to_string());
        }
        text.head("start_time_seconds", "gauge");
        text.sample("start_time_seconds", "", "", &seconds(self.started_at));
        text.0
    }
}

/// Why a caller did not get what it asked for, if it did not.
pub fn refusal(reply: &Reply) -> Option<&'static str> {
    match reply {
        Reply::Held { .. } => Some("held"),
        Reply::Lost { .. } => Some("lost"),
        Reply::Refused(refusal) => Some(wire::code(refusal)),
        Reply::Granted { .. }
        | Reply::Waiting { .. }
        | Reply::Renewed { .. }
        | Reply::Released
        | Reply::Cancelled
        | Reply::Inspected { .. }
        | Reply::Listed { .. }
        | Reply::Revoked { .. }
        | Reply::Watching { .. }
        | Reply::Unwatched => None,
    }
}

fn seconds(ms: u64) -> String {
    // Three digits after the point, without formatting floats.
    let padded = (1_000 + ms % 1_000).to_string();
    (ms / 1_000).to_string() + "." + padded.get(1..).unwrap_or_default()
}

/// How often a value was above the bound before and at most each of `bounds`, and how often above all of them.
struct Histogram {
    bounds: &'static [u64],
    counts: Vec<u64>,
    sum: u64,
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0 }
    }

    fn note(&mut self, value: u64) {
        self.sum = self.sum.saturating_add(value);
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
    }
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str) {
        let help = HELP.iter().find(|(other, _)| *other == name).map_or(SINCE, |(_, help)| help);
        for part in ["# HELP leasehold_", name, " ", help, "\n# TYPE leasehold_", name, " ", kind, "\n"] {
            self.0.push_str(part);
        }
    }

    fn sample(&mut self, name: &str, suffix: &str, labels: &str, value: &str) {
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        for part in ["leasehold_", name, suffix, open, labels, close, " ", value, "\n"] {
            self.0.push_str(part);
        }
    }

    fn histogram(&mut self, name: &str, histogram: &Histogram, unit: fn(u64) -> String) {
        self.head(name, "histogram");
        let bounds = histogram.bounds.iter().map(|bound| unit(*bound)).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, more) in bounds.zip(&histogram.counts) {
            count += more;
            self.sample(name, "_bucket", &["le=\"", &bound, "\""].concat(), &count.to_string());
        }
        self.sample(name, "_sum", "", &unit(histogram.sum));
        self.sample(name, "_count", "", &count.to_string());
    }
}

const SINCE: &str = "When the object started, from which everything is counted.";
