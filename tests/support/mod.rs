//! What the tests share.
#![allow(dead_code, reason = "each test file is a program of its own and uses a part of it")]

pub mod dice;
pub mod model;
pub mod rows;
pub mod store;
pub mod trace;
