//! Breadth-first search: every state that can be reached, the nearest first, so that the first history that breaks a rule
//! is the shortest.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::time::{Duration, Instant};

pub trait Machine {
    type State;
    type Move: Copy + Debug;

    fn first(&self) -> Self::State;

    /// What may happen next.
    fn moves(&self, state: &Self::State) -> Vec<Self::Move>;

    /// What comes of it; or which rule it breaks, and how.
    fn apply(&self, state: &Self::State, next: Self::Move) -> Result<Self::State, String>;

    /// What a new state has to be like by itself.
    fn check(&self, state: &Self::State) -> Result<(), String>;

    /// A state in a line, or a few.
    fn show(&self, state: &Self::State) -> String;

    /// Equal for states from which the same can happen.
    fn key(&self, state: &Self::State) -> u128;
}

/// Where a search ends that has not found everything before.
#[derive(Clone, Copy)]
pub enum Bound {
    States(usize),
    Time(Duration),
}

#[derive(Debug)]
pub struct Reached {
    pub states: usize,
    pub moves: usize,
    /// All histories of so many moves were tried.
    pub depth: usize,
    /// There is nothing else: histories of any length were.
    pub is_all: bool,
}

/// Tries everything. Ends in a panic that tells the shortest history with which a rule is broken.
pub fn search<M: Machine>(machine: &M, bound: Bound) -> Reached {
    let started = Instant::now();
    let first = machine.first();
    let first_key = machine.key(&first);
    let mut seen: HashMap<u128, Option<(u128, M::Move)>> = HashMap::from([(first_key, None)]);
    let mut level = vec![(first_key, first)];
    let mut reached = Reached { states: 1, moves: 0, depth: 0, is_all: false };
    loop {
        let mut next_level = Vec::new();
        for (key, state) in level {
            let is_enough = match bound {
                Bound::States(states) => seen.len() >= states,
                Bound::Time(time) => started.elapsed() >= time,
            };
            if is_enough {
                return reached;
            }
            for next in machine.moves(&state) {
                reached.moves += 1;
                let came_to = machine.apply(&state, next);
                let new = came_to.unwrap_or_else(|broken| fail(machine, &seen, key, next, &broken));
                let new_key = machine.key(&new);
                if let Entry::Vacant(slot) = seen.entry(new_key) {
                    slot.insert(Some((key, next)));
                    reached.states += 1;
                    if let Err(broken) = machine.check(&new) {
                        fail(machine, &seen, key, next, &broken);
                    }
                    next_level.push((new_key, new));
                }
            }
        }
        reached.depth += 1;
        if next_level.is_empty() {
            reached.is_all = true;
            return reached;
        }
        level = next_level;
    }
}

fn fail<M: Machine>(
    machine: &M,
    seen: &HashMap<u128, Option<(u128, M::Move)>>,
    mut key: u128,
    last: M::Move,
    broken: &str,
) -> ! {
    let mut history = vec![last];
    while let Some(Some((before, next))) = seen.get(&key) {
        history.push(*next);
        key = *before;
    }
    let mut lines = vec![machine.show(&machine.first())];
    let mut state = machine.first();
    for next in history.iter().rev() {
        lines.push(format!("  {next:?}"));
        if let Ok(new) = machine.apply(&state, *next) {
            lines.push(machine.show(&new));
            state = new;
        }
    }
    panic!("the shortest history that breaks it, {} moves:\n{}\n{broken}", history.len(), lines.join("\n"))
}
