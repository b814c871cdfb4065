// SPDX-License-Identifier: BSD-2-Clause
//! A serial line (16550): owns nothing but the number of the first port. The task must have the
//! eight ports.

use crate::device::{input, output};

/// Registers, as offsets from the first port.
const DATA: u16 = 0;
const INTERRUPT_ENABLE: u16 = 1;
const INTERRUPT_CAUSE: u16 = 2;
const FIFO_CONTROL: u16 = 2;
const LINE_CONTROL: u16 = 3;
const MODEM_CONTROL: u16 = 4;
const LINE_STATUS: u16 = 5;
/// Interrupt enable: a byte was received; the transmitter is empty.
const INTERRUPT_COME: u8 = 0x01;
const INTERRUPT_EMPTY: u8 = 0x02;
/// Interrupt cause: none.
const CAUSE_NONE: u8 = 0x01;
/// Line control: the divisor is visible.
const DIVISOR_ACCESS: u8 = 0x80;
/// Line control: 8 bits, no parity, one stop bit.
const FORMAT_8N1: u8 = 0x03;
/// FIFOs enabled and cleared.
const FIFO_ON: u8 = 0x07;
/// DTR, RTS, and OUT2, which enables the interrupt pin.
const MODEM_READY: u8 = 0x0b;
/// Line status: a byte was received.
const CAME: u8 = 0x01;
/// Line status: the transmit FIFO is empty.
const SEND_EMPTY: u8 = 0x20;
/// Line status: everything was sent.
const ALL_SENT: u8 = 0x40;
/// Polls after which output is given up.
const PATIENCE: u32 = 1_000_000;

/// Bytes that fit into an empty transmit FIFO.
pub const FIFO_BYTES: usize = 16;
/// Log2 of the ports of a serial line.
pub const PORTS_LOG2: u8 = 3;

/// A serial line that is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Serial {
    port: u16,
}

impl Serial {
    /// Sets up the line whose first port is `port`: 115200 8N1, no interrupts. Faults if the task
    /// does not have the ports.
    pub fn open(port: u16) -> Serial {
        output(port + INTERRUPT_ENABLE, 0);
        output(port + LINE_CONTROL, DIVISOR_ACCESS);
        output(port + DATA, 1);
        output(port + INTERRUPT_ENABLE, 0);
        output(port + LINE_CONTROL, FORMAT_8N1);
        output(port + FIFO_CONTROL, FIFO_ON);
        output(port + MODEM_CONTROL, MODEM_READY);
        Serial { port }
    }

    /// The line whose first port is `port`. [`Serial::open`] must have set it up before.
    pub const fn opened(port: u16) -> Serial {
        Serial { port }
    }

    /// Enables interrupts: the line raises one when a byte was received or the transmitter is
    /// empty.
    pub fn interrupt(self) {
        output(self.port + INTERRUPT_ENABLE, INTERRUPT_COME | INTERRUPT_EMPTY);
    }

    /// Whether the line still asserts its interrupt. Its handler must run until it does not;
    /// otherwise no further interrupt comes. This call acknowledges an empty transmitter;
    /// [`Serial::read`] acknowledges a received byte.
    pub fn asks(self) -> bool {
        input(self.port + INTERRUPT_CAUSE) & CAUSE_NONE == 0
    }

    /// The next received byte, if there is one.
    pub fn read(self) -> Option<u8> {
        (input(self.port + LINE_STATUS) & CAME != 0).then(|| input(self.port + DATA))
    }

    /// Whether the transmitter is empty.
    pub fn is_empty(self) -> bool {
        input(self.port + LINE_STATUS) & SEND_EMPTY != 0
    }

    /// Puts at most [`FIFO_BYTES`] bytes into the transmitter, which must be empty.
    pub fn fill(self, bytes: &[u8]) {
        bytes.iter().take(FIFO_BYTES).for_each(|byte| output(self.port + DATA, *byte));
    }

    /// Sends `bytes` by polling, with a carriage return before each newline.
    pub fn write(self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                self.send(b'\r');
            }
            self.send(*byte);
        }
    }

    fn send(self, byte: u8) {
        self.wait_for(SEND_EMPTY);
        output(self.port + DATA, byte);
    }

    /// Waits until everything is sent.
    pub fn drain(self) {
        self.wait_for(ALL_SENT);
    }

    fn wait_for(self, bit: u8) {
        for _ in 0..PATIENCE {
            if input(self.port + LINE_STATUS) & bit != 0 {
                return;
            }
        }
    }
}
