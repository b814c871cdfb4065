// SPDX-License-Identifier: GPL-2.0-only
//! Threads that this processor looked for lately, by id: the fast paths of fast.s find their
//! partners here.

use crate::{base::abi::*, base::*, object::Thread};

/// Log2 of the number of threads that are known at once.
const SLOT_BITS: u32 = 9;
const SLOTS: usize = 1 << SLOT_BITS;
/// The upper bits of the lower half of an id (the lthread number, and the lower bits of the task's)
/// multiplied by this choose the slot: the golden ratio spreads them.
pub const LOOKUP_FACTOR: u32 = 0x61c8_8647;
/// From the product to the slot.
pub const LOOKUP_SHIFT: u32 = u32::BITS - SLOT_BITS;

/// Threads that were looked for lately, by id. Whoever deletes a thread makes all processors forget
/// it.
#[repr(C)]
pub struct LookupCache {
    pub(crate) ids: [Cell<Id>; SLOTS],
    pub(crate) threads: [Cell<Option<Ref<Thread>>>; SLOTS],
}

const fn slot_of(id: Id) -> usize {
    ((id.0 as u32).wrapping_mul(LOOKUP_FACTOR) >> LOOKUP_SHIFT) as usize
}

/// What stands in an empty slot: an id that is never looked for there.
const fn absent(slot: usize) -> Id {
    const { assert!(slot_of(Id::NIL) == 0 && slot_of(Id::INVALID) != 0) }
    if slot == 0 {
        return Id::INVALID;
    }
    Id::NIL
}

impl LookupCache {
    /// Nobody is known.
    pub const fn new() -> LookupCache {
        let mut ids = [const { Cell::new(Id::NIL) }; SLOTS];
        ids[0] = Cell::new(absent(0));
        LookupCache { ids, threads: [const { Cell::new(None) }; SLOTS] }
    }

    /// Keeps a thread that was found.
    pub fn insert(&self, thread: Ref<Thread>) {
        let slot = slot_of(thread.id);
        self.ids[slot].set(thread.id);
        self.threads[slot].set(Some(thread));
    }

    /// This id names nobody any more.
    pub fn forget(&self, id: Id) {
        let slot = slot_of(id);
        if self.ids[slot].get() == id {
            self.ids[slot].set(absent(slot));
            self.threads[slot].set(None);
        }
    }
}
