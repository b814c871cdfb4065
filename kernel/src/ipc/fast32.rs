// SPDX-License-Identifier: GPL-2.0-only
//! The IPC fast paths of threads that run 32-bit code: what fast.s does for others.
//!
//! Served are call, and reply with open wait, of such a native thread by `int 0x80`, with at most
//! three words and the label; an alien thread's `int 0x80` to its handler in an open wait; and the
//! handler's reply with open wait that resumes it. Every other case takes the slow path. The
//! outcome is the same. They are in Rust: their entry by an interrupt gate saves all registers, and
//! their exit is IRET, whatever is between.
//!
//! They run under this CPU's lock alone, and touch nothing but threads of this CPU. Until "Commit"
//! they only check. They return whether they served the call: then `Cpu::current` is the partner,
//! which the caller resumes.

use crate::arch::{compat::LABEL, cpu::Cpu, entry::fast::*};
use crate::{base::abi::*, base::Ref, ipc::ipc, object::clan, object::thread::*};

/// Flags that change nothing here.
const PLAIN: Flags = Flags::FPU.union(Flags::DEBUG_TLS).union(Flags::SMALL);
/// Words that have registers in 32-bit code.
const WORDS: u64 = 3;

/// The thread of an id, if it is one of this CPU, the scheduler would choose it once it is ready,
/// and it has no flags but these.
fn partner(cpu: &Cpu, id: Id, flags: Flags) -> Option<Ref<Thread>> {
    let next = |thread: &Ref<Thread>| thread.priority.get() as u16 >= cpu.preemption_threshold.get();
    let here = |thread: &Ref<Thread>| thread.cpu.get() == cpu.index && thread.has_only(flags);
    cpu.lookup_cache.find(id).filter(here).filter(next)
}

/// Serves `int 0x80` of the current thread. Not inlined: other exceptions then save fewer
/// registers.
#[inline(never)]
pub fn call(cpu: &Cpu) -> bool {
    match cpu.arrived() {
        Some(caller) if caller.has(Flags::ALIEN) => alien_call(cpu, caller),
        Some(caller) if caller.has(Flags::SMALL) => native_call(cpu, caller),
        _ => false,
    }
}

fn native_call(cpu: &Cpu, caller: Ref<Thread>) -> bool {
    let (frame, low) = (caller.frame(), |word: u64| word & u32::MAX as u64);
    let (asked, tag) = (low(frame.ax.get()), low(frame.bx.get()));
    let to = Id(low(frame.di.get()) | frame.si.get() << u32::BITS);
    let replies = asked & ANY_SEND_TIMEOUT as u64 == REPLY_AND_WAIT;
    let calls = asked & ANY_SEND_TIMEOUT as u64 == CALL_IPC | IPC_SEND | IPC_RECEIVE;
    let must_look = replies && caller.maybe_pending.get();
    if !replies && !calls || tag > WORDS || must_look || !caller.has_only(PLAIN) {
        return false;
    }
    let accepts = |thread: &Ref<Thread>| {
        let waits = thread.state() == State::Receiving && (thread.open.get() || thread.partner.get() == caller.id);
        waits && clan::is_same_clan(caller.task, thread.task)
    };
    let Some((partner, utcb)) = partner(cpu, to, PLAIN).filter(accepts).zip(caller.utcb()) else { return false };
    // Commit.
    let label = low(utcb.words[LABEL].get()) << TAG_LABEL_SHIFT;
    let words = [low(frame.dx.get()), low(frame.cx.get()), low(frame.bp.get())];
    caller.waiters.set(caller.waiters.get() - !partner.open.get() as u32);
    partner.waiters.set(partner.waiters.get() + calls as u32);
    frame.orig_ax.set(asked);
    caller.block(State::Receiving, replies, if replies { Id::NIL } else { to });
    deliver(cpu, partner, caller.id, Tag(tag | label), &words);
    true
}

fn alien_call(cpu: &Cpu, caller: Ref<Thread>) -> bool {
    let (frame, to) = (caller.frame(), caller.handler.get());
    let waits = |thread: &Ref<Thread>| thread.state() == State::Receiving && thread.open.get();
    let handler = partner(cpu, to, Flags::FPU).filter(waits);
    let Some(handler) = handler.filter(|_| caller.has_only(PLAIN.union(Flags::ALIEN))) else { return false };
    // Commit.
    let words = [frame.ax.get(), frame.ip.get(), caller.frame_index.get() as u64, 0];
    frame.orig_ax.set(words[0]);
    caller.block(State::Faulted, false, to);
    handler.waiters.set(handler.waiters.get() + 1);
    handler.lender.set(caller.as_ptr() as u64);
    deliver(cpu, handler, caller.id, Tag::kernel(KIND_SYSCALL, GATE_INT80 as u32, words.len() as u64), &words);
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

fn deliver(cpu: &Cpu, to: Ref<Thread>, from: Id, tag: Tag, words: &[u64]) {
    let frame = to.frame();
    frame.ax.set(Status::OK.0);
    frame.di.set(from.0);
    frame.si.set(tag.0);
    frame.message().into_iter().zip(words).for_each(|(register, word)| register.set(*word));
    to.change_state(State::Ready);
    cpu.current.set(Some(to));
}
