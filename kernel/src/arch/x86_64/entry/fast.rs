// SPDX-License-Identifier: GPL-2.0-only
//! The IPC fast paths: what fast.s knows of the kernel's structures. Their code is there.
//!
//! They run under the own processor's lock and touch nothing but threads of this processor. What
//! they compare in one instruction is kept so that one is enough: `Thread::state_word` beside the
//! values in `Cpu`, `Cpu::preemption_threshold`, `LookupCache` (lookup.rs).

use crate::arch::{cpu::cpu, cpu::Cpu, fpu, tables};
use crate::base::{facts, facts::Word, Ref};
use crate::ipc::transfer::{map_answer, TAG_CONTENT};
use crate::object::thread::*;
use crate::sched;
use keel_abi::{call::*, Id, Status};

/// Flags of threads, for the assembly.
pub const ALIEN: u32 = Flags::ALIEN.raw();
pub const FPU: u32 = Flags::FPU.raw();
pub const DISPATCHED: u32 = Flags::DISPATCHED.raw();
/// What a thread may have that waits for the answer to its fault.
pub const OF_FAULTED: Flags = Flags::ALIEN.union(Flags::FPU).union(Flags::DISPATCHED);
/// Flags of reply and wait for anybody.
pub const REPLY_AND_WAIT: u64 = CALL_IPC | IPC_SEND | IPC_RECEIVE | IPC_OPEN;
/// Flags of a reply alone.
pub const REPLY_ALONE: u64 = CALL_IPC | IPC_SEND;
/// Clears the kind of the send timeout, which does not matter where the partner waits.
pub const ANY_SEND_TIMEOUT: i32 = !(IPC_TIMEOUT_MASK << IPC_SEND_TIMEOUT_SHIFT) as i32;

/// The running thread answers a fault with pages alone. Returns the thread that now runs: the
/// faulter, if the caller waits for anybody again, or else the caller, if it is the more important
/// one; then the faulter is next. This is half short: the caller runs exclusively. `None`: it is
/// not so, or something is out of the ordinary; nothing was done, except that some pages are
/// perhaps mapped.
pub fn answer(cpu: &Cpu, caller: Ref<Thread>) -> Option<Ref<Thread>> {
    let (frame, utcb) = (caller.frame(), caller.utcb()?);
    let call = frame.orig_ax.get() & ANY_SEND_TIMEOUT as u64;
    if call != REPLY_AND_WAIT && call != REPLY_ALONE {
        return None;
    }
    let (waits_again, threshold) = (call == REPLY_AND_WAIT, cpu.preemption_threshold.get());
    let faulter = cpu.lookup_cache.get(Id(frame.di.get()))?;
    let flags = faulter.flags.get().without(Flags::FPU | Flags::DISPATCHED) | Flags::ALIEN;
    let state = state_word(faulter.state(), false, faulter.cpu.get(), flags);
    let waits = state == cpu.fault_wait && faulter.partner.get() == caller.id;
    let (own, others) = (caller.priority.get(), faulter.priority.get());
    let runs_next = if waits_again {
        others as u16 >= threshold && !caller.maybe_pending.get()
    } else {
        // With equal ones a time slice would begin.
        own as u16 >= threshold && own > others
    };
    if !waits || !runs_next || caller.has_others(Flags::FPU) {
        return None;
    }
    map_answer(caller.task, faulter.task, utcb, frame.si.get() & TAG_CONTENT).then(|| {
        // Point of no return.
        caller.waiters.set(caller.waiters.get() - 1);
        if !waits_again {
            frame.ax.set(Status::OK.0);
            sched::wake(faulter);
            sched::set_preemption_threshold(cpu);
            if cpu.fpu_lent.get() != 0 {
                // It is the faulter's again. With that `load` finds all of the caller loaded.
                fpu::change(cpu, caller);
            }
            return caller;
        }
        caller.change_state(State::Receiving);
        caller.open.set(true);
        caller.partner.set(Id::NIL);
        faulter.change_state(State::Ready);
        cpu.current.set(Some(faulter));
        faulter
    })
}

unsafe extern "C" {
    static syscall_entries: [u64; 10];
    fn slow_syscall_entry();
}

/// Where SYSCALL enters, once it is known how many processors there are. The entries that clear no
/// registers know no PCIDs (`paging::use_pcids`).
pub fn system_call_entry(processors: u32) -> u64 {
    if !tables::use_fast_paths() {
        return slow_syscall_entry as *const () as u64;
    }
    let unscrubbed = if facts::has_word(Word::NoClear) { 2 } else { 0 };
    let kind = if facts::has_word(Word::Supervisor) { 1 } else { unscrubbed };
    let number = 4 * kind + 2 * cpu().pcids.are_used() as usize + (processors > 1) as usize;
    // SAFETY: fast.s has the table, which nothing changes.
    unsafe { syscall_entries[number] }
}
