// SPDX-License-Identifier: GPL-2.0-only
//! What of a thread is in the processor: loading it, saving it, and whose time runs.
//!
//! The caller holds the processor's own lock, and interrupts are off, except in
//! `wait_for_interrupt` and `poll`.

use super::{compat, cpu, cpu::Cpu, cpuid, cpuid::Feature, fpu, paging, regs::*, segments, tables};
use crate::{base::abi::*, base::*, debugger, object::thread::Flags, object::Thread};
use core::arch::asm;

/// Flags that are set in every user's flags: interrupts on, and the bit that is always one.
pub const FLAGS_FIXED: u64 = 1 << 9 | 1 << 1;
/// Flags that a user may choose: CF PF AF ZF SF TF DF OF NT RF AC ID.
pub const FLAGS_USER: u64 = 0x25_4dd5;
/// TF and RF: sysret would not restore them properly.
pub const FLAGS_NEED_IRET: u64 = 1 << 8 | 1 << 16;
/// Flags that SYSCALL clears: TF IF DF NT AC, and IOPL.
pub const FLAGS_CLEARED: u64 = 0x4_7700;
/// In a frame's `orig_ax`: an exception or interrupt filled it.
pub const NO_CALL: u64 = u64::MAX;

// SAFETY: what entry.s has. Callers keep no reference into a global that an interrupt may change:
// the idle loop of `sched::choose`, and long operations between two consistent steps.
unsafe extern "C" {
    /// Halts until an interrupt came and was served.
    pub safe fn wait_for_interrupt();
    /// Serves interrupts that wait.
    #[link_name = "poll_interrupts"]
    pub safe fn poll();
}

/// Makes `thread` the one whose registers the processor leaves with. False if its frame's ip is not
/// canonical: SYSRET and IRET would fault.
#[inline]
pub fn load(cpu: &Cpu, thread: Ref<Thread>) -> bool {
    charge(cpu, thread);
    let frame = thread.frame();
    let (ip, flags) = (frame.ip.get(), frame.flags.get() & FLAGS_USER | FLAGS_FIXED);
    let sp = frame.sp.get();
    if frame.cs.get() == tables::USER_CS32 as u64 {
        leave_to_32_bits(cpu, ip);
    } else {
        if ip != canonical(ip) {
            return false;
        }
        cpu.exit_ip.set(ip);
        cpu.exit_cs.set(thread.exit_cs);
        cpu.exit_ss.set(thread.exit_ss);
        // A native thread's system call loses rcx and r11.
        let lost = !thread.has(Flags::ALIEN) && frame.orig_ax.get() != NO_CALL;
        let quick = lost || frame.cx.get() == ip && frame.r11.get() == flags;
        let quick = quick && flags & thread.flags_need_iret == 0;
        cpu.exit_sysret.set(quick as u64);
    }
    cpu.exit_flags.set(flags);
    cpu.exit_sp.set(sp);
    true
}

#[inline(always)]
fn leave_to_32_bits(cpu: &Cpu, ip: u64) {
    // A 32-bit segment: upper bits of ip would fault in iret.
    cpu.exit_ip.set(ip & u32::MAX as u64);
    cpu.exit_cs.set(tables::USER_CS32 as u64);
    cpu.exit_ss.set(tables::USER_SS as u64);
    cpu.exit_sysret.set(0);
}

/// `load` of a thread that only runs 32-bit code, whatever its frame says. False if its ip is
/// beyond its segments: IRET would fault.
pub fn load_small(cpu: &Cpu, thread: Ref<Thread>) -> bool {
    charge(cpu, thread);
    compat::give(thread);
    let frame = thread.frame();
    let ip = frame.ip.get() & u32::MAX as u64;
    if ip >= thread.reach.get().size() {
        return false;
    }
    leave_to_32_bits(cpu, ip);
    cpu.exit_flags.set(frame.flags.get() & FLAGS_USER | FLAGS_FIXED);
    cpu.exit_sp.set(frame.sp.get());
    true
}

/// From now on the processor's time is `thread`'s.
#[inline]
pub fn charge(cpu: &Cpu, thread: Ref<Thread>) {
    // One that borrows an FPU state may have got a message of another thread than the lender.
    if cpu.loaded.get() != Some(thread) || cpu.fpu_lent.get() != 0 {
        change(cpu, thread);
    }
}

/// Changes from the thread whose state is in the processor to another.
fn change(cpu: &Cpu, thread: Ref<Thread>) {
    debugger::trace::switch(cpu.loaded.get(), thread);
    let old = cpu.loaded.replace(Some(thread));
    let selectors = match old {
        Some(old) => save(old),
        None => tables::selectors(),
    };
    thread.consumed.set(thread.consumed.get().wrapping_sub(rdtsc()));
    if !thread.any_space || cpu.half.get() != thread.half.get() {
        paging::switch(cpu, thread.space.get(), thread.half.get());
    }
    tables::select_ports(cpu, thread.task);
    // Descriptors first: the selectors that load_bases loads may name them.
    fpu::change(cpu, thread);
    if thread.reach.get().raw() | cpu.reach.get().raw() != Reach::NONE.raw() {
        return change_segments(cpu, old, thread);
    }
    load_bases(thread.frame(), selectors);
}

/// The end of `change` to or from a thread that runs 32-bit code in a window.
#[cold]
fn change_segments(cpu: &Cpu, old: Option<Ref<Thread>>, thread: Ref<Thread>) {
    if let Some(old) = old {
        show_own_bases(old);
    }
    if cpu.reach.get() != thread.reach.get() {
        segments::select(cpu, thread.reach.get());
    }
    match thread.reach.get() {
        // Whatever the selectors were, they are loaded again.
        Reach::NONE => load_bases(thread.frame(), !0),
        // Bases are those of descriptors. Its chief writes the frame.
        _ => tables::load_selectors(thread.frame().segments.get()),
    }
}

/// Saves what of the loaded thread is only in the processor.
pub fn save_loaded(thread: Ref<Thread>) {
    save(thread);
    show_own_bases(thread);
}

/// The same, with the bases as the processor has them. Returns the selectors that it had.
#[inline(always)]
fn save(thread: Ref<Thread>) -> u64 {
    thread.consumed.set(thread.consumed.get().wrapping_add(rdtsc()));
    save_bases(thread.frame())
}

/// Bases of a thread in a window that were just saved are from now on as the thread sees them.
fn show_own_bases(thread: Ref<Thread>) {
    let (frame, window) = (thread.frame(), thread.reach.get());
    for (base, shift) in [(&frame.fs_base, 32), (&frame.gs_base, 48)].into_iter().filter(|_| thread.has(Flags::SMALL)) {
        // A null selector may have any base.
        let own = base.get().wrapping_sub(window.base()) & u32::MAX as u64;
        base.set(if (frame.segments.get() >> shift) as u16 > 3 { own } else { 0 });
    }
}

/// Processor time that a thread has used, in TSC ticks.
pub fn consumed(thread: Ref<Thread>) -> u64 {
    let running = cpu::of(thread).loaded.get() == Some(thread);
    thread.consumed.get().wrapping_add(if running { rdtsc() } else { 0 })
}

/// Puts all that this processor's registers hold of threads into memory.
pub fn write_back_loaded(cpu: &Cpu) {
    cpu.loaded_changed();
    fpu::put_away(cpu);
}

#[inline]
fn save_bases(frame: &SharedFrame) -> u64 {
    let (fs, gs): (u64, u64);
    if cpuid::has(Feature::FsGsBase) {
        // SAFETY: interrupts are off; between the two swapgs nothing uses gs.
        unsafe { asm!("rdfsbase {}", "swapgs", "rdgsbase {}", "swapgs", out(reg) fs, out(reg) gs, options(nostack)) };
    } else {
        // SAFETY: these registers exist on every 64-bit processor.
        (fs, gs) = unsafe { (rdmsr(MSR_FS_BASE), rdmsr(MSR_KERNEL_GS_BASE)) };
    }
    frame.fs_base.set(fs);
    frame.gs_base.set(gs);
    let selectors = tables::selectors();
    frame.segments.set(selectors);
    selectors
}

#[inline]
fn load_bases(frame: &SharedFrame, selectors: u64) {
    let checked = |base: u64| if base == canonical(base) { base } else { 0 };
    let (fs, gs) = (checked(frame.fs_base.get()), checked(frame.gs_base.get()));
    let wanted = frame.segments.get();
    if wanted | selectors != 0 {
        tables::load_selectors(wanted);
    }
    if cpuid::has(Feature::FsGsBase) {
        // SAFETY: interrupts are off; between the two swapgs nothing uses gs; both bases are
        // canonical.
        unsafe { asm!("wrfsbase {}", "swapgs", "wrgsbase {}", "swapgs", in(reg) fs, in(reg) gs, options(nostack)) };
    } else {
        // SAFETY: these registers exist on every 64-bit processor; both bases are canonical.
        unsafe {
            wrmsr(MSR_FS_BASE, fs);
            wrmsr(MSR_KERNEL_GS_BASE, gs);
        }
    }
}
