//! How much a random test does: from the environment, so that one may have it do more.

/// The number that a variable of the environment has.
pub fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is \"{value}\", and no number")))
}
