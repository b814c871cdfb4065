// SPDX-License-Identifier: GPL-2.0-only
//! The short ways through IPC: a message in registers to a partner that waits, with both sides changing places.
//!
//! Three cases: a foreign thread's system call reaches a handler that waits for anybody; a handler resumes a foreign
//! thread and waits again; call, and reply and wait, between native threads. Each function first only reads; where
//! anything is out of the ordinary it returns `None` and the long way in `ipc` does all of it. From the point of no return on
//! nothing can fail. The outcome is the same either way: the suite runs with this module and without it
//! (`nofast` on the kernel's command line, which lets SYSCALL enter elsewhere).

use crate::arch::cpu::Cpu;
use crate::arch::entry;
use crate::refs::Ref;
use crate::thread::*;
use keel_abi::call::*;
use keel_abi::{Id, Status, Tag};

/// Flags of a call; the kind of the send timeout does not matter, since the partner waits.
const CALL: u64 = IPC_SEND | IPC_RECEIVE;
/// Flags of reply and wait for anybody.
const REPLY_AND_WAIT: u64 = CALL | IPC_OPEN;
/// Tag bits that the short way cannot carry: map and string items.
const ITEMS: u64 = 0xff << TAG_MAPS_SHIFT | 0xff << TAG_STRINGS_SHIFT;

/// How a short way ended.
pub enum Short {
    /// All is done: the frame to leave with.
    Done(u64),
    /// All is done, but the frame has an impossible ip: the long way out raises the exception.
    BadFrame,
    /// Nothing is done.
    Refused,
}

/// Serves a system call instruction if it is one of the short cases.
#[inline]
pub fn system_call(cpu: &Cpu, caller: Ref<Thread>) -> Short {
    match exchange_call(cpu, caller) {
        None => Short::Refused,
        Some(next) => {
            cpu.current.set(Some(next));
            match entry::load(cpu, next) {
                true => Short::Done(next.frame_address()),
                false => Short::BadFrame,
            }
        }
    }
}

/// Who runs next, if it was one of the short cases.
#[inline]
fn exchange_call(cpu: &Cpu, caller: Ref<Thread>) -> Option<Ref<Thread>> {
    if caller.has(FOREIGN) {
        return foreign_call(cpu, caller);
    }
    match caller.frame().orig_ax.get() & !(IPC_TIMEOUT_MASK << IPC_SEND_TIMEOUT_SHIFT) {
        REPLY_AND_WAIT => exchange(cpu, caller, true),
        CALL => exchange(cpu, caller, false),
        _ => None,
    }
}

/// Whether `thread`, once ready, is the one to run on this processor, with no time slice to start or end.
#[inline]
fn runs_next(cpu: &Cpu, thread: Ref<Thread>) -> bool {
    thread.cpu.get() == cpu.index
        && cpu.queue.is_below(thread.priority.get())
        && cpu.partner.get().is_none()
        && !cpu.slice.is_armed()
        && !cpu.slice_over.get()
        && !thread.deadline.is_armed()
        && !thread.has(WORK)
}

#[inline]
fn foreign_call(cpu: &Cpu, caller: Ref<Thread>) -> Option<Ref<Thread>> {
    let handler = find(caller.handler.get())?;
    let waits = handler.state.get() == State::Receiving && handler.open.get();
    if !waits || !runs_next(cpu, handler) {
        return None;
    }
    // Point of no return.
    let (from, to) = (caller.frame(), handler.frame());
    to.ax.set(Status::OK.0);
    to.di.set(caller.id.0);
    to.si.set(Tag::kernel(KIND_SYSCALL, GATE_SYSCALL as u32, 4).0);
    to.r8.set(from.ax.get());
    to.r9.set(from.ip.get());
    to.r10.set(caller.frame_index.get() as u64);
    to.r12.set(0);
    caller.state.set(State::Faulted);
    caller.partner.set(handler.id);
    handler.waiters.set(handler.waiters.get() + 1);
    handler.state.set(State::Ready);
    Some(handler)
}

#[inline]
fn exchange(cpu: &Cpu, caller: Ref<Thread>, open: bool) -> Option<Ref<Thread>> {
    let from = caller.frame();
    let (to_id, tag) = (Id(from.di.get()), Tag(from.si.get()));
    if tag.0 & ITEMS != 0 || tag.words() > REGISTER_WORDS || to_id.is_source() {
        return None;
    }
    let partner = find(to_id)?;
    let resumes = partner.has(FOREIGN);
    let for_us = partner.partner.get() == caller.id;
    let waits = match partner.state.get() {
        State::Faulted => resumes && for_us,
        State::Receiving => partner.open.get() || for_us,
        _ => false,
    };
    let nothing_here = if open {
        caller.notify.get() == 0 && caller.pending.is_empty() && caller.senders.is_empty()
    } else {
        from.dx.get() == to_id.0
    };
    if !waits || !nothing_here || partner == caller || !runs_next(cpu, partner) {
        return None;
    }
    // Point of no return.
    if for_us {
        caller.waiters.set(caller.waiters.get() - 1);
    }
    if !resumes {
        deliver(caller, partner, tag);
    }
    caller.state.set(State::Receiving);
    caller.open.set(open);
    caller.partner.set(if open { Id::NIL } else { to_id });
    if !open {
        partner.waiters.set(partner.waiters.get() + 1);
    }
    partner.state.set(State::Ready);
    Some(partner)
}

#[inline]
fn deliver(caller: Ref<Thread>, partner: Ref<Thread>, tag: Tag) {
    let to = partner.frame();
    for (source, target) in caller.frame().message().into_iter().zip(to.message()) {
        target.set(source.get());
    }
    to.ax.set(Status::OK.0);
    to.di.set(caller.id.0);
    to.si.set(tag.0 & !(0xff << TAG_KIND_SHIFT));
}
