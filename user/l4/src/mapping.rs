// SPDX-License-Identifier: BSD-2-Clause
//! What a task gives and takes back: unmap in both forms, and the split of a mapping into fpages.

use crate::call::{checked, Failure, Registers};
use crate::utcb;
use keel_abi::call::{CALL_FPAGE_UNMAP, UNMAP_TASK};
use keel_abi::fpage::{PAGE_SHIFT, PAGE_SIZE, SPACE_SHIFT};
use keel_abi::memory::MAX_RANGES;
use keel_abi::{Error, Fpage, Id, UnmapRange};

/// Takes `rights` (`UNMAP_*`) of `fpage` from all who got it from the caller; tells the state found.
pub fn unmap(fpage: Fpage, rights: u64) -> Result<u64, Failure> {
    checked(Registers { ax: CALL_FPAGE_UNMAP, di: fpage.0, si: rights, ..Registers::default() }).map(|after| after.di)
}

/// In the task `task` lets each range keep only the rights in the low bits of its address.
pub fn unmap_in(task: Id, ranges: &[UnmapRange]) -> Result<(), Failure> {
    if ranges.len() > MAX_RANGES as usize {
        return Err(Failure::call(Error::Invalid));
    }
    for (index, range) in ranges.iter().enumerate() {
        utcb::set_record_word(2 * index, range.address);
        utcb::set_record_word(2 * index + 1, range.pages);
    }
    let words = [ranges.len() as u64, 0, 0, 0, 0, 0];
    checked(Registers { ax: CALL_FPAGE_UNMAP, di: 0, si: UNMAP_TASK, dx: task.0, words }).map(|_| ())
}

/// Log2 of the largest block that holds no byte outside [`from`, `end`) when it begins at `from`
/// and is aligned both there and at the other address `also`. All are page-aligned.
pub fn block_log2(from: u64, also: u64, end: u64) -> u8 {
    debug_assert!(from < end && (from | also | end) % PAGE_SIZE == 0);
    let alignment = (from | also).trailing_zeros();
    let size = (end - from).ilog2();
    alignment.min(size).min(SPACE_SHIFT as u32).max(PAGE_SHIFT as u32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_a_range_exactly() {
        let (mut from, end, delta) = (0x1f_f000u64, 0x4123_4000u64, 0x4000_0000u64);
        let mut blocks = 0;
        while from < end {
            let size = 1u64 << block_log2(from, from + delta, end);
            assert!(from % size == 0 && (from + delta) % size == 0 && from + size <= end);
            from += size;
            blocks += 1;
        }
        assert_eq!(from, end);
        assert!(blocks < 24, "{blocks}");
    }
}
