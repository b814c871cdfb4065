// SPDX-License-Identifier: GPL-2.0-only
//! Kernel time: nanoseconds since boot, from the TSC, calibrated with the PIT.

use super::regs::*;
use crate::global::Global;
use core::cell::Cell;

/// Frequency of the PIT in Hz (Intel 8254).
const PIT_HZ: u64 = 1_193_182;
/// PIT ticks of one measurement: 10 ms.
const PIT_TICKS: u64 = PIT_HZ / 100;
/// Measurements; the median counts, because an emulator may be held up in any of them.
const MEASUREMENTS: usize = 5;
/// Precision of the conversion from ticks to nanoseconds: ns = ticks * mult >> SHIFT.
const SHIFT: u64 = 24;
const NS_PER_S: u64 = 1_000_000_000;

struct Clock {
    base: Cell<u64>,
    hz: Cell<u64>,
    mult: Cell<u64>,
}

static CLOCK: Global<Clock> = Global::new(Clock { base: Cell::new(0), hz: Cell::new(0), mult: Cell::new(0) });

/// Measures the TSC and, with `read`, another counter in the same interval: (TSC Hz, other Hz).
pub fn calibrate(start: impl Fn(), read: impl Fn() -> u64) -> (u64, u64) {
    let mut tsc = [0; MEASUREMENTS];
    let mut other = [0; MEASUREMENTS];
    for round in 0..MEASUREMENTS {
        start();
        start_pit();
        let (begin, first) = (rdtsc(), read());
        wait_for_pit();
        tsc[round] = rdtsc() - begin;
        other[round] = read().abs_diff(first);
    }
    tsc.sort_unstable();
    other.sort_unstable();
    let hz = |ticks: u64| ticks * PIT_HZ / PIT_TICKS;
    (hz(tsc[MEASUREMENTS / 2]), hz(other[MEASUREMENTS / 2]))
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

fn wait_for_pit() {
    // SAFETY: as above; bit 5 is the output, set when the count has ended.
    while unsafe { inb(0x61) } & 0x20 == 0 {}
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
