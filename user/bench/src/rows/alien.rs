// SPDX-License-Identifier: BSD-2-Clause
//! The two halves of an alien thread's system call: from its `syscall` to the handler's first
//! instruction, and from the handler's answering `syscall` to the alien thread's next instruction.

use crate::clock::{alien_calls, between, Instruction, Timed};
use crate::partner::*;
use crate::sample::rows;
use keel_l4::abi::call::{KIND_PAGE_FAULT, KIND_SYSCALL};
use keel_l4::abi::ids::LTHREAD_TASK;
use keel_l4::abi::memory::*;
use keel_l4::abi::{ExRegs, Frame};
use keel_l4::call::Failure;
use keel_l4::ipc::{receive, Received, Timeout};
use keel_l4::pager::{Fault, Pager};
use keel_l4::task::{self, NewTask};
use keel_l4::{kernel_object, thread, utcb, Error, Id, Tag};

/// Interrupts enabled, and the bit that is always one.
const FLAGS: u64 = 0x202;
/// 64-bit user code.
const CODE: u64 = 0x33;
/// User data.
const DATA: u64 = 0x2b;
/// The frame that is used.
const FRAME: *mut Frame = (AREA_DEFAULT + AREA_FRAMES) as *mut Frame;

/// Both halves, and their sum.
pub fn measure() -> Result<(), Failure> {
    kernel_object::buy_frames(0, 1)?;
    let task = task::create_empty(&NewTask { area: 0, ..plan() })?;
    let thread = create(task)?;
    let first = receive(thread, Timeout::Never)?;
    serve_faults(first)?;
    rows(["foreign-call-in", "foreign-call-out", "foreign-call"], || {
        let answer = resume(thread)?;
        // SAFETY: the page was bought, and the thread of the frame waits.
        let frame = unsafe { FRAME.read_volatile() };
        let (into, out) = (between(frame.r15, answer.end), between(answer.start, frame.r14));
        Ok([into, out, into + out])
    })?;
    task::delete(task_number(), own_task())
}

fn create(task: Id) -> Result<Id, Failure> {
    let mut frame = Frame::zeroed();
    (frame.ip, frame.cs, frame.ss, frame.flags) = (alien_calls as *const () as u64, CODE, DATA, FLAGS);
    // SAFETY: the page was bought, and no thread uses the frame.
    unsafe { FRAME.write_volatile(frame) };
    let mut record = ExRegs::zeroed();
    (record.frame, record.pager, record.handler) = (0, utcb::my_id().0, utcb::my_id().0);
    let mask = EX_CREATE | EX_ALIEN | EX_FRAME | EX_PAGER | EX_HANDLER | EX_START;
    thread::exchange(thread::lthread(task, LTHREAD_TASK as u16), mask, &mut record)
}

/// Maps the pages of the image that the thread needs, until it calls.
fn serve_faults(mut got: Received) -> Result<(), Failure> {
    while got.tag.kind() == KIND_PAGE_FAULT {
        let answer = OwnPages.page(&Fault::of(&got)).ok_or(Failure::call(Error::Invalid))?;
        got = keel_l4::ipc::call(got.from, answer)?;
    }
    expect_call(got.tag)
}

fn expect_call(tag: Tag) -> Result<(), Failure> {
    if tag.kind() == KIND_SYSCALL {
        Ok(())
    } else {
        Err(Failure::call(Error::Invalid))
    }
}

/// Answers the call and waits for the next message of any sender. Returns the two readings around
/// that.
fn resume(thread: Id) -> Result<Timed, Failure> {
    let mut timed = Timed { ax: REPLY_AND_WAIT, di: thread.0, ..Timed::default() };
    timed.run(Instruction::Syscall);
    expect_call(Tag(timed.si)).map(|()| timed)
}
