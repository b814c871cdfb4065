// SPDX-License-Identifier: BSD-2-Clause
//! Table 5: the virtual memory operations of Appel and Li, by a pager in another space.
//! bench/guest/appel.c does the same with Linux's signals. Both access the pages in this order.

use super::{part, row_of_parts};
use crate::partner::*;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::{KIND_PAGE_FAULT, UNMAP_RIGHTS};
use keel_l4::abi::fpage::{FPAGE_READ, FPAGE_WRITE, PAGE_SHIFT, PAGE_SIZE};
use keel_l4::abi::memory::EX_PAGER;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, send_and_wait, wait, Message, Received, Timeout};
use keel_l4::pager::Fault;
use keel_l4::protocol::boot::Start;
use keel_l4::{mapping, Error, Fpage, Id};

/// As many as in the paper. The step from page to page has no common divisor with them.
const CLOSED_PAGES: u64 = 100;
const STEP: u64 = 37;
const ROUNDS: u64 = 5;

/// The pager's action at a fault.
#[repr(u64)]
#[derive(Clone, Copy)]
enum Answer {
    /// It maps the page.
    Open,
    /// It maps the page read-only.
    OpenToRead,
    /// A part ends, then it maps the page.
    EndPart,
    /// It unmaps the page that it mapped last, and maps this one.
    OpenAndClose,
}

static ANSWER: AtomicU64 = AtomicU64::new(0);
/// The memory that the pager maps, and the open page of it.
static MEMORY: AtomicU64 = AtomicU64::new(0);
static OPEN: AtomicU64 = AtomicU64::new(0);
static PAGER: AtomicU64 = AtomicU64::new(0);

/// The pager's page for access number `access`, and the subject's.
fn own_page(access: u64) -> u64 {
    MEMORY.load(Relaxed) + offset(access)
}

fn offset(access: u64) -> u64 {
    access * STEP % CLOSED_PAGES * PAGE_SIZE
}

fn close(page: u64) -> Result<(), Failure> {
    mapping::unmap(Fpage::memory(page, PAGE_SHIFT as u8, 0), UNMAP_RIGHTS).map(|_| ())
}

fn close_all() -> Result<(), Failure> {
    let start = MEMORY.load(Relaxed);
    mapping::blocks(start, 0, start + CLOSED_PAGES * PAGE_SIZE)
        .try_for_each(|(at, log2)| mapping::unmap(Fpage::memory(at, log2, 0), UNMAP_RIGHTS).map(|_| ()))
}

/// Answers faults; any other message closes all pages.
extern "C" fn pager(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) if got.tag.kind() == KIND_PAGE_FAULT => {
                let answer = resolve(&got);
                send_and_wait(got.from, answer, Timeout::Never, Timeout::Never)
            }
            Ok(got) => {
                let closed = close_all().map_or_else(|failure| failure.error as u32, |()| 0);
                send_and_wait(got.from, Message::label(closed), Timeout::Never, Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

#[inline]
fn resolve(got: &Received) -> Message {
    let answer = ANSWER.load(Relaxed);
    if answer == Answer::EndPart as u64 {
        part::ends();
    }
    let fault = Fault::of(got);
    let page = MEMORY.load(Relaxed) + (fault.page() - WINDOW);
    if answer == Answer::OpenAndClose as u64 && close(OPEN.swap(page, Relaxed)).is_err() {
        // An answer that does not help: the subject faults again until the test's time limit.
        return Message::label(0);
    }
    fault.map(page, if answer == Answer::OpenToRead as u64 { FPAGE_READ } else { FPAGE_READ | FPAGE_WRITE })
}

/// The subject's action; the message has the number of accesses.
#[repr(u32)]
#[derive(Clone, Copy)]
enum Task {
    /// It accesses its image.
    Prepare,
    /// It accesses a page that stays mapped, like a program with other pages, so that the page
    /// table is not freed each time.
    Stay,
    /// It reads the pages, outside of any part.
    Read,
    /// It reads the pages.
    Fault,
    /// It writes to each page. Each access is a part, which the pager ends.
    Trap,
    /// It writes to each page.
    Write,
    /// It writes to each page. Before each round all are closed.
    CloseAndWrite,
}

/// Answers with the number of correct bytes that it read.
extern "C" fn subject(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) => {
                let done = work(got.tag.label(), got.words[0]);
                let (label, word) = done.map_or_else(|failure| (failure.error as u32, 0), |word| (0, word));
                send_and_wait(got.from, Message::new(label, &[word]), Timeout::Never, Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

fn work(task: u32, count: u64) -> Result<u64, Failure> {
    let pager = Id(PAGER.load(Relaxed));
    let page = |access| (WINDOW + offset(access)) as *mut u8;
    let mut right = 0;
    if task == Task::Prepare as u32 {
        touch_image();
        return Ok(count);
    }
    if task == Task::Stay as u32 {
        touch(WINDOW + CLOSED_PAGES * PAGE_SIZE..WINDOW + (CLOSED_PAGES + 1) * PAGE_SIZE);
        return Ok(count);
    }
    let one_part = task != Task::Trap as u32 && task != Task::Read as u32;
    if one_part {
        part::begins();
    }
    for access in 1..=count {
        let place = page(access);
        // SAFETY: the window belongs to this thread, and its pager maps missing pages.
        unsafe {
            if task == Task::Fault as u32 || task == Task::Read as u32 {
                right += (place.read_volatile() == mark(access)) as u64;
                continue;
            }
            if task == Task::CloseAndWrite as u32 && access % CLOSED_PAGES == 1 {
                call(pager, Message::label(0))?.accepted()?;
            } else if task == Task::Trap as u32 {
                part::begins();
            }
            place.write_volatile(mark(access));
        }
        right += 1;
    }
    if one_part {
        part::ends();
    }
    Ok(right)
}

/// The content of a page after the access of this number.
fn mark(access: u64) -> u8 {
    (offset(access) / PAGE_SIZE) as u8 + 1
}

/// The subject, its pager and the pages.
struct Stage {
    pager: Partner,
    subject: Partner,
}

impl Stage {
    fn set(record: &Start) -> Result<Stage, Failure> {
        // The half that no row maps as a superpage.
        let memory = large_memory(record)?;
        MEMORY.store(first_byte(memory) + memory.size() / 2, Relaxed);
        OPEN.store(own_page(0), Relaxed);
        for access in 0..CLOSED_PAGES {
            // SAFETY: memory of this task that nothing else uses.
            unsafe { (own_page(access) as *mut u8).write_volatile(mark(access)) };
        }
        let pager = Partner::start(Space::Same, pager, 0)?;
        PAGER.store(pager.id.0, Relaxed);
        let subject = Partner::start(Space::Other, subject, 0)?;
        let stage = Stage { pager, subject };
        stage.ask(Task::Prepare, 0)?;
        subject.set_fault_endpoint(pager.id, EX_PAGER)?;
        answer(Answer::Open);
        stage.ask(Task::Stay, 0)?;
        Ok(stage)
    }

    fn ask(&self, task: Task, count: u64) -> Result<(), Failure> {
        let answer = call(self.subject.id, Message::new(task as u32, &[count]))?.accepted()?;
        if answer.words[0] != count {
            return Err(Failure::call(Error::Invalid));
        }
        Ok(())
    }

    /// Checks that each page has the content that was written to it.
    fn end(self) -> Result<(), Failure> {
        // SAFETY: as in `set`.
        let right = |access: &u64| unsafe { (own_page(*access) as *const u8).read_volatile() == mark(*access) };
        if (0..CLOSED_PAGES).filter(right).count() as u64 != CLOSED_PAGES {
            return Err(Failure::call(Error::Invalid));
        }
        self.subject.end()?;
        self.pager.end()
    }
}

fn answer(with: Answer) {
    ANSWER.store(with as u64, Relaxed);
}

/// Reads of pages that are missing; the pager maps them.
pub fn fault(name: &'static str, record: &Start) -> Result<(), Failure> {
    let stage = Stage::set(record)?;
    answer(Answer::Open);
    row_of_parts(name, CLOSED_PAGES, |count| {
        close_all()?;
        stage.ask(Task::Fault, count)
    })?;
    stage.end()
}

/// Writes to read-only pages, up to the pager's first instruction.
pub fn trap(name: &'static str, record: &Start) -> Result<(), Failure> {
    let stage = Stage::set(record)?;
    row_of_parts(name, CLOSED_PAGES, |count| {
        close_all()?;
        answer(Answer::OpenToRead);
        stage.ask(Task::Read, count)?;
        answer(Answer::EndPart);
        stage.ask(Task::Trap, count)
    })?;
    stage.end()
}

/// One page is open. The next one is opened, and the first is closed.
pub fn appel1(name: &'static str, record: &Start) -> Result<(), Failure> {
    let stage = Stage::set(record)?;
    answer(Answer::OpenAndClose);
    row_of_parts(name, ROUNDS * CLOSED_PAGES, |count| stage.ask(Task::Write, count))?;
    stage.end()
}

/// All pages are closed in one step and opened one by one.
pub fn appel2(name: &'static str, record: &Start) -> Result<(), Failure> {
    let stage = Stage::set(record)?;
    answer(Answer::Open);
    row_of_parts(name, ROUNDS * CLOSED_PAGES, |count| stage.ask(Task::CloseAndWrite, count))?;
    stage.end()
}
