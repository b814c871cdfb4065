// SPDX-License-Identifier: BSD-2-Clause
//! What only programs make or read: of flags, ids, tags, fpages, the kernel area, and structures
//! whose words the µ-kernel reads or writes one by one. It has no use for it, and a test of the
//! command sees to that.

use crate::{call::*, fpage::*, ids::*, list::List, Fpage, Id, Tag};
use core::ops::DerefMut;

crate::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// ipc flags for a zero send timeout
    IPC_SEND_ZERO = TIMEOUT_ZERO << IPC_SEND_TIMEOUT_SHIFT;
    /// ipc flags for a zero receive timeout
    IPC_RECEIVE_ZERO = TIMEOUT_ZERO << IPC_RECEIVE_TIMEOUT_SHIFT;
    /// ipc flags for the UTCB's send timeout
    IPC_SEND_UTCB = TIMEOUT_UTCB << IPC_SEND_TIMEOUT_SHIFT;
    /// ipc flags for the UTCB's receive timeout
    IPC_RECEIVE_UTCB = TIMEOUT_UTCB << IPC_RECEIVE_TIMEOUT_SHIFT;
    /// Base of the kernel area of the root task's tasks with an image in the upper half
    AREA_UPPER = 0xffff_f800_0000_0000;
}

/// Largest task number.
pub const TASK_MAX: u32 = (1 << ID_TASK_BITS) - 1;

crate::layout! {
    /// A range of fpage_unmap in a given task.
    UnmapRange {
        /// Page-aligned address | rights that remain
        address: u64,
        /// Number of 4 KB pages
        pages: u64,
    }

    /// A memory region of the KIP.
    Region {
        /// First byte, physical
        start: u64,
        /// First byte after it
        end: u64,
        /// REGION_*
        kind: u64,
    }
}

impl Id {
    /// The quota.
    pub const QUOTA: Id = Id(ID_QUOTA);
    /// The allocator of MSIs.
    pub const MSI: Id = Id(ID_MSI);

    /// Returns the id of the GSI `line` (below [`GSI_COUNT`]).
    pub const fn irq(line: u32) -> Id {
        Id(ID_IRQ + line as u64)
    }

    /// Depth in the tree of clans.
    pub const fn nesting(self) -> u8 {
        take(self.0, ID_NESTING_SHIFT, ID_NESTING_BITS) as u8
    }
}

impl Tag {
    /// Returns a user's tag with `words` words and no items.
    pub const fn new(label: u32, words: u64) -> Tag {
        Tag::kernel(KIND_USER, label, words)
    }

    /// Returns the tag with `maps` map items.
    pub const fn with_maps(self, maps: u64) -> Tag {
        Tag((self.0 & !(0xff << TAG_MAPS_SHIFT)) | (maps & 0xff) << TAG_MAPS_SHIFT)
    }
}

impl Fpage {
    /// Returns the fpage with another cache type.
    pub const fn with_cache(self, cache: u64) -> Fpage {
        Fpage((self.0 & !(3 << FPAGE_CACHE_SHIFT)) | ((cache & 3) << FPAGE_CACHE_SHIFT))
    }
}

impl<T, const N: usize> DerefMut for List<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items[..self.used]
    }
}

impl<T: Copy, const N: usize> List<T, N> {
    /// Removes the items [`from`, `to`).
    pub fn remove(&mut self, from: usize, to: usize) {
        assert!(from <= to && to <= self.used);
        self.items.copy_within(to..self.used, from);
        self.used -= to - from;
    }
}
