// SPDX-License-Identifier: BSD-2-Clause
//! A pager that loads on demand. A program is in a boot module, as an ELF file. Its task begins
//! with an empty address space, and each page is copied from the file at the first access. This is
//! what an operating system does for `exec`, in a task like any other.

#![no_std]
#![no_main]

use keel_l4::abi::call::TASK_SHARED_QUOTA;
use keel_l4::abi::fpage::{FPAGE_READ, PAGE_SIZE};
use keel_l4::abi::memory::AREA_DEFAULT;
use keel_l4::call::Failure;
use keel_l4::elf::{self, Image, Segment};
use keel_l4::ipc::{Message, Received};
use keel_l4::list::List;
use keel_l4::memory::{Memory, Pages};
use keel_l4::message::reply;
use keel_l4::pager::Fault;
use keel_l4::program::Program;
use keel_l4::protocol::boot::{Start, DIRECT_MAP, SHUTDOWN_PANIC, SHUTDOWN_POWER_OFF, START_MAGIC};
use keel_l4::ranges::Range;
use keel_l4::root::Request;
use keel_l4::server::{run_until, Server};
use keel_l4::task::{create, NewTask};
use keel_l4::{print, println, record, thread, utcb, Error};

keel_l4::program!(main);

/// Address of the start record in the guest.
const RECORD: u64 = DIRECT_MAP;
/// Pages that can be loaded.
const MOST: usize = 64;

/// The guest's pager and parent: it serves the requests that other tasks send to the root task.
struct Loader {
    file: &'static [u8],
    image: Image,
    memory: Memory,
    record: Pages,
    /// The loaded pages: address in the guest, address here.
    loaded: List<(u64, u64), MOST>,
    trace: bool,
    /// How the guest ended.
    end: Option<u64>,
}

impl Loader {
    /// The pager's page for the guest's page `page` of `segment`; loaded before, or now.
    fn load(&mut self, page: u64, segment: &Segment) -> Option<u64> {
        if let Some((_, address)) = self.loaded.iter().find(|(known, _)| *known == page) {
            return Some(*address);
        }
        // The page is zero; the part that the file has is copied over it.
        let copy = self.memory.take(1)?;
        let from = page.max(segment.virt.start);
        let bytes = segment.file.start + (from - segment.virt.start);
        let count = (page + PAGE_SIZE - from).min(segment.file.end.saturating_sub(bytes));
        if count > 0 {
            copy.write(from - page, &self.file[bytes as usize..(bytes + count) as usize]);
        }
        if self.trace {
            println!("pager: {page:#x}: {count} bytes from {bytes:#x} of the file");
        }
        self.loaded.push((page, copy.address())).ok()?;
        Some(copy.address())
    }

    /// The answer to the guest's fault; `None` if it has no such page, or not this right.
    fn answer(&mut self, fault: &Fault) -> Option<Message> {
        let page = fault.page();
        if page == RECORD {
            return Some(fault.map(self.record.address(), FPAGE_READ));
        }
        let touched = Range::new(page, page + PAGE_SIZE);
        let segment = *self.image.segments.iter().find(|s| s.virt.overlaps(touched))?;
        if fault.access & !segment.rights != 0 {
            return None;
        }
        Some(fault.map(self.load(page, &segment)?, segment.rights))
    }

    /// Pages of the whole image.
    fn pages(&self) -> u64 {
        self.image.segments.iter().map(|s| s.virt.grow_to(PAGE_SIZE).size() / PAGE_SIZE).sum()
    }
}

impl Server for Loader {
    type Request = Request;

    fn request(&mut self, request: Request, _: &Received) -> Option<Message> {
        match request {
            Request::Print { text } => {
                print::bytes(&text);
                Some(reply(Ok(())))
            }
            // The guest has no other task.
            Request::Restart { .. } => Some(reply::<()>(Err(Error::Denied))),
            Request::Shutdown { code } => {
                self.end = Some(code);
                None
            }
        }
    }

    fn fault(&mut self, fault: &Fault) -> Option<Message> {
        let answer = self.answer(fault);
        if answer.is_none() {
            println!("pager: there is no page for the guest's {fault}");
            self.end = Some(SHUTDOWN_PANIC);
        }
        answer
    }

    fn exception(&mut self, received: &Received) -> Option<Message> {
        println!("pager: the guest has exception {}", received.tag.label());
        self.end = Some(SHUTDOWN_PANIC);
        None
    }
}

/// Makes a start record: the guest's parent and its command line.
fn start_record(memory: &mut Memory) -> Option<Pages> {
    let mut start = Start::zeroed();
    start.magic = START_MAGIC;
    start.root = utcb::my_id().0;
    for (word, chunk) in start.command_line.iter_mut().zip(b"words=page,by,page".chunks(8)) {
        *word = chunk.iter().rev().fold(0, |word, byte| word << 8 | *byte as u64);
    }
    let page = memory.take(1)?;
    record::write(&start, &page);
    Some(page)
}

fn main(mut program: Program) -> Result<(), Failure> {
    let file = program.module();
    let image = elf::parse(file).map_err(|_| Failure::call(Error::Invalid))?;
    let full = Failure::call(Error::NoMemory);
    let new = NewTask {
        number: program.numbers.next().ok_or(full)?,
        max_priority: thread::schedule(utcb::my_id(), 0, 0, 0)?.priority,
        ip: image.entry,
        pager: utcb::my_id().0,
        quota: TASK_SHARED_QUOTA,
        area: AREA_DEFAULT,
        argument: RECORD,
        upper_half: true,
        supervisor: false,
        resident: false,
        ..NewTask::default()
    };
    let record = start_record(&mut program.memory).ok_or(full)?;
    let trace = program.option("trace").is_some();
    let mut loader =
        Loader { file, image, memory: program.memory, record, loaded: List::empty((0, 0)), trace, end: None };
    create(&new)?;
    run_until(&mut loader, |loader| loader.end.is_some());
    let (came, all) = (loader.loaded.len() as u64, loader.pages());
    if trace {
        println!("pager: {came} of {all} pages were loaded");
    }
    println!("pager: {} of the guest was loaded", if came * 4 < all { "less than a quarter" } else { "much" });
    match loader.end {
        Some(SHUTDOWN_POWER_OFF) => Ok(()),
        _ => Err(Failure::call(Error::Aborted)),
    }
}
