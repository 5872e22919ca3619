//! What the tests share.
#![allow(dead_code, reason = "each test file is a program of its own and uses a part of it")]

pub mod dice;
pub mod history;
pub mod limits;
pub mod model;
pub mod record_v1;
pub mod rows;
pub mod store;
pub mod trace;
