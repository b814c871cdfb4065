// SPDX-License-Identifier: GPL-2.0-only
//! Faults, exceptions and alien system calls become messages to pager and handler.

use crate::arch::tables::{VECTOR_GP, VECTOR_PF};
use crate::arch::{clock, cpu, print::log, switch};
use crate::base::{Global, Ref};
use crate::ipc::{ipc, transfer};
use crate::object::{task, thread::*};
use crate::{mm::space, sched};
use core::cell::Cell;
use keel_abi::call::*;
use keel_abi::fpage::*;
use keel_abi::{Error, Id, Tag};

/// Page-fault error code bits (Intel SDM volume 3, 4.7).
pub mod code {
    /// Something is mapped there.
    pub const PRESENT: u64 = 1;
    /// It was a write.
    pub const WRITE: u64 = 2;
    /// It was an instruction fetch.
    pub const FETCH: u64 = 16;
}

/// A page fault of a user thread.
pub fn page_fault(thread: Ref<Thread>, address: u64, error_code: u64) {
    let frame = thread.frame();
    frame.vector.set(VECTOR_PF);
    frame.error_code.set(error_code);
    frame.cr2.set(address);
    if task::is_sigma0(thread.task) && space::fill_from_physical(thread.task, address) {
        return;
    }
    // A trigger that came meanwhile is not kept waiting by another pager: it is taken first, and the fault comes again.
    if !(thread.has(TRIGGERED) && thread.has(ALIEN) && thread.pager != thread.handler) {
        raise_page_fault(thread, thread.pager.get(), (address, error_code));
    }
}

/// Tells of a page fault.
fn raise_page_fault(thread: Ref<Thread>, to: Id, (address, error_code): (u64, u64)) {
    let access = match error_code {
        code if code & code::FETCH != 0 => FPAGE_EXEC,
        code if code & code::WRITE != 0 => FPAGE_WRITE,
        _ => FPAGE_READ,
    };
    raise(thread, to, (KIND_PAGE_FAULT, access), (address, error_code & code::PRESENT));
}

/// Whether an alien thread that waits does so for a pager that is not its handler, nor gets the handler's messages.
fn asked_other_pager(thread: Ref<Thread>) -> bool {
    let (pager, handler) = (thread.pager.get(), thread.handler.get());
    let asked = thread.has(ALIEN) && pager != handler && pager == thread.partner.get();
    asked && fault_endpoint(thread, handler).is_none_or(|fault_endpoint| fault_endpoint.id != pager)
}

/// Who hears of a thread's fault in the end.
fn fault_endpoint(thread: Ref<Thread>, to: Id) -> Option<Ref<Thread>> {
    let receiver = find(to).and_then(|receiver| ipc::route(thread, receiver).ok());
    receiver.filter(|receiver| *receiver != thread && !receiver.has(ALIEN))
}

/// A page fault that such a pager does not take is the handler's. False if it is no such fault.
pub fn forward(thread: Ref<Thread>) -> bool {
    let other = asked_other_pager(thread);
    if other {
        ipc::leave_fault(thread);
        // The fast path keeps it nowhere else. Whoever may write to the frame can make its thread
        // fault anywhere, too.
        let frame = thread.frame();
        raise_page_fault(thread, thread.handler.get(), (frame.cr2.get(), frame.error_code.get()));
    }
    other
}

/// A page fault is answered with `TAG_FORWARD`: it is the handler's, or if none exists, the thread stops. False if the bit means
/// nothing to this thread.
pub fn refused(thread: Ref<Thread>) -> bool {
    let stops = find(thread.handler.get()).is_none() && thread.message.get().tag.kind() == KIND_PAGE_FAULT;
    forward(thread) || {
        if stops {
            ipc::leave_fault(thread);
            no_handler(thread);
        }
        stops
    }
}

/// An alien thread no longer waits for such a pager, and faults again where it goes on.
pub fn leave_pager(thread: Ref<Thread>) {
    let queued = thread.state.get() == State::Sending && thread.message.get().tag.kind() == KIND_PAGE_FAULT;
    if asked_other_pager(thread) && (queued || thread.state.get() == State::Faulted) {
        ipc::leave_queues(thread);
        thread.unset(KERNEL_MESSAGE);
        sched::wake(thread);
    }
}

/// A page is missing in a thread's space while a message is copied.
pub fn missing_page(thread: Ref<Thread>, address: u64, write: bool, present: bool) {
    let access = if write { code::WRITE } else { 0 };
    page_fault(thread, address, access | if present { code::PRESENT } else { 0 });
}

/// An exception of a user thread.
pub fn exception(thread: Ref<Thread>, vector: u64, error_code: u64, dr6: u64) {
    let frame = thread.frame();
    frame.vector.set(vector);
    frame.error_code.set(error_code);
    frame.dr6.set(dr6);
    raise(thread, thread.handler.get(), (KIND_EXCEPTION, vector), (error_code, dr6));
}

/// A `syscall` that is the handler's to serve: a message of the thread's own, or one that tells of the instruction.
pub fn handlers_call(thread: Ref<Thread>) {
    let (frame, calls) = (thread.frame(), thread.dispatch.get());
    let asked = frame.ax.get() & u32::MAX as u64;
    if calls != DISPATCH_OFF && asked & CALL_HANDLER != 0 {
        // Its words are in its frame.
        raise(thread, thread.handler.get(), (KIND_USER, asked & !CALL_HANDLER), (0, 0));
    } else if calls > DISPATCH_ON && (frame.ip.get() ^ calls) / PAGE_SIZE != 0 {
        // Its program's entry, which finds rcx and r11 as SYSCALL made them.
        frame.ip.set(calls);
    } else {
        alien_call(thread, GATE_SYSCALL);
    }
}

/// A system call instruction of an alien thread.
pub fn alien_call(thread: Ref<Thread>, gate: u64) {
    raise(thread, thread.handler.get(), (KIND_SYSCALL, gate), (thread.frame().ax.get(), 0));
}

/// The latched exception of a thread that is about to run in user mode.
pub fn triggered(thread: Ref<Thread>) {
    raise(thread, thread.handler.get(), (KIND_TRIGGER, 0), (0, 0));
}

/// A thread's time slice is over, or somebody has_higher_priority it.
pub fn preempted(thread: Ref<Thread>) {
    let why = thread.flags.get() & PREEMPTED;
    thread.unset(why);
    let consumed = clock::ticks_to_ns(switch::consumed(thread));
    let preempter = Id(thread.preempter.get().0 & !PREEMPTER_EVERY);
    raise(thread, preempter, (KIND_PREEMPTION, (why >> PREEMPTED_SHIFT) as u64), (clock::now(), consumed));
}

/// Gives a thread another preempter, or none (nil). It waits for the earlier one no longer.
pub fn set_preempter(thread: Ref<Thread>, preempter: Id) {
    let queued = thread.has(KERNEL_MESSAGE) && thread.message.get().tag.kind() == KIND_PREEMPTION;
    if queued || thread.state.get() == State::Preempted {
        ipc::leave_queues(thread);
        thread.unset(KERNEL_MESSAGE);
        sched::wake(thread);
    }
    thread.preempter.set(preempter);
    thread.unset(HAS_PREEMPTER | PREEMPTED);
    thread.set(if preempter == Id::NIL { 0 } else { HAS_PREEMPTER });
    // If it runs elsewhere, its time slice begins to count there.
    cpu::write_back_elsewhere(thread);
}

/// A frame that cannot be left with.
pub fn bad_frame(thread: Ref<Thread>) {
    thread.unset(BAD_IP);
    exception(thread, VECTOR_GP, 0, 0);
}

/// Sends a message of four words in a thread's name: the first, its ip, its frame's index, the last.
fn raise(thread: Ref<Thread>, to: Id, (kind, label): (u64, u64), (first, last): (u64, u64)) {
    let words = [first, thread.frame().ip.get(), thread.frame_index.get() as u64, last];
    let count = if kind == KIND_USER { REGISTER_WORDS } else { 4 };
    let message = Message { tag: Tag::kernel(kind, label as u32, count), words };
    thread.message.set(message);
    crate::debugger::trace::raised(thread, to, message);
    thread.fault_target.set(to);
    thread.partner.set(to);
    match fault_endpoint(thread, to) {
        // Another pager hears of it itself, or not at all.
        Some(receiver) if receiver.id == to || !asked_other_pager(thread) => {
            cpu::cpu().lookup_cache.insert(receiver);
            // Whoever sees its frame sees its bases; a handler on this processor runs after they were saved.
            if !thread.has(ALIEN) || cpu::count() > 1 {
                cpu::cpu().loaded_changed();
            }
            ipc::send_kernel_message(thread, receiver);
        }
        _ => no_handler(thread),
    }
}

/// Nobody takes a thread's fault: it stops, and the console says so. A fault in a transfer ends just that. Without a
/// preempter a thread goes on.
pub fn no_handler(thread: Ref<Thread>) {
    if thread.state.get() != State::Faulted && thread.message.get().tag.kind() == KIND_PREEMPTION {
        set_preempter(thread, Id::NIL);
        return transfer::ready(thread);
    }
    if forward(thread) {
        return;
    }
    if thread.has(TRANSFER) {
        thread.state.set(State::Transferring);
        sched::disarm(thread);
        transfer::fail(thread, Error::Aborted);
        return;
    }
    sched::stop(thread);
    if may_report() {
        let frame = thread.frame();
        let (vector, error_code, address) = (frame.vector.get(), frame.error_code.get(), frame.cr2.get());
        log!(
            "{:?} stopped: vector {vector} error {error_code:#x} address {address:#x} ip {:#x}, and nobody handles it",
            thread.id,
            frame.ip.get()
        );
    }
}

/// Lines about stopped threads in one interval.
const REPORTS: u32 = 8;
/// That interval in ns.
const REPORT_INTERVAL: u64 = 1_000_000_000;

/// A line takes the console milliseconds, with interrupts off: users must not be able to ask for many.
static REPORTED: Global<Cell<(u64, u32)>> = Global::new(Cell::new((0, 0)));

fn may_report() -> bool {
    let (now, (since, count)) = (clock::now(), REPORTED.get());
    let fresh = now - since > REPORT_INTERVAL;
    REPORTED.set(if fresh { (now, 1) } else { (since, count.saturating_add(1)) });
    if count == REPORTS && !fresh {
        log!("more threads without a handler stop");
    }
    fresh || count < REPORTS
}
