// SPDX-License-Identifier: BSD-2-Clause
//! Map items, and unmapping.

use crate::call::{invoke, Failure, Registers};
use crate::utcb;
use keel_abi::call::{CALL_FPAGE_UNMAP, UNMAP_RIGHTS};
use keel_abi::fpage::PAGE_SHIFT;
use keel_abi::{Fpage, MapItem};

/// The map item for a page of this task's at `address`, with `rights`, which arrives at `base` in
/// the space of a thread that waits for the answer to its page fault.
pub fn page(address: u32, base: u32, rights: u64) -> MapItem {
    MapItem { send_base: base as u64, fpage: Fpage::memory(address as u64, PAGE_SHIFT as u8, rights).0 }
}

/// Takes a page of this task's at `address` away from all to whom it was mapped; it stays here.
pub fn take_back(address: u32) -> Result<(), Failure> {
    let fpage = Fpage::memory(address as u64, PAGE_SHIFT as u8, UNMAP_RIGHTS).0;
    let di = fpage as u32;
    // What is in rsi of 64-bit code has its upper half there.
    utcb::set_word(0, 0);
    let (ax, bx, si) = (CALL_FPAGE_UNMAP as u32, UNMAP_RIGHTS as u32, (fpage >> u32::BITS) as u32);
    invoke(Registers { ax, bx, di, si, ..Registers::default() }).map(|_| ())
}
