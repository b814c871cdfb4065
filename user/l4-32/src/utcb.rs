// SPDX-License-Identifier: BSD-2-Clause
//! The UTCB of the task's thread: the page for the label and what does not fit into registers.
//! Every access is volatile, because the kernel reads and writes the page too.

use core::mem::offset_of;
use keel_abi::call::{MAX_MAP_ITEMS, MAX_WORDS, REGISTER_WORDS};
use keel_abi::memory::AREA_UTCBS;
use keel_abi::{Id, MapItem, Utcb};
use keel_protocol::small::SMALL_AREA;

/// Its address: that of lthread 0.
const ADDRESS: usize = (SMALL_AREA + AREA_UTCBS) as usize;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Bytes in the words after the first six.
pub const BYTES: usize = (MAX_WORDS - REGISTER_WORDS) as usize * WORD;

fn place(offset: usize, index: usize) -> *mut u64 {
    (ADDRESS + offset + WORD * index) as *mut u64
}

fn load(offset: usize, index: usize) -> u64 {
    // SAFETY: callers pass the offset of a field and an index inside it; the page is always mapped.
    unsafe { place(offset, index).read_volatile() }
}

fn store(offset: usize, index: usize, value: u64) {
    // SAFETY: as in `load`; the page is this thread's own.
    unsafe { place(offset, index).write_volatile(value) }
}

/// The calling thread's id.
pub fn my_id() -> Id {
    Id(load(offset_of!(Utcb, id), 0))
}

/// Message word `index`: 0 is the label, and words from 3 on are the message's.
pub fn word(index: usize) -> u64 {
    assert!(index < MAX_WORDS as usize);
    load(offset_of!(Utcb, words), index)
}

/// Sets message word `index`.
pub fn set_word(index: usize, value: u64) {
    assert!(index < MAX_WORDS as usize);
    store(offset_of!(Utcb, words), index, value);
}

/// Sets map item `index` of the next message.
pub fn set_map_item(index: usize, item: MapItem) {
    assert!(index < MAX_MAP_ITEMS as usize);
    let at = offset_of!(Utcb, maps);
    store(at, 2 * index, item.send_base);
    store(at, 2 * index + 1, item.fpage);
}

/// The bytes in the words after the first six.
fn bytes_at(count: usize) -> *mut u8 {
    assert!(count <= BYTES);
    place(offset_of!(Utcb, words), REGISTER_WORDS as usize).cast()
}

/// Stores `bytes`, at most [`BYTES`], in these words.
pub fn set_bytes(bytes: &[u8]) {
    let to = bytes_at(bytes.len());
    // SAFETY: as many bytes are there; the page is this thread's own, without references to it.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

/// Fills `bytes`, at most [`BYTES`], from these words.
pub fn bytes(bytes: &mut [u8]) {
    let from = bytes_at(bytes.len());
    // SAFETY: as above.
    unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
}
