//! What is to be looked at, and when: places in the order of a number, which mostly is an instant.

use std::collections::BTreeSet;

use crate::lock::Place;
use crate::types::{Ms, Name};

/// One set for every such order: each kind of set would be kilobytes of WebAssembly. Where all places are of one lock it
/// has no name.
#[derive(Debug, Default)]
pub struct Agenda(BTreeSet<(Ms, Place, Option<Name>)>);

impl Agenda {
    pub fn add(&mut self, at: Ms, place: Place, lock: Option<&Name>) {
        self.0.insert((at, place, lock.cloned()));
    }

    pub fn remove(&mut self, at: Ms, place: Place, lock: Option<&Name>) {
        self.0.remove(&(at, place, lock.cloned()));
    }

    /// The first instant, and the place.
    pub fn first(&self) -> Option<(Ms, Place)> {
        self.0.first().map(|(at, place, _)| (*at, *place))
    }

    /// All places, in order.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.0.iter().map(|(_, place, _)| *place)
    }

    /// Takes off what is first, if that is due.
    pub fn take_due(&mut self, now: Ms) -> Option<(Name, Place)> {
        if self.first()?.0 > now {
            return None;
        }
        self.0.pop_first().and_then(|(_, place, lock)| Some((lock?, place)))
    }

    /// The first place at exactly that number.
    pub fn place_at(&self, at: Ms) -> Option<Place> {
        self.from(at).next().map(|(_, place, _)| *place)
    }

    /// All there is at exactly that number.
    pub fn at(&self, at: Ms) -> Vec<(Name, Place)> {
        self.from(at).filter_map(|(_, place, lock)| Some((lock.clone()?, *place))).collect()
    }

    fn from(&self, at: Ms) -> impl Iterator<Item = &(Ms, Place, Option<Name>)> {
        self.0.range((at, Place::MIN, None)..).take_while(move |(other, ..)| *other == at)
    }
}
