// SPDX-License-Identifier: BSD-2-Clause
//! The parts of a repetition: what they took together, and their marks for the emulator's profiler. A part may end in another
//! thread than where it began, and in another space.

use crate::clock::reading;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The displacements of `nopl displacement(%rax)`, as guest/mark.h has them.
const MARK_PART_BEGINS: u32 = 0x6c65_654d;
const MARK_PART_ENDS: u32 = 0x6c65_654e;

/// `nopl displacement(%rax)` with a displacement of 32 bits, which an assembler would make as short as it can.
macro_rules! mark {
    ($number:expr) => {
        // SAFETY: it is no operation.
        unsafe { asm!(".byte 0x0f, 0x1f, 0x80", ".long {}", const $number, options(nostack, preserves_flags)) }
    };
}

static START: AtomicU64 = AtomicU64::new(0);
static TIME: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Forgets the parts so far.
pub fn reset() {
    TIME.store(0, Relaxed);
    COUNT.store(0, Relaxed);
}

/// How many parts there were, and the instructions of all together.
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
