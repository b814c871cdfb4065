// SPDX-License-Identifier: GPL-2.0-only
//! Local APIC (timer, end of interrupt) and I/O APICs (interrupt lines). Intel SDM volume 3,
//! chapter 11; 82093AA data sheet.
//!
//! All processors' local APICs are in one mode: xAPIC, whose registers are in memory, or x2APIC,
//! whose registers are model-specific ones, where firmware has locked that mode or a processor's id
//! is too large for xAPIC.

use super::{acpi, acpi::Madt, clock, cpu, cpuid, cpuid::Feature, direct, paging, tables::VECTOR_INT80};
use super::{frequency, frequency::Reference, print::log, regs::*, x2apic::*};
use crate::base::{abi::*, facts::Memory, facts::Word, *};

/// Vector of the timer.
pub const TIMER_VECTOR: u64 = 0xf0;
/// Vector by which another processor asks this one to look at what it has to do.
pub const KICK_VECTOR: u64 = 0xf1;
/// Vector of spurious interrupts, which want no end-of-interrupt.
pub const SPURIOUS_VECTOR: u64 = 0xff;
/// Vector of interrupt line 0; the others follow, up to `int 0x80`.
pub const GSI_VECTOR: u64 = 0x30;
/// Lines that have vectors.
const MAX_GSIS: u64 = VECTOR_INT80 - GSI_VECTOR;
/// Vector of the first message-signalled interrupt, and the one after the last.
pub const MSI_VECTOR: u64 = 0x90;
pub const MSI_END: u64 = MSI_VECTOR + MSI_VECTORS;
/// Message-signalled interrupts of each processor.
pub const MSI_VECTORS: u64 = 64;
/// The first register in x2APIC mode; they are in the order of their addresses in xAPIC mode, 16
/// bytes each.
const X2_MSR: u32 = 0x800;

/// Local APIC registers.
mod local {
    pub const ID: u64 = 0x20;
    pub const TASK_PRIORITY: u64 = 0x80;
    pub const END: u64 = 0xb0;
    pub const SPURIOUS: u64 = 0xf0;
    pub const COMMAND: u64 = 0x300;
    pub const TARGET: u64 = 0x310;
    pub const TIMER: u64 = 0x320;
    pub const LINT0: u64 = 0x350;
    pub const LINT1: u64 = 0x360;
    pub const TIMER_COUNT: u64 = 0x380;
    pub const TIMER_NOW: u64 = 0x390;
    pub const TIMER_DIVIDE: u64 = 0x3e0;
    pub const ENABLE: u32 = 1 << 8;
    pub const MASKED: u32 = 1 << 16;
    pub const DIVIDE_BY_1: u32 = 0xb;
    pub const PENDING: u32 = 1 << 12;
    pub const INIT: u32 = 0x4500;
    pub const STARTUP: u32 = 0x4600;
}

/// I/O APIC registers and entry bits.
mod io {
    pub const VERSION: u32 = 1;
    pub const ENTRY: u32 = 0x10;
    pub const MASKED: u32 = 1 << 16;
    pub const LEVEL: u32 = 1 << 15;
    pub const ACTIVE_LOW: u32 = 1 << 13;
    /// What is read where there is none.
    pub const ABSENT: u32 = u32::MAX;
}

/// Where a line is configured: the address of an I/O APIC, and the lower of two registers. Address
/// 0: no line.
type Place = (u64, u32);

/// Where the local APICs' registers are, or 0 in x2APIC mode; ticks of their timers in a second.
static LOCAL: Global<Cell<u64>> = Global::new(Cell::new(0));
static TIMER_HZ: Global<Cell<u64>> = Global::new(Cell::new(0));
static MADT: Global<Cell<Madt>> = Global::new(Cell::new(Madt::NONE));
/// The I/O APICs that are used, and where each line is configured.
static IO_APICS: Global<[Cell<u64>; acpi::IO_APICS]> = Global::new([const { Cell::new(0) }; acpi::IO_APICS]);
static PLACES: Global<[Cell<Place>; MAX_GSIS as usize]> = Global::new([const { Cell::new((0, 0)) }; MAX_GSIS as usize]);

fn read_local(register: u64) -> u32 {
    match LOCAL.get() {
        // SAFETY: the local APIC's register in x2APIC mode.
        0 => unsafe { rdmsr(x2(register)) as u32 },
        // SAFETY: the local APIC's page, mapped uncached.
        page => unsafe { direct(PhysAddr::new(page + register)).cast::<u32>().read_volatile() },
    }
}

fn write_local(register: u64, value: u32) {
    match LOCAL.get() {
        // SAFETY: as above.
        0 => unsafe { wrmsr(x2(register), value as u64) },
        // SAFETY: as above.
        page => unsafe { direct(PhysAddr::new(page + register)).cast::<u32>().write_volatile(value) },
    }
}

/// A register in x2APIC mode.
const fn x2(register: u64) -> u32 {
    X2_MSR + (register >> 4) as u32
}

/// Selects a register of an I/O APIC, by the word at 0: where its content is, at 16.
fn select_io(io: u64, register: u32) -> *mut u32 {
    let index = direct(PhysAddr::new(io)).cast::<u32>();
    // SAFETY: an I/O APIC's page, mapped uncached.
    unsafe { index.write_volatile(register) };
    index.wrapping_add(4)
}

/// Silences the old controllers, finds the APICs, and decides on the local ones' mode. `ram` is
/// where none of them is.
pub fn find(rsdp: u64, ram: &Memory) {
    for mask in [0x21, 0xa1] {
        // SAFETY: the interrupt controllers are the kernel's; this masks all lines of the old ones.
        unsafe { outb(mask, 0xff) };
    }
    let madt = acpi::madt(rsdp);
    MADT.set(madt);
    as_firmware_leaves();
    if !needs_x2(&madt) {
        LOCAL.set(registers());
        // SAFETY: device registers.
        unsafe { paging::make_uncached(PhysAddr::new(LOCAL.get())) };
    }
    set_mode();
    for (number, io) in madt.io_apics.iter().enumerate() {
        if !acpi::can_be_registers(io.address, ram) {
            log!("there is no I/O APIC at {:#x}, which ACPI's table names", io.address);
            continue;
        }
        // SAFETY: device registers, by the table and as the address is not RAM's.
        unsafe { paging::make_uncached(PhysAddr::new(io.address)) };
        IO_APICS[number].set(io.address);
        // SAFETY: as above.
        let version = unsafe { select_io(io.address, io::VERSION).read_volatile() };
        let count = if version == io::ABSENT { 0 } else { (version >> 16 & 0xff) + 1 };
        for pin in 0..count {
            let place = (io.address, io::ENTRY + 2 * pin);
            write_entry(place, io::MASKED, 0);
            // Only pins that a line can have: `Madt::pin` has one number for all beyond.
            let pin = io.base.checked_add(pin).filter(|pin| *pin < MAX_GSIS as u32);
            let is_here = |line: &u32| pin == Some(madt.pin(*line)) && madt.owns_pin(*line);
            (0..MAX_GSIS as u32).filter(is_here).for_each(|line| PLACES[line as usize].set(place));
        }
    }
}

/// Where the local APICs' registers are in xAPIC mode.
fn registers() -> u64 {
    // SAFETY: every 64-bit processor has the register.
    unsafe { rdmsr(MSR_APIC_BASE) & ADDRESS }
}

/// For tests: switches x2APIC mode on, as some firmware leaves it, where the command line says so.
fn as_firmware_leaves() {
    if cpuid::has(Feature::X2Apic) && (facts::has_word(Word::X2Apic) || facts::has_word(Word::X2ApicLocked)) {
        change_mode(ON | X2);
    }
}

/// Whether the local APICs have to be in x2APIC mode, for the sake of these processors or for the
/// lock's.
fn needs_x2(madt: &Madt) -> bool {
    const CAN_BE_LOCKED: u64 = 1 << 21;
    const LOCKED: u64 = 1;
    if !cpuid::has(Feature::X2Apic) {
        return false;
    }
    // SAFETY: each is there where the one before it says so, the first where CPUID does; the id in
    // x2APIC mode.
    let (is_locked, own) = unsafe {
        let can_be = cpuid::has(Feature::ArchCapabilities) && rdmsr(MSR_ARCH_CAPABILITIES) & CAN_BE_LOCKED != 0;
        let is_on = rdmsr(MSR_APIC_BASE) & X2 != 0;
        (can_be && rdmsr(MSR_XAPIC_DISABLE_STATUS) & LOCKED != 0, is_on.then(|| rdmsr(x2(local::ID)) as u32))
    };
    is_needed(is_locked || facts::has_word(Word::X2ApicLocked), madt.processors.iter().copied().chain(own))
}

/// Brings this processor's local APIC to the mode that all use.
fn set_mode() {
    change_mode(if LOCAL.get() == 0 { ON | X2 } else { ON });
}

fn change_mode(mode: u64) {
    // SAFETY: every 64-bit processor has the register; these are the steps that it takes.
    let now = unsafe {
        changes(rdmsr(MSR_APIC_BASE), mode).for_each(|value| wrmsr(MSR_APIC_BASE, value));
        rdmsr(MSR_APIC_BASE)
    };
    assert!(now & (ON | X2) == mode, "the local APIC's mode cannot be changed from {now:#x}");
}

/// Measures the boot processor's timer by kernel time's clock.
pub fn calibrate() {
    let start = || {
        write_local(local::TIMER_COUNT, u32::MAX);
        rdtsc()
    };
    let tsc = Reference { hz: clock::PARAMETERS.get().0, mask: u64::MAX, start: &start, read: &|| Some(rdtsc()) };
    let count = || (u32::MAX - read_local(local::TIMER_NOW)) as u64;
    let timer = frequency::measure(&tsc, &rdtsc, &count).filter(|hz| *hz != 0);
    write_local(local::TIMER_COUNT, 0);
    TIMER_HZ.set(timer.expect("the local APIC's timer does not count"));
}

/// Starts this processor's local APIC; its timer has no time set yet.
pub fn init_local() {
    as_firmware_leaves();
    set_mode();
    write_local(local::TIMER_COUNT, 0);
    write_local(local::SPURIOUS, local::ENABLE | SPURIOUS_VECTOR as u32);
    write_local(local::TASK_PRIORITY, 0);
    write_local(local::LINT0, local::MASKED);
    write_local(local::LINT1, local::MASKED);
    write_local(local::TIMER_DIVIDE, local::DIVIDE_BY_1);
    write_local(local::TIMER, TIMER_VECTOR as u32);
}

/// This processor's local APIC's id.
pub fn own_id() -> u32 {
    read_local(local::ID) >> if LOCAL.get() == 0 { 0 } else { 24 }
}

/// Ids of the local APICs that the firmware names and that can be reached.
pub fn processors() -> impl Iterator<Item = u32> {
    let processors = MADT.get().processors;
    let last = if LOCAL.get() == 0 { u32::MAX } else { LAST_SHORT_ID };
    (0..processors.len()).map(move |number| processors[number]).filter(move |id| *id <= last)
}

fn command(target: u32, command: u32) {
    if LOCAL.get() == 0 {
        // SAFETY: the register in x2APIC mode. Writing it orders nothing: what was stored before
        // must be seen by whom it interrupts (Intel SDM volume 3, 11.12.3).
        unsafe {
            core::arch::asm!("mfence", "lfence", options(nostack, preserves_flags));
            wrmsr(x2(local::COMMAND), (target as u64) << 32 | command as u64);
        }
        return;
    }
    write_local(local::TARGET, target << 24);
    write_local(local::COMMAND, command);
    while read_local(local::COMMAND) & local::PENDING != 0 {
        core::hint::spin_loop();
    }
}

/// Makes another processor enter the kernel.
#[inline(never)]
pub fn kick(target: u32) {
    command(target, KICK_VECTOR as u32);
}

/// Puts another processor back to where it waits to be started.
pub fn stop(target: u32) {
    command(target, local::INIT);
}

/// Starts another processor in real mode at a page below 1 MB (Intel SDM volume 3, 9.4.4.1: INIT,
/// 10 ms, STARTUP twice).
pub fn start(target: u32, page: u64) {
    const INIT_NS: u64 = 10_000_000;
    const STARTUP_NS: u64 = 200_000;
    stop(target);
    clock::wait_for(INIT_NS, || false);
    for _ in 0..2 {
        command(target, local::STARTUP | (page >> 12) as u32);
        clock::wait_for(STARTUP_NS, || false);
    }
}

fn write_entry((address, register): Place, low: u32, high: u32) {
    // SAFETY: an I/O APIC's page, mapped uncached.
    unsafe {
        select_io(address, register + 1).write_volatile(high);
        select_io(address, register).write_volatile(low);
    }
}

/// Whether a line exists: it has a pin, and no other line was moved to that pin.
pub fn has_gsi(line: u64) -> bool {
    PLACES.get(line as usize).is_some_and(|place| place.get().0 != 0)
}

/// Sets up a line that exists to go to a processor's local APIC, masked; to another one's where
/// lines cannot name that processor. Whether it is level triggered.
pub fn configure(line: u32, mode: u64, target: u32) -> bool {
    let (level, low) = match mode {
        IRQ_MODE_EDGE => (false, false),
        IRQ_MODE_LEVEL => (true, true),
        _ => MADT.get().mode(line),
    };
    let bits = if level { io::LEVEL } else { 0 } | if low { io::ACTIVE_LOW } else { 0 };
    let mut targets = [target].into_iter().chain(cpu::all().map(|cpu| cpu.apic_id));
    let target = targets.find(|id| *id <= LAST_SHORT_ID).unwrap_or(0);
    write_entry(PLACES[line as usize].get(), io::MASKED | bits | (GSI_VECTOR as u32 + line), target << 24);
    level
}

/// Masks a line that exists and was configured, or unmasks it.
pub fn set_masked(line: u32, masked: bool) {
    let (address, register) = PLACES[line as usize].get();
    let low = select_io(address, register);
    // SAFETY: an I/O APIC's page, mapped uncached.
    unsafe { low.write_volatile(low.read_volatile() & !io::MASKED | if masked { io::MASKED } else { 0 }) };
}

/// Tells the local APIC that the interrupt was taken.
pub fn end_of_interrupt() {
    write_local(local::END, 0);
}

/// Sets the timer for a kernel time. A time that has passed fires at once.
#[inline(never)]
pub fn set_timer(time: u64) {
    let ns = time.saturating_sub(clock::now()).min(crate::debugger::LONGEST_TIMER_NS);
    let count = (ns * TIMER_HZ.get() / clock::NS_PER_S + 1).min(u32::MAX as u64) as u32;
    write_local(local::TIMER_COUNT, count);
}

/// Where a device writes what to raise message-signalled interrupt `number` of a processor (Intel
/// SDM volume 3, 11.11); `None` where the message cannot name the processor.
pub fn message(target: u32, number: u64) -> Option<(u64, u64)> {
    (target <= LAST_SHORT_ID).then_some((0xfee0_0000 | (target as u64) << 12, MSI_VECTOR + number))
}

/// The pages with the controllers' registers.
pub fn register_pages() -> impl Iterator<Item = Range> {
    let addresses = IO_APICS.iter().map(Cell::get).filter(|address| *address != 0);
    addresses.chain([registers()]).map(|address| Range::new(address, address + PAGE_SIZE))
}
