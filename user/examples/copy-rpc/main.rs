// SPDX-License-Identifier: BSD-2-Clause
//! Synchronous RPC with much data: the client's 64 KB are one string of its message. The kernel
//! copies it directly into the server's buffer, without a buffer in between and without a shared
//! page. The server has its copy, whatever the client does afterwards.

#![no_std]
#![no_main]

use keel_l4::call::Failure;
use keel_l4::clan::Clan;
use keel_l4::ipc::{call, Message, Received, Timeout};
use keel_l4::memory::{Pages, Reserve};
use keel_l4::message::{reply, value, Request as _};
use keel_l4::program::Program;
use keel_l4::server::{self, Server};
use keel_l4::strings::{arrived, of_pages, offer_pages, set_fault_timeouts};
use keel_l4::{println, requests, Error, Id};

keel_l4::program!(main);

/// Bytes of the buffer.
const BYTES: usize = 64 << 10;
/// Bytes that are processed in one step.
const STEP: usize = 512;

static BUFFER: Reserve<BYTES> = Reserve::new();

requests! {
    /// The services of the server.
    enum Request {
        /// Adds up the bytes of the string; answers the sum and their number.
        Sum = 1,
    }
}

/// The server's buffer, which receives the string of each request.
struct Adder {
    buffer: Pages,
}

impl Server for Adder {
    type Request = Request;

    fn request(&mut self, Request::Sum: Request, received: &Received) -> Option<Message> {
        let Some(string) = arrived(received.tag).next() else {
            return Some(reply::<()>(Err(Error::Invalid)));
        };
        let (mut sum, mut step) = (0, [0; STEP]);
        for at in (0..string.length).step_by(STEP) {
            let count = STEP.min((string.length - at) as usize);
            self.buffer.read(at, &mut step[..count]);
            sum += step[..count].iter().map(|byte| *byte as u64).sum::<u64>();
        }
        Some(reply(Ok((sum, string.length))))
    }
}

/// Memory of a task that has only its image.
fn buffer() -> Result<Pages, Failure> {
    BUFFER.take().ok_or(Failure::call(Error::NoMemory))
}

fn server(_: u64) -> Result<(), Failure> {
    let buffer = buffer()?;
    offer_pages(&buffer);
    server::run(&mut Adder { buffer })
}

fn client(server: u64) -> Result<(), Failure> {
    let data = buffer()?;
    for at in (0..BYTES as u64).step_by(STEP) {
        data.write(at, &[(at / STEP as u64) as u8; STEP]);
    }
    // The server's buffer was never accessed, so its page faults are part of the transfer.
    set_fault_timeouts(Timeout::Never, Timeout::Never);
    for length in [BYTES as u64, 1000, 0] {
        let message = Request::Sum.encode().with_strings(&[of_pages(&data, length)]);
        let (sum, count): (u64, u64) = value(call(Id(server), message)?)?;
        println!("the sum of {count} bytes is {sum}");
    }
    match call(Id(server), Request::Sum.encode()).and_then(value::<(u64, u64)>) {
        Ok((sum, _)) => println!("without a string the sum is {sum}"),
        Err(failure) => println!("without a string: {failure}"),
    }
    Ok(())
}

fn main(program: Program) -> Result<(), Failure> {
    let mut clan = Clan::new(program);
    let server = clan.start_server("server", server, 0)?;
    clan.start("client", client, server.0)?;
    clan.run()
}
