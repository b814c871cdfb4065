// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's last words: only a bug of the kernel itself leads here.

use crate::arch::{cpu, regs, screen, serial};
use crate::boot::{self, Word};
use crate::lock;
use crate::print::log;
use core::panic::PanicInfo;
use keel_abi::boot::{DEBUG_EXIT_PORT, END_KERNEL_PANIC};

#[cfg_attr(not(test), panic_handler)]
fn panic(info: &PanicInfo) -> ! {
    if let Some(cpu) = cpu::if_set_up() {
        lock::stop_others(cpu);
    }
    serial::fall_back();
    screen::show_panic();
    log!("PANIC: {info}");
    // Taken meanwhile: if what it names is broken too, the second panic says so without it.
    if let Some((cpu, thread)) = cpu::if_set_up().and_then(|cpu| Some((cpu, cpu.current.take()?))) {
        log!("running {:?}", thread.id);
        for (number, words) in thread.frame().words().chunks_exact(2).enumerate() {
            log!("frame[{}] = {:#x} {:#x}", 2 * number, words[0].get(), words[1].get());
        }
        cpu.current.set(Some(thread));
    }
    log!("cr2 {:#x} cr3 {:#x}", regs::read_cr2(), regs::read_cr3());
    backtrace();
    crate::debugger::panicked();
    end()
}

/// The words on the stack that are addresses in the kernel's text: no frame pointers are kept.
pub(crate) fn backtrace() {
    let text = boot::text_range();
    for word in stack().iter().filter(|word| text.contains(word)) {
        log!("  {word:#x}");
    }
}

/// The part of this processor's stack, or of the one used at boot, that is in use; empty on any other.
fn stack() -> &'static [u64] {
    let here = regs::read_sp();
    let tops = [cpu::if_set_up().map_or(0, |cpu| cpu.stack.get()), &raw const boot::boot_stack_top as u64];
    let top = tops.into_iter().find(|top| (top.wrapping_sub(cpu::STACK as u64)..*top).contains(&here)).unwrap_or(here);
    // SAFETY: from the stack pointer to the top of the stack that it is in.
    unsafe { core::slice::from_raw_parts(here as *const u64, (top - here) as usize / 8) }
}

/// Tells the emulator, where the command line allows that, and stops. Whoever reads the console learns the end
/// from its last line.
pub fn end() -> ! {
    if boot::has_word(Word::DebugExit) {
        // SAFETY: the port of QEMU's debug exit device; nothing else is there when the option is given.
        unsafe { regs::outb(DEBUG_EXIT_PORT as u16, END_KERNEL_PANIC as u8) };
    }
    log!("the machine stands still (code {END_KERNEL_PANIC:#x})");
    regs::halt()
}
