// SPDX-License-Identifier: BSD-2-Clause
//! Unmap in both forms, and how a mapping is split into fpages.

use crate::call::{checked, Failure, Registers};
use crate::utcb;
use keel_abi::call::{CALL_FPAGE_UNMAP, UNMAP_MOVE, UNMAP_TASK};
use keel_abi::fpage::{PAGE_SHIFT, PAGE_SIZE, SPACE_SHIFT};
use keel_abi::memory::MAX_RANGES;
use keel_abi::{Error, Fpage, Id, MapItem, UnmapRange};

/// Revokes `rights` (`UNMAP_*`) of `fpage` from all tasks that have it from the caller. Returns the
/// accessed and dirty state that it found.
pub fn unmap(fpage: Fpage, rights: u64) -> Result<u64, Failure> {
    checked(Registers { ax: CALL_FPAGE_UNMAP, di: fpage.0, si: rights, ..Registers::default() }).map(|after| after.di)
}

/// Reduces each range of the task `task` to the rights in the low bits of its address. Returns the
/// accessed and dirty state that it found.
pub fn unmap_in(task: Id, ranges: &[UnmapRange]) -> Result<u64, Failure> {
    if ranges.len() > MAX_RANGES as usize {
        return Err(Failure::call(Error::Invalid));
    }
    for (index, range) in ranges.iter().enumerate() {
        utcb::set_record_word(2 * index, range.address);
        utcb::set_record_word(2 * index + 1, range.pages);
    }
    let words = [ranges.len() as u64, 0, 0, 0, 0, 0];
    checked(Registers { ax: CALL_FPAGE_UNMAP, di: 0, si: UNMAP_TASK, dx: task.0, words }).map(|after| after.di)
}

/// Moves the small pages of a range of the task `task` to the address `to`. The range must be one
/// whole page table. Pages that cannot be moved are unmapped.
pub fn move_in(task: Id, from: UnmapRange, to: u64) -> Result<(), Failure> {
    utcb::set_record_word(0, from.address);
    utcb::set_record_word(1, from.pages);
    let words = [1, to, 0, 0, 0, 0];
    checked(Registers { ax: CALL_FPAGE_UNMAP, di: 0, si: UNMAP_TASK | UNMAP_MOVE, dx: task.0, words }).map(|_| ())
}

/// Log2 of the largest block from `from` on that ends at or before `end` and is aligned both at
/// `from` and at the other address `also`. All arguments are page-aligned.
pub fn block_log2(from: u64, also: u64, end: u64) -> u8 {
    debug_assert!(from < end && (from | also | end) % PAGE_SIZE == 0);
    let alignment = (from | also).trailing_zeros();
    let size = (end - from).ilog2();
    alignment.min(size).min(SPACE_SHIFT as u32).max(PAGE_SHIFT as u32) as u8
}

/// Splits [`from`, `end`) into the largest blocks that are aligned both there and at the same
/// distance from `also`. Yields the address and the log2 of each.
pub fn blocks(from: u64, also: u64, end: u64) -> impl Iterator<Item = (u64, u8)> {
    let mut at = from;
    core::iter::from_fn(move || {
        let log2 = (at < end).then(|| block_log2(at, also + (at - from), end))?;
        let block = (at, log2);
        at += 1 << log2;
        Some(block)
    })
}

/// The items that map the caller's memory [`from`, `end`) to address `to` of a window that is the
/// whole space, or to offset `to` of an aligned window.
pub fn items(from: u64, end: u64, to: u64, rights: u64) -> impl Iterator<Item = MapItem> {
    blocks(from, to, end)
        .map(move |(at, log2)| MapItem { send_base: to + (at - from), fpage: Fpage::memory(at, log2, rights).0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_a_range_exactly() {
        let (from, end, delta) = (0x1f_f000u64, 0x4123_4000u64, 0x4000_0000u64);
        let (mut next, mut count) = (from, 0);
        for (at, log2) in blocks(from, from + delta, end) {
            let size = 1u64 << log2;
            assert!(at == next && at % size == 0 && (at + delta) % size == 0);
            next = at + size;
            count += 1;
        }
        assert_eq!(next, end);
        assert!(count < 24, "{count}");
    }

    #[test]
    fn items_lie_at_the_same_distance() {
        let items: Vec<MapItem> = items(0x1_3000, 0x2_0000, 0x9_3000, 6).collect();
        assert!(items.iter().all(|i| i.send_base - Fpage(i.fpage).base() == 0x8_0000 && Fpage(i.fpage).rights() == 6));
        assert_eq!(items.iter().map(|i| Fpage(i.fpage).size()).sum::<u64>(), 0xd000);
    }
}
