// SPDX-License-Identifier: GPL-2.0-only
//! What the processor can do. Emulators accept control bits that they do not implement: only CPUID counts.

// Reading CPUID is unsafe up to Rust 1.93 and safe from then on.
#![allow(unused_unsafe)]

use core::arch::x86_64::{__cpuid, __cpuid_count};

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

/// Pages of 1 GB.
pub fn has_1g_pages() -> bool {
    extended_edx() & 1 << 26 != 0
}

/// FSGSBASE instructions. Constant after boot; cached, because every thread switch asks.
pub fn has_fsgsbase() -> bool {
    FSGSBASE.get()
}

static FSGSBASE: crate::global::Global<core::cell::Cell<bool>> =
    crate::global::Global::new(core::cell::Cell::new(false));

/// Reads what is asked often.
pub fn init() {
    FSGSBASE.set(leaf7_ebx() & 1 != 0);
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

/// Width of a physical address, at most what a one-to-one user space can show. 36 bits where CPUID does not tell
/// (Intel SDM volume 3, 4.1.4).
pub fn physical_bits() -> u8 {
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
