// SPDX-License-Identifier: BSD-2-Clause
//! What cases share and use up: stacks, pages of memory, cells, frames, task numbers, addresses.
//! Every case gets new ones.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};
use keel_l4::abi::memory::{AREA_DEFAULT, AREA_FRAMES, FRAME_SIZE};
use keel_l4::abi::Frame;

/// Bytes of a page.
pub const PAGE: u64 = keel_l4::abi::fpage::PAGE_SIZE;
/// The address at which cases map memory; nothing else is mapped there.
pub const WINDOW: u64 = 0x10_0000_0000;
/// Log2 of the size of that range.
pub const WINDOW_LOG2: u8 = 32;
/// Frame pages that the suite buys at its start.
pub const FRAME_PAGES: u64 = 4;

const STACKS: usize = 32;
const STACK_BYTES: usize = 16 << 10;
const PAGES: usize = 64;
const CELLS: usize = 32;

/// Memory that several threads use; each case must make them take turns.
#[repr(C, align(4096))]
struct Shared<T>(UnsafeCell<T>);

// SAFETY: accesses are volatile or atomic, or to parts that belong to one thread.
unsafe impl<T> Sync for Shared<T> {}

static STACK_MEMORY: Shared<[[u8; STACK_BYTES]; STACKS]> = Shared(UnsafeCell::new([[0; STACK_BYTES]; STACKS]));
static PAGE_MEMORY: Shared<[[u64; 512]; PAGES]> = Shared(UnsafeCell::new([[0; 512]; PAGES]));
static CELL_MEMORY: [AtomicU64; CELLS] = [const { AtomicU64::new(0) }; CELLS];

static NEXT_STACK: AtomicU64 = AtomicU64::new(0);
static NEXT_PAGE: AtomicU64 = AtomicU64::new(0);
static NEXT_FRAME: AtomicU64 = AtomicU64::new(0);
static NEXT_TASK: AtomicU64 = AtomicU64::new(0);
static FIRST_TASK: AtomicU64 = AtomicU64::new(0);
static TASKS: AtomicU64 = AtomicU64::new(0);

/// The next of `limit` objects. A lack of them is a bug of the suite.
fn next(counter: &AtomicU64, limit: u64) -> u64 {
    let index = counter.fetch_add(1, Ordering::Relaxed);
    assert!(index < limit, "a case uses too much");
    index
}

static SEED: AtomicU64 = AtomicU64::new(0);

/// Sets the random seed.
pub fn set_seed(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
}

/// The start of a random sequence. `salt`, which is never zero, gives each case its own sequence.
pub fn seed(salt: u64) -> u64 {
    salt ^ SEED.load(Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1) ^ 1
}

/// Random accesses of a small task unless an option says otherwise.
const FEW_ATTACKS: u64 = 20_000;
static ATTACKS: AtomicU64 = AtomicU64::new(FEW_ATTACKS);

/// Sets the number of random accesses of a small task, if one is given.
pub fn set_attacks(count: Option<u64>) {
    ATTACKS.store(count.unwrap_or(FEW_ATTACKS), Ordering::Relaxed);
}

/// That number.
pub fn attacks() -> u64 {
    ATTACKS.load(Ordering::Relaxed)
}

/// Sets the suite's task numbers.
pub fn set_tasks(numbers: core::ops::Range<u32>) {
    FIRST_TASK.store(numbers.start as u64, Ordering::Relaxed);
    TASKS.store(numbers.len() as u64, Ordering::Relaxed);
}

/// Frees all that the case got.
pub fn reset() {
    for counter in [&NEXT_STACK, &NEXT_PAGE, &NEXT_FRAME, &NEXT_TASK] {
        counter.store(0, Ordering::Relaxed);
    }
    CELL_MEMORY.iter().for_each(|c| c.store(0, Ordering::Relaxed));
    for page in 0..PAGES {
        // SAFETY: between cases no thread uses the pages.
        unsafe { (*PAGE_MEMORY.0.get())[page] = [0; 512] };
    }
}

/// Stacks that are not reset: the pager's, and the one of short-lived threads.
const LASTING_STACKS: u64 = 2;

/// The top of stack `index`, aligned as at a function's first instruction.
fn stack_top(index: u64) -> u64 {
    STACK_MEMORY.0.get() as u64 + (index + 1) * STACK_BYTES as u64 - 8
}

/// Frees all stacks of the case except the worker's, the first. Their threads must no longer exist.
pub fn reset_stacks() {
    NEXT_STACK.store(1, Ordering::Relaxed);
}

/// Frees all frames and task numbers of the case. Its tasks must no longer exist.
pub fn reset_tasks() {
    NEXT_FRAME.store(0, Ordering::Relaxed);
    NEXT_TASK.store(0, Ordering::Relaxed);
}

/// The top of a new stack.
pub fn stack() -> u64 {
    stack_top(LASTING_STACKS + next(&NEXT_STACK, STACKS as u64 - LASTING_STACKS))
}

/// The top of the pager's stack, which is not reset.
pub fn pager_stack() -> u64 {
    stack_top(0)
}

/// The top of the stack that short-lived threads use, one after the other.
pub fn common_stack() -> u64 {
    stack_top(1)
}

/// The address of a new page of the suite's own memory, zeroed.
pub fn page() -> u64 {
    PAGE_MEMORY.0.get() as u64 + next(&NEXT_PAGE, PAGES as u64) * PAGE
}

/// The address of `count` new contiguous pages, aligned to their size.
pub fn pages(count: u64) -> u64 {
    loop {
        let first = page();
        if first % (count * PAGE) == 0 {
            for _ in 1..count {
                page();
            }
            return first;
        }
    }
}

/// Cell `index`: a number that all threads of the suite and its child tasks see.
pub fn cell(index: usize) -> &'static AtomicU64 {
    &CELL_MEMORY[index]
}

/// A new frame index.
pub fn frame_index() -> u64 {
    next(&NEXT_FRAME, FRAME_PAGES * keel_l4::abi::memory::FRAMES_PER_PAGE)
}

/// A new task number.
pub fn task_number() -> u32 {
    (FIRST_TASK.load(Ordering::Relaxed) + next(&NEXT_TASK, TASKS.load(Ordering::Relaxed))) as u32
}

/// The task numbers that were given out since the last reset.
pub fn used_tasks() -> core::ops::Range<u32> {
    let first = FIRST_TASK.load(Ordering::Relaxed) as u32;
    first..first + NEXT_TASK.load(Ordering::Relaxed).min(TASKS.load(Ordering::Relaxed)) as u32
}

/// All task numbers of the suite: the first and their count.
pub fn task_range() -> (u32, u32) {
    (FIRST_TASK.load(Ordering::Relaxed) as u32, TASKS.load(Ordering::Relaxed) as u32)
}

fn frame_address(index: u64) -> *mut Frame {
    (AREA_DEFAULT + AREA_FRAMES + index * FRAME_SIZE) as *mut Frame
}

/// A copy of the frame `index`.
pub fn frame(index: u64) -> Frame {
    // SAFETY: the suite bought the pages of all indices that `frame_index` gives out.
    unsafe { frame_address(index).read_volatile() }
}

/// Overwrites the frame `index`.
pub fn set_frame(index: u64, frame: &Frame) {
    // SAFETY: as above.
    unsafe { frame_address(index).write_volatile(*frame) };
}

/// Reads a word of memory.
pub fn peek(address: u64) -> u64 {
    // SAFETY: an address without a page raises a page fault, which the thread's pager answers.
    unsafe { (address as *const u64).read_volatile() }
}

/// Writes a word of memory.
///
/// # Safety
/// Only the case may use the word.
pub unsafe fn poke(address: u64, value: u64) {
    // SAFETY: by this function's own contract.
    unsafe { (address as *mut u64).write_volatile(value) };
}
