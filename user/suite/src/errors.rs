// SPDX-License-Identifier: BSD-2-Clause
//! Records which errors the cases have seen. `./keel test kernel` compares them with the table in
//! `docs/abi.md`.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::{self, CALL_IPC, CALL_TASK_NEW};
use keel_l4::abi::describe::Constant;
use keel_l4::call::{Failure, ANSWER};
use keel_l4::protocol::status::{self, ERRORS};
use keel_l4::{println, Side};

/// For each call, a bit for each side and error. Child tasks share the suite's memory, so their
/// errors are recorded too.
static SEEN: [AtomicU64; ANSWER as usize + 1] = [const { AtomicU64::new(0) }; ANSWER as usize + 1];

fn bit(failure: Failure) -> u64 {
    1 << (failure.side as u64 * (ERRORS.len() as u64 + 1) + failure.error as u64)
}

/// Records that the call with this number failed.
pub fn note(call: u64, failure: Failure) {
    SEEN[call as usize].fetch_or(bit(failure), Relaxed);
}

/// Records an error of a message that a case checks. Only messages have other sides than the call
/// itself; the library reports the errors of all other calls.
pub fn note_message(failure: Failure) {
    if failure.side != Side::Call {
        note(CALL_IPC, failure);
    }
}

/// Writes to the records without a change, so that a task whose account is full later can still
/// record an error.
pub fn touch() {
    for seen in &SEEN {
        let value = seen.load(Relaxed);
        // This writes; the compiler cannot remove it.
        let _ = seen.compare_exchange(value, value, Relaxed, Relaxed);
    }
}

/// The name of a value without a name.
const UNKNOWN: &str = "UNKNOWN";

/// The name of a value among the constants of the interface with this prefix, without the prefix.
fn name(beginning: &str, value: u64) -> &'static str {
    let known = |constant: &&Constant| constant.value == value && constant.name.starts_with(beginning);
    call::CONSTANTS
        .iter()
        .chain(status::CONSTANTS)
        .find(known)
        .map_or(UNKNOWN, |constant| &constant.name[beginning.len()..])
}

/// Prints a line for each call, side and error that was seen.
pub fn print() {
    for (number, seen) in SEEN.iter().enumerate() {
        for side in [Side::Call, Side::Send, Side::Receive] {
            for error in
                ERRORS.into_iter().filter(|error| seen.load(Relaxed) & bit(Failure { side, error: *error }) != 0)
            {
                let call = match number as u64 {
                    ANSWER => "OBJECT",
                    number if number > CALL_TASK_NEW => UNKNOWN,
                    number => name("CALL_", number),
                };
                println!("error {call} {} {}", name("SIDE_", side as u64), name("ERROR_", error as u64));
            }
        }
    }
}
