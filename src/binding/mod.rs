//! The Rust half of the npm package.
