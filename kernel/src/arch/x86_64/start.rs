// SPDX-License-Identifier: GPL-2.0-only
//! Constants of start.s, and the processor's registers that stay as they are set at boot.

use super::multiboot::{HEADER_FLAGS, HEADER_MAGIC};
use super::regs::*;
use super::{cpuid, paging};
use core::arch::global_asm;

global_asm!(
    include_str!("start.s"),
    MB1_MAGIC = const HEADER_MAGIC,
    MB1_FLAGS = const HEADER_FLAGS,
    BIG_PAGE = const paging::PRESENT | paging::WRITE | paging::LARGE | paging::ACCESSED | paging::DIRTY,
    MSR_EFER = const MSR_EFER,
    EFER = const EFER_BITS,
    CR0 = const CR0_BITS as i32,
    CR0_CLEAR = const CR0_CLEAR as i32,
    CR4 = const CR4_BITS,
    boot = sym crate::boot::boot,
);

/// Switches on what CPUID offers.
pub fn enable_features() {
    cpuid::init();
    let mut cr4 = read_cr4();
    for (there, bit) in [
        (cpuid::has_fsgsbase(), CR4_FSGSBASE),
        (cpuid::has_umip(), CR4_UMIP),
        (cpuid::has_smep(), CR4_SMEP),
        (cpuid::has_smap(), CR4_SMAP),
        (cpuid::has_xsave(), CR4_OSXSAVE),
    ] {
        if there {
            cr4 |= bit;
        }
    }
    // SAFETY: only bits that CPUID offers; the kernel never touches user memory by user addresses (SMAP) nor runs it (SMEP).
    unsafe {
        write_cr4(cr4);
        wrmsr(MSR_PAT, paging::PAT);
    }
}
