// SPDX-License-Identifier: BSD-2-Clause
//! Strings: memory that a message copies from space to space, without a shared page.
//!
//! A string may consist of several items, and so may its buffer. Mark each item except the last
//! with [`more`]. String n of a message goes into buffer n.

use crate::ipc::Timeout;
use crate::memory::Pages;
use crate::utcb;
use core::mem::offset_of;
use keel_abi::call::{MAX_STRINGS, TIME_ABSOLUTE, TIME_NEVER};
use keel_abi::memory::STRING_CONTINUES;
use keel_abi::{StringItem, Tag, Utcb};

/// The bytes as a string, or as the last item of one.
pub fn string(bytes: &[u8]) -> StringItem {
    StringItem { address: bytes.as_ptr() as u64, length: bytes.len() as u64 }
}

/// The memory as a buffer, or as the last item of one.
pub fn buffer(bytes: &mut [u8]) -> StringItem {
    string(bytes)
}

/// The same item, marked as continued by the next one.
pub const fn more(part: StringItem) -> StringItem {
    StringItem { length: part.length | STRING_CONTINUES, ..part }
}

/// Offers buffers for all messages from now on; `&[]` offers none.
///
/// # Safety
/// Every message that this thread receives until it offers other buffers may write to these.
/// Nothing else may use them while the thread receives.
pub unsafe fn offer(buffers: &[StringItem]) {
    assert!(buffers.len() <= MAX_STRINGS as usize);
    for (index, buffer) in buffers.iter().enumerate() {
        utcb::set_item(offset_of!(Utcb, buffers), index, *buffer);
    }
    utcb::set_buffer_count(buffers.len() as u64);
}

/// Offers pages as the only buffer. This is safe, because no references point to pages. Read what
/// arrived from the beginning of `pages`.
pub fn offer_pages(pages: &Pages) {
    let buffer = StringItem { address: pages.address(), length: pages.size() };
    // SAFETY: only `Pages::read` and `Pages::write` access pages, between two messages.
    unsafe { offer(&[buffer]) };
}

/// The first `bytes` bytes of `pages`, or all if there are fewer, as a string.
pub fn of_pages(pages: &Pages, bytes: u64) -> StringItem {
    StringItem { address: pages.address(), length: bytes.min(pages.size()) }
}

/// The strings of the received message with the tag `tag`: the address of each, in its buffer's
/// first item, and its whole length. Valid until the thread's next message.
pub fn arrived(tag: Tag) -> impl Iterator<Item = StringItem> {
    (0..tag.strings().min(MAX_STRINGS) as usize).map(|index| utcb::item(offset_of!(Utcb, strings), index))
}

/// How long each page fault of a partner may take while it receives this thread's strings (`send`)
/// and while it sends strings to this thread (`receive`). Both are zero at first.
pub fn set_fault_timeouts(send: Timeout, receive: Timeout) {
    utcb::set_fault_timeouts(word(send), word(receive));
}

fn word(timeout: Timeout) -> u64 {
    match timeout {
        Timeout::Never => TIME_NEVER,
        Timeout::Zero => 0,
        Timeout::After(time) => time & !TIME_ABSOLUTE,
        Timeout::At(time) => time | TIME_ABSOLUTE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tell_where_and_how_long() {
        let bytes = [0u8; 24];
        let part = string(&bytes[8..]);
        assert_eq!((part.address, part.length), (bytes.as_ptr() as u64 + 8, 16));
        assert_eq!(more(part).length, 16 | STRING_CONTINUES);
    }

    #[test]
    fn timeouts_as_words() {
        assert_eq!([Timeout::Zero, Timeout::After(5), Timeout::At(5)].map(word), [0, 5, TIME_ABSOLUTE | 5]);
        assert_eq!(word(Timeout::Never), u64::MAX);
    }
}
