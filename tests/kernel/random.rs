// SPDX-License-Identifier: GPL-2.0-only
//! What random tests have besides the generator itself.

use super::Random;

impl Random {
    /// A number below `bound` (not zero).
    pub fn below(&self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }
}

/// The seed of a random test: `KEEL_TEST_SEED` chooses another sequence than `usual`.
pub fn seed(usual: u64) -> u64 {
    std::env::var("KEEL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(usual)
}
