// SPDX-License-Identifier: BSD-2-Clause
//! Beats while the loads run, prints how late the latest beat of each load was, and judges.

use crate::number;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::ids::TASK_FIRST_FREE;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, wait, Message, Received, Timeout};
use keel_l4::kip::{kip, now};
use keel_l4::program::Program;
use keel_l4::protocol::boot::{SHUTDOWN_TESTS_FAILED, SHUTDOWN_TESTS_PASSED};
use keel_l4::start::Stack;
use keel_l4::thread::{self, park};
use keel_l4::timer::Timer;
use keel_l4::{println, root, utcb, Id};

/// Nanoseconds between two beats.
const INTERVAL: u64 = 100_000;
const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;
const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;
/// The longest wait for a load in nanoseconds.
const LIMIT: u64 = 20_000_000_000;
/// How often the server fails.
const RESTARTS: u64 = 3;

/// Labels of messages: a load begins, with its number in `LOADS` and its mappings; it ends; there
/// are no more loads.
const BEGINS: u32 = 1;
const ENDS: u32 = 2;
const DONE: u32 = 3;

/// The loads, by number.
pub const LOADS: [&str; 11] = [
    "state-of-a-chain",
    "ranges-of-a-chain",
    "ranges-without-a-chain",
    "state-of-a-page",
    "rights-of-leaves",
    "taking-a-chain",
    "taking-a-deep-tree",
    "taking-a-wide-tree",
    "deleting-a-chain",
    "restart-with-a-chain",
    "restart-in-a-crowd",
];

static STACK: Stack<{ 16 << 10 }> = Stack::new();
/// The most nanoseconds that a beat of the present load was late.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// The first thread of a task of the boot configuration that was not restarted yet.
fn first_of(task: u64) -> Id {
    Id::thread(1, (TASK_FIRST_FREE + task) as u32, 0, utcb::my_id().nesting())
}

/// The number of a load.
fn number_of(load: &str) -> u64 {
    LOADS.iter().position(|name| *name == load).unwrap_or(LOADS.len()) as u64
}

fn report(label: u32, words: &[u64]) -> Result<(), Failure> {
    call(first_of(0), Message::new(label, words)).map(|_| ())
}

/// Reports that a load begins, with the number of its mappings.
pub fn begins(load: &str, mappings: u64) -> Result<(), Failure> {
    report(BEGINS, &[number_of(load), mappings])
}

/// Reports that a load has ended.
pub fn ends(load: &str) -> Result<(), Failure> {
    report(ENDS, &[number_of(load)])
}

/// Reports that there are no more loads.
pub fn done() -> Result<(), Failure> {
    report(DONE, &[])
}

struct Watch {
    /// Nanoseconds: how late a beat may be, and how long a restart may take.
    late: u64,
    within: u64,
    /// When the present load began, and its mappings.
    began: Option<(u64, u64)>,
    failed: u32,
    passed: u32,
}

impl Watch {
    fn case(&mut self, load: &str, what: &str, got: u64, most: u64) {
        if got <= most {
            self.passed += 1;
            println!("ok unmaps/{load}-{what}");
        } else {
            self.failed += 1;
            println!("FAIL unmaps/{load}-{what}: expected at most {most} ns, got {got}");
        }
    }

    /// Handles a report. Returns whether a load has ended.
    fn report_from(&mut self, got: &Received) -> bool {
        let load = LOADS.get(got.words[0] as usize).copied().unwrap_or("?");
        match (got.tag.label(), self.began.take()) {
            (BEGINS, _) => {
                LATEST.store(0, Relaxed);
                self.began = Some((now(), got.words[1]));
            }
            (ENDS, Some((began, mappings))) => {
                let (took, latest) = (now() - began, LATEST.load(Relaxed));
                println!(
                    "unmaps: {load}: {mappings} mappings, {} us, the latest beat {} us late",
                    took / NANOSECONDS_PER_MICROSECOND,
                    latest / NANOSECONDS_PER_MICROSECOND
                );
                self.case(load, "in-time", latest, self.late);
                if load.starts_with("restart") {
                    self.case(load, "before-long", took, self.within);
                }
                return true;
            }
            _ => {}
        }
        false
    }
}

/// Judges the loads, and shuts the machine down.
pub fn run(program: &Program) -> Result<(), Failure> {
    let failed = judge(program).unwrap_or_else(|failure| {
        println!("FAIL unmaps/end: {failure}");
        println!("0 passed, 1 failed");
        1
    });
    root::shut_down(if failed == 0 { SHUTDOWN_TESTS_PASSED } else { SHUTDOWN_TESTS_FAILED })
}

/// Receives the reports of all loads, then lets the server fail. Returns the number of failed
/// cases.
fn judge(program: &Program) -> Result<u32, Failure> {
    let late = number(program, "late-us", 1_000) * NANOSECONDS_PER_MICROSECOND;
    let within = number(program, "within-ms", 1_000) * NANOSECONDS_PER_MILLISECOND;
    let mut watch = Watch { late, within, began: None, failed: 0, passed: 0 };
    println!("unmaps: {} processors", kip().processors);
    let beating = thread::spawn(&STACK, beat, 0)?;
    thread::set_priority(beating, program.record.priority + 1)?;
    loop {
        // The server's message waits until the loads have ended.
        let got = receive(first_of(1), Timeout::After(LIMIT))?;
        watch.report_from(&got);
        send(got.from, Message::label(0), Timeout::Zero)?;
        if got.tag.label() == DONE {
            break;
        }
    }
    let mut restarts = 0;
    while restarts < RESTARTS {
        let got = wait(Timeout::After(LIMIT))?;
        restarts += u64::from(watch.report_from(&got));
        send(got.from, Message::label(0), Timeout::Zero)?;
    }
    println!("{} passed, {} failed", watch.passed, watch.failed);
    Ok(watch.failed)
}

/// Beats without end.
extern "C" fn beat(_: u64) -> ! {
    let failure = try_beat();
    println!("unmaps: no more beats: {failure:?}");
    park()
}

fn try_beat() -> Result<(), Failure> {
    let timer = Timer::claim()?;
    let mut deadline = now() + INTERVAL;
    loop {
        timer.wait_until(deadline)?;
        let late = now().saturating_sub(deadline);
        LATEST.fetch_max(late, Relaxed);
        // A missed beat is not made up for.
        deadline += (late / INTERVAL + 1) * INTERVAL;
    }
}
