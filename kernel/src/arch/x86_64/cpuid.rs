// SPDX-License-Identifier: GPL-2.0-only
//! What the processor can do. Emulators accept control bits that they do not implement: only CPUID
//! counts.

// Reading CPUID is unsafe up to Rust 1.93 and safe from then on.
#![allow(unused_unsafe)]

use crate::base::{Cell, Global};
use core::arch::x86_64::{__cpuid, __cpuid_count};

const EAX: usize = 0;
const EBX: usize = 1;
const ECX: usize = 2;
const EDX: usize = 3;
/// The leaves and registers that are looked at.
const WORDS: [(u32, usize); 7] =
    [(1, ECX), (7, EBX), (7, ECX), (0x8000_0001, EDX), (0x8000_0007, EDX), (7, EDX), (0x8000_0008, EAX)];
/// The leaf of XSAVE. Part 0: eax and edx are XCR0's valid bits, ebx is the size of the area for
/// the components that are on in XCR0. The part of a component: eax is its size, ebx its offset.
pub const XSAVE: u32 = 13;
/// The leaf of the TSC's crystal: eax and ebx are denominator and numerator of TSC ticks to its
/// own, ecx is its frequency in Hz; each 0 where it is not told (Intel SDM volume 2, CPUID leaf
/// 15H).
pub const CRYSTAL: u32 = 0x15;
/// Leaves of a hypervisor's, of which each that the hypervisor plays begins with its name at a
/// multiple of 256.
const HYPERVISOR: u32 = 0x4000_0000;
const HYPERVISORS: core::ops::Range<u32> = HYPERVISOR..HYPERVISOR + 0x1_0000;

/// What was found in each: a CPUID instruction takes long, and in a virtual machine very long.
static FOUND: Global<[Cell<u32>; WORDS.len()]> = Global::new([const { Cell::new(0) }; WORDS.len()]);

/// What some processors have: 32 times the place in `WORDS`, and the bit.
#[derive(Clone, Copy)]
pub enum Feature {
    /// PCID.
    Pcid = 17,
    /// x2APIC.
    X2Apic = 21,
    /// XSAVE.
    Xsave = 26,
    /// A hypervisor, with leaves of its own.
    Hypervisor = 31,
    /// FSGSBASE instructions.
    FsGsBase = 32,
    /// SMEP.
    Smep = 32 + 7,
    /// INVPCID.
    InvPcid = 32 + 10,
    /// SMAP.
    Smap = 32 + 20,
    /// UMIP.
    Umip = 2 * 32 + 2,
    /// RDPID.
    Rdpid = 2 * 32 + 22,
    /// Pages of 1 GB.
    LargePages = 3 * 32 + 26,
    /// RDTSCP.
    Rdtscp = 3 * 32 + 27,
    /// The TSC counts at a constant rate.
    ConstantTsc = 4 * 32 + 8,
    /// IA32_ARCH_CAPABILITIES.
    ArchCapabilities = 5 * 32 + 29,
}

/// eax to edx of a leaf or of one of its parts, zero where the leaf is not offered.
pub fn leaf(number: u32, part: u32) -> [u32; 4] {
    // SAFETY: every 64-bit processor has CPUID.
    // The first leaf of a group of at most 256 tells the last one.
    let (last, leaf) = unsafe { (__cpuid(number & !0xff).eax, __cpuid_count(number, part)) };
    [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx].map(|register| if number <= last { register } else { 0 })
}

/// Looks, once for all processors.
pub fn init() {
    WORDS.iter().zip(FOUND.iter()).for_each(|((number, register), word)| word.set(leaf(*number, 0)[*register]));
}

/// Whether the processor has it.
pub fn has(feature: Feature) -> bool {
    FOUND[feature as usize / 32].get() >> (feature as u32 % 32) & 1 == 1
}

/// Width of a physical address, at most what a one-to-one user space can show; 36 bits where CPUID
/// does not tell (Intel SDM volume 3, 4.1.4).
pub fn physical_bits() -> u32 {
    match FOUND[WORDS.len() - 1].get() & 0xff {
        0 => 36,
        bits => bits.min(46),
    }
}

/// The TSC's frequency in kHz that a hypervisor tells (VMware's leaf, which QEMU has too), 0 if it
/// does not; `None` without a hypervisor.
pub fn hypervisor_tsc_khz() -> Option<u32> {
    has(Feature::Hypervisor).then(|| leaf(HYPERVISOR + 0x10, 0)[EAX])
}

/// Reads the features of KVM's own, 0 without KVM (Linux, Documentation/virt/kvm/x86/cpuid.rst).
pub fn kvm_features() -> u32 {
    let name = [b"KVMK", b"VMKV", b"M\0\0\0"].map(|part| u32::from_le_bytes(*part));
    let mut bases = HYPERVISORS.step_by(0x100).filter(|_| has(Feature::Hypervisor));
    bases.find(|base| leaf(*base, 0)[EBX..] == name).map_or(0, |base| leaf(base + 1, 0)[EAX])
}
