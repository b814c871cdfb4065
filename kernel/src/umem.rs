// SPDX-License-Identifier: GPL-2.0-only
//! The only door to user memory other than UTCBs and frames: by a walk of the page tables, never through
//! the user's addresses, so that the kernel cannot fault.

use crate::arch::direct;
use crate::pool::PAGE;
use crate::refs::Ref;
use crate::space;
use crate::task::Task;
use keel_abi::fpage::*;
use keel_abi::Error;

/// Copies `size` bytes within a page on either side (physical addresses); they may be the same memory. Only RAM that
/// users may have is read and written.
pub fn copy(from: u64, to: u64, size: u64) -> Result<(), Error> {
    if !crate::boot::is_ram(from) || !crate::boot::is_ram(to) {
        return Err(Error::Aborted);
    }
    // SAFETY: such RAM, through the direct map; it is not the kernel's.
    unsafe { core::ptr::copy(direct(from), direct(to), size as usize) };
    Ok(())
}

/// A buffer of a task that was found mapped, of at most a page's size. Good until interrupts or mappings change.
pub struct Buffer {
    parts: [(*mut u8, usize); 2],
}

impl Buffer {
    /// Finds [address, address + size) in `task`; it must be mapped with the right to read, or to write.
    pub fn new(task: Ref<Task>, address: u64, size: u64, write: bool) -> Result<Buffer, Error> {
        let end = address.checked_add(size).ok_or(Error::Invalid)?;
        if end > 1 << SPACE_SHIFT || size > PAGE as u64 {
            return Err(Error::Invalid);
        }
        let first = size.min(PAGE_SIZE - address % PAGE_SIZE);
        let find = |at: u64, length: u64| {
            if length == 0 {
                return Ok((core::ptr::null_mut(), 0));
            }
            let (physical, rights) = space::translate(task, at).ok_or(Error::Invalid)?;
            let known = crate::boot::is_ram(physical);
            if !known || write && rights & FPAGE_WRITE == 0 {
                return Err(Error::Invalid);
            }
            Ok((direct(physical), length as usize))
        };
        Ok(Buffer { parts: [find(address, first)?, find(address + first, size - first)?] })
    }

    /// Writes the buffer from `from`.
    pub fn write(&self, from: &[u8]) {
        let (head, tail) = from.split_at(self.parts[0].1.min(from.len()));
        for (part, bytes) in self.parts.iter().zip([head, tail]) {
            let length = bytes.len().min(part.1);
            // SAFETY: RAM that is mapped for the user, through the direct map; it is not the kernel's.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), part.0, length) };
        }
    }

    /// Reads the buffer into `to`.
    pub fn read(&self, to: &mut [u8]) {
        let (head, tail) = to.split_at_mut(self.parts[0].1.min(to.len()));
        for (part, bytes) in self.parts.iter().zip([head, tail]) {
            let length = bytes.len().min(part.1);
            // SAFETY: as above; the user may change it meanwhile, so the copy is checked, not the source.
            unsafe { core::ptr::copy_nonoverlapping(part.0, bytes.as_mut_ptr(), length) };
        }
    }
}
