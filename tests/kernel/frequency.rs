// SPDX-License-Identifier: GPL-2.0-only
//! The choice of the TSC's frequency, and its measurement, with counters of known frequencies.

use super::*;
use std::cell::Cell;

const MHZ: u64 = 1_000_000;

fn answers(list: &[(&'static str, u64)]) -> Vec<Answer> {
    list.iter().map(|(source, hz)| Answer { source, hz: *hz }).collect()
}

fn chosen(list: &[(&'static str, u64)]) -> Option<(&'static str, u64)> {
    choose(answers(list).into_iter()).map(|answer| (answer.source, answer.hz))
}

#[test]
fn no_answer_is_none() {
    assert_eq!(chosen(&[]), None);
}

#[test]
fn the_first_of_those_that_agree_counts() {
    assert_eq!(chosen(&[("told", 2400 * MHZ), ("pit", 2403 * MHZ), ("hpet", 2399 * MHZ)]), Some(("told", 2400 * MHZ)));
    assert_eq!(chosen(&[("pit", 2400 * MHZ)]), Some(("pit", 2400 * MHZ)));
}

#[test]
fn of_two_that_differ_the_first_counts() {
    assert_eq!(chosen(&[("told", 2400 * MHZ), ("pit", 2500 * MHZ)]), Some(("told", 2400 * MHZ)));
}

#[test]
fn the_majority_outvotes_the_first() {
    let list = [("told", 3800 * MHZ), ("pit", 3650 * MHZ), ("hpet", 3651 * MHZ), ("pm", 1000 * MHZ)];
    assert_eq!(chosen(&list), Some(("pit", 3650 * MHZ)));
}

#[test]
fn answers_agree_up_to_one_percent() {
    assert!(agree(1000 * MHZ, 1010 * MHZ) && agree(1010 * MHZ, 1000 * MHZ));
    assert!(!agree(1000 * MHZ, 1010 * MHZ + 1) && !agree(1010 * MHZ + 1, 1000 * MHZ));
    assert!(!agree(0, u64::MAX) && agree(0, 0));
}

#[test]
fn a_crystal_that_is_not_told_is_none() {
    assert_eq!(of_crystal([2, 188, 25_500_000, 0]), Some(2_397_000_000));
    assert_eq!(of_crystal([0, 0, 0, 0]), None);
    assert_eq!(of_crystal([2, 188, 0, 0]), None);
    assert_eq!(of_crystal([0, 188, 24_000_000, 0]), None);
    assert_eq!(of_crystal([1, u32::MAX, u32::MAX, 0]), None);
}

#[test]
fn kilohertz() {
    assert_eq!(of_khz(2_593_905), Some(2_593_905_000));
    assert_eq!((of_khz(0), of_khz(999), of_khz(u32::MAX)), (None, None, None));
}

/// Multipliers and shifts as KVM makes them (Linux, kvm_get_time_scale): 2.4 GHz, 800 MHz, 3 GHz.
#[test]
fn kvm_tells_a_multiplier_and_a_shift() {
    for (hz, multiplier, shift) in
        [(2400 * MHZ, 0xd555_5555, -1), (800 * MHZ, 0xa000_0000, 1), (3000 * MHZ, 0xaaaa_aaaa, -1)]
    {
        let found = of_kvm_clock(multiplier, shift).expect("it makes sense");
        assert!(found.abs_diff(hz) < 1000, "{found} for {hz}");
    }
    for (multiplier, shift) in [(0, 0), (1, 0), (u32::MAX, i8::MIN), (u32::MAX, i8::MAX), (u32::MAX, 31), (1, -31)] {
        assert_eq!(of_kvm_clock(multiplier, shift), None, "{multiplier} {shift}");
    }
}

#[test]
fn an_hpets_period_is_within_its_specification() {
    assert_eq!(of_hpet(10_000_000), Some(100 * MHZ));
    assert_eq!(of_hpet(69_841_279), Some(14_318_179));
    assert_eq!((of_hpet(0), of_hpet(100_000_001), of_hpet(u32::MAX)), (None, None, None));
}

/// A machine with a TSC, where every reading of a counter takes time.
struct Machine {
    hz: u64,
    time: Cell<u64>,
    /// Ticks of a reading; `stall` adds ticks to every n-th one (n, ticks).
    look: u64,
    stall: (u64, u64),
    looks: Cell<u64>,
}

impl Machine {
    fn new(hz: u64) -> Machine {
        Machine { hz, time: Cell::new(u64::MAX / 3), look: hz / 1_000_000, stall: (u64::MAX, 0), looks: Cell::new(0) }
    }

    fn tsc(&self) -> u64 {
        self.looks.set(self.looks.get() + 1);
        let stall = if self.looks.get() % self.stall.0 == 0 { self.stall.1 } else { 0 };
        self.time.set(self.time.get() + self.look + stall);
        self.time.get()
    }

    /// The value of a counter with this frequency.
    fn count(&self, hz: u64, mask: u64) -> u64 {
        (self.time.get() as u128 * hz as u128 / self.hz as u128) as u64 & mask
    }

    fn measure(&self, hz: u64, mask: u64) -> Option<u64> {
        let count = || self.count(hz, mask);
        measure_tsc(&Reference { hz, mask, start: &count, read: &|| Some(count()) }, &|| self.tsc())
    }
}

#[test]
fn counters_of_all_widths_measure() {
    for hz in [20 * MHZ, 1000 * MHZ, 2400 * MHZ, 9999 * MHZ] {
        for (reference, mask) in [(3_579_545, 0xff_ffff), (14_318_180, u32::MAX as u64), (100 * MHZ, u32::MAX as u64)] {
            let found = Machine::new(hz).measure(reference, mask).expect("it counts");
            assert!(agree(found, hz), "{found} for {hz} by {reference}");
        }
    }
}

/// If the host delays the emulator in most readings, the result of the others is still used.
#[test]
fn of_many_measurements_the_quiet_one_counts() {
    let mut machine = Machine::new(2400 * MHZ);
    machine.stall = (25_013, 24 * MHZ);
    let found = machine.measure(3_579_545, 0xff_ffff).expect("it counts");
    assert!(agree(found, 2400 * MHZ), "{found}");
}

#[test]
fn what_stands_still_ends_and_is_none() {
    let machine = Machine::new(2400 * MHZ);
    let before = machine.time.get();
    for stuck in [0, u32::MAX as u64] {
        let reference = Reference { hz: 3_579_545, mask: 0xff_ffff, start: &|| stuck, read: &|| Some(stuck) };
        assert_eq!(measure_tsc(&reference, &|| machine.tsc()), None);
    }
    assert!(machine.time.get() - before < 2400 * MHZ, "it gives up within a second");
}

#[test]
fn what_is_not_there_is_none_at_once() {
    let machine = Machine::new(2400 * MHZ);
    let reference = Reference { hz: 1_193_182, mask: u64::MAX, start: &|| 0, read: &|| None };
    assert_eq!(measure_tsc(&reference, &|| machine.tsc()), None);
    assert!(machine.looks.get() < 10);
}

/// A counter that gives nonsense is rejected: port 0x61 without a PIT ends every interval at once.
#[test]
fn a_nonsensical_frequency_is_none() {
    let machine = Machine::new(2400 * MHZ);
    let count = Cell::new(0u64);
    let fast = || {
        count.set(count.get() + 100 * MHZ);
        count.get()
    };
    let reference = Reference { hz: MHZ, mask: u64::MAX, start: &fast, read: &|| Some(fast()) };
    assert_eq!(measure_tsc(&reference, &|| machine.tsc()), None);
}

/// The timer of the local APIC, by the TSC itself.
#[test]
fn another_counter_is_measured_by_the_tsc() {
    let machine = Machine::new(2400 * MHZ);
    let tsc = Reference { hz: 2400 * MHZ, mask: u64::MAX, start: &|| machine.tsc(), read: &|| Some(machine.tsc()) };
    let found = measure(&tsc, &|| machine.tsc(), &|| machine.count(66 * MHZ, u32::MAX as u64)).expect("it counts");
    assert!(agree(found, 66 * MHZ), "{found}");
    assert_eq!(measure(&tsc, &|| machine.tsc(), &|| 0), Some(0));
}
