// SPDX-License-Identifier: BSD-2-Clause
//! Exceptions and interrupts that reach user threads.

use crate::clock::{between, since_interruption, spin, Instruction, Timed};
use crate::partner::*;
use crate::sample::row;
use core::sync::atomic::{AtomicU64, Ordering};
use keel_l4::abi::call::{CALL_IPC, IPC_RECEIVE};
use keel_l4::abi::memory::{EX_HANDLER, EX_PAGER};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, Message, Timeout};
use keel_l4::{kernel_object, kip, thread, Id};

/// Nanoseconds from the request to the timer's expiry. All threads wait by then.
const AHEAD_NS: u64 = 50_000;

/// The last reading of the interrupted thread.
static READING: AtomicU64 = AtomicU64::new(0);

/// All of them.
pub fn measure() -> Result<(), Failure> {
    exception("exception-one-space", Space::Same)?;
    exception("exception-two-spaces", Space::Other)?;
    interrupt("interrupt-one-space", Space::Same)?;
    interrupt("interrupt-two-spaces", Space::Other)
}

/// A breakpoint, up to the next instruction; the handler answers at once.
fn exception(name: &str, space: Space) -> Result<(), Failure> {
    let handler = Partner::start(Space::Same, acknowledge, 0)?;
    let subject = Partner::start(space, subject, 0)?;
    // Lets the subject access its image while its pager serves the image.
    call(subject.id, Message::label(Instruction::Nothing as u32))?;
    subject.set_fault_endpoint(handler.id, EX_PAGER | EX_HANDLER)?;
    row(name, || {
        let answer = call(subject.id, Message::label(Instruction::Breakpoint as u32))?;
        Ok(between(answer.words[0], answer.words[1]))
    })?;
    subject.end()?;
    handler.end()
}

/// Sets its timer on request, and answers with the time at which the interrupt reached it.
extern "C" fn receiver(client: u64) -> ! {
    let client = Id(client);
    let timer = kernel_object::claim_timer();
    loop {
        let asked = receive(client, Timeout::Never);
        let set = timer.and_then(|timer| asked.and_then(|_| kernel_object::set_timer(timer, kip::now() + AHEAD_NS)));
        let mut timed =
            Timed { ax: CALL_IPC | IPC_RECEIVE, dx: timer.map_or(Id::INVALID.0, |timer| timer.0), ..Timed::default() };
        timed.run(Instruction::Syscall);
        // A client that gets no reading detects the failure.
        let words = if set.is_ok() { [timed.end, timed.ax] } else { [0, 1] };
        let _ = send(client, Message::new(0, &words), Timeout::Never);
    }
}

/// From the last instruction of a spinning thread to the first instruction of the thread that waits
/// for the timer.
fn interrupt(name: &str, space: Space) -> Result<(), Failure> {
    let receiver = Partner::start(space, receiver, keel_l4::utcb::my_id().0)?;
    thread::set_priority(receiver.id, priority() + 1)?;
    let spinner = Partner::start(Space::Same, spin, READING.as_ptr() as u64)?;
    thread::set_priority(spinner.id, priority() - 1)?;
    row(name, || {
        let answer = call(receiver.id, Message::label(0))?;
        Ok(since_interruption(READING.load(Ordering::Relaxed), spinner.ip()?, answer.words[0]))
    })?;
    spinner.end()?;
    receiver.end()
}
