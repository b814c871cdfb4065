// SPDX-License-Identifier: BSD-2-Clause
//! Text output, by the parent.

use crate::parent;
use core::fmt::{self, Write};
use keel_protocol::small::SMALL_TEXT;

/// Bytes that fill one message. Text is collected until then.
const CHUNK: usize = SMALL_TEXT as usize;

/// Collects text so that a line costs one message.
struct Collector {
    bytes: [u8; CHUNK],
    used: usize,
}

impl Collector {
    fn flush(&mut self) {
        parent::print(&self.bytes[..self.used]);
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

/// What the macro calls: prints the text and ends the line.
pub fn line(arguments: fmt::Arguments<'_>) {
    let mut collector = Collector { bytes: [0; CHUNK], used: 0 };
    // A write to the collector never fails. A `Display` that fails leaves its text incomplete.
    let _ = collector.write_fmt(arguments).and_then(|()| collector.write_str("\n"));
    collector.flush();
}

/// Prints formatted text and ends the line.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => { $crate::print::line(format_args!($($argument)*)) };
}
