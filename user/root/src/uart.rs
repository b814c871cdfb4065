// SPDX-License-Identifier: BSD-2-Clause
//! The serial line that takes the log (16550, polled), and the port that ends an emulator.

use core::sync::atomic::{AtomicU16, Ordering};
use keel_l4::abi::boot::DEBUG_EXIT_PORT;

/// Registers, as distances from the first port.
const DATA: u16 = 0;
const INTERRUPT_ENABLE: u16 = 1;
const FIFO_CONTROL: u16 = 2;
const LINE_CONTROL: u16 = 3;
const MODEM_CONTROL: u16 = 4;
const LINE_STATUS: u16 = 5;
/// Line control: the divisor is visible.
const DIVISOR_ACCESS: u8 = 0x80;
/// Line control: 8 bits, no parity, one stop bit.
const FORMAT_8N1: u8 = 0x03;
/// FIFOs on and emptied.
const FIFO_ON: u8 = 0x07;
/// DTR and RTS.
const MODEM_READY: u8 = 0x03;
/// Line status: a byte can be sent.
const SEND_EMPTY: u8 = 0x20;
/// Line status: everything was sent.
const ALL_SENT: u8 = 0x40;
/// Polls after which a line that takes nothing is given up.
const PATIENCE: u32 = 1_000_000;

/// First port; 0 until a line was set up.
static PORT: AtomicU16 = AtomicU16::new(0);

fn output(port: u16, value: u8) {
    // SAFETY: the ports were given to this task; a port without the right raises #GP.
    unsafe { core::arch::asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) };
}

fn input(port: u16) -> u8 {
    let value;
    // SAFETY: as in `output`.
    unsafe { core::arch::asm!("in al, dx", in("dx") port, out("al") value, options(nostack, preserves_flags)) };
    value
}

fn wait_for(port: u16, bit: u8) {
    for _ in 0..PATIENCE {
        if input(port + LINE_STATUS) & bit != 0 {
            return;
        }
    }
}

/// Sets up the line at `port`, 115200 8N1, and sends all further output there.
pub fn open(port: u16) {
    output(port + INTERRUPT_ENABLE, 0);
    output(port + LINE_CONTROL, DIVISOR_ACCESS);
    output(port + DATA, 1);
    output(port + INTERRUPT_ENABLE, 0);
    output(port + LINE_CONTROL, FORMAT_8N1);
    output(port + FIFO_CONTROL, FIFO_ON);
    output(port + MODEM_CONTROL, MODEM_READY);
    PORT.store(port, Ordering::Relaxed);
}

/// Writes `bytes`, each end of line with a carriage return before it.
pub fn write(bytes: &[u8]) {
    let port = PORT.load(Ordering::Relaxed);
    if port == 0 {
        return;
    }
    for byte in bytes {
        if *byte == b'\n' {
            wait_for(port, SEND_EMPTY);
            output(port + DATA, b'\r');
        }
        wait_for(port, SEND_EMPTY);
        output(port + DATA, *byte);
    }
}

/// Ends the machine with `code` (`END_*`), after all output is out. Returns only where no such
/// device is.
pub fn leave(code: u64) {
    let port = PORT.load(Ordering::Relaxed);
    if port != 0 {
        wait_for(port, ALL_SENT);
    }
    output(DEBUG_EXIT_PORT as u16, code as u8);
}
