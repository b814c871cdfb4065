// SPDX-License-Identifier: GPL-2.0-only
//! System calls of native threads that run 32-bit code, by `int 0x80`.
//!
//! | SYSCALL | 32-bit code |
//! |---|---|
//! | rax | eax |
//! | rdi, and rdx | esi:edi |
//! | rsi | ebx, and above it the low half of the UTCB's word 0 |
//! | r8, r9, r10 | edx, ecx, ebp |
//! | r12, r13, r14 | the UTCB's words 3, 4, 5 |
//!
//! So what is 64 bits wide is in the UTCB's words, whose first six SYSCALL does not use.

use super::switch::NO_CALL;
use crate::{base::abi::*, base::Ref, object::thread::Flags, object::Thread};

/// The UTCB's words for a tag's label, and for the first word that has no register.
pub const LABEL: usize = 0;
const FIRST_WORD: usize = 3;

/// Gives a thread the registers that it would have after SYSCALL.
pub fn take(thread: Ref<Thread>) {
    let (frame, low) = (thread.frame(), |word: &Word| word.get() & u32::MAX as u64);
    let Some(utcb) = thread.utcb() else { return };
    let to = low(&frame.di) | frame.si.get() << u32::BITS;
    frame.orig_ax.set(low(&frame.ax));
    frame.si.set(low(&frame.bx) | utcb.words[LABEL].get() << TAG_LABEL_SHIFT);
    frame.r8.set(low(&frame.dx));
    frame.r9.set(low(&frame.cx));
    frame.r10.set(low(&frame.bp));
    frame.di.set(to);
    frame.dx.set(to);
    word::copy(&utcb.words[FIRST_WORD..], [&frame.r12, &frame.r13, &frame.r14]);
}

/// Puts the results of such a call, if that is not done yet, where 32-bit code finds them; whoever
/// gets a frame finds there what the program has.
#[cold]
pub fn give(thread: Ref<Thread>) {
    let frame = thread.frame();
    let due = thread.has(Flags::SMALL) && frame.orig_ax.get() != NO_CALL;
    let Some(utcb) = thread.utcb().filter(|_| due) else { return };
    frame.bx.set(frame.si.get());
    utcb.words[LABEL].set(frame.si.get() >> TAG_LABEL_SHIFT);
    frame.si.set(frame.di.get() >> u32::BITS);
    frame.dx.set(frame.r8.get());
    frame.cx.set(frame.r9.get());
    frame.bp.set(frame.r10.get());
    word::copy([&frame.r12, &frame.r13, &frame.r14], &utcb.words[FIRST_WORD..]);
    frame.orig_ax.set(NO_CALL);
}
