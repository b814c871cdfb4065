// SPDX-License-Identifier: GPL-2.0-only
//! What the processor can do. Emulators accept control bits that they do not implement: only CPUID counts.

// Reading CPUID is unsafe up to Rust 1.93 and safe from then on.
#![allow(unused_unsafe)]

use crate::global::Global;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::cell::Cell;

fn leaf7_ebx() -> u32 {
    // SAFETY: every 64-bit processor has CPUID.
    unsafe {
        if __cpuid(0).eax >= 7 {
            __cpuid_count(7, 0).ebx
        } else {
            0
        }
    }
}

fn extended_edx() -> u32 {
    // SAFETY: every 64-bit processor has this leaf.
    unsafe { __cpuid(0x8000_0001).edx }
}

struct Cached {
    fsgsbase: Cell<bool>,
    invpcid: Cell<bool>,
    large_pages: Cell<bool>,
    physical_bits: Cell<u8>,
}

/// What is asked often: a CPUID instruction takes long, and in a virtual machine very long.
static CACHED: Global<Cached> = Global::new(Cached {
    fsgsbase: Cell::new(false),
    invpcid: Cell::new(false),
    large_pages: Cell::new(false),
    physical_bits: Cell::new(36),
});

/// Reads what is asked often.
pub fn init() {
    CACHED.fsgsbase.set(leaf7_ebx() & 1 != 0);
    CACHED.invpcid.set(leaf7_ebx() & 1 << 10 != 0);
    CACHED.large_pages.set(extended_edx() & 1 << 26 != 0);
    CACHED.physical_bits.set(read_physical_bits());
}

/// Pages of 1 GB.
pub fn has_1g_pages() -> bool {
    CACHED.large_pages.get()
}

/// FSGSBASE instructions.
pub fn has_fsgsbase() -> bool {
    CACHED.fsgsbase.get()
}

/// INVPCID.
pub fn has_invpcid() -> bool {
    CACHED.invpcid.get()
}

/// PCID.
pub fn has_pcid() -> bool {
    // SAFETY: as above.
    unsafe { __cpuid(1).ecx & 1 << 17 != 0 }
}

/// Width of a physical address, at most what a one-to-one user space can show.
pub fn physical_bits() -> u8 {
    CACHED.physical_bits.get()
}

/// SMEP.
pub fn has_smep() -> bool {
    leaf7_ebx() & 1 << 7 != 0
}

/// SMAP.
pub fn has_smap() -> bool {
    leaf7_ebx() & 1 << 20 != 0
}

/// UMIP.
pub fn has_umip() -> bool {
    // SAFETY: as above.
    unsafe { __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & 1 << 2 != 0 }
}

/// XSAVE.
pub fn has_xsave() -> bool {
    // SAFETY: as above.
    unsafe { __cpuid(1).ecx & 1 << 26 != 0 }
}

/// State components that XSAVE can save (XCR0's valid bits).
pub fn xsave_components() -> u64 {
    // SAFETY: as above; asked only where XSAVE is there.
    let leaf = unsafe { __cpuid_count(13, 0) };
    (leaf.edx as u64) << 32 | leaf.eax as u64
}

/// Bytes of the XSAVE area for the components that are on in XCR0.
pub fn xsave_size() -> u32 {
    // SAFETY: as above.
    unsafe { __cpuid_count(13, 0).ebx }
}

/// The TSC counts at a constant rate.
pub fn has_constant_tsc() -> bool {
    // SAFETY: as above.
    unsafe { __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0 }
}

/// 36 bits where CPUID does not tell (Intel SDM volume 3, 4.1.4).
fn read_physical_bits() -> u8 {
    // SAFETY: as above.
    let bits = unsafe {
        if __cpuid(0x8000_0000).eax >= 0x8000_0008 {
            __cpuid(0x8000_0008).eax & 0xff
        } else {
            36
        }
    };
    bits.min(46) as u8
}
