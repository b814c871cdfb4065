// SPDX-License-Identifier: BSD-2-Clause
//! The native task beside a server that fails again and again: it beats, hears of each of its lives, and judges.

use crate::judge::{Options, Verdict, NANOSECONDS_PER_MICROSECOND};
use keel_l4::abi::boot::Start;
use keel_l4::abi::call::{KIND_INTERRUPT, KIND_USER};
use keel_l4::abi::ids::TASK_FIRST_FREE;
use keel_l4::call::Failure;
use keel_l4::info::now;
use keel_l4::ipc::{wait, Timeout};
use keel_l4::timer::Timer;
use keel_l4::{println, record, Id};

/// The label of the message by which the server says that it begins.
pub const ALIVE: u32 = 1;
/// Nanoseconds between two beats.
const INTERVAL: u64 = 5_000_000;

/// The witness's thread, as a neighbour of the thread `me` knows it: the first task of the boot configuration, which is never started anew.
pub const fn id(me: Id) -> Id {
    Id::thread(1, TASK_FIRST_FREE as u32, 0, me.nesting())
}

/// Beats until the server began so often or the time is over; how many cases failed.
pub fn run(record: &Start) -> Result<u32, Failure> {
    let options = Options::read(record::command_line(record));
    let (timer, began) = (Timer::claim()?, now());
    let mut deadline = began + INTERVAL;
    let (mut beats, mut worst, mut lives) = (0u64, 0, 0);
    timer.set(Some(deadline))?;
    while lives < options.calls && now() - began < options.limit {
        let Ok(received) = wait(Timeout::Never) else { continue };
        if received.tag.kind() == KIND_INTERRUPT && received.from == timer.id() {
            worst = worst.max(now().saturating_sub(deadline));
            beats += 1;
            // A beat that was missed altogether is not made up for.
            deadline += (now().saturating_sub(deadline) / INTERVAL + 1) * INTERVAL;
            timer.set(Some(deadline))?;
        } else if received.tag.kind() == KIND_USER && received.tag.label() == ALIVE {
            lives += 1;
        }
    }
    println!("witness: {lives} lives, {beats} beats, the latest {} us late", worst / NANOSECONDS_PER_MICROSECOND);
    let mut verdict = Verdict::default();
    verdict.case("started-anew", lives >= options.calls, format_args!("{} lives", options.calls));
    verdict.case("witness-in-time", worst <= options.late, format_args!("at most {} ns, got {worst}", options.late));
    println!("{} passed, {} failed", verdict.passed, verdict.failed);
    Ok(verdict.failed)
}
