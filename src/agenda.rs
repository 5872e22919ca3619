//! What is to be looked at, and when: places of locks in the order of a number, which mostly is an instant.

use std::collections::BTreeSet;

use crate::lock::Place;
use crate::types::{Ms, Name};

/// One set for every such order: each kind of set would be kilobytes of WebAssembly.
#[derive(Debug, Default)]
pub struct Agenda(BTreeSet<(Ms, Name, Place)>);

impl Agenda {
    pub fn add(&mut self, at: Ms, lock: &Name, place: Place) {
        self.0.insert((at, lock.clone(), place));
    }

    pub fn remove(&mut self, at: Ms, lock: &Name, place: Place) {
        self.0.remove(&(at, lock.clone(), place));
    }

    /// The first instant.
    pub fn first(&self) -> Option<Ms> {
        self.0.first().map(|(at, ..)| *at)
    }

    /// Takes off what is first, if that is due.
    pub fn take_due(&mut self, now: Ms) -> Option<(Name, Place)> {
        if self.first()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, lock, place)| (lock, place))
    }

    /// All there is at exactly that number.
    pub fn at(&self, at: Ms) -> Vec<(Name, Place)> {
        let from = (at, Name::first(), Place::MIN);
        self.0
            .range(from..)
            .take_while(|(other, ..)| *other == at)
            .map(|(_, lock, place)| (lock.clone(), *place))
            .collect()
    }
}
