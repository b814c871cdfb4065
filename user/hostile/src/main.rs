// SPDX-License-Identifier: BSD-2-Clause
//! Programs that mean harm, and what must not be harmed by them.
//!
//! The judge starts the gangs, lets them do their worst until enough system calls are made, takes all of it back, and looks whether the
//! kernel is as it was: accounts, tasks, messages, the memory and the heartbeat of the innocent.
//!
//! `args calls=NUMBER seed=NUMBER late-us=NUMBER limit-s=NUMBER`: system calls to be made, the sequence of what is random, how
//! late a heartbeat may be, and how long all of it may take. On the deterministic clock a seed repeats everything.
//!
//! With `role=server` the program is itself a server that means harm, which with `spins=1` fails while it spins and
//! does nothing else, and with `role=witness` the native task beside it that judges: of calls it counts those of the server, or its lives.

#![no_std]
#![no_main]

mod attack;
mod innocent;
mod judge;
mod pager;
mod places;
mod random;
mod rogue;
mod server;
mod spinner;
mod witness;

use keel_l4::abi::boot::{SHUTDOWN_TESTS_FAILED, SHUTDOWN_TESTS_PASSED};
use keel_l4::{println, record, root, start};

keel_l4::entry!(main);

extern "C" fn main(argument: u64) -> ! {
    // SAFETY: the root task started this program with the address of its record.
    let Some(record) = (unsafe { record::at(argument) }) else {
        println!("hostile: there is no start record");
        start::stop();
    };
    let option = |key| record::option(record::command_line(record), key);
    let done = match option("role") {
        Some("server") if option("spins").is_some() => spinner::run(record),
        Some("server") => server::run(record),
        Some("witness") => witness::run(record),
        _ => judge::run(record),
    };
    let failed = match done {
        Ok(failed) => failed,
        Err(failure) => {
            println!("FAIL hostile/start: {failure}");
            println!("0 passed, 1 failed");
            1
        }
    };
    let answer = root::shut_down(if failed == 0 { SHUTDOWN_TESTS_PASSED } else { SHUTDOWN_TESTS_FAILED });
    println!("hostile: the root task does not end the machine: {answer:?}");
    start::stop()
}
