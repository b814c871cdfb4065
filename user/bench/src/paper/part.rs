// SPDX-License-Identifier: BSD-2-Clause
//! The parts of a repetition: their cost together, and their marks for the emulator's profiler. A
//! part may end in another thread and another space than where it began.

use crate::clock::reading;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Displacement of `nopl displacement(%rax)`, as guest/mark.h has it, where a part begins.
pub const MARK_PART_BEGINS: u32 = 0x6c65_654d;
/// The same where it ends.
pub const MARK_PART_ENDS: u32 = 0x6c65_654e;

/// `nopl displacement(%rax)` with a 32-bit displacement, which an assembler would shorten.
macro_rules! mark {
    ($number:expr) => {
        // SAFETY: a no-operation.
        unsafe { asm!(".byte 0x0f, 0x1f, 0x80", ".long {}", const $number, options(nostack, preserves_flags)) }
    };
}

static START: AtomicU64 = AtomicU64::new(0);
static TIME: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Discards the parts so far.
pub fn reset() {
    TIME.store(0, Relaxed);
    COUNT.store(0, Relaxed);
}

/// The number of parts, and the instructions of all of them.
pub fn sum() -> (u64, u64) {
    (COUNT.load(Relaxed), TIME.load(Relaxed))
}

/// A part begins.
#[inline]
pub fn begins() {
    mark!(MARK_PART_BEGINS);
    START.store(reading(), Relaxed);
}

/// It ends.
#[inline]
pub fn ends() {
    TIME.store(TIME.load(Relaxed) + reading() - START.load(Relaxed), Relaxed);
    COUNT.store(COUNT.load(Relaxed) + 1, Relaxed);
    mark!(MARK_PART_ENDS);
}
