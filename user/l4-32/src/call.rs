// SPDX-License-Identifier: BSD-2-Clause
//! The system call of 32-bit code. `start.s` owns the one `int 0x80` of such programs: it passes
//! all registers that any call uses and interprets none of them.

use core::arch::global_asm;
use keel_abi::Status;
use keel_protocol::status;
pub use keel_protocol::status::Failure;

global_asm!(include_str!("start.s"));

/// The registers of a call, before and after it, in the order of `start.s`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    /// eax: call and flags, then the status.
    pub ax: u32,
    /// ebx: the tag without the label, or what is in rsi of 64-bit code.
    pub bx: u32,
    /// ecx: word 1.
    pub cx: u32,
    /// edx: word 0.
    pub dx: u32,
    /// esi: the upper half of an id.
    pub si: u32,
    /// edi: its lower half.
    pub di: u32,
    /// ebp: word 2.
    pub bp: u32,
}

unsafe extern "C" {
    fn keel32_int80(registers: *mut Registers);
}

/// Enters the kernel with `registers` and returns those after the call, or why it failed.
#[inline]
pub fn invoke(mut registers: Registers) -> Result<Registers, Failure> {
    // SAFETY: it changes only the registers of this structure. The call's effect on memory (a page
    // that is unmapped, another thread that runs) is what the caller asked for.
    unsafe { keel32_int80(&mut registers) };
    // A status is a small negative number in 64 bits, of which eax is the lower half.
    match status::failure(Status(registers.ax as i32 as u64)) {
        Some((side, error)) => Err(Failure { side, error }),
        None => Ok(registers),
    }
}
