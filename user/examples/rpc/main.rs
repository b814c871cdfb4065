// SPDX-License-Identifier: BSD-2-Clause
//! A remote procedure call: a calculator in its own task, and a client in another. Both share one
//! enum of requests; no code counts words.

#![no_std]
#![no_main]

use keel_l4::call::Failure;
use keel_l4::clan::Clan;
use keel_l4::ipc::{call, Message};
use keel_l4::message::{ask, value};
use keel_l4::program::Program;
use keel_l4::server::serve;
use keel_l4::{println, requests, Error, Id};

keel_l4::program!(main);

requests! {
    /// The services of the calculator.
    enum Request {
        /// Adds two numbers; answers the sum.
        Add { left: u64, right: u64 } = 1,
        /// Divides; answers quotient and remainder.
        Divide { dividend: u64, divisor: u64 } = 2,
        /// Answers the number of requests, this one included.
        Count = 3,
    }
}

/// The server. A request is checked before this function gets it; an error is returned to the
/// client.
fn calculator(_: u64) -> Result<(), Failure> {
    let mut count = 0;
    serve(|_client, request| -> Result<(u64, u64), Error> {
        count += 1;
        match request {
            Request::Add { left, right } => Ok((left.checked_add(right).ok_or(Error::Invalid)?, 0)),
            Request::Divide { divisor: 0, .. } => Err(Error::Invalid),
            Request::Divide { dividend, divisor } => Ok((dividend / divisor, dividend % divisor)),
            Request::Count => Ok((count, 0)),
        }
    })
}

/// The client.
fn client(server: u64) -> Result<(), Failure> {
    let server = Id(server);
    let sum: u64 = ask(server, &Request::Add { left: 40, right: 2 })?;
    println!("40 + 2 = {sum}");
    let (quotient, remainder): (u64, u64) = ask(server, &Request::Divide { dividend: 47, divisor: 5 })?;
    println!("47 / 5 = {quotient}, remainder {remainder}");
    match ask::<u64>(server, &Request::Divide { dividend: 1, divisor: 0 }) {
        Ok(quotient) => println!("1 / 0 = {quotient}"),
        Err(failure) => println!("1 / 0: {failure}"),
    }
    match call(server, Message::new(99, &[1, 2, 3])).and_then(value::<u64>) {
        Ok(number) => println!("request 99 gives {number}"),
        Err(failure) => println!("request 99: {failure}"),
    }
    println!("the calculator was asked {} times", ask::<u64>(server, &Request::Count)?);
    Ok(())
}

fn main(program: Program) -> Result<(), Failure> {
    let mut clan = Clan::new(program);
    let server = clan.start_server("calculator", calculator, 0)?;
    clan.start("client", client, server.0)?;
    clan.run()
}
