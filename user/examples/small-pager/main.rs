// SPDX-License-Identifier: BSD-2-Clause
//! A pager in a small address space: a program of 32 bits answers the page faults of its client.
//! Both are in windows of this task's page tables, and lie there as compactly as they can: program,
//! data, stack and heap are next to each other (`task.rs`).

#![no_std]
#![no_main]

use keel_l4::call::Failure;
use keel_l4::program::Program;
use keel_l4::small::{New, Place, Small};
use keel_l4::Id;

keel_l4::program!(main);

fn main(program: Program) -> Result<(), Failure> {
    let mut small = Small::new(program)?;
    let place = Place::Window;
    let new = New { name: "pager", role: 0, partner: Id::NIL, place, pager: Id::NIL, ends: false };
    let pager = small.start(new)?;
    small.start(New { name: "client", role: 1, partner: pager, pager, ends: true, ..new })?;
    small.run()
}
