// SPDX-License-Identifier: GPL-2.0-only
//! Page-table entries and the kernel's own tables (Intel SDM volume 3, chapter 4).

use super::regs::{invlpg, read_cr3, write_cr3};
use super::{cpuid, direct, DIRECT, OFFSET};
use crate::pool::{Kind, POOL};
use keel_abi::fpage::*;

/// Entry: present.
pub const PRESENT: u64 = 1;
/// Entry: writable.
pub const WRITE: u64 = 1 << 1;
/// Entry: user mode may use it.
pub const USER: u64 = 1 << 2;
/// Entry: PAT index bit 0.
pub const PWT: u64 = 1 << 3;
/// Entry: PAT index bit 1.
pub const PCD: u64 = 1 << 4;
/// Entry: it was used.
pub const ACCESSED: u64 = 1 << 5;
/// Entry: it was written through.
pub const DIRTY: u64 = 1 << 6;
/// Entry above level 0: it maps a large page.
pub const LARGE: u64 = 1 << 7;
/// Entry, for software: a kernel object that the user sees (UTCB, frames, information page).
pub const KERNEL_OBJECT: u64 = 1 << 9;
/// Entry: no execution.
pub const NO_EXECUTE: u64 = 1 << 63;
/// Entry: the physical address.
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// Entries in a table.
pub const ENTRIES: usize = 512;
/// Levels of tables: 0 for 4 KB entries to 3, the top.
pub const TOP_LEVEL: u8 = 3;
/// Slots of the top table that belong to the kernel's half.
pub const KERNEL_SLOTS: core::ops::Range<usize> = 256..512;
/// PAT: write-back, write-combining, uncached minus, uncached; twice.
pub const PAT: u64 = 0x0007_0106_0007_0106;

/// Log2 of the bytes that an entry of a level covers.
pub const fn span_shift(level: u8) -> u8 {
    12 + 9 * level
}

/// Bytes that an entry of a level covers.
pub const fn span(level: u8) -> u64 {
    1 << span_shift(level)
}

/// Slot of an address in a table of a level.
pub const fn slot(address: u64, level: u8) -> usize {
    (address >> span_shift(level)) as usize % ENTRIES
}

/// Entry bits of fpage rights.
pub const fn rights_bits(rights: u64) -> u64 {
    let write = if rights & FPAGE_WRITE != 0 { WRITE } else { 0 };
    let no_execute = if rights & FPAGE_EXEC != 0 { 0 } else { NO_EXECUTE };
    write | no_execute
}

/// Fpage rights of an entry.
pub const fn bits_rights(entry: u64) -> u64 {
    let write = if entry & WRITE != 0 { FPAGE_WRITE } else { 0 };
    let execute = if entry & NO_EXECUTE == 0 { FPAGE_EXEC } else { 0 };
    FPAGE_READ | write | execute
}

/// Entry bits of a cache type.
pub const fn cache_bits(cache: u64) -> u64 {
    match cache {
        CACHE_WRITE_COMBINING => PWT,
        CACHE_UNCACHED => PWT | PCD,
        _ => 0,
    }
}

/// The table whose physical address is given.
pub fn table(physical: u64) -> *mut u64 {
    direct(physical).cast()
}

/// Drops the translation of an address, if the space with top table `root` is the present one.
pub fn flush(root: u64, address: u64) {
    if read_cr3() == root {
        invlpg(address);
    }
}

/// Makes the space with top table `root` the present one.
pub fn switch(root: u64) {
    if read_cr3() != root {
        // SAFETY: every top table has the kernel's half.
        unsafe { write_cr3(root) };
    }
}

unsafe extern "C" {
    static mut boot_pml4: [u64; ENTRIES];
}

/// Extends the direct map from the first 4 GB to `end` and drops the one-to-one map.
///
/// # Safety
/// Called once, on the boot tables, with the pool in place.
pub unsafe fn finish_kernel_map(end: u64) {
    let top = (&raw mut boot_pml4).cast::<u64>();
    let large = PRESENT | WRITE | LARGE | ACCESSED | DIRTY | NO_EXECUTE;
    let pool = POOL.root_account();
    let mut at = span(2) * 4;
    // SAFETY: the boot tables and fresh pool pages are ours alone; addresses stay below `end`.
    unsafe {
        *top = 0;
        let pdpt = table(*top.add(slot(DIRECT, TOP_LEVEL)) & ADDRESS);
        while at < end {
            let entry = pdpt.add(slot(DIRECT + at, 2));
            if cpuid::has_1g_pages() {
                *entry = at | large;
                at += span(2);
                continue;
            }
            let page = POOL.take_zeroed(pool, Kind::Table).expect("the pool is larger than its map");
            *entry = POOL.physical(page) | PRESENT | WRITE;
            for number in 0..ENTRIES as u64 {
                *direct(POOL.physical(page)).cast::<u64>().add(number as usize) = (at + number * span(1)) | large;
            }
            at += span(2);
        }
        write_cr3(read_cr3());
    }
}

/// Makes the 2 MB around a device's registers uncached in the direct map (below 4 GB).
///
/// # Safety
/// The address is a device's, not RAM's.
pub unsafe fn make_uncached(physical: u64) {
    let address = DIRECT + physical;
    let mut at = (&raw mut boot_pml4).cast::<u64>();
    // SAFETY: the first 4 GB are mapped by 2 MB pages in the boot tables.
    unsafe {
        for level in [TOP_LEVEL, 2] {
            at = table(*at.add(slot(address, level)) & ADDRESS);
        }
        *at.add(slot(address, 1)) |= PCD | PWT | NO_EXECUTE;
    }
    invlpg(address);
}

/// Copies the kernel's half into a fresh top table.
///
/// # Safety
/// `root` is a zeroed page of the pool that is in nobody's use.
pub unsafe fn copy_kernel_half(root: *mut u64) {
    for slot in KERNEL_SLOTS {
        // SAFETY: both tables have 512 entries; the caller's contract.
        unsafe { *root.add(slot) = *(&raw const boot_pml4).cast::<u64>().add(slot) };
    }
}

/// Physical address of something in the kernel's image.
pub fn image_physical<T>(pointer: *const T) -> u64 {
    pointer as u64 - OFFSET
}

/// If the space with top table `root` is the present one, goes to the kernel's own.
pub fn leave(root: u64) {
    if read_cr3() == root {
        // SAFETY: the boot table has the kernel's half.
        unsafe { write_cr3(image_physical(&raw const boot_pml4)) };
    }
}
