// SPDX-License-Identifier: BSD-2-Clause
//! Text output, by the parent.

use crate::parent;
use core::fmt;
use keel_protocol::small::SMALL_TEXT;
use keel_protocol::text;

/// Bytes that fill one message. Text is collected until then.
const CHUNK: usize = SMALL_TEXT as usize;

/// What the macro calls: prints the text and ends the line.
pub fn line(arguments: fmt::Arguments<'_>) {
    text::in_pieces::<CHUNK>(parent::print, arguments, "\n");
}

/// Prints formatted text and ends the line.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => { $crate::print::line(format_args!($($argument)*)) };
}
