// SPDX-License-Identifier: BSD-2-Clause
//! A pipe between two tasks, as in a shell: one writes while there is room, the other reads when it
//! wants to. Each pipe is a thread (`src/pipe.rs`), here of the tasks' chief.

#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU64, Ordering};
use keel_examples::pipe::{self, ReadEnd, WriteEnd};
use keel_l4::call::Failure;
use keel_l4::clan::Clan;
use keel_l4::program::Program;
use keel_l4::start::Stack;
use keel_l4::{println, thread, Error, Id};

keel_l4::program!(main);

/// Bytes that the producer sends: some twenty times the capacity of the pipe.
const BYTES: usize = 100_000;
/// Sizes of its writes and of the consumer's reads, which need not match.
const PIECE: usize = 1234;
const MOUTHFUL: usize = 777;

static DOWN_STACK: Stack<{ 32 << 10 }> = Stack::new();
static UP_STACK: Stack<{ 32 << 10 }> = Stack::new();
/// The threads of the two pipes. The children have them in their copies of the data.
static DOWN: AtomicU64 = AtomicU64::new(0);
static UP: AtomicU64 = AtomicU64::new(0);

/// Byte `index` of what the producer sends.
fn byte(index: usize) -> u8 {
    (index * 7 % 251) as u8
}

fn producer(_: u64) -> Result<(), Failure> {
    let mut down = WriteEnd::new(Id(DOWN.load(Ordering::Relaxed)));
    let mut piece = [0; PIECE];
    let mut sent = 0;
    while sent < BYTES {
        let count = PIECE.min(BYTES - sent);
        for (index, place) in piece[..count].iter_mut().enumerate() {
            *place = byte(sent + index);
        }
        down.write(&piece[..count])?;
        sent += count;
    }
    println!("producer: wrote {sent} bytes in pieces of {PIECE}");
    down.close()?;
    // The other pipe has no reader: this fills it, waits for room, and then gets the error.
    let mut up = WriteEnd::new(Id(UP.load(Ordering::Relaxed)));
    loop {
        match up.write(&piece) {
            Ok(()) => (),
            Err(failure) if failure.error == Error::NoPartner => break,
            Err(failure) => return Err(failure),
        }
    }
    println!("producer: the other pipe has no reader any more");
    Ok(())
}

fn consumer(_: u64) -> Result<(), Failure> {
    let mut down = ReadEnd::new(Id(DOWN.load(Ordering::Relaxed)));
    let mut mouthful = [0; MOUTHFUL];
    let (mut received, mut wrong) = (0, 0);
    loop {
        let count = down.read(&mut mouthful)?;
        if count == 0 {
            break;
        }
        wrong += mouthful[..count].iter().enumerate().filter(|(index, got)| **got != byte(received + index)).count();
        received += count;
    }
    println!("consumer: read {received} bytes, {wrong} of them wrong, then the end");
    down.close()?;
    ReadEnd::new(Id(UP.load(Ordering::Relaxed))).close()
}

fn main(program: Program) -> Result<(), Failure> {
    DOWN.store(thread::spawn(&DOWN_STACK, pipe::thread, 0)?.0, Ordering::Relaxed);
    UP.store(thread::spawn(&UP_STACK, pipe::thread, 0)?.0, Ordering::Relaxed);
    let mut clan = Clan::new(program);
    clan.start("producer", producer, 0)?;
    clan.start("consumer", consumer, 0)?;
    clan.run()
}
