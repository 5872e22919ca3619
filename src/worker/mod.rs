//! The Durable Object and its HTTP surface.
