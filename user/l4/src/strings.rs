// SPDX-License-Identifier: BSD-2-Clause
//! Strings: memory that a message copies from space to space, without a page being shared.
//!
//! A string may consist of several parts, and so may the buffer that takes it: mark each part but
//! the last with [`more`]. The n-th string of a message goes into the n-th buffer.

use crate::ipc::Timeout;
use crate::memory::Pages;
use crate::utcb;
use core::mem::offset_of;
use keel_abi::call::{MAX_STRINGS, TIME_ABSOLUTE, TIME_NEVER};
use keel_abi::memory::STRING_CONTINUES;
use keel_abi::{StringItem, Tag, Utcb};

/// The bytes as a string, or the last part of one.
pub fn string(bytes: &[u8]) -> StringItem {
    StringItem { address: bytes.as_ptr() as u64, length: bytes.len() as u64 }
}

/// Memory as a buffer, or the last part of one.
pub fn buffer(bytes: &mut [u8]) -> StringItem {
    string(bytes)
}

/// The same part, which the next one continues.
pub const fn more(part: StringItem) -> StringItem {
    StringItem { length: part.length | STRING_CONTINUES, ..part }
}

/// Offers buffers to all messages that come from now on; `&[]`: none any more.
///
/// # Safety
/// Until other buffers are offered every message that this thread receives may write to these, so
/// nothing else may use them while it receives.
pub unsafe fn offer(buffers: &[StringItem]) {
    assert!(buffers.len() <= MAX_STRINGS as usize);
    for (index, buffer) in buffers.iter().enumerate() {
        utcb::set_item(offset_of!(Utcb, buffers), index, *buffer);
    }
    utcb::set_buffer_count(buffers.len() as u64);
}

/// Offers pages as the one buffer: nobody makes references to them, so this is safe. What came is read out
/// of `pages`, from its beginning on.
pub fn offer_pages(pages: &Pages) {
    let buffer = StringItem { address: pages.address(), length: pages.size() };
    // SAFETY: pages are accessed by `Pages::read` and `Pages::write` alone, between two messages.
    unsafe { offer(&[buffer]) };
}

/// The first bytes of `pages`, at most all of them, as a string.
pub fn of_pages(pages: &Pages, bytes: u64) -> StringItem {
    StringItem { address: pages.address(), length: bytes.min(pages.size()) }
}

/// Where the strings of the message with this tag lie, each in its buffer's first part, and how long each is as a
/// whole. Good until the thread's next message.
pub fn arrived(tag: Tag) -> impl Iterator<Item = StringItem> {
    (0..tag.strings().min(MAX_STRINGS) as usize).map(|index| utcb::item(offset_of!(Utcb, strings), index))
}

/// How long each page fault of a partner may take: while it receives this thread's strings, and while it sends
/// strings to this thread. At first both are zero.
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
