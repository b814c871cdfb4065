// SPDX-License-Identifier: GPL-2.0-only
//! The first instructions of each processor, and what starts them: constants of start.s, and the
//! processor's registers that stay as they are set at boot.

pub mod smp;

use crate::arch::{cpu, cpuid, cpuid::Feature, paging, regs::*};
use core::arch::global_asm;

global_asm!(
    include_str!("start.s"),
    TABLE = const paging::PRESENT | paging::WRITE,
    BIG_PAGE = const paging::PRESENT | paging::WRITE | paging::LARGE | paging::ACCESSED | paging::DIRTY,
    MSR_EFER = const MSR_EFER,
    EFER = const EFER_BITS,
    CR0 = const CR0_BITS as i32,
    CR4 = const CR4_BITS,
    BOOT_STACK = const cpu::BOOT_STACK,
    boot = sym crate::boot::boot,
);

/// Switches on what CPUID offers, and nothing else.
pub fn enable_features() {
    const BITS: [(Feature, u64); 5] = [
        (Feature::FsGsBase, CR4_FSGSBASE),
        (Feature::Umip, CR4_UMIP),
        (Feature::Smep, CR4_SMEP),
        (Feature::Smap, CR4_SMAP),
        (Feature::Xsave, CR4_OSXSAVE),
    ];
    let cr4 =
        BITS.iter().fold(CR4_BITS as u64, |bits, (feature, bit)| if cpuid::has(*feature) { bits | bit } else { bits });
    // SAFETY: only bits that CPUID offers; the kernel never touches user memory by user addresses
    // (SMAP) nor runs it (SMEP).
    unsafe {
        write_cr4(cr4);
        wrmsr(MSR_PAT, paging::PAT);
    }
}
