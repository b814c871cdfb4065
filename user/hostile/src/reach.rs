// SPDX-License-Identifier: BSD-2-Clause
//! Random words for threads that run 32-bit code: thread-local descriptors, and what they reach.

use crate::random::Random;
use keel_l4::abi::call::{SMALL_ALL, SMALL_MAX_LOG2, SMALL_MIN_LOG2, SMALL_NONE};

/// Access bytes and flags of descriptors: data segments that grow upwards and downwards, of pages
/// and of bytes, code segments, absent ones, and what the kernel refuses.
const KINDS: [u64; 10] = [
    0x00c0_f200,
    0x00c0_f200,
    0x00c0_f600,
    0x0040_f200,
    0x0000_f200,
    0x00c0_fa00,
    0x0080_f600,
    0x00c0_7200,
    0x00a0_fa00,
    0x00c0_9200,
];

/// Makes a thread-local descriptor of any kind, or none; `places` are likely bases.
pub fn descriptor(random: &mut Random, places: &[u64]) -> u64 {
    if random.once_in(6) {
        return 0;
    }
    let (any_base, any_limit) = (random.next() & 0xffff_ffff, random.next() & 0xf_ffff);
    let base = if random.once_in(3) { any_base } else { random.one_of(places) };
    let limit = random.one_of(&[0, 0xf_ffff, 0xf_ffff, 0xfff, any_limit]);
    let kind = random.one_of(&KINDS);
    kind << 32 | limit & 0xffff | (limit >> 16) << 48 | (base & 0xff_ffff) << 16 | (base >> 24 & 0xff) << 56
}

/// Where most windows begin at least.
const FIRST: u64 = 1 << SMALL_MAX_LOG2;

/// Chooses a window, everything, nothing, or a random word.
pub fn reach(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => SMALL_NONE,
        1 => SMALL_ALL,
        2 => random.next(),
        3 => random.below(4) << SMALL_MAX_LOG2 | SMALL_MAX_LOG2,
        // The first GB has the image.
        _ => FIRST + (random.below(48) << (SMALL_MIN_LOG2 + 2)) | SMALL_MIN_LOG2 + random.below(3),
    }
}
