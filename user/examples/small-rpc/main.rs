// SPDX-License-Identifier: BSD-2-Clause
//! A remote procedure call between two programs of 32 bits in small address spaces: windows of this
//! task's page tables. Both are in one image, a boot module (`task.rs`).

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
    let calculator = New { name: "calculator", role: 0, partner: Id::NIL, place, pager: Id::NIL, ends: true };
    let partner = small.start(calculator)?;
    small.start(New { name: "client", role: 1, partner, ..calculator })?;
    small.run()
}
