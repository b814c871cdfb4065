// SPDX-License-Identifier: GPL-2.0-only
//! CPU locks: they serialise the kernel on a multiprocessor.
//!
//! Each CPU has one lock, and each entry from user mode takes that of its CPU. Under this lock
//! alone run the fast paths (`fast`), which touch only threads of this CPU, the cross-CPU IPC fast
//! path (`across`), which takes a second CPU's lock too, fast paths that map pages and keep the
//! other CPUs from taking all locks (`ordered`), and the choice of the next thread. All other code
//! runs with the locks of all CPUs (stop the world), so the slow paths need no finer locks:
//! nothing that they look at changes. On a uniprocessor the one lock is both.
//!
//! A CPU whose lock another CPU holds is in user mode, idle, or spins in this file. It may still
//! hold state of a thread in its registers: FS and GS bases, FPU, TLB entries. `write_back` sends
//! an IPI: the target CPU enters the kernel, writes that state back to memory, and resumes
//! spinning.
//!
//! Deadlocks: a CPU waits for a lock only while it holds none. `Lock::with` and `ordered` hold
//! one, and do not wait. The CPU that has `ORDERING_LOCK` holds some; there is only one such CPU,
//! and it takes the locks in the order of the CPUs' numbers.
//!
//! A lock is with a pair, in place of free, while its CPU makes direct calls (direct.rs). It can be
//! taken as if it were free: no CPU waits for a pair.
//!
//! Interrupts are enabled in the kernel only while the CPU holds no lock (idle) or all of them
//! (`preempt::poll`). So no interrupt handler finds an operation half done, and none waits for a
//! lock that the interrupted code holds.
//!
//! The locks are unfair test-and-set words. Queue locks (ticket, MCS) would be fairer on real
//! hardware, but on virtual CPUs each hand-over to a CPU that is not scheduled costs all the time
//! until it is.

use crate::arch::{apic, cpu, cpu::cpu, cpu::Cpu, direct, paging, switch};
use core::{hint::spin_loop, mem::offset_of, ptr, sync::atomic::*};

/// State of a lock: it is free.
pub const FREE: u8 = 0;
/// A CPU holds it.
pub const HELD: u8 = 1;
/// It is free, and its CPU makes direct calls: whoever takes it ends them (direct.rs), except
/// for that CPU's own fast paths.
pub const PAIR: u8 = 2;

object! {
    /// A spin lock, with the number of CPUs that spin for it.
    pub struct Lock const () {
        state: AtomicU8 = AtomicU8::new(FREE),
        waiting: AtomicU32 = AtomicU32::new(0),
    }
}

impl Lock {
    /// Offset of the state; fast.s takes the lock by XCHG.
    pub const STATE: usize = offset_of!(Lock, state);

    /// Takes the lock, and spins until it is free. `cpu` is the current CPU. While it spins, it
    /// serves write-back requests: the holder may need state that is in this CPU's registers.
    ///
    /// Interrupts are off. The CPU holds no lock, or it has `ORDERING_LOCK`. The registers of the
    /// thread that entered are saved, and the caller relies on nothing that it read before.
    fn take(&self, cpu: &Cpu) {
        if !self.try_take() {
            self.wait(cpu);
        }
    }

    /// Takes the lock if no CPU holds it.
    fn try_take(&self) -> bool {
        let found = self.state.swap(HELD, Ordering::Acquire);
        found == FREE || self.end_direct_calls(found)
    }

    /// Runs `serve` with the lock held, too. The current CPU holds its own lock only.
    ///
    /// Returns what `serve` returns, or false, without running it, if the lock is held: to wait for
    /// it with a lock held could deadlock. The caller then takes the slow path.
    #[inline]
    pub fn with(&self, serve: impl FnOnce() -> bool) -> bool {
        if !self.try_take() {
            return false;
        }
        let served = serve();
        self.release();
        served
    }

    /// Returns true if the lock, which was in the state `found` and is held now, was with a pair:
    /// then the current CPU has it, and the direct calls of the lock's CPU end.
    #[cold]
    fn end_direct_calls(&self, found: u8) -> bool {
        let Some(owner) = cpu::all().find(|owner| found == PAIR && ptr::eq(&owner.lock, self)) else { return false };
        direct::settle(owner);
        true
    }

    #[cold]
    fn wait(&self, cpu: &Cpu) {
        // Before the first look at write_back_request, as write_back needs it.
        cpu.is_spinning.store(true, Ordering::SeqCst);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        while self.state.load(Ordering::Relaxed) == HELD || !self.try_take() {
            if cpu.write_back_request.load(Ordering::SeqCst) {
                // Leaving the address space flushes its TLB entries, or the requester marks its
                // PCID stale (paging.rs: shoot_down_others).
                switch::write_back_loaded(cpu);
                paging::leave(cpu);
                cpu.write_back_request.store(false, Ordering::SeqCst);
            }
            spin_loop();
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        cpu.is_spinning.store(false, Ordering::SeqCst);
    }

    /// Releases the lock. The current CPU holds it.
    fn release(&self) {
        self.state.store(FREE, Ordering::Release);
    }

    /// Returns true if a CPU spins for this lock. A hint: it may change at once.
    fn is_contended(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Taken before all CPU locks are taken, so that two CPUs that want all of them never hold some
/// each. On a uniprocessor it is not used.
static ORDERING_LOCK: Lock = Lock::new();

/// Takes the current CPU's lock: at each entry from user mode, and after idling. The CPU holds no
/// lock. Another CPU may have deleted the current thread, or changed it, before this returns.
pub fn enter(cpu: &Cpu) {
    cpu.lock.take(cpu);
}

/// Runs `serve` while no other CPU has all locks, or gets them. The current CPU holds its own lock
/// only: other CPUs run fast paths meanwhile, and use page tables. So `serve` may change what only
/// slow paths look at, as mappings, and may fill empty entries of tables, but not change others:
/// that needs `write_back`. Interrupts stay off.
///
/// Returns what `serve` returns, or false, without running it, as `Lock::with`.
#[inline]
pub fn ordered(serve: impl FnOnce() -> bool) -> bool {
    ORDERING_LOCK.with(serve)
}

/// Takes the locks of all CPUs. The current CPU holds its own lock only, and releases it meanwhile:
/// the caller must check again whatever it has read before, the current thread included
/// (`Cpu::arrived`).
pub fn take_all_locks(cpu: &Cpu) {
    if cpu::count() > 1 {
        cpu.lock.release();
        take_all(cpu);
    }
    cpu.has_all_locks.set(true);
}

/// Takes all locks on a multiprocessor. The current CPU holds none.
#[cold]
fn take_all(cpu: &Cpu) {
    ORDERING_LOCK.take(cpu);
    cpu::all().for_each(|other| other.lock.take(cpu));
}

/// Takes the locks of all CPUs, unless the current CPU has them; it must not hold its own lock
/// alone. Used by an interrupt in the kernel, which finds all of them held (`preempt::poll`) or
/// none (idle), by `cond_resched`, and by a CPU that starts: the boot CPU has them until the first
/// thread runs.
///
/// Returns true if this call took them. Then, and only then, the caller of this function releases
/// them.
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

/// Releases all locks if the current CPU has them, otherwise its own lock, which it holds.
///
/// After all locks it backs off briefly, so that a CPU that waits for all locks can take them; the
/// locks are unfair, and a CPU in a system-call loop would otherwise starve it.
pub fn release(cpu: &Cpu) {
    if cpu.has_all_locks.replace(false) && cpu::count() > 1 {
        release_all();
    } else {
        cpu.lock.release();
    }
}

/// Releases all locks on a multiprocessor, and backs off while another CPU spins and has not taken
/// them.
#[cold]
fn release_all() {
    /// Most iterations of the back-off: enough for a waiting CPU that runs; little time is lost
    /// for a virtual CPU that is not scheduled.
    const TURNS: u32 = 1000;
    cpu::all().for_each(|other| other.lock.release());
    ORDERING_LOCK.release();
    (0..TURNS)
        .take_while(|_| ORDERING_LOCK.state.load(Ordering::Relaxed) == FREE && is_contended())
        .for_each(|_| spin_loop());
}

/// At boot, on the boot CPU, which has all locks: takes the lock of a CPU that is about to be
/// added, and before that of the second one the ordering lock, so that the boot CPU still has all
/// locks. It releases them together.
pub fn add(boot: &Cpu, new: &Cpu) {
    if cpu::count() == 1 {
        ORDERING_LOCK.take(boot);
    }
    new.lock.take(boot);
}

/// Stops the other CPUs, in a panic on `own`; the locks are never released. It takes each lock, or
/// waits for it for a bounded time, and sends an IPI.
///
/// A CPU in user mode enters the kernel and spins for its lock, which it never gets. So does a CPU
/// that leaves the kernel now. A lock that is never released is that of a CPU that itself waits for
/// this CPU, or this CPU holds it already; therefore the wait is bounded.
pub fn stop_others(own: &Cpu) {
    /// Most iterations for each lock.
    const TURNS: u32 = 1 << 20;
    for other in cpu::all().filter(|other| other.index != own.index) {
        (0..TURNS).take_while(|_| !other.lock.try_take()).for_each(|_| spin_loop());
        apic::kick(other.apic_id);
    }
}

/// Returns true if another CPU waits for any lock, so that the current CPU, which has all locks,
/// should end its slow path or call `cond_resched`. A hint: it may change at once.
pub fn is_contended() -> bool {
    cpu::count() > 1 && (ORDERING_LOCK.is_contended() || cpu::all().any(|other| other.lock.is_contended()))
}

/// Releases all locks and takes them again if another CPU waits for a lock. The current CPU has all
/// locks, and holds no reference to anything that may change: the caller checks it again.
pub fn cond_resched(cpu: &Cpu) {
    if is_contended() {
        release(cpu);
        all_locks_from_idle(cpu);
    }
}

/// Makes `target` write back to memory all state of threads that is in its registers. The current
/// CPU has all locks and interrupts off, so `target` is in user mode, idle, or spins in
/// `Lock::wait`, or is on its way from one to the other and holds nothing.
///
/// When this returns, another CPU has left the user's address space (the kernel's page table is
/// loaded) and spins in the kernel: it has saved the thread's registers, and acts on nothing
/// before it has the locks. So the caller may change the thread's frame and address space. If
/// `target` is the current CPU, only registers are written back.
///
/// This cannot deadlock: an IPI ends user mode and idling, and a CPU that spins serves the request.
/// Here the request is stored before `is_spinning` is loaded; `Lock::wait` does the opposite. So
/// `target` either sees the request, or gets the IPI. An IPI that arrives later is harmless: it
/// finds nothing to do.
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
