// SPDX-License-Identifier: BSD-2-Clause
//! Long unmaps, and a measurement of how long they delay a thread of higher priority.
//!
//! `args role=watch late-us=NUMBER within-ms=NUMBER` beats, receives the begin and the end of each
//! load, and judges: how late a beat may be, and how long the restart of a failed server may take.
//! `role=load` runs the loads one after the other, each with a tree of mappings that takes all of
//! its kernel memory. `role=server` fails after its child has created such a tree of a page that is
//! not the server's own. With `crowd=1` there is one load: the server fails while its threads map
//! on all processors except the first.

#![no_std]
#![no_main]

mod load;
mod server;
mod tree;
mod watch;

use keel_l4::call::Failure;
use keel_l4::program::Program;
use keel_l4::Error;

keel_l4::program!(main);

fn main(program: Program) -> Result<(), Failure> {
    match program.option("role") {
        Some("watch") => watch::run(&program),
        Some("load") => load::run(program),
        Some("server") => server::run(program),
        _ => Err(Failure::call(Error::Invalid)),
    }
}

/// A number on the command line.
fn number(program: &Program, key: &str, default: u64) -> u64 {
    program.option(key).and_then(|word| word.parse().ok()).unwrap_or(default)
}
