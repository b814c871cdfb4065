// SPDX-License-Identifier: BSD-2-Clause
//! What each processor has: a server thread, and its client.

use crate::client::{self, CODE, CODE_RIGHTS, DATA, DATA_RIGHTS};
use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use keel_l4::abi::call::{KIND_NOTIFY, KIND_PAGE_FAULT, KIND_SYSCALL, KIND_TRIGGER, KIND_USER};
use keel_l4::abi::memory::EX_FPU_BORROW;
use keel_l4::abi::programs::AREA_UPPER;
use keel_l4::ipc::{notify, send_and_wait, wait, Message, Received, Timeout};
use keel_l4::kip::{kip_at, time};
use keel_l4::pager::Fault;
use keel_l4::start::Stack;
use keel_l4::{thread, utcb, Error, Id};

/// The kernel's time in nanoseconds.
pub fn now() -> u64 {
    // SAFETY: the root task puts the kernel area of tasks in the upper half there.
    time(unsafe { kip_at(AREA_UPPER) })
}

/// Processors that are used at most.
pub const MOST: usize = 8;
/// A server signals the next one at every call whose number is a multiple of this.
const SIGNAL_EVERY: u64 = 8;

#[repr(C, align(4096))]
struct Page(UnsafeCell<[u64; 512]>);

// SAFETY: it is a client's; here only its first word is used, atomically.
unsafe impl Sync for Page {}

/// One processor's server and client. All of it is read by the others.
pub struct Side {
    /// The server's stack.
    pub stack: Stack<{ 16 << 10 }>,
    data: Page,
    /// The server's id, and the client's.
    pub server: AtomicU64,
    /// See server.
    pub client: AtomicU64,
    /// The client's task.
    pub task: AtomicU64,
    /// How many clients there have been.
    pub lives: AtomicU64,
    /// The number of the last call.
    last: AtomicU64,
    /// Calls that were served.
    pub calls: AtomicU64,
    /// Page faults of a client that has made a call, triggers, notifications, cancelled waits.
    pub faults: AtomicU64,
    /// See faults.
    pub triggers: AtomicU64,
    /// See faults.
    pub signals: AtomicU64,
    /// See faults.
    pub cancelled: AtomicU64,
    /// Nanoseconds that a call takes.
    pub takes: AtomicU64,
    /// Whether the server signals the next one.
    pub signalling: AtomicU64,
    /// The first message that should not have come: its tag and its first word.
    pub wrong: [AtomicU64; 2],
}

/// All of them.
pub static SIDES: [Side; MOST] = [const { Side::new() }; MOST];

impl Side {
    const fn new() -> Side {
        Side {
            stack: Stack::new(),
            data: Page(UnsafeCell::new([0; 512])),
            server: AtomicU64::new(0),
            client: AtomicU64::new(0),
            task: AtomicU64::new(0),
            lives: AtomicU64::new(0),
            last: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            triggers: AtomicU64::new(0),
            signals: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            takes: AtomicU64::new(0),
            signalling: AtomicU64::new(0),
            wrong: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// Address of the client's data.
    pub fn data(&self) -> u64 {
        self.data.0.get() as u64
    }

    /// Turns of all its clients.
    pub fn turns(&self) -> u64 {
        // SAFETY: the page is always mapped, and its first word is only used atomically.
        unsafe { AtomicU64::from_ptr(self.data.0.get().cast()) }.load(SeqCst)
    }

    /// Ids of the server and the client.
    pub fn ids(&self) -> [Id; 2] {
        [Id(self.server.load(SeqCst)), Id(self.client.load(SeqCst))]
    }

    fn is_wrong(&self, got: &Received) {
        if self.wrong[0].compare_exchange(0, got.tag.0 | 1 << 63, SeqCst, SeqCst).is_ok() {
            self.wrong[1].store(got.words[0], SeqCst);
        }
    }

    /// A system call of the client: none is lost, and none comes twice.
    fn call(&self, next: Id, got: &Received) {
        let [number, _, index, ..] = got.words;
        let last = self.last.swap(number, SeqCst);
        let (life, before) = (number >> client::life_shift(), last >> client::life_shift());
        let is_first = life > before && number == (life << client::life_shift()) + 1;
        if number != last + 1 && !is_first {
            self.is_wrong(got);
        }
        let end = now() + self.takes.load(SeqCst);
        while now() < end {
            spin_loop();
        }
        if self.signalling.load(SeqCst) != 0 && number % SIGNAL_EVERY == 0 && notify(next, 1).is_err() {
            self.is_wrong(got);
        }
        client::answer(index, number);
        self.calls.fetch_add(1, SeqCst);
    }

    /// The answer to a page fault.
    fn fault(&self, fault: &Fault, page: u64, rights: u64) -> Message {
        if self.last.load(SeqCst) >> client::life_shift() == self.lives.load(SeqCst) {
            self.faults.fetch_add(1, SeqCst);
        }
        fault.map(page, rights)
    }

    /// The answer to a message, if it gets one.
    fn answer(&self, next: Id, got: &Received) -> Option<Message> {
        let fault = Fault::of(got);
        match (got.tag.kind(), fault.page()) {
            (KIND_PAGE_FAULT, CODE) => return Some(self.fault(&fault, client::code(), CODE_RIGHTS)),
            (KIND_PAGE_FAULT, DATA) => return Some(self.fault(&fault, self.data(), DATA_RIGHTS)),
            (KIND_USER, _) => return Some(Message::new(0, &[self.calls.load(SeqCst)])),
            (KIND_SYSCALL, _) => self.call(next, got),
            (KIND_TRIGGER, _) => {
                self.triggers.fetch_add(1, SeqCst);
            }
            (KIND_NOTIFY, _) => {
                self.signals.fetch_add(1, SeqCst);
                return None;
            }
            _ => {
                self.is_wrong(got);
                return None;
            }
        }
        Some(Message::label(0))
    }
}

/// The server thread of a processor; `next` is the processor whose server it signals.
pub extern "C" fn serve(numbers: u64) -> ! {
    let (side, next) = (&SIDES[numbers as usize % MOST], &SIDES[numbers as usize / MOST]);
    let borrows = thread::act(utcb::my_id(), EX_FPU_BORROW);
    side.wrong[0].store(borrows.is_err() as u64, SeqCst);
    let mut came = wait(Timeout::Never);
    loop {
        let answer = came.ok().and_then(|got| Some((got.from, side.answer(next.ids()[0], &got)?)));
        if came.is_err_and(|failure| failure.error == Error::Cancelled) {
            side.cancelled.fetch_add(1, SeqCst);
        }
        came = match answer {
            Some((to, answer)) => send_and_wait(to, answer, Timeout::Zero, Timeout::Never),
            None => wait(Timeout::Never),
        };
    }
}
