// SPDX-License-Identifier: GPL-2.0-only
//! The first instructions of each processor, and what starts them: constants of start.s, and the
//! processor's registers that stay as they are set at boot.

pub mod smp;

use crate::arch::{cpu, cpuid, cpuid::Feature, paging, regs::*};

core::arch::global_asm!(
    include_str!("start.s"),
    TABLE = const paging::PRESENT | paging::WRITE,
    BIG_PAGE = const paging::PRESENT | paging::WRITE | paging::LARGE | paging::ACCESSED | paging::DIRTY,
    CR0 = const CR0_BITS as i32,
    CR4 = const CR4_BITS,
    BOOT_STACK = const cpu::BOOT_STACK,
    boot = sym crate::boot::boot,
);

/// Switches on what CPUID offers, and nothing else.
pub fn enable_features() {
    /// What can be offered, and its bit of CR4.
    const BITS: [(Feature, u32); 5] =
        [(Feature::Umip, 11), (Feature::FsGsBase, 16), (Feature::Xsave, 18), (Feature::Smep, 20), (Feature::Smap, 21)];
    let cr4 = BITS.iter().fold(CR4_BITS as u64, |bits, (feature, bit)| bits | (cpuid::has(*feature) as u64) << bit);
    // SAFETY: only bits that CPUID offers; the kernel never touches user memory by user addresses
    // (SMAP) nor runs it (SMEP).
    unsafe {
        write_cr4(cr4);
        wrmsr(MSR_PAT, paging::PAT);
    }
}
