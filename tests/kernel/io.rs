// SPDX-License-Identifier: GPL-2.0-only
//! Ports against a model, which records the ports of each task, and for each pair of tasks the
//! ports that one got from the other.

use super::*;
use crate::arch::{cpu::cpu, Machine};
use crate::mm::space::Stop;
use crate::object::{task, thread, thread::State, TaskNumber, Thread};
use crate::random::{seed, Random};
use crate::sched;
use crate::sys::{lthreads, tasks};
use keel_abi::call::TASK_SHARED_QUOTA;
use keel_abi::memory::AREA_DEFAULT;
use keel_abi::Id;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks; the first is sigma0.
const TASKS: usize = 7;
const OPERATIONS: u64 = 100_000;
const BETWEEN_LOOKS: u64 = 100;
/// Ports that operations name, including the highest ones.
const REGIONS: [u16; 3] = [0, 0x3f0, 0xfff0];
const REGION: u64 = 16;

#[derive(Default)]
struct Model {
    has: [BTreeSet<u16>; TASKS],
    got: BTreeMap<(usize, usize), BTreeSet<u16>>,
    /// The distance to sigma0 at which it got its first ports.
    depth: [Option<u8>; TASKS],
}

impl Model {
    fn map(&mut self, from: usize, to: usize, ports: &BTreeSet<u16>, grant: bool) -> Result<bool, Error> {
        let Some(depth) = self.depth[from] else { return Ok(false) };
        if from == to || self.has[from].is_disjoint(ports) {
            return Ok(false);
        }
        if depth >= MAX_DEPTH || self.depth[to].is_some_and(|other| other <= depth) {
            return Err(Error::Denied);
        }
        self.depth[to].get_or_insert(depth + 1);
        let new: BTreeSet<u16> =
            ports.iter().filter(|p| self.has[from].contains(p) && !self.has[to].contains(p)).copied().collect();
        self.has[to].extend(&new);
        self.got.entry((from, to)).or_default().extend(&new);
        if grant {
            self.has[from].retain(|port| !ports.contains(port));
        }
        Ok(true)
    }

    fn take_back(&mut self, task: usize, ports: &BTreeSet<u16>) {
        for to in 0..TASKS {
            let Some(given) = self.got.get_mut(&(task, to)) else { continue };
            let gone: BTreeSet<u16> = given.intersection(ports).copied().collect();
            given.retain(|port| !gone.contains(port));
            self.has[to].retain(|port| !gone.contains(port));
            if !gone.is_empty() {
                self.take_back(to, &gone);
            }
        }
    }

    fn delete(&mut self, task: usize) {
        self.take_back(task, &(0..=u16::MAX).collect());
        self.got.retain(|(from, to), _| *from != task && *to != task);
        self.has[task].clear();
        self.depth[task] = None;
    }
}

fn create(number: u32) -> Ref<Task> {
    let (chief, quota) = (task::at(TaskNumber::ROOT), TASK_SHARED_QUOTA);
    tasks::create(&task::Plan {
        number: TaskNumber::new(number),
        chief,
        mcp: 0,
        quota,
        area: AREA_DEFAULT,
        upper: false,
        supervisor: false,
        resident: false,
    })
    .expect("there is memory")
}

/// The running thread of the first processor, and one of higher priority, in a separate task.
fn threads() -> (Ref<Thread>, Ref<Thread>) {
    let plan = |priority| thread::Plan { lthread: LTHREAD_TASK as u16, frame: None, priority, pager: Id::NIL };
    let task = create(TASK_FIRST_FREE as u32 + 1_000);
    let new = |priority| lthreads::create(task, &plan(priority)).expect("there is memory");
    let (caller, intruder) = (new(10), new(20));
    cpu().current.set(Some(caller));
    (caller, intruder)
}

/// Unmaps ports and returns the number of restarts.
fn take(task: Ref<Task>, ports: (u16, u8), itself: bool, intruder: Ref<Thread>) -> u64 {
    let (mut at, mut restarts) = (0, 0);
    while unmap(task, &mut at, ports, itself, &mut Work::default()) == Err(Stop::Restart) {
        sched::unready(intruder);
        intruder.change_state(State::Inactive);
        restarts += 1;
    }
    restarts
}

/// Deletes the task of the threads.
fn end(machine: &Machine, task: Ref<Task>) {
    machine.disturb(0, None);
    cpu().current.set(None);
    unsafe { tasks::delete_lthreads(task) };
    unsafe { tasks::delete(task) };
    machine.check().expect("the kernel is sound");
}

/// All ports of the regions, and the ports beside them that operations name.
fn used() -> impl Iterator<Item = u16> {
    REGIONS.into_iter().flat_map(|first| (0..2 * REGION as u16).filter_map(move |n| first.checked_add(n)))
}

/// Whether a task has each port of the regions, as the processor would see it.
fn look(tasks: &[Ref<Task>], model: &Model) {
    for (number, task) in tasks.iter().enumerate() {
        let has = |port: u16| {
            task.io.get().is_some_and(|io| word(&io.bitmap, port as usize / 64).get() >> (port % 64) & 1 == 0)
        };
        for port in REGIONS.iter().flat_map(|first| (0..REGION as u16).map(move |n| first + n)) {
            assert_eq!(has(port), model.has[number].contains(&port), "task {number}, port {port:#x}");
        }
        assert_eq!(task.io.get().map(|io| io.depth), model.depth[number], "task {number}");
    }
}

#[test]
fn ports_agree_with_a_model_of_each() {
    let (seed, machine) = (seed(0x10), Machine::take());
    println!("ports: seed {seed}");
    let random = Random::new(seed);
    let before = POOL.free_pages.get();
    let (caller, intruder) = threads();
    machine.disturb(2, Some(intruder));
    let mut restarts = 0;
    let number = |task: usize| TASK_FIRST_FREE as u32 + task as u32;
    let mut tasks = vec![task::at(TaskNumber::SIGMA0).expect("it is there")];
    tasks.extend((1..TASKS).map(|task| create(number(task))));
    let mut model = Model::default();
    model.has[0] = (0..=u16::MAX).collect();
    model.depth[0] = Some(0);
    // sigma0 gets its ports when it first gives some.
    assert_eq!(map(tasks[0], tasks[1], 0, 0, false), model.map(0, 1, &BTreeSet::from([0]), false));
    for step in 0..OPERATIONS {
        let pick = |from: usize| from + random.below((TASKS - from) as u64) as usize;
        let log2 = random.below(5) as u8;
        let first = (REGIONS[random.below(3) as usize] + random.below(REGION) as u16) >> log2 << log2;
        let ports: BTreeSet<u16> = (0..1 << log2).map(|n| first + n).collect();
        match random.below(20) {
            0..=10 => {
                let (from, to, grant) = (pick(0), pick(1), random.below(4) == 0);
                let grant = grant && from > 0;
                let told = map(tasks[from], tasks[to], first, log2, grant);
                assert_eq!(told, model.map(from, to, &ports, grant), "step {step}, seed {seed}");
            }
            11..=18 => {
                let (task, itself) = (pick(0), random.below(2) == 0);
                let whole = random.below(8) == 0;
                let ports = if whole { used().collect() } else { ports };
                let named = if whole { (0, 16) } else { (first, log2) };
                restarts += take(tasks[task], named, itself, intruder);
                model.take_back(task, &ports);
                if itself && task > 0 {
                    model.has[task].retain(|port| !ports.contains(port));
                }
            }
            _ => {
                let gone = pick(1);
                unsafe { tasks::delete(tasks[gone]) };
                model.delete(gone);
                tasks[gone] = create(number(gone));
            }
        }
        if step % BETWEEN_LOOKS == 0 {
            look(&tasks, &model);
        }
    }
    tasks[1..].iter().for_each(|task| unsafe { tasks::delete(*task) });
    drop_space(tasks[0]);
    end(&machine, caller.task);
    assert_eq!(POOL.free_pages.get(), before, "pages in use, seed {seed}");
    println!("ports: {OPERATIONS} operations, {restarts} restarted, seed {seed}");
    assert!(restarts > OPERATIONS / 100, "operations were restarted");
}

#[test]
fn ports_are_taken_back_with_looks_for_interrupts_in_bounded_distances() {
    /// Tasks that have all ports from one.
    const MANY: u64 = 200;
    /// The most grants that are processed between two polls for interrupts.
    const BETWEEN: u64 = 100;
    let machine = Machine::take();
    let (caller, intruder) = threads();
    let sigma0 = task::at(TaskNumber::SIGMA0).expect("it is there");
    let tasks: Vec<_> = (0..=MANY as u32).map(|number| create(TASK_FIRST_FREE as u32 + number)).collect();
    let give = || {
        assert_eq!(map(sigma0, tasks[0], 0, 16, false), Ok(true));
        tasks[1..].iter().for_each(|task| assert_eq!(map(tasks[0], *task, 0, 16, false), Ok(true)));
    };
    let looks = MANY * WORDS as u64 / BETWEEN;
    let counted = |what: &str, operate: &dyn Fn() -> u64| {
        let before = machine.polls();
        let turns = operate();
        let polls = machine.polls() - before;
        println!("{what}: {turns} turns, {polls} polls for interrupts");
        assert!(polls > looks, "{what}: {polls} polls for interrupts, expected more than {looks}");
        polls
    };
    give();
    let alone = counted("taken back", &|| take(tasks[0], (0, 16), true, intruder));
    give();
    machine.disturb(1, Some(intruder));
    let beside = counted("taken back beside another task", &|| take(tasks[0], (0, 16), true, intruder));
    assert!(beside < 3 * alone, "{beside} polls for interrupts, alone {alone}");
    machine.disturb(0, None);
    // If no task has any, all grants are processed.
    assert_eq!(map(sigma0, tasks[0], 0, 16, false), Ok(true));
    counted("nothing to take back", &|| take(tasks[0], (0, 16), false, intruder));
    // By grants, each of which is removed for good.
    give();
    counted("a task with ports", &|| {
        unsafe { tasks::delete(tasks[0]) };
        0
    });
    tasks[1..].iter().for_each(|task| unsafe { tasks::delete(*task) });
    drop_space(sigma0);
    end(&machine, caller.task);
}
