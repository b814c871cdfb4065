// SPDX-License-Identifier: BSD-2-Clause
//! Tasks that run 32-bit code of the boot module, each in a window of this task's page tables (a
//! small address space) or in a space of its own. Their creator is their chief, and by default
//! their pager. It prints their output and reports how each of them ended. One thread owns a
//! [`Small`]. Their library is the crate `keel-l4-32`.

use crate::call::Failure;
use crate::elf::{self, Image};
use crate::ipc::{Message, Received};
use crate::lines::Lines;
use crate::memory::{Memory, Pages};
use crate::message::reply;
use crate::pager::Fault;
use crate::program::Program;
use crate::ranges::Range;
use crate::server::{run_until, Server};
use crate::task::{self, NewTask};
use crate::thread::{self, NewThread};
use crate::{print, println, utcb};
use keel_abi::call::{SMALL_ALL, SMALL_MIN_LOG2, SMALL_PROMOTED, TASK_SHARED_QUOTA};
use keel_abi::fpage::PAGE_SIZE;
use keel_abi::memory::EX_START;
use keel_abi::{Error, Id};
use keel_protocol::boot::SHUTDOWN_POWER_OFF;
use keel_protocol::small::{SMALL_AREA, SMALL_EXIT, SMALL_PRINT, SMALL_START, SMALL_TEXT};

/// The most tasks that a program starts.
const TASKS: usize = 8;
/// The first window: in a GB in which a native program has nothing.
const WINDOWS: u64 = 0x8000_0000;

crate::requests! {
    /// The services for a task of 32-bit code.
    pub enum Request {
        /// Answers what the task is to do.
        Start = SMALL_START,
        /// Prints text, which is in the words after the first six.
        Print {
            /// Their number.
            bytes: u32,
        } = SMALL_PRINT,
        /// The task has ended.
        Exit {
            /// `SHUTDOWN_*`.
            code: u32,
        } = SMALL_EXIT,
    }
}

/// Where a task's code runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In a window of 16 MB of this task's tables.
    Window,
    /// In a space of its own.
    Space,
}

/// A task to be started.
#[derive(Clone, Copy, Debug)]
pub struct New {
    /// Its name in reports.
    pub name: &'static str,
    /// Which of the image's programs it is.
    pub role: u32,
    /// The thread with which it has to do, or nil.
    pub partner: Id,
    /// Where it runs.
    pub place: Place,
    /// Who answers its page faults; nil: this task, from the image.
    pub pager: Id,
    /// Whether [`Small::run`] waits for its end. A server is deleted after the others.
    pub ends: bool,
}

/// A task that was started.
#[derive(Debug)]
struct Task {
    new: New,
    thread: Id,
    /// Its pages, unless another is its pager.
    pages: Option<Pages>,
}

/// A chief and its tasks of 32-bit code.
pub struct Small {
    file: &'static [u8],
    image: Image,
    numbers: core::ops::Range<u32>,
    memory: Memory,
    tasks: [Option<Task>; TASKS],
    lines: Lines,
    failed: bool,
}

impl Small {
    /// A chief without tasks; it takes the task numbers and the memory of `program`, whose boot
    /// module is the image of all tasks. `Invalid` if that is no 32-bit image below
    /// [`SMALL_AREA`] whose segments have pages of their own.
    pub fn new(program: Program) -> Result<Small, Failure> {
        let file = program.module();
        let image = elf::parse_32(file).ok().filter(|image| image.span().end <= SMALL_AREA && !image.shares_pages());
        let Program { numbers, memory, .. } = program;
        Ok(Small {
            file,
            image: image.ok_or(Failure::call(Error::Invalid))?,
            numbers,
            memory,
            tasks: [const { None }; TASKS],
            lines: Lines::new(),
            failed: false,
        })
    }

    /// Starts a task, which waits for [`Small::run`] at its first page fault or request. Returns
    /// the id of its thread. Errors: `NoMemory` if no task, number or memory is left;
    /// `NotSupported` if segments have no limits here, unless the kernel's command line has
    /// `small-unsafe`; and those of `task_new` and `thread_schedule`.
    pub fn start(&mut self, new: New) -> Result<Id, Failure> {
        let full = Failure::call(Error::NoMemory);
        let slot = self.tasks.iter().position(Option::is_none).ok_or(full)?;
        let number = self.numbers.next().ok_or(full)?;
        let me = utcb::my_id();
        let pages = if new.pager == Id::NIL { Some(self.load().ok_or(full)?) } else { None };
        let plan = NewTask {
            number,
            max_priority: thread::schedule(me, 0, 0, 0)?.priority,
            quota: TASK_SHARED_QUOTA,
            area: SMALL_AREA,
            ..NewTask::default()
        };
        let task = task::create_empty(&plan)?;
        let pager = if new.pager == Id::NIL { me } else { new.pager };
        let first = NewThread { task, number: 0, ip: self.image.entry, sp: 0, pager, handler: me, argument: me.0 };
        let thread = first.create().inspect_err(|_| {
            // The task number belongs to the chief, so the call succeeds.
            let _ = task::delete(number, me);
        })?;
        self.tasks[slot] = Some(Task { new, thread, pages });
        let reach = match new.place {
            Place::Window => WINDOWS + ((slot as u64) << SMALL_MIN_LOG2) | SMALL_MIN_LOG2,
            Place::Space => SMALL_ALL,
        };
        let started = thread::set_reach(thread, reach, Id::NIL).and_then(|_| thread::act(thread, EX_START));
        started.inspect_err(|_| self.end(slot, None))
    }

    /// A copy of the image; `None` if no memory is left.
    fn load(&mut self) -> Option<Pages> {
        let span = self.image.span().grow_to(PAGE_SIZE);
        let pages = self.memory.take(span.size() / PAGE_SIZE)?;
        for segment in self.image.segments.iter() {
            let bytes = &self.file[segment.file.start as usize..segment.file.end as usize];
            pages.write(segment.virt.start - span.start, bytes);
        }
        Some(pages)
    }

    /// Serves the tasks until all but servers have ended, or one has failed (`Aborted`). Deletes
    /// all of them.
    pub fn run(&mut self) -> Result<(), Failure> {
        run_until(self, |small| small.failed || !small.tasks.iter().flatten().any(|task| task.new.ends));
        (0..TASKS).for_each(|slot| self.end(slot, None));
        self.lines.flush(print::bytes);
        Error::Aborted.when(self.failed).map_err(Failure::call)
    }

    fn slot(&self, thread: Id) -> Option<usize> {
        self.tasks.iter().position(|task| task.as_ref().is_some_and(|task| task.thread == thread))
    }

    /// The answer to a page fault of the task in `slot`; `None` if it has no page there or not this
    /// right.
    fn page(&self, slot: usize, fault: &Fault) -> Option<Message> {
        let pages = self.tasks[slot].as_ref()?.pages.as_ref()?;
        let page = fault.page();
        let segment = self.image.segments.iter().find(|s| s.virt.overlaps(Range::new(page, page + PAGE_SIZE)))?;
        let start = self.image.span().grow_to(PAGE_SIZE).start;
        (fault.access & !segment.rights == 0).then(|| fault.map(pages.address() + page - start, segment.rights))
    }

    /// Deletes the task in `slot`, and says if it left its window. A reason means that it failed.
    fn end(&mut self, slot: usize, reason: Option<core::fmt::Arguments<'_>>) {
        let Some(task) = self.tasks[slot].take() else {
            return;
        };
        if let Some(reason) = reason {
            self.lines.flush(print::bytes);
            println!("{} failed: {reason}", task.new.name);
            self.failed = true;
        }
        if thread::reach(task.thread).is_ok_and(|reach| reach & SMALL_PROMOTED != 0) {
            println!("{} left its window", task.new.name);
        }
        // The task number belongs to the chief, so the call succeeds.
        let _ = task::delete(task.thread.task(), utcb::my_id());
    }
}

impl Server for Small {
    type Request = Request;

    fn request(&mut self, request: Request, received: &Received) -> Option<Message> {
        let Some(slot) = self.slot(received.from) else {
            return Some(reply::<()>(Err(Error::Denied)));
        };
        match request {
            Request::Start => {
                let new = self.tasks[slot].as_ref()?.new;
                // Words 1 and 2 are those that 32-bit code has no 64 bits for.
                return Some(reply(Ok((new.role, 0u32, 0u32, new.partner))));
            }
            Request::Print { bytes } => {
                let mut text = [0; SMALL_TEXT as usize];
                let came = received.bytes(bytes as u64, &mut text);
                if let Ok(count) = came {
                    self.lines.add(received.from.task(), &text[..count], print::bytes);
                }
                return Some(reply(came.map(|_| ())));
            }
            Request::Exit { code } if code as u64 == SHUTDOWN_POWER_OFF => self.end(slot, None),
            Request::Exit { code } => self.end(slot, Some(format_args!("it ended with {code:#x}"))),
        }
        None
    }

    fn fault(&mut self, fault: &Fault) -> Option<Message> {
        let slot = self.slot(fault.thread)?;
        let answer = self.page(slot, fault);
        if answer.is_none() {
            self.end(slot, Some(format_args!("{fault}")));
        }
        answer
    }

    fn exception(&mut self, received: &Received) -> Option<Message> {
        let slot = self.slot(received.from)?;
        self.end(slot, Some(format_args!("exception {} at ip {:#x}", received.tag.label(), received.words[1])));
        None
    }
}
