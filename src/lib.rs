//! Leasehold: leases with fencing tokens, decided by one authoritative store.
//!
//! The core is sans-I/O: what is stored, a command and an instant go in; a reply and what changed come out. Time,
//! randomness and ids are arguments, so equal inputs give equal outputs on every build.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`types`] | values that cannot be wrong once parsed: names, tokens, fences, lengths |
//! | [`json`] | JSON as data, bounded and strict |
//! | [`command`] | what can be asked and what is answered |
//! | [`agenda`] | what is to be looked at, and when |
//! | [`lock`] | one lock: its leases, its queue, what it remembers |
//! | [`record`] | an entry of a lock as versioned bytes |
//! | [`ledger`] | all locks of a space over a storage port; the fence counter; the clock |
//! | [`engine`] | the rules: the store's side |
//! | [`service`] | the engine with open asks: who is answered what, and when |
//! | [`kernel`] | the engine over one lock's record, for hosts that keep one record a lock |
//! | [`session`] | the rules: the holder's side |
//! | [`wire`] | field names, in and out |

// The components' generated bindings are the one place with unsafe code; they say so.
#![cfg_attr(not(any(feature = "component", feature = "provider")), forbid(unsafe_code))]
#![deny(unsafe_code)]

pub mod agenda;
pub mod command;
pub mod engine;
pub mod json;
pub mod kernel;
pub mod ledger;
pub mod lock;
pub mod record;
pub mod service;
pub mod session;
pub mod types;
pub mod wire;

#[cfg(any(feature = "binding", feature = "memory"))]
pub mod binding;
#[cfg(feature = "client")]
pub mod client;
#[cfg(any(feature = "component", feature = "provider"))]
pub mod component;
pub mod worker;
