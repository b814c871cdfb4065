// SPDX-License-Identifier: BSD-2-Clause
//! The figures, a file for each kind of mechanism.

pub mod alien;
pub mod events;
pub mod ipc;
pub mod memory;
pub mod objects;
pub mod services;
pub mod small;

use crate::clock::{between, Instruction, Timed};
use keel_l4::abi::Status;
use keel_l4::call::Failure;
use keel_l4::protocol::status::failure;

/// Instructions that a system call takes, up to its return.
pub fn syscall(registers: Timed) -> Result<u32, Failure> {
    let mut timed = registers;
    timed.run(Instruction::Syscall);
    match failure(Status(timed.ax)) {
        Some((side, error)) => Err(Failure { side, error }),
        None => Ok(between(timed.start, timed.end)),
    }
}
