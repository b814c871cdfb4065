// SPDX-License-Identifier: GPL-2.0-only
//! IPC, timeouts and scheduling against a model of what each thread does.
//!
//! The threads of one processor send, wait, sleep, notify, cancel and delete each other, and change
//! priorities. The model predicts each thread's partner, the status and word with which it resumes,
//! and when its timeout expires. A ready thread with the highest priority must run, and none longer
//! than its time slice while one of the same priority is ready.

use super::*;
use crate::arch::{each_step, Machine};
use crate::ipc::ipc;
use crate::object::{task, thread, TaskNumber, Thread};
use crate::random::{seed, Random};
use crate::sys::{lthreads, tasks};
use keel_abi::memory::AREA_DEFAULT;
use keel_abi::{Error, Status, Tag};

const THREADS: usize = 9;
const OPERATIONS: u64 = 400_000;
const BETWEEN_CHECKS: u64 = 10_000;
const PRIORITY_LEVELS: [u8; 4] = [5, 5, 6, 7];
const IDLE_PRIORITY: u8 = 1;
/// The longest timeouts, and the longest time between two calls, in ns.
const LONGEST_NS: u64 = 40_000;
const LONG_RUN_NS: u64 = 4_000_000;

/// What a thread does. The times are those of its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    Ready,
    /// To a thread, with a word.
    Sending(usize, u64, Option<u64>),
    /// From one thread, any, or none.
    Receiving(From, Option<u64>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    One(usize),
    Any,
    Nothing,
}

/// The result with which a thread resumes: its status, and the sender and word it received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct End {
    status: u64,
    came: Option<(Id, u64)>,
}

const fn failed(side: Side, error: Error) -> End {
    End { status: Status::error(side, error).0, came: None }
}

const DONE: End = End { status: Status::OK.0, came: None };

struct Modelled {
    thread: Ref<Thread>,
    doing: Doing,
    /// The threads queued to send to it, in order of arrival.
    senders: Vec<usize>,
    notify: u64,
    end: Option<End>,
}

struct History {
    machine: Machine,
    random: Random,
    idle: Ref<Thread>,
    all: Vec<Modelled>,
    words: u64,
    /// The time since when a thread of the same priority is ready and waits for the running one.
    contended: Option<(Ref<Thread>, u64)>,
    /// The thread that was given the processor, until the next kernel entry.
    donated: Option<Ref<Thread>>,
    timeouts: u64,
    meetings: u64,
}

fn create(lthread: usize, priority: u8) -> Ref<Thread> {
    let task = task::at(TaskNumber::FIRST_FREE).expect("it is there");
    let plan = thread::Plan { lthread: lthread as u16, frame: None, priority, pager: Id::NIL };
    let thread = lthreads::create(task, &plan).expect("there is memory");
    wake(thread);
    thread
}

impl History {
    fn new(machine: Machine, seed: u64) -> History {
        machine.act(0);
        let plan = task::Plan {
            number: TaskNumber::FIRST_FREE,
            chief: task::at(TaskNumber::ROOT),
            mcp: u8::MAX,
            quota: TASK_SHARED_QUOTA,
            area: AREA_DEFAULT,
            upper: false,
            supervisor: false,
            resident: false,
        };
        tasks::create(&plan).expect("there is memory");
        let mut threads = Vec::new();
        machine.kernel(0, |_| threads.extend((0..=THREADS).map(|n| create(n, if n == 0 { IDLE_PRIORITY } else { 5 }))));
        let new = |thread: &Ref<Thread>| Modelled {
            thread: *thread,
            doing: Doing::Ready,
            senders: Vec::new(),
            notify: 0,
            end: None,
        };
        let all = threads[1..].iter().map(new).collect();
        let random = Random::new(seed);
        History {
            machine,
            random,
            idle: threads[0],
            all,
            words: 0,
            contended: None,
            donated: None,
            timeouts: 0,
            meetings: 0,
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn ends(&mut self, who: usize, end: End) {
        self.all[who].doing = Doing::Ready;
        self.all[who].end = Some(end);
    }

    fn arrives(&mut self, at: usize, from: usize, word: u64) {
        self.meetings += 1;
        let came = Some((self.all[from].thread.id, word));
        self.ends(at, End { status: Status::OK.0, came });
    }

    /// Takes a thread out of the queue in which it waits.
    fn leaves(&mut self, who: usize) {
        if let Doing::Sending(to, ..) = self.all[who].doing {
            self.all[to].senders.retain(|sender| *sender != who);
        }
    }

    fn send(&mut self, who: usize, to: usize, word: u64, end: Result<Option<u64>, Error>) {
        match (self.all[to].doing, end) {
            _ if to == who => self.ends(who, failed(Side::Send, Error::Invalid)),
            (Doing::Receiving(From::Any, _), _) => {
                self.arrives(to, who, word);
                self.ends(who, DONE);
            }
            (Doing::Receiving(From::One(from), _), _) if from == who => {
                self.arrives(to, who, word);
                self.ends(who, DONE);
            }
            (_, Err(error)) => self.ends(who, failed(Side::Send, error)),
            (_, Ok(end)) => {
                self.all[who].doing = Doing::Sending(to, word, end);
                self.all[to].senders.push(who);
            }
        }
    }

    fn receive(&mut self, who: usize, from: From, end: Result<Option<u64>, Error>) {
        if from == From::Any && self.all[who].notify != 0 {
            let word = core::mem::take(&mut self.all[who].notify);
            return self.arrives(who, who, word);
        }
        let sender = match from {
            From::Any => self.all[who].senders.first().copied(),
            From::One(from) => self.all[who].senders.iter().find(|sender| **sender == from).copied(),
            From::Nothing => None,
        };
        match (sender, end) {
            (Some(sender), _) => {
                let Doing::Sending(_, word, _) = self.all[sender].doing else { panic!("a sender sends") };
                self.leaves(sender);
                self.ends(sender, DONE);
                self.arrives(who, sender, word);
            }
            (None, Err(error)) => self.ends(who, failed(Side::Receive, error)),
            (None, Ok(end)) => self.all[who].doing = Doing::Receiving(from, end),
        }
    }

    /// A wait ends with an error.
    fn breaks(&mut self, who: usize, error: Error) {
        self.leaves(who);
        match self.all[who].doing {
            Doing::Ready => {}
            Doing::Sending(..) => self.ends(who, failed(Side::Send, error)),
            Doing::Receiving(..) => self.ends(who, failed(Side::Receive, error)),
        }
    }

    /// Time passes while the running thread does nothing. All timeouts up to then expire.
    fn pass(&mut self, ns: u64) {
        let end = self.machine.now() + ns;
        while self.machine.now() < end {
            self.machine.kernel(0, |_| self.machine.pass_until(end));
            let now = self.machine.now();
            for who in 0..THREADS {
                let (Doing::Sending(_, _, time) | Doing::Receiving(_, time)) = self.all[who].doing else { continue };
                if time.is_some_and(|time| time <= now) {
                    self.breaks(who, Error::Timeout);
                    self.timeouts += 1;
                }
            }
            self.look();
        }
    }

    /// A timeout: its encoding for the kernel, and when it expires.
    fn timeout(&self) -> (u64, u64, Result<Option<u64>, Error>) {
        let now = self.machine.now();
        let length = self.below(LONGEST_NS);
        match self.below(6) {
            0 => (TIMEOUT_ZERO, 0, Err(Error::Timeout)),
            1 => (TIMEOUT_UTCB, TIME_NEVER, Ok(None)),
            2 => (TIMEOUT_NEVER, 0, Ok(None)),
            3 => (
                TIMEOUT_UTCB,
                TIME_ABSOLUTE | (now + length),
                if length == 0 { Err(Error::Timeout) } else { Ok(Some(now + length)) },
            ),
            _ => (TIMEOUT_UTCB, length, if length == 0 { Err(Error::Timeout) } else { Ok(Some(now + length)) }),
        }
    }

    fn step(&mut self) {
        let running = self.machine.kernel(0, |_| {});
        let other = self.below(THREADS as u64) as usize;
        let who = self.all.iter().position(|known| known.thread == running);
        match (self.below(16), who) {
            (0..=3, Some(who)) => {
                let (kind, time, end) = self.timeout();
                self.words += 1;
                let word = self.words;
                running.utcb().expect("it is native").send_timeout.set(time);
                self.call(
                    running,
                    CALL_IPC | IPC_SEND | kind << IPC_SEND_TIMEOUT_SHIFT,
                    self.all[other].thread.id,
                    Id::NIL,
                    word,
                );
                self.send(who, other, word, end);
            }
            (4..=8, Some(who)) => {
                let (kind, time, end) = self.timeout();
                let (flags, from) = match self.below(5) {
                    0 => (0, From::Nothing),
                    1 | 2 if other != who => (0, From::One(other)),
                    _ => (IPC_OPEN, From::Any),
                };
                let id = if let From::One(from) = from { self.all[from].thread.id } else { Id::NIL };
                running.utcb().expect("it is native").receive_timeout.set(time);
                self.call(running, CALL_IPC | IPC_RECEIVE | flags | kind << IPC_RECEIVE_TIMEOUT_SHIFT, Id::NIL, id, 0);
                self.receive(who, from, end);
            }
            (9, Some(who)) => {
                let bits = 1 << self.below(8);
                self.call(running, CALL_IPC | IPC_SEND | IPC_NOTIFY, self.all[other].thread.id, Id::NIL, bits);
                self.all[other].notify |= bits;
                if let Doing::Receiving(From::Any, _) = self.all[other].doing {
                    let word = core::mem::take(&mut self.all[other].notify);
                    self.arrives(other, other, word);
                }
                self.ends(who, DONE);
            }
            (10, _) if self.below(2) == 0 => {
                let equals = self.ready().filter(|ready| ready.priority.get() == running.priority.get()).count();
                let next = self.call(running, CALL_THREAD_SWITCH, Id::NIL, Id::NIL, 0);
                assert!(equals < 2 || next != running, "an equal runs");
                self.contended = None;
            }
            (10, _) => {
                let (thread, doing) = (self.all[other].thread, self.all[other].doing);
                self.call(running, CALL_THREAD_SWITCH, thread.id, Id::NIL, 0);
                let takes = doing == Doing::Ready && thread.priority.get() <= running.priority.get();
                self.donated = takes.then_some(thread);
                self.contended = None;
            }
            (11, _) => {
                let priority = PRIORITY_LEVELS[self.below(PRIORITY_LEVELS.len() as u64) as usize];
                self.machine.kernel(0, |_| set_priority(self.all[other].thread, priority));
                self.contended = None;
            }
            (12, _) => {
                self.machine.kernel(0, |_| ipc::cancel(self.all[other].thread));
                self.breaks(other, Error::Cancelled);
            }
            (13, _) if self.below(4) == 0 => self.replace(other),
            (14, _) => self.pass(1 + self.below(LONG_RUN_NS)),
            _ => self.pass(1 + self.below(LONGEST_NS / 4)),
        }
        self.look();
    }

    /// A thread is deleted, and another one gets its number.
    fn replace(&mut self, gone: usize) {
        let old = self.all[gone].thread;
        let mut new = None;
        self.machine.kernel(0, |_| {
            unsafe { lthreads::delete(old) };
            new = Some(create(gone + 1, 5));
        });
        self.leaves(gone);
        for who in self.all[gone].senders.clone() {
            self.breaks(who, Error::NoPartner);
        }
        for who in 0..THREADS {
            if matches!(self.all[who].doing, Doing::Receiving(From::One(from), _) if from == gone) {
                self.breaks(who, Error::NoPartner);
            }
        }
        let thread = new.expect("it was made");
        self.all[gone] = Modelled { thread, doing: Doing::Ready, senders: Vec::new(), notify: 0, end: None };
    }

    /// The running thread makes a call; returns which thread runs afterwards.
    fn call(&self, thread: Ref<Thread>, ax: u64, to: Id, from: Id, word: u64) -> Ref<Thread> {
        let frame = thread.frame();
        frame.ax.set(ax);
        frame.orig_ax.set(ax);
        frame.di.set(to.0);
        frame.si.set(Tag::new(0, 1).0);
        frame.dx.set(from.0);
        frame.r8.set(word);
        self.machine.system_call(0)
    }

    fn ready(&self) -> impl Iterator<Item = Ref<Thread>> + '_ {
        let ready = self.all.iter().filter(|known| known.doing == Doing::Ready).map(|known| known.thread);
        ready.chain([self.idle])
    }

    /// Compares the state of every thread, with what it resumes, and which one runs.
    fn look(&mut self) {
        for (number, known) in self.all.iter_mut().enumerate() {
            let state = match known.doing {
                Doing::Ready => State::Ready,
                Doing::Sending(..) => State::Sending,
                Doing::Receiving(..) => State::Receiving,
            };
            assert_eq!(known.thread.state(), state, "thread {number}: {:?}", known.doing);
            let Some(end) = known.end.take() else { continue };
            let frame = known.thread.frame();
            let came = end.came.map(|_| (Id(frame.di.get()), frame.r8.get()));
            assert_eq!(End { status: frame.ax.get(), came }, end, "thread {number}");
        }
        let running = crate::arch::cpu::cpu().current.get().expect("a thread runs");
        if let Some(thread) = self.donated.take() {
            assert!(running == thread, "the thread that was given the processor runs");
            return;
        }
        let top = self.ready().map(|ready| ready.priority.get()).max();
        assert!(self.ready().any(|ready| ready == running), "the running thread is ready");
        assert_eq!(Some(running.priority.get()), top, "the running thread has the highest priority");
        let equals = self.ready().filter(|ready| Some(ready.priority.get()) == top).count();
        let now = self.machine.now();
        self.contended = match self.contended {
            _ if equals < 2 => None,
            Some((who, since)) if who == running => {
                assert!(now - since <= DEFAULT_SLICE_NS, "an equal waits for {} ns", now - since);
                Some((who, since))
            }
            _ => Some((running, now)),
        };
    }
}

#[test]
fn meetings_timeouts_and_turns_agree_with_a_model() {
    let seed = seed(0x5c4e);
    let machine = Machine::take();
    let before = crate::object::pool::POOL.free_pages.get();
    let mut history = History::new(machine, seed);
    each_step("turns", seed, OPERATIONS, |step| {
        history.step();
        if step % BETWEEN_CHECKS == 0 {
            history.machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
        }
    });
    let History { machine, idle, meetings, timeouts, .. } = history;
    unsafe { tasks::delete_lthreads(idle.task) };
    unsafe { tasks::delete(idle.task) };
    machine.check().expect("the kernel is sound");
    assert_eq!(crate::object::pool::POOL.free_pages.get(), before, "pages in use, seed {seed}");
    println!("turns: {OPERATIONS} operations, {meetings} meetings, {timeouts} timeouts, seed {seed}");
    assert!(meetings > OPERATIONS / 20 && timeouts > OPERATIONS / 20, "threads met, and timeouts expired");
}
