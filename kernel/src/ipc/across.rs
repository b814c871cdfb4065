// SPDX-License-Identifier: GPL-2.0-only
//! The cross-CPU IPC fast path: a message of words to a thread that waits for it on another CPU;
//! and a wait for anybody, which needs no other CPU.
//!
//! They run with the locks of these CPUs only. Every other case takes the slow path, with all
//! CPU locks. Until "Commit" it only checks, so that the slow path can begin again.

use crate::object::{clan, thread::*};
use crate::{arch::cpu, arch::cpu::Cpu, base::abi::*, base::*, ipc::ipc, sched};

/// The flags that a native thread may have here. Of these only TIMED matters: `ipc::stop_waiting`
/// ends the timeout.
const PLAIN: Flags = Flags::FPU.union(Flags::DEBUG_TLS).union(Flags::TIMED);

/// Serves the system call of the current thread, if it is such a message; then the caller calls
/// `leave::leave`. Returns false, with nothing changed, if it is any other call, or if the other
/// CPU's lock is held. `cpu` is the current CPU, whose lock alone is held; interrupts are off.
///
/// Not inlined: on a uniprocessor, which never calls it, a system call then saves fewer registers.
#[inline(never)]
pub fn send(cpu: &Cpu) -> bool {
    const ANY_SEND_TIMEOUT: u64 = IPC_TIMEOUT_MASK << IPC_SEND_TIMEOUT_SHIFT;
    const KNOWN: u64 = IPC_SEND | IPC_RECEIVE | IPC_OPEN | ANY_SEND_TIMEOUT;
    let Some(caller) = cpu.arrived().filter(|caller| caller.has_only(PLAIN)) else { return false };
    let frame = caller.frame();
    let (flags, tag, to) = (frame.orig_ax.get(), Tag(frame.si.get()), Id(frame.di.get()));
    let sends_words = flags & IPC_SEND != 0 && !ipc::has_items(tag) && tag.words() <= MAX_WORDS;
    let (waits, open) = (flags & IPC_RECEIVE != 0, flags & IPC_OPEN != 0);
    let must_look = waits && if open { caller.maybe_pending.get() } else { frame.dx.get() != to.0 };
    if flags & !KNOWN != 0 || !sends_words || must_look {
        return false;
    }
    // No thread is deleted or migrated while this CPU's lock is held: both need all locks.
    let receives = |partner: &Ref<Thread>| clan::is_same_clan(caller.task, partner.task);
    let Some(partner) = find(to).filter(|to| to.cpu.get() != cpu.index && receives(to)) else { return false };
    cpu::of(partner).lock.with(|| {
        if !partner.has_only(PLAIN) || !ipc::accepts(partner, caller.id) {
            return false;
        }
        // Commit.
        caller.destination.set(to);
        caller.shown.set(caller.id);
        ipc::stop_waiting(partner);
        ipc::copy(caller, partner, tag);
        if waits {
            caller.block(State::Receiving, open, if open { Id::NIL } else { to });
            partner.waiters.set(partner.waiters.get() + !open as u32);
        } else {
            frame.ax.set(keel_abi::Status::OK.0);
        }
        sched::wake(partner);
        true
    })
}

/// Serves the system call of the current thread, if it only waits for anybody and nothing is
/// pending; preconditions and result as of `send`. What could be delivered meanwhile needs the
/// lock of this CPU. A number that is a program's of another system, which its thread runs, is an
/// upcall instead. Not inlined, as `send`.
#[inline(never)]
pub fn wait(cpu: &Cpu) -> bool {
    const WAIT: u64 = CALL_IPC | IPC_RECEIVE | IPC_OPEN;
    let waits = |caller: &Ref<Thread>| caller.frame().orig_ax.get() == WAIT && !caller.maybe_pending.get();
    let served = |caller: &Ref<Thread>| caller.has_only(PLAIN) && waits(caller) && !caller.is_called_up();
    let Some(caller) = cpu.arrived().filter(served) else { return false };
    // Commit.
    caller.block(State::Receiving, true, Id::NIL);
    true
}
