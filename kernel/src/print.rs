// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's console: lines on a serial port, written by polling.

use crate::arch::serial;
use core::fmt::{self, Write};

/// Where `log!` writes.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(serial::put);
        Ok(())
    }
}

/// Writes a line to the console.
macro_rules! log {
    ($($argument:tt)*) => {{
        use core::fmt::Write as _;
        // Writing to the console cannot fail.
        let _ = writeln!($crate::print::Console, "keel: {}", format_args!($($argument)*));
    }};
}
pub(crate) use log;
