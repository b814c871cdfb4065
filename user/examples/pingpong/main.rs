// SPDX-License-Identifier: BSD-2-Clause
//! Ping-pong: a number goes back and forth, first between two threads of one task, then between two
//! tasks. The program is the same, because a thread id does not depend on the thread's task.

#![no_std]
#![no_main]

use keel_l4::call::Failure;
use keel_l4::clan::Clan;
use keel_l4::message::ask;
use keel_l4::program::Program;
use keel_l4::server::serve;
use keel_l4::start::Stack;
use keel_l4::{println, requests, thread, Id};

keel_l4::program!(main);

/// Round trips.
const ROUNDS: u64 = 1000;

requests! {
    /// The request to pong.
    enum Ball {
        /// Throws the number back, one higher.
        Throw { number: u64 } = 1,
    }
}

static STACK: Stack<{ 16 << 10 }> = Stack::new();

/// Receives from any sender, answers, and waits for the next message in the same system call.
extern "C" fn pong(_: u64) -> ! {
    serve(|_, Ball::Throw { number }| Ok(number + 1))
}

/// Sends and waits for the answer in one system call.
fn ping(partner: Id) -> Result<u64, Failure> {
    let mut number = 0;
    for _ in 0..ROUNDS {
        number = ask(partner, &Ball::Throw { number: number + 1 })?;
    }
    Ok(number)
}

fn ping_task(partner: u64) -> Result<(), Failure> {
    let number = ping(Id(partner))?;
    println!("between two tasks: {ROUNDS} round trips, the number is {number}");
    Ok(())
}

fn pong_task(argument: u64) -> Result<(), Failure> {
    pong(argument)
}

fn main(program: Program) -> Result<(), Failure> {
    let partner = thread::spawn(&STACK, pong, 0)?;
    let number = ping(partner)?;
    println!("between two threads: {ROUNDS} round trips, the number is {number}");

    let mut clan = Clan::new(program);
    let partner = clan.start_server("pong", pong_task, 0)?;
    clan.start("ping", ping_task, partner.0)?;
    clan.run()
}
