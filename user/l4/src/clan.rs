// SPDX-License-Identifier: BSD-2-Clause
//! Child tasks that run the same program. The text is shared; the data is a copy of the chief's
//! data at the time of the child's creation. The creator is the children's chief and pager. It
//! prints their output and reports how each of them ended. One thread owns a [`Clan`].

use crate::call::Failure;
use crate::ipc::{Message, Received};
use crate::lines::Lines;
use crate::memory::{Memory, Pages};
use crate::message::reply;
use crate::pager::Fault;
use crate::program::Program;
use crate::root::Request;
use crate::server::{run_until, Server};
use crate::task::{self, NewTask};
use crate::{print, println, thread, utcb};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use keel_abi::call::TASK_SHARED_QUOTA;
use keel_abi::fpage::{FPAGE_EXEC, FPAGE_READ, FPAGE_WRITE, PAGE_SIZE};
use keel_abi::memory::AREA_DEFAULT;
use keel_abi::{Error, Id};
use keel_protocol::boot::SHUTDOWN_POWER_OFF;

/// The most children that exist at the same time.
const CHILDREN: usize = 16;

/// A child's main function. The chief chooses the argument.
pub type ChildMain = fn(u64) -> Result<(), Failure>;

/// The child's role: main function (0: this task is no child), argument, parent. The chief writes
/// it into the child's copy of the data.
static ROLE: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// A child's role.
pub(crate) struct Role {
    pub(crate) main: ChildMain,
    pub(crate) argument: u64,
    pub(crate) parent: Id,
}

impl Role {
    /// The role of the calling task, if it is a child.
    pub(crate) fn mine() -> Option<Role> {
        let [main, argument, parent] = [0, 1, 2].map(|index: usize| ROLE[index].load(Ordering::Relaxed));
        if main == 0 {
            return None;
        }
        // SAFETY: only `Clan::start` writes there, the address of a `ChildMain` of this same image.
        let main = unsafe { core::mem::transmute::<usize, ChildMain>(main as usize) };
        Some(Role { main, argument, parent: Id(parent) })
    }
}

mod image {
    unsafe extern "C" {
        static __image_start: u8;
        static __rodata_start: u8;
        static __data_start: u8;
        static __image_end: u8;
        static _start: u8;
    }

    use core::ops::Range;

    /// The ranges of the program's text, constants and data, and the address of its first
    /// instruction, as `program.ld` places them.
    pub fn ranges() -> ([Range<u64>; 3], u64) {
        let start = &raw const __image_start as u64;
        let rodata = &raw const __rodata_start as u64;
        let data = &raw const __data_start as u64;
        let end = &raw const __image_end as u64;
        ([start..rodata, rodata..data, data..end], &raw const _start as u64)
    }
}

/// A child.
#[derive(Debug)]
struct Child {
    name: &'static str,
    task: Id,
    data: Pages,
    /// Whether [`Clan::run`] waits for its end.
    ends: bool,
}

/// A chief and its children. The thread that creates the value also starts and serves the children.
pub struct Clan {
    numbers: Range<u32>,
    /// The chief's memory. Memory of a deleted child is not used again.
    pub memory: Memory,
    children: [Option<Child>; CHILDREN],
    lines: Lines,
    failed: bool,
}

impl Clan {
    /// Creates a chief without children; it takes the task numbers and the memory of `program`.
    pub fn new(program: Program) -> Clan {
        let ([text, constants, _], _) = image::ranges();
        for page in (text.start..constants.end).step_by(PAGE_SIZE as usize) {
            // Only a page that is mapped here can be mapped to children. SAFETY: the page belongs
            // to the image, which the parent maps at the first access.
            unsafe { (page as *const u8).read_volatile() };
        }
        let Program { numbers, memory, .. } = program;
        Clan { numbers, memory, children: [const { None }; CHILDREN], lines: Lines::new(), failed: false }
    }

    /// Creates a child that runs `main(argument)` at the chief's priority, and returns the id of
    /// its first thread. The child waits at its first instruction until [`Clan::run`]. Errors:
    /// `NoMemory` if no child, task number or memory is left, and those of task_new.
    pub fn start(&mut self, name: &'static str, main: ChildMain, argument: u64) -> Result<Id, Failure> {
        self.make(name, main, argument, true)
    }

    /// Like [`Clan::start`], for a child that serves the others. [`Clan::run`] deletes it when
    /// the others have ended.
    pub fn start_server(&mut self, name: &'static str, main: ChildMain, argument: u64) -> Result<Id, Failure> {
        self.make(name, main, argument, false)
    }

    fn make(&mut self, name: &'static str, main: ChildMain, argument: u64, ends: bool) -> Result<Id, Failure> {
        let full = Failure::call(Error::NoMemory);
        let slot = self.children.iter().position(Option::is_none).ok_or(full)?;
        let number = self.numbers.next().ok_or(full)?;
        let ([.., data], start) = image::ranges();
        let copy = self.memory.take((data.end - data.start) / PAGE_SIZE).ok_or(full)?;
        // SAFETY: both are whole, mapped pages of the same size, and the copy is new. Other threads
        // of the chief may write to their data meanwhile; the child gets either value.
        unsafe { core::ptr::copy(data.start as *const u8, copy.address() as *mut u8, copy.size() as usize) };
        let role = [main as usize as u64, argument, utcb::my_id().0].map(u64::to_le_bytes);
        copy.write(&raw const ROLE as u64 - data.start, role.as_flattened());
        let new = NewTask {
            number,
            max_priority: thread::schedule(utcb::my_id(), 0, 0, 0)?.priority,
            ip: start,
            pager: utcb::my_id().0,
            quota: TASK_SHARED_QUOTA,
            area: AREA_DEFAULT,
            upper_half: true,
            supervisor: false,
            resident: false,
            ..NewTask::default()
        };
        let task = task::create(&new)?;
        self.children[slot] = Some(Child { name, task, data: copy, ends });
        Ok(thread::first_of(task))
    }

    /// Serves the children until all children other than servers have ended, or one has failed
    /// (`Aborted`). Deletes all of them.
    pub fn run(&mut self) -> Result<(), Failure> {
        run_until(self, |clan| clan.failed || !clan.children.iter().flatten().any(|child| child.ends));
        (0..CHILDREN).for_each(|slot| self.end(slot, None));
        self.lines.flush(print::bytes);
        if self.failed {
            Err(Failure::call(Error::Aborted))
        } else {
            Ok(())
        }
    }

    fn slot(&self, thread: Id) -> Option<usize> {
        self.children.iter().position(|child| child.as_ref().is_some_and(|c| c.task.task() == thread.task()))
    }

    /// The answer to a page fault of the child in `slot`; `None` if the child has no page there or
    /// not this right.
    fn page(&self, slot: usize, fault: &Fault) -> Option<Message> {
        let child = self.children[slot].as_ref()?;
        let ([text, constants, data], _) = image::ranges();
        let page = fault.page();
        let (from, rights) = if text.contains(&page) {
            (page, FPAGE_READ | FPAGE_EXEC)
        } else if constants.contains(&page) {
            (page, FPAGE_READ)
        } else if data.contains(&page) {
            (child.data.address() + page - data.start, FPAGE_READ | FPAGE_WRITE)
        } else {
            return None;
        };
        (fault.access & !rights == 0).then(|| fault.map(from, rights))
    }

    /// Deletes the child in `slot`. A reason means that it failed.
    fn end(&mut self, slot: usize, reason: Option<core::fmt::Arguments<'_>>) {
        let Some(child) = self.children[slot].take() else {
            return;
        };
        if let Some(reason) = reason {
            self.lines.flush(print::bytes);
            println!("{} failed: {reason}", child.name);
            self.failed = true;
        }
        // The task number belongs to the chief, so the call succeeds.
        let _ = task::delete(child.task.task(), utcb::my_id());
    }
}

impl Server for Clan {
    type Request = Request;

    fn request(&mut self, request: Request, received: &Received) -> Option<Message> {
        let Some(slot) = self.slot(received.from) else {
            return Some(reply::<()>(Err(Error::Denied)));
        };
        match request {
            Request::Print { text } => {
                self.lines.add(received.from.task(), &text, print::bytes);
                return Some(reply(Ok(())));
            }
            // A child has no right over another.
            Request::Restart { .. } => return Some(reply::<()>(Err(Error::Denied))),
            Request::Shutdown { code: SHUTDOWN_POWER_OFF } => self.end(slot, None),
            Request::Shutdown { code } => self.end(slot, Some(format_args!("it ended with {code:#x}"))),
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
