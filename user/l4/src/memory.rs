// SPDX-License-Identifier: BSD-2-Clause
//! The task's own memory: gives each page out once. No Rust reference ever points to the bytes, so
//! pages may be mapped to other tasks; a write of such a task only changes what is read next.

use crate::ranges::{Range, Ranges};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use keel_abi::fpage::PAGE_SIZE;
use keel_protocol::boot::{Start, DIRECT_MAP, START_REGIONS};

/// Contiguous pages.
#[derive(Debug, PartialEq, Eq)]
pub struct Pages {
    address: u64,
    bytes: u64,
}

impl Pages {
    /// Takes over whole pages.
    ///
    /// # Safety
    /// The memory must be mapped with read and write access, belong to nothing else, and stay so.
    pub const unsafe fn new(address: u64, count: u64) -> Pages {
        Pages { address, bytes: count * PAGE_SIZE }
    }

    /// Their address in this task.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Their size in bytes.
    pub const fn size(&self) -> u64 {
        self.bytes
    }

    fn at(&self, offset: u64, length: usize) -> *mut u8 {
        assert!(offset.checked_add(length as u64).is_some_and(|end| end <= self.bytes), "beyond the pages");
        (self.address + offset) as *mut u8
    }

    /// Copies `bytes` to `offset`. Panics if they do not fit.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: the bytes are in pages that are ours (`new`), and no reference points there.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Copies the bytes at `offset` to `bytes`.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        let from = self.at(offset, bytes.len());
        // SAFETY: as above.
        unsafe { core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }

    fn clear(&self) {
        // SAFETY: as above, for all of the pages.
        unsafe { core::ptr::write_bytes(self.at(0, self.bytes as usize), 0, self.bytes as usize) };
    }
}

/// Pages in the program's own image, for a program that has no other memory.
#[repr(C, align(4096))]
pub struct Reserve<const BYTES: usize> {
    bytes: UnsafeCell<[u8; BYTES]>,
    taken: AtomicBool,
}

// SAFETY: only the `Pages` that `take` returns access the bytes, and it returns them once.
unsafe impl<const BYTES: usize> Sync for Reserve<BYTES> {}

impl<const BYTES: usize> Reserve<BYTES> {
    /// `BYTES` bytes, a multiple of the page size.
    pub const fn new() -> Reserve<BYTES> {
        assert!(BYTES > 0 && BYTES as u64 % PAGE_SIZE == 0);
        Reserve { bytes: UnsafeCell::new([0; BYTES]), taken: AtomicBool::new(false) }
    }

    /// Takes the pages; `None` after the first call.
    pub fn take(&'static self) -> Option<Pages> {
        if self.taken.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: the bytes are exclusively ours from now on, and page-aligned as the first field.
        Some(unsafe { Pages::new(self.bytes.get() as u64, BYTES as u64 / PAGE_SIZE) })
    }
}

impl<const BYTES: usize> Default for Reserve<BYTES> {
    fn default() -> Reserve<BYTES> {
        Reserve::new()
    }
}

/// The memory that the task got at its start, without what was taken.
#[derive(Debug)]
pub struct Memory {
    /// Physical addresses.
    free: Ranges<{ START_REGIONS as usize + 1 }>,
}

impl Memory {
    /// The memory that `record` names, without the RAM disk.
    ///
    /// # Safety
    /// At most once for each record. The record must come from the root task.
    pub unsafe fn new(record: &Start) -> Memory {
        let mut free = Ranges::default();
        let regions = record.regions.chunks_exact(3).take(record.region_count as usize);
        for region in regions {
            // The set has room for all regions of a record, and for the cut below.
            let _ = free.insert(Range::new(region[0], region[1]));
        }
        let disk = Range::new(record.initrd_phys, record.initrd_phys + record.initrd_size);
        let _ = free.remove(disk.grow_to(PAGE_SIZE));
        Memory { free }
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        self.free.total()
    }

    /// Takes `count` contiguous, zeroed pages. If `count` is a power of two they are aligned to
    /// their size, so that one fpage covers them. `None` if there are none.
    pub fn take(&mut self, count: u64) -> Option<Pages> {
        let size = count.checked_mul(PAGE_SIZE)?;
        let alignment = if size.is_power_of_two() { size } else { PAGE_SIZE };
        let place = self.free.find(size, alignment)?;
        self.free.remove(place).ok()?;
        // SAFETY: the root task mapped this memory, all rights, and it is not handed out again.
        let pages = unsafe { Pages::new(DIRECT_MAP + place.start, count) };
        pages.clear();
        Some(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_bounds_hold() {
        #[repr(align(4096))]
        struct Page([u8; PAGE_SIZE as usize]);
        let mut page = Page([7; PAGE_SIZE as usize]);
        // SAFETY: the page lives to the end of the test and is used through `pages` only.
        let pages = unsafe { Pages::new(page.0.as_mut_ptr() as u64, 1) };
        pages.clear();
        pages.write(PAGE_SIZE - 3, b"end");
        let mut end = [1; 4];
        pages.read(PAGE_SIZE - 4, &mut end);
        assert_eq!(&end, b"\0end");
        assert!(std::panic::catch_unwind(|| pages.write(PAGE_SIZE - 2, b"end")).is_err());
        assert!(std::panic::catch_unwind(|| pages.read(u64::MAX, &mut [0])).is_err());
    }

    #[test]
    fn a_reserve_is_taken_once() {
        static RESERVE: Reserve<8192> = Reserve::new();
        let pages = RESERVE.take().unwrap();
        assert_eq!((pages.address() % PAGE_SIZE, pages.size()), (0, 8192));
        assert_eq!(RESERVE.take(), None);
    }

    #[test]
    fn the_ram_disk_is_not_handed_out() {
        let mut record = Start::zeroed();
        record.region_count = 2;
        record.regions[..6].copy_from_slice(&[0x10_0000, 0x20_0000, 1, 0x40_0000, 0x42_0000, 1]);
        (record.initrd_phys, record.initrd_size) = (0x18_0000, 0x1001);
        // SAFETY: no page is taken from it.
        let memory = unsafe { Memory::new(&record) };
        assert_eq!(memory.left(), 0x12_0000 - 0x2000);
        assert!(!memory.free.overlaps(Range::new(0x18_0000, 0x18_2000)));
    }
}
