// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's console: lines on a serial port, written by polling, and at times on the screen.

use crate::arch::{screen, serial};
use core::fmt::{self, Write};

/// Where `log!` writes.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(serial::put);
        text.chars().for_each(screen::put);
        Ok(())
    }
}

/// Writes a line to the console.
macro_rules! log {
    ($($argument:tt)*) => {{
        use core::fmt::Write as _;
        // Writing to the console cannot fail.
        let _ = writeln!($crate::arch::print::Console, "keel: {}", format_args!($($argument)*));
    }};
}
pub(crate) use log;
