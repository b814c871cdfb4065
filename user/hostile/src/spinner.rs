// SPDX-License-Identifier: BSD-2-Clause
//! A server that fails while one of its threads spins without end at the highest priority that the
//! server can set. The root task must run above that thread to restart the server. Each life is
//! reported to the witness.

use crate::places::PRIORITIES_ABOVE;
use crate::witness;
use keel_l4::abi::call::SCHEDULE_SLICE;
use keel_l4::call::Failure;
use keel_l4::ipc::{send, Message, Timeout};
use keel_l4::protocol::boot::Start;
use keel_l4::start::Stack;
use keel_l4::{start, thread, utcb};

static STACK: Stack<{ 16 << 10 }> = Stack::new();

/// Fails; the root task restarts it.
pub fn run(record: &Start) -> Result<u32, Failure> {
    let (me, highest) = (utcb::my_id(), record.priority + PRIORITIES_ABOVE);
    send(witness::id(me), Message::new(witness::DONE, &[1]), Timeout::Never)?;
    thread::set_priority(me, highest)?;
    let spinner = thread::spawn(&STACK, spin, 0)?;
    // A time slice without end.
    thread::schedule(spinner, SCHEDULE_SLICE, 0, 0)?;
    thread::set_priority(spinner, highest)?;
    start::stop()
}

extern "C" fn spin(_: u64) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
