// SPDX-License-Identifier: BSD-2-Clause
//! The other threads of a measurement: lthreads of this task, or tasks that share its memory page
//! by page.

use crate::clock::{Instruction, Timed};
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{canonical, FPAGE_RWX, PAGE_SIZE};
use keel_l4::abi::ids::LTHREAD_TASK;
use keel_l4::abi::memory::*;
use keel_l4::abi::{ExRegs, MapItem, StringItem, Utcb};
use keel_l4::call::Failure;
use keel_l4::ipc::{send_and_wait, wait, Message, Timeout};
use keel_l4::pager::{Fault, Pager};
use keel_l4::protocol::boot::{Start, DIRECT_MAP};
use keel_l4::task::{self, NewTask};
use keel_l4::thread::{self, NewThread};
use keel_l4::{strings, utcb, Error, Fpage, Id, Tag};

/// A thread's main function.
pub type Main = unsafe extern "C" fn(u64) -> !;

/// Pages of kernel memory that a partner's task gets.
pub const QUOTA: u64 = 512;
/// An address without mappings.
pub const WINDOW: u64 = 0x10_0000_0000;
/// Log2 of the size of the range that is used there.
pub const WINDOW_LOG2: u8 = 30;

/// Log2 of the size of `large_memory`.
pub const LARGE_LOG2: u8 = 22;
/// Bytes of the buffer for strings.
pub const BUFFER_BYTES: usize = 64 << 10;
const STACKS: usize = 8;
const STACK_BYTES: usize = 32 << 10;
/// Flags of reply and open wait.
pub const REPLY_AND_WAIT: u64 = CALL_IPC | IPC_SEND | IPC_RECEIVE | IPC_OPEN;
/// Flags of an open wait.
pub const WAIT: u64 = CALL_IPC | IPC_RECEIVE | IPC_OPEN;
/// Flags of a call.
pub const CALL: u64 = CALL_IPC | IPC_SEND | IPC_RECEIVE;

#[repr(C, align(4096))]
struct Memory<T>(UnsafeCell<T>);

// SAFETY: each stack has one thread; the other memory is only mapped, sent and received into.
unsafe impl<T> Sync for Memory<T> {}

static STACK_MEMORY: Memory<[[u8; STACK_BYTES]; STACKS]> = Memory(UnsafeCell::new([[0; STACK_BYTES]; STACKS]));
/// Memory to be mapped, 128 KB, so that there are 64 KB aligned to their size.
static PAGES: Memory<[u8; 128 << 10]> = Memory(UnsafeCell::new([0; 128 << 10]));
/// The buffer for received strings.
static BUFFER: Memory<[u8; BUFFER_BYTES]> = Memory(UnsafeCell::new([0; BUFFER_BYTES]));
static NEXT_STACK: AtomicU64 = AtomicU64::new(0);
static NEXT_TASK: AtomicU64 = AtomicU64::new(0);
static PRIORITY: AtomicU64 = AtomicU64::new(0);
static MAIN: AtomicU64 = AtomicU64::new(0);
static PAGER: AtomicU64 = AtomicU64::new(0);
/// The reading with which `stamping` last received a message.
pub static ARRIVAL: AtomicU64 = AtomicU64::new(0);

global_asm!(
    // Has an FPU state, and answers every message with the same message.
    ".global echo_with_fpu",
    "echo_with_fpu:",
    "fninit",
    // Answers every message with the same message.
    ".global echo",
    "echo:",
    "mov eax, {wait}",
    "syscall",
    "2: mov eax, {reply_and_wait}",
    "syscall",
    "jmp 2b",
    // Answers every message with an empty one.
    ".global acknowledge",
    "acknowledge:",
    "mov eax, {wait}",
    "syscall",
    "2: xor esi, esi",
    "mov eax, {reply_and_wait}",
    "syscall",
    "jmp 2b",
    // Answers every page fault with the fpage in the UTCB's first map item.
    ".global map_on_fault",
    "map_on_fault:",
    "mov eax, {wait}",
    "syscall",
    "2: and r8, -{page}",
    "mov gs:[{maps}], r8",
    "mov esi, {one_item}",
    "mov eax, {reply_and_wait}",
    "syscall",
    "jmp 2b",
    wait = const WAIT,
    reply_and_wait = const REPLY_AND_WAIT,
    page = const PAGE_SIZE,
    maps = const offset_of!(Utcb, maps),
    one_item = const Tag::new(0, 0).with_maps(1).0,
);

unsafe extern "C" {
    /// A server that answers every message with the same message.
    pub fn echo(_: u64) -> !;
    /// Like `echo`, with an FPU state.
    pub fn echo_with_fpu(_: u64) -> !;
    /// A server that answers every message with an empty one.
    pub fn acknowledge(_: u64) -> !;
    fn map_on_fault() -> !;
    static __image_start: u8;
    static __image_end: u8;
}

/// The space of a partner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// This task's.
    Same,
    /// Another one.
    Other,
}

/// A started partner.
#[derive(Clone, Copy)]
pub struct Partner {
    /// Its id.
    pub id: Id,
    number: Option<u32>,
}

/// Stores what the start record says, and starts the pager of the other tasks.
pub fn prepare(start: &Start) -> Result<(), Failure> {
    NEXT_TASK.store(start.task_first, Ordering::Relaxed);
    PRIORITY.store(start.priority, Ordering::Relaxed);
    MAIN.store(utcb::my_id().0, Ordering::Relaxed);
    touch(image());
    let pager = Partner::start(Space::Same, pager, 0)?;
    PAGER.store(pager.id.0, Ordering::Relaxed);
    Ok(())
}

/// The priority of the main thread and of partners.
pub fn priority() -> u64 {
    PRIORITY.load(Ordering::Relaxed)
}

/// The next free task number.
pub fn task_number() -> u32 {
    NEXT_TASK.load(Ordering::Relaxed) as u32
}

/// The id of the main thread's task.
pub fn own_task() -> Id {
    thread::task_of(Id(MAIN.load(Ordering::Relaxed)))
}

/// The pager for the image, in this task and in others.
pub fn image_pager() -> Id {
    Id(PAGER.load(Ordering::Relaxed))
}

fn image() -> core::ops::Range<u64> {
    &raw const __image_start as u64..&raw const __image_end as u64
}

/// Reads every page of a range, so that it is mapped.
pub fn touch(range: core::ops::Range<u64>) {
    for page in range.step_by(PAGE_SIZE as usize) {
        // SAFETY: memory of this task; its pager maps missing pages.
        unsafe { (page as *const u8).read_volatile() };
    }
}

/// Reads every page of the image, so that it is mapped to a partner in another space.
pub fn touch_image() {
    touch(image());
}

/// The top of a new stack, aligned as at a function's first instruction.
pub fn stack() -> u64 {
    let index = NEXT_STACK.fetch_add(1, Ordering::Relaxed);
    assert!(index < STACKS as u64, "too many partners at once");
    STACK_MEMORY.0.get() as u64 + (index + 1) * STACK_BYTES as u64 - 8
}

/// An fpage of `log2` bytes (at most 64 KB) of memory that nothing else uses.
pub fn pages(log2: u8) -> Fpage {
    const ALIGNMENT: u64 = 64 << 10;
    Fpage::memory((PAGES.0.get() as u64).next_multiple_of(ALIGNMENT), log2, FPAGE_RWX)
}

/// Memory of this task, all of it mapped.
pub fn large_memory(record: &Start) -> Result<Fpage, Failure> {
    let regions = record.regions.chunks_exact(3).take(record.region_count as usize);
    let size = 1u64 << LARGE_LOG2;
    let mut fitting = regions.filter_map(|region| {
        let start = region[0].next_multiple_of(size);
        (start + size <= region[1]).then(|| Fpage::memory(DIRECT_MAP + start, LARGE_LOG2, FPAGE_RWX))
    });
    let memory = fitting.next().ok_or(Failure::call(Error::NoMemory))?;
    touch(first_byte(memory)..first_byte(memory) + memory.size());
    Ok(memory)
}

/// Address of the first byte of an fpage of this task's.
pub fn first_byte(fpage: Fpage) -> u64 {
    canonical(fpage.base())
}

/// Answers the page faults of partners in other spaces with this task's own pages, at the same
/// addresses.
pub struct OwnPages;

impl Pager for OwnPages {
    fn page(&mut self, fault: &Fault) -> Option<Message> {
        image().contains(&fault.address).then(|| fault.map(fault.page(), FPAGE_RWX))
    }
}

extern "C" fn pager(_: u64) -> ! {
    keel_l4::pager::run(&mut OwnPages)
}

/// A pager that answers every fault with the page of `pages`.
pub extern "C" fn mapping_pager(_: u64) -> ! {
    utcb::set_map_item(0, MapItem { send_base: 0, fpage: pages(12).0 });
    // SAFETY: it uses only registers and the UTCB.
    unsafe { map_on_fault() }
}

/// Gives the calling thread an FPU state.
pub fn use_fpu() {
    // SAFETY: code that is compiled without the FPU does not depend on its state.
    unsafe { core::arch::asm!("fninit", options(nomem, nostack)) };
}

/// Accepts mappings in the window `argument`, and answers.
pub extern "C" fn accepting(window: u64) -> ! {
    utcb::set_receive_window(Fpage(window));
    // SAFETY: as above.
    unsafe { acknowledge(0) }
}

/// Accepts strings in a buffer, and answers.
pub extern "C" fn buffered(_: u64) -> ! {
    touch(image());
    let buffer = StringItem { address: BUFFER.0.get() as u64, length: BUFFER_BYTES as u64 };
    // SAFETY: only messages of one thread use the buffer, and they only write it.
    unsafe {
        strings::offer(&[buffer]);
        acknowledge(0)
    }
}

/// Answers every message with the same message and stores the time of its arrival.
pub extern "C" fn stamping(_: u64) -> ! {
    let mut timed = Timed { ax: WAIT, ..Timed::default() };
    loop {
        timed.run(Instruction::Syscall);
        ARRIVAL.store(timed.end, Ordering::Relaxed);
        timed.ax = REPLY_AND_WAIT;
    }
}

/// Runs the instruction in the label, with w0 in di, and answers with the two readings.
pub extern "C" fn subject(_: u64) -> ! {
    touch(image());
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) => {
                let mut timed = Timed { di: got.words[0], ..Timed::default() };
                let known = [Instruction::Load, Instruction::Breakpoint];
                let named = known.into_iter().find(|one| *one as u32 == got.tag.label());
                timed.run(named.unwrap_or(Instruction::Nothing));
                send_and_wait(got.from, Message::new(0, &[timed.start, timed.end]), Timeout::Never, Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

impl Partner {
    /// Starts `main(argument)`.
    pub fn start(space: Space, main: Main, argument: u64) -> Result<Partner, Failure> {
        match space {
            Space::Same => lthread(main, argument),
            Space::Other => Partner::in_task(main, argument),
        }
    }

    fn in_task(main: Main, argument: u64) -> Result<Partner, Failure> {
        let task = task::create(&NewTask { ip: main as usize as u64, argument, sp: stack(), ..plan() })?;
        let number = NEXT_TASK.fetch_add(1, Ordering::Relaxed) as u32;
        Ok(Partner { id: thread::first_of(task), number: Some(number) })
    }

    /// Its task.
    pub fn task(&self) -> Id {
        thread::task_of(self.id)
    }

    /// Makes `thread` the partner's pager (`EX_PAGER`) or exception handler (`EX_HANDLER`) or both.
    pub fn set_fault_endpoint(&self, thread: Id, what: u64) -> Result<(), Failure> {
        let mut record = ExRegs::zeroed();
        (record.pager, record.handler) = (thread.0, thread.0);
        thread::exchange(self.id, what, &mut record).map(|_| ())
    }

    /// The instruction pointer of a partner that does not run.
    pub fn ip(&self) -> Result<u64, Failure> {
        let mut record = ExRegs::zeroed();
        record.preempter = Id::NIL.0;
        thread::exchange(self.id, EX_PREEMPTER, &mut record)?;
        Ok(record.ip)
    }

    /// Deletes the partner, which must be the last one that was started and not deleted.
    pub fn end(self) -> Result<(), Failure> {
        NEXT_STACK.fetch_sub(1, Ordering::Relaxed);
        match self.number {
            Some(number) => {
                NEXT_TASK.fetch_sub(1, Ordering::Relaxed);
                task::delete(number, own_task())
            }
            None => thread::delete(self.id),
        }
    }
}

/// A new task with one lthread.
pub fn plan() -> NewTask {
    NewTask {
        number: task_number(),
        max_priority: priority() + 1,
        pager: image_pager().0,
        quota: QUOTA,
        area: AREA_DEFAULT,
        upper_half: true,
        supervisor: false,
        resident: false,
        ..NewTask::default()
    }
}

/// A new lthread of this task.
fn lthread(main: Main, argument: u64) -> Result<Partner, Failure> {
    let new = NewThread {
        task: utcb::my_id(),
        number: LTHREAD_TASK as u16,
        ip: main as usize as u64,
        sp: stack(),
        pager: Id::ROOT,
        handler: Id::ROOT,
        argument,
    };
    Ok(Partner { id: new.start()?, number: None })
}
