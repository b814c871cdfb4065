// SPDX-License-Identifier: BSD-2-Clause
//! The system-call instruction. This module owns the one `syscall` of native programs: it passes
//! all registers that any call uses and interprets none of them. Wrappers in the other modules give
//! the registers a meaning.

use keel_abi::call::{Status, CALL_MASK, REGISTER_WORDS};
use keel_protocol::status::failure;
pub use keel_protocol::status::Failure;

/// The registers of a call, before and after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// rax: call and flags, then the status.
    pub ax: u64,
    /// rdi
    pub di: u64,
    /// rsi
    pub si: u64,
    /// rdx
    pub dx: u64,
    /// r8, r9, r10, r12, r13, r14
    pub words: [u64; REGISTER_WORDS as usize],
}

/// The number that stands for the call where a kernel object answers with an error.
pub const ANSWER: u64 = CALL_MASK + 1;

/// The default for calls that fail: does nothing.
pub fn ignore(_: u64, _: Failure) {}

unsafe extern "Rust" {
    /// What the program does about a call that failed; `call` is its number or [`ANSWER`]. `entry!`
    /// defines it. It is a function and not a pointer to one, because the report of a failure must
    /// not be the first access to a page.
    fn keel_call_failed(call: u64, failure: Failure);
}

/// Reports a failure to the program and returns it. Failed messages are not reported, because
/// message calls must be fast.
#[cold]
#[inline(never)]
pub(crate) fn failed(call: u64, failure: Failure) -> Failure {
    // SAFETY: a safe function, by `entry!`.
    unsafe { keel_call_failed(call, failure) };
    failure
}

/// Enters the kernel with `registers` and returns the registers after the call.
#[inline]
pub fn invoke(mut registers: Registers) -> Registers {
    let [mut w0, mut w1, mut w2, mut w3, mut w4, mut w5] = registers.words;
    // SAFETY: the call changes only the named registers, rcx and r11. Its effect on memory (an
    // unmapped page, another thread that runs) is what the caller of the wrappers asked for.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") registers.ax,
            inlateout("rdi") registers.di,
            inlateout("rsi") registers.si,
            inlateout("rdx") registers.dx,
            inlateout("r8") w0,
            inlateout("r9") w1,
            inlateout("r10") w2,
            inlateout("r12") w3,
            inlateout("r13") w4,
            inlateout("r14") w5,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    registers.words = [w0, w1, w2, w3, w4, w5];
    registers
}

/// Enters the kernel and turns the status into a result. A failure is also reported to the program.
#[inline]
pub fn checked(registers: Registers) -> Result<Registers, Failure> {
    let after = invoke(registers);
    match failure(Status(after.ax)) {
        Some((side, error)) => Err(failed(registers.ax & CALL_MASK, Failure { side, error })),
        None => Ok(after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests' own `entry!`.
    #[no_mangle]
    fn keel_call_failed(call: u64, failure: Failure) {
        ignore(call, failure);
    }
}
