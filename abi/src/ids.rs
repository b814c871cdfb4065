// SPDX-License-Identifier: BSD-2-Clause
//! Ids of threads, tasks and kernel objects.
//!
//! Layout of a 64-bit id: version 63:44, task 43:24, lthread 23:8, nesting depth 7:4, zero 3:0. A
//! version is at least 1, so every id of a thread is at least 2^44. Numbers below [`SMALL_IDS`]
//! name kernel objects: interrupts (GSIs and MSIs), timers and the quota. The kernel never uses a
//! version twice for a task or lthread number, so an old id never names a new thread.

use core::fmt;

crate::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// The nil id names no thread: `id_nearest(NIL)` is the caller, a receive from it sleeps
    ID_NIL = 0;
    /// The id that never names anything
    ID_INVALID = u64::MAX;
    /// Ids below this one name kernel objects
    SMALL_IDS = 4096;
    /// Shift of the version field
    ID_VERSION_SHIFT = 44;
    /// Width of the version field in bits
    ID_VERSION_BITS = 20;
    /// Shift of the task field
    ID_TASK_SHIFT = 24;
    /// Width of the task field in bits
    ID_TASK_BITS = 20;
    /// Shift of the lthread field
    ID_LTHREAD_SHIFT = 8;
    /// Width of the lthread field in bits
    ID_LTHREAD_BITS = 16;
    /// Shift of the nesting depth
    ID_NESTING_SHIFT = 4;
    /// Width of the nesting depth in bits
    ID_NESTING_BITS = 4;
    /// The lthread number in an id that names the task itself (no lthread has it)
    LTHREAD_TASK = 0xffff;
    /// Kernel object: memory accounts and frame pages
    ID_QUOTA = 1;
    /// Kernel object: the allocator of MSIs
    ID_MSI = 2;
    /// Kernel object: checks the kernel's invariants; only in the debug build
    ID_CHECK = 4;
    /// First GSI; GSI n has the id ID_IRQ + n
    ID_IRQ = 0x100;
    /// Number of GSIs that have ids
    GSI_COUNT = 0x400;
    /// First MSI; MSI n has the id ID_MSI_SOURCE + n
    ID_MSI_SOURCE = 0x500;
    /// Number of MSIs that have ids
    MSI_SOURCES = 0x400;
    /// First timer of the calling task; also the id that claims a free timer
    ID_TIMER = 0x900;
    /// Timers that a task can have at most
    TIMERS = 32;
    /// Task number of sigma0
    TASK_SIGMA0 = 1;
    /// Task number of the root task
    TASK_ROOT = 2;
    /// First task number that the root task may create
    TASK_FIRST_FREE = 3;
}

/// Largest version: a task or lthread number that has used it is retired.
pub const VERSION_MAX: u32 = (1 << ID_VERSION_BITS) - 1;

/// The id of a thread, of a task or of a kernel object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Id(pub u64);

impl Id {
    /// No thread.
    pub const NIL: Id = Id(ID_NIL);
    /// Never names anything.
    pub const INVALID: Id = Id(ID_INVALID);
    /// The first thread of sigma0.
    pub const SIGMA0: Id = Id::thread(1, TASK_SIGMA0 as u32, 0, 1);
    /// The first thread of the root task.
    pub const ROOT: Id = Id::thread(1, TASK_ROOT as u32, 0, 1);

    /// Returns the id of a thread. `version` is 1 to 2^20-1, `task` below 2^20, `nesting` below 16;
    /// higher bits of each are dropped.
    pub const fn thread(version: u32, task: u32, lthread: u16, nesting: u8) -> Id {
        Id(place(version as u64, ID_VERSION_SHIFT, ID_VERSION_BITS)
            | place(task as u64, ID_TASK_SHIFT, ID_TASK_BITS)
            | place(lthread as u64, ID_LTHREAD_SHIFT, ID_LTHREAD_BITS)
            | place(nesting as u64, ID_NESTING_SHIFT, ID_NESTING_BITS))
    }

    /// Version field.
    #[inline]
    pub const fn version(self) -> u32 {
        take(self.0, ID_VERSION_SHIFT, ID_VERSION_BITS) as u32
    }

    /// Task number.
    #[inline]
    pub const fn task(self) -> u32 {
        take(self.0, ID_TASK_SHIFT, ID_TASK_BITS) as u32
    }

    /// Lthread number; [`LTHREAD_TASK`]: the id names the task itself.
    #[inline]
    pub const fn lthread(self) -> u16 {
        take(self.0, ID_LTHREAD_SHIFT, ID_LTHREAD_BITS) as u16
    }

    /// Returns true if this id names a kernel object (neither nil nor a thread).
    pub const fn is_source(self) -> bool {
        self.0 != ID_NIL && self.0 < SMALL_IDS
    }
}

const fn place(value: u64, shift: u64, bits: u64) -> u64 {
    (value & ((1 << bits) - 1)) << shift
}

pub(crate) const fn take(word: u64, shift: u64, bits: u64) -> u64 {
    (word >> shift) & ((1 << bits) - 1)
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Id::NIL => write!(f, "nil"),
            Id::INVALID => write!(f, "invalid"),
            id if id.is_source() => write!(f, "source {:#x}", id.0),
            id => write!(f, "{}.{}v{}", id.task(), id.lthread(), id.version()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        let id = Id::thread(0xabcde, 0x54321, 0x1234, 7);
        assert_eq!((id.version(), id.task(), id.lthread(), id.nesting()), (0xabcde, 0x54321, 0x1234, 7));
        assert!(!id.is_source());
    }

    #[test]
    fn every_thread_id_is_above_the_sources() {
        assert!(Id::thread(1, 0, 0, 0).0 >= SMALL_IDS);
        assert!(Id::irq(0).is_source() && !Id::NIL.is_source() && !Id::INVALID.is_source());
    }
}
