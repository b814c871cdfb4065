// SPDX-License-Identifier: GPL-2.0-only
//! Fault IPC: page faults, exceptions, alien threads' system calls, triggers and preemptions become
//! kernel-generated messages to a thread's pager, handler or preempter.
//!
//! Owns the contents of these messages and the choice of the receiver; ipc.rs sends them. The
//! thread is blocked until the reply. A native thread in the lower half that has an entry for
//! upcalls gets the message itself, and goes on there. Every function runs with all CPU locks held
//! and interrupts off. `thread` is the current thread of this CPU in the functions that
//! entry/mod.rs, syscall.rs and leave.rs call, except `set_preempter`. The fast paths in fast.s
//! compose the same messages for page faults and alien threads' system calls.

use crate::arch::{clock, compat, cpu, print::log, switch, tables::VECTOR_PF};
use crate::{base::abi::*, base::*, ipc::*, mm::space, object::task, object::thread::*, sched};

/// Page-fault error code (Intel SDM volume 3, 4.7): a page is mapped there, the access was refused.
pub const CODE_PRESENT: u64 = 1;
/// Page-fault error code: it was a write.
pub const CODE_WRITE: u64 = 2;
/// Page-fault error code: it was an instruction fetch.
pub const CODE_FETCH: u64 = 16;

/// Handles a page fault of a user thread: sends it to the pager, or maps the page in sigma0.
pub fn page_fault(thread: Ref<Thread>, address: VirtAddr, error_code: u64) {
    let frame = thread.frame();
    frame.vector.set(VECTOR_PF);
    frame.error_code.set(error_code);
    frame.cr2.set(address.raw());
    if task::is_sigma0(thread.task) && space::fill_from_physical(thread.task, address) {
        return;
    }
    // A pending trigger must not wait for a pager that is not the handler: it is taken first, and
    // the thread faults again when it resumes.
    if !(thread.has(Flags::TRIGGERED) && thread.has(Flags::ALIEN) && thread.pager != thread.handler) {
        // A thread with an entry for upcalls may be its own pager, so that no fault takes a fast
        // path to another one. Outside of the lower half its handler is the pager.
        let itself = thread.pager.get() == thread.id && thread.has_entry();
        let to = if itself { thread.handler.get() } else { thread.pager.get() };
        raise_page_fault(thread, to, (address.raw(), error_code));
    }
}

/// Sends the message of a page fault to `to`. Its label is the access that was tried.
fn raise_page_fault(thread: Ref<Thread>, to: Id, (address, error_code): (u64, u64)) {
    let access = match error_code {
        code if code & CODE_FETCH != 0 => FPAGE_EXEC,
        code if code & CODE_WRITE != 0 => FPAGE_WRITE,
        _ => FPAGE_READ,
    };
    raise(thread, to, (KIND_PAGE_FAULT, access), (address, error_code & CODE_PRESENT));
}

/// Returns true if an alien thread is blocked on a pager other than its exception handler, and that
/// pager does not receive the handler's messages as a chief either.
fn asked_other_pager(thread: Ref<Thread>) -> bool {
    let (pager, handler) = (thread.pager.get(), thread.handler.get());
    let asked = thread.has(Flags::ALIEN) && pager != handler && pager == thread.partner.get();
    asked && fault_endpoint(thread, handler).is_none_or(|fault_endpoint| fault_endpoint.id != pager)
}

/// Returns the thread that receives a message of `thread`'s fault to `to`, perhaps a chief. `None`
/// if there is none, if it is `thread` itself, or an alien thread, which cannot receive.
fn fault_endpoint(thread: Ref<Thread>, to: Id) -> Option<Ref<Thread>> {
    let receiver = find(to).and_then(|receiver| ipc::route(thread, receiver).ok());
    receiver.filter(|receiver| *receiver != thread && !receiver.has(Flags::ALIEN))
}

/// Forwards the page fault of an alien thread to its handler, if its pager is another thread
/// (`asked_other_pager`). Returns false, with nothing done, if that is not so.
pub fn forward(thread: Ref<Thread>) -> bool {
    let other = asked_other_pager(thread);
    if other {
        ipc::leave_fault(thread);
        // The fast path stores the fault only in the frame. The chief may have changed it there
        // since; that gains nothing, because the chief can make the thread fault at any address
        // anyway.
        let frame = thread.frame();
        raise_page_fault(thread, thread.handler.get(), (frame.cr2.get(), frame.error_code.get()));
    }
    other
}

/// Handles a pager's reply with `TAG_FORWARD`: the page fault is forwarded to the handler, or the
/// thread stops if its handler does not exist. Returns false, with nothing done, if the flag means
/// nothing for this thread.
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

/// Ends the wait of an alien thread for a pager other than its handler: a trigger is pending,
/// which is taken first. The thread is ready, and faults again when it resumes.
pub fn leave_pager(thread: Ref<Thread>) {
    let queued = thread.state() == State::Sending && thread.message.get().tag.kind() == KIND_PAGE_FAULT;
    if asked_other_pager(thread) && (queued || thread.state() == State::Faulted) {
        ipc::leave_queues(thread);
        thread.unset(Flags::KERNEL_MESSAGE);
        sched::wake(thread);
    }
}

/// Sends an exception of a user thread to its handler. The frame gets vector, error code and DR6.
pub fn exception(thread: Ref<Thread>, vector: u64, error_code: u64, dr6: u64) {
    let frame = thread.frame();
    frame.vector.set(vector);
    frame.error_code.set(error_code);
    frame.dr6.set(dr6);
    raise(thread, thread.handler.get(), (KIND_EXCEPTION, vector), (error_code, dr6));
}

/// Handles `syscall` of a thread that is alien, or whose calls are dispatched (EX_DISPATCH): sends
/// an explicit message to the handler, enters the program's own entry, or sends the system call.
/// A native thread's are only sent.
pub fn handlers_call(thread: Ref<Thread>) {
    compat::give(thread);
    let (frame, calls) = (thread.frame(), thread.dispatch.get());
    let asked = frame.ax.get() & u32::MAX as u64;
    let alien = thread.has(Flags::ALIEN);
    if alien && calls != DISPATCH_OFF && asked & CALL_HANDLER != 0 {
        // Its words are in its frame.
        raise(thread, thread.handler.get(), (KIND_USER, asked & !CALL_HANDLER), (0, 0));
    } else if alien && calls > DISPATCH_ON && (frame.ip.get() ^ calls) / PAGE_SIZE != 0 {
        // The program's entry, which gets rcx and r11 as SYSCALL sets them.
        frame.ip.set(calls);
    } else {
        alien_call(thread, GATE_SYSCALL);
    }
}

/// Sends the system call instruction of an alien thread to its handler; `gate` says which
/// instruction.
pub fn alien_call(thread: Ref<Thread>, gate: u64) {
    raise(thread, thread.handler.get(), (KIND_SYSCALL, gate), (thread.frame().ax.get(), 0));
}

/// Sends the pending trigger (EX_TRIGGER) of a thread that is about to return to user mode.
pub fn triggered(thread: Ref<Thread>) {
    compat::give(thread);
    raise(thread, thread.handler.get(), (KIND_TRIGGER, 0), (0, 0));
}

/// Sends a thread's preempter a message: its time slice has ended, or a thread of a higher priority
/// preempts it. The label says which.
pub fn preempted(thread: Ref<Thread>) {
    let why = thread.flags.get().preemption();
    thread.unset(Flags::PREEMPTED);
    let consumed = clock::ticks_to_ns(switch::consumed(thread));
    let preempter = Id(thread.preempter.get().0 & !PREEMPTER_EVERY);
    raise(thread, preempter, (KIND_PREEMPTION, why), (clock::now(), consumed));
}

/// Sets a thread's preempter, or none (nil). If the thread is blocked on the earlier one, it is
/// ready.
pub fn set_preempter(thread: Ref<Thread>, preempter: Id) {
    let queued = thread.has(Flags::KERNEL_MESSAGE) && thread.message.get().tag.kind() == KIND_PREEMPTION;
    if queued || thread.state() == State::Preempted {
        ipc::leave_queues(thread);
        thread.unset(Flags::KERNEL_MESSAGE);
        sched::wake(thread);
    }
    thread.preempter.set(preempter);
    thread.unset(Flags::PREEMPTED);
    thread.put(Flags::HAS_PREEMPTER, preempter != Id::NIL);
    // If it runs on another CPU, the write-back makes that CPU start its time slice.
    cpu::write_back_elsewhere(thread);
}

/// Sends a kernel-generated message for a thread to `to`. It has four words: `first`, the ip, the
/// index of the thread's frame, `last`; an explicit message (KIND_USER) has the thread's own words
/// instead. Without a receiver the fault is handled by `no_handler`.
fn raise(thread: Ref<Thread>, to: Id, (kind, label): (u64, u64), (first, last): (u64, u64)) {
    let words = [first, thread.frame().ip.get(), thread.frame_index.get() as u64, last];
    let count = if kind == KIND_USER { REGISTER_WORDS } else { 4 };
    let message = Message { tag: Tag::kernel(kind, label as u32, count), words };
    thread.message.set(message);
    crate::debugger::trace::raised(thread, to, message);
    thread.fault_target.set(to);
    if thread.is_called_up() && kind != KIND_PREEMPTION {
        return ipc::call_up(thread);
    }
    thread.partner.set(to);
    match fault_endpoint(thread, to) {
        // A pager other than the handler must be the receiver itself: no chief gets the fault
        // instead.
        Some(receiver) if receiver.id == to || !asked_other_pager(thread) => {
            cpu::cpu().lookup_cache.insert(receiver);
            // A thread that sees its frame must see its bases there. A handler of an alien thread
            // that runs on this CPU runs after they were saved.
            if !thread.has(Flags::ALIEN) || cpu::count() > 1 {
                cpu::cpu().loaded_changed();
            }
            ipc::send_kernel_message(thread, receiver);
        }
        _ => no_handler(thread),
    }
}

/// Handles a fault that no thread receives, or whose receiver was deleted. In this order: a
/// preemption resumes the thread, without a preempter; a page fault is forwarded to the handler if
/// that is another thread; a fault in a transfer ends the transfer; otherwise the thread stops,
/// and the console says so.
pub fn no_handler(thread: Ref<Thread>) {
    if thread.state() != State::Faulted && thread.message.get().tag.kind() == KIND_PREEMPTION {
        set_preempter(thread, Id::NIL);
        return transfer::ready(thread);
    }
    if forward(thread) {
        return;
    }
    if thread.has(Flags::TRANSFER) {
        thread.change_state(State::Transferring);
        sched::disarm(thread);
        return transfer::fail(thread, Error::Aborted);
    }
    sched::stop(thread);
    if may_report() {
        let (id, frame) = (thread.id, thread.frame());
        let (vector, error, cr2, ip) = (frame.vector.get(), frame.error_code.get(), frame.cr2.get(), frame.ip.get());
        log!("{id:?} stopped: vector {vector} error {error:#x} address {cr2:#x} ip {ip:#x}, and nobody handles it");
    }
}

/// Most lines about stopped threads in one interval.
const REPORTS: u32 = 8;
/// Length of that interval in ns.
const REPORT_INTERVAL: u64 = 1_000_000_000;

/// Start of the current interval, and the number of lines in it. A line takes milliseconds on the
/// console, with interrupts off, so users must not be able to cause many.
static REPORTED: Global<Cell<(u64, u32)>> = Global::new(Cell::new((0, 0)));

/// Returns true if one more line may be printed, and counts it. The first line too many is
/// replaced by a note.
fn may_report() -> bool {
    let (now, (since, count)) = (clock::now(), REPORTED.get());
    let fresh = now - since > REPORT_INTERVAL;
    REPORTED.set(if fresh { (now, 1) } else { (since, count.saturating_add(1)) });
    if count == REPORTS && !fresh {
        log!("more threads without a handler stop");
    }
    fresh || count < REPORTS
}
