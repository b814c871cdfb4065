// SPDX-License-Identifier: BSD-2-Clause
//! The two programs of 32 bits of the example: a calculator, and its client.

#![no_std]
#![no_main]

use keel_l4_32::call::Failure;
use keel_l4_32::ipc::{call, receive, send, serve, Message, Received, Timeout};
use keel_l4_32::program::Program;
use keel_l4_32::{println, utcb, Error, Id};

keel_l4_32::program!(main);

/// Labels of requests: adds two numbers; divides, with quotient and remainder; how many came; ends,
/// without an answer.
const ADD: u32 = 1;
const DIVIDE: u32 = 2;
const COUNT: u32 = 3;
const END: u32 = 4;
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

/// Serves until a client ends that.
fn calculator() {
    let mut count = 0;
    serve(|received| {
        count += 1;
        let answer = || calculate(received, count).unwrap_or_else(|error| Message::new(error as u32, &[]));
        (received.tag.label() != END).then(answer)
    });
    println!("the calculator ends");
}

/// Asks the server; an error in its answer is a failure of the call.
fn ask(server: Id, label: u32, words: &[u32]) -> Result<[u32; 3], Failure> {
    Ok(call(server, Message::new(label, words))?.accepted()?.words)
}

fn client(server: Id) -> Result<(), Failure> {
    println!("client {:?} asks calculator {server:?}", utcb::my_id());
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
    // The server goes on if a client does not wait for its answer.
    send(server, Message::new(COUNT, &[]), Timeout::Zero)?;
    println!("the calculator was asked {} times", ask(server, COUNT, &[])?[0]);
    match receive(server, Timeout::Zero) {
        Ok(_) => println!("the calculator sent something unasked"),
        Err(failure) => println!("a message that nobody sends: {failure}"),
    }
    send(server, Message::new(END, &[]), Timeout::Never)
}

fn main(program: Program) -> Result<(), Failure> {
    match program.role {
        CALCULATOR => calculator(),
        _ => client(program.partner)?,
    }
    Ok(())
}
