// SPDX-License-Identifier: BSD-2-Clause
//! Text output. It goes to the root task's print service, unless the program sets another sink
//! (the root task itself has the serial line).

use crate::ipc::{call, Message};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicPtr, Ordering};
use keel_abi::boot::ROOT_PRINT;
use keel_abi::call::REGISTER_WORDS;
use keel_abi::Id;

/// Bytes that one ROOT_PRINT message carries, in the words after the first.
const CHUNK: usize = (REGISTER_WORDS as usize - 1) * 8;

/// Where text goes.
pub type Sink = fn(&[u8]);

static SINK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sends all further text to `sink`.
pub fn set_sink(sink: Sink) {
    SINK.store(sink as *mut (), Ordering::Relaxed);
}

/// Packs at most [`CHUNK`] bytes into the words of a ROOT_PRINT message.
pub fn pack(bytes: &[u8]) -> [u64; REGISTER_WORDS as usize] {
    let bytes = &bytes[..bytes.len().min(CHUNK)];
    let mut words = [0; REGISTER_WORDS as usize];
    words[0] = bytes.len() as u64;
    for (index, byte) in bytes.iter().enumerate() {
        words[1 + index / 8] |= (*byte as u64) << (8 * (index % 8));
    }
    words
}

/// The bytes of a ROOT_PRINT message and how many of them count.
pub fn unpack(words: &[u64; REGISTER_WORDS as usize]) -> ([u8; CHUNK], usize) {
    let mut bytes = [0; CHUNK];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = (words[1 + index / 8] >> (8 * (index % 8))) as u8;
    }
    (bytes, words[0].min(CHUNK as u64) as usize)
}

fn to_root(bytes: &[u8]) {
    for chunk in bytes.chunks(CHUNK) {
        // Nobody is left to tell if even the root task does not listen.
        let _ = call(Id::ROOT, Message::new(ROOT_PRINT as u32, &pack(chunk)));
    }
}

/// Writes `bytes` to the sink.
pub fn bytes(bytes: &[u8]) {
    let sink = SINK.load(Ordering::Relaxed);
    if sink.is_null() {
        to_root(bytes);
    } else {
        // SAFETY: only `set_sink` stores here, and it stores a `Sink`.
        unsafe { core::mem::transmute::<*mut (), Sink>(sink)(bytes) };
    }
}

/// Collects text so that a line costs few messages.
struct Collector {
    bytes: [u8; CHUNK],
    used: usize,
}

impl Collector {
    fn flush(&mut self) {
        bytes(&self.bytes[..self.used]);
        self.used = 0;
    }
}

impl Write for Collector {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.used == CHUNK {
                self.flush();
            }
            self.bytes[self.used] = byte;
            self.used += 1;
        }
        Ok(())
    }
}

/// What the macros call: text, then `end`.
pub fn formatted(arguments: fmt::Arguments<'_>, end: &str) {
    let mut collector = Collector { bytes: [0; CHUNK], used: 0 };
    // Writing to the collector never fails; a failing Display leaves its text short.
    let _ = collector.write_fmt(arguments).and_then(|()| collector.write_str(end));
    collector.flush();
}

/// Prints formatted text.
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => { $crate::print::formatted(format_args!($($argument)*), "") };
}

/// Prints formatted text and ends the line.
#[macro_export]
macro_rules! println {
    () => { $crate::print::bytes(b"\n") };
    ($($argument:tt)*) => { $crate::print::formatted(format_args!($($argument)*), "\n") };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_text_comes_back() {
        for text in
            ["", "a", "exactly forty bytes of text, no more ...", "more than forty bytes, of which the rest is cut"]
        {
            let (bytes, used) = unpack(&pack(text.as_bytes()));
            assert_eq!(&bytes[..used], &text.as_bytes()[..text.len().min(CHUNK)]);
        }
    }

    #[test]
    fn a_lying_length_is_cut() {
        assert_eq!(unpack(&[u64::MAX, 0, 0, 0, 0, 0]).1, CHUNK);
    }
}
