// SPDX-License-Identifier: GPL-2.0-only
//! Masks behind the tests of users' indices: a processor that guesses beyond the test does not get
//! past them, and the compiler, which knows the test, cannot leave them out.

use core::arch::asm;

/// An index that was tested to be below `LIMIT`, a power of two.
#[inline(always)]
pub fn nospec<const LIMIT: usize>(mut index: usize) -> usize {
    const { assert!(LIMIT.is_power_of_two()) };
    // SAFETY: arithmetic only.
    unsafe { asm!("and {:e}, {}", inout(reg) index, const LIMIT - 1, options(pure, nomem, nostack)) };
    index
}

/// An index that was tested to be below `limit`; 0 where it is not.
#[inline(always)]
pub fn array_index_nospec(index: usize, limit: usize) -> usize {
    let mask: usize;
    // SAFETY: arithmetic only.
    unsafe {
        asm!("cmp {}, {}", "sbb {mask}, {mask}", in(reg) index, in(reg) limit, mask = lateout(reg) mask,
            options(pure, nomem, nostack));
    }
    index & mask
}

#[cfg(test)]
#[path = "../../../tests/kernel/nospec.rs"]
mod tests;
