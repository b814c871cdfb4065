// SPDX-License-Identifier: BSD-2-Clause
//! The innocent clan: a task with a heartbeat on each processor, and a task of its clan that
//! answers them. Each beat checks that everything is unchanged. The leader only maps the shared
//! pages for the answering task: page faults of its clan go to the leader, its own to the pager.

use crate::pager;
use crate::places::*;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{FPAGE_EXEC, FPAGE_READ, FPAGE_WRITE, PAGE_SIZE};
use keel_l4::abi::ids::LTHREAD_TASK;
use keel_l4::abi::memory::AREA_DEFAULT;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send_and_wait, send_as_and_wait, wait, Message, Received, Timeout};
use keel_l4::kip::{kip, now};
use keel_l4::pager::Fault;
use keel_l4::task::{self, NewTask};
use keel_l4::thread::{self, Main, NewThread};
use keel_l4::{kernel_object, utcb, Id};

/// Nanoseconds between two beats.
pub const INTERVAL: u64 = 5_000_000;
/// Pages of kernel memory of the answering task.
const QUOTA: u64 = 16;
/// Stack of the answering task. The leader has the first; the beats have those between.
const ANSWERER_STACK: u64 = STACKS - 1;
/// Beats of each processor after which nothing is accessed for the first time any more.
const SETTLED: u64 = 8;
/// Reasons in `Ledger::wrong`.
const NOT_STARTED: u64 = 1;
const NO_TIMER: u64 = 2;
const NO_ANSWER: u64 = 3;
const WRONG_ANSWER: u64 = 4;
const MEMORY_CHANGED: u64 = 5;
const ACCOUNT_CHANGED: u64 = 6;

/// Processors with a beat. Two stacks belong to the leader and the answering task.
pub fn beats() -> u64 {
    kip().processors.min(STACKS - 2)
}

/// The leader. `argument` is the highest priority that it may have.
pub extern "C" fn run(argument: u64) -> ! {
    // Accesses everything before accounts are compared, so that no disturbance by others causes a
    // first access later.
    for page in
        [pager::image(), DEN..DEN + DEN_PAGES * PAGE_SIZE].into_iter().flat_map(|part| part.step_by(PAGE_SIZE as usize))
    {
        // SAFETY: a byte of the image or the den.
        unsafe { (page as *const u8).read_volatile() };
    }
    if let Err(code) = start(argument) {
        wrong(code);
    }
    serve_clan()
}

/// Serves the page faults of the answering task and of no other sender; the attackers may send
/// anything.
fn serve_clan() -> ! {
    let child = Id(own_ledger().children[0].load(Relaxed)).task();
    let mut next = wait(Timeout::Never);
    loop {
        let of_child = |received: &Received| received.tag.kind() == KIND_PAGE_FAULT && received.from.task() == child;
        next = match next.ok().filter(of_child) {
            Some(fault) => send_as_and_wait(
                utcb::destination(),
                fault.from,
                mirror(&Fault::of(&fault)),
                Timeout::Zero,
                Timeout::Never,
            ),
            None => wait(Timeout::Never),
        };
    }
}

/// The answer that maps the leader's page at the same address.
fn mirror(fault: &Fault) -> Message {
    // SAFETY: the address is in the image or the den, because the answering task accesses nothing
    // else. The value of the byte does not change, whatever other threads do to it meanwhile.
    let byte = unsafe { &*(fault.address as *const AtomicU8) };
    let value = byte.load(Relaxed);
    if fault.access != FPAGE_WRITE {
        return fault.map(fault.page(), FPAGE_READ | FPAGE_EXEC);
    }
    // This writes whether the value is still the same or not; the compiler cannot remove it.
    let _ = byte.compare_exchange(value, value, Relaxed, Relaxed);
    fault.map(fault.page(), FPAGE_READ | FPAGE_WRITE)
}

/// Maps the whole image. Later no other thread can cause further page faults of the leader, which
/// would change its account.
fn touch_image() {
    for page in pager::image().step_by(PAGE_SIZE as usize) {
        // SAFETY: every task may read the image's bytes.
        core::hint::black_box(unsafe { (page as *const u8).read_volatile() });
    }
}

fn wrong(code: u64) {
    own_ledger().wrong.store(code, Relaxed);
}

/// Starts the answering task and the beats.
fn start(priority: u64) -> Result<(), u64> {
    touch_image();
    let pager = Id(PAGER.load(Relaxed));
    let number = utcb::my_id().task() + 1;
    let plan = NewTask {
        number,
        max_priority: priority,
        ip: answerer as Main as usize as u64,
        sp: stack(ANSWERER_STACK),
        pager: pager.0,
        quota: QUOTA,
        area: AREA_DEFAULT,
        argument: 0,
        upper_half: false,
        supervisor: false,
        resident: false,
    };
    let task = task::create(&plan).map_err(|_| NOT_STARTED)?;
    own_ledger().children[0].store(task.0, Relaxed);
    for processor in 0..beats() {
        start_beat(processor, pager).map_err(|_| NOT_STARTED)?;
    }
    Ok(())
}

fn start_beat(processor: u64, pager: Id) -> Result<(), Failure> {
    let plan = NewThread {
        task: utcb::my_id(),
        number: LTHREAD_TASK as u16,
        ip: beat as Main as usize as u64,
        sp: stack(1 + processor),
        pager,
        handler: pager,
        argument: processor,
    };
    thread::set_processor(plan.start()?, processor)
}

/// Adds one to each number that it receives.
extern "C" fn answerer(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(received) => {
                let answer = Message::new(0, &[received.words[0].wrapping_add(1)]);
                send_and_wait(received.from, answer, Timeout::Zero, Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

/// The words of an account that no other task can change.
fn account() -> Option<[u64; ACCOUNT_POOL_FREE as usize]> {
    let words = kernel_object::account(Id::NIL).ok()?;
    Some(core::array::from_fn(|word| words[word]))
}

/// Beats without end on a processor.
extern "C" fn beat(processor: u64) -> ! {
    let ledger = own_ledger();
    let answerer = thread::first_of(Id(ledger.children[0].load(Relaxed)));
    let timer = kernel_object::claim_timer().unwrap_or_else(|_| {
        wrong(NO_TIMER);
        Id::NIL
    });
    let mut pattern = [0u64; 64];
    let mut before = None;
    let mut deadline = now() + INTERVAL;
    for count in 1u64.. {
        if kernel_object::set_timer(timer, deadline).and_then(|()| receive(timer, Timeout::Never)).is_err() {
            wrong(NO_TIMER);
        }
        let late = now().saturating_sub(deadline);
        ledger.late[processor as usize].fetch_max(late, Relaxed);
        ledger.beats[processor as usize].store(count, Relaxed);
        match call(answerer, Message::new(0, &[count])) {
            Ok(answer) if answer.words[0] == count + 1 => {}
            Ok(_) => wrong(WRONG_ANSWER),
            Err(_) => wrong(NO_ANSWER),
        }
        if core::hint::black_box(&pattern).iter().any(|word| *word != count - 1) {
            wrong(MEMORY_CHANGED);
        }
        pattern = core::hint::black_box([count; 64]);
        let settled = ledger.beats.iter().take(beats() as usize).all(|beats| beats.load(Relaxed) >= SETTLED);
        match before {
            None if settled => before = account(),
            Some(_) if account() != before => wrong(ACCOUNT_CHANGED),
            _ => {}
        }
        // A missed beat is not made up for; otherwise a machine that is too slow for the beats
        // would do nothing else.
        deadline += (now().saturating_sub(deadline) / INTERVAL + 1) * INTERVAL;
    }
    unreachable!("a count of beats has an end")
}
