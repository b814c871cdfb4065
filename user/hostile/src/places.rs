// SPDX-License-Identifier: BSD-2-Clause
//! Addresses, and the pages in which the programs report to the judge.
//!
//! The tasks form *gangs*: a leader and the tasks that it may create, with consecutive numbers.
//! Every gang has a den (stacks and its ledger) and an arena (memory to be mapped, granted and
//! overwritten), which other gangs only get from it. The image belongs to the judge. All others can
//! only read and execute it, so the judge passes them information in statics.

use core::sync::atomic::AtomicU64;
use keel_l4::abi::fpage::PAGE_SIZE;

/// Gangs of attackers.
pub const ATTACKERS: usize = 4;
/// The gang of the warden, which runs random programs.
pub const WARDEN: usize = ATTACKERS;
/// The gang that harms no other task.
pub const INNOCENT: usize = ATTACKERS + 1;
/// All gangs.
pub const GANGS: usize = ATTACKERS + 2;

/// Task numbers of a gang; its leader has the first.
pub const MEMBERS: u32 = 8;

/// Address of the den in a gang's space.
pub const DEN: u64 = 0x10_0000_0000;
/// Pages of a den: the ledger, and the stacks.
pub const DEN_PAGES: u64 = 16;
/// Address of the arena in a gang's space.
pub const ARENA: u64 = 0x11_0000_0000;
/// Log2 of an arena's size: a superpage.
pub const ARENA_LOG2: u8 = 21;
/// Address of a range without pages, for mappings.
pub const WINDOW: u64 = 0x12_0000_0000;
/// Log2 of the size of that range.
pub const WINDOW_LOG2: u8 = 30;

/// Stacks in a den. Threads with the same stack overwrite each other, which is intended.
pub const STACKS: u64 = 8;
const STACK_BYTES: u64 = (DEN_PAGES - 1) * PAGE_SIZE / STACKS;

/// The top of a stack in the own den, aligned as at a function's first instruction.
pub const fn stack(number: u64) -> u64 {
    DEN + PAGE_SIZE + (number % STACKS + 1) * STACK_BYTES - 8
}

/// The most processors with a beat of the innocent task.
pub const PROCESSORS: usize = 16;
/// Exception vectors.
pub const VECTORS: usize = 32;

/// The first page of a den.
#[repr(C)]
pub struct Ledger {
    /// Attackers: number of calls, for each stack.
    pub calls: [AtomicU64; STACKS as usize],
    /// Attackers: threads that they gave a window, tables that they moved.
    pub rare: [AtomicU64; 2],
    /// Attackers: ids of tasks that they created, as far as they know.
    pub children: [AtomicU64; MEMBERS as usize],
    /// Warden: page faults, calls, triggers, random programs that had to be stopped, tasks that had
    /// to be created again.
    pub events: [AtomicU64; 5],
    /// Warden: exceptions by vector.
    pub vectors: [AtomicU64; VECTORS],
    /// Innocent: beats, for each processor.
    pub beats: [AtomicU64; PROCESSORS],
    /// Innocent: the most nanoseconds that a beat was late.
    pub late: [AtomicU64; PROCESSORS],
    /// Innocent: why it saw a change; 0 if it saw none.
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
    /// Programs that did not end and were stopped.
    pub const STOPPED: usize = 3;
    /// Tasks that were created again.
    pub const RECREATED: usize = 4;
}

/// The ledger at an address: the own one, or in the judge's space.
///
/// # Safety
/// The den must exist as long as the ledger is used.
pub unsafe fn ledger(at: u64) -> &'static Ledger {
    // SAFETY: by this function's own contract. A ledger consists of atomics, for which every
    // content is valid.
    unsafe { &*(at as *const Ledger) }
}

/// The ledger of the own gang.
pub fn own_ledger() -> &'static Ledger {
    // SAFETY: the pager maps the den at the first access.
    unsafe { ledger(DEN) }
}

/// The first task number of the first gang.
pub static FIRST_TASK: AtomicU64 = AtomicU64::new(0);
/// The task ids of the gangs' leaders.
pub static LEADERS: [AtomicU64; GANGS] = [const { AtomicU64::new(0) }; GANGS];
/// The pager of all gangs.
pub static PAGER: AtomicU64 = AtomicU64::new(0);
/// Priorities above its own that a server may use.
pub const PRIORITIES_ABOVE: u64 = 2;
/// Calls of the threads of a server (`server.rs`). Their random writes go elsewhere.
pub static MADE: AtomicU64 = AtomicU64::new(0);
/// The highest priority that these threads set for themselves.
pub static HIGHEST: AtomicU64 = AtomicU64::new(UNBRIDLED);
/// The value for threads that take any priority and attack every thread.
pub const UNBRIDLED: u64 = u64::MAX;
