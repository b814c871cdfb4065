// SPDX-License-Identifier: GPL-2.0-only
//! The way out to user mode, and what is due on it: work that a thread left undone, and deadlines.
//!
//! This is above the scheduler, which chooses the thread, and above IPC, which ends its waits.

use crate::arch::cpu::{cpu, Cpu};
use crate::arch::{clock, switch};
use crate::ipc::{fault, ipc, kernel_object, transfer};
use crate::{base::Ref, object::thread::*, percpu::lock, sched};
use keel_abi::Side;

/// Deadlines that one interrupt serves: bounds its length. Where more are due, the next interrupt follows at once.
const MAX_DUE: usize = 4;

/// The hardware's timer fired: serves what is due.
pub fn timer_interrupt() {
    let cpu = cpu();
    cpu.programmed.set(u64::MAX);
    for _ in 0..MAX_DUE {
        let Some(due) = cpu.deadlines.pop_due(clock::now()) else { break };
        match due {
            Due::Thread(thread) => {
                thread.unset(TIMED);
                ipc::timed_out(thread);
            }
            Due::Timer(timer) => kernel_object::fire(timer),
            // Who has no slice of its own donated for this long.
            Due::Slice => sched::slice_ended(cpu, sched::slice_owner(cpu).filter(|owner| owner.slice.get() != 0)),
        }
    }
    sched::program(cpu);
}

/// The end of every long way, and of those under this processor's lock: chooses a thread, does what it has to do first,
/// and returns the frame with which to leave.
pub fn leave(cpu: &'static Cpu) -> u64 {
    loop {
        let donated = cpu.donated.get();
        let thread = sched::choose(cpu);
        let fresh = cpu.current.replace(Some(thread)) != Some(thread) || cpu.slice_over.get();
        let counts = || cpu.queue.has(thread.priority.get()) || cpu.slice.is_armed() || thread.has(HAS_PREEMPTER);
        if !donated && (fresh || counts()) {
            sched::start_slice(cpu, thread, fresh);
        }
        let work = thread.has(WORK);
        if !work && switch::load(cpu, thread) {
            sched::set_preemption_threshold(cpu);
            return thread.frame_address();
        }
        if !cpu.has_all_locks.get() {
            // Whoever it is then, it is looked at anew.
            lock::take_all_locks(cpu);
        } else if work {
            exit_work(thread);
            lock::cond_resched(cpu);
        } else {
            fault::bad_frame(thread);
        }
    }
}

fn exit_work(thread: Ref<Thread>) {
    if thread.has(MIGRATING) {
        cpu().current.set(None);
        sched::hand_over(thread);
    } else if thread.has(TRANSFER) {
        // From here on it is this thread's time.
        switch::charge(thread);
        transfer::proceed(thread);
    } else if thread.has(RECEIVE_DUE) {
        thread.unset(RECEIVE_DUE);
        if let Err(error) = ipc::receive(thread) {
            ipc::finish(thread, Side::Receive, error);
        }
    } else if thread.has(TRIGGERED) {
        thread.unset(TRIGGERED);
        fault::triggered(thread);
    } else if thread.has(PREEMPTED) {
        fault::preempted(thread);
    }
}
