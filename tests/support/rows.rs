//! A storage port over plain rows: it outlives the ledger over it, and fails when it is told to.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use leasehold::ledger::{Change, Fault, Reserved, Start, Storage};
use leasehold::lock::{Entry, Place};
use leasehold::record;
use leasehold::types::{Ms, Name};

/// Cloned, it is the same disk: a ledger over a clone is the store after a restart.
#[derive(Clone, Default)]
pub struct Rows(Rc<RefCell<Disk>>);

#[derive(Default)]
struct Disk {
    rows: BTreeMap<(Name, Place), Row>,
    reserved: Option<Reserved>,
    breaks: bool,
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
        self.0.borrow_mut().breaks = true;
    }

    pub fn mend(&self) {
        self.0.borrow_mut().breaks = false;
    }

    pub fn len(&self) -> usize {
        self.0.borrow().rows.len()
    }

    /// Rows written or deleted so far, the space's own row among them.
    pub fn rows_written(&self) -> usize {
        self.0.borrow().rows_written
    }

    pub fn commits(&self) -> usize {
        self.0.borrow().commits
    }

    /// What every row says, in order.
    pub fn entries(&self) -> Vec<(Name, Entry)> {
        let disk = self.0.borrow();
        let read = |(name, place): &(Name, Place), row: &Row| {
            (name.clone(), record::read(*place, &row.record).expect("a row that was written can be read"))
        };
        disk.rows.iter().map(|(key, row)| read(key, row)).collect()
    }

    /// The instant at which a clock goes on after a restart, at the earliest.
    pub fn latest_at(&self) -> Ms {
        let disk = self.0.borrow();
        let of_rows = disk.rows.values().map(|row| row.at).max();
        of_rows.max(disk.reserved.map(|reserved| reserved.at)).unwrap_or(0)
    }

    pub fn reserved(&self) -> u64 {
        self.0.borrow().reserved.map_or(0, |reserved| reserved.fence)
    }

    pub fn put_raw(&self, name: &str, place: Place, record: Vec<u8>) {
        let name = Name::new(name).expect("a valid name");
        self.0.borrow_mut().rows.insert((name, place), Row { record, at: 0 });
    }
}

impl Storage for Rows {
    fn start(&mut self) -> Result<Start, Fault> {
        Ok(Start { fence: self.reserved(), clock: self.latest_at() })
    }

    fn load(&mut self, lock: &Name) -> Result<Vec<Entry>, Fault> {
        let disk = self.0.borrow();
        let range = disk.rows.range((lock.clone(), 0)..=(lock.clone(), Place::MAX));
        range.map(|((_, place), row)| record::read(*place, &row.record)).collect()
    }

    fn load_after(&mut self, after: Option<&Name>, rows: usize) -> Result<Vec<(Name, Vec<Entry>)>, Fault> {
        let disk = self.0.borrow();
        let beyond = disk.rows.iter().filter(|((name, _), _)| after.is_none_or(|after| name > after));
        let mut locks: Vec<(Name, Vec<Entry>)> = Vec::new();
        for (count, ((name, place), row)) in beyond.enumerate() {
            let entry = record::read(*place, &row.record)?;
            match locks.last_mut() {
                Some((last, entries)) if last == name => entries.push(entry),
                _ if count >= rows => break,
                _ => locks.push((name.clone(), vec![entry])),
            }
        }
        Ok(locks)
    }

    fn names(&mut self, prefix: &str, after: Option<&Name>, count: usize) -> Result<Option<Vec<Name>>, Fault> {
        let disk = self.0.borrow();
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
        Ok(())
    }

    fn write(&mut self, changes: &[Change<'_>], reserved: Option<Reserved>) -> Result<(), Fault> {
        let mut disk = self.0.borrow_mut();
        if disk.breaks {
            return Err(Fault("the disk is broken".into()));
        }
        disk.commits += 1;
        disk.rows_written += changes.len() + usize::from(reserved.is_some());
        for change in changes {
            let key = (change.lock.clone(), change.place);
            match change.entry {
                Some(entry) => {
                    disk.rows.insert(key, Row { record: record::write(entry), at: change.at });
                }
                None => {
                    let gone = disk.rows.remove(&key);
                    assert!(gone.is_some(), "a row is deleted that was never written: {key:?}");
                }
            }
        }
        disk.reserved = reserved.or(disk.reserved);
        Ok(())
    }
}
