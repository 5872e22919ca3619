//! Who is let in over HTTP. Fails closed.

use crate::command::Refusal;

/// Lets everybody in where `open`, the variable `LEASEHOLD_OPEN`, is "true"; otherwise nobody, since no key is known.
pub fn admit(open: Option<&str>) -> Result<(), Refusal> {
    if open == Some("true") { Ok(()) } else { Err(Refusal::NotConfigured) }
}
