// SPDX-License-Identifier: BSD-2-Clause
//! A timer server: one kernel timer for any number of clients in other tasks. It receives requests
//! and the timer's message in the same open wait, and answers a client when its time has come.

#![no_std]
#![no_main]

use keel_examples::deadlines::Deadlines;
use keel_l4::call::Failure;
use keel_l4::clan::Clan;
use keel_l4::ipc::{Message, Received};
use keel_l4::kip::now;
use keel_l4::message::{ask, reply};
use keel_l4::program::Program;
use keel_l4::server::{self, answer_later, Server};
use keel_l4::timer::Timer;
use keel_l4::{println, requests, Error, Id};

keel_l4::program!(main);

/// Clients that sleep at the same time.
const SLEEPERS: usize = 8;
const MILLISECOND: u64 = 1_000_000;

requests! {
    /// The services of the timer server.
    enum Request {
        /// Answers after this many nanoseconds: how late the answer is, in nanoseconds.
        Sleep { nanoseconds: u64 } = 1,
    }
}

struct Sleepers {
    timer: Timer,
    deadlines: Deadlines<SLEEPERS>,
}

impl Server for Sleepers {
    type Request = Request;

    fn request(&mut self, Request::Sleep { nanoseconds }: Request, received: &Received) -> Option<Message> {
        let time = now().saturating_add(nanoseconds);
        match self.deadlines.add(time, received.from).map_err(|_| Error::Busy).and_then(|()| self.arm()) {
            // The client waits, and this server continues.
            Ok(()) => None,
            Err(error) => Some(reply::<u64>(Err(error))),
        }
    }

    fn interrupt(&mut self, _timer: Id, _time: u64) {
        let mut late = self.deadlines.next();
        let now = now();
        while let Some(sleeper) = self.deadlines.due(now) {
            answer_later(sleeper, reply(Ok(now - late.unwrap_or(now))));
            late = self.deadlines.next();
        }
        // There is a timer, so setting it cannot fail.
        let _ = self.arm();
    }
}

impl Sleepers {
    fn arm(&self) -> Result<(), Error> {
        self.timer.set(self.deadlines.next()).map_err(|failure| failure.error)
    }
}

fn timer_server(_: u64) -> Result<(), Failure> {
    server::run(&mut Sleepers { timer: Timer::claim()?, deadlines: Deadlines::new() })
}

/// A client: asks the server `server` to wake it after `milliseconds`, twice, and prints whether it
/// was in time.
fn sleep(server: u64, name: &str, milliseconds: u64) -> Result<(), Failure> {
    for round in 1..=2 {
        let late: u64 = ask(Id(server), &Request::Sleep { nanoseconds: milliseconds * MILLISECOND })?;
        let verdict = if late < 10 * MILLISECOND { "in time" } else { "late" };
        println!("{name} slept {milliseconds} ms for the {round}. time and woke {verdict}");
    }
    Ok(())
}

fn cat(server: u64) -> Result<(), Failure> {
    sleep(server, "the cat", 50)
}

fn dog(server: u64) -> Result<(), Failure> {
    sleep(server, "the dog", 20)
}

fn cow(server: u64) -> Result<(), Failure> {
    sleep(server, "the cow", 70)
}

fn main(program: Program) -> Result<(), Failure> {
    let mut clan = Clan::new(program);
    let server = clan.start_server("timer", timer_server, 0)?;
    clan.start("cat", cat, server.0)?;
    clan.start("dog", dog, server.0)?;
    clan.start("cow", cow, server.0)?;
    clan.run()
}
