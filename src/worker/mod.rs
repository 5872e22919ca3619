//! The Durable Object and its HTTP surface: what JavaScript calls, and how it is carried to the core.
//!
//! The class `LeaseStore` and the fetch handler are TypeScript beside these files, and thin: a call crosses into Rust
//! once per turn ([`object`]) and, when it comes over HTTP, once more for its route ([`routes`]).

use wasm_bindgen::prelude::wasm_bindgen;

use json::Members;

pub mod access;
pub mod audit;
pub mod json;
pub mod meter;
pub mod object;
pub mod routes;
pub mod settings;
pub mod storage;
pub mod turn;

/// Makes the message of a panic known: the trap that follows has none.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|info| {
        let line = Members::new("event", "panic").text("detail", &info.to_string()).end();
        worker::console_error!("{line}");
    }));
}
