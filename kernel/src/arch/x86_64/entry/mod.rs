// SPDX-License-Identifier: GPL-2.0-only
//! Rust side of entry.s: what the entries call. switch.rs has the checks before leaving to user
//! mode.

pub mod fast;

use crate::arch::cpu::{self, cpu, Cpu};
use crate::arch::cpuid::{self, Feature};
use crate::arch::{apic, compat, fpu, lookup, paging, print::log, regs::*, switch::*, tables, tables::*};
use crate::ipc::{across, fault, kernel_object, transfer};
use crate::percpu::{lock, lock::Lock, pcid::Pcids, pcid::NOFLUSH};
use crate::sys::{leave, panic, small, syscall};
use crate::{base::abi::*, base::*, debugger, mm::space, object::thread::*, sched};
use core::{arch::asm, arch::global_asm, mem::offset_of};

/// AC: in user mode alignment checks, in the kernel no SMAP.
const FLAG_AC: u64 = 1 << 18;

/// IF: interrupts are on.
const FLAG_IF: u64 = 1 << 9;

/// The assembly, with a symbol for the offset of each field that it uses, prefix and name, and for
/// constants, which the assembly can also name in braces.
macro_rules! assembly {
    ([$($prefix:literal $type:ty { $($field:ident)* })*] [$($module:ident { $($constant:ident)* })*] $($rest:tt)*) => {
        global_asm!(
            $($(concat!(".set ", $prefix, stringify!($field), ", {}"),)*)*
            $($(concat!(".set ", stringify!($constant), ", {", stringify!($constant), "}"),)*)*
            include_str!("entry.s"),
            include_str!("../../../../debugger/fast.s"),
            include_str!("fast.s"),
            include_str!("fast32.s"),
            $($(const offset_of!($type, $field),)*)*
            $($($constant = const $module::$constant,)*)*
            $($rest)*
        );
    };
}

assembly!([
    "CPU_" Cpu {
        exit_ip exit_cs exit_flags exit_sp exit_ss exit_sysret address scratch delay current loaded space half half_held direct client fpu_owner fpu_off fpu_lent preemption_threshold
        reach debug_tls_loaded lookup_cache open_wait closed_wait fault_wait
    }
    "THREAD_" Thread { id task chief space half supervisor any_space task_number frame_index flags priority partner pager handler waiters consumed maybe_pending dispatch fpu borrows_fpu lender frame utcb reach segments extra down turned_at turns }
    "EXTRA_" fpu::DebugTls { selectors shown other }
    "FRAME_" Frame { r8 r9 r10 r11 r12 r13 r14 r15 ip cs flags orig_ax segments fs_base gs_base vector error_code cr2 }
    "FRAME_r" Frame { ax bx cx dx si di bp sp }
] [
    self {
        CALL_HANDLER DISPATCH_ON REGISTER_WORDS MAX_WORDS FRAME_WORDS FLAGS_FIXED FLAGS_NEED_IRET HALF_SHIFT
        VECTOR_DB VECTOR_UD VECTOR_DF VECTOR_GP VECTOR_MC VECTOR_PF VECTOR_INT80 TASK_SIGMA0 PAGE_SHIFT FLAGS_USER TAG_LABEL_SHIFT ID_NIL CR4_PGE
    }
    fast { ALIEN FPU DISPATCHED SMALL DEBUG_TLS REPLY_AND_WAIT ANY_SEND_TIMEOUT TAG_ITEMS }
    transfer { TAG_CONTENT TAG_ONE_ITEM }
    fault { CODE_PRESENT CODE_WRITE CODE_FETCH }
    lock { FREE HELD PAIR }
    lookup { LOOKUP_FACTOR LOOKUP_SHIFT }
    tables { NO_PORTS KERNEL_CS KERNEL_SS USER_SS USER_CS USER_CS32 }
]
    FLAG_IF_BIT = const FLAG_IF.ilog2(),
    OWN_HALF = const paging::OWN_HALF.raw(),
    CHECKED = const debugger::ON as u32,
    CPU_LOCK = const offset_of!(Cpu, lock) + Lock::STATE,
    CPU_PCIDS = const offset_of!(Cpu, pcids) + Pcids::ROOTS,
    PCID_MASK = const Pcids::MASK,
    PCID_NOFLUSH_BIT = const NOFLUSH.ilog2(),
    CPU_PORTS = const offset_of!(Cpu, tables) + tables::PORTS,
    CPU_SEGMENTS = const offset_of!(Cpu, tables) + tables::descriptor_place(USER_CS32),
    CPU_TLS = const offset_of!(Cpu, tables) + tables::TLS_PLACE,
    EXTRA_DR7 = const offset_of!(fpu::DebugTls, debug) + 8 * 5,
    CPU_INDEX = const offset_of!(Cpu, index),
    LOOKUP_THREADS = const offset_of!(lookup::LookupCache, threads),
    FPU_COMPONENTS = const fpu::COMPONENTS,
    CR0_FPU_OFF = const CR0_BITS as u64 | CR0_TS,
    THREAD_STATE_WORD = const Thread::STATE_WORD,
    THREAD_MESSAGE_TAG = const offset_of!(Thread, message) + offset_of!(Message, tag),
    UTCB_WORDS = const offset_of!(Utcb, words) + 8 * REGISTER_WORDS as usize,
    UTCB_LABEL = const offset_of!(Utcb, words) + 8 * compat::LABEL,
    FRAME_TOP = const offset_of!(Frame, ss) + 8,
    STATE_READY = const State::Ready as u8,
    STATE_FAULTED = const State::Faulted as u8,
    STATE_WORD_FPU_BIT = const 32 + Flags::FPU.raw().ilog2(),
    STATE_WORD_SMALL_BIT = const 32 + Flags::SMALL.raw().ilog2(),
    STATE_WORD_DEBUG_TLS_BIT = const 32 + Flags::DEBUG_TLS.raw().ilog2(),
    STATE_WORD_ALIEN_BIT = const 32 + Flags::ALIEN.raw().ilog2(),
    STATE_WORD_DISPATCHED_BIT = const 32 + Flags::DISPATCHED.raw().ilog2(),
    CALL_HANDLER_BIT = const CALL_HANDLER.ilog2(),
    STATE_WORD_OF_FAULTED = const !state_word(State::Inactive, true, 0, Flags::FPU.union(Flags::DISPATCHED)) as i64,
    CALL = const CALL_IPC | IPC_SEND | IPC_RECEIVE,
    NO_CALL = const NO_CALL as i64,
    READ_FAULT_TAG = const Tag::kernel(KIND_PAGE_FAULT, FPAGE_READ as u32, 4).0,
    WRITE_FAULT_TAG = const Tag::kernel(KIND_PAGE_FAULT, FPAGE_WRITE as u32, 4).0,
    FETCH_FAULT_TAG = const Tag::kernel(KIND_PAGE_FAULT, FPAGE_EXEC as u32, 4).0,
    MORE_WORDS = const REGISTER_WORDS as usize + FRAME_WORDS - 4,
    SYSCALL_TAG = const Tag::kernel(KIND_SYSCALL, GATE_SYSCALL as u32, 4).0,
    INT80_TAG = const Tag::kernel(KIND_SYSCALL, GATE_INT80 as u32, 4).0,
    FLAGS_NOT_SYSRET = const !(FLAGS_USER & !FLAGS_NEED_IRET) as u32,
    UP_OPEN_WAIT = const state_word(State::Receiving, true, 0, Flags::NONE),
    UP_CLOSED_WAIT = const state_word(State::Receiving, false, 0, Flags::NONE),
    SUPERVISOR_TASKS = const 1u32 << facts::Word::Supervisor as u32,
    words_given = sym facts::WORDS_GIVEN,
    slow_syscall = sym system_call,
    map_answer = sym transfer::map_answer,
    map_answer_ordered = sym transfer::map_answer_ordered,
    map_item = sym transfer::map_item,
    map_item_ordered = sym transfer::map_item_ordered,
    exception = sym user_exception,
    kernel_exception = sym kernel_exception,
    fatal = sym fatal,
);

// What fast.s compares as one word (`must_run_next`).
const _: () = assert!(offset_of!(Cpu, fpu_lent) == offset_of!(Cpu, preemption_threshold) + 2);

unsafe extern "C" {
    fn leave_to_user() -> !;
}

/// A system call instruction that no fast path serves: the running thread's registers are in its
/// frame.
extern "C" fn system_call() -> u64 {
    let cpu = cpu();
    lock::enter(cpu);
    if cpu::count() > 1 && !facts::has_word(facts::Word::NoFast) && (across::wait(cpu) || across::send(cpu)) {
        return leave(cpu);
    }
    lock::take_all_locks(cpu);
    if let Some(thread) = cpu.arrived() {
        syscall::enter(thread);
    }
    let frame = leave::go_on(cpu).unwrap_or_else(|| leave::leave(cpu));
    end(cpu, frame)
}

/// The end of a slow path: the frame to leave with.
fn leave(cpu: &'static Cpu) -> u64 {
    end(cpu, leave::leave(cpu))
}

fn end(cpu: &Cpu, frame: u64) -> u64 {
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
        if cpu.reach.get() != Reach::NONE {
            return small_exception(cpu, thread, vector, error_code);
        }
        exception(cpu, thread, vector, error_code);
    } else if vector == VECTOR_DB {
        take_dr6();
    }
    leave(cpu)
}

/// An exception of the current thread.
#[inline(always)]
fn exception(cpu: &Cpu, thread: Ref<Thread>, vector: u64, error_code: u64) {
    match vector {
        VECTOR_INT80 if thread.has(Flags::ALIEN) => {
            let frame = thread.frame();
            frame.orig_ax.set(frame.ax.get());
            fault::alien_call(thread, GATE_INT80);
        }
        VECTOR_INT80 => fault::exception(thread, VECTOR_GP, VECTOR_INT80 * 8 + 2, 0),
        VECTOR_PF if thread.any_space && sees_more(cpu, thread) => {}
        VECTOR_PF => fault::page_fault(thread, VirtAddr::new(read_cr2()), error_code),
        VECTOR_NM if fpu::switch_on(thread).is_ok() => {}
        // In supervisor mode no port is refused. A bitmap would stay for the next process.
        VECTOR_GP if !thread.supervisor && tables::load_ports(thread.task) => {}
        VECTOR_DB => fault::exception(thread, vector, error_code, take_dr6()),
        _ => fault::exception(thread, vector, error_code, 0),
    }
}

/// The same of one that runs 32-bit code, perhaps in a window. Another processor may have given it
/// another one while this processor waited for the locks: then the fault occurs again.
#[cold]
#[inline(never)]
fn small_exception(cpu: &'static Cpu, thread: Ref<Thread>, vector: u64, error_code: u64) -> u64 {
    match vector {
        VECTOR_INT80 if thread.has(Flags::SMALL) && !thread.has(Flags::ALIEN) => {
            compat::take(thread);
            lock::release(cpu);
            return system_call();
        }
        VECTOR_PF | VECTOR_GP | VECTOR_SS if cpu.loaded.get() != Some(thread) => {}
        VECTOR_PF => small::page_fault(thread, read_cr2(), error_code),
        VECTOR_GP if tables::load_ports(thread.task) => {}
        VECTOR_GP | VECTOR_SS if small::goes_beyond(thread, error_code) => {}
        _ => exception(cpu, thread, vector, error_code),
    }
    leave(cpu)
}

/// A thread that runs in any space that shows its half met a hole. Whether it is to try again: the
/// processor left such a space while it waited for the locks, or the space now shows more.
fn sees_more(cpu: &Cpu, thread: Ref<Thread>) -> bool {
    cpu.half.get() != thread.half.get() || space::show_in_present(thread.task, VirtAddr::new(read_cr2()))
}

/// Reads the status of debug exceptions, and clears it: the next one's is its own.
fn take_dr6() -> u64 {
    let dr6 = read_dr6();
    // SAFETY: the status has no effect.
    unsafe { write_dr6(0) };
    dr6
}

/// What is on the stack at an entry from the kernel: vector, error code, ip, cs, flags, sp, ss.
type EntryWords = [u64; 7];

/// An interrupt in one of the kernel's windows; anything else is a bug.
extern "C" fn kernel_exception(words: &EntryWords) {
    let [vector, code, ip, _, flags, ..] = *words;
    assert!(vector >= FIRST_INTERRUPT, "exception {vector} in the kernel at {ip:#x}, error {code:#x}");
    assert!(flags & FLAG_AC == 0, "SMAP was off in the kernel");
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
}

/// #DF or #MC, on a stack of its own.
extern "C" fn fatal(words: &EntryWords) -> ! {
    let [vector, code, ip, _, _, sp, _] = *words;
    log!("PANIC: fatal exception {vector} at {ip:#x}, stack {sp:#x}, error {code:#x}");
    panic::end()
}

fn interrupt(vector: u64) {
    debugger::interrupt(vector);
    match vector {
        apic::TIMER_VECTOR => leave::timer_interrupt(),
        apic::KICK_VECTOR => {
            apic::end_of_interrupt();
            sched::program(cpu());
        }
        apic::SPURIOUS_VECTOR => {}
        apic::GSI_VECTOR..VECTOR_INT80 => kernel_object::line_interrupt((vector - apic::GSI_VECTOR) as u32),
        apic::MSI_VECTOR..apic::MSI_END => kernel_object::message_interrupt(vector - apic::MSI_VECTOR),
        _ => apic::end_of_interrupt(),
    }
}

/// Leaves the boot code for the first thread; this processor runs exclusively.
pub fn start() -> ! {
    // SAFETY: the entry is complete, and interrupts are off.
    unsafe { wrmsr(MSR_LSTAR, fast::system_call_entry(cpu::count())) };
    if cpuid::has(Feature::Rdtscp) || cpuid::has(Feature::Rdpid) {
        // SAFETY: the register is there with either of the instructions that read it.
        unsafe { wrmsr(MSR_TSC_AUX, cpu().index as u64) };
    }
    let frame = leave(cpu());
    // SAFETY: `leave` has made everything ready that leave_to_user uses.
    unsafe { asm!("jmp {leave}", leave = sym leave_to_user, in("rax") frame, options(noreturn)) }
}
