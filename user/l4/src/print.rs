// SPDX-License-Identifier: BSD-2-Clause
//! Text output. It goes to the parent's print service unless the program sets another sink (the
//! root task has the serial line).

use crate::message::Bytes;
use crate::root;
use core::fmt;
use core::sync::atomic::{AtomicPtr, Ordering};
use keel_protocol::text;

/// Bytes that fill one message. Text is collected until then.
const CHUNK: usize = Bytes::<5>::CAPACITY;

/// Receives the text.
pub type Sink = fn(&[u8]);

static SINK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sends all further text to `sink`.
pub fn set_sink(sink: Sink) {
    SINK.store(sink as *mut (), Ordering::Relaxed);
}

/// Passes `bytes` to the sink.
pub fn bytes(bytes: &[u8]) {
    let sink = SINK.load(Ordering::Relaxed);
    if sink.is_null() {
        root::print(bytes);
    } else {
        // SAFETY: only `set_sink` stores here, and it stores a `Sink`.
        unsafe { core::mem::transmute::<*mut (), Sink>(sink)(bytes) };
    }
}

/// What the macros call: prints the text, then `end`.
pub fn formatted(arguments: fmt::Arguments<'_>, end: &str) {
    text::in_pieces::<CHUNK>(bytes, arguments, end);
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
