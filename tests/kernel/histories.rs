// SPDX-License-Identifier: GPL-2.0-only
//! The whole kernel under random histories on two processors: random system calls, most of them
//! almost valid, page faults, exceptions, and the passing of time. All invariants are checked
//! during the run, and at its end every page is free again.
//!
//! This does the same as `user/hostile` in an emulator, but about a hundred times as often, with
//! the kernel's own assertions, with overflow checks, and with an interrupt wherever the kernel
//! enables them.

use crate::arch::{cpu::Cpu, delete_with_clan, each_step, Machine, PROCESSORS};
use crate::base::{Ref, VirtAddr};
use crate::ipc::{fault, ipc};
use crate::mm::space;
use crate::object::thread::{Flags, State};
use crate::object::{task, thread, Task, TaskNumber, Thread, POOL};
use crate::random::{seed, Random};
use crate::sched;
use crate::sys::lthreads;
use core::mem::offset_of;
use keel_abi::call::*;
use keel_abi::fpage::*;
use keel_abi::ids::*;
use keel_abi::memory::*;
use keel_abi::programs::*;
use keel_abi::{Error, ExRegs, Fpage, Id, Status, Tag, Utcb};
use keel_protocol::status::failure;
use std::collections::BTreeSet;

const OPERATIONS: u64 = 1_000_000;
const BETWEEN_CHECKS: u64 = 2_000;
/// Task numbers of a gang: the first is its chief's.
const MEMBERS: u64 = 4;
const GANGS: u64 = 3;
/// Lthread numbers that are used in a task.
const LTHREADS: u64 = 5;
/// Pages of kernel memory of a gang.
const QUOTA: u64 = 60;
/// The address at which every task of the judge's clan has memory, and the address for mappings.
const HOME: u64 = 0x10_0000_0000;
const HOME_LOG2: u8 = 16;
const WINDOW: u64 = 0x20_0000_0000;
/// The address of a frame window.
const FRAME_PAGES: u64 = 2;
/// The longest time between two operations.
const LONGEST_NS: u64 = 1 << 14;

struct History {
    machine: Machine,
    random: Random,
    /// The idle threads, one on each processor.
    judges: Vec<Ref<Thread>>,
    /// Recently assigned ids.
    ids: Vec<Id>,
    /// Calls, sides and errors that have occurred.
    refusals: BTreeSet<(u64, u64, u64)>,
}

fn number(gang: u64, member: u64) -> u32 {
    (TASK_FIRST_FREE + gang * MEMBERS + member) as u32
}

fn task_of(gang: u64, member: u64) -> Option<Ref<Task>> {
    task::at(TaskNumber::new(number(gang, member)))
}

impl History {
    fn new(machine: Machine, seed: u64) -> History {
        let root = task::at(TaskNumber::ROOT).expect("it is there");
        let judge = |processor: usize| {
            machine.act(processor);
            let plan = thread::Plan { lthread: processor as u16, frame: None, priority: 0, pager: Id::NIL };
            lthreads::create(root, &plan).expect("there is memory")
        };
        let judges = (0..PROCESSORS).map(judge).collect();
        let history =
            History { random: Random::new(seed), machine, judges, ids: Vec::new(), refusals: BTreeSet::new() };
        give_memory(&history.machine, root, 0);
        for (processor, judge) in history.judges.iter().enumerate() {
            history.machine.kernel(processor, |_| sched::wake(*judge));
        }
        history.machine.disturb(40, None);
        history
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn one_of<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn id(&self) -> Id {
        match (self.below(8), self.ids.len() as u64) {
            (0, _) | (_, 0) => task_of(self.below(GANGS), self.below(MEMBERS))
                .and_then(|task| task.each_lthread().next())
                .map_or(Id::NIL, |thread| thread.id),
            (1, _) => self.judges[self.below(2) as usize].id,
            (_, known) => self.ids[self.below(known) as usize],
        }
    }

    fn task_id(&self) -> Id {
        Id(self.id().0 | LTHREAD_TASK << ID_LTHREAD_SHIFT)
    }

    fn address(&self) -> u64 {
        match self.below(16) {
            0 => canonical(self.random.next()),
            1 => AREA_DEFAULT + self.below(0x2000),
            2..=9 => HOME + self.below(1 << HOME_LOG2),
            _ => WINDOW + self.below(4 << HOME_LOG2),
        }
    }

    fn fpage(&self) -> Fpage {
        let log2 = self.one_of(&[12, 12, 12, 13, 14, HOME_LOG2, 21, 30]);
        let rights = self.one_of(&[FPAGE_RWX, FPAGE_RWX, FPAGE_READ, FPAGE_READ | FPAGE_WRITE, 0]);
        match self.below(16) {
            0 => Fpage::io(self.random.next() as u16, self.below(17) as u8),
            1 => Fpage::WHOLE,
            2 => Fpage(self.random.next()),
            _ => Fpage::memory(self.address(), log2, rights),
        }
    }

    fn word(&self) -> u64 {
        match self.below(10) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << self.below(64),
            3 | 4 => self.id().0,
            5 => self.below(SMALL_IDS),
            6 => self.fpage().0,
            7 => self.address(),
            _ => self.random.next(),
        }
    }

    fn timeouts(&self, thread: Ref<Thread>) -> u64 {
        let kind =
            || self.one_of(&[TIMEOUT_ZERO, TIMEOUT_ZERO, TIMEOUT_UTCB, TIMEOUT_UTCB, TIMEOUT_UTCB, TIMEOUT_NEVER]);
        if let Some(utcb) = thread.utcb() {
            utcb.send_timeout.set(self.below(LONGEST_NS));
            utcb.receive_timeout.set(self.below(LONGEST_NS));
        }
        kind() << IPC_SEND_TIMEOUT_SHIFT | kind() << IPC_RECEIVE_TIMEOUT_SHIFT
    }

    /// Words `count` after byte `offset` of a UTCB.
    fn fill(&self, thread: Ref<Thread>, offset: usize, values: &[u64]) {
        let Some(utcb) = thread.utcb() else { return };
        utcb.words()[offset / 8..].iter().zip(values).for_each(|(word, value)| word.set(*value));
    }

    fn message(&self, thread: Ref<Thread>) -> Tag {
        let mut tag = Tag::new(self.below(4) as u32, self.one_of(&[0, 2, 6, 16, 38, MAX_WORDS]));
        if self.below(3) == 0 {
            let maps = 1 + self.below(3);
            let grant = if self.below(4) == 0 { MAP_GRANT } else { 0 };
            let items: Vec<u64> =
                (0..maps).flat_map(|_| [self.address() & !MAP_GRANT | grant, self.fpage().0]).collect();
            self.fill(thread, offset_of!(Utcb, maps), &items);
            tag = tag.with_maps(maps);
        }
        if self.below(4) == 0 {
            let strings = 1 + self.below(3);
            self.fill(thread, offset_of!(Utcb, strings), &self.parts(strings));
            tag = tag.with_strings(strings);
        }
        tag
    }

    fn parts(&self, count: u64) -> Vec<u64> {
        let length = || match self.below(12) {
            0 => self.below(MAX_STRING_BYTES + 2),
            1 => 40 << 10,
            _ => self.below(2 * PAGE_SIZE),
        };
        let more = |last: bool| if !last && self.below(4) == 0 { STRING_CONTINUES } else { 0 };
        (1..=count).flat_map(|part| [self.address(), length() | more(part == count)]).collect()
    }

    /// Prepares the UTCB for the next message.
    fn receiver(&self, thread: Ref<Thread>) {
        let window = if self.below(2) == 0 { Fpage::WHOLE } else { self.fpage() };
        let count = self.below(4);
        self.fill(thread, offset_of!(Utcb, receive_fpage), &[window.0]);
        self.fill(thread, offset_of!(Utcb, buffers), &self.parts(count));
        self.fill(thread, offset_of!(Utcb, buffer_count), &[count]);
        let faults = [self.one_of(&[0, TIME_NEVER, 5_000]), self.one_of(&[0, TIME_NEVER, 5_000])];
        self.fill(thread, offset_of!(Utcb, send_fault_timeout), &faults);
    }

    /// A preempter that answers, or does not, or does not exist.
    fn preempter(&self) -> u64 {
        self.one_of(&[ID_NIL, self.judges[0].id.0, self.judges[0].id.0, self.id().0]) | self.below(2) * PREEMPTER_EVERY
    }

    fn record(&self, thread: Ref<Thread>) {
        let mut words = [0; size_of::<ExRegs>() / 8];
        let mut set = |offset: usize, value: u64| words[offset / 8] = value;
        let valid = self.below(8) != 0;
        set(offset_of!(ExRegs, ip), if valid { HOME } else { self.random.next() });
        set(offset_of!(ExRegs, pager), if self.below(2) == 0 { self.judges[0].id.0 } else { self.id().0 });
        set(offset_of!(ExRegs, handler), self.id().0);
        set(offset_of!(ExRegs, preempter), self.preempter());
        set(offset_of!(ExRegs, frame), self.one_of(&[FRAME_NONE, self.below(FRAME_PAGES * FRAMES_PER_PAGE), 1]));
        set(offset_of!(ExRegs, fpu), HOME + self.below(4) * 64);
        set(offset_of!(ExRegs, fpu_size), PAGE_SIZE);
        set(offset_of!(ExRegs, dispatch), self.below(2));
        (0..4).for_each(|n| set(offset_of!(ExRegs, debug) + 8 * n, if valid { HOME } else { u64::MAX }));
        self.fill(thread, offset_of!(Utcb, record), &words);
    }

    /// The registers of a call by a member of a gang: eax, rdi, rsi, rdx, then the words.
    fn attack(&self, thread: Ref<Thread>) -> [u64; 10] {
        let words: [u64; 6] = core::array::from_fn(|_| self.word());
        let with = |ax: u64, di: u64, si: u64, dx: u64, words: [u64; 6]| {
            let mut registers = [ax, di, si, dx, 0, 0, 0, 0, 0, 0];
            registers[4..].copy_from_slice(&words);
            registers
        };
        let own = Id::thread(0, thread.id.task(), self.below(LTHREADS) as u16, thread.id.nesting());
        let gang = (thread.id.task() as u64).saturating_sub(TASK_FIRST_FREE) / MEMBERS;
        let member = number(gang, 1 + self.below(MEMBERS - 1));
        match self.below(40) {
            0..=9 => {
                self.receiver(thread);
                let phases = self.one_of(&[IPC_SEND, IPC_SEND | IPC_RECEIVE, IPC_SEND | IPC_RECEIVE | IPC_OPEN]);
                let to = self.id();
                let ax = CALL_IPC | phases | self.timeouts(thread);
                with(ax, to.0, self.message(thread).0, self.one_of(&[to.0, self.id().0]), words)
            }
            10..=15 => {
                self.receiver(thread);
                let from = self.one_of(&[ID_NIL, self.id().0, ID_TIMER + self.below(3)]);
                let open = self.one_of(&[0, IPC_OPEN]);
                with(CALL_IPC | IPC_RECEIVE | open | self.timeouts(thread), 0, 0, from, words)
            }
            16 | 17 => with(CALL_IPC | IPC_SEND | IPC_NOTIFY, self.id().0, 0, 0, words),
            18..=20 => {
                let rights = self.below(UNMAP_RIGHTS + 1) | self.one_of(&[0, UNMAP_FLUSH]);
                with(CALL_FPAGE_UNMAP, self.fpage().0, rights, 0, words)
            }
            21 | 22 => {
                let ranges: Vec<u64> = (0..3)
                    .flat_map(|_| [self.address() & !0xfff | self.below(8), self.one_of(&[0, 1, 5, 600])])
                    .collect();
                self.fill(thread, offset_of!(Utcb, record), &ranges);
                let count = self.one_of(&[0, 1, 2, 3, MAX_RANGES + 1]);
                with(CALL_FPAGE_UNMAP, 0, UNMAP_TASK, self.task_id().0, [count, 0, 0, 0, 0, 0])
            }
            23..=27 => {
                self.record(thread);
                // The processors of this machine cannot load the registers of an FPU that a user
                // chose.
                let mask = self.one_of(&[EX_TRIGGER, EX_CANCEL, EX_START, EX_START | EX_CANCEL, self.random.next()]);
                let mask = mask & EX_ALL & !(EX_CREATE | EX_DELETE | EX_FPU_SET);
                with(CALL_LTHREAD_EX_REGS, self.one_of(&[own, self.id()]).0, mask, 0, words)
            }
            28..=31 => {
                self.record(thread);
                let alien = EX_CREATE | EX_START | EX_ALIEN | EX_FRAME | EX_PAGER | EX_HANDLER;
                let native = EX_CREATE | EX_START | EX_IP | EX_PAGER | EX_HANDLER;
                let mask = self.one_of(&[native, native, alien, alien, EX_DELETE]);
                let place = Id::thread(0, self.one_of(&[thread.id.task(), member]), own.lthread(), 0);
                with(CALL_LTHREAD_EX_REGS, place.0, mask, 0, words)
            }
            32 | 33 => {
                let flags = self.one_of(&[0, 0, TASK_NO_LTHREAD, TASK_INACTIVE, TASK_INACTIVE | 1 << TASK_RANGE_SHIFT]);
                let quota = self.one_of(&[TASK_SHARED_QUOTA, 4, 12, 30, 1 << 40]);
                let area = self.one_of(&[AREA_DEFAULT, AREA_DEFAULT, AREA_UPPER, 0, WINDOW + 1]);
                let half = self.one_of(&[0, 0, TASK_UPPER_HALF]);
                let (di, si) = (Id::thread(0, member, 0, 0).0, self.below(PRIORITIES) | flags | half);
                with(CALL_TASK_NEW, di, si, self.task_id().0, [0, self.judges[0].id.0, quota, area, 0, 0])
            }
            34 | 35 => {
                let (mask, priority, slice) = (self.below(16), self.below(12), self.below(LONGEST_NS));
                let words = [slice, self.preempter(), self.below(3), 0, 0, 0];
                with(CALL_THREAD_SCHEDULE, self.id().0, mask, priority, words)
            }
            36 => with(CALL_THREAD_SWITCH, self.one_of(&[ID_NIL, self.id().0]), 0, 0, words),
            37 | 38 => {
                let quota = |operation, w0, w1| {
                    with(
                        CALL_IPC | IPC_SEND | IPC_RECEIVE,
                        ID_QUOTA,
                        Tag::new(operation, 2).0,
                        ID_QUOTA,
                        [w0, w1, 0, 0, 0, 0],
                    )
                };
                let timer = |operation: u64, id, w0| {
                    with(
                        CALL_IPC | IPC_SEND | IPC_RECEIVE,
                        id,
                        Tag::new(operation as u32, 1).0,
                        id,
                        [w0, 0, 0, 0, 0, 0],
                    )
                };
                let id = ID_TIMER + self.below(3);
                match self.below(6) {
                    0 => quota(QUOTA_READ as u32, self.one_of(&[ID_NIL, self.task_id().0]), 0),
                    1 => quota(QUOTA_BUY_FRAMES as u32, self.below(FRAME_PAGES), 1),
                    2 => quota(
                        self.one_of(&[QUOTA_SELL_FRAMES, QUOTA_ENLARGE, QUOTA_SHRINK]) as u32,
                        self.task_id().0,
                        self.below(4),
                    ),
                    3 => timer(OBJECT_BIND, ID_TIMER, 0),
                    4 => timer(TIMER_SET, id, self.machine.now() + self.below(LONGEST_NS)),
                    _ => timer(OBJECT_UNBIND, id, 0),
                }
            }
            _ => with(self.random.next() & 0xffff, self.word(), self.word(), self.word(), words),
        }
    }

    /// A step of the judge: creates and starts gangs, and answers faults.
    fn judge(&self, thread: Ref<Thread>) -> [u64; 10] {
        let gang = self.below(GANGS);
        let leader = Id::thread(0, number(gang, 0), 0, 0).0;
        let me = thread.task.id().0;
        let preempted = |waits: Ref<Thread>| (waits.state(), waits.partner.get()) == (State::Preempted, thread.id);
        let waits = |waits: Ref<Thread>| ipc::awaits_answer(waits, thread) || preempted(waits);
        let faulted = |id: &&Id| thread::find(**id).is_some_and(waits);
        match self.below(12) {
            0..=3 => {
                let ax = CALL_IPC | IPC_SEND | IPC_SEND_ZERO | IPC_RECEIVE | IPC_OPEN | IPC_RECEIVE_ZERO;
                let to = self.ids.iter().find(faulted).copied().unwrap_or(self.id());
                let page =
                    Fpage::memory(HOME + self.below(1 << HOME_LOG2), self.one_of(&[12, 12, HOME_LOG2]), self.below(8));
                self.fill(thread, offset_of!(Utcb, maps), &[self.address() & !0xfff, page.0]);
                let maps = !thread::find(to).is_some_and(preempted) as u64;
                [ax, to.0, Tag::new(0, self.one_of(&[0, 38])).with_maps(maps).0, 0, 0, 0, 0, 0, 0, 0]
            }
            4 | 5 => [CALL_IPC | IPC_RECEIVE | IPC_OPEN | IPC_RECEIVE_ZERO, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            6..=9 => {
                self.record(thread);
                let lthread = Id::thread(0, number(gang, 0), self.below(LTHREADS) as u16, 0);
                [CALL_LTHREAD_EX_REGS, lthread.0, EX_START | EX_CANCEL, 0, 0, 0, 0, 0, 0, 0]
            }
            10 if task_of(gang, 0).is_some() && self.below(12) != 0 => {
                // The gang gets its other numbers, one by one.
                let leader = task_of(gang, 0).map_or(me, |task| task.id().0);
                let member = Id::thread(0, number(gang, 1 + self.below(MEMBERS - 1)), 0, 0).0;
                [CALL_TASK_NEW, member, TASK_INACTIVE, leader, 0, 0, 0, 0, 0, 0]
            }
            _ => {
                let flags = self.one_of(&[0, 0, 0, TASK_INACTIVE]);
                let registers = [0, thread.id.0, QUOTA, AREA_DEFAULT, 0, 0];
                let mut all = [CALL_TASK_NEW, leader, 10 | flags, me, 0, 0, 0, 0, 0, 0];
                if task_of(gang, 0).is_some() && self.below(8) != 0 {
                    return [CALL_THREAD_SWITCH, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                }
                all[3] = if flags == 0 { HOME } else { me };
                all[4..].copy_from_slice(&registers);
                all
            }
        }
    }

    /// The running thread of a processor does something.
    fn step(&mut self) {
        let processor = self.below(PROCESSORS as u64) as usize;
        // Pending interrupts are served first.
        let thread = self.machine.kernel(processor, |_| {});
        let judge = self.judges.contains(&thread);
        let event = self.below(12);
        if event == 0 {
            self.machine.kernel(processor, |_| self.machine.pass(self.below(LONGEST_NS)));
        } else if event == 1 && !judge {
            let (address, code) = (self.address(), self.one_of(&[4, 6, 7, 20]));
            self.machine.kernel(processor, |cpu| {
                on_current(cpu, |thread| fault::page_fault(thread, VirtAddr::new(address), code))
            });
        } else if event == 2 && !judge {
            let vector = self.one_of(&[1, 3, 6, 13, 14]);
            self.machine.kernel(processor, |cpu| on_current(cpu, |thread| fault::exception(thread, vector, 0, 0)));
        } else if event == 3 {
            // It may access its mappings.
            let address = self.address();
            if is_in_half(address, 1) {
                self.machine.touch(address, self.below(2) == 0);
            }
        } else {
            let registers = if judge { self.judge(thread) } else { self.attack(thread) };
            let caller = thread.id;
            set_registers(thread, &registers);
            self.machine.system_call(processor);
            self.note(registers[0], caller);
        }
    }

    /// Records new ids, and the result of the call if it has ended.
    fn note(&mut self, ax: u64, caller: Id) {
        // It may have deleted itself.
        let status = thread::find(caller).map(|caller| Status(caller.frame().ax.get()));
        if let Some((side, error)) = status.and_then(failure) {
            self.refusals.insert((ax & CALL_MASK, side as u64, error as u64));
        }
        if let CALL_TASK_NEW | CALL_LTHREAD_EX_REGS = ax & CALL_MASK {
            let mut new = Vec::new();
            for task in (0..GANGS * MEMBERS).filter_map(|n| task_of(0, n)) {
                new.extend(task.each_lthread().map(|thread| thread.id));
                if task.chief.is_some_and(|chief| chief.number == TaskNumber::ROOT) {
                    give_memory(&self.machine, task, self.below(16));
                }
            }
            self.ids.retain(|_| self.random.below(8) != 0);
            self.ids.extend(new);
        }
    }

    /// Frees everything except the machine's own objects.
    fn end(mut self) -> Machine {
        self.machine.disturb(0, None);
        for member in 0..GANGS * MEMBERS {
            if let Some(task) = task_of(0, member) {
                self.machine.kernel(0, |_| delete_with_clan(task));
            }
        }
        let root = task::at(TaskNumber::ROOT).expect("it is there");
        for judge in core::mem::take(&mut self.judges) {
            unsafe { lthreads::delete(judge) };
        }
        while space::clear(root).is_err() {}
        for space in [TaskNumber::SIGMA0, TaskNumber::ROOT].into_iter().filter_map(task::at) {
            while space::clear(space).is_err() {}
            crate::mm::io::drop_space(space);
        }
        self.machine.check().expect("all was given back");
        self.machine
    }
}

fn on_current(cpu: &Cpu, what: impl FnOnce(Ref<Thread>)) {
    if let Some(thread) = cpu.current.get() {
        what(thread);
    }
}

fn set_registers(thread: Ref<Thread>, registers: &[u64; 10]) {
    let frame = thread.frame();
    let [ax, di, si, dx, words @ ..] = registers;
    // An alien thread's own calls; the upper half of the register is not the call's.
    let ax = ax & 0xffff_ffff | if thread.has(Flags::ALIEN) { CALL_HANDLER } else { 0 };
    [&frame.ax, &frame.orig_ax].iter().for_each(|register| register.set(ax));
    frame.ip.set(HOME);
    frame.di.set(*di);
    frame.si.set(*si);
    frame.dx.set(*dx);
    frame.message().into_iter().zip(words).for_each(|(register, word)| register.set(*word));
}

/// Maps the part of user memory to a task that it has from the beginning.
fn give_memory(machine: &Machine, task: Ref<Task>, part: u64) {
    if space::find(task, VirtAddr::new(HOME)).is_ok() {
        return;
    }
    let sigma0 = task::at(TaskNumber::SIGMA0).expect("it is there");
    let base = machine.memory().start + (part << HOME_LOG2);
    let item = Fpage::memory(base, HOME_LOG2, FPAGE_RWX);
    let place = space::place(item, 0, Fpage::memory(HOME, HOME_LOG2, FPAGE_RWX)).expect("both are memory");
    let (mapping, mut progress) =
        (space::Mapping { from: sigma0, to: task, place, item, grant: false }, space::Progress::default());
    loop {
        match space::map(&mapping, &mut progress) {
            Err(space::Stop::Restart) => {}
            Ok(()) | Err(space::Stop::Failed(Error::NoMemory)) => return,
            Err(space::Stop::Failed(error)) => panic!("{error:?}"),
        }
    }
}

#[test]
fn nothing_that_users_do_breaks_an_invariant() {
    let seed = seed(0x4157);
    let machine = Machine::take();
    let before = (POOL.free_pages.get(), POOL.root.used.get());
    let mut history = History::new(machine, seed);
    each_step("histories", seed, OPERATIONS, |step| {
        history.step();
        if step % BETWEEN_CHECKS == 0 {
            history.machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
        }
    });
    let seen = history.refusals.clone();
    let _machine = history.end();
    assert_eq!((POOL.free_pages.get(), POOL.root.used.get()), before, "pages in use, seed {seed}");
    println!("histories: {OPERATIONS} operations, {} kinds of errors, seed {seed}", seen.len());
    assert!(seen.len() > 30, "too few kinds of errors: {seen:?}");
}
