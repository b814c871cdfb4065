// SPDX-License-Identifier: BSD-2-Clause
//! A hostile server: a task with all that the root task gives Linux, except the hardware. Its
//! threads attack like those of the gangs, but from another clan: the root task, sigma0, the
//! witness, each other, and the tasks that they create.
//!
//! The first thread is their pager. It reports the number of their calls to the witness, and ends
//! the server when it has lived long enough or makes no progress. The root task restarts the server
//! then, also when the attackers shut it down and when the witness gets no reports.

use crate::attack;
use crate::judge::Options;
use crate::pager;
use crate::places::*;
use crate::random::Random;
use crate::witness;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;
use keel_l4::abi::call::{
    FRAME_NONE, KIND_EXCEPTION, KIND_PAGE_FAULT, KIND_PREEMPTION, KIND_TRIGGER, TAG_REDIRECTED, UNMAP_FLUSH,
};
use keel_l4::abi::fpage::*;
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{send, wait, Message, Received, Timeout};
use keel_l4::kip::{kip, now};
use keel_l4::mapping::unmap;
use keel_l4::pager::Fault;
use keel_l4::protocol::boot::{Start, SHUTDOWN_PANIC, SHUTDOWN_REBOOT};
use keel_l4::thread::{self, task_of, Main, NewThread};
use keel_l4::{println, record, root, sigma0, start, utcb, Error, Fpage, Id};

/// The number of its attackers at the start. They have the lthreads from 1 on.
const THREADS: u64 = 4;
/// Nanoseconds between two checks of the attackers.
const LOOK: u64 = 4_000_000;
/// Checks without a call after which the server ends itself.
const PATIENCE: u32 = 8;
/// Calls and nanoseconds after which the server ends itself in any case: calls that process a large
/// space take long.
const LIFE: u64 = 5_000;
const LONGEST: u64 = 200_000_000;
/// One life in this many begins with a request that takes the kernel long.
const CROWDED: u64 = 4;
/// In one life in this many the attackers attack even the first thread; such a life ends soon.
const WILD: u64 = 4;
/// Size of the parts of its memory for den and arena.
const SUPERPAGE: u64 = 1 << ARENA_LOG2;
/// Log2 of the memory that it requests where small pages are mapped.
const CROWD_LOG2: u8 = 27;

struct Server {
    me: Id,
    random: Random,
    /// Physical addresses of den and arena.
    den: u64,
    arena: u64,
    /// Start of this life.
    born: u64,
    /// Time of the last check, and the calls that were made and reported until then.
    looked: u64,
    made: u64,
    told: u64,
    idle: u32,
}

/// Attacks until it ends.
pub fn run(record: &Start) -> Result<u32, Failure> {
    let options = Options::read(record::command_line(record));
    let me = utcb::my_id();
    let regions = record.regions.chunks_exact(3).take(record.region_count as usize);
    let largest = regions.max_by_key(|region| region[1] - region[0]).ok_or(Failure::call(Error::NoMemory))?;
    let end = largest[1] / SUPERPAGE * SUPERPAGE;
    // Each life uses another seed.
    let seed = options.seed ^ now();
    println!("hostile: a server with seed {seed}");
    let random = Random::new(seed);
    let (den, arena) = (end - SUPERPAGE, end - 2 * SUPERPAGE);
    let mut server = Server { me, random, den, arena, born: now(), looked: now(), made: 0, told: 0, idle: 0 };
    FIRST_TASK.store(record.task_first, Relaxed);
    PAGER.store(me.0, Relaxed);
    for (leader, id) in LEADERS.iter().zip([Id::ROOT, Id::ROOT, Id::SIGMA0, Id::SIGMA0, witness::id(me), me]) {
        leader.store(task_of(id).0, Relaxed);
    }
    if !server.random.once_in(WILD) {
        HIGHEST.store(record.priority + PRIORITIES_ABOVE - 1, Relaxed);
    }
    thread::set_priority(me, record.priority + PRIORITIES_ABOVE)?;
    if server.random.once_in(CROWDED) {
        // It may have less memory.
        let _ = crowd(end - 2 * SUPERPAGE);
    }
    server.map();
    for number in 1..=THREADS {
        // An attacker that started before may have taken the number.
        let _ = server.start(number, record.priority);
    }
    server.serve()
}

/// Makes the root task map large pages where small ones are mapped, each of which the kernel must
/// unmap first. That takes long and must not delay tasks of higher priority.
fn crowd(end: u64) -> Result<(), Failure> {
    let size = 1 << CROWD_LOG2;
    let memory = Fpage::memory((end - size) / size * size, CROWD_LOG2, FPAGE_RWX);
    let window = Fpage::memory(WINDOW, CROWD_LOG2, FPAGE_RWX);
    sigma0::map(memory, window)?;
    for page in (WINDOW..WINDOW + size).step_by(SUPERPAGE as usize) {
        unmap(Fpage::memory(page, PAGE_SHIFT as u8, FPAGE_RWX), FPAGE_RWX | UNMAP_FLUSH)?;
    }
    sigma0::map(memory, window).map(|_| ())
}

impl Server {
    /// Maps den and arena, also after they were unmapped or replaced.
    fn map(&self) {
        for (at, from) in [(DEN, self.den), (ARENA, self.arena)] {
            // A mapping that does not arrive is missing at the next fault; then the server ends
            // itself.
            let window = Fpage::memory(at, ARENA_LOG2, FPAGE_RWX);
            let _ = sigma0::map(Fpage::memory(from, ARENA_LOG2, FPAGE_RWX), window);
        }
    }

    fn start(&mut self, number: u64, priority: u64) -> Result<(), Failure> {
        let plan = NewThread {
            task: self.me,
            number: number as u16,
            ip: attack::run as Main as usize as u64,
            sp: stack(number),
            pager: self.me,
            handler: self.me,
            argument: attack::argument(self.random.next() >> 16, number),
        };
        let id = plan.start()?;
        thread::set_priority(id, priority)?;
        thread::set_processor(id, number % kip().processors)
    }

    fn serve(mut self) -> ! {
        loop {
            if let Ok(received) = wait(Timeout::At(self.looked + LOOK)) {
                // A thread with another pager waits without end.
                let answer = if received.tag.has(TAG_REDIRECTED) { None } else { self.answer(&received) };
                if let Some(message) = answer {
                    let _ = send(received.from, message, Timeout::Zero);
                }
            }
            if now() >= self.looked + LOOK {
                self.look();
            }
        }
    }

    fn answer(&self, received: &Received) -> Option<Message> {
        let mapped = match received.tag.kind() {
            KIND_PAGE_FAULT => self.page(&Fault::of(received)),
            KIND_EXCEPTION | KIND_TRIGGER => None,
            KIND_PREEMPTION => return Some(Message::label(0)),
            _ => return None,
        };
        mapped.or_else(|| (received.words[2] == FRAME_NONE).then(|| pager::astray(received.from)))
    }

    /// Makes sure that the page of a fault is mapped here, and maps it to a task that the attackers
    /// created.
    fn page(&self, fault: &Fault) -> Option<Message> {
        let at = fault.address;
        let (from, rights) = if pager::image().contains(&at) {
            touch(fault);
            (at, FPAGE_READ | FPAGE_EXEC)
        } else if [DEN, ARENA].iter().any(|start| (*start..start + SUPERPAGE).contains(&at)) {
            self.map();
            (at, FPAGE_RWX)
        } else if (WINDOW..WINDOW + (1 << WINDOW_LOG2)).contains(&at) && fault.thread.task() != self.me.task() {
            (ARENA + at % SUPERPAGE, FPAGE_RWX)
        } else {
            return None;
        };
        if fault.thread.task() == self.me.task() {
            return Some(Message::label(0));
        }
        let item = MapItem { send_base: fault.page(), fpage: Fpage::memory(from, PAGE_SHIFT as u8, rights).0 };
        Some(Message::label(0).with_maps(&[item]))
    }

    /// Counts calls, reports to the witness, and ends the server if necessary.
    fn look(&mut self) {
        self.map();
        self.looked = now();
        let made = MADE.load(Relaxed);
        self.idle = if made == self.made { self.idle + 1 } else { 0 };
        self.made = made;
        let news = Message::new(witness::DONE, &[made - self.told]);
        if send(witness::id(self.me), news, Timeout::Zero).is_ok() {
            self.told = made;
            if made >= LIFE || now() - self.born >= LONGEST || self.idle >= PATIENCE {
                self.end();
            }
        }
    }

    /// Ends the server: by a panic, by request, or by an exception; sometimes after it used up all
    /// memory.
    fn end(&mut self) {
        if self.random.once_in(2) {
            let _ = unmap(Fpage::WHOLE, FPAGE_RWX | UNMAP_FLUSH);
        }
        match self.random.below(3) {
            0 => drop(root::shut_down(SHUTDOWN_PANIC)),
            1 => drop(root::shut_down(SHUTDOWN_REBOOT)),
            _ => start::stop(),
        }
    }
}

/// Accesses an address at which another thread faulted, because the root task is the pager of this
/// thread.
fn touch(fault: &Fault) {
    // SAFETY: a byte of the image, whose value does not change.
    let byte = unsafe { &*(fault.address as *const AtomicU8) };
    let value = byte.load(Relaxed);
    if fault.access == FPAGE_WRITE {
        let _ = byte.compare_exchange(value, value, Relaxed, Relaxed);
    }
}
