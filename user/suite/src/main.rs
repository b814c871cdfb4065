// SPDX-License-Identifier: BSD-2-Clause
//! The µ-kernel's test suite: a native task with task numbers of its own. It prints a line for each
//! case and shuts the machine down with the result.
//!
//! `args only=TOPIC` runs one topic, `args seed=NUMBER` sets the random seed. `args end=NUMBER`
//! runs nothing and requests this shutdown code. `args attacks=NUMBER` is the number of random
//! accesses of small tasks in the topic small-random, whose cases share it.

#![no_std]
#![no_main]

mod alien;
mod case;
mod errors;
mod family;
mod pool;
mod post;
mod runner;
mod small;
mod small_code;
mod threads;
mod topics;

use keel_l4::call::Failure;
use keel_l4::kip::kip;
use keel_l4::program::Program;
use keel_l4::protocol::boot::{SHUTDOWN_TESTS_FAILED, SHUTDOWN_TESTS_PASSED};
use keel_l4::{kernel_object, println, root, thread, utcb};
use runner::{run_topic, Score};
use threads::{Spawn, PAGER};

keel_l4::program!(main, errors::note);

fn main(program: Program) -> Result<(), Failure> {
    if let Some(code) = program.option("end").and_then(|word| word.parse().ok()) {
        return root::shut_down(code);
    }
    let priority = program.record.priority;
    pool::set_tasks(program.numbers.clone());
    threads::i_am_the_runner();
    threads::set_base_priority(priority);
    threads::touch_image();
    prepare(priority)?;
    let only = program.option("only");
    pool::set_seed(program.option("seed").and_then(|word| word.parse().ok()).unwrap_or(0));
    pool::set_attacks(program.option("attacks").and_then(|word| word.parse().ok()));
    let mut score = Score::default();
    if kip().processors == 1 {
        println!("suite: one processor: of topic processors runs only what needs no second one");
    }
    for (topic, cases) in topics::ALL {
        if only.is_none_or(|name| name == *topic) {
            run_topic(topic, topics::runnable(topic, cases), &mut score);
        }
    }
    if only.is_none() {
        errors::print();
    }
    println!("{} passed, {} failed", score.passed, score.failed);
    let passed = score.failed == 0 && score.passed > 0;
    root::shut_down(if passed { SHUTDOWN_TESTS_PASSED } else { SHUTDOWN_TESTS_FAILED })
}

/// Starts the pager of child tasks, sets the priorities, buys the frames.
fn prepare(priority: u64) -> Result<(), Failure> {
    let pager = Spawn { number: PAGER, stack: pool::pager_stack(), ..Spawn::new(threads::pager, 0) }.start()?;
    thread::set_priority(pager, priority + 1)?;
    thread::set_priority(utcb::my_id(), priority + 2)?;
    kernel_object::buy_frames(0, pool::FRAME_PAGES)
}
