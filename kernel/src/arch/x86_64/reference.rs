// SPDX-License-Identifier: GPL-2.0-only
//! What tells the TSC's frequency, or counts at a known one: CPUID, hypervisors, the PIT, ACPI's PM
//! timer. Each is looked at once, at boot.

use super::frequency::{self, choose, measure_tsc, Answer, Reference};
use super::{acpi, cpuid, print::log, regs::*};

/// Frequency of the PIT in Hz (Intel 8254).
const PIT_HZ: u64 = 1_193_182;
/// PIT ticks of one measurement: 10 ms.
const PIT_TICKS: u64 = PIT_HZ / 100;
/// Frequency of ACPI's PM timer in Hz, and the bits that each of them has (ACPI 6.4, 4.8.2.1).
const PM_TIMER_HZ: u64 = 3_579_545;
const PM_TIMER_BITS: u64 = 0xff_ffff;

/// The TSC's frequency: what is told comes before what is measured, the majority before all. Panics
/// if nothing tells it.
pub fn find_tsc(rsdp: u64) -> Answer {
    let found = [
        ("the hypervisor's CPUID leaf", cpuid::hypervisor_tsc_khz().and_then(frequency::of_khz)),
        ("CPUID's crystal", frequency::of_crystal(cpuid::leaf(cpuid::CRYSTAL, 0))),
        ("the PIT", pit()),
        ("ACPI's PM timer", pm_timer(rsdp)),
    ];
    let answers = found.into_iter().filter_map(|(source, hz)| Some(Answer { source, hz: hz? }));
    let chosen = choose(answers.clone())
        .expect("no clock: neither CPUID nor a hypervisor tells the TSC's frequency, and no PIT or PM timer counts");
    for Answer { source, hz } in answers.filter(|answer| !frequency::agree(answer.hz, chosen.hz)) {
        log!("the TSC has {hz} Hz by {source}, {} Hz by {}, which is believed", chosen.hz, chosen.source);
    }
    chosen
}

/// Measures with channel 0 of the PIT, which counts down once. Its output is read back, which needs
/// no other chip (a machine with a PIT need not have port 0x61).
fn pit() -> Option<u64> {
    const COMMAND: u16 = 0x43;
    const COUNTER: u16 = 0x40;
    /// Channel 0, both bytes of the count, mode 0: how a status begins, with the output above it.
    const ONCE: u8 = 0x30;
    const MODE: u8 = 0x3f;
    /// Channel 0, both bytes of the count, mode 3. With a count of 0 that is 18.2 Hz, the
    /// firmware's clock. QEMU's processors that take turns on one clock do that at its edges too.
    const PERIODIC: u8 = 0x36;
    const OUTPUT: u8 = 0x80;
    /// Read back, no count but the status, of channel 0.
    const READ_BACK: u8 = 0xe2;
    // SAFETY: the PIT is the kernel's at boot, and its interrupt is masked.
    let start = || unsafe {
        outb(COMMAND, ONCE);
        outb(COUNTER, PIT_TICKS as u8);
        outb(COUNTER, (PIT_TICKS >> 8) as u8);
        0
    };
    let read = || {
        // SAFETY: as above.
        let status = unsafe {
            outb(COMMAND, READ_BACK);
            inb(COUNTER)
        };
        let ended = if status & OUTPUT != 0 { PIT_TICKS } else { 0 };
        (status & MODE == ONCE).then_some(ended)
    };
    let hz = measure_tsc(&Reference { hz: PIT_HZ, mask: u64::MAX, start: &start, read: &read }, &rdtsc);
    // SAFETY: as above. Counts without an end, as firmware has left it.
    unsafe {
        outb(COMMAND, PERIODIC);
        outb(COUNTER, 0);
        outb(COUNTER, 0);
    }
    hz
}

/// Measures with ACPI's PM timer.
fn pm_timer(rsdp: u64) -> Option<u64> {
    let port = keel_abi::acpi::find_map(rsdp, b"FACP", &mut acpi::bytes, acpi::parse_pm_timer)?;
    // SAFETY: reading the timer has no effect.
    let count = || unsafe { inl(port) } as u64;
    let reference = Reference { hz: PM_TIMER_HZ, mask: PM_TIMER_BITS, start: &count, read: &|| Some(count()) };
    measure_tsc(&reference, &rdtsc)
}
