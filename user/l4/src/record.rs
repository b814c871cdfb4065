// SPDX-License-Identifier: BSD-2-Clause
//! The start record that the root task gives to every task that it starts: reads it, and writes one
//! for a task that this program starts.

use crate::memory::Pages;
use keel_protocol::boot::{Start, START_MAGIC};

/// The record at `address`, the value of rdi at the start; `None` if there is no record.
///
/// # Safety
/// `address` must be 0 or point to a mapped page that never changes.
pub unsafe fn at(address: u64) -> Option<&'static Start> {
    if address == 0 {
        return None;
    }
    // SAFETY: by this function's own contract.
    let start = unsafe { &*(address as *const Start) };
    (start.magic == START_MAGIC).then_some(start)
}

/// Writes `start` to the beginning of `pages`, for a task that gets them.
pub fn write(start: &Start, pages: &Pages) {
    // SAFETY: a record consists of initialised words, and bytes have no alignment.
    let bytes = unsafe { core::slice::from_raw_parts((start as *const Start).cast::<u8>(), size_of::<Start>()) };
    pages.write(0, bytes);
}

/// The command line, up to its zero byte or the first byte that is not UTF-8.
pub fn command_line(start: &Start) -> &str {
    // SAFETY: the words are initialised, and bytes have no alignment.
    let bytes = unsafe {
        core::slice::from_raw_parts(start.command_line.as_ptr().cast::<u8>(), size_of_val(&start.command_line))
    };
    let bytes = &bytes[..bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len())];
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}

/// The value of `key=value` in `line`.
pub fn option<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.split_once('=').filter(|(k, _)| *k == key).map(|(_, v)| v))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found() {
        let mut start = Start::zeroed();
        let text = b"interval=100ms quiet x=\xff";
        for (index, byte) in text.iter().enumerate() {
            start.command_line[index / 8] |= (*byte as u64) << (8 * (index % 8));
        }
        let line = command_line(&start);
        assert_eq!(line, "interval=100ms quiet x=");
        assert_eq!((option(line, "interval"), option(line, "quiet")), (Some("100ms"), None));
    }
}
