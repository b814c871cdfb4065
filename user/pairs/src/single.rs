// SPDX-License-Identifier: BSD-2-Clause
//! A thread in a task of its own, beside those of the pairs, whose pager and handler is the first
//! thread.

use crate::client::{self, CODE, CODE_RIGHTS, DATA, DATA_RIGHTS, DF_AND_AC};
use crate::{check, Fault, Outcome, Pairs};
use core::arch::asm;
use keel_l4::abi::call::{KIND_PAGE_FAULT, KIND_SYSCALL};
use keel_l4::abi::Frame;
use keel_l4::ipc::{send_and_wait, wait, Received, Timeout};
use keel_l4::{pager, task, thread, utcb};

/// Its frame: after those of the pairs.
pub const FRAME: u64 = crate::side::MOST as u64;
/// Above that of clients: with one that is as high and ready no call takes a fast path.
const ABOVE_CLIENTS: u64 = client::PRIORITY + 1;
/// Most page faults of such a thread at its own code and data.
const FAULTS: usize = 4;

/// The number of its task.
pub fn number(pairs: &Pairs) -> u32 {
    pairs.first_task + pairs.processors() as u32
}

/// Its first message that is no page fault at its own code and data.
pub fn outcome(pairs: &Pairs, frame: Frame) -> Result<Received, Fault> {
    let task = client::task(number(pairs))?;
    let single = client::start_with(task, [FRAME, 0], frame, utcb::my_id(), true)?;
    thread::set_priority(single, ABOVE_CLIENTS)?;
    let mut got = wait(Timeout::Never)?;
    for _ in 0..FAULTS {
        let fault = pager::Fault::of(&got);
        let (from, rights) = match fault.page() {
            CODE => (client::code(), CODE_RIGHTS),
            DATA => (pairs.sides[0].data(), DATA_RIGHTS),
            _ => break,
        };
        if got.tag.kind() != KIND_PAGE_FAULT || got.from != single {
            break;
        }
        got = send_and_wait(single, fault.map(from, rights), Timeout::Zero, Timeout::Never)?;
    }
    let flags: u64;
    // SAFETY: reads the flags, by a word on the stack.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags) };
    thread::delete(single)?;
    task::delete(number(pairs), utcb::my_id())?;
    check(flags & DF_AND_AC == 0, "the handler has the thread's flags", [flags, 0])?;
    Ok(got)
}

unsafe extern "C" {
    static client_flags: u8;
}

/// A handler in supervisor mode gets no flags of a thread that enters the kernel by an interrupt
/// gate, which keeps them.
pub fn flags(pairs: &Pairs) -> Outcome {
    let got = outcome(pairs, client::frame_64(&raw const client_flags as u64))?;
    check(got.tag.kind() == KIND_SYSCALL, "no call", [got.tag.kind(), got.words[0]])
}
