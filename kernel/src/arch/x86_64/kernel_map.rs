// SPDX-License-Identifier: GPL-2.0-only
//! The check of the kernel's own map, which is made once (paging.rs) and must give each page the
//! least rights. A page with more is a bug of the kernel's, and the boot ends with a panic.
//!
//! It runs at boot, when the map is complete and before the first user instruction. Until then only
//! the boot processor changes the map, so no lock is needed. It reads and changes nothing.

use super::direct;
use super::paging::{boot_pml4, image_physical, leads_to, span, ENTRIES, TOP_LEVEL, UPPER_SLOTS};
use super::paging::{LARGE, MAPPED, NO_EXECUTE, PRESENT, USER, WRITE};
use core::ops::Range;

/// Addresses of the upper half begin with these bits.
const UPPER_HALF: u64 = 0xffff << 48;

unsafe extern "C" {
    static _text: u8;
    static _constants: u8;
    static _data: u8;
}

/// Where the kernel's text and constants are; the constants follow the text.
struct Image {
    /// The address at which the text runs.
    address: u64,
    /// In physical memory.
    text: Range<u64>,
    /// In physical memory.
    constants: Range<u64>,
}

impl Image {
    /// Returns where the linker put them (link.ld).
    fn linked() -> Image {
        let [text, constants, data] =
            [&raw const _text, &raw const _constants, &raw const _data].map(|place| image_physical(place).raw());
        Image { address: &raw const _text as u64, text: text..constants, constants: constants..data }
    }

    /// Checks the rights of the entry of a level for an address. Returns what is wrong with them.
    fn fault_of(&self, entry: u64, address: u64, level: u8) -> Option<&'static str> {
        if entry & (USER | MAPPED) != 0 {
            return Some("users reach it");
        }
        if leads_to_table(entry, level) {
            return None;
        }
        let start = leads_to(entry).align_down(span(level)).raw();
        let page = start..start + span(level);
        let (writable, executable) = (entry & WRITE != 0, entry & NO_EXECUTE == 0);
        if writable && executable {
            return Some("it can be written and executed");
        }
        if writable && page.start < self.constants.end && page.end > self.text.start {
            return Some("the kernel's text or constants can be written");
        }
        let is_text = page.start >= self.text.start && page.end <= self.text.end;
        let at_its_address = address.wrapping_sub(self.address) == page.start.wrapping_sub(self.text.start);
        if executable && !(is_text && at_its_address) {
            return Some("it can be executed and is not the kernel's text");
        }
        None
    }
}

/// Returns whether an entry of a level leads to a table, and not to a page.
fn leads_to_table(entry: u64, level: u8) -> bool {
    level > 0 && entry & LARGE == 0
}

/// Panics unless each page of the kernel's half is out of the users' reach, can be executed only if
/// it is of the kernel's text, and can be written only if it is neither executable nor of the text
/// or the constants.
pub fn check() {
    // SAFETY: the boot table is the top one of the kernel's map, which is complete.
    let fault =
        unsafe { find_fault((&raw const boot_pml4).cast(), TOP_LEVEL, UPPER_SLOTS, UPPER_HALF, &Image::linked()) };
    if let Some((address, what)) = fault {
        panic!("the kernel's page at {address:#x}: {what}");
    }
}

/// Finds an entry with wrong rights among some slots of a table of a level, whose first slot is for
/// `base`, and in all tables below. Returns the address that it is for, and what is wrong.
///
/// # Safety
/// It is a table of that level, and nobody changes or frees what is below.
unsafe fn find_fault(
    table: *const u64,
    level: u8,
    slots: Range<usize>,
    base: u64,
    image: &Image,
) -> Option<(u64, &'static str)> {
    for slot in slots {
        // SAFETY: the caller's contract.
        let entry = unsafe { table.add(slot).read() };
        let address = base + slot as u64 * span(level);
        if entry & PRESENT == 0 {
            continue;
        }
        if let Some(what) = image.fault_of(entry, address, level) {
            return Some((address, what));
        }
        if leads_to_table(entry, level) {
            // SAFETY: as above; the entry leads to a table of the level below.
            let below = unsafe { find_fault(direct(leads_to(entry)).cast(), level - 1, 0..ENTRIES, address, image) };
            if below.is_some() {
                return below;
            }
        }
    }
    None
}

#[cfg(test)]
#[path = "../../../../tests/kernel/kernel_map.rs"]
mod tests;
