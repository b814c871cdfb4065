// SPDX-License-Identifier: BSD-2-Clause
//! A pipe between two programs of 32 bits in small address spaces. The pipe is the one of the
//! example `pipe`, a 64-bit thread of their chief: messages have the same words for both
//! (`task.rs`).

#![no_std]
#![no_main]

use keel_examples::pipe;
use keel_l4::call::Failure;
use keel_l4::program::Program;
use keel_l4::small::{New, Place, Small};
use keel_l4::start::Stack;
use keel_l4::{thread, Id};

keel_l4::program!(main);

static STACK: Stack<{ 32 << 10 }> = Stack::new();

fn main(program: Program) -> Result<(), Failure> {
    let mut small = Small::new(program)?;
    let partner = thread::spawn(&STACK, pipe::thread, 0)?;
    let producer = New { name: "producer", role: 0, partner, place: Place::Window, pager: Id::NIL, ends: true };
    small.start(producer)?;
    small.start(New { name: "consumer", role: 1, ..producer })?;
    small.run()
}
