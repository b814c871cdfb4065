// SPDX-License-Identifier: GPL-2.0-only
//! A mask behind the tests of users' indices: a processor that guesses beyond the test does not get
//! past it, and the compiler, which knows the test, cannot leave it out.

/// An index that was tested to be below `LIMIT`, a power of two.
#[inline(always)]
pub fn nospec<const LIMIT: usize>(mut index: usize) -> usize {
    const { assert!(LIMIT.is_power_of_two()) };
    // SAFETY: arithmetic only.
    unsafe { core::arch::asm!("and {:e}, {}", inout(reg) index, const LIMIT - 1, options(pure, nomem, nostack)) };
    index
}

#[cfg(test)]
#[path = "../../../tests/kernel/nospec.rs"]
mod tests;
