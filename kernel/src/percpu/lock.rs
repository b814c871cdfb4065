// SPDX-License-Identifier: GPL-2.0-only
//! Who may run kernel code when.
//!
//! Each processor has a lock, and every entry from user mode takes its own: under it run the short ways of `fast`, which
//! touch only what belongs to this processor, those of `across`, which take a second processor's lock, and the choice of
//! who runs next. All else runs *exclusively*: with the locks of all processors, taken in
//! order behind one gate. So the long ways may believe that they are alone, and what they look at stays as it is.
//!
//! A processor whose lock another one holds is in user mode, idle, or waits here. What it holds of a thread in its
//! registers (bases, FPU, translations) is had by `settle`: it comes in, puts all of that into memory, and goes on waiting.
//!
//! Two rules keep this free of deadlocks. A processor waits for a lock only while it holds none
//! (`with_another` does not wait), except behind the gate, where there is one at a time, which
//! takes them in order. Interrupts are enabled in the kernel only while it holds no lock (idle) or
//! all of them (`sched::poll`), so what an interrupt changes is never half done.
//!
//! The locks are plain words that whoever runs may take. Queues (tickets, MCS) would be fairer on a bare machine, but
//! where processors are themselves scheduled, each hand-over to one that does not run costs its whole absence.

use crate::arch::cpu::{self, cpu, Cpu};
use crate::arch::{apic, paging, switch};
use core::hint::spin_loop;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A lock.
pub struct Lock {
    held: AtomicBool,
    waiting: AtomicU32,
}

impl Lock {
    /// Offset of the byte that is 1 while it is held.
    pub const HELD: usize = offset_of!(Lock, held);

    /// Held by nobody.
    pub const fn new() -> Lock {
        Lock { held: AtomicBool::new(false), waiting: AtomicU32::new(0) }
    }

    /// Takes it; meanwhile this processor serves requests of the one that holds it.
    #[inline]
    fn take(&self, cpu: &Cpu) {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait(cpu);
        }
    }

    #[cold]
    fn wait(&self, cpu: &Cpu) {
        cpu.is_spinning.store(true, Ordering::SeqCst);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        while self.held.load(Ordering::Relaxed) || self.held.swap(true, Ordering::Acquire) {
            if cpu.write_back_request.load(Ordering::SeqCst) {
                switch::write_back_loaded(cpu);
                paging::leave(cpu);
                cpu.write_back_request.store(false, Ordering::SeqCst);
            }
            spin_loop();
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        cpu.is_spinning.store(false, Ordering::SeqCst);
    }

    #[inline]
    fn release(&self) {
        self.held.store(false, Ordering::Release);
    }

    fn is_contended(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Who wants all locks waits here first, so that two of them never hold half each.
static ORDERING_LOCK: Lock = Lock::new();

/// An entry from user mode: takes this processor's lock.
#[inline]
pub fn enter(cpu: &Cpu) {
    cpu.lock.take(cpu);
}

/// Does what needs another processor's lock besides the own one. False where that is held: who may wait for it holds none.
pub fn with_another(other: &Cpu, serve: impl FnOnce() -> bool) -> bool {
    if other.lock.held.swap(true, Ordering::Acquire) {
        return false;
    }
    let served = serve();
    other.lock.release();
    served
}

/// From this processor's lock to the locks of all. Everything may have changed when it returns.
#[inline]
pub fn take_all_locks(cpu: &Cpu) {
    if cpu::count() > 1 {
        cpu.lock.release();
        take_all(cpu);
    }
    cpu.has_all_locks.set(true);
}

#[cold]
fn take_all(cpu: &Cpu) {
    ORDERING_LOCK.take(cpu);
    cpu::all().for_each(|other| other.lock.take(cpu));
}

/// From nothing to the locks of all: an interrupt outside of user mode, `cond_resched`, a processor
/// that starts. Returns true if they were not held before: then, and only then, the caller gives
/// them back. An interrupt that `sched::poll` lets in finds them held.
pub fn all_locks_from_idle(cpu: &Cpu) -> bool {
    if cpu.has_all_locks.replace(true) {
        return false;
    }
    match cpu::count() {
        1 => cpu.lock.take(cpu),
        _ => take_all(cpu),
    }
    true
}

/// Gives back what is held: this processor's lock, or all. Who waits for all of them has a moment for taking them before this
/// processor comes again: else one that calls and calls could keep the others out, since nothing puts them in order.
#[inline]
pub fn release(cpu: &Cpu) {
    if cpu.has_all_locks.replace(false) && cpu::count() > 1 {
        release_all();
    } else {
        cpu.lock.release();
    }
}

#[cold]
fn release_all() {
    /// That moment, in turns of the loop: enough for a processor that runs, and short for one that does not.
    const TURNS: u32 = 1000;
    cpu::all().for_each(|other| other.lock.release());
    ORDERING_LOCK.release();
    (0..TURNS).take_while(|_| !ORDERING_LOCK.held.load(Ordering::Relaxed) && is_contended()).for_each(|_| spin_loop());
}

/// At boot, while there is one processor: it holds all there is, the gate too, until the first thread runs.
pub fn begin(cpu: &Cpu) {
    ORDERING_LOCK.take(cpu);
    cpu.lock.take(cpu);
    cpu.has_all_locks.set(true);
}

/// At boot: a further processor is there. Its lock is taken for the boot processor, which gives all back.
pub fn add(boot: &Cpu, new: &Cpu) {
    new.lock.take(boot);
}

/// At boot: there is only one processor, so the gate is not used.
pub fn alone() {
    ORDERING_LOCK.release();
}

/// In a panic: the other processors stop. One in user mode comes in and waits for its lock without end, and so does one in the
/// kernel that leaves it. Those that never give their lock back are waiting for this processor, or it has their locks.
pub fn stop_others(own: &Cpu) {
    const TURNS: u32 = 1 << 20;
    for other in cpu::all().filter(|other| other.index != own.index) {
        (0..TURNS).take_while(|_| other.lock.held.swap(true, Ordering::Acquire)).for_each(|_| spin_loop());
        apic::kick(other.apic_id);
    }
}

/// Whether another processor waits for this one to end its long way.
pub fn is_contended() -> bool {
    cpu::count() > 1 && (ORDERING_LOCK.is_contended() || cpu::all().any(|other| other.lock.is_contended()))
}

/// Between two steps of a long way: lets another processor have the locks, if one wants them.
pub fn cond_resched(cpu: &Cpu) {
    if is_contended() {
        release(cpu);
        all_locks_from_idle(cpu);
    }
}

/// Makes a processor put all that its registers hold of threads into memory. The caller runs exclusively. Another
/// processor has then left the user's space (the kernel's own table is loaded) and is in the
/// kernel, between saving a thread's registers and acting on why it came. An interrupt for it that
/// arrives later is harmless: it finds nothing to do.
pub fn write_back(target: &Cpu) {
    if target.index == cpu().index {
        switch::write_back_loaded(target);
        return;
    }
    target.write_back_request.store(true, Ordering::SeqCst);
    if !target.is_spinning.load(Ordering::SeqCst) {
        apic::kick(target.apic_id);
    }
    while target.write_back_request.load(Ordering::SeqCst) {
        spin_loop();
    }
}
