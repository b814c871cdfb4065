// SPDX-License-Identifier: GPL-2.0-only
//! The return to user mode, a thread's exit work, and expired deadlines.
//!
//! This is above the scheduler, which chooses the thread, and above IPC, which ends its waits.
//! Interrupts are off. `leave` runs with this CPU's lock at least, the others with all CPU locks
//! held.

use crate::arch::{apic, clock, cpu::cpu, cpu::Cpu, switch, tables::VECTOR_GP};
use crate::sys::small;
use crate::{base::*, ipc::fault, ipc::ipc, ipc::kernel_object, ipc::transfer, object::thread::*, percpu::lock, sched};

/// Most deadlines that one timer interrupt serves, to bound its length. If more have expired, the
/// next interrupt follows at once.
const MAX_DUE: usize = 4;

/// Serves the expired deadlines of the current CPU, after a timer interrupt. All CPU locks are
/// held.
pub fn timer_interrupt() {
    apic::end_of_interrupt();
    let cpu = cpu();
    cpu.programmed.set(u64::MAX);
    for _ in 0..MAX_DUE {
        let Some(due) = cpu.deadlines.pop_due(clock::now()) else { break };
        match due {
            Due::Thread(thread) => {
                thread.unset(Flags::TIMED);
                ipc::timed_out(thread);
            }
            Due::Timer(timer) => kernel_object::fire(timer),
            // A thread with an unlimited slice has a running slice only because it donated the CPU.
            Due::Slice => sched::slice_ended(cpu, sched::slice_owner(cpu).filter(|owner| owner.slice.get() != 0)),
        }
    }
    sched::program(cpu);
}

/// `leave` for the usual end of a system call: the current thread goes on, without a choice. `None`
/// if that is not so.
pub fn go_on(cpu: &Cpu) -> Option<u64> {
    let thread = cpu.current.get().filter(|thread| sched::goes_on(cpu, *thread))?;
    switch::load(cpu, thread).then(|| thread.frame.get() as u64)
}

/// Ends a slow path, or a path under this CPU's lock alone: chooses a thread, does its exit work,
/// and returns the frame to return to user mode with. `cpu` is the current CPU, whose lock is
/// held, alone or with all others; it may have released and taken locks when it returns. Locks
/// that are held then are the caller's to release.
pub fn leave(cpu: &'static Cpu) -> u64 {
    loop {
        let donated = cpu.donated.get();
        let thread = sched::choose(cpu);
        let fresh = cpu.current.replace(Some(thread)) != Some(thread) || cpu.slice_over.get();
        let counts =
            || cpu.queue.has(thread.priority.get()) || cpu.slice.is_armed() || thread.has(Flags::HAS_PREEMPTER);
        if !donated && (fresh || counts()) {
            sched::start_slice(cpu, thread, fresh);
        }
        let small = || thread.has(Flags::SMALL) && !thread.has(Flags::WORK) && switch::load_small(cpu, thread);
        if !thread.has(Flags::LEAVES_SLOWLY) && switch::load(cpu, thread) || small() {
            sched::set_preemption_threshold(cpu);
            return thread.frame.get() as u64;
        }
        if !cpu.has_all_locks.get() {
            // Exit work and faults need all locks. Taking them releases this CPU's lock, so choose
            // again.
            lock::take_all_locks(cpu);
        } else if thread.has(Flags::WORK) {
            exit_work(thread);
            lock::cond_resched(cpu);
        } else if !small::leaves_window(thread) {
            // #GP: its frame has an ip that no user can have (`switch::load` refused it).
            thread.unset(Flags::BAD_IP);
            fault::exception(thread, VECTOR_GP, 0, 0);
        }
    }
}

/// Does the most urgent exit work of the thread that is about to run. All CPU locks are held. It
/// may block the thread, or move it to another CPU; `leave` chooses again.
fn exit_work(thread: Ref<Thread>) {
    if thread.has(Flags::MIGRATING) {
        cpu().current.set(None);
        sched::hand_over(thread);
    } else if thread.has(Flags::TRANSFER) {
        // A transfer may take long: the thread is charged for it.
        switch::charge(cpu(), thread);
        transfer::proceed(thread);
    } else if thread.has(Flags::RECEIVE_DUE) {
        thread.unset(Flags::RECEIVE_DUE);
        ipc::receive(thread);
    } else if thread.has(Flags::TRIGGERED) {
        thread.unset(Flags::TRIGGERED);
        fault::triggered(thread);
    } else if thread.has(Flags::PREEMPTED) {
        fault::preempted(thread);
    }
}
