// SPDX-License-Identifier: BSD-2-Clause
//! The two programs of 32 bits of the example: a calculator, and its client.

#![no_std]
#![no_main]

use keel_l4_32::call::Failure;
use keel_l4_32::ipc::{call, serve, Message, Received};
use keel_l4_32::program::Program;
use keel_l4_32::{println, Error, Id};

keel_l4_32::program!(main);

/// Labels of requests: adds two numbers; divides, with quotient and remainder; how many came.
const ADD: u32 = 1;
const DIVIDE: u32 = 2;
const COUNT: u32 = 3;
/// The role of the server.
const CALCULATOR: u32 = 0;

/// The words of the answer, or why there is none.
fn calculate(received: &Received, count: u32) -> Result<Message, Error> {
    let [left, right, _] = received.words;
    let words = match received.tag.label() {
        ADD => [left.checked_add(right).ok_or(Error::Invalid)?, 0],
        DIVIDE => [left.checked_div(right).ok_or(Error::Invalid)?, left % right],
        COUNT => [count, 0],
        _ => return Err(Error::NotSupported),
    };
    Ok(Message::new(0, &words))
}

fn calculator() -> ! {
    let mut count = 0;
    serve(|received| {
        count += 1;
        calculate(received, count).unwrap_or_else(|error| Message::new(error as u32, &[]))
    })
}

/// Asks the server; an error in its answer is a failure of the call.
fn ask(server: Id, label: u32, words: &[u32]) -> Result<[u32; 3], Failure> {
    Ok(call(server, Message::new(label, words))?.accepted()?.words)
}

fn client(server: Id) -> Result<(), Failure> {
    println!("40 + 2 = {}", ask(server, ADD, &[40, 2])?[0]);
    let [quotient, remainder, _] = ask(server, DIVIDE, &[47, 5])?;
    println!("47 / 5 = {quotient}, remainder {remainder}");
    match ask(server, DIVIDE, &[1, 0]) {
        Ok([quotient, ..]) => println!("1 / 0 = {quotient}"),
        Err(failure) => println!("1 / 0: {failure}"),
    }
    match ask(server, 99, &[1, 2, 3]) {
        Ok([number, ..]) => println!("request 99 gives {number}"),
        Err(failure) => println!("request 99: {failure}"),
    }
    println!("the calculator was asked {} times", ask(server, COUNT, &[])?[0]);
    Ok(())
}

fn main(program: Program) -> Result<(), Failure> {
    match program.role {
        CALCULATOR => calculator(),
        _ => client(program.partner),
    }
}
