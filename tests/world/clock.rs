//! A clock of somebody in the world: it starts anywhere, runs a little fast or slow, and is moved.

use leasehold::types::Ms;

#[derive(Debug, Clone)]
pub struct Clock {
    start: Ms,
    /// Parts in a million that it runs fast, or slow.
    ppm: i64,
    shift: i64,
}

const MILLION: i64 = 1_000_000;

impl Clock {
    pub fn new(start: Ms, ppm: i64) -> Self {
        Self { start, ppm, shift: 0 }
    }

    /// What it says at an instant of the world.
    pub fn at(&self, world: Ms) -> Ms {
        let ran = world as i64 + world as i64 * self.ppm / MILLION;
        self.start.saturating_add_signed(ran + self.shift)
    }

    pub fn shift(&mut self, by: i64) {
        self.shift += by;
    }

    /// So long it takes in the world until this clock has gone on by `length`, or a little longer.
    pub fn takes(&self, length: Ms) -> Ms {
        let length = length as i64;
        // One more for each of the two roundings.
        (length - length * self.ppm / (MILLION + self.ppm)) as Ms + 2
    }
}
