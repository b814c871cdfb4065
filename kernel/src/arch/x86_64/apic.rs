// SPDX-License-Identifier: GPL-2.0-only
//! Local APIC (timer, end of interrupt) and I/O APIC (interrupt lines). Intel SDM volume 3, chapter 11;
//! 82093AA data sheet.

use super::acpi::{self, Madt};
use super::regs::*;
use super::{clock, direct, paging};
use crate::global::Global;
use core::cell::Cell;
use keel_abi::call::{IRQ_MODE_EDGE, IRQ_MODE_LEVEL};

/// Vector of the timer.
pub const TIMER_VECTOR: u64 = 0xf0;
/// Vector by which another processor asks this one to look at what it has to do.
pub const KICK_VECTOR: u64 = 0xf1;
/// Vector of spurious interrupts, which want no end-of-interrupt.
pub const SPURIOUS_VECTOR: u64 = 0xff;
/// Vector of interrupt line 0; the others follow, leaving out `int 0x80`.
const LINE_VECTOR: u64 = 0x30;
/// Lines that have vectors.
const MAX_LINES: u64 = 0x80 - LINE_VECTOR;
/// Vector of the first message-signalled interrupt.
const MESSAGE_VECTOR: u64 = 0x90;
/// Message-signalled interrupts of each processor.
pub const MESSAGE_VECTORS: u64 = 64;

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
}

object! {
    struct State const () {
        local: Cell<u64> = Cell::new(0),
        io: Cell<u64> = Cell::new(0),
        lines: Cell<u32> = Cell::new(0),
        hz: Cell<u64> = Cell::new(0),
        madt: Cell<Madt> = Cell::new(Madt::none()),
    }
}

static STATE: Global<State> = Global::new(State::new());

fn read_local(register: u64) -> u32 {
    // SAFETY: the local APIC's page, mapped uncached.
    unsafe { direct(STATE.local.get() + register).cast::<u32>().read_volatile() }
}

fn write_local(register: u64, value: u32) {
    // SAFETY: as above.
    unsafe { direct(STATE.local.get() + register).cast::<u32>().write_volatile(value) };
}

fn read_io(register: u32) -> u32 {
    // SAFETY: the I/O APIC's page, mapped uncached: index at 0, data at 16.
    unsafe {
        direct(STATE.io.get()).cast::<u32>().write_volatile(register);
        direct(STATE.io.get() + 16).cast::<u32>().read_volatile()
    }
}

fn write_io(register: u32, value: u32) {
    // SAFETY: as above.
    unsafe {
        direct(STATE.io.get()).cast::<u32>().write_volatile(register);
        direct(STATE.io.get() + 16).cast::<u32>().write_volatile(value);
    }
}

/// Silences the old controllers and finds the APICs.
pub fn find(rsdp: u64) {
    // SAFETY: the interrupt controllers are the kernel's; 0x21 and 0xa1 mask all lines of the old ones.
    unsafe {
        outb(0x21, 0xff);
        outb(0xa1, 0xff);
        STATE.local.set(rdmsr(MSR_APIC_BASE) & 0x000f_ffff_ffff_f000);
    }
    let madt = acpi::madt(rsdp);
    STATE.madt.set(madt);
    STATE.io.set(madt.io_apic);
    // SAFETY: device registers.
    unsafe {
        paging::make_uncached(STATE.local.get());
        paging::make_uncached(madt.io_apic);
    }
    let lines = ((read_io(io::VERSION) >> 16 & 0xff) as u64 + 1).min(MAX_LINES) as u32;
    STATE.lines.set(lines);
    (0..lines).for_each(|line| write_entry(line, io::MASKED, 0));
}

/// Measures the boot processor's timer, and begins kernel time.
pub fn calibrate() {
    let (tsc, timer) =
        clock::calibrate(|| write_local(local::TIMER_COUNT, u32::MAX), || read_local(local::TIMER_NOW) as u64);
    write_local(local::TIMER_COUNT, 0);
    STATE.hz.set(timer);
    clock::init(tsc);
}

/// Starts this processor's local APIC; its timer has no time set yet.
pub fn init_local() {
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
    read_local(local::ID) >> 24
}

/// Ids of the local APICs that the firmware names.
pub fn processors() -> impl Iterator<Item = u32> {
    let madt = STATE.madt.get();
    (0..madt.processor_count).map(move |number| madt.processors[number] as u32)
}

fn command(target: u32, command: u32) {
    write_local(local::TARGET, target << 24);
    write_local(local::COMMAND, command);
    while read_local(local::COMMAND) & local::PENDING != 0 {
        core::hint::spin_loop();
    }
}

/// Makes another processor enter the kernel.
pub fn kick(target: u32) {
    command(target, KICK_VECTOR as u32);
}

/// Puts another processor back to where it waits to be started.
pub fn stop(target: u32) {
    command(target, local::INIT);
}

/// Starts another processor in real mode at a page below 1 MB (Intel SDM volume 3, 9.4.4.1: INIT, 10 ms, STARTUP twice).
pub fn start(target: u32, page: u64) {
    const INIT_NS: u64 = 10_000_000;
    const STARTUP_NS: u64 = 200_000;
    stop(target);
    clock::wait(INIT_NS);
    for _ in 0..2 {
        command(target, local::STARTUP | (page >> 12) as u32);
        clock::wait(STARTUP_NS);
    }
}

fn write_entry(line: u32, low: u32, high: u32) {
    write_io(io::ENTRY + 2 * line + 1, high);
    write_io(io::ENTRY + 2 * line, low);
}

/// Whether a line exists: it has a pin, and no other line was moved to that pin.
pub fn has_line(line: u64) -> bool {
    line < STATE.lines.get() as u64 && STATE.madt.get().owns_pin(line as u32)
}

/// The line of a vector.
pub fn line_of(vector: u64) -> Option<u32> {
    (LINE_VECTOR..LINE_VECTOR + STATE.lines.get() as u64).contains(&vector).then(|| (vector - LINE_VECTOR) as u32)
}

/// Sets up a line to go to a processor's local APIC, masked. Whether it is level triggered.
pub fn configure(line: u32, mode: u64, target: u32) -> bool {
    let (level, low) = match mode {
        IRQ_MODE_EDGE => (false, false),
        IRQ_MODE_LEVEL => (true, true),
        _ => STATE.madt.get().mode(line),
    };
    let bits = if level { io::LEVEL } else { 0 } | if low { io::ACTIVE_LOW } else { 0 };
    write_entry(STATE.madt.get().pin(line), io::MASKED | bits | (LINE_VECTOR as u32 + line), target << 24);
    level
}

/// The register with the mask of a line.
fn low(line: u32) -> u32 {
    io::ENTRY + 2 * STATE.madt.get().pin(line)
}

/// Masks a line.
pub fn mask(line: u32) {
    write_io(low(line), read_io(low(line)) | io::MASKED);
}

/// Unmasks a line that was configured.
pub fn unmask(line: u32) {
    write_io(low(line), read_io(low(line)) & !io::MASKED);
}

/// Tells the local APIC that the interrupt was taken.
pub fn end_of_interrupt() {
    write_local(local::END, 0);
}

/// Sets the timer for a kernel time; `u64::MAX` stops it. A time that has passed fires at once.
pub fn set_timer(time: u64) {
    let count = match time {
        u64::MAX => 0,
        _ => {
            let ns = time.saturating_sub(clock::now()).min(crate::debugger::LONGEST_TIMER_NS);
            (ns * STATE.hz.get() / 1_000_000_000 + 1).min(u32::MAX as u64) as u32
        }
    };
    write_local(local::TIMER_COUNT, count);
}

/// Number of the message-signalled interrupt with a vector.
pub fn message_of(vector: u64) -> Option<u64> {
    vector.checked_sub(MESSAGE_VECTOR).filter(|number| *number < MESSAGE_VECTORS)
}

/// Where a device writes what to raise message-signalled interrupt `number` of a processor (Intel SDM volume 3, 11.11).
pub fn message(target: u32, number: u64) -> (u64, u64) {
    (0xfee0_0000 | (target as u64) << 12, MESSAGE_VECTOR + number)
}

/// The pages with the controllers' registers.
pub fn register_pages() -> [u64; 2] {
    [STATE.local.get(), STATE.io.get()]
}
