// SPDX-License-Identifier: BSD-2-Clause
//! Threads that cases start: in the suite's own task, and as native child tasks that share the
//! suite's memory. Also the ids of the runner, the pager and the worker.

use crate::pool;
use core::sync::atomic::{AtomicU64, Ordering};
use keel_l4::abi::fpage::FPAGE_RWX;
use keel_l4::abi::ids::LTHREAD_TASK;
use keel_l4::abi::memory::AREA_DEFAULT;
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{sleep, Message, Received};
use keel_l4::pager::{Fault, Pager};
use keel_l4::task::{self, NewTask};
pub use keel_l4::thread::{delete as remove, park, Main};
use keel_l4::{thread, utcb, Fpage, Id};

/// Lthread number of the runner, which starts the worker and judges.
pub const RUNNER: u16 = 0;
/// Lthread number of the pager of child tasks.
pub const PAGER: u16 = 1;
/// Lthread number of the worker, which runs the cases.
pub const WORKER: u16 = 2;
/// First lthread number that cases use.
pub const FIRST_HELPER: u16 = 3;
/// Lthread numbers that are cleared after a case.
pub const LAST_HELPER: u16 = 220;

/// Priority of worker and helpers; the pager and the runner are one and two above.
static BASE_PRIORITY: AtomicU64 = AtomicU64::new(0);
/// Unexpected exceptions of child tasks.
static UNEXPECTED: AtomicU64 = AtomicU64::new(0);

/// Sets the suite's priority.
pub fn set_base_priority(priority: u64) {
    BASE_PRIORITY.store(priority, Ordering::Relaxed);
}

/// The priority at which cases run.
pub fn base_priority() -> u64 {
    BASE_PRIORITY.load(Ordering::Relaxed)
}

/// Quota that a child task gets unless a case says otherwise.
pub const QUOTA: u64 = 64;

/// The runner's id, from which those of its task's other lasting threads follow.
static RUNNER_ID: AtomicU64 = AtomicU64::new(0);

/// Notes the calling thread as the runner.
pub fn i_am_the_runner() {
    RUNNER_ID.store(utcb::my_id().0, Ordering::Relaxed);
}

/// The id of the runner or the pager, also for child tasks.
pub fn own(number: u16) -> Id {
    debug_assert!(number == RUNNER || number == PAGER);
    let runner = Id(RUNNER_ID.load(Ordering::Relaxed));
    Id::thread(runner.version(), runner.task(), number, runner.nesting())
}

/// What a new thread of the suite is made of.
#[derive(Clone, Copy)]
pub struct Spawn {
    /// Its lthread number, or any.
    pub number: u16,
    /// Its main function.
    pub main: Main,
    /// That function's argument.
    pub argument: u64,
    /// Its pager.
    pub pager: Id,
    /// Its exception handler.
    pub handler: Id,
    /// The top of its stack; 0: a fresh one.
    pub stack: u64,
}

impl Spawn {
    /// A thread that runs `main(argument)`: the root task is its pager, the runner its handler.
    pub fn new(main: Main, argument: u64) -> Spawn {
        Spawn { number: LTHREAD_TASK as u16, main, argument, pager: Id::ROOT, handler: own(RUNNER), stack: 0 }
    }

    /// Like [`Spawn::new`], on a stack that one thread at a time uses, for threads that are
    /// removed at once.
    pub fn light(main: Main, argument: u64) -> Spawn {
        Spawn { stack: pool::common_stack(), ..Spawn::new(main, argument) }
    }

    /// Like [`Spawn::new`], with the caller as pager and handler.
    pub fn watched(main: Main, argument: u64) -> Spawn {
        let me = utcb::my_id();
        Spawn { pager: me, handler: me, ..Spawn::new(main, argument) }
    }

    /// Creates it, stopped.
    pub fn create(self) -> Result<Id, Failure> {
        self.plan().create()
    }

    /// Creates and starts it.
    pub fn start(self) -> Result<Id, Failure> {
        self.plan().start()
    }

    fn plan(self) -> thread::NewThread {
        thread::NewThread {
            task: utcb::my_id(),
            number: self.number,
            ip: self.main as usize as u64,
            sp: if self.stack == 0 { pool::stack() } else { self.stack },
            pager: self.pager,
            handler: self.handler,
            argument: self.argument,
        }
    }
}

/// Starts a helper in the suite's own task.
pub fn helper(main: Main, argument: u64) -> Result<Id, Failure> {
    Spawn::new(main, argument).start()
}

/// Naps that make up a pause.
const NAPS: u64 = 10;

/// Lets the other threads run for about `nanoseconds`. Each of many short naps gives them a turn,
/// even where the emulator itself is held up for longer than the whole pause.
pub fn pause(nanoseconds: u64) {
    for _ in 0..NAPS {
        sleep(nanoseconds / NAPS);
    }
}

/// A child task with one native lthread, which runs `main(argument)` in the suite's memory.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// Task number.
    pub number: u32,
    /// The task's id.
    pub task: Id,
    /// The id of its first lthread.
    pub thread: Id,
}

/// The description of such a child, to be changed before it is made.
pub fn child_plan(main: Main, argument: u64) -> NewTask {
    NewTask {
        number: pool::task_number(),
        max_priority: base_priority(),
        ip: main as usize as u64,
        sp: pool::stack(),
        pager: own(PAGER).0,
        quota: QUOTA,
        area: AREA_DEFAULT,
        argument,
        upper_half: false,
        supervisor: false,
        resident: false,
    }
}

/// Makes the child of a description.
pub fn make_child(plan: &NewTask) -> Result<Child, Failure> {
    let task = task::create(plan)?;
    Ok(Child { number: plan.number, task, thread: thread::first_of(task) })
}

/// Starts a child task that runs `main(argument)`.
pub fn child(main: Main, argument: u64) -> Result<Child, Failure> {
    make_child(&child_plan(main, argument))
}

/// Deletes the task at `number`.
pub fn remove_task(number: u32) -> Result<(), Failure> {
    task::delete(number, thread::task_of(own(RUNNER)))
}

/// Number of unhandled exceptions of child tasks.
pub fn unexpected() -> u64 {
    UNEXPECTED.load(Ordering::Relaxed)
}

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
}

/// Whether `address` is in the suite's image.
pub fn in_image(address: u64) -> bool {
    let (start, end) = (&raw const __image_start as u64, &raw const __image_end as u64);
    (start..end).contains(&address)
}

/// Touches every page of the image, so that the root task has mapped them all.
pub fn touch_image() {
    let (start, end) = (&raw const __image_start as u64, &raw const __image_end as u64);
    for page in (start..end).step_by(pool::PAGE as usize) {
        pool::peek(page);
    }
}

/// The map item that gives another task the suite's page at `address`, at the same address.
pub fn same_place(address: u64, rights: u64) -> MapItem {
    let page = Fpage::memory(address, 12, rights);
    MapItem { send_base: page.base(), fpage: page.0 }
}

/// The pager of child tasks: gives them the suite's own pages.
struct OwnPages;

impl Pager for OwnPages {
    fn page(&mut self, fault: &Fault) -> Option<Message> {
        if in_image(fault.address) {
            // A pager in a task whose own pages come from elsewhere gets them first.
            pool::peek(fault.page());
            return Some(fault.map(fault.page(), FPAGE_RWX));
        }
        UNEXPECTED.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn exception(&mut self, _: &Received) -> Option<Message> {
        UNEXPECTED.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Serves the page faults of child tasks.
pub extern "C" fn pager(_: u64) -> ! {
    keel_l4::pager::run(&mut OwnPages)
}
