// SPDX-License-Identifier: GPL-2.0-only
//! Ids: tasks and lthreads are created and deleted, and no id is ever used for another task or
//! thread.

use super::*;
use crate::arch::Machine;
use crate::base::facts::{Word, WORDS_GIVEN};
use crate::random::{seed, Random};
use crate::sys::{lthreads, tasks::*};
use keel_abi::call::TASK_SHARED_QUOTA;
use keel_abi::fpage::{PAGE_SIZE, UPPER_END, UPPER_START, USER_END};
use keel_abi::memory::{AREA_DEFAULT, AREA_SIZE, AREA_SMALL_SIZE};
use keel_abi::programs::AREA_UPPER;
use std::collections::{BTreeMap, BTreeSet};

const OPERATIONS: u64 = 150_000;
/// The task numbers, and the lthread numbers: in the task itself, and in two pages of its
/// directory.
const NUMBERS: u64 = 6;
const LTHREADS: [u16; 8] = [0, 1, 2, 3, 4, 5, 511, 512];
/// Old ids that are checked after each operation.
const LOOKS: u64 = 4;

#[derive(Default)]
struct Model {
    tasks: BTreeMap<u32, Ref<Task>>,
    alive: BTreeMap<Id, Ref<Thread>>,
    /// All ids of threads and tasks so far, in the order of their assignment.
    given: Vec<Id>,
    known: BTreeSet<Id>,
}

impl Model {
    fn gives(&mut self, id: Id) {
        assert!(self.known.insert(id), "{id:?} is given out a second time");
        self.given.push(id);
    }

    fn task_goes(&mut self, number: u32) {
        self.tasks.remove(&number);
        self.alive.retain(|id, _| id.task() != number);
    }

    /// An id names the same object as at its assignment, or nothing.
    fn look(&self, id: Id) {
        if id.lthread() == LTHREAD_TASK as u16 {
            let task = self.tasks.get(&id.task()).copied().filter(|task| task.id() == id);
            assert!(find(id) == task, "{id:?} names another task");
        } else {
            assert!(thread::find(id) == self.alive.get(&id).copied(), "{id:?} names another thread");
        }
    }
}

/// A new lthread with this number, or any.
fn new_lthread(model: &mut Model, task: Ref<Task>, lthread: u16) {
    let plan = thread::Plan { lthread, frame: None, priority: 0, pager: Id::NIL };
    match lthreads::create(task, &plan) {
        Ok(thread) => {
            assert!(lthread == LTHREAD_TASK as u16 || thread.id.lthread() == lthread);
            model.gives(thread.id);
            model.alive.insert(thread.id, thread);
        }
        Err(error) => {
            let there = model.alive.keys().any(|id| (id.task(), id.lthread()) == (task.number.raw(), lthread));
            assert!(error == Error::Busy && there, "{error:?}");
        }
    }
}

#[test]
fn no_id_names_anybody_else_later() {
    let (seed, machine) = (seed(0x1d), Machine::take());
    println!("ids: seed {seed}");
    machine.disturb(50, None);
    let random = Random::new(seed);
    let before = POOL.free_pages.get();
    let mut model = Model::default();
    for step in 0..OPERATIONS {
        let number = TASK_FIRST_FREE as u32 + random.below(NUMBERS) as u32;
        let lthread = LTHREADS[random.below(LTHREADS.len() as u64) as usize];
        match (random.below(40), model.tasks.get(&number).copied()) {
            (_, None) => {
                let (chief, quota) = (at(TaskNumber::ROOT), TASK_SHARED_QUOTA);
                let plan = Plan {
                    number: TaskNumber::new(number),
                    chief,
                    mcp: 0,
                    quota,
                    area: AREA_DEFAULT,
                    upper: false,
                    supervisor: false,
                    resident: false,
                };
                let task = create(&plan).expect("there is memory");
                model.gives(task.id());
                model.tasks.insert(number, task);
            }
            (0, Some(task)) => {
                unsafe { delete_lthreads(task) };
                unsafe { delete(task) };
                model.task_goes(number);
            }
            (1, Some(task)) => new_lthread(&mut model, task, LTHREAD_TASK as u16),
            (2..=20, Some(task)) => new_lthread(&mut model, task, lthread),
            (_, Some(task)) => {
                if let Some(thread) = task.lthread(lthread) {
                    assert!(model.alive.remove(&thread.id) == Some(thread), "step {step}, seed {seed}");
                    unsafe { lthreads::delete(thread) };
                }
            }
        }
        for _ in 0..LOOKS {
            model.look(model.given[random.below(model.given.len() as u64) as usize]);
        }
    }
    for id in &model.given {
        model.look(*id);
    }
    machine.check().expect("the kernel is sound");
    model.tasks.values().for_each(|task| {
        unsafe { delete_lthreads(*task) };
        unsafe { delete(*task) };
    });
    assert_eq!(POOL.free_pages.get(), before, "pages in use, seed {seed}");
    println!("ids: {OPERATIONS} operations, {} ids, seed {seed}", model.given.len());
}

/// A task that has all the memory of the root task, and no lthread yet.
fn task_at(number: u32) -> Ref<Task> {
    let (number, chief) = (TASK_FIRST_FREE as u32 + number, at(TaskNumber::ROOT));
    create(&Plan {
        number: TaskNumber::new(number),
        chief,
        mcp: 0,
        quota: TASK_SHARED_QUOTA,
        area: AREA_DEFAULT,
        upper: false,
        supervisor: false,
        resident: false,
    })
    .expect("there is memory")
}

#[test]
fn a_kernel_area_in_the_upper_half_is_memory_of_its_own_there() {
    let _machine = Machine::take();
    let words = WORDS_GIVEN.get();
    let (upper_last, lower_last) = (UPPER_END - AREA_SIZE, USER_END + PAGE_SIZE - AREA_SIZE);
    for supervisors in [false, true] {
        WORDS_GIVEN.set(words & !(1 << Word::Supervisor as u32) | (supervisors as u32) << Word::Supervisor as u32);
        for (area, upper) in
            [(0, true), (0, false), (AREA_DEFAULT, false), (AREA_SMALL_SIZE, false), (lower_last, false)]
                .into_iter()
                .chain([(UPPER_START, false), (AREA_UPPER, false), (AREA_UPPER, true), (upper_last, false)])
        {
            let (number, chief) = (TaskNumber::FIRST_FREE, at(TaskNumber::ROOT));
            let (quota, supervisor) = (TASK_SHARED_QUOTA, false);
            let plan = Plan { number, chief, mcp: 0, quota, area, upper, supervisor, resident: false };
            let task = create(&plan).expect("there is memory");
            let is_own = supervisors && (upper || area >= UPPER_START);
            assert_eq!(task.half(), if is_own { OWN_HALF } else { PhysAddr::NONE }, "area {area:#x}, {upper}");
            unsafe { delete(task) };
        }
    }
    WORDS_GIVEN.set(words);
}

/// A new lthread with any number.
fn any_lthread(task: Ref<Task>) -> Ref<Thread> {
    let plan = thread::Plan { lthread: LTHREAD_TASK as u16, frame: None, priority: 0, pager: Id::NIL };
    lthreads::create(task, &plan).expect("there is memory")
}

#[test]
fn a_number_is_found_without_a_walk_over_living_lthreads() {
    /// The number of existing lthreads, and of creations beside them.
    const LIVING: usize = 4_000;
    const CREATIONS: u64 = 20_000;
    let machine = Machine::take();
    let (task, random) = (task_at(0), Random::new(7));
    let polls_of = |work: &mut dyn FnMut()| {
        let before = machine.polls();
        work();
        machine.polls() - before
    };
    let mut living = Vec::new();
    let first = polls_of(&mut || living.push(any_lthread(task)));
    let growing = polls_of(&mut || (1..LIVING).for_each(|_| living.push(any_lthread(task))));
    let (mut creating, mut longest) = (0, 0);
    for _ in 0..CREATIONS {
        let place = random.below(LIVING as u64) as usize;
        unsafe { lthreads::delete(living[place]) };
        let polls = polls_of(&mut || living[place] = any_lthread(task));
        (creating, longest) = (creating + polls, longest.max(polls));
    }
    let most = living.iter().map(|thread| thread.id.lthread()).max().expect("they live");
    println!("numbers: the first {first} polls, {growing} for {LIVING}, {creating} for {CREATIONS} beside them (at most {longest})");
    println!("numbers: {most} is the greatest of {LIVING}");
    assert!(growing <= (first + 1) * LIVING as u64, "{growing} polls for {LIVING} lthreads");
    assert!(creating <= (first + 1) * CREATIONS, "{creating} polls for {CREATIONS} lthreads");
    assert!(most as usize <= LIVING + LIVING / 3, "{most} for {LIVING} lthreads");
    unsafe { delete_lthreads(task) };
    unsafe { delete(task) };
}

#[test]
fn versions_of_numbers_are_used_evenly() {
    const CREATIONS: u32 = 3_000;
    let _machine = Machine::take();
    let task = task_at(0);
    any_lthread(task);
    let mut versions = BTreeMap::new();
    for _ in 0..CREATIONS {
        let thread = any_lthread(task);
        versions.insert(thread.id.lthread(), thread.id.version() - task.version + 1);
        unsafe { lthreads::delete(thread) };
    }
    let share = CREATIONS / (INLINE_LTHREADS as u32 - 1);
    assert!(versions.values().all(|version| *version <= share + 1), "{versions:?}");
    assert!(task.directory.get() == PoolPage::NONE, "its numbers lie in the task");
    unsafe { delete_lthreads(task) };
    unsafe { delete(task) };
}

#[test]
fn a_slot_whose_versions_are_used_up_is_retired() {
    let _machine = Machine::take();
    let plan = |number| Plan {
        number,
        chief: at(TaskNumber::ROOT),
        mcp: 0,
        quota: TASK_SHARED_QUOTA,
        area: AREA_DEFAULT,
        upper: false,
        supervisor: false,
        resident: false,
    };
    let (first, second) = (TaskNumber::FIRST_FREE, TaskNumber::new(TASK_FIRST_FREE as u32 + 1));
    let task = create(&plan(first)).expect("there is memory");
    let lthread =
        |number| lthreads::create(task, &thread::Plan { lthread: number, frame: None, priority: 0, pager: Id::NIL });
    // As if it had been created and deleted that often.
    task.slot(1).expect("it is in the task").set((VERSION_MAX as u64 - 1) << 1 | 1);
    let last = lthread(1).expect("one version is left");
    assert_eq!(last.id.version(), VERSION_MAX);
    unsafe { lthreads::delete(last) };
    assert_eq!(lthread(1).err(), Some(Error::Retired));
    assert_eq!(lthread(LTHREAD_TASK as u16).map(|thread| thread.id.lthread()), Ok(0), "another number is left");
    unsafe { delete_lthreads(task) };
    unsafe { delete(task) };
    assert_eq!(create(&plan(first)).err(), Some(Error::Retired), "a task begins with the versions of its lthreads");
    entry(second).expect("a number").version.set(VERSION_MAX);
    assert_eq!(create(&plan(second)).err(), Some(Error::Retired));
    // Other tests use these numbers.
    [first, second].into_iter().filter_map(entry).for_each(|entry| entry.version.set(VERSION_MAX / 2));
}
