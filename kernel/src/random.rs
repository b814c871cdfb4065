// SPDX-License-Identifier: GPL-2.0-only
//! A small pseudo-random generator (xorshift64*, Vigna 2016) for balancing the timeout heap and
//! for tests. Not for secrets.

use core::cell::Cell;

/// The generator.
pub struct Random(Cell<u64>);

impl Random {
    /// A generator that starts from `seed` (not zero).
    pub const fn new(seed: u64) -> Self {
        Random(Cell::new(seed))
    }

    /// The next 64 bits.
    pub fn next(&self) -> u64 {
        let mut x = self.0.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
#[path = "../../tests/kernel/random.rs"]
pub mod tests;
