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

    /// A number below `bound` (not zero).
    #[cfg(test)]
    pub fn below(&self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }
}

/// The seed of a random test: `KEEL_TEST_SEED` chooses another sequence than `usual`.
#[cfg(test)]
pub fn seed(usual: u64) -> u64 {
    std::env::var("KEEL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(usual)
}
