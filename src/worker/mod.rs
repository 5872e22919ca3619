//! The Durable Object and its HTTP surface: what JavaScript calls, and how it is carried to the core.
//!
//! The class `LeaseStore` and the fetch handler are TypeScript beside these files, and thin: a call crosses into Rust
//! once per turn (`object`) and, when it comes over HTTP, once more for its route (`routes`).
//!
//! Without the feature `worker` there is the reader of JSON text alone. It meets the internet first: the tests and the
//! fuzzer run it natively.

#[cfg(feature = "worker")]
pub mod access;
#[cfg(feature = "worker")]
pub mod audit;
pub mod json;
#[cfg(feature = "worker")]
pub mod meter;
#[cfg(feature = "worker")]
pub mod object;
#[cfg(feature = "worker")]
pub mod routes;
#[cfg(feature = "worker")]
pub mod settings;
#[cfg(feature = "worker")]
pub mod storage;
#[cfg(feature = "worker")]
pub mod turn;

/// Makes the message of a panic known: the trap that follows has none.
#[cfg(feature = "worker")]
#[wasm_bindgen::prelude::wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|info| {
        let line = json::Members::new("event", "panic").text("detail", &info.to_string()).end();
        worker::console_error!("{line}");
    }));
}
