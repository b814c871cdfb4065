// SPDX-License-Identifier: BSD-2-Clause
//! The two halves of an alien thread's system call: from its `syscall` or `int 0x80` to the
//! handler's first instruction, and from the handler's answering `syscall` to the alien thread's
//! next instruction.

use crate::clock::{alien_calls, alien_calls_32, between, Instruction, Timed};
use crate::partner::*;
use crate::rows::small::WINDOWS;
use crate::sample::rows;
use keel_l4::abi::call::{KIND_PAGE_FAULT, KIND_SYSCALL, SMALL_NONE};
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
/// 64-bit user code, and 32-bit user code.
const CODE: u64 = 0x33;
const CODE_32: u64 = 0x23;
/// User data.
const DATA: u64 = 0x2b;
/// The first thread-local segment: data from address 0 on, of 4 GB.
const LOCAL: u64 = 0x63;
const LOCAL_DESCRIPTOR: u64 = 0x00cf_f300_0000_ffff;
/// The frame that is used.
const FRAME: *mut Frame = (AREA_DEFAULT + AREA_FRAMES) as *mut Frame;

/// A kind of alien thread.
struct Kind {
    /// The names of both halves, and of their sum.
    names: [&'static str; 3],
    /// Its code and its selectors: cs, and ds es fs gs.
    code: unsafe extern "C" fn(),
    cs: u64,
    segments: u64,
    /// What it reaches.
    reach: u64,
    /// Where its frame has the first reading, and the second one of the previous call.
    readings: fn(&Frame) -> [u64; 2],
}

/// All of them. Those of 32 bits have the segments of a program of Linux's.
pub fn measure() -> Result<(), Failure> {
    const SEGMENTS: u64 = DATA | DATA << 16 | LOCAL << 48;
    kernel_object::buy_frames(0, 1)?;
    let of_64_bits = Kind {
        names: ["foreign-call-in", "foreign-call-out", "foreign-call"],
        code: alien_calls,
        cs: CODE,
        segments: 0,
        reach: SMALL_NONE,
        readings: |frame| [frame.r15, frame.r14],
    };
    let large = Kind {
        names: ["foreign-call-32-bit-in", "foreign-call-32-bit-out", "foreign-call-32-bit"],
        code: alien_calls_32,
        cs: CODE_32,
        segments: SEGMENTS,
        reach: SMALL_NONE,
        readings: |frame| [frame.si, frame.di],
    };
    let small = Kind {
        names: ["foreign-call-32-bit-small-in", "foreign-call-32-bit-small-out", "foreign-call-32-bit-small"],
        reach: WINDOWS[0],
        ..large
    };
    [of_64_bits, large, small].iter().try_for_each(both_halves)
}

fn both_halves(kind: &Kind) -> Result<(), Failure> {
    let task = task::create_empty(&NewTask { area: 0, upper_half: false, ..plan() })?;
    let thread = start(kind, task)?;
    let first = receive(thread, Timeout::Never)?;
    serve_faults(first)?;
    rows(kind.names, || {
        let answer = resume(thread)?;
        // SAFETY: the page was bought, and the thread of the frame waits.
        let [start, end] = (kind.readings)(&unsafe { FRAME.read_volatile() });
        let (into, out) = (between(start, answer.end), between(answer.start, end));
        Ok([into, out, into + out])
    })?;
    task::delete(task_number(), own_task())
}

fn start(kind: &Kind, task: Id) -> Result<Id, Failure> {
    let mut frame = Frame::zeroed();
    (frame.ip, frame.cs, frame.ss, frame.flags) = (kind.code as usize as u64, kind.cs, DATA, FLAGS);
    frame.segments = kind.segments;
    // SAFETY: the page was bought, and no thread uses the frame.
    unsafe { FRAME.write_volatile(frame) };
    let mut record = ExRegs::zeroed();
    (record.frame, record.pager, record.handler) = (0, utcb::my_id().0, utcb::my_id().0);
    let mask = EX_CREATE | EX_ALIEN | EX_FRAME | EX_PAGER | EX_HANDLER;
    let thread = thread::exchange(thread::lthread(task, LTHREAD_TASK as u16), mask, &mut record)?;
    if kind.segments != 0 {
        record.tls = [LOCAL_DESCRIPTOR, 0, 0];
        thread::exchange(thread, EX_TLS, &mut record)?;
        thread::set_reach(thread, kind.reach, Id::NIL)?;
    }
    thread::act(thread, EX_START)
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
