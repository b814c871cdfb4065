// SPDX-License-Identifier: BSD-2-Clause
//! Counts instructions: one instruction between two readings of the time-stamp counter, which
//! counts instructions on the deterministic clock. The cost of the readings is measured in the same
//! way, without an instruction, and subtracted.

use core::arch::global_asm;
use core::mem::offset_of;
use keel_l4::abi::call::REGISTER_WORDS;
use keel_l4::call::Failure;

/// The registers of the measured instruction, before and after it, and the two readings (their
/// lower halves).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Timed {
    /// rax
    pub ax: u64,
    /// rdi
    pub di: u64,
    /// rsi
    pub si: u64,
    /// rdx; not read back
    pub dx: u64,
    /// r8, r9, r10, r12, r13, r14
    pub words: [u64; REGISTER_WORDS as usize],
    /// Reading before it.
    pub start: u64,
    /// Reading after it.
    pub end: u64,
}

global_asm!(
    // Everything between two readings. r15 = the first reading, rax = the second, rcx = the old
    // rax; rbx goes to rdx and rbp to rax.
    ".macro timed instruction:vararg",
    "rdtsc",
    "mov r15d, eax",
    "mov rdx, rbx",
    "mov rax, rbp",
    "\\instruction",
    "mov rcx, rax",
    "rdtsc",
    ".endm",
    // A function with a pointer to `Timed` as its argument.
    ".macro timed_function name, instruction:vararg",
    "\\name:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "push rdi",
    "mov rbp, [rdi + {ax}]",
    "mov rbx, [rdi + {dx}]",
    "mov rsi, [rdi + {si}]",
    "mov r8, [rdi + {words}]",
    "mov r9, [rdi + {words} + 8]",
    "mov r10, [rdi + {words} + 16]",
    "mov r12, [rdi + {words} + 24]",
    "mov r13, [rdi + {words} + 32]",
    "mov r14, [rdi + {words} + 40]",
    "mov rdi, [rdi + {di}]",
    "timed \\instruction",
    "mov rbx, [rsp]",
    "mov [rbx + {start}], r15",
    "mov [rbx + {end}], rax",
    "mov [rbx + {ax}], rcx",
    "mov [rbx + {di}], rdi",
    "mov [rbx + {si}], rsi",
    "mov [rbx + {words}], r8",
    "mov [rbx + {words} + 8], r9",
    "mov [rbx + {words} + 16], r10",
    "mov [rbx + {words} + 24], r12",
    "mov [rbx + {words} + 32], r13",
    "mov [rbx + {words} + 40], r14",
    "pop rdi",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    ".endm",
    "timed_function timed_nothing",
    "timed_function timed_syscall, syscall",
    "timed_function timed_load, mov rax, [rdi]",
    "timed_function timed_breakpoint, int3",
    // An alien thread: calls without end, with the first reading in r15 and the second reading of
    // the previous call in r14.
    ".global alien_calls",
    "alien_calls:",
    "timed syscall",
    "mov r14d, eax",
    "jmp alien_calls",
    // The same in 32-bit code, which has the readings in esi and edi. As many instructions as
    // `timed` are between them.
    ".code32",
    ".global alien_calls_32",
    "alien_calls_32:",
    "rdtsc",
    "mov esi, eax",
    "mov edx, ebx",
    "mov eax, ebp",
    "int 0x80",
    "mov ecx, eax",
    "rdtsc",
    "mov edi, eax",
    "jmp alien_calls_32",
    ".code64",
    // Stores the counter in the word at rdi, without end.
    ".global spin",
    "spin:",
    "rdtsc",
    "spin_store:",
    "mov [rdi], eax",
    "spin_back:",
    "jmp spin",
    ax = const offset_of!(Timed, ax),
    di = const offset_of!(Timed, di),
    si = const offset_of!(Timed, si),
    dx = const offset_of!(Timed, dx),
    words = const offset_of!(Timed, words),
    start = const offset_of!(Timed, start),
    end = const offset_of!(Timed, end),
);

unsafe extern "C" {
    fn timed_nothing(timed: *mut Timed);
    fn timed_syscall(timed: *mut Timed);
    fn timed_load(timed: *mut Timed);
    fn timed_breakpoint(timed: *mut Timed);
    fn spin_store();
    fn spin_back();
    /// The code of the alien thread.
    pub fn alien_calls();
    /// The code of an alien thread that runs 32-bit code.
    pub fn alien_calls_32();
    /// The code of the thread that is interrupted.
    pub fn spin(reading: u64) -> !;
}

/// The measured instruction.
#[derive(Clone, Copy)]
pub enum Instruction {
    /// None: the cost of the measurement.
    Nothing,
    /// A system call with all its registers.
    Syscall,
    /// A load from di.
    Load,
    /// A breakpoint.
    Breakpoint,
}

impl Timed {
    /// Runs the instruction between two readings.
    pub fn run(&mut self, instruction: Instruction) {
        // SAFETY: the functions follow the calling convention and write only `self`. The effect of
        // a system call is what the caller asks for, and the caller must pass a valid address for a
        // load.
        unsafe {
            match instruction {
                Instruction::Nothing => timed_nothing(self),
                Instruction::Syscall => timed_syscall(self),
                Instruction::Load => timed_load(self),
                Instruction::Breakpoint => timed_breakpoint(self),
            }
        }
    }
}

/// Instructions between two readings with nothing between them.
pub fn empty() -> u32 {
    let mut timed = Timed::default();
    timed.run(Instruction::Nothing);
    (timed.end as u32).wrapping_sub(timed.start as u32)
}

/// Instructions of `piece`, without those of the measurement. Fails if the piece fails.
pub fn span<T>(piece: impl FnOnce() -> Result<T, Failure>) -> Result<u32, Failure> {
    let readings = [reading(), reading()];
    let start = reading();
    piece()?;
    Ok((reading() - start - (readings[1] - readings[0])) as u32)
}

/// The counter.
#[inline]
pub fn reading() -> u64 {
    // SAFETY: reading the counter has no side effects.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Instructions between two readings, possibly of two threads, without those of the measurement.
pub fn between(start: u64, end: u64) -> u32 {
    (end as u32).wrapping_sub(start as u32).wrapping_sub(empty())
}

/// Instructions from an interruption of `spin` at `ip`, where `last` is the last stored reading, to
/// the reading `end`.
pub fn since_interruption(last: u64, ip: u64, end: u64) -> u32 {
    // Instructions of the loop after the last stored reading.
    let more = match ip {
        ip if ip == spin_store as *const () as u64 => 3,
        ip if ip == spin_back as *const () as u64 => 1,
        _ => 2,
    };
    // The three moves after a first reading are missing here.
    between(last, end).wrapping_add(3).wrapping_sub(more)
}
