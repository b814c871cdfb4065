// SPDX-License-Identifier: BSD-2-Clause
//! Direct calls: this program is in supervisor mode, in the upper half of its clients' spaces. Each
//! processor has a server thread and a client, which make a pair, while the first thread looks at
//! both sides of all pairs, sends them messages, changes, moves and deletes them.
//!
//! With `args resident=1` it is in user mode, and its clients run 32-bit code: then calls are not
//! direct, and clients attack it, whose memory their spaces show.
//!
//! No call may be lost or come twice, no client may see a wrong answer or register, and all must go
//! on. `args rounds=NUMBER` sets how often a case does what it does.

#![no_std]
#![no_main]

mod client;
mod resident;
mod side;
mod single;

use core::arch::asm;
use core::fmt;
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SHIFT};
use keel_l4::abi::ids::ID_CHECK;
use keel_l4::abi::memory::{EX_CANCEL, EX_PAGER, EX_TRIGGER};
use keel_l4::abi::trace::CHECK_ALL;
use keel_l4::abi::ExRegs;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, sleep, Message};
use keel_l4::mapping::unmap;
use keel_l4::program::Program;
use keel_l4::protocol::boot::{SHUTDOWN_TESTS_FAILED, SHUTDOWN_TESTS_PASSED};
use keel_l4::{kernel_object, println, root, thread, utcb, Error, Fpage, Id};
use side::{now, Side, MOST, SIDES};

keel_l4::program!(main);

/// The priority of servers, and of the first thread, which is above them.
const SERVERS: u64 = 100;
const ABOVE: u64 = 102;
/// How often a case does what it does.
const ROUNDS: u64 = 400;
/// Most nanoseconds between two rounds.
const BETWEEN: u64 = 60_000;
/// Nanoseconds that a call takes, in the cases and where direct calls are shown.
const SHORT_CALL: u64 = 3_000;
const LONG_CALL: u64 = 20_000;
/// Log2 of the bytes that are unmapped at once: 16 pages.
const ROW_LOG2: u8 = 16;
/// How often that is done to a task on average, before it goes.
const ROWS_OF_A_TASK: u64 = 8;
/// Interrupts are on; string instructions run backwards.
const IF: u64 = 1 << 9;
const DF: u64 = 1 << 10;
/// Nanoseconds of a try to show direct calls, and the longest wait for anything.
const SHOWN: u64 = 20_000_000;
const PATIENCE: u64 = 5_000_000_000;

/// Why a case failed.
enum Fault {
    Call(Failure),
    Other(&'static str, [u64; 2]),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        Fault::Call(failure)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Call(failure) => write!(f, "a call failed: {failure}"),
            Fault::Other(what, [got, other]) => write!(f, "{what}: {got:#x}, {other:#x}"),
        }
    }
}

type Outcome = Result<(), Fault>;
/// What a case does once, with a processor's pair.
type Action = fn(&mut Pairs, u64) -> Outcome;

fn check(holds: bool, what: &'static str, got: [u64; 2]) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(Fault::Other(what, got))
    }
}

/// The sides that are used, and a random sequence.
struct Pairs {
    sides: &'static [Side],
    first_task: u32,
    random: u64,
}

impl Pairs {
    /// A number below `limit` (xorshift64*).
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit
    }

    fn processors(&self) -> u64 {
        self.sides.len() as u64
    }

    /// Starts a client, in a new task if `task` says so.
    fn start(&self, processor: u64, task: bool) -> Outcome {
        let side = &self.sides[processor as usize];
        if task {
            side.task.store(client::task(self.first_task + processor as u32)?.0, SeqCst);
        }
        let life = side.lives.fetch_add(1, SeqCst) + 1;
        let client = client::start(Id(side.task.load(SeqCst)), processor, side.ids()[0], life)?;
        side.client.store(client.0, SeqCst);
        Ok(())
    }

    /// All sides go on, and nothing was wrong.
    fn judge(&self) -> Outcome {
        for side in self.sides {
            let (turns, calls, began) = (side.turns(), side.calls.load(SeqCst), now());
            while side.turns() < turns + 2 || side.calls.load(SeqCst) < calls + 2 {
                let states = side.ids().map(|id| thread::schedule(id, 0, 0, 0).map_or(0, |found| found.state));
                check(now() < began + PATIENCE, "a side stands still, in states", states)?;
                sleep(BETWEEN);
            }
            let wrong = [side.wrong[0].load(SeqCst), side.wrong[1].load(SeqCst)];
            check(wrong[0] == 0, "a wrong message", wrong)?;
        }
        match kernel_object::invoke(Id(ID_CHECK), CHECK_ALL, &[]) {
            Ok(answer) => check(answer.words[0] == 0, "violations in the kernel", [answer.words[0], 0]),
            // The kernel has no checks.
            Err(Failure { error: Error::NoPartner, .. }) => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Repeats an action, each time with a random processor's pair.
    fn case(&mut self, rounds: u64, action: Action) -> Outcome {
        for _ in 0..rounds {
            let processor = self.below(self.processors());
            action(self, processor)?;
            sleep(self.below(BETWEEN));
        }
        self.judge()
    }
}

/// What server and client of a side have used, and the calls that were served.
fn used(side: &Side) -> [u64; 3] {
    let [server, client] = side.ids().map(|id| thread::schedule(id, 0, 0, 0).map_or(0, |found| found.consumed));
    [server, client, side.calls.load(SeqCst)]
}

/// On each processor calls are direct: the time that they take is the client's. What the host takes
/// from a processor of the emulator's may be added to any call, so there is more than one try.
fn direct(pairs: &mut Pairs) -> Outcome {
    pairs.sides.iter().for_each(|side| side.takes.store(LONG_CALL, SeqCst));
    for (processor, side) in pairs.sides.iter().enumerate() {
        let began = now();
        loop {
            let before = used(side);
            sleep(SHOWN);
            let after = used(side);
            let [server, client, calls] = core::array::from_fn(|index| after[index] - before[index]);
            if calls > 0 && server < calls * LONG_CALL / 10 && client > calls * LONG_CALL {
                println!(
                    "pairs: processor {processor}: {calls} calls, {server} ns the server's, {client} the client's"
                );
                break;
            }
            check(now() < began + PATIENCE, "calls are not direct", [server, calls])?;
        }
    }
    pairs.sides.iter().for_each(|side| side.takes.store(SHORT_CALL, SeqCst));
    pairs.judge()
}

/// Reads states and consumed time: it never goes back, and a client waits for its server alone.
fn looks(pairs: &mut Pairs, processor: u64) -> Outcome {
    let [server, client] = pairs.sides[processor as usize].ids();
    for id in [server, client] {
        let (first, second) = (thread::schedule(id, 0, 0, 0)?, thread::schedule(id, 0, 0, 0)?);
        check(first.consumed <= second.consumed, "consumed time goes back", [first.consumed, second.consumed])?;
        let waits = if id == client { [STATE_FAULTED, STATE_SENDING] } else { [STATE_RECEIVING; 2] };
        let partner = if id == client { server } else { Id::NIL };
        check(first.state == STATE_READY || waits.contains(&first.state), "a wrong state", [first.state, id.0])?;
        check(first.state == STATE_READY || first.partner == partner, "a wrong partner", [first.partner.0, id.0])?;
    }
    Ok(())
}

fn priorities(pairs: &mut Pairs, processor: u64) -> Outcome {
    let [server, client] = pairs.sides[processor as usize].ids();
    let lower = pairs.below(3);
    thread::set_priority(server, SERVERS - lower)?;
    thread::set_priority(client, client::PRIORITY - lower)?;
    Ok(())
}

/// Exchanges an id of each thread for the same one, which reads its registers.
fn registers(pairs: &mut Pairs, processor: u64) -> Outcome {
    let [server, client] = pairs.sides[processor as usize].ids();
    for (id, pager) in [(server, root::parent()), (client, server)] {
        let mut record = ExRegs { pager: pager.0, ..ExRegs::zeroed() };
        thread::exchange(id, EX_PAGER, &mut record)?;
        check(record.pager == pager.0, "a wrong pager", [record.pager, pager.0])?;
    }
    Ok(())
}

fn triggers(pairs: &mut Pairs, processor: u64) -> Outcome {
    let side = &pairs.sides[processor as usize];
    let before = side.triggers.load(SeqCst);
    thread::act(side.ids()[1], EX_TRIGGER)?;
    let began = now();
    while side.triggers.load(SeqCst) == before {
        check(now() < began + PATIENCE, "the trigger does not come", [before, 0])?;
        sleep(BETWEEN);
    }
    Ok(())
}

/// Ends the server's wait, if it waits.
fn cancels(pairs: &mut Pairs, processor: u64) -> Outcome {
    thread::act(pairs.sides[processor as usize].ids()[0], EX_CANCEL)?;
    Ok(())
}

fn messages(pairs: &mut Pairs, processor: u64) -> Outcome {
    let side = &pairs.sides[processor as usize];
    let (before, got) = (side.calls.load(SeqCst), call(side.ids()[0], Message::label(0))?.words[0]);
    check(before <= got && got <= side.calls.load(SeqCst), "a wrong answer", [before, got])
}

fn unmaps(pairs: &mut Pairs, processor: u64) -> Outcome {
    let page = [client::code(), pairs.sides[processor as usize].data()][pairs.below(2) as usize];
    unmap(Fpage::memory(page, PAGE_SHIFT as u8, FPAGE_RWX), UNMAP_RIGHTS)?;
    Ok(())
}

/// Unmaps many pages at once, the client's data among them, which faults again; or the task is
/// deleted before it runs again.
fn rows(pairs: &mut Pairs, processor: u64) -> Outcome {
    // Faults count after a client's first call, and none is under way then.
    pairs.judge()?;
    let side = &pairs.sides[processor as usize];
    let before = side.faults.load(SeqCst);
    unmap(Fpage::memory(side.data(), ROW_LOG2, FPAGE_RWX), UNMAP_RIGHTS)?;
    if pairs.below(ROWS_OF_A_TASK) == 0 {
        pairs.start(processor, true)?;
        // It has made a call: from then on its faults count.
        return pairs.judge();
    }
    let began = now();
    while side.faults.load(SeqCst) == before {
        check(now() < began + PATIENCE, "no fault came", [before, processor])?;
        sleep(BETWEEN);
    }
    Ok(())
}

/// A slow system call returns without IRET, which would set DF again, to the same stack and with
/// interrupts on. In user mode it returns as on every other system.
fn returns(pairs: &mut Pairs, processor: u64) -> Outcome {
    if client::is_resident() {
        return Ok(());
    }
    let (flags, moved): (u64, u64);
    // SAFETY: the call asks for a thread's state; the direction flag is clear again at the end.
    unsafe {
        asm!(
            "mov r15, rsp", "std", "syscall", "pushfq", "pop r14", "cld", "sub r15, rsp",
            inout("rax") CALL_THREAD_SCHEDULE => _, inout("rdi") pairs.sides[processor as usize].ids()[0].0 => _,
            inout("rsi") 0u64 => _, inout("rdx") 0u64 => _, inout("r8") 0u64 => _, inout("r9") 0u64 => _,
            inout("r10") 0u64 => _, out("r12") _, out("r13") _, out("rcx") _, out("r11") _, out("r14") flags,
            out("r15") moved,
        );
    }
    check(moved == 0, "the stack has moved", [moved, 0])?;
    check(flags & (IF | DF) == IF, "wrong flags", [flags, 0])
}

fn deaths(pairs: &mut Pairs, processor: u64) -> Outcome {
    thread::delete(pairs.sides[processor as usize].ids()[1])?;
    pairs.start(processor, false)
}

/// Deletes the client's task, and makes another one at the same number.
fn tasks(pairs: &mut Pairs, processor: u64) -> Outcome {
    pairs.start(processor, true)
}

/// Moves server or client to another processor, and back.
fn moves(pairs: &mut Pairs, processor: u64) -> Outcome {
    let (moved, to) = (pairs.sides[processor as usize].ids()[pairs.below(2) as usize], pairs.below(pairs.processors()));
    thread::set_processor(moved, to)?;
    sleep(pairs.below(BETWEEN));
    thread::set_processor(moved, processor)?;
    Ok(())
}

/// What the cases do, by their names.
const ACTIONS: [(&str, Action); 12] = [
    ("looks", looks),
    ("priorities", priorities),
    ("registers", registers),
    ("triggers", triggers),
    ("cancels", cancels),
    ("messages", messages),
    ("unmaps", unmaps),
    ("rows", rows),
    ("returns", returns),
    ("deaths", deaths),
    ("tasks", tasks),
    ("moves", moves),
];

fn everything(pairs: &mut Pairs, processor: u64) -> Outcome {
    let choice = pairs.below(ACTIONS.len() as u64) as usize;
    ACTIONS[choice].1(pairs, processor)
}

/// Each server signals the next one, with and without everything else.
fn signals(pairs: &mut Pairs, rounds: u64) -> Outcome {
    let before: [u64; MOST] = core::array::from_fn(|index| SIDES[index].signals.load(SeqCst));
    pairs.sides.iter().for_each(|side| side.signalling.store(1, SeqCst));
    pairs.case(rounds, |_, _| Ok(()))?;
    for (side, before) in pairs.sides.iter().zip(before) {
        check(side.signals.load(SeqCst) > before, "no signal came", [before, 0])?;
    }
    pairs.case(2 * rounds, everything)?;
    pairs.sides.iter().for_each(|side| side.signalling.store(0, SeqCst));
    Ok(())
}

/// Each server had messages of all kinds, and its waits were cancelled.
fn all_came(pairs: &Pairs) -> Outcome {
    for side in pairs.sides {
        let [faults, triggers, signals, cancelled] =
            [&side.faults, &side.triggers, &side.signals, &side.cancelled].map(|count| count.load(SeqCst));
        check(faults > 0 && triggers > 0, "no fault or trigger", [faults, triggers])?;
        check(signals > 0 && cancelled > 0, "no signal or cancellation", [signals, cancelled])?;
    }
    Ok(())
}

struct Score {
    passed: u32,
    failed: u32,
}

impl Score {
    fn add(&mut self, name: &str, outcome: Outcome) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("ok pairs/{name}");
            }
            Err(fault) => {
                self.failed += 1;
                println!("FAIL pairs/{name}: {fault}");
            }
        }
    }
}

/// Makes the threads of all processors.
fn prepare(pairs: &Pairs) -> Outcome {
    kernel_object::buy_frames(0, 1)?;
    thread::set_priority(utcb::my_id(), ABOVE)?;
    for processor in 0..pairs.processors() {
        let side = &pairs.sides[processor as usize];
        let next = (processor + 1) % pairs.processors();
        let server = thread::spawn(&side.stack, side::serve, processor + next * MOST as u64)?;
        side.server.store(server.0, SeqCst);
        side.takes.store(SHORT_CALL, SeqCst);
        thread::set_processor(server, processor)?;
        thread::set_priority(server, SERVERS)?;
    }
    (0..pairs.processors()).try_for_each(|processor| pairs.start(processor, true))?;
    pairs.judge()
}

fn main(program: Program) -> Result<(), Failure> {
    let rounds = program.option("rounds").and_then(|word| word.parse().ok()).unwrap_or(ROUNDS);
    client::RESIDENT.store(program.option("resident").is_some(), SeqCst);
    let sides = &SIDES[..(program.record.processors as usize).min(MOST)];
    let mut pairs = Pairs { sides, first_task: program.numbers.start, random: now() | 1 };
    let mut score = Score { passed: 0, failed: 0 };
    score.add("made", prepare(&pairs));
    if score.failed == 0 {
        if client::is_resident() {
            resident::CASES.iter().for_each(|(name, case)| score.add(name, case(&pairs)));
        } else {
            score.add("flags", single::flags(&pairs));
            score.add("direct", direct(&mut pairs));
        }
        for (name, action) in ACTIONS {
            score.add(name, pairs.case(rounds, action));
        }
        score.add("signals", signals(&mut pairs, rounds));
        score.add("all-came", all_came(&pairs));
        if !client::is_resident() {
            score.add("direct-in-the-end", direct(&mut pairs));
        }
    }
    println!("{} passed, {} failed", score.passed, score.failed);
    root::shut_down(if score.failed == 0 { SHUTDOWN_TESTS_PASSED } else { SHUTDOWN_TESTS_FAILED })
}
