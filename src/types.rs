//! Values that cannot be wrong: parsed once at the edge, trusted inside.
//!
//! Every constructor refuses with an [`Expected`]: what the value must be, in words. The wire adds the field's name.

use std::sync::Arc;

use crate::json::Json;

/// An instant on a space's clock (epoch milliseconds), or a length in milliseconds.
pub type Ms = u64;

/// What a refused value must be: completes the sentence "`field` must be ...".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected(pub &'static str);

/// The largest integer that every JavaScript number holds exactly, and so the largest fence.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

macro_rules! integers {
    ($($(#[$doc:meta])* $name:ident($repr:ty): $min:literal to $max:expr, $expected:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($repr);

        impl $name {
            pub const MIN: Self = Self($min);
            pub const MAX: Self = Self($max);

            /// Refuses a fraction, a non-finite number, and whatever is out of range.
            pub fn new(value: f64) -> Result<Self, Expected> {
                // A cast saturates and drops the fraction: equality after it means an integer of that type.
                let integer = value as $repr;
                if integer as f64 == value && ($min..=$max).contains(&integer) { Ok(Self(integer)) } else { Err(Expected($expected)) }
            }

            pub fn value(self) -> u64 {
                u64::from(self.0)
            }
        }
    )*};
}

integers! {
    /// A fencing token: larger with every grant in the space. Public. Source of the idea: Chubby's sequencers (Burrows, 2006).
    Fence(u64): 1 to MAX_SAFE_INTEGER, "an integer from 1 to 9007199254740991";
    /// Length of a lease from its grant or last renewal, ms.
    Ttl(u32): 50 to 86_400_000, "an integer from 50 to 86400000 (milliseconds)";
    /// How long one ask for a place in the queue stays open, ms. 0 does not queue.
    Wait(u32): 0 to 60_000, "an integer from 0 to 60000 (milliseconds)";
    /// How long renewals may carry a lease past its grant, ms.
    MaxHold(u32): 1 to 604_800_000, "an integer from 1 to 604800000 (milliseconds)";
    /// How long a lock stays closed after a lease of it expired, ms. Source: the session lock-delay of Chubby and Consul.
    LockDelay(u32): 0 to 604_800_000, "an integer from 0 to 604800000 (milliseconds)";
    /// How many shared leases a lock bears at once.
    Limit(u32): 1 to 1_000_000, "an integer from 1 to 1000000";
    /// How many locks one page of a list shows.
    PageSize(u32): 1 to 1_000, "an integer from 1 to 1000";
}

impl Ttl {
    pub const DEFAULT: Self = Self(30_000);
}

impl Wait {
    pub const NONE: Self = Self(0);
}

impl LockDelay {
    pub const NONE: Self = Self(0);
}

impl PageSize {
    pub const DEFAULT: Self = Self(100);
}

impl Fence {
    /// The fence after `last` and not below `floor`; `None` when the space has used up its integers.
    pub fn after(last: u64, floor: u64) -> Option<Self> {
        let next = last.saturating_add(1).max(floor);
        (next <= MAX_SAFE_INTEGER).then_some(Self(next))
    }
}

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident: $max:literal bytes, $refuses:expr, $expected:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The longest there is, in bytes of UTF-8.
            pub const MAX_BYTES: usize = $max;

            pub fn new(text: &str) -> Result<Self, Expected> {
                let refuses: fn(&str) -> bool = $refuses;
                if (1..=Self::MAX_BYTES).contains(&text.len()) && !refuses(text) { Ok(Self(text.into())) } else { Err(Expected($expected)) }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    )*};
}

texts! {
    /// A lock's name, compared byte for byte.
    ///
    /// A leading `-` is refused as in the Web Locks API; `.` and `..` because no URL can carry them.
    Name: 512 bytes, |text| text.starts_with('-') || text == "." || text == "..",
        "1 to 512 bytes of UTF-8, not starting with \"-\", not \".\" or \"..\"";
    /// The holder's secret. Its `Debug` does not show it.
    Token: 128 bytes, |_| false, "1 to 128 bytes of UTF-8";
    /// Minted per acquire call, repeated on every retry of that call.
    RequestId: 128 bytes, |_| false, "1 to 128 bytes of UTF-8";
    /// Names the client in inspect; public.
    ClientId: 128 bytes, |_| false, "1 to 128 bytes of UTF-8";
    /// Why an admin ended a lease; public.
    Note: 256 bytes, |_| false, "1 to 256 bytes of UTF-8";
}

macro_rules! shown {
    ($($name:ident)*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

shown! { Name RequestId ClientId Note }

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What a holder says about itself: public JSON of at most [`Info::MAX_BYTES`].
#[derive(Debug, Clone, PartialEq)]
pub struct Info(Arc<Json>);

impl Info {
    pub const MAX_BYTES: usize = 1024;

    pub fn new(json: Json) -> Result<Self, Expected> {
        if json.is_finite() && json.byte_len() <= Self::MAX_BYTES {
            Ok(Self(Arc::new(json)))
        } else {
            Err(Expected("at most 1024 bytes of JSON"))
        }
    }

    pub fn as_json(&self) -> &Json {
        &self.0
    }
}

/// A socket of a client: unique in its space for as long as anything is stored that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u64);

impl Connection {
    /// None that anybody has. Who asks by it is answered at once, also that it waits, and is told nothing later.
    pub const NOBODY: Self = Self(0);
}

/// Alone, or with others of the same mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    /// With a limit a counting semaphore, without one the reader half of a reader-writer lock.
    Shared(Option<Limit>),
}
