// SPDX-License-Identifier: BSD-2-Clause
//! The two programs of 32 bits of the example: one writes to the pipe while there is room, the
//! other reads when it wants to.

#![no_std]
#![no_main]

use keel_l4_32::call::Failure;
use keel_l4_32::ipc::{call, Message, Received};
use keel_l4_32::program::Program;
use keel_l4_32::{println, Id};

keel_l4_32::program!(main);

/// Bytes that the producer sends: some twenty times the capacity of the pipe.
const BYTES: usize = 100_000;
/// Sizes of its writes, each of one message, and of the consumer's reads, which need not match.
const PIECE: usize = 900;
const MOUTHFUL: usize = 777;
/// The role of the producer, and the pipe's requests (`src/pipe.rs`).
const PRODUCER: u32 = 0;
const WRITE: u32 = 1;
const READ: u32 = 2;
const CLOSE_WRITE: u32 = 3;
const CLOSE_READ: u32 = 4;

/// Byte `index` of what the producer sends.
fn byte(index: usize) -> u8 {
    (index * 7 % 251) as u8
}

fn ask(pipe: Id, request: Message) -> Result<Received, Failure> {
    call(pipe, request)?.accepted()
}

fn producer(pipe: Id) -> Result<(), Failure> {
    let mut piece = [0; PIECE];
    let mut sent = 0;
    while sent < BYTES {
        let count = PIECE.min(BYTES - sent);
        piece[..count].iter_mut().enumerate().for_each(|(index, place)| *place = byte(sent + index));
        ask(pipe, Message::new(WRITE, &[count as u32]).with_bytes(&piece[..count]))?;
        sent += count;
    }
    println!("producer: wrote {sent} bytes in pieces of {PIECE}");
    ask(pipe, Message::new(CLOSE_WRITE, &[])).map(|_| ())
}

fn consumer(pipe: Id) -> Result<(), Failure> {
    let mut mouthful = [0; MOUTHFUL];
    let (mut received, mut wrong) = (0, 0);
    loop {
        let answer = ask(pipe, Message::new(READ, &[MOUTHFUL as u32]))?;
        let bytes = &mut mouthful[..MOUTHFUL.min(answer.words[0] as usize)];
        if bytes.is_empty() {
            break;
        }
        answer.bytes(bytes).map_err(Failure::call)?;
        wrong += bytes.iter().enumerate().filter(|(index, got)| **got != byte(received + index)).count();
        received += bytes.len();
    }
    println!("consumer: read {received} bytes, {wrong} of them wrong, then the end");
    ask(pipe, Message::new(CLOSE_READ, &[])).map(|_| ())
}

fn main(program: Program) -> Result<(), Failure> {
    match program.role {
        PRODUCER => producer(program.partner),
        _ => consumer(program.partner),
    }
}
