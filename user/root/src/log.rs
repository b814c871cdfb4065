// SPDX-License-Identifier: BSD-2-Clause
//! The serial line of the log.

use core::sync::atomic::{AtomicU16, Ordering};
use keel_l4::serial::Serial;

/// First port; 0 until [`open`].
static PORT: AtomicU16 = AtomicU16::new(0);

fn line() -> Option<Serial> {
    let port = PORT.load(Ordering::Relaxed);
    (port != 0).then_some(Serial::opened(port))
}

/// Sets up the line at `port` and sends all further output there.
pub fn open(port: u16) {
    Serial::open(port);
    PORT.store(port, Ordering::Relaxed);
}

/// Writes `bytes`.
pub fn write(bytes: &[u8]) {
    if let Some(line) = line() {
        line.write(bytes);
    }
}

/// Waits until all output is sent.
pub fn drain() {
    if let Some(line) = line() {
        line.drain();
    }
}
