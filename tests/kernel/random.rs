// SPDX-License-Identifier: GPL-2.0-only
//! The generator of random tests, and its seed.

pub use keel_abi::random::Random;

/// The seed of a random test: `KEEL_TEST_SEED` chooses another sequence than `usual`.
pub fn seed(usual: u64) -> u64 {
    std::env::var("KEEL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(usual)
}
