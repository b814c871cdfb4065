// SPDX-License-Identifier: BSD-2-Clause
//! The cheapest call, and messages of words between two threads. A round trip is a call and its
//! answer by reply and open wait, with the server's three instructions. One way ends at the
//! server's first instruction.

use crate::clock::{between, Instruction, Timed};
use crate::partner::{
    buffered, echo, echo_with_fpu, pages, stamping, use_fpu, Partner, Space, ARRIVAL, BUFFER_BYTES, CALL,
};
use crate::rows::syscall;
use crate::sample::row;
use core::sync::atomic::Ordering;
use keel_l4::abi::call::CALL_ID_NEAREST;
use keel_l4::abi::StringItem;
use keel_l4::call::Failure;
use keel_l4::ipc::Message;
use keel_l4::{Id, Tag};

struct Case {
    words: u64,
    space: Space,
    round_trip: &'static str,
    one_way: &'static str,
}

const CASES: &[Case] = &[
    Case {
        words: 0,
        space: Space::Same,
        round_trip: "ipc-0-words-one-space",
        one_way: "ipc-0-words-one-space-one-way",
    },
    Case {
        words: 4,
        space: Space::Same,
        round_trip: "ipc-4-words-one-space",
        one_way: "ipc-4-words-one-space-one-way",
    },
    Case {
        words: 16,
        space: Space::Same,
        round_trip: "ipc-16-words-one-space",
        one_way: "ipc-16-words-one-space-one-way",
    },
    Case {
        words: 0,
        space: Space::Other,
        round_trip: "ipc-0-words-two-spaces",
        one_way: "ipc-0-words-two-spaces-one-way",
    },
    Case {
        words: 4,
        space: Space::Other,
        round_trip: "ipc-4-words-two-spaces",
        one_way: "ipc-4-words-two-spaces-one-way",
    },
    Case {
        words: 16,
        space: Space::Other,
        round_trip: "ipc-16-words-two-spaces",
        one_way: "ipc-16-words-two-spaces-one-way",
    },
];

/// All of them.
pub fn measure() -> Result<(), Failure> {
    row("null-call", || syscall(Timed { ax: CALL_ID_NEAREST, ..Timed::default() }))?;
    CASES.iter().try_for_each(|case| round_trip(case).and_then(|()| one_way(case)))?;
    string("string-64k-one-space", Space::Same)?;
    string("string-64k-two-spaces", Space::Other)
}

/// Round trips with FPU states: first the server has one, then the client too. They come last,
/// because this thread keeps its state.
pub fn measure_with_fpu() -> Result<(), Failure> {
    let server = Partner::start(Space::Other, echo_with_fpu, 0)?;
    row("ipc-4-words-two-spaces-fpu-of-one", || syscall(message(server.id, 4)))?;
    use_fpu();
    row("ipc-4-words-two-spaces-fpu-of-both", || syscall(message(server.id, 4)))?;
    server.end()
}

fn message(to: Id, words: u64) -> Timed {
    Timed { ax: CALL, di: to.0, si: Tag::new(0, words).0, dx: to.0, ..Timed::default() }
}

fn round_trip(case: &Case) -> Result<(), Failure> {
    let server = Partner::start(case.space, echo, 0)?;
    row(case.round_trip, || syscall(message(server.id, case.words)))?;
    server.end()
}

fn one_way(case: &Case) -> Result<(), Failure> {
    let server = Partner::start(case.space, stamping, 0)?;
    row(case.one_way, || {
        let mut timed = message(server.id, case.words);
        timed.run(Instruction::Syscall);
        Ok(between(timed.start, ARRIVAL.load(Ordering::Relaxed)))
    })?;
    server.end()
}

/// A call with a string of 64 KB, and the empty answer.
fn string(name: &str, space: Space) -> Result<(), Failure> {
    let server = Partner::start(space, buffered, 0)?;
    let part = StringItem { address: pages(BUFFER_BYTES.ilog2() as u8).base(), length: BUFFER_BYTES as u64 };
    let tag = Message::label(0).with_strings(&[part]).tag;
    row(name, || syscall(Timed { si: tag.0, ..message(server.id, 0) }))?;
    server.end()
}
