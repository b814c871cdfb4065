// SPDX-License-Identifier: BSD-2-Clause
//! Where things lie, and the pages in which the programs tell the judge what happened.
//!
//! The tasks come in *gangs*: a leader and the tasks that it may make, with consecutive numbers. Every gang has a den (stacks and
//! its ledger) and an arena (memory to be mapped, granted and overwritten) that no other gang gets unless it is given them. The
//! image is the judge's; all others can only read and execute it, so the statics tell them what the judge has to say.

use core::sync::atomic::AtomicU64;
use keel_l4::abi::fpage::PAGE_SIZE;

/// Gangs of attackers.
pub const ATTACKERS: usize = 4;
/// The gang of the warden, who runs random programs.
pub const WARDEN: usize = ATTACKERS;
/// The gang that does nobody any harm.
pub const INNOCENT: usize = ATTACKERS + 1;
/// All of them.
pub const GANGS: usize = ATTACKERS + 2;

/// Task numbers of a gang; its leader has the first.
pub const MEMBERS: u32 = 8;

/// Where a gang sees its den.
pub const DEN: u64 = 0x10_0000_0000;
/// Pages of a den: the ledger, and the stacks.
pub const DEN_PAGES: u64 = 16;
/// Where a gang sees its arena.
pub const ARENA: u64 = 0x11_0000_0000;
/// Log2 of an arena's size: a superpage.
pub const ARENA_LOG2: u8 = 21;
/// Where nothing lies until it is mapped there.
pub const WINDOW: u64 = 0x12_0000_0000;
/// Log2 of that area's size.
pub const WINDOW_LOG2: u8 = 30;

/// Stacks in a den. Threads that have the same one are in each other's way, which is meant.
pub const STACKS: u64 = 8;
const STACK_BYTES: u64 = (DEN_PAGES - 1) * PAGE_SIZE / STACKS;

/// The top of a stack in the own den, as a function finds it that was just called.
pub const fn stack(number: u64) -> u64 {
    DEN + PAGE_SIZE + (number % STACKS + 1) * STACK_BYTES - 8
}

/// Processors for which the innocent task keeps beats at most.
pub const PROCESSORS: usize = 16;
/// Exception vectors.
pub const VECTORS: usize = 32;

/// The first page of a den.
#[repr(C)]
pub struct Ledger {
    /// Attackers: calls made, for each stack.
    pub calls: [AtomicU64; STACKS as usize],
    /// Attackers: ids of tasks that they made, as far as they know.
    pub children: [AtomicU64; MEMBERS as usize],
    /// Warden: page faults, calls, triggers, random programs that had to be stopped, tasks that had to be made anew.
    pub events: [AtomicU64; 5],
    /// Warden: exceptions by vector.
    pub vectors: [AtomicU64; VECTORS],
    /// Innocent: beats, for each processor.
    pub beats: [AtomicU64; PROCESSORS],
    /// Innocent: the longest that a beat was late, in nanoseconds.
    pub late: [AtomicU64; PROCESSORS],
    /// Innocent: what was not as it should be, 0 if nothing was.
    pub wrong: AtomicU64,
}

const _: () = assert!(size_of::<Ledger>() <= PAGE_SIZE as usize);

/// Events of the warden: indices in `Ledger::events`.
pub mod event {
    /// Page faults.
    pub const FAULT: usize = 0;
    /// System call instructions.
    pub const CALL: usize = 1;
    /// Triggered exceptions.
    pub const TRIGGER: usize = 2;
    /// Programs that ran until they were stopped.
    pub const STOPPED: usize = 3;
    /// Tasks made anew.
    pub const ANEW: usize = 4;
}

/// The ledger at an address: the own one, or as the judge sees it.
///
/// # Safety
/// There is a den, for as long as the ledger is used.
pub unsafe fn ledger(at: u64) -> &'static Ledger {
    // SAFETY: the caller's promise; a ledger consists of atomics, for which every content is good.
    unsafe { &*(at as *const Ledger) }
}

/// The ledger of the own gang.
pub fn own_ledger() -> &'static Ledger {
    // SAFETY: the pager maps the den whenever it is touched.
    unsafe { ledger(DEN) }
}

/// The first task number of the first gang.
pub static FIRST_TASK: AtomicU64 = AtomicU64::new(0);
/// The ids of the gangs' leaders, as tasks.
pub static LEADERS: [AtomicU64; GANGS] = [const { AtomicU64::new(0) }; GANGS];
/// The thread that answers everybody's faults.
pub static PAGER: AtomicU64 = AtomicU64::new(0);
/// Priorities above its own that a server may use.
pub const PRIORITIES_ABOVE: u64 = 2;
/// Calls that the threads of a server (`server.rs`) made: what they overwrite by chance is elsewhere.
pub static MADE: AtomicU64 = AtomicU64::new(0);
/// The highest priority that they take for themselves.
pub static HIGHEST: AtomicU64 = AtomicU64::new(UNBRIDLED);
/// The highest priority of those who take what they get, and leave no thread alone.
pub const UNBRIDLED: u64 = u64::MAX;
