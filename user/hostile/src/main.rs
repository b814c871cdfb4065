// SPDX-License-Identifier: BSD-2-Clause
//! Hostile programs, and the tasks that they must not harm.
//!
//! The judge starts the gangs, lets them attack until enough system calls are made, deletes all of
//! them, and checks that the kernel is as before: accounts, tasks, messages, the memory and the
//! heartbeat of the innocent.
//!
//! `args calls=NUMBER seed=NUMBER late-us=NUMBER limit-s=NUMBER`: system calls to make, the random
//! seed, how late a heartbeat may be, and how long the run may take. On the deterministic clock a
//! run with the same seed is the same.
//!
//! With `role=server` the program is itself a hostile server; with `spins=1` it only fails while it
//! spins. With `role=witness` it is the native task beside the server that judges: its `calls` are
//! those of the server, or the server's lives.

#![no_std]
#![no_main]

mod attack;
mod innocent;
mod judge;
mod pager;
mod places;
mod random;
mod reach;
mod rogue;
mod server;
mod spinner;
mod witness;

use keel_l4::protocol::boot::{SHUTDOWN_TESTS_FAILED, SHUTDOWN_TESTS_PASSED};
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
