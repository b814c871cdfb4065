// SPDX-License-Identifier: GPL-2.0-only
//! Rust side of entry.s: what the entries call, and the checks before leaving to user mode.

use super::cpu::{self, cpu, Cpu};
use super::cpuid::{self, Feature};
use super::regs::*;
use super::{apic, fast, fpu, paging, tables};
use crate::arch::print::log;
use crate::base::facts;
use crate::base::refs::Ref;
use crate::ipc::{across, fault, kernel_object};
use crate::object::thread::{state_word, Message, State, Thread, ALIEN, DISPATCHED, FPU, FRAME_WORDS};
use crate::percpu::lock::{self, Lock};
use crate::percpu::pcid::{Pcids, NOFLUSH};
use crate::sys::{exregs, panic, syscall};
use crate::{debugger, sched};
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use keel_abi::call::*;
use keel_abi::fpage::*;
use keel_abi::ids::TASK_SIGMA0;
use keel_abi::memory::SharedFrame;
use keel_abi::{Frame, Id, Tag, Utcb};

/// Flags that are set in every user's flags: interrupts on, and the bit that is always one.
pub const FLAGS_FIXED: u64 = 1 << 9 | 1 << 1;
/// Flags that a user may choose: CF PF AF ZF SF TF DF OF NT RF AC ID.
const FLAGS_USER: u64 = 0x25_4dd5;
/// TF and RF: sysret would not restore them properly.
const FLAGS_NEED_IRET: u64 = 1 << 8 | 1 << 16;
/// Flags that SYSCALL clears: TF IF DF NT AC, and IOPL.
pub const FLAGS_CLEARED: u64 = 0x4_7700;
/// AC: in user mode alignment checks, in the kernel no SMAP.
const FLAG_AC: u64 = 1 << 18;
/// In a frame's `orig_ax`: an exception or interrupt filled it.
pub const NO_CALL: u64 = u64::MAX;

/// #DB.
const VECTOR_DB: u64 = 1;
/// #UD.
const VECTOR_UD: u64 = 6;
/// #NM: the FPU is off.
const VECTOR_NM: u64 = 7;
/// #DF.
const VECTOR_DF: u64 = 8;
/// #GP.
pub const VECTOR_GP: u64 = 13;
/// #PF.
pub const VECTOR_PF: u64 = 14;
/// #MC.
const VECTOR_MC: u64 = 18;
/// First vector that is no exception.
const FIRST_INTERRUPT: u64 = 32;
/// `int 0x80`.
pub const VECTOR_INT80: u64 = 0x80;

/// The assembly, with a symbol for the offset of each field that it uses, prefix and name, and for constants.
macro_rules! assembly {
    ([$($prefix:literal $type:ty { $($field:ident)* })*] [$($module:ident { $($constant:ident)* })*] $($rest:tt)*) => {
        global_asm!(
            $($(concat!(".set ", stringify!($constant), ", {}"),)*)*
            $($(concat!(".set ", $prefix, stringify!($field), ", {}"),)*)*
            include_str!("entry.s"),
            include_str!("fast.s"),
            $($(const $module::$constant,)*)*
            $($(const offset_of!($type, $field),)*)*
            $($rest)*
        );
    };
}

assembly!([
    "CPU_" Cpu {
        scratch stack exit_ip exit_cs exit_flags exit_sp exit_sysret address delay current loaded space fpu_owner fpu_off preemption_threshold
        lookup_cache open_wait closed_wait fault_wait
    }
    "THREAD_" Thread { id task chief space task_number frame_index state flags priority partner pager handler waiters consumed maybe_pending dispatch fpu }
    "FRAME_" Frame { r8 r9 r10 r11 r12 r13 r14 r15 ip cs flags orig_ax segments fs_base gs_base vector error_code cr2 }
    "FRAME_r" Frame { ax bx cx dx si di bp sp }
] [
    self {
        ALIEN FPU DISPATCHED CALL_HANDLER CALL_LTHREAD_EX_REGS DISPATCH_ON REGISTER_WORDS MAX_WORDS FRAME_WORDS FLAGS_FIXED FLAGS_NEED_IRET SPACE_SHIFT
        VECTOR_DB VECTOR_UD VECTOR_DF VECTOR_MC VECTOR_PF TASK_SIGMA0
    }
    fast { REPLY_AND_WAIT ANY_SEND_TIMEOUT LOOKUP_FACTOR LOOKUP_SHIFT }
    tables { NO_PORTS KERNEL_SS USER_SS USER_CS USER_CS32 }
]
    CHECKED = const debugger::ON as u32,
    CPU_LOCK = const offset_of!(Cpu, lock) + Lock::HELD,
    CPU_PCIDS = const offset_of!(Cpu, pcids) + Pcids::ROOTS,
    PCID_MASK = const Pcids::MASK,
    PCID_NOFLUSH_BIT = const NOFLUSH.ilog2(),
    PAGE_SHIFT = const PAGE_SHIFT,
    CPU_PORTS = const offset_of!(Cpu, tables) + tables::PORTS,
    LOOKUP_THREADS = const offset_of!(fast::LookupCache, threads),
    FPU_COMPONENTS = const fpu::COMPONENTS,
    CR0_FPU_OFF = const CR0_BITS as u64 | CR0_TS,
    THREAD_FRAME = const Thread::FRAME,
    THREAD_UTCB = const Thread::UTCB,
    THREAD_STATE_WORD = const Thread::STATE_WORD,
    THREAD_MESSAGE_TAG = const offset_of!(Thread, message) + offset_of!(Message, tag),
    UTCB_WORDS = const offset_of!(Utcb, words) + 8 * REGISTER_WORDS as usize,
    FRAME_TOP = const offset_of!(Frame, ss) + 8,
    STATE_READY = const State::Ready as u8,
    STATE_FAULTED = const State::Faulted as u8,
    STATE_WORD_FPU_BIT = const 32 + FPU.ilog2(),
    STATE_WORD_DISPATCHED_BIT = const 32 + DISPATCHED.ilog2(),
    CALL_HANDLER_BIT = const CALL_HANDLER.ilog2(),
    TAG_LABEL_SHIFT = const TAG_LABEL_SHIFT,
    STATE_WORD_OPEN_BIT = const state_word(State::Inactive, true, 0, 0).ilog2(),
    STATE_WORD_ALIEN_BIT = const 32 + ALIEN.ilog2(),
    ID_NIL = const Id::NIL.0,
    CALL = const CALL_IPC | IPC_SEND | IPC_RECEIVE,
    TAG_ITEMS = const 0xff << TAG_MAPS_SHIFT | 0xff << TAG_STRINGS_SHIFT | TAG_FORWARD,
    TAG_CONTENT = const fast::TAG_CONTENT,
    TAG_ONE_PAGE = const fast::TAG_ONE_PAGE,
    NO_CALL = const NO_CALL as i64,
    READ_FAULT_TAG = const Tag::kernel(KIND_PAGE_FAULT, FPAGE_READ as u32, 4).0,
    WRITE_FAULT_TAG = const Tag::kernel(KIND_PAGE_FAULT, FPAGE_WRITE as u32, 4).0,
    FETCH_FAULT_TAG = const Tag::kernel(KIND_PAGE_FAULT, FPAGE_EXEC as u32, 4).0,
    MORE_WORDS = const REGISTER_WORDS as usize + FRAME_WORDS - 4,
    SYSCALL_TAG = const Tag::kernel(KIND_SYSCALL, GATE_SYSCALL as u32, 4).0,
    FLAGS_USER = const FLAGS_USER,
    FLAGS_NOT_SYSRET = const !(FLAGS_USER & !FLAGS_NEED_IRET) as u32,
    UP_OPEN_WAIT = const state_word(State::Receiving, true, 0, 0),
    UP_CLOSED_WAIT = const state_word(State::Receiving, false, 0, 0),
    CODE_PRESENT = const fault::code::PRESENT,
    CODE_WRITE = const fault::code::WRITE,
    CODE_FETCH = const fault::code::FETCH,
    slow_syscall = sym system_call,
    answering_syscall = sym answering_system_call,
    map_page = sym fast::map_page,
    exchange_fpu = sym exregs::exchange_fpu_fast,
    exception = sym user_exception,
    kernel_exception = sym kernel_exception,
    fatal = sym fatal,
);

// SAFETY: what entry.s has. Callers of the first two keep no reference into a global that an interrupt may change: the
// idle loop of `sched::choose`, and long operations between two consistent steps.
unsafe extern "C" {
    /// Halts until an interrupt came and was served.
    pub safe fn wait_for_interrupt();
    /// Serves interrupts that wait.
    #[link_name = "poll_interrupts"]
    pub safe fn poll();
    fn leave_to_user() -> !;
}

/// A system call instruction that no short way serves: the running thread's registers are in its frame.
extern "C" fn system_call() -> u64 {
    let cpu = cpu();
    lock::enter(cpu);
    if cpu::count() > 1 && !facts::has_word(facts::Word::NoFast) && across::send(cpu) {
        return leave(cpu);
    }
    serve(cpu)
}

/// The same where map items go to a thread that perhaps waits for its pager. On several processors
/// a mapping takes all locks.
extern "C" fn answering_system_call() -> u64 {
    let cpu = cpu();
    lock::enter(cpu);
    lock::take_all_locks(cpu);
    match cpu.arrived().and_then(|caller| fast::answer(cpu, caller)) {
        None => serve_up(cpu),
        Some(faulter) if load(cpu, faulter) => {
            lock::release(cpu);
            faulter.frame_address()
        }
        Some(_) => leave(cpu),
    }
}

fn serve(cpu: &'static Cpu) -> u64 {
    lock::take_all_locks(cpu);
    serve_up(cpu)
}

#[inline]
fn serve_up(cpu: &'static Cpu) -> u64 {
    if let Some(thread) = cpu.arrived() {
        syscall::enter(thread);
    }
    leave(cpu)
}

/// The end of a long way: the frame to leave with.
fn leave(cpu: &'static Cpu) -> u64 {
    let frame = sched::leave(cpu);
    debugger::trace::leave(cpu);
    cpu.redirected.set(false);
    lock::release(cpu);
    frame
}

/// An exception or interrupt from user mode. The error code is as the hardware told it: a frame may
/// be another one's memory.
extern "C" fn user_exception(vector: u64, error_code: u64) -> u64 {
    let cpu = cpu();
    lock::enter(cpu);
    if vector != apic::KICK_VECTOR {
        lock::take_all_locks(cpu);
    }
    if vector >= FIRST_INTERRUPT && vector != VECTOR_INT80 {
        interrupt(vector);
    } else if let Some(thread) = cpu.arrived() {
        match vector {
            VECTOR_INT80 if thread.has(ALIEN) => {
                let frame = thread.frame();
                frame.orig_ax.set(frame.ax.get());
                fault::alien_call(thread, GATE_INT80);
            }
            VECTOR_INT80 => fault::exception(thread, VECTOR_GP, VECTOR_INT80 * 8 + 2, 0),
            VECTOR_PF => fault::page_fault(thread, read_cr2(), error_code),
            VECTOR_NM => {
                if fpu::switch_on(thread).is_err() {
                    fault::exception(thread, vector, error_code, 0);
                }
            }
            VECTOR_GP if tables::load_ports(thread.task) => {}
            VECTOR_DB => fault::exception(thread, vector, error_code, take_dr6()),
            _ => fault::exception(thread, vector, error_code, 0),
        }
    } else if vector == VECTOR_DB {
        take_dr6();
    }
    leave(cpu)
}

/// Reads the status of debug exceptions, and clears it: the next one's is its own.
fn take_dr6() -> u64 {
    let dr6 = read_dr6();
    // SAFETY: the status has no effect.
    unsafe { write_dr6(0) };
    dr6
}

/// An interrupt in one of the kernel's windows; anything else is a bug.
extern "C" fn kernel_exception(vector: u64, frame: *const Frame) {
    if vector >= FIRST_INTERRUPT {
        // SAFETY: entry.s built the words from `r15` to `flags` on the kernel stack.
        assert!(unsafe { (*frame).flags } & FLAG_AC == 0, "SMAP was off in the kernel");
        let cpu = cpu();
        if vector == apic::KICK_VECTOR && !cpu.has_all_locks.get() {
            // Idle: it looks at everything when this returns.
            return apic::end_of_interrupt();
        }
        let idle = lock::all_locks_from_idle(cpu);
        interrupt(vector);
        if idle {
            lock::release(cpu);
        }
        return;
    }
    // SAFETY: as above; `orig_ax` holds the error code.
    let (ip, code) = unsafe { ((*frame).ip, (*frame).orig_ax) };
    panic!("exception {vector} in the kernel at {ip:#x}, error {code:#x}");
}

/// #DF or #MC, on a stack of its own; `words`: error code, ip, ...
extern "C" fn fatal(vector: u64, words: *const u64) -> ! {
    // SAFETY: the hardware pushed these words.
    let (code, ip, sp) = unsafe { (*words, *words.add(1), *words.add(4)) };
    log!("PANIC: fatal exception {vector} at {ip:#x}, stack {sp:#x}, error {code:#x}");
    panic::end()
}

fn interrupt(vector: u64) {
    debugger::interrupt(vector);
    match vector {
        apic::TIMER_VECTOR => {
            apic::end_of_interrupt();
            sched::timer_interrupt();
        }
        apic::KICK_VECTOR => {
            apic::end_of_interrupt();
            sched::program(cpu());
        }
        apic::SPURIOUS_VECTOR => {}
        vector => match (apic::gsi_of(vector), apic::msi_of(vector)) {
            (Some(line), _) => kernel_object::line_interrupt(line),
            (_, Some(number)) => kernel_object::message_interrupt(number),
            _ => apic::end_of_interrupt(),
        },
    }
}

/// Makes `thread` the one whose registers the processor leaves with. False if its frame's ip is no user address.
pub fn load(cpu: &Cpu, thread: Ref<Thread>) -> bool {
    if cpu.loaded.get() != Some(thread) {
        change(cpu, thread);
    }
    let frame = thread.frame();
    let (ip, flags) = (frame.ip.get(), frame.flags.get() & FLAGS_USER | FLAGS_FIXED);
    let sp = frame.sp.get();
    if frame.cs.get() == tables::USER_CS32 as u64 {
        // A 32-bit segment: upper bits of ip would fault in iret.
        cpu.exit_ip.set(ip & u32::MAX as u64);
        cpu.exit_cs.set(tables::USER_CS32 as u64);
        cpu.exit_sysret.set(0);
    } else {
        if ip >> SPACE_SHIFT != 0 {
            return false;
        }
        cpu.exit_ip.set(ip);
        cpu.exit_cs.set(tables::USER_CS as u64);
        // A native thread's system call loses rcx and r11.
        let lost = !thread.has(ALIEN) && frame.orig_ax.get() != NO_CALL;
        let quick = lost || frame.cx.get() == ip && frame.r11.get() == flags;
        let quick = quick && flags & FLAGS_NEED_IRET == 0;
        cpu.exit_sysret.set(quick as u64);
    }
    cpu.exit_flags.set(flags);
    cpu.exit_sp.set(sp);
    true
}

/// From now on the processor's time is `thread`'s.
pub fn charge(thread: Ref<Thread>) {
    let cpu = cpu();
    if cpu.loaded.get() != Some(thread) {
        change(cpu, thread);
    }
}

/// Changes from the thread whose state is in the processor to another.
fn change(cpu: &Cpu, thread: Ref<Thread>) {
    debugger::trace::switch(cpu.loaded.get(), thread);
    let selectors = match cpu.loaded.get() {
        Some(old) => save_loaded(old),
        None => tables::selectors(),
    };
    cpu.loaded.set(Some(thread));
    thread.consumed.set(thread.consumed.get().wrapping_sub(rdtsc()));
    paging::switch(cpu, thread.space);
    tables::select_ports(cpu, thread.task);
    // Descriptors first: the selectors that load_bases loads may name them.
    fpu::change(cpu, thread);
    load_bases(thread.frame(), selectors);
}

/// Saves what of the loaded thread is only in the processor.
/// Returns the selectors that it had.
pub fn save_loaded(thread: Ref<Thread>) -> u64 {
    thread.consumed.set(thread.consumed.get().wrapping_add(rdtsc()));
    save_bases(thread.frame())
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
    let canonical = |base: u64| if base.wrapping_add(1 << SPACE_SHIFT) >> (SPACE_SHIFT + 1) == 0 { base } else { 0 };
    let (fs, gs) = (canonical(frame.fs_base.get()), canonical(frame.gs_base.get()));
    let wanted = frame.segments.get();
    if wanted | selectors != 0 {
        tables::load_selectors(wanted);
    }
    if cpuid::has(Feature::FsGsBase) {
        // SAFETY: interrupts are off; between the two swapgs nothing uses gs; both bases are canonical.
        unsafe { asm!("wrfsbase {}", "swapgs", "wrgsbase {}", "swapgs", in(reg) fs, in(reg) gs, options(nostack)) };
    } else {
        // SAFETY: these registers exist on every 64-bit processor; both bases are canonical.
        unsafe {
            wrmsr(MSR_FS_BASE, fs);
            wrmsr(MSR_KERNEL_GS_BASE, gs);
        }
    }
}

/// Leaves the boot code for the first thread; this processor runs exclusively.
pub fn start() -> ! {
    // SAFETY: the entry is complete, and interrupts are off.
    unsafe { wrmsr(MSR_LSTAR, fast::system_call_entry(cpu::count())) };
    let frame = leave(cpu());
    // SAFETY: `leave` has made everything ready that leave_to_user uses.
    unsafe {
        asm!("mov rsp, {stack}", "mov rax, {frame}", "jmp {leave}", stack = in(reg) cpu().stack.get(),
        frame = in(reg) frame, leave = sym leave_to_user, options(noreturn))
    }
}
