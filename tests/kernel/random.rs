// SPDX-License-Identifier: GPL-2.0-only
//! The generator of random tests (xorshift64*, Vigna 2016), and its seed.

use std::cell::Cell;

/// The generator.
#[derive(Debug)]
pub struct Random(Cell<u64>);

impl Random {
    /// Returns a generator that starts from `seed` (not zero).
    pub const fn new(seed: u64) -> Self {
        Random(Cell::new(seed))
    }

    /// Returns the next 64 bits.
    pub fn next(&self) -> u64 {
        let mut x = self.0.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `bound` (not zero).
    pub fn below(&self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }
}

/// The seed of a random test: `KEEL_TEST_SEED` chooses another sequence than `usual`.
pub fn seed(usual: u64) -> u64 {
    std::env::var("KEEL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(usual)
}
