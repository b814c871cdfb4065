// SPDX-License-Identifier: GPL-2.0-only
//! A 16550 serial port, written by polling.

use crate::{arch::regs::inb, arch::regs::outb, base::*};

/// Ports of COM1 to COM4.
pub const COM: [u16; 4] = [0x3f8, 0x2f8, 0x3e8, 0x2e8];
/// Line control register: 8 bits, no parity, one stop bit.
const LINE_8N1: u8 = 3;
/// Line control register: the divisor is accessible.
const LINE_DIVISOR: u8 = 0x80;
/// Line status register: the transmitter takes a byte.
const STATUS_READY: u8 = 0x20;
/// Looks at the status before a port that does not answer is given up.
const PATIENCE: u32 = 100_000;

/// The port in use; 0 is none.
pub(crate) static PORT: Global<Cell<u16>> = Global::new(Cell::new(0));

/// Uses a port from now on, at 115200 baud; 0 for none.
pub fn init(port: u16) {
    PORT.set(port);
    if port != 0 {
        for (register, value) in [(1, 0), (3, LINE_DIVISOR), (0, 1), (1, 0), (3, LINE_8N1), (2, 7)] {
            // SAFETY: the console's port; registers as in the 16550 data sheet.
            unsafe { outb(port + register, value) };
        }
    }
}

/// Writes a byte.
pub fn put(byte: u8) {
    let port = PORT.get();
    if port != 0 {
        // SAFETY: the console's port.
        unsafe {
            let _ = (0..PATIENCE).find(|_| inb(port + 5) & STATUS_READY != 0);
            outb(port, byte);
        }
    }
}
