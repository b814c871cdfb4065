// SPDX-License-Identifier: GPL-2.0-only
//! Kernel time: nanoseconds since boot, from the TSC.

use super::regs::*;
use crate::base::{Cell, Global};

/// Precision of the conversion from ticks to nanoseconds: ns = ticks * mult >> SHIFT.
const SHIFT: u64 = 24;
pub const NS_PER_S: u64 = 1_000_000_000;

/// What the TSC was when kernel time began, its frequency, and the multiplier.
static BASE: Global<Cell<u64>> = Global::new(Cell::new(0));
static HZ: Global<Cell<u64>> = Global::new(Cell::new(0));
static MULT: Global<Cell<u64>> = Global::new(Cell::new(0));

/// Begins kernel time now.
pub fn init(hz: u64) {
    HZ.set(hz);
    MULT.set((NS_PER_S << SHIFT) / hz);
    BASE.set(rdtsc());
}

/// Kernel time in ns.
pub fn now() -> u64 {
    ticks_to_ns(rdtsc() - BASE.get())
}

/// Waits that many ns.
pub fn wait(ns: u64) {
    let end = now() + ns;
    while now() < end {
        core::hint::spin_loop();
    }
}

/// Converts TSC ticks to ns.
pub fn ticks_to_ns(ticks: u64) -> u64 {
    ((ticks as u128 * MULT.get() as u128) >> SHIFT) as u64
}

/// Frequency, base, multiplier and shift, for the KIP.
pub fn parameters() -> (u64, u64, u64, u64) {
    (HZ.get(), BASE.get(), MULT.get(), SHIFT)
}
