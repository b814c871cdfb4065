// SPDX-License-Identifier: BSD-2-Clause
//! What executes a program's instructions: programs that run random ones avoid an emulator's
//! faults.

// Reading CPUID is unsafe up to Rust 1.93 and safe from then on.
#![allow(unused_unsafe)]

use core::arch::x86_64::{__cpuid, CpuidResult};

/// CPUID 1, ECX: a hypervisor has leaves of its own, the first of which has its name.
const HAS_HYPERVISOR: u32 = 1 << 31;
const HYPERVISOR: u32 = 0x4000_0000;
const TRANSLATOR: &[u8; 12] = b"TCGTCGTCGTCG";

/// Tells QEMU's translator, which differs from a processor, from all else.
pub fn is_translated() -> bool {
    // SAFETY: every 64-bit processor has CPUID, and where a hypervisor is, that leaf.
    unsafe { __cpuid(1).ecx & HAS_HYPERVISOR != 0 && names_translator(&__cpuid(HYPERVISOR)) }
}

fn names_translator(leaf: &CpuidResult) -> bool {
    let name = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes);
    name.iter().flatten().eq(TRANSLATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(name: &[u8; 12]) -> CpuidResult {
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|index| name[at + index]));
        CpuidResult { eax: HYPERVISOR, ebx: word(0), ecx: word(4), edx: word(8) }
    }

    #[test]
    fn the_translator_is_told_from_hypervisors() {
        assert!(names_translator(&leaf(TRANSLATOR)));
        assert!(!names_translator(&leaf(b"KVMKVMKVM\0\0\0")));
    }
}
