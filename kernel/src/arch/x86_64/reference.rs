// SPDX-License-Identifier: GPL-2.0-only
//! What tells the TSC's frequency, or counts at a known one: CPUID, hypervisors, the PIT, the HPET,
//! ACPI's PM timer. Each is looked at once, at boot.

use super::frequency::{self, choose, measure_tsc, Answer, Reference};
use super::{acpi, cpuid, direct, paging, print::log, regs::*};
use crate::base::{abi::*, facts::Memory, *};

/// Frequency of the PIT in Hz (Intel 8254).
const PIT_HZ: u64 = 1_193_182;
/// PIT ticks of one measurement: 10 ms.
const PIT_TICKS: u64 = PIT_HZ / 100;
/// Frequency of ACPI's PM timer in Hz, and the bits that each of them has (ACPI 6.4, 4.8.2.1).
const PM_TIMER_HZ: u64 = 3_579_545;
const PM_TIMER_BITS: u64 = 0xff_ffff;

/// The TSC's frequency: what is told comes before what is measured, the majority before all. Panics
/// if nothing tells it.
pub fn find_tsc(rsdp: u64, ram: &Memory) -> Answer {
    let found = [
        ("the hypervisor's CPUID leaf", cpuid::hypervisor_tsc_khz().and_then(frequency::of_khz)),
        ("KVM's clock", kvm_clock()),
        ("CPUID's crystal", frequency::of_crystal(cpuid::leaf(cpuid::CRYSTAL, 0))),
        ("the PIT", pit()),
        ("the HPET", hpet(rsdp, ram)),
        ("ACPI's PM timer", pm_timer(rsdp)),
    ];
    let answers = found.into_iter().filter_map(|(source, hz)| Some(Answer { source, hz: hz? }));
    let chosen = choose(answers.clone()).expect(
        "no clock: neither CPUID nor a hypervisor tells the TSC's frequency, and no PIT, HPET or PM timer counts",
    );
    for Answer { source, hz } in answers.filter(|answer| !frequency::agree(answer.hz, chosen.hz)) {
        log!("the TSC has {hz} Hz by {source}, {} Hz by {}, which is believed", chosen.hz, chosen.source);
    }
    chosen
}

/// KVM's clock of a processor (Linux, Documentation/virt/kvm/x86/msr.rst). Of its words the last
/// one is used: the multiplier in bits 31:0, the shift in bits 39:32.
#[repr(C, align(32))]
struct KvmClock([Word; 4]);

/// Memory that KVM writes to.
static KVM_CLOCK: KvmClock = KvmClock([const { Word::new(0) }; 4]);

/// Switches KVM's clock on for a moment: KVM fills the structure in before the next instruction.
fn kvm_clock() -> Option<u64> {
    const MSR_SYSTEM_TIME_NEW: u32 = 0x4b56_4d01;
    const HAS_NEW_MSRS: u32 = 1 << 3;
    const ON: u64 = 1;
    if cpuid::kvm_features() & HAS_NEW_MSRS == 0 {
        return None;
    }
    // SAFETY: KVM has the register, and writes to the structure alone while it is on.
    let word = unsafe {
        wrmsr(MSR_SYSTEM_TIME_NEW, paging::image_physical(&KVM_CLOCK).raw() | ON);
        let word = KVM_CLOCK.0[3].get();
        wrmsr(MSR_SYSTEM_TIME_NEW, 0);
        word
    };
    frequency::of_kvm_clock(word as u32, (word >> 32) as i8)
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

/// Measures with the HPET (IA-PC HPET Specification 1.0a, 2.3). It is on for as long as that takes.
fn hpet(rsdp: u64, ram: &Memory) -> Option<u64> {
    const CAPABILITIES: u64 = 0;
    const CONFIGURATION: u64 = 0x10;
    const COUNTER: u64 = 0xf0;
    const ON: u32 = 1;
    let base = keel_abi::acpi::find_map(rsdp, b"HPET", &mut acpi::bytes, acpi::parse_hpet);
    let base = PhysAddr::new(base.filter(|base| acpi::can_be_registers(*base, ram))?);
    // SAFETY: a device's registers, by the table and as the address is not RAM's.
    unsafe { paging::make_uncached(base) };
    let register = |at: u64| direct(base + at).cast::<u32>();
    // SAFETY: the registers of the HPET, mapped uncached; the kernel's at boot.
    let (period, before) =
        unsafe { (register(CAPABILITIES + 4).read_volatile(), register(CONFIGURATION).read_volatile()) };
    let hz = frequency::of_hpet(period)?;
    // SAFETY: as above.
    let set = |configuration| unsafe { register(CONFIGURATION).write_volatile(configuration) };
    // SAFETY: as above.
    let count = || unsafe { register(COUNTER).read_volatile() } as u64;
    set(before | ON);
    let reference = Reference { hz, mask: u32::MAX as u64, start: &count, read: &|| Some(count()) };
    let found = measure_tsc(&reference, &rdtsc);
    set(before);
    found
}

/// Measures with ACPI's PM timer.
fn pm_timer(rsdp: u64) -> Option<u64> {
    let port = keel_abi::acpi::find_map(rsdp, b"FACP", &mut acpi::bytes, acpi::parse_pm_timer)?;
    // SAFETY: reading the timer has no effect.
    let count = || unsafe { inl(port) } as u64;
    let reference = Reference { hz: PM_TIMER_HZ, mask: PM_TIMER_BITS, start: &count, read: &|| Some(count()) };
    measure_tsc(&reference, &rdtsc)
}
