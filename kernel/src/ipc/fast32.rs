// SPDX-License-Identifier: GPL-2.0-only
//! The IPC fast paths of alien threads that run 32-bit code: what fast.s does for others.
//!
//! Served are such a thread's `int 0x80` to its handler in an open wait, and the handler's reply
//! with open wait that resumes it. Every other case takes the slow path. The outcome is the same.
//! They are in Rust: their entry by an interrupt gate saves all registers, and their exit is IRET,
//! whatever is between. fast32.s has the fast path of native threads.
//!
//! They run under this CPU's lock alone, and touch nothing but threads of this CPU. Until "Commit"
//! they only check. They return whether they served the call: then `Cpu::current` is the partner,
//! which the caller resumes.

use crate::arch::{cpu::Cpu, entry::fast::*};
use crate::{base::abi::*, base::Ref, ipc::ipc, object::thread::*};

/// Flags that change nothing here.
const PLAIN: Flags = Flags::FPU.union(Flags::DEBUG_TLS).union(Flags::SMALL);

/// The thread of an id, if it is one of this CPU, the scheduler would choose it once it is ready,
/// and it has no flags but these.
fn partner(cpu: &Cpu, id: Id, flags: Flags) -> Option<Ref<Thread>> {
    let next = |thread: &Ref<Thread>| thread.priority.get() as u16 >= cpu.preemption_threshold.get();
    let here = |thread: &Ref<Thread>| thread.cpu.get() == cpu.index && thread.has_only(flags);
    cpu.lookup_cache.find(id).filter(here).filter(next)
}

/// Serves `int 0x80` of the current thread, if it is alien. Not inlined: other exceptions then save
/// fewer registers.
#[inline(never)]
pub fn call(cpu: &Cpu) -> bool {
    let serves = |caller: &Ref<Thread>| caller.has(Flags::ALIEN) && caller.has_only(PLAIN.union(Flags::ALIEN));
    let Some(caller) = cpu.arrived().filter(serves) else { return false };
    let (frame, to) = (caller.frame(), caller.handler.get());
    let waits = |thread: &Ref<Thread>| thread.state() == State::Receiving && thread.open.get();
    let Some(handler) = partner(cpu, to, Flags::FPU).filter(waits) else { return false };
    // Commit.
    let words = [frame.ax.get(), frame.ip.get(), caller.frame_index.get() as u64, 0];
    frame.orig_ax.set(words[0]);
    caller.block(State::Faulted, false, to);
    handler.waiters.set(handler.waiters.get() + 1);
    handler.lender.set(caller.as_ptr() as u64);
    handler.change_state(State::Ready);
    let to = handler.frame();
    to.ax.set(Status::OK.0);
    to.di.set(caller.id.0);
    to.si.set(Tag::kernel(KIND_SYSCALL, GATE_INT80 as u32, words.len() as u64).0);
    to.message().into_iter().zip(words).for_each(|(register, word)| register.set(word));
    cpu.current.set(Some(handler));
    true
}

/// Serves the current thread's reply and wait for anybody, if that resumes an alien thread.
pub fn resume(cpu: &Cpu) -> bool {
    let Some(caller) = cpu.arrived().filter(|caller| caller.has_only(Flags::FPU)) else { return false };
    let frame = caller.frame();
    let replies = frame.orig_ax.get() & ANY_SEND_TIMEOUT as u64 == REPLY_AND_WAIT;
    let waits = |thread: &Ref<Thread>| thread.has(Flags::ALIEN) && ipc::awaits_answer(*thread, caller);
    let alien = partner(cpu, Id(frame.di.get()), PLAIN.union(Flags::ALIEN)).filter(waits);
    let simple = replies && !caller.maybe_pending.get() && frame.si.get() & TAG_ITEMS == 0;
    let Some(alien) = alien.filter(|_| simple) else { return false };
    // Commit.
    caller.waiters.set(caller.waiters.get() - 1);
    caller.block(State::Receiving, true, Id::NIL);
    alien.change_state(State::Ready);
    cpu.current.set(Some(alien));
    true
}
