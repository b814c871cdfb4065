// SPDX-License-Identifier: BSD-2-Clause
//! The calling thread's UTCB: the page for arguments and results that do not fit into registers.
//! Every access is one volatile load or store, because the kernel reads and writes the page too.

use core::mem::offset_of;
use keel_abi::call::{MAX_MAP_ITEMS, MAX_STRINGS, MAX_WORDS, REGISTER_WORDS};
use keel_abi::{Fpage, Id, MapItem, StringItem, Utcb};

/// Address of the calling thread's UTCB.
pub fn address() -> *mut Utcb {
    let address: *mut Utcb;
    // SAFETY: gs points to the UTCB of a native thread, whose first word is its own address.
    unsafe { core::arch::asm!("mov {}, gs:[0]", out(reg) address, options(nostack, readonly, preserves_flags)) };
    address
}

fn load(offset: usize, index: usize) -> u64 {
    // SAFETY: callers pass the offset of a field and an index inside it; the page is always mapped.
    unsafe { address().cast::<u64>().byte_add(offset).add(index).read_volatile() }
}

fn store(offset: usize, index: usize, value: u64) {
    // SAFETY: as in `load`; the page is this thread's own.
    unsafe { address().cast::<u64>().byte_add(offset).add(index).write_volatile(value) }
}

/// The calling thread's id.
pub fn my_id() -> Id {
    Id(load(offset_of!(Utcb, id), 0))
}

/// Message word `index` as it is stored in the UTCB. The first six words are passed in registers.
pub fn word(index: usize) -> u64 {
    assert!(index < MAX_WORDS as usize);
    load(offset_of!(Utcb, words), index)
}

/// Sets message word `index`.
pub fn set_word(index: usize, value: u64) {
    assert!(index < MAX_WORDS as usize);
    store(offset_of!(Utcb, words), index, value);
}

/// Bytes in the message words that are not passed in registers.
pub const BYTES: usize = (MAX_WORDS - REGISTER_WORDS) as usize * WORD;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The first of these words.
fn byte_words() -> *mut u64 {
    // SAFETY: the words are a field of the page.
    unsafe { address().cast::<u64>().byte_add(offset_of!(Utcb, words)).add(REGISTER_WORDS as usize) }
}

/// Stores `bytes`, at most [`BYTES`], in these words. The rest of the last word is zero.
pub fn set_bytes(bytes: &[u8]) {
    assert!(bytes.len() <= BYTES);
    let place = byte_words();
    let words = bytes.chunks_exact(WORD);
    let rest = words.remainder();
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, byte| word << 8 | *byte as u64);
        // SAFETY: the index is below the number of these words; the page is this thread's own.
        unsafe { place.add(bytes.len() / WORD).write_volatile(last) };
    }
    for (index, bytes) in words.enumerate() {
        let word = u64::from_le_bytes(bytes.try_into().unwrap());
        // SAFETY: as above.
        unsafe { place.add(index).write_volatile(word) };
    }
}

/// Fills `bytes`, at most [`BYTES`], from these words.
pub fn bytes(bytes: &mut [u8]) {
    assert!(bytes.len() <= BYTES);
    let place = byte_words();
    let whole = bytes.len() / WORD;
    let mut words = bytes.chunks_exact_mut(WORD);
    for (index, bytes) in words.by_ref().enumerate() {
        // SAFETY: as above.
        bytes.copy_from_slice(&unsafe { place.add(index).read_volatile() }.to_le_bytes());
    }
    let rest = words.into_remainder();
    if !rest.is_empty() {
        // SAFETY: as above.
        let last = unsafe { place.add(whole).read_volatile() };
        rest.iter_mut().zip(last.to_le_bytes()).for_each(|(byte, from)| *byte = from);
    }
}

/// Map item `index` of the received message.
pub fn map_item(index: usize) -> MapItem {
    assert!(index < MAX_MAP_ITEMS as usize);
    let at = offset_of!(Utcb, maps);
    MapItem { send_base: load(at, 2 * index), fpage: load(at, 2 * index + 1) }
}

/// Sets map item `index` of the next message.
pub fn set_map_item(index: usize, item: MapItem) {
    assert!(index < MAX_MAP_ITEMS as usize);
    let at = offset_of!(Utcb, maps);
    store(at, 2 * index, item.send_base);
    store(at, 2 * index + 1, item.fpage);
}

/// String item `index` of the list at `offset`: the strings or the buffers.
pub(crate) fn item(offset: usize, index: usize) -> StringItem {
    assert!(index < MAX_STRINGS as usize);
    StringItem { address: load(offset, 2 * index), length: load(offset, 2 * index + 1) }
}

/// Sets string item `index` of the list at `offset`.
pub(crate) fn set_item(offset: usize, index: usize, item: StringItem) {
    assert!(index < MAX_STRINGS as usize);
    store(offset, 2 * index, item.address);
    store(offset, 2 * index + 1, item.length);
}

/// Sets string item `index` of the next message.
pub fn set_string(index: usize, item: StringItem) {
    set_item(offset_of!(Utcb, strings), index, item);
}

/// Sets the number of buffer items.
pub fn set_buffer_count(count: u64) {
    store(offset_of!(Utcb, buffer_count), 0, count);
}

/// Sets the timeouts for page faults of partners, in sends and in receives.
pub fn set_fault_timeouts(send: u64, receive: u64) {
    store(offset_of!(Utcb, send_fault_timeout), 0, send);
    store(offset_of!(Utcb, receive_fault_timeout), 0, receive);
}

/// Sets the window that accepts map items of the next messages.
pub fn set_receive_window(window: Fpage) {
    store(offset_of!(Utcb, receive_fpage), 0, window.0);
}

/// Sets the sender id that the next message with a virtual sender shows.
pub fn set_virtual_sender(id: Id) {
    store(offset_of!(Utcb, virtual_sender), 0, id.0);
}

/// The real sender of the last message with a virtual one (`TAG_PROPAGATED`).
pub fn real_sender() -> Id {
    Id(load(offset_of!(Utcb, virtual_sender), 0))
}

/// The destination of the last message that was redirected to the caller (`TAG_REDIRECTED`).
pub fn destination() -> Id {
    Id(load(offset_of!(Utcb, destination), 0))
}

/// Sets the timeout of a send phase with the timeout kind "in the UTCB".
pub fn set_send_timeout(time: u64) {
    store(offset_of!(Utcb, send_timeout), 0, time);
}

/// Sets the timeout of a receive phase with the timeout kind "in the UTCB".
pub fn set_receive_timeout(time: u64) {
    store(offset_of!(Utcb, receive_timeout), 0, time);
}

/// Word `index` of the record, the argument and result of some calls.
pub fn record_word(index: usize) -> u64 {
    assert!(index < 256);
    load(offset_of!(Utcb, record), index)
}

/// Sets word `index` of the record.
pub fn set_record_word(index: usize, value: u64) {
    assert!(index < 256);
    store(offset_of!(Utcb, record), index, value);
}
