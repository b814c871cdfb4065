// SPDX-License-Identifier: BSD-2-Clause
//! Small tasks for the cases: a task with 32-bit threads in a window of the suite's tables, or of
//! an empty task's; what its threads do (`small_code`), and the loop that answers their page
//! faults.

use crate::case::Fault;
use crate::pool::{self, peek, poke, PAGE};
use crate::small_code::*;
use crate::threads::{base_priority, QUOTA};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{FPAGE_EXEC, FPAGE_READ, FPAGE_RWX};
use keel_l4::abi::ids::{ID_CHECK, LTHREAD_TASK};
use keel_l4::abi::memory::{AREA_SMALL_SIZE, AREA_UTCBS, EX_START, EX_TLS};
use keel_l4::abi::trace::CHECK_ALL;
use keel_l4::abi::ExRegs;
use keel_l4::call::Failure;
use keel_l4::ipc::{receive, send, wait, Message, Received, Timeout};
use keel_l4::pager::Fault as PageFault;
use keel_l4::task::{create_empty, NewTask};
use keel_l4::thread::{act, set_reach, NewThread};
use keel_l4::{kernel_object, thread, utcb, Id};

/// Where a small task has the pages of its threads.
pub const BLOCKS: u64 = 0x2_0000;
/// Its kernel area.
pub const AREA: u64 = AREA_SMALL_SIZE;
/// A window of 16 MB, in a GB of the suite's in which nothing else lies.
pub const WINDOW: u64 = 0x9000_0000;
/// Log2 of its size, and the size.
pub const LOG2: u64 = SMALL_MIN_LOG2;
pub const SIZE: u64 = 1 << LOG2;
/// That window.
pub const USUAL: u64 = WINDOW | LOG2;
/// The longest wait for a small thread in ns.
pub const PATIENCE: u64 = 20_000_000_000;
/// More faults than an operation can have.
const MANY_FAULTS: u32 = 10_000;
/// Pages that a task can be given, and threads that it can have.
const GIVEN: usize = 24;
const THREADS: u64 = 8;
/// The first stack pointer in a thread's page.
const STACK: u64 = PAGE - 16;

/// A page of the suite's that its pager gives to a small task.
#[derive(Clone, Copy, Default)]
struct Given {
    at: u64,
    from: u64,
    rights: u64,
}

/// A small task, and the thread in it that was made last.
#[derive(Clone, Copy)]
pub struct Small {
    /// Its number.
    pub number: u32,
    /// Its id.
    pub task: Id,
    /// The thread.
    pub thread: Id,
    /// The suite's page with the thread's block and stack.
    pub block: u64,
    /// What its threads reach.
    pub reach: u64,
    /// The task in whose tables its window is, or nil.
    pub host: Id,
    threads: u64,
    given: [Given; GIVEN],
    count: usize,
}

/// A call of the kernel from 32-bit code.
#[derive(Clone, Copy)]
pub struct Call {
    /// eax.
    pub ax: u64,
    /// ebx: the low half of the tag.
    pub tag: u32,
    /// The label.
    pub label: u64,
    /// esi:edi.
    pub to: Id,
    /// The words, of which the first three have 32 bits.
    pub words: [u64; 6],
}

impl Default for Call {
    fn default() -> Call {
        Call { ax: 0, tag: 0, label: 0, to: Id::NIL, words: [0; 6] }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// eax.
    pub status: i32,
    /// esi:edi.
    pub from: Id,
    /// ebx.
    pub tag: u32,
    /// The UTCB's word 0.
    pub label: u64,
    /// The words.
    pub words: [u64; 6],
}

/// The lower and the upper half of a word.
pub fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// Where a piece of `small_code` is in a small task.
pub fn operation(code: unsafe extern "C" fn()) -> u64 {
    code as usize as u64 - small_code as *const () as u64 + CODE
}

impl Small {
    /// A task without lthreads, for threads with this reach in the suite's tables.
    pub fn empty(reach: u64) -> Result<Small, Failure> {
        Small::with_quota(reach, QUOTA)
    }

    /// [`Small::empty`] with a quota.
    pub fn with_quota(reach: u64, quota: u64) -> Result<Small, Failure> {
        let number = pool::task_number();
        let plan = NewTask { number, max_priority: base_priority(), quota, area: AREA, ..NewTask::default() };
        let mut small = Small {
            number,
            task: create_empty(&plan)?,
            thread: Id::NIL,
            block: 0,
            reach,
            host: Id::NIL,
            threads: 0,
            given: [Given::default(); GIVEN],
            count: 0,
        };
        let (start, end) = (small_code as *const () as u64, small_code_end as *const () as u64);
        for page in (start..end).step_by(PAGE as usize) {
            small.give(CODE + (page - start), page, FPAGE_READ | FPAGE_EXEC);
        }
        Ok(small)
    }

    /// A task with a thread that waits for its first operation, in the suite's tables.
    pub fn new(reach: u64) -> Result<Small, Fault> {
        Small::hosted(reach, Id::NIL)
    }

    /// [`Small::new`] in the tables of another task.
    pub fn hosted(reach: u64, host: Id) -> Result<Small, Fault> {
        let mut small = Small { host, ..Small::empty(reach)? };
        small.add()?;
        small.begin()?;
        Ok(small)
    }

    /// Adds a thread, stopped, with the task's reach. It is the one that is meant from now on.
    pub fn add(&mut self) -> Result<(), Failure> {
        self.add_with(self.reach)
    }

    /// [`Small::add`] with a reach of its own.
    pub fn add_with(&mut self, reach: u64) -> Result<(), Failure> {
        self.make(LTHREAD_TASK as u16)?;
        set_reach(self.thread, reach, self.host).map(|_| ())
    }

    /// Adds a thread, stopped, of 64 bits.
    pub fn make(&mut self, number: u16) -> Result<(), Failure> {
        assert!(self.threads < THREADS, "a small task has too many threads");
        let (block, at) = (pool::page(), BLOCKS + self.threads * PAGE);
        self.threads += 1;
        self.give(at, block, FPAGE_RWX);
        let me = utcb::my_id();
        // SAFETY: the page is this thread's.
        unsafe { poke(block + BLOCK_CHIEF, me.0) };
        let (task, ip, sp) = (self.task, operation(small_monitor), at + STACK);
        let new = NewThread { task, number, ip, sp, pager: me, handler: me, argument: 0 };
        (self.block, self.thread) = (block, new.create()?);
        // SAFETY: as above.
        unsafe { poke(block + BLOCK_UTCB, self.utcb()) };
        Ok(())
    }

    /// Starts the thread, which comes to its first report.
    pub fn begin(&self) -> Result<(), Fault> {
        act(self.thread, EX_START)?;
        let first = self.serve()?;
        self.expect_report(&first)
    }

    /// The pager gives the task this page of the suite's when it faults there.
    pub fn give(&mut self, at: u64, from: u64, rights: u64) {
        assert!(self.count < GIVEN, "a small task is given too many pages");
        self.given[self.count] = Given { at, from, rights };
        self.count += 1;
    }

    /// [`Small::give`] with a new page, in which every word is `value`. Returns its address.
    pub fn give_new(&mut self, at: u64, value: u32) -> u64 {
        let from = pool::page();
        fill(from, value);
        self.give(at, from, FPAGE_RWX);
        from
    }

    /// Its pager gives it no page there any more.
    pub fn give_no_more(&mut self, at: u64) {
        self.given.iter_mut().filter(|given| given.at == at).for_each(|given| given.rights = 0);
    }

    /// The address of the UTCB of the thread, in the task.
    pub fn utcb(&self) -> u64 {
        AREA + AREA_UTCBS + self.thread.lthread() as u64 * PAGE
    }

    /// The answer to a fault of the task, if it is given a page there.
    fn answer(&self, fault: &PageFault) -> Option<Message> {
        let fits = |given: &&Given| given.at == fault.page() && given.rights & fault.access != 0;
        let given = self.given[..self.count].iter().find(fits)?;
        // The root task gives the suite its own pages when they are used.
        peek(given.from);
        Some(fault.map(given.from, given.rights))
    }

    /// Answers a fault of the task, if it is given a page there.
    pub fn answers(&self, got: &Received) -> Result<bool, Failure> {
        match self.answer(&PageFault::of(got)) {
            Some(answer) => send(got.from, answer, Timeout::Zero).map(|()| true),
            None => Ok(false),
        }
    }

    /// Answers faults of this task until another message comes from it.
    pub fn serve(&self) -> Result<Received, Fault> {
        serve(&[self])
    }

    /// Fails unless a message is a report of the thread.
    pub fn expect_report(&self, got: &Received) -> Result<(), Fault> {
        if (got.tag.kind(), got.from) == (KIND_USER, self.thread) {
            return Ok(());
        }
        Err(Fault::new(format_args!(
            "expected a report, got kind {} label {:#x} words {:x?} from {:?}",
            got.tag.kind(),
            got.tag.label(),
            &got.words[..4],
            got.from
        )))
    }

    /// Tells the thread, which has reported, its next operation, and returns at once.
    pub fn tell(&self, code: unsafe extern "C" fn(), first: u64, second: u64) -> Result<(), Fault> {
        Ok(send(self.thread, Message::new(0, &[operation(code), first, second]), Timeout::Zero)?)
    }

    /// Tells the thread its next operation, and returns the first message that is not a page fault
    /// that its pager answers.
    pub fn try_it(&self, code: unsafe extern "C" fn(), first: u64, second: u64) -> Result<Received, Fault> {
        self.tell(code, first, second)?;
        self.serve()
    }

    /// The same of an operation that reports; returns its first result.
    pub fn ask(&self, code: unsafe extern "C" fn(), first: u64, second: u64) -> Result<u64, Fault> {
        let got = self.try_it(code, first, second)?;
        self.expect_report(&got)?;
        Ok(got.words[0])
    }

    /// What the thread reaches.
    pub fn reach_now(&self) -> Result<u64, Failure> {
        thread::reach(self.thread)
    }

    /// Gives the thread thread-local descriptors.
    pub fn set_tls(&self, tls: [u64; 3]) -> Result<(), Failure> {
        let mut record = ExRegs::zeroed();
        record.tls = tls;
        thread::exchange(self.thread, EX_TLS, &mut record).map(|_| ())
    }

    /// Has the thread call the kernel from 32-bit code, and returns at once.
    pub fn start(&self, call: &Call) -> Result<(), Fault> {
        let [low, high] = halves(call.to.0);
        let word = |number: usize| call.words[number] as u32;
        let registers = [call.ax as u32, call.tag, word(1), word(0), high, low, word(2)];
        for (number, value) in registers.into_iter().enumerate() {
            set_word(self.block + BLOCK_REGISTERS + 4 * number as u64, value);
        }
        for (number, value) in self.block_words(call.label, &call.words) {
            // SAFETY: the thread waits for what it is to do.
            unsafe { poke(number, value) };
        }
        self.tell(small_int80, 0, 0)
    }

    /// The addresses of a label and of words 3 to 5 in its block, with their values.
    fn block_words(&self, label: u64, words: &[u64; 6]) -> impl Iterator<Item = (u64, u64)> {
        let values = [label, words[3], words[4], words[5]];
        let block = self.block;
        values.into_iter().enumerate().map(move |(number, value)| (block + BLOCK_WORDS + 8 * number as u64, value))
    }

    /// What came of it: the thread has reported.
    pub fn end(&self) -> End {
        let [ax, tag, cx, dx, high, low, bp] =
            core::array::from_fn(|number| word(self.block + BLOCK_REGISTERS + 4 * number as u64));
        let [label, w3, w4, w5] = core::array::from_fn(|number| peek(self.block + BLOCK_WORDS + 8 * number as u64));
        End {
            status: ax as i32,
            from: Id(low as u64 | (high as u64) << 32),
            tag,
            label,
            words: [dx as u64, cx as u64, bp as u64, w3, w4, w5],
        }
    }

    /// Has the thread call the kernel, and returns what came of it. Its messages come elsewhere.
    pub fn call(&self, call: &Call) -> Result<End, Fault> {
        self.start(call)?;
        let got = self.serve()?;
        self.expect_report(&got)?;
        Ok(self.end())
    }

    /// Has the thread write a word of 64 bits of its UTCB.
    pub fn set_utcb(&self, offset: usize, value: u64) -> Result<(), Fault> {
        self.ask(small_store, self.utcb() + offset as u64, value & u32::MAX as u64)?;
        self.ask(small_store, self.utcb() + offset as u64 + 4, value >> 32).map(|_| ())
    }

    /// Has it read one.
    pub fn utcb_word(&self, offset: usize) -> Result<u64, Fault> {
        let low = self.ask(small_load, self.utcb() + offset as u64, 0)?;
        Ok(low | self.ask(small_load, self.utcb() + offset as u64 + 4, 0)? << 32)
    }
}

/// Answers faults of these tasks until another message comes.
pub fn serve(tasks: &[&Small]) -> Result<Received, Fault> {
    for _ in 0..MANY_FAULTS {
        let got = wait(Timeout::After(PATIENCE))?;
        let small = tasks.iter().find(|small| small.task.task() == got.from.task());
        let answer = small.filter(|_| got.tag.kind() == KIND_PAGE_FAULT);
        match answer.and_then(|small| small.answer(&PageFault::of(&got))) {
            Some(answer) => send(got.from, answer, Timeout::Zero)?,
            None => return Ok(got),
        }
    }
    Err(Fault::new(format_args!("expected another message, got {MANY_FAULTS} faults")))
}

/// Answers one fault of a task that waits for that, if it has one within a time.
pub fn answer_next(small: &Small, time: u64) -> Result<bool, Fault> {
    match receive(small.thread, Timeout::After(time)) {
        Ok(got) => {
            let answer = small.answer(&PageFault::of(&got)).filter(|_| got.tag.kind() == KIND_PAGE_FAULT);
            let answer = answer.ok_or_else(|| Fault::new(format_args!("expected a known fault, got {got:x?}")))?;
            send(got.from, answer, Timeout::Zero)?;
            Ok(true)
        }
        Err(_) => Ok(false),
    }
}

/// Fills a page of the suite's with a word of 32 bits.
pub fn fill(page: u64, value: u32) {
    for offset in (0..PAGE).step_by(4) {
        set_word(page + offset, value);
    }
}

/// Reads a word of 32 bits of the suite's.
pub fn word(address: u64) -> u32 {
    // SAFETY: as of `peek`.
    unsafe { (address as *const u32).read_volatile() }
}

/// Writes a word of 32 bits of a page of the case.
pub fn set_word(address: u64, value: u32) {
    // SAFETY: cases use addresses of their own pages.
    unsafe { (address as *mut u32).write_volatile(value) };
}

/// Fails if the kernel finds one of its invariants violated. Only the debug build looks.
pub fn check() -> Result<(), Fault> {
    match kernel_object::invoke(Id(ID_CHECK), CHECK_ALL, &[]) {
        Ok(answer) if answer.words[0] != 0 => {
            Err(Fault::new(format_args!("expected no violated invariant, got {}", answer.words[0])))
        }
        _ => Ok(()),
    }
}

/// A task without lthreads and without memory, in whose tables others can have windows.
pub fn home() -> Result<(Id, u32), Failure> {
    crate::alien::empty_task()
}
