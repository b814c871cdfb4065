// SPDX-License-Identifier: BSD-2-Clause
//! Runs the cases one by one in a worker thread, so that a case that hangs or crashes fails alone.
//! Removes what each case leaves.

use crate::case::{Case, Fault, Outcome};
use crate::pool;
use crate::threads::{base_priority, own, remove, remove_task, Spawn, FIRST_HELPER, LAST_HELPER, RUNNER, WORKER};
use core::cell::UnsafeCell;
use keel_l4::abi::call::{KIND_USER, TAG_REDIRECTED, UNMAP_FLUSH, UNMAP_RIGHTS};
use keel_l4::abi::fpage::{FPAGE_RWX, HALF_SHIFT};
use keel_l4::abi::memory::EX_DELETE;
use keel_l4::call::Failure;
use keel_l4::ipc::{receive, send, send_as_and_wait, wait, Message, Received, Timeout};
use keel_l4::kip::now;
use keel_l4::{mapping, println, thread, utcb, Fpage, Id, Side, Tag};

/// The most nanoseconds that a case may take. A machine within a machine on a busy host takes a
/// hundred times as long as usual.
const PATIENCE: u64 = 60_000_000_000;
/// After this many nanoseconds a case is reported as slow.
const SLOW: u64 = 5_000_000_000;

/// Passed between runner and worker: the case to run, then its outcome. Messages order their
/// accesses.
struct Desk(UnsafeCell<(Option<Case>, Outcome)>);

// SAFETY: the runner writes before it sends to the worker, the worker before it answers.
unsafe impl Sync for Desk {}

static DESK: Desk = Desk(UnsafeCell::new((None, Ok(()))));

/// Numbers of cases.
#[derive(Clone, Copy, Default)]
pub struct Score {
    /// Cases that passed.
    pub passed: u32,
    /// Cases that failed.
    pub failed: u32,
}

extern "C" fn worker(_: u64) -> ! {
    loop {
        if receive(own(RUNNER), Timeout::Never).is_err() {
            continue;
        }
        // SAFETY: it is the worker's turn; see `Desk`.
        let desk = unsafe { &mut *DESK.0.get() };
        if let Some((_, run)) = desk.0 {
            desk.1 = run();
        }
        // The runner waits; if it gave up, it deletes this thread.
        let _ = send(own(RUNNER), Message::label(0), Timeout::Never);
    }
}

/// Runs every case of a topic and prints the results.
pub fn run_topic(topic: &str, cases: &[Case], score: &mut Score) {
    for case in cases {
        let began = now();
        let outcome = run(*case);
        let took = now() - began;
        if took > SLOW {
            println!("slow {topic}/{}: {} ms", case.0, took / 1_000_000);
        }
        match outcome {
            Ok(()) => {
                score.passed += 1;
                println!("ok {topic}/{}", case.0);
            }
            Err(fault) => {
                score.failed += 1;
                println!("FAIL {topic}/{}: {}", case.0, fault.text());
            }
        }
        clear();
    }
}

fn run(case: Case) -> Outcome {
    pool::reset();
    let worker = Spawn { number: WORKER, ..Spawn::new(worker, 0) }.start()?;
    thread::set_priority(worker, base_priority())?;
    // SAFETY: the worker is new and waits for a message first.
    unsafe { *DESK.0.get() = (Some(case), Ok(())) };
    let result = send(worker, Message::label(0), Timeout::Never).map_err(Fault::from).and_then(|()| judge(worker));
    let _ = remove(worker);
    result
}

/// Waits for the worker's answer, an exception, or the timeout.
fn judge(worker: Id) -> Outcome {
    let deadline = now() + PATIENCE;
    let mut next = wait(Timeout::At(deadline));
    loop {
        next = match next {
            Ok(received) if received.tag.has(TAG_REDIRECTED) => {
                forward_and_wait(&received, Timeout::Zero, Timeout::At(deadline))
            }
            Ok(received) if received.from == worker && received.tag.kind() == KIND_USER => {
                // SAFETY: the worker has answered and waits.
                return unsafe { (*DESK.0.get()).1 };
            }
            Ok(received) => {
                return Err(Fault::new(format_args!(
                    "expected no exception, got vector {} at ip {:#x} in {:?}",
                    received.tag.label(),
                    received.words[1],
                    received.from
                )));
            }
            Err(Failure { side: Side::Receive, error: keel_l4::Error::Timeout }) => {
                return Err(Fault::new(format_args!(
                    "expected an end, got none within {} s",
                    PATIENCE / 1_000_000_000
                )));
            }
            // The destination of the forwarded message did not wait for it.
            Err(_) => wait(Timeout::At(deadline)),
        }
    }
}

/// Forwards a message that leaves or enters the suite's clan, whose chief is the runner's task, and
/// waits. Faults are not forwarded: their threads wait until they are removed.
pub fn forward_and_wait(received: &Received, send: Timeout, receive: Timeout) -> Result<Received, Failure> {
    if received.tag.kind() != KIND_USER {
        return wait(receive);
    }
    let message = Message { tag: Tag::new(received.tag.label(), received.tag.words()), words: received.words };
    // In one step with the wait, because the answer may come before this thread runs again.
    send_as_and_wait(received.from, utcb::destination(), message, send, receive)
}

/// Removes the threads, tasks and mappings that a case left.
fn clear() {
    for number in FIRST_HELPER..LAST_HELPER {
        let _ = thread::act(thread::lthread(utcb::my_id(), number), EX_DELETE);
    }
    for number in pool::used_tasks() {
        let _ = remove_task(number);
    }
    let window = Fpage::memory(pool::WINDOW, pool::WINDOW_LOG2, FPAGE_RWX);
    // What the root task has mapped in the upper half comes back when it is needed.
    let upper = Fpage::memory(!0 << HALF_SHIFT, HALF_SHIFT as u8, FPAGE_RWX);
    for fpage in [window, upper] {
        let _ = mapping::unmap(fpage, UNMAP_RIGHTS | UNMAP_FLUSH);
    }
}
