// SPDX-License-Identifier: BSD-2-Clause
//! A scheduler in user mode. Threads that reserved a part of each period run before all others, and
//! not longer. The kernel has only priorities and time slices. It sends the thread's preempter, the
//! scheduler, a message when a slice ends.

#![no_std]
#![no_main]

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_examples::reserves::Reserves;
use keel_l4::abi::call::{SCHEDULE_PREEMPTER, SCHEDULE_SLICE};
use keel_l4::call::Failure;
use keel_l4::clan::Clan;
use keel_l4::ipc::{sleep, Message, Received};
use keel_l4::kip::now;
use keel_l4::message::{ask, reply};
use keel_l4::preempter::Preemption;
use keel_l4::program::Program;
use keel_l4::server::{self, answer_later, Server};
use keel_l4::start::Stack;
use keel_l4::thread::{schedule, set_preempter, set_priority, set_schedule, spawn};
use keel_l4::timer::Timer;
use keel_l4::{println, requests, utcb, Error, Id};

keel_l4::program!(main);

const MILLISECOND: u64 = 1_000_000;
/// The most reservations.
const RESERVES: usize = 8;
/// The priority of threads without a reservation, and of the one with the lowest priority among
/// those with one. The children are created with the former as their maximum, so they cannot change
/// the schedule of threads that the scheduler raised above it.
const ORDINARY: u64 = 50;
const REAL_TIME: u64 = 60;

requests! {
    /// The services of the scheduler.
    enum Request {
        /// Reserves `budget` nanoseconds of each `period` for `thread`, before all others.
        Reserve { thread: Id, budget: u64, period: u64 } = 1,
        /// Answers the nanoseconds that `thread` has used.
        Used { thread: Id } = 2,
    }
}

struct Scheduler {
    timer: Timer,
    reserves: Reserves<RESERVES>,
}

impl Server for Scheduler {
    type Request = Request;

    fn request(&mut self, request: Request, _client: &Received) -> Option<Message> {
        Some(match request {
            Request::Reserve { thread, budget, period } => reply(self.reserve(thread, budget, period)),
            Request::Used { thread } => {
                reply(schedule(thread, 0, 0, 0).map(|state| state.consumed).map_err(|failure| failure.error))
            }
        })
    }

    fn preempted(&mut self, preemption: &Preemption) -> Option<Message> {
        // The answer lets it resume: now, or when its next period begins.
        (!self.reserves.spend(preemption.thread, preemption.time)).then_some(Message::label(0))
    }

    fn interrupt(&mut self, _timer: Id, _time: u64) {
        while let Some(turn) = self.reserves.begin(now()) {
            // A thread that no longer exists needs nothing.
            let _ = schedule(turn.thread, SCHEDULE_SLICE, 0, turn.budget);
            if turn.waits {
                answer_later(turn.thread, Message::label(0));
            }
        }
        // There is a timer, so setting it cannot fail.
        let _ = self.timer.set(self.reserves.next());
    }
}

impl Scheduler {
    fn reserve(&mut self, thread: Id, budget: u64, period: u64) -> Result<(), Error> {
        self.reserves.add(thread, budget, period, now())?;
        self.apply(thread, budget).map_err(|failure| failure.error)
    }

    fn apply(&self, thread: Id, budget: u64) -> Result<(), Failure> {
        for (priority, thread) in (REAL_TIME..).zip(self.reserves.threads()) {
            set_priority(thread, priority)?;
        }
        set_schedule(thread, SCHEDULE_SLICE | SCHEDULE_PREEMPTER, 0, [budget, utcb::my_id().0, 0])?;
        self.timer.set(self.reserves.next())
    }
}

static STACK: Stack<{ 16 << 10 }> = Stack::new();

extern "C" fn scheduler(_: u64) -> ! {
    match Timer::claim() {
        Ok(timer) => server::run(&mut Scheduler { timer, reserves: Reserves::new() }),
        Err(failure) => panic!("no timer: {failure}"),
    }
}

/// Uses all the time that it gets.
fn greedy(_: u64) -> Result<(), Failure> {
    let mut work = 0_u64;
    loop {
        work = black_box(work.rotate_left(7) ^ 0x9e37_79b9_7f4a_7c15);
    }
}

/// Like [`greedy`], and tries to use more than it reserved.
fn film(_: u64) -> Result<(), Failure> {
    if let Err(failure) = set_preempter(utcb::my_id(), Id::NIL) {
        println!("the film takes its budget away: {failure}");
    }
    greedy(0)
}

const NAMES: [&str; 3] = ["film", "sound", "homework"];

/// Their threads; the clerk gets a copy.
static THREADS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

/// Prints how much time the others used.
fn clerk(scheduler: u64) -> Result<(), Failure> {
    const LOOK: u64 = 100 * MILLISECOND;
    let used = || -> Result<_, Failure> {
        let mut times = [0; NAMES.len()];
        for (time, thread) in times.iter_mut().zip(&THREADS) {
            *time = ask::<u64>(Id(scheduler), &Request::Used { thread: Id(thread.load(Relaxed)) })?;
        }
        Ok(times)
    };
    sleep(LOOK);
    let before = used()?;
    sleep(LOOK);
    for ((name, before), after) in NAMES.iter().zip(before).zip(used()?) {
        println!("the {name} used {} of {} ms", (after - before + MILLISECOND / 2) / MILLISECOND, LOOK / MILLISECOND);
    }
    Ok(())
}

fn main(program: Program) -> Result<(), Failure> {
    let me = utcb::my_id();
    let highest = schedule(me, 0, 0, 0)?.priority;
    let scheduler = spawn(&STACK, scheduler, 0)?;
    let mut clan = Clan::new(program);
    set_priority(me, ORDINARY)?;
    for (name, thread) in NAMES.iter().zip(&THREADS) {
        thread.store(clan.start_server(name, if *name == "film" { film } else { greedy }, 0)?.0, Relaxed);
    }
    let clerk = clan.start("clerk", clerk, scheduler.0)?;
    set_priority(me, highest)?;
    set_priority(clerk, highest - 1)?;
    for (child, budget, period) in [(0, 3, 10), (1, 1, 4), (2, 5, 20)] {
        let thread = Id(THREADS[child].load(Relaxed));
        let (budget_ns, period_ns) = (budget * MILLISECOND, period * MILLISECOND);
        let outcome: Result<(), Failure> =
            ask(scheduler, &Request::Reserve { thread, budget: budget_ns, period: period_ns });
        match outcome {
            Ok(()) => println!("the {} may use {budget} ms of each {period}", NAMES[child]),
            Err(failure) => println!("the {} asks for {budget} ms of each {period}: {failure}", NAMES[child]),
        }
    }
    clan.run()
}
