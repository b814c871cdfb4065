// SPDX-License-Identifier: BSD-2-Clause
//! Child tasks that run this same program: the text is shared, the data is a copy as it stands when
//! the child is made. The creator is the children's chief and pager, prints what they print, and
//! learns how each of them ended.

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
use keel_abi::boot::SHUTDOWN_POWER_OFF;
use keel_abi::call::TASK_SHARED_QUOTA;
use keel_abi::fpage::{FPAGE_EXEC, FPAGE_READ, FPAGE_WRITE, PAGE_SIZE};
use keel_abi::memory::AREA_DEFAULT;
use keel_abi::{Error, Id};

/// Children that live at the same time.
const CHILDREN: usize = 16;

/// A child's main function; the argument is its chief's.
pub type ChildMain = fn(u64) -> Result<(), Failure>;

/// What a child is to do: main function (0: this is no child), argument, parent. The chief writes it
/// into the child's copy.
static ROLE: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// What a child is to do.
pub(crate) struct Role {
    pub(crate) main: ChildMain,
    pub(crate) argument: u64,
    pub(crate) parent: Id,
}

impl Role {
    /// The calling task's, if it is a child.
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

    /// The program's text, constants and data, and its first instruction, as `program.ld` places them.
    pub fn parts() -> ([Range<u64>; 3], u64) {
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
    /// Whether its end is waited for.
    ends: bool,
}

/// A chief and its children. One thread makes it, starts the children and attends to them.
pub struct Clan {
    numbers: Range<u32>,
    /// The chief's memory. What a child had is not used again.
    pub memory: Memory,
    children: [Option<Child>; CHILDREN],
    lines: Lines,
    failed: bool,
}

impl Clan {
    /// A chief without children yet, with the task numbers and the memory of `program`.
    pub fn new(program: Program) -> Clan {
        let ([text, constants, _], _) = image::parts();
        for page in (text.start..constants.end).step_by(PAGE_SIZE as usize) {
            // What is to be mapped to children must be mapped here first.
            // SAFETY: the page belongs to the image, which the parent maps when it is touched.
            unsafe { (page as *const u8).read_volatile() };
        }
        let Program { numbers, memory, .. } = program;
        Clan { numbers, memory, children: [const { None }; CHILDREN], lines: Lines::new(), failed: false }
    }

    /// Starts a child that runs `main(argument)`, with the chief's priority, and returns its first
    /// thread's id. It waits at its first instruction until [`Clan::attend`].
    pub fn start(&mut self, name: &'static str, main: ChildMain, argument: u64) -> Result<Id, Failure> {
        self.make(name, main, argument, true)
    }

    /// The same for a child that serves the others: it is deleted when they have ended.
    pub fn start_server(&mut self, name: &'static str, main: ChildMain, argument: u64) -> Result<Id, Failure> {
        self.make(name, main, argument, false)
    }

    fn make(&mut self, name: &'static str, main: ChildMain, argument: u64, ends: bool) -> Result<Id, Failure> {
        let full = Failure::call(Error::NoMemory);
        let slot = self.children.iter().position(Option::is_none).ok_or(full)?;
        let number = self.numbers.next().ok_or(full)?;
        let ([.., data], start) = image::parts();
        let copy = self.memory.take((data.end - data.start) / PAGE_SIZE).ok_or(full)?;
        // SAFETY: both are whole, mapped pages of the same size, and the copy is new. Other threads of
        // the chief may write to their data meanwhile; the child gets either value.
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
            ..NewTask::default()
        };
        let task = task::create(&new)?;
        self.children[slot] = Some(Child { name, task, data: copy, ends });
        Ok(thread::first_of(task))
    }

    /// Serves the children until all but the servers have ended. `Aborted` if one failed.
    pub fn attend(&mut self) -> Result<(), Failure> {
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

    /// The answer to a fault of the child in `slot`: its page, where it has one with that right.
    fn page(&self, slot: usize, fault: &Fault) -> Option<Message> {
        let child = self.children[slot].as_ref()?;
        let ([text, constants, data], _) = image::parts();
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

    /// Deletes the child in `slot`; with a reason it has failed.
    fn end(&mut self, slot: usize, reason: Option<core::fmt::Arguments<'_>>) {
        let Some(child) = self.children[slot].take() else {
            return;
        };
        if let Some(reason) = reason {
            self.lines.flush(print::bytes);
            println!("{} failed: {reason}", child.name);
            self.failed = true;
        }
        // The number is the chief's, so nothing speaks against it.
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
            // No child is more important than another.
            Request::Restart { .. } => return Some(reply::<()>(Err(Error::Denied))),
            Request::End { code: SHUTDOWN_POWER_OFF } => self.end(slot, None),
            Request::End { code } => self.end(slot, Some(format_args!("it ended with {code:#x}"))),
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
