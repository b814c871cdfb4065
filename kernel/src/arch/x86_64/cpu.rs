// SPDX-License-Identifier: GPL-2.0-only
//! What belongs to one processor, found through gs.

use super::fast::Known;
use super::tables::{Stack, Tables};
use crate::deadlines::{Deadline, Deadlines};
use crate::lock::Lock;
use crate::refs::Ref;
use crate::runqueue::RunQueue;
use crate::sched::{Due, NOBODY};
use crate::tags::Tags;
use crate::thread::{meeting, State, Thread, FOREIGN};
use core::arch::asm;
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use keel_abi::Id;

/// The first fields are used by entry.s, by their offsets.
#[repr(C)]
pub struct Cpu {
    /// Its own address.
    pub address: Cell<u64>,
    /// The user's stack pointer for a moment.
    pub scratch: Cell<u64>,
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
    /// Its number.
    pub index: u8,
    /// Its local APIC's id.
    pub apic_id: u32,
    /// Taken at every entry into the kernel.
    pub lock: Lock,
    /// It waits for a lock.
    pub parked: AtomicBool,
    /// It shall put its registers' content into memory (`lock::settle`).
    pub request: AtomicBool,
    /// It holds the locks of all processors.
    pub exclusive: Cell<bool>,
    /// Physical address of the top table of the space that is loaded.
    pub space: Cell<u64>,
    /// The spaces whose translations it may hold.
    pub tags: Tags,
    /// Its descriptors and task state.
    pub tables: Tables,
    /// `Thread::meeting` of a thread of this processor that can take the processor over at once: it waits for anybody,
    pub waits_for_any: u64,
    /// for one thread,
    pub waits_for_one: u64,
    /// for its handler's answer, as a foreign thread.
    pub waits_for_answer: u64,
    /// The lowest priority with which that can be: nobody ready has one as high, and no time slice is to start or end.
    pub floor: Cell<u32>,
    /// Partners of the short ways.
    pub known: Known,
    /// The running thread. Whenever the processor is in user mode there is one.
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
    /// Whose it is, if it is anybody's.
    pub slice_owner: Cell<Id>,
    /// The time slice has ended, or was given up.
    pub slice_over: Cell<bool>,
    /// The running thread was given the processor by thread_switch.
    pub donated: Cell<bool>,
    /// The deadline for which the hardware's timer is set.
    pub programmed: Cell<u64>,
}

impl Cpu {
    /// Processor `index` with its local APIC's id, not running yet.
    pub const fn new(index: u8, apic_id: u32) -> Cpu {
        Cpu {
            address: Cell::new(0),
            scratch: Cell::new(0),
            stack: Cell::new(0),
            index,
            apic_id,
            lock: Lock::new(),
            parked: AtomicBool::new(false),
            request: AtomicBool::new(false),
            exclusive: Cell::new(false),
            space: Cell::new(0),
            tags: Tags::new(),
            tables: Tables::new(),
            exit_ip: Cell::new(0),
            exit_cs: Cell::new(0),
            exit_flags: Cell::new(0),
            exit_sp: Cell::new(0),
            exit_sysret: Cell::new(0),
            waits_for_any: meeting(State::Receiving, true, index, 0),
            waits_for_one: meeting(State::Receiving, false, index, 0),
            waits_for_answer: meeting(State::Faulted, false, index, FOREIGN),
            floor: Cell::new(NOBODY),
            known: Known::new(),
            current: Cell::new(None),
            loaded: Cell::new(None),
            partner: Cell::new(None),
            fpu_owner: Cell::new(None),
            fpu_off: Cell::new(false),
            extra_loaded: Cell::new(false),
            queue: RunQueue::new(),
            deadlines: Deadlines::new(),
            slice: Deadline::new(),
            slice_owner: Cell::new(Id::NIL),
            slice_over: Cell::new(false),
            donated: Cell::new(false),
            programmed: Cell::new(u64::MAX),
        }
    }

    /// The deadline of the time slice.
    pub fn slice_deadline(&self) -> Ref<Deadline<Due>> {
        // SAFETY: part of a static.
        unsafe { Ref::new(&raw const self.slice as *mut _) }
    }
}

/// Processors that are used at most.
pub const MAX: usize = 16;
/// Bytes of a processor's kernel stack.
pub const STACK: usize = 32 << 10;

/// A processor's memory. The page below its stack is not mapped.
#[repr(C)]
pub struct Processor {
    stack: Stack<STACK>,
    /// What the kernel keeps of it.
    pub cpu: Cpu,
}

/// The processors that run, in the order of their numbers.
static ALL: [AtomicPtr<Cpu>; MAX] = [const { AtomicPtr::new(null_mut()) }; MAX];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Makes the structure of a processor in `memory`, which is its own for ever.
///
/// # Safety
/// `memory` is mapped, zero, and large enough.
pub unsafe fn create(memory: *mut Processor, index: u8, apic_id: u32) -> &'static Cpu {
    // SAFETY: the caller's contract.
    let cpu = unsafe {
        (&raw mut (*memory).cpu).write(Cpu::new(index, apic_id));
        &(*memory).cpu
    };
    cpu.address.set(cpu as *const _ as u64);
    cpu.stack.set(memory as u64 + STACK as u64);
    cpu
}

/// From now on it is one of those that `all` names; its number is the next one.
pub fn add(cpu: &'static Cpu) {
    ALL[cpu.index as usize].store(cpu as *const Cpu as *mut Cpu, Ordering::Release);
    COUNT.store(cpu.index as u32 + 1, Ordering::Release);
}

/// How many processors run.
#[inline]
pub fn count() -> u32 {
    COUNT.load(Ordering::Relaxed)
}

/// The processors that run.
pub fn all() -> impl Iterator<Item = &'static Cpu> {
    // SAFETY: `add` put live structures there.
    ALL[..count() as usize].iter().map(|cpu| unsafe { &*cpu.load(Ordering::Acquire) })
}

/// The boot processor.
pub fn boot() -> &'static Cpu {
    // SAFETY: as in `all`; it was added first.
    unsafe { &*ALL[0].load(Ordering::Relaxed) }
}

/// The processor of a thread.
pub fn of(thread: Ref<Thread>) -> &'static Cpu {
    // SAFETY: a thread is only moved to processors that run.
    unsafe { &*ALL[thread.cpu.get() as usize % MAX].load(Ordering::Relaxed) }
}

/// This processor's structure.
#[inline]
pub fn cpu() -> &'static Cpu {
    let address: *const Cpu;
    // SAFETY: gs points to the structure from `tables::init` on, and its first word is its address.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) address, options(pure, nomem, nostack, preserves_flags));
        &*address
    }
}

/// Likewise, where it may not have been set up yet: in a panic.
pub fn if_set_up() -> Option<&'static Cpu> {
    (count() > 0).then(cpu)
}

impl Cpu {
    /// Something of the loaded thread changed: it is loaded anew before it runs on.
    pub fn loaded_changed(&self) {
        if let Some(thread) = self.loaded.take() {
            super::entry::save_loaded(thread);
        }
    }
}
