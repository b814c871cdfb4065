// SPDX-License-Identifier: GPL-2.0-only
//! The short ways through IPC: what fast.s knows of the kernel's structures. Their code is there.
//!
//! They run under the own processor's lock and touch nothing but threads of this processor. What they compare in one
//! instruction is kept so that one is enough: `Thread::meeting` beside the values in `Cpu`, `Cpu::floor`, `Known`.

use super::cpu::{cpu, Cpu};
use super::cpuid;
use crate::boot::{self, Word};
use crate::refs::Ref;
use crate::thread::{self, Thread, FOREIGN};
use core::cell::Cell;
use keel_abi::Id;

/// Log2 of the number of threads that are known at once.
const SLOT_BITS: u32 = 6;
/// Log2 of the bytes of a slot.
const SLOT_SHIFT: u32 = size_of::<Slot>().ilog2();
/// Bits from here on, of an id multiplied by the factor, choose the slot: the lthread number and the lower bits of the task's
/// decide, spread by the golden ratio.
const HASH_SHIFT: u32 = 32;
/// See above.
pub const KNOWN_FACTOR: u64 = 0x61c8_8647;
/// From the product to the slot's offset.
pub const KNOWN_SHIFT: u32 = HASH_SHIFT - SLOT_SHIFT;
/// See above.
pub const KNOWN_MASK: u64 = ((1 << SLOT_BITS) - 1) << SLOT_SHIFT;

#[repr(C)]
pub(crate) struct Slot {
    pub(crate) id: Cell<Id>,
    pub(crate) thread: Cell<Option<Ref<Thread>>>,
}

/// Threads that were looked for lately, by id. Whoever deletes a thread makes all processors forget it.
#[repr(C)]
pub struct Known(pub(crate) [Slot; 1 << SLOT_BITS]);

const fn slot_of(id: Id) -> usize {
    ((id.0.wrapping_mul(KNOWN_FACTOR) >> KNOWN_SHIFT & KNOWN_MASK) >> SLOT_SHIFT) as usize
}

/// What stands in an empty slot: an id that is never looked for there.
const fn absent(slot: usize) -> Id {
    const { assert!(slot_of(Id::NIL) == 0 && slot_of(Id::INVALID) != 0) }
    [Id::NIL, Id::INVALID][(slot == 0) as usize]
}

impl Known {
    /// Nobody is known.
    pub const fn new() -> Known {
        let mut known = Known([const { Slot { id: Cell::new(Id::NIL), thread: Cell::new(None) } }; 1 << SLOT_BITS]);
        known.0[0].id = Cell::new(absent(0));
        known
    }

    /// This id names nobody any more.
    pub fn forget(&self, id: Id) {
        let number = slot_of(id);
        if self.0[number].id.get() == id {
            self.0[number].id.set(absent(number));
            self.0[number].thread.set(None);
        }
    }
}

/// Finds the partner of the running thread's system call for the next time.
pub fn learn(cpu: &Cpu) {
    let Some(caller) = cpu.current.get() else { return };
    let id = if caller.has(FOREIGN) { caller.handler.get() } else { Id(caller.frame().di.get()) };
    if let Some(partner) = thread::find(id) {
        let slot = &cpu.known.0[slot_of(id)];
        slot.id.set(id);
        slot.thread.set(Some(partner));
    }
}

unsafe extern "C" {
    fn syscall_entry();
    fn lone_syscall_entry();
    fn uncleared_syscall_entry();
    fn uncleared_lone_syscall_entry();
    fn tagged_syscall_entry();
    fn tagged_lone_syscall_entry();
    fn long_syscall_entry();
}

/// Where SYSCALL enters, once it is known how many processors there are.
pub fn system_call_entry(processors: u32) -> u64 {
    let entry = match (processors > 1, boot::has_word(Word::NoClear), cpu().tags.are_used()) {
        _ if boot::has_word(Word::NoFast) || !cpuid::has_fsgsbase() => long_syscall_entry,
        (true, false, false) => syscall_entry,
        (false, false, false) => lone_syscall_entry,
        (true, true, _) => uncleared_syscall_entry,
        (false, true, _) => uncleared_lone_syscall_entry,
        (true, false, true) => tagged_syscall_entry,
        (false, false, true) => tagged_lone_syscall_entry,
    };
    entry as *const () as u64
}
