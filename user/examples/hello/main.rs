// SPDX-License-Identifier: BSD-2-Clause
//! The smallest program: prints its id, and shuts the machine down by returning.

#![no_std]
#![no_main]

use keel_l4::call::Failure;
use keel_l4::program::Program;
use keel_l4::{println, utcb};

keel_l4::program!(main);

fn main(program: Program) -> Result<(), Failure> {
    println!("hello from thread {:?}", utcb::my_id());
    println!("I have {} MB of memory and may make {} tasks", program.memory.left() >> 20, program.numbers.len());
    Ok(())
}
