// SPDX-License-Identifier: GPL-2.0-only
//! Kernel time: nanoseconds since boot, from the TSC.

use crate::{arch::regs::*, base::*};

/// Precision of the conversion from ticks to nanoseconds: ns = ticks * mult >> SHIFT.
const SHIFT: u64 = 24;
pub const NS_PER_S: u64 = 1_000_000_000;

/// The TSC's frequency, what it was when kernel time began, the multiplier, and the shift, as the
/// KIP has them.
pub static PARAMETERS: Global<Cell<(u64, u64, u64, u64)>> = Global::new(Cell::new((0, 0, 0, SHIFT)));

/// Begins kernel time now.
pub fn init(hz: u64) {
    PARAMETERS.set((hz, rdtsc(), (NS_PER_S << SHIFT) / hz, SHIFT));
}

/// Kernel time in ns.
pub fn now() -> u64 {
    let (_, base, ..) = PARAMETERS.get();
    ticks_to_ns(rdtsc() - base)
}

/// Waits until something is so, that many ns at most: whether it is.
pub fn wait_for(ns: u64, is_so: impl Fn() -> bool) -> bool {
    let end = now() + ns;
    while !is_so() && now() < end {
        core::hint::spin_loop();
    }
    is_so()
}

/// Converts TSC ticks to ns.
pub fn ticks_to_ns(ticks: u64) -> u64 {
    let (_, _, mult, _) = PARAMETERS.get();
    ((ticks as u128 * mult as u128) >> SHIFT) as u64
}
