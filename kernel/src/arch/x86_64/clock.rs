// SPDX-License-Identifier: GPL-2.0-only
//! Kernel time: nanoseconds since boot, from the TSC, calibrated with the PIT.

use super::regs::*;
use crate::global::Global;
use core::cell::Cell;

/// Frequency of the PIT in Hz (Intel 8254).
const PIT_HZ: u64 = 1_193_182;
/// PIT ticks of one measurement: 10 ms.
const PIT_TICKS: u64 = PIT_HZ / 100;
/// Measurements at most, because an emulator may be held up in any of them; one is good where this part of it is unknown.
const MEASUREMENTS: usize = 50;
const PRECISION: u64 = 500;
/// Precision of the conversion from ticks to nanoseconds: ns = ticks * mult >> SHIFT.
const SHIFT: u64 = 24;
pub const NS_PER_S: u64 = 1_000_000_000;

struct Clock {
    base: Cell<u64>,
    hz: Cell<u64>,
    mult: Cell<u64>,
}

static CLOCK: Global<Clock> = Global::new(Clock { base: Cell::new(0), hz: Cell::new(0), mult: Cell::new(0) });

/// Measures the TSC and, with `read`, another counter in the same interval: (TSC Hz, other Hz). Of several measurements
/// that one counts of whose beginning and end the least is unknown.
pub fn calibrate(start: impl Fn(), read: impl Fn() -> u64) -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..MEASUREMENTS {
        start();
        let before = rdtsc();
        start_pit();
        let (first, begin) = (read(), rdtsc());
        let last = wait_for_pit();
        let (other, end) = (read().abs_diff(first), rdtsc());
        best = best.min((begin - before + end - last, end - begin, other));
        if best.0 < best.1 / PRECISION {
            break;
        }
    }
    let hz = |ticks: u64| ticks * PIT_HZ / PIT_TICKS;
    (hz(best.1), hz(best.2))
}

/// Channel 2 counts down once; its gate and output are in port 0x61.
fn start_pit() {
    // SAFETY: the PIT is the kernel's at boot.
    unsafe {
        outb(0x61, inb(0x61) & !2 | 1);
        outb(0x43, 0xb0);
        outb(0x42, PIT_TICKS as u8);
        outb(0x42, (PIT_TICKS >> 8) as u8);
    }
}

/// Returns the time of the last look that saw the count go on.
fn wait_for_pit() -> u64 {
    let (mut last, mut now) = (0, rdtsc());
    // SAFETY: as above; bit 5 is the output, set when the count has ended.
    while unsafe { inb(0x61) } & 0x20 == 0 {
        (last, now) = (now, rdtsc());
    }
    last
}

/// Begins kernel time now.
pub fn init(hz: u64) {
    CLOCK.hz.set(hz);
    CLOCK.mult.set((NS_PER_S << SHIFT) / hz);
    CLOCK.base.set(rdtsc());
}

/// Kernel time in ns.
pub fn now() -> u64 {
    ticks_to_ns(rdtsc() - CLOCK.base.get())
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
    ((ticks as u128 * CLOCK.mult.get() as u128) >> SHIFT) as u64
}

/// Frequency, base, multiplier and shift, for the information page.
pub fn parameters() -> (u64, u64, u64, u64) {
    (CLOCK.hz.get(), CLOCK.base.get(), CLOCK.mult.get(), SHIFT)
}
