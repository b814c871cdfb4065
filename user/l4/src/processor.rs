// SPDX-License-Identifier: BSD-2-Clause
//! What executes a program's instructions. Programs of random ones avoid an emulator's faults
//! (docs/machines.md).

// Reading CPUID is unsafe up to Rust 1.93 and safe from then on.
#![allow(unused_unsafe)]

use core::arch::x86_64::{__cpuid, CpuidResult};

/// CPUID 1, ECX: a hypervisor has leaves of its own, the first of which has its name.
const HAS_HYPERVISOR: u32 = 1 << 31;
const HYPERVISOR: u32 = 0x4000_0000;
const TRANSLATOR: &[u8; 12] = b"TCGTCGTCGTCG";
const NOP: u8 = 0x90;
const IRET: u8 = 0xcf;
/// MOV from and to a segment register.
const MOVES: [u8; 2] = [0x8c, 0x8e];
/// The register in the byte after the opcode, and DS there.
const REGISTER: u8 = 7 << 3;
const DS: u8 = 3 << 3;
/// The most bytes from a REX prefix to the opcode for which an emulator takes it.
const PREFIXES: usize = 4;

/// Tells QEMU's translator, which differs from a processor, from all else.
pub fn is_translated() -> bool {
    // SAFETY: every 64-bit processor has CPUID, and where a hypervisor is, that leaf.
    unsafe { __cpuid(1).ecx & HAS_HYPERVISOR != 0 && names_translator(&__cpuid(HYPERVISOR)) }
}

fn names_translator(leaf: &CpuidResult) -> bool {
    let name = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes);
    name.iter().flatten().eq(TRANSLATOR)
}

/// Changes random code so that no emulator fails by it, wherever it is entered: QEMU 7.2 aborts on
/// some malformed VEX and EVEX instructions. Its translator, where `translated`, takes IRET to
/// virtual-8086 mode, and QEMU 10 loads CS, or what is not a segment register, by MOV.
pub fn avoid_faults(code: &mut [u8], translated: bool) {
    for at in 0..code.len() {
        let near = &code[at.saturating_sub(PREFIXES)..at];
        let is_extended = near.iter().any(|byte| byte & 0xf4 == 0x44);
        code[at] = match (code[at], near.last()) {
            (0xc4 | 0xc5 | 0x62, _) => NOP,
            (IRET, _) if translated => NOP,
            (byte, _) if translated && MOVES.contains(&byte) && is_extended => NOP,
            (byte, Some(before)) if translated && MOVES.contains(before) && matches!(byte >> 3 & 7, 1 | 6 | 7) => {
                byte & !REGISTER | DS
            }
            (byte, _) => byte,
        };
    }
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

    fn avoided(code: &[u8], translated: bool) -> Vec<u8> {
        let mut changed = code.to_vec();
        avoid_faults(&mut changed, translated);
        changed
    }

    #[test]
    fn what_ends_an_emulator_is_avoided_there_alone() {
        assert_eq!(avoided(&[0x48, 0xcf, 0xc4, 0x8e, 0xc8], false), [0x48, 0xcf, NOP, 0x8e, 0xc8]);
        assert_eq!(avoided(&[0x48, 0xcf, 0xc4, 0x8e, 0xc8], true), [0x48, NOP, NOP, 0x8e, 0xd8]);
    }

    #[test]
    fn segment_registers_alone_are_loaded() {
        for register in 0..8u8 {
            let code = avoided(&[0x8e, 0xc0 | register << 3], true);
            assert!(
                matches!(code[1] >> 3 & 7, 0 | 2..=5)
                    && (code[1] >> 3 & 7 == register || matches!(register, 1 | 6 | 7))
            );
        }
        assert_eq!(avoided(&[0x44, 0x66, 0x8c, 0xd8], true), [0x44, 0x66, NOP, 0xd8]);
        assert_eq!(avoided(&[0x48, 0x8c, 0xd8], true), [0x48, 0x8c, 0xd8]);
        assert_eq!(avoided(&[0x8e, 0xcf], true), [0x8e, NOP]);
    }
}
