// SPDX-License-Identifier: GPL-2.0-only
//! What belongs to one processor, found through gs.

use crate::deadlines::{Deadline, Deadlines};
use crate::refs::Ref;
use crate::runqueue::RunQueue;
use crate::sched::Due;
use crate::thread::Thread;
use core::cell::Cell;

/// The first fields are used by entry.s, by their offsets.
#[repr(C)]
pub struct Cpu {
    /// Its own address.
    pub address: Cell<u64>,
    /// The user's stack pointer for a moment.
    pub scratch: Cell<u64>,
    /// The byte behind the ss word of the running thread's frame.
    pub frame_top: Cell<u64>,
    /// Top of the kernel stack.
    pub stack: Cell<u64>,
    /// Checked words to leave with.
    pub exit_ip: Cell<u64>,
    /// See exit_ip.
    pub exit_cs: Cell<u64>,
    /// See exit_ip.
    pub exit_flags: Cell<u64>,
    /// See exit_ip.
    pub exit_sp: Cell<u64>,
    /// Whether sysret may be used.
    pub exit_sysret: Cell<u64>,
    /// The running thread.
    pub current: Cell<Option<Ref<Thread>>>,
    /// Whose fs and gs bases are in the processor.
    pub loaded: Cell<Option<Ref<Thread>>>,
    /// A ready thread that is not in the run queue: the partner of the last IPC.
    pub partner: Cell<Option<Ref<Thread>>>,
    /// Whose FPU state is in the processor.
    pub fpu_owner: Cell<Option<Ref<Thread>>>,
    /// Whether the next FPU instruction traps.
    pub fpu_off: Cell<bool>,
    /// Whether debug registers or thread-local descriptors of a thread are loaded.
    pub extra_loaded: Cell<bool>,
    /// The other ready threads.
    pub queue: RunQueue<Thread>,
    /// Timeouts, timers, the end of the time slice.
    pub deadlines: Deadlines<Due>,
    /// End of the time slice, if somebody waits for it.
    pub slice: Deadline<Due>,
    /// The time slice has ended, or was given up.
    pub slice_over: Cell<bool>,
    /// The running thread was given the processor by thread_switch.
    pub donated: Cell<bool>,
    /// The deadline for which the hardware's timer is set.
    pub programmed: Cell<u64>,
    /// TSC when the running thread began to run.
    pub since: Cell<u64>,
}

// SAFETY: each processor uses only its own.
unsafe impl Sync for Cpu {}

impl Cpu {
    const fn new() -> Cpu {
        Cpu {
            address: Cell::new(0),
            scratch: Cell::new(0),
            frame_top: Cell::new(0),
            stack: Cell::new(0),
            exit_ip: Cell::new(0),
            exit_cs: Cell::new(0),
            exit_flags: Cell::new(0),
            exit_sp: Cell::new(0),
            exit_sysret: Cell::new(0),
            current: Cell::new(None),
            loaded: Cell::new(None),
            partner: Cell::new(None),
            fpu_owner: Cell::new(None),
            fpu_off: Cell::new(false),
            extra_loaded: Cell::new(false),
            queue: RunQueue::new(),
            deadlines: Deadlines::new(),
            slice: Deadline::new(),
            slice_over: Cell::new(false),
            donated: Cell::new(false),
            programmed: Cell::new(u64::MAX),
            since: Cell::new(0),
        }
    }

    /// The deadline of the time slice.
    pub fn slice_deadline(&self) -> Ref<Deadline<Due>> {
        // SAFETY: part of a static.
        unsafe { Ref::new(&raw const self.slice as *mut _) }
    }
}

/// The structure of the boot processor; others will get theirs from the pool.
static BOOT_CPU: Cpu = Cpu::new();

/// This processor's structure.
pub fn cpu() -> &'static Cpu {
    &BOOT_CPU
}

impl Cpu {
    /// Something of the loaded thread changed: it is loaded anew before it runs on.
    pub fn loaded_changed(&self) {
        if let Some(thread) = self.loaded.take() {
            super::entry::save_loaded(thread);
        }
    }
}
