// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's last words: only a bug of the kernel itself leads here. Nothing that it relies on
//! may be the user's: gs may be, and is not used before `cpu::recover`.

use crate::arch::{cpu, print::log, regs, screen, serial, OFFSET};
use crate::{base::facts, base::facts::Word, base::facts::KERNEL_START, percpu::lock};
use core::{panic::PanicInfo, sync::atomic::AtomicU32, sync::atomic::Ordering};
use keel_abi::panic::{DEBUG_EXIT_PORT, SHUTDOWN_KERNEL_PANIC};

unsafe extern "C" {
    static _bss_end: u8;
    static boot_stack_top: u8;
}

/// Panics that each processor is telling of; the last is for one that is not set up yet.
static NESTED: [AtomicU32; cpu::MAX + 1] = [const { AtomicU32::new(0) }; cpu::MAX + 1];

#[cfg_attr(not(test), panic_handler)]
fn panic(info: &PanicInfo) -> ! {
    let cpu = cpu::recover();
    let nested = &NESTED[cpu.map_or(cpu::MAX, |cpu| cpu.index as usize)];
    // One that tells of another one ends it: the second says no more than that it is, and the third
    // nothing.
    let around = nested.fetch_add(1, Ordering::Relaxed);
    if around > 1 {
        regs::halt();
    }
    if let (Some(cpu), 0) = (cpu, around) {
        lock::stop_others(cpu);
    }
    if serial::PORT.get() == 0 {
        // Perhaps the command line was not read yet.
        serial::init(serial::COM[0]);
    }
    // After the serial line: a fault on the screen is told there, and by the second panic alone.
    if around == 0 {
        screen::show(screen::Shown::Panic);
    }
    log!("PANIC: {info}");
    if around == 0 {
        if let Some(thread) = cpu.and_then(|cpu| cpu.current.get()) {
            log!("running {:?}", thread.id);
            for (number, words) in thread.frame().words().chunks_exact(2).enumerate() {
                log!("frame[{}] = {:#x} {:#x}", 2 * number, words[0].get(), words[1].get());
            }
        }
        log!("cr2 {:#x} cr3 {:#x}", regs::read_cr2(), regs::read_cr3());
        backtrace();
    }
    nested.store(0, Ordering::Relaxed);
    crate::debugger::panicked();
    end()
}

/// The words on the stack that are addresses in the kernel's text: no frame pointers are kept.
pub(crate) fn backtrace() {
    let text = OFFSET + KERNEL_START..&raw const _bss_end as u64 + OFFSET;
    for word in stack().iter().filter(|word| text.contains(word)) {
        log!("  {word:#x}");
    }
}

/// The part of this processor's stack, or of the one used at boot, that is in use; empty on any
/// other.
fn stack() -> &'static [u64] {
    let here = regs::read_sp();
    let own = cpu::recover().map_or(0, |cpu| cpu.address.get());
    let stacks = [(own, cpu::STACK), (&raw const boot_stack_top as u64, cpu::BOOT_STACK)];
    let inside = |(top, size): &(u64, usize)| (top.wrapping_sub(*size as u64)..*top).contains(&here);
    let top = stacks.into_iter().find(inside).map_or(here, |(top, _)| top);
    // SAFETY: from the stack pointer to the top of the stack that it is in.
    unsafe { core::slice::from_raw_parts(here as *const u64, (top - here) as usize / 8) }
}

/// Tells the emulator, where the command line allows that, and stops. Whoever reads the console
/// learns the end from its last line.
pub fn end() -> ! {
    if facts::has_word(Word::DebugExit) {
        // SAFETY: the port of QEMU's debug exit device; nothing else is there when the option is
        // given.
        unsafe { regs::outb(DEBUG_EXIT_PORT as u16, SHUTDOWN_KERNEL_PANIC as u8) };
    }
    log!("the machine stands still (code {SHUTDOWN_KERNEL_PANIC:#x})");
    regs::halt()
}
