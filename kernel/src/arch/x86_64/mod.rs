// SPDX-License-Identifier: GPL-2.0-only
//! x86-64: everything that names a register, a port or a bit of the processor.

pub mod acpi;
pub mod apic;
pub mod clock;
pub mod cpu;
pub mod cpuid;
pub mod entry;
pub mod fast;
pub mod fpu;
pub mod multiboot;
pub mod paging;
pub mod regs;
pub mod serial;
pub mod smp;
pub mod start;
pub mod tables;

use core::arch::asm;

/// Where all physical memory lies in the kernel's half of every space.
pub const DIRECT: u64 = 0xffff_8000_0000_0000;
/// Distance between the kernel's link address and its place in memory.
pub const OFFSET: u64 = 0xffff_ffff_8000_0000;

/// Kernel address of physical memory.
pub fn direct(physical: u64) -> *mut u8 {
    (DIRECT + physical) as *mut u8
}

/// A user's `index`, of which the caller knows by a test that it is below `LIMIT`, a power of two. A processor that guesses
/// beyond the test does not get past this: the compiler cannot leave it out.
#[inline(always)]
pub fn bounded<const LIMIT: usize>(mut index: usize) -> usize {
    const { assert!(LIMIT.is_power_of_two()) };
    // SAFETY: arithmetic only.
    unsafe { asm!("and {:e}, {}", inout(reg) index, const LIMIT - 1, options(pure, nomem, nostack)) };
    index
}

/// The same for any limit: 0 where the index is not below it.
#[inline(always)]
pub fn masked(index: usize, limit: usize) -> usize {
    let mask: usize;
    // SAFETY: arithmetic only.
    unsafe {
        asm!("cmp {}, {}", "sbb {mask}, {mask}", in(reg) index, in(reg) limit, mask = lateout(reg) mask,
            options(pure, nomem, nostack));
    }
    index & mask
}

#[cfg(test)]
#[path = "../../../../tests/kernel/masks.rs"]
mod tests;
