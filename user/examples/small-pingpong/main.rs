// SPDX-License-Identifier: BSD-2-Clause
//! Ping-pong between two programs of 32 bits: first in windows of this task's page tables, where no
//! message changes the tables, then in spaces of their own. The programs are in C and know nothing
//! of that (`pingpong-32.c`).

#![no_std]
#![no_main]

use keel_l4::call::Failure;
use keel_l4::program::Program;
use keel_l4::small::{New, Place, Small};
use keel_l4::Id;

keel_l4::program!(main);

/// The roles of `pingpong-32.c`: the one that answers, and those that begin.
const PONG: u32 = 0;
const PINGS: [(u32, Place); 2] = [(1, Place::Window), (2, Place::Space)];

fn main(program: Program) -> Result<(), Failure> {
    let mut small = Small::new(program)?;
    for (role, place) in PINGS {
        let pong = New { name: "pong", role: PONG, partner: Id::NIL, place, pager: Id::NIL, ends: true };
        let partner = small.start(pong)?;
        small.start(New { name: "ping", role, partner, ..pong })?;
        small.run()?;
    }
    Ok(())
}
