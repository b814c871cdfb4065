// SPDX-License-Identifier: BSD-2-Clause
//! Formatted text as pieces that fill a message each.

use core::fmt::{self, Write};

/// Passes formatted text and `end` to `sink`, in pieces of `BYTES` bytes; the last one is shorter.
pub fn in_pieces<const BYTES: usize>(sink: fn(&[u8]), arguments: fmt::Arguments<'_>, end: &str) {
    let mut collector = Collector { bytes: [0; BYTES], used: 0, sink };
    // A write to the collector never fails. A `Display` that fails leaves its text incomplete.
    let _ = collector.write_fmt(arguments).and_then(|()| collector.write_str(end));
    collector.flush();
}

struct Collector<const BYTES: usize> {
    bytes: [u8; BYTES],
    used: usize,
    sink: fn(&[u8]),
}

impl<const BYTES: usize> Collector<BYTES> {
    fn flush(&mut self) {
        (self.sink)(&self.bytes[..self.used]);
        self.used = 0;
    }
}

impl<const BYTES: usize> Write for Collector<BYTES> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.used == BYTES {
                self.flush();
            }
            self.bytes[self.used] = byte;
            self.used += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::in_pieces;
    use std::cell::RefCell;
    use std::vec::Vec;

    std::thread_local! {
        static PIECES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn pieces_are_full_but_for_the_last() {
        in_pieces::<4>(
            |piece| PIECES.with_borrow_mut(|all| all.push(piece.to_vec())),
            format_args!("{}-{}", 12, 345),
            "\n",
        );
        assert_eq!(PIECES.take(), [b"12-3".to_vec(), b"45\n".to_vec()]);
    }
}
