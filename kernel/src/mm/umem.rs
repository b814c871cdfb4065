// SPDX-License-Identifier: GPL-2.0-only
//! The only door to user memory other than UTCBs and frames: by a walk of the page tables, never
//! through the user's addresses, so that the kernel cannot fault.

use crate::{arch::direct, base::abi::*, base::*, mm::space, object::Task};

/// Copies `size` bytes within a page on either side; they may be the same
/// memory. Only RAM that users may have is read and written.
pub fn copy(from: PhysAddr, to: PhysAddr, size: u64) -> Result<(), Error> {
    Error::Aborted.when(!facts::is_ram(from) || !facts::is_ram(to))?;
    // SAFETY: such RAM, through the direct map; it is not the kernel's.
    unsafe { core::ptr::copy(direct(from), direct(to), size as usize) };
    Ok(())
}

/// The words of a buffer of a task in the one or two pages that it is in: 8 bytes at least, a
/// page's size at most. It must be mapped with the right to read, or to write. Good until
/// interrupts are let in or mappings change.
pub fn words(task: Ref<Task>, address: VirtAddr, size: u64, write: bool) -> Result<[&'static [Word]; 2], Error> {
    Error::Invalid.when(size > PAGE_SIZE || !is_in_half(address.raw(), size) || (address.raw() | size) % 8 != 0)?;
    let part = |at: VirtAddr, bytes: u64| {
        let place = space::access(task, at, write).ok().filter(|place| facts::is_ram(*place));
        let words: *const Word = direct(place.ok_or(Error::Invalid)?).cast();
        // SAFETY: RAM that is mapped for the user, through the direct map; it is not the kernel's.
        Ok(unsafe { core::slice::from_raw_parts(words, bytes as usize / 8) })
    };
    let head = size.min(PAGE_SIZE - address.offset_in(PAGE_SIZE));
    let tail = if head < size { part(address + head, size - head)? } else { &[] };
    Ok([part(address, head)?, tail])
}
