// SPDX-License-Identifier: BSD-2-Clause
//! The cost of the µ-kernel's mechanisms in instructions. This native task prints a line for each
//! figure and shuts the machine down. With `args load` it puts the kernel under load instead, with
//! `args paper` it repeats two tables of a paper, and with `args growth` it measures with a growing
//! number of objects; `args small` has a figure about small address spaces. The measurements need
//! the deterministic clock (QEMU's `-icount shift=0,sleep=off`), where the time-stamp counter
//! counts executed instructions as long as the processor is not idle. A watcher of the lowest
//! priority detects idling.

#![no_std]
#![no_main]

mod clock;
mod groups;
mod growth;
mod load;
mod paper;
mod partner;
mod rows;
mod sample;
mod small;

use keel_l4::call::Failure;
use keel_l4::ipc::{call, Message};
use keel_l4::protocol::boot::{ROOT_SHUTDOWN, SHUTDOWN_TESTS_FAILED, SHUTDOWN_TESTS_PASSED};
use keel_l4::{println, record, start, thread, Id};
use partner::{Partner, Space};

keel_l4::entry!(main);

/// Below all that is measured.
const WATCHER_PRIORITY: u64 = 1;

extern "C" fn main(argument: u64) -> ! {
    // SAFETY: the root task started this program with the address of its record.
    let Some(record) = (unsafe { record::at(argument) }) else {
        println!("bench: there is no start record");
        start::stop();
    };
    let line = record::command_line(record);
    let measured = partner::prepare(record).and_then(|()| match line.split_whitespace().next() {
        Some("load") => load::run(record),
        Some("growth") => watched(|| growth::measure(line, record)),
        Some("small") => watched(|| small::measure(line, record)),
        Some("paper") => watched(|| paper::measure(line, record)),
        _ => watched(measure),
    });
    if let Err(failure) = measured {
        println!("bench: {failure:?}");
    }
    let good = measured.is_ok() && sample::all_good();
    let answer = call(
        Id::ROOT,
        Message::new(ROOT_SHUTDOWN as u32, &[if good { SHUTDOWN_TESTS_PASSED } else { SHUTDOWN_TESTS_FAILED }]),
    );
    println!("bench: the root task does not end the machine: {answer:?}");
    start::stop()
}

fn watched(measure: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let watcher = Partner::start(Space::Same, sample::watch, 0)?;
    thread::set_priority(watcher.id, WATCHER_PRIORITY)?;
    measure()
}

fn measure() -> Result<(), Failure> {
    rows::ipc::measure()?;
    rows::memory::measure()?;
    rows::events::measure()?;
    rows::alien::measure()?;
    rows::objects::measure()?;
    rows::services::measure()?;
    rows::small::measure()?;
    rows::ipc::measure_with_fpu()
}
