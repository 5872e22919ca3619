//! A storage port over plain rows: it outlives the ledger over it, and fails when it is told to.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use leasehold::ledger::{Change, Fault, Reserved, Start, Storage};
use leasehold::lock::{Entry, Place};
use leasehold::record;
use leasehold::types::{Ms, Name};

use super::record_v1;

/// Cloned, it is the same disk: a ledger over a clone is the store after a restart.
#[derive(Clone, Default)]
pub struct Rows {
    disk: Rc<RefCell<Disk>>,
    /// Which of the instances over this disk it belongs to.
    instance: u64,
    code: Code,
}

/// Whose reader and writer of records an instance has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Code {
    #[default]
    Ours,
    /// That of the first version there was, as it was deployed.
    Version1,
}

/// How a write fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakage {
    NothingWritten,
    /// It is all there, and the store is not told so.
    Written,
}

#[derive(Default)]
struct Disk {
    rows: BTreeMap<(Name, Place), Row>,
    reserved: Option<Reserved>,
    breaks: Option<Breakage>,
    /// The instance that may touch it; those before were replaced.
    instance: u64,
    failures: usize,
    rows_written: usize,
    commits: usize,
}

struct Row {
    record: Vec<u8>,
    at: Ms,
}

impl Rows {
    /// From now on every write fails, until it is [mended](Self::mend).
    pub fn break_down(&self) {
        self.fail_with(Breakage::NothingWritten);
    }

    pub fn fail_with(&self, breakage: Breakage) {
        self.disk.borrow_mut().breaks = Some(breakage);
    }

    pub fn mend(&self) {
        self.disk.borrow_mut().breaks = None;
    }

    /// The disk for an instance that replaces the one before: whatever that does with it fails from now on.
    pub fn taken_over(&self, code: Code) -> Self {
        let mut disk = self.disk.borrow_mut();
        disk.instance += 1;
        Self { disk: self.disk.clone(), instance: disk.instance, code }
    }

    /// Everything is gone, the fence counter too.
    pub fn wipe(&self) {
        let mut disk = self.disk.borrow_mut();
        disk.rows.clear();
        disk.reserved = None;
    }

    pub fn len(&self) -> usize {
        self.disk.borrow().rows.len()
    }

    /// Rows written or deleted so far, the space's own row among them.
    pub fn rows_written(&self) -> usize {
        self.disk.borrow().rows_written
    }

    pub fn commits(&self) -> usize {
        self.disk.borrow().commits
    }

    /// Writes that failed so far.
    pub fn failures(&self) -> usize {
        self.disk.borrow().failures
    }

    /// What every row says, in order.
    pub fn entries(&self) -> Vec<(Name, Entry)> {
        let disk = self.disk.borrow();
        let read = |(name, place): &(Name, Place), row: &Row| {
            (name.clone(), record_v1::read(*place, &row.record).expect("a row that was written can be read"))
        };
        disk.rows.iter().map(|(key, row)| read(key, row)).collect()
    }

    /// The instant at which a clock goes on after a restart, at the earliest.
    pub fn latest_at(&self) -> Ms {
        let disk = self.disk.borrow();
        let of_rows = disk.rows.values().map(|row| row.at).max();
        of_rows.max(disk.reserved.map(|reserved| reserved.at)).unwrap_or(0)
    }

    pub fn reserved(&self) -> u64 {
        self.disk.borrow().reserved.map_or(0, |reserved| reserved.fence)
    }

    pub fn put_raw(&self, name: &str, place: Place, record: Vec<u8>) {
        let name = Name::new(name).expect("a valid name");
        self.disk.borrow_mut().rows.insert((name, place), Row { record, at: 0 });
    }

    fn touch(&self) -> Result<(), Fault> {
        if self.instance == self.disk.borrow().instance { Ok(()) } else { Err(Fault("the object was replaced".into())) }
    }

    fn read(&self, place: Place, record: &[u8]) -> Result<Entry, Fault> {
        match self.code {
            Code::Ours => record::read(place, record),
            Code::Version1 => record_v1::read(place, record),
        }
    }

    fn record(&self, entry: &Entry) -> Vec<u8> {
        match self.code {
            Code::Ours => record::write(entry),
            Code::Version1 => record_v1::write(entry),
        }
    }
}

impl Storage for Rows {
    fn start(&mut self) -> Result<Start, Fault> {
        self.touch()?;
        Ok(Start { fence: self.reserved(), clock: self.latest_at() })
    }

    fn load(&mut self, lock: &Name) -> Result<Vec<Entry>, Fault> {
        self.touch()?;
        let disk = self.disk.borrow();
        let range = disk.rows.range((lock.clone(), 0)..=(lock.clone(), Place::MAX));
        range.map(|((_, place), row)| self.read(*place, &row.record)).collect()
    }

    fn load_after(&mut self, after: Option<&Name>, rows: usize) -> Result<Vec<(Name, Vec<Entry>)>, Fault> {
        self.touch()?;
        let disk = self.disk.borrow();
        let beyond = disk.rows.iter().filter(|((name, _), _)| after.is_none_or(|after| name > after));
        let mut locks: Vec<(Name, Vec<Entry>)> = Vec::new();
        for (count, ((name, place), row)) in beyond.enumerate() {
            let entry = self.read(*place, &row.record)?;
            match locks.last_mut() {
                Some((last, entries)) if last == name => entries.push(entry),
                _ if count >= rows => break,
                _ => locks.push((name.clone(), vec![entry])),
            }
        }
        Ok(locks)
    }

    fn names(&mut self, prefix: &str, after: Option<&Name>, count: usize) -> Result<Option<Vec<Name>>, Fault> {
        self.touch()?;
        let disk = self.disk.borrow();
        let mut names: Vec<Name> = disk
            .rows
            .keys()
            .map(|(name, _)| name)
            .filter(|name| name.as_str().starts_with(prefix) && after.is_none_or(|after| *name > after))
            .cloned()
            .collect();
        names.dedup();
        names.truncate(count);
        Ok(Some(names))
    }

    fn probe(&mut self) -> Result<(), Fault> {
        self.touch()
    }

    fn write(&mut self, changes: &[Change<'_>], reserved: Option<Reserved>) -> Result<(), Fault> {
        self.touch()?;
        let mut disk = self.disk.borrow_mut();
        let breaks = disk.breaks;
        disk.failures += usize::from(breaks.is_some());
        if breaks == Some(Breakage::NothingWritten) {
            return Err(Fault("the disk is broken".into()));
        }
        disk.commits += 1;
        disk.rows_written += changes.len() + usize::from(reserved.is_some());
        for change in changes {
            let key = (change.lock.clone(), change.place);
            match change.entry {
                Some(entry) => {
                    disk.rows.insert(key, Row { record: self.record(entry), at: change.at });
                }
                None => {
                    let gone = disk.rows.remove(&key);
                    assert!(gone.is_some(), "a row is deleted that was never written: {key:?}");
                }
            }
        }
        disk.reserved = reserved.or(disk.reserved);
        match breaks {
            None => Ok(()),
            Some(_) => Err(Fault("the disk was slow to answer".into())),
        }
    }
}
