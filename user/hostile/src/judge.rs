// SPDX-License-Identifier: BSD-2-Clause
//! The judge: starts all gangs, watches them, ends the attack, and checks the state of the kernel.

use crate::innocent::{self, INTERVAL};
use crate::pager::{self, ARENAS, DENS};
use crate::places::*;
use crate::random::Random;
use crate::{attack, rogue};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::ids::ID_CHECK;
use keel_l4::abi::memory::{AREA_DEFAULT, EX_START};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, sleep, Message};
use keel_l4::kip::{kip, now};
use keel_l4::protocol::boot::Start;
use keel_l4::start::Stack;
use keel_l4::task::{self, NewTask};
use keel_l4::thread::{self, Main, NewThread};
use keel_l4::{kernel_object, println, record, sigma0, utcb, Error, Fpage, Id};

/// Nanoseconds between two checks of the gangs.
const LOOK: u64 = 4_000_000;
/// Checks without a call after which a gang is restarted.
const PATIENCE: u32 = 8;
/// One of this many checks restarts a gang although it makes calls.
const RAID: u64 = 40;
/// The least nanoseconds that a call takes. A ledger with more calls was overwritten.
pub const LEAST_CALL: u64 = 100;
/// Progress is printed after each of this many parts of the calls.
const TOLD: u64 = 10;
/// At least one fault of a random program is required for this many calls.
const CALLS_PER_FAULT: u64 = 100;
/// Pages of kernel memory of a gang.
const QUOTA: u64 = 96;
/// Lthreads with which an attacker starts.
const FIRST_LTHREADS: u64 = 3;
const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;
pub const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;
pub const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;

/// Options of the command line.
pub struct Options {
    /// System calls to make, or lives of a server.
    pub calls: u64,
    /// The random seed.
    pub seed: u64,
    /// The most nanoseconds that a beat may be late.
    pub late: u64,
    /// The most nanoseconds that the run may take.
    pub limit: u64,
    /// Whether the kernel can check its invariants and should do so.
    pub checks: bool,
}

impl Options {
    /// Parses a command line.
    pub fn read(line: &str) -> Options {
        let number = |key, default| record::option(line, key).and_then(|word| word.parse().ok()).unwrap_or(default);
        Options {
            calls: number("calls", 100_000),
            seed: number("seed", 1),
            late: number("late-us", 1_000_000) * NANOSECONDS_PER_MICROSECOND,
            limit: number("limit-s", 240) * NANOSECONDS_PER_SECOND,
            checks: number("checks", 0) > 0,
        }
    }
}

/// The judge's view of a gang.
#[derive(Clone, Copy)]
struct Gang {
    index: usize,
    first: u32,
    /// The values in its ledger at the last check.
    calls: [u64; STACKS as usize],
    rare: [u64; 2],
    idle: u32,
}

static PAGER_STACK: Stack<{ 16 << 10 }> = Stack::new();

/// Runs the whole test. Returns the number of failed cases.
pub fn run(record: &Start) -> Result<u32, Failure> {
    let options = Options::read(record::command_line(record));
    println!("hostile: {} processors, calls={} seed={}", kip().processors, options.calls, options.seed);
    prepare(record)?;
    let mut verdict = Verdict::default();
    let (before, image) = (kernel_object::account(Id::NIL)?, image_sum());
    let mut gangs: [Gang; GANGS] =
        core::array::from_fn(|index| Gang::new(index, record.task_first as u32 + index as u32 * MEMBERS));
    let began = now();
    gangs[INNOCENT].start(innocent::run, record.priority + 2, record.priority + 2)?;
    gangs[WARDEN].start(rogue::run, options.seed, record.priority + 1)?;
    let count = attack(&mut gangs, &options, record.priority)?;
    println!(
        "hostile: {} calls, {} faults, {} gangs restarted in {} ms",
        count.calls,
        count.faults,
        count.restarts,
        (now() - began) / NANOSECONDS_PER_MILLISECOND
    );
    tell_faults();
    let [windows, moves] = count.rare;
    println!("hostile: threads with windows {windows} moved tables {moves}");
    let has_windows = thread::set_reach(utcb::my_id(), SMALL_ALL, Id::NIL) != Err(Failure::call(Error::NotSupported));
    let all = moves > 0 && (windows > 0 || !has_windows);
    verdict.case("windows-and-moves", all, format_args!("some of each, got {windows} and {moves}"));
    verdict.case("calls-made", count.calls >= options.calls, format_args!("{} calls", options.calls));
    verdict.case(
        "faults-taken",
        count.faults >= options.calls / CALLS_PER_FAULT,
        format_args!("one for {CALLS_PER_FAULT} calls"),
    );
    if options.checks {
        let all = violations().and_then(|more| Some(more + count.violations?));
        verdict.case("invariants-hold", all == Some(0), format_args!("no violation, got {all:?}"));
    }
    judge_innocents(&mut verdict, began, options.late);
    for gang in gangs {
        task::delete(gang.first, thread::task_of(utcb::my_id()))?;
    }
    let after = kernel_object::account(Id::NIL)?;
    verdict.case("account-as-before", before == after, format_args!("{before:?}, got {after:?}"));
    verdict.case("image-as-before", image == image_sum(), format_args!("the same bytes"));
    verdict.case("tasks-can-be-made", tasks_work(&mut gangs[0]), format_args!("every number to work"));
    println!("{} passed, {} failed", verdict.passed, verdict.failed);
    Ok(verdict.failed)
}

/// Numbers of cases that passed and failed.
#[derive(Default)]
pub struct Verdict {
    pub passed: u32,
    pub failed: u32,
}

impl Verdict {
    /// Prints the result of a case and counts it.
    pub fn case(&mut self, name: &str, passed: bool, expected: core::fmt::Arguments<'_>) {
        if passed {
            self.passed += 1;
            println!("ok hostile/{name}");
        } else {
            self.failed += 1;
            println!("FAIL hostile/{name}: expected {expected}");
        }
    }
}

/// Gets the memory, and starts the pager.
fn prepare(record: &Start) -> Result<(), Failure> {
    FIRST_TASK.store(record.task_first, Relaxed);
    // The dens are in the first superpage.
    for at in (DENS..ARENAS + ((ATTACKERS as u64) << ARENA_LOG2)).step_by(1 << ARENA_LOG2) {
        sigma0::any(Fpage::memory(0, ARENA_LOG2, FPAGE_RWX), Fpage::memory(at, ARENA_LOG2, FPAGE_RWX))?;
    }
    for page in pager::image().step_by(PAGE_SIZE as usize) {
        // SAFETY: a byte of the image.
        unsafe { (page as *const u8).read_volatile() };
    }
    let pager = thread::spawn(&PAGER_STACK, pager::run, 0)?;
    thread::set_priority(pager, record.priority + 1)?;
    thread::set_priority(utcb::my_id(), record.priority + 1)?;
    PAGER.store(pager.0, Relaxed);
    Ok(())
}

/// A checksum of code and constants. The statics after them belong to the judge and change.
fn image_sum() -> u64 {
    unsafe extern "C" {
        static __data_start: u8;
    }
    let end = &raw const __data_start as u64;
    let words = (pager::image().start..end).step_by(8);
    // SAFETY: words of the image.
    words.fold(0, |sum, at| sum.rotate_left(1) ^ unsafe { (at as *const u64).read_volatile() })
}

impl Gang {
    fn new(index: usize, first: u32) -> Gang {
        Gang { index, first, calls: [0; STACKS as usize], rare: [0; 2], idle: 0 }
    }

    fn ledger(&self) -> &'static Ledger {
        // SAFETY: the judge maps the dens at the start and never unmaps them.
        unsafe { ledger(pager::den(self.index)) }
    }

    /// Creates its leader, which gets the other task numbers of the gang.
    fn start(&mut self, main: Main, argument: u64, priority: u64) -> Result<Id, Failure> {
        let den = pager::den(self.index) as *mut u8;
        // SAFETY: the gang does not exist, so nothing uses the den.
        unsafe { den.write_bytes(0, (DEN_PAGES * PAGE_SIZE) as usize) };
        (self.calls, self.rare) = ([0; STACKS as usize], [0; 2]);
        let plan = NewTask {
            number: self.first,
            max_priority: priority,
            ip: main as usize as u64,
            sp: stack(0),
            pager: PAGER.load(Relaxed),
            quota: QUOTA,
            area: AREA_DEFAULT,
            argument,
            upper_half: true,
            supervisor: false,
            resident: false,
        };
        let task = task::create_empty(&plan)?;
        LEADERS[self.index].store(task.0, Relaxed);
        for (first, log2) in [(1, 0), (2, 1), (4, 2)] {
            task::hand_over(self.first + first, log2, task)?;
        }
        let leader = self.new_lthread(task, 0, main, argument)?;
        thread::set_priority(leader, priority)?;
        thread::act(leader, EX_START)?;
        Ok(task)
    }

    /// Creates a stopped lthread of the gang.
    fn new_lthread(&self, task: Id, number: u64, main: Main, argument: u64) -> Result<Id, Failure> {
        let pager = Id(PAGER.load(Relaxed));
        let plan = NewThread {
            task,
            number: number as u16,
            ip: main as usize as u64,
            sp: stack(number),
            pager,
            handler: pager,
            argument,
        };
        plan.create()
    }

    /// Starts the gang as attackers and deletes what is left of the old one.
    fn attack(&mut self, random: &mut Random, priority: u64) -> Result<(), Failure> {
        task::delete(self.first, thread::task_of(utcb::my_id()))?;
        let mut argument = |number| attack::argument(random.next() >> 16, number);
        let task = self.start(attack::run, argument(0), priority)?;
        for number in 1..FIRST_LTHREADS {
            // Other attackers may have used up the account or taken the number before.
            let _ = self.new_lthread(task, number, attack::run, argument(number)).and_then(|id| {
                thread::set_processor(id, (self.index as u64 + number) % kip().processors)?;
                thread::act(id, EX_START)
            });
        }
        Ok(())
    }

    /// Counts the calls since the last check.
    fn progress(&mut self, credible: u64, count: &mut Count) {
        let ledger = self.ledger();
        let made: u64 = ledger.calls.iter().zip(&mut self.calls).map(|(now, last)| more(now, last, credible)).sum();
        self.idle = if made == 0 { self.idle + 1 } else { 0 };
        count.calls += made;
        for ((now, last), sum) in ledger.rare.iter().zip(&mut self.rare).zip(&mut count.rare) {
            *sum += more(now, last, credible);
        }
    }
}

/// Takes what a counter has beyond its value at the last check; 0 if it was overwritten.
fn more(counter: &AtomicU64, last: &mut u64, credible: u64) -> u64 {
    let count = counter.load(Relaxed);
    let more = count.wrapping_sub(core::mem::replace(last, count));
    if more < credible {
        more
    } else {
        0
    }
}

#[derive(Default)]
struct Count {
    calls: u64,
    /// As in `Ledger::rare`.
    rare: [u64; 2],
    faults: u64,
    restarts: u64,
    /// Violations of the kernel's invariants; `None` if the kernel could not check them.
    violations: Option<u64>,
}

/// The number of violated invariants, which the kernel prints on its console. Only a debug build
/// checks them.
pub fn violations() -> Option<u64> {
    kernel_object::invoke(Id(ID_CHECK), 0, &[]).ok().map(|answer| answer.words[0])
}

/// Lets the gangs attack until enough calls are made or the time is over.
fn attack(gangs: &mut [Gang; GANGS], options: &Options, priority: u64) -> Result<Count, Failure> {
    let mut random = Random::new(options.seed);
    let mut count = Count { violations: Some(0), ..Count::default() };
    let (began, mut looked, mut told) = (now(), now(), 1);
    for gang in &mut gangs[..ATTACKERS] {
        gang.attack(&mut random, priority)?;
    }
    while now() - began < options.limit
        && (count.calls < options.calls || count.faults < options.calls / CALLS_PER_FAULT)
    {
        sleep(LOOK);
        let credible = (now() - core::mem::replace(&mut looked, now())) / LEAST_CALL;
        for gang in &mut gangs[..ATTACKERS] {
            gang.progress(credible, &mut count);
            if gang.idle >= PATIENCE || random.once_in(RAID) {
                gang.attack(&mut random, priority)?;
                gang.idle = 0;
                count.restarts += 1;
            }
        }
        count.faults = faults(gangs[WARDEN].ledger());
        if count.calls >= told * options.calls / TOLD {
            println!(
                "hostile: {} ms: {} calls, {} faults",
                (now() - began) / NANOSECONDS_PER_MILLISECOND,
                count.calls,
                count.faults
            );
            told = count.calls * TOLD / options.calls + 1;
            if options.checks {
                count.violations = violations().and_then(|more| Some(more + count.violations?));
            }
        }
    }
    Ok(count)
}

/// Exceptions and page faults of the random programs.
fn faults(ledger: &Ledger) -> u64 {
    let vectors: u64 = ledger.vectors.iter().map(|count| count.load(Relaxed)).sum();
    vectors + ledger.events[event::FAULT].load(Relaxed)
}

fn tell_faults() {
    // SAFETY: as in `Gang::ledger`.
    let ledger = unsafe { ledger(pager::den(WARDEN)) };
    let [fault, call, trigger, stopped, recreated] = &ledger.events;
    println!(
        "hostile: random programs: page faults {fault:?} calls {call:?} triggers {trigger:?} stopped {stopped:?} tasks recreated {recreated:?}"
    );
    for (vector, count) in ledger.vectors.iter().enumerate() {
        if count.load(Relaxed) > 0 {
            println!("hostile: exception {vector}: {count:?}");
        }
    }
}

/// A beat that came only once may hang in its first call.
const BEATS_AT_LEAST: u64 = 2;

/// Judges the beats of the innocent. A beat comes at most one interval after the previous one,
/// which may have been late and long.
fn judge_innocents(verdict: &mut Verdict, began: u64, late: u64) {
    // SAFETY: as in `Gang::ledger`.
    let ledger = unsafe { ledger(pager::den(INNOCENT)) };
    let due = ((now() - began) / (INTERVAL + 2 * late)).max(BEATS_AT_LEAST);
    for processor in 0..innocent::beats() as usize {
        let (beats, worst) = (ledger.beats[processor].load(Relaxed), ledger.late[processor].load(Relaxed));
        println!(
            "hostile: processor {processor}: {beats} beats, the latest {} us late",
            worst / NANOSECONDS_PER_MICROSECOND
        );
        verdict.case(
            "heartbeat-in-time",
            worst <= late && beats >= due,
            format_args!("at least {due} beats, each at most {late} ns late, got {beats} and {worst}"),
        );
    }
    let wrong = ledger.wrong.load(Relaxed);
    verdict.case("innocent-unharmed", wrong == 0, format_args!("nothing wrong, got {wrong}"));
}

/// Whether a task can be created at each number of the gang and can communicate with its creator.
fn tasks_work(gang: &mut Gang) -> bool {
    let me = thread::task_of(utcb::my_id());
    (0..MEMBERS).all(|member| {
        let plan = NewTask {
            number: gang.first + member,
            ip: talk as Main as usize as u64,
            sp: stack(0),
            pager: PAGER.load(Relaxed),
            quota: QUOTA,
            area: AREA_DEFAULT,
            argument: member as u64,
            max_priority: PRIORITIES - 1,
            upper_half: false,
            supervisor: false,
            resident: false,
        };
        let answer = task::create(&plan).and_then(|task| call(thread::first_of(task), Message::new(0, &[1])));
        let deleted = task::delete(plan.number, me);
        answer.is_ok_and(|answer| answer.words[0] == member as u64) && deleted.is_ok()
    })
}

/// Sends its argument to every caller.
extern "C" fn talk(argument: u64) -> ! {
    loop {
        if let Ok(received) = keel_l4::ipc::wait(keel_l4::ipc::Timeout::Never) {
            keel_l4::server::answer_later(received.from, Message::new(0, &[argument]));
        }
    }
}
