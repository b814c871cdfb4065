// SPDX-License-Identifier: GPL-2.0-only
//! The slow path of IPC: the rendezvous of sender and receiver, and the transfer of messages.
//!
//! Every function here runs with all CPU locks held and interrupts off, except those that the
//! cross-CPU fast path (across.rs) calls with the locks of both threads' CPUs: `accepts`,
//! `stop_waiting`, `copy` and `has_items`. The fast paths in fast.s do the same as this file.
//!
//! A message is not buffered: its registers stay in the sender's frame until the rendezvous. The
//! flags of a call are in `orig_ax` of the caller's frame, where entry.s stored them. Every
//! function first checks and only then changes states ("Commit" marks the point of no return).
//! transfer.rs takes over a message with map items or strings: it is preemptible, and completes
//! both calls.

use crate::arch::{clock, cpu::cpu, switch::FLAGS_FIXED, switch::NO_CALL, tables};
use crate::{base::abi::*, base::*, ipc::*, object::clan, object::task, object::thread::*, percpu::preempt, sched};

/// Every flag of the ipc call; others are refused.
const KNOWN_FLAGS: u64 = CALL_MASK | IPC_SEND | IPC_RECEIVE | IPC_OPEN | IPC_NOTIFY | TO_THREADS | TIMEOUTS;
/// Flags that are valid only for a message to a thread.
const TO_THREADS: u64 = IPC_VIRTUAL_SENDER | IPC_ANSWER;
const TIMEOUTS: u64 = IPC_TIMEOUT_MASK << IPC_SEND_TIMEOUT_SHIFT | IPC_TIMEOUT_MASK << IPC_RECEIVE_TIMEOUT_SHIFT;
/// The bits of a tag that a user may set: all except the kind and the kernel's flags.
const USER_TAG: u64 = !(0xff << TAG_KIND_SHIFT);

/// The ipc system call of the current thread: the send phase, then the receive phase. Status and
/// message are in its frame when it next runs. Returns true if all of it is done without an error:
/// the status is not yet in the frame. Error: Invalid.
pub fn call(caller: Ref<Thread>) -> Result<bool, Error> {
    let flags = caller.frame().orig_ax.get();
    Error::Invalid.when(flags & !KNOWN_FLAGS != 0 || flags & (IPC_SEND | IPC_RECEIVE) == 0)?;
    let sent = if flags & IPC_SEND != 0 { send(caller, flags) } else { Ok(Sent::Done) };
    match sent {
        Ok(Sent::Done) if flags & IPC_RECEIVE == 0 => return Ok(true),
        Ok(Sent::Done) => receive(caller),
        Ok(Sent::Elsewhere) => {}
        Err(error) => finish(caller, Side::Send, error),
    }
    Ok(false)
}

/// What the send phase leaves to be done.
enum Sent {
    /// The send phase is over.
    Done,
    /// The caller is blocked, or the whole call is complete: nothing is left to do here.
    Elsewhere,
}

/// The send phase of the current thread: delivers the message, or blocks the caller until it can be
/// delivered. `Err`: the send phase failed, or the call must be restarted.
fn send(caller: Ref<Thread>, flags: u64) -> Result<Sent, Error> {
    let destination = Id(caller.frame().di.get());
    Error::Invalid.when(flags & TO_THREADS != 0 && (destination.is_source() || flags & IPC_NOTIFY != 0))?;
    if destination.is_source() {
        return invoke(caller, destination, flags);
    }
    let destination = find(destination).ok_or(Error::NoPartner)?;
    cpu().lookup_cache.insert(destination);
    if flags & IPC_NOTIFY != 0 {
        return notify(caller, destination);
    }
    caller.destination.set(destination.id);
    caller.shown.set(if flags & IPC_VIRTUAL_SENDER != 0 { propagate(caller, destination)? } else { caller.id });
    let receiver = route(caller, destination)?;
    let (tag, is_answer) = (Tag(caller.frame().si.get()), flags & IPC_ANSWER != 0);
    Error::Invalid.when(tag.words() > MAX_WORDS || tag.maps() > MAX_MAP_ITEMS)?;
    if receiver == caller {
        // Its map items, in its own space.
        Error::Invalid.when(tag.maps() == 0 || tag.strings() > 0)?;
        Error::Timeout.when(is_answer)?;
        return transferred(transfer::to_itself(caller));
    }
    Error::Invalid.when(tag.strings() > 0 && !transfer::take_strings(caller, tag.strings()))?;
    if awaits_answer(receiver, caller) {
        if tag.0 & TAG_FORWARD != 0 && fault::refused(receiver) {
            return Ok(Sent::Done);
        }
        Error::MessageCut.when(tag.strings() > 0)?;
        if tag.maps() > 0 {
            return transferred(transfer::one_sided(caller, receiver, transfer::Role::Answerer));
        }
        resume(caller, receiver);
        return Ok(Sent::Done);
    }
    Error::Timeout.when(is_answer)?;
    if receiver.state() == State::Preempted && receiver.partner.get() == caller.id {
        // A preempter's reply only resumes the thread: it has no right to its space or registers.
        Error::MessageCut.when(has_items(tag))?;
        leave_fault(receiver);
        sched::wake(receiver);
        return Ok(Sent::Done);
    }
    if accepts(receiver, caller.shown.get()) {
        stop_waiting(receiver);
        if has_items(tag) && !transfer::at_once(caller, receiver, tag) {
            return transferred(transfer::begin(caller, receiver, caller));
        }
        copy(caller, receiver, tag);
        sched::wake(receiver);
        return Ok(Sent::Done);
    }
    wait_to_send(caller, receiver, flags)?;
    Ok(Sent::Elsewhere)
}

/// Turns the result of a transfer that the caller runs itself into that of its send phase.
fn transferred(ended: Option<Result<(), Error>>) -> Result<Sent, Error> {
    ended.map_or(Ok(Sent::Elsewhere), |result| result.map(|()| Sent::Done))
}

/// Returns true if a message has map items or strings, and so needs a transfer.
pub fn has_items(tag: Tag) -> bool {
    tag.maps() | tag.strings() != 0
}

/// Returns true if a thread is blocked on a fault or system call until `pager` replies.
pub fn awaits_answer(thread: Ref<Thread>, pager: Ref<Thread>) -> bool {
    thread.state() == State::Faulted && thread.partner.get() == pager.id
}

/// Returns the receiver of a message from `sender` to `destination`: that thread, or a chief on the
/// way. Error: NoPartner, if that chief has no first lthread.
pub fn route(sender: Ref<Thread>, destination: Ref<Thread>) -> Result<Ref<Thread>, Error> {
    if clan::is_same_clan(sender.task, destination.task) {
        return Ok(destination);
    }
    nearest(sender, destination).map(|(receiver, _)| receiver)
}

/// Returns the receiver as `route` does, and its relation to the sender (`NEAREST_*`). A message
/// to a chief goes to its first lthread.
#[cold]
pub fn nearest(sender: Ref<Thread>, destination: Ref<Thread>) -> Result<(Ref<Thread>, u64), Error> {
    match clan::nearest(sender.task, destination.task) {
        None => Ok((destination, NEAREST_SAME_CLAN)),
        Some((chief, relation)) => Ok((chief.lthread(0).ok_or(Error::NoPartner)?, relation)),
    }
}

/// Returns the virtual sender that the caller has named, if propagation is allowed: the virtual
/// sender and the destination must be on different sides of the caller's clan border, so that a
/// chief only shows a sender from whose side the message could come. Errors: NoPartner, Denied.
#[cold]
fn propagate(caller: Ref<Thread>, destination: Ref<Thread>) -> Result<Id, Error> {
    let id = Id(caller.utcb().map_or(ID_NIL, |utcb| utcb.virtual_sender.get()));
    let shown = find(id).ok_or(Error::NoPartner)?;
    Error::Denied.when(clan::is_inside(shown.task, caller.task) == clan::is_inside(destination.task, caller.task))?;
    Ok(id)
}

/// Returns true if a thread is in a receive phase that accepts a message from `sender`.
pub fn accepts(receiver: Ref<Thread>, sender: Id) -> bool {
    receiver.state() == State::Receiving && (receiver.open.get() || receiver.partner.get() == sender)
}

/// Blocks the caller in the receiver's queue, with its send timeout. Errors: Timeout, Invalid.
fn wait_to_send(caller: Ref<Thread>, receiver: Ref<Thread>, flags: u64) -> Result<(), Error> {
    let utcb_time = caller.utcb().map_or(0, |utcb| utcb.send_timeout.get());
    let end = deadline(flags >> IPC_SEND_TIMEOUT_SHIFT & IPC_TIMEOUT_MASK, utcb_time)?;
    // Commit.
    caller.change_state(State::Sending);
    caller.partner.set(receiver.id);
    receiver.maybe_pending.set(true);
    receiver.senders.push_back(caller);
    if caller.shown.get() != caller.id {
        receiver.set(Flags::CROSS_CLAN);
    }
    sched::arm(caller, end);
    Ok(())
}

/// Returns the deadline of a wait that begins now, in kernel time, or `TIME_NEVER`. Errors:
/// Timeout, if it would end at once; Invalid, if the kind does not exist.
pub fn deadline(kind: u64, time: u64) -> Result<u64, Error> {
    match kind {
        TIMEOUT_NEVER => Ok(TIME_NEVER),
        TIMEOUT_ZERO => Err(Error::Timeout),
        TIMEOUT_UTCB if time == TIME_NEVER => Ok(TIME_NEVER),
        TIMEOUT_UTCB => {
            let now = clock::now();
            let end = if time & TIME_ABSOLUTE != 0 { time & !TIME_ABSOLUTE } else { now.saturating_add(time) };
            Some(end).filter(|end| *end > now).ok_or(Error::Timeout)
        }
        _ => Err(Error::Invalid),
    }
}

/// The receive phase of a thread whose call is in its frame: delivers what is pending, or blocks
/// the thread, or ends the call with an error. The thread is the current one, or a sender whose
/// send phase has just ended.
pub fn receive(thread: Ref<Thread>) {
    if let Err(error) = take_or_wait(thread) {
        fail_call(thread, Side::Receive, error);
    }
}

/// The receive phase as far as it does not fail. Errors: NoPartner, Timeout, Invalid.
fn take_or_wait(thread: Ref<Thread>) -> Result<(), Error> {
    let flags = thread.frame().orig_ax.get();
    let open = flags & IPC_OPEN != 0;
    let from = if open { Id::NIL } else { Id(thread.frame().dx.get()) };
    if take_event(thread, open, from) {
        return Ok(());
    }
    if let Some(sender) = next_sender(thread, open, from)? {
        take_from(sender, thread);
        return Ok(());
    }
    let utcb_time = thread.utcb().map_or(0, |utcb| utcb.receive_timeout.get());
    let end = deadline(flags >> IPC_RECEIVE_TIMEOUT_SHIFT & IPC_TIMEOUT_MASK, utcb_time)?;
    // Commit.
    sched::unready(thread);
    thread.block(State::Receiving, open, from);
    thread.maybe_pending.set(thread.maybe_pending.get() && !open);
    let mut far = thread.has(Flags::CROSS_CLAN) && !thread.senders.is_empty();
    if let Some(partner) = waited_for(thread) {
        partner.waiters.set(partner.waiters.get() + 1);
        far |= !clan::is_same_clan(thread.task, partner.task);
    }
    thread.put(Flags::CROSS_CLAN, far);
    sched::arm(thread, end);
    Ok(())
}

/// Returns the thread for which a thread in a closed wait waits. `None`: an open wait, or another
/// id.
fn waited_for(thread: Ref<Thread>) -> Option<Ref<Thread>> {
    if thread.open.get() || thread.partner.get() == Id::NIL || thread.partner.get().is_source() {
        return None;
    }
    find(thread.partner.get())
}

/// Delivers a pending notification or interrupt. Returns false if there is none.
fn take_event(thread: Ref<Thread>, open: bool, from: Id) -> bool {
    if open && thread.notify.get() != 0 {
        deliver_notification(thread);
        return true;
    }
    let pending = if open { thread.pending.first() } else { kernel_object::pending_for(thread, from) };
    let Some(source) = pending else { return false };
    kernel_object::received(source, thread);
    true
}

/// Returns the queued sender whose message this receive takes, if there is one. Error: NoPartner,
/// if there is no such thread, or the kernel object is not bound to this one, so that no message
/// can come.
fn next_sender(thread: Ref<Thread>, open: bool, from: Id) -> Result<Option<Ref<Thread>>, Error> {
    if open {
        return Ok(thread.senders.first());
    }
    if from == Id::NIL {
        return Ok(None);
    }
    if from.is_source() {
        return if kernel_object::is_attached(from, thread) { Ok(None) } else { Err(Error::NoPartner) };
    }
    let sender = find(from).ok_or(Error::NoPartner)?;
    let waits = sender.state() == State::Sending && sender.partner.get() == thread.id;
    if waits && sender.sends_as() == from {
        return Ok(Some(sender));
    }
    // Perhaps one whose virtual sender that is. The search of the queue is not preemptible;
    // CROSS_CLAN limits it to queues in which a virtual sender was used.
    let search = || thread.senders.iter().find(|sender| sender.sends_as() == from);
    Ok(if thread.has(Flags::CROSS_CLAN) { search() } else { None })
}

/// Delivers the message of a queued sender. The receiver is in its receive phase, and not blocked.
fn take_from(sender: Ref<Thread>, receiver: Ref<Thread>) {
    // Commit. The sender leaves the queue.
    receiver.senders.remove(sender);
    if sender.has(Flags::KERNEL_MESSAGE) {
        deliver_kernel_message(sender, receiver);
        return;
    }
    sched::disarm(sender);
    let tag = Tag(sender.frame().si.get());
    if has_items(tag) && !transfer::at_once(sender, receiver, tag) {
        if let Some(result) = transfer::begin(sender, receiver, receiver) {
            transfer::sender_ends(sender, result);
        }
        return;
    }
    copy(sender, receiver, tag);
    sender_done(sender);
}

/// Completes the send phase of a thread that was queued, or in a transfer: its receive phase
/// begins, or it is ready.
pub fn sender_done(sender: Ref<Thread>) {
    let frame = sender.frame();
    let flags = frame.orig_ax.get();
    frame.ax.set(Status::OK.0);
    if flags & IPC_RECEIVE == 0 {
        sched::wake(sender);
        return;
    }
    let open = flags & IPC_OPEN != 0;
    let from = Id(frame.dx.get());
    let something = if open {
        sender.notify.get() != 0 || !sender.pending.is_empty() || !sender.senders.is_empty()
    } else {
        !matches!(next_sender(sender, false, from), Ok(None)) || kernel_object::pending_for(sender, from).is_some()
    };
    // If it would find something at once, it is woken to take that itself: delivering here would
    // recurse from sender to sender.
    if something {
        sender.set(Flags::RECEIVE_DUE);
        sched::wake(sender);
    } else {
        receive(sender);
    }
}

/// Ends the wait of a receiver: its timeout, and the partner's count of waiters. The caller changes
/// its state. The lock of the receiver's CPU is held.
pub fn stop_waiting(receiver: Ref<Thread>) {
    sched::disarm(receiver);
    if let Some(partner) = waited_for(receiver) {
        partner.waiters.set(partner.waiters.get() - 1);
    }
}

/// Copies a message without items to a receiver. `send` has checked the number of words. The locks
/// of both threads' CPUs are held.
pub fn copy(sender: Ref<Thread>, receiver: Ref<Thread>, tag: Tag) {
    copy_words(sender, receiver, tag.words());
    copy_registers(sender, receiver, tag);
}

/// Copies the words in registers and the tag, and sets the receiver's status and sender.
pub fn copy_registers(sender: Ref<Thread>, receiver: Ref<Thread>, tag: Tag) {
    let to = receiver.frame();
    word::copy(sender.frame().message(), to.message());
    let shown = sender.shown.get();
    let marks = marks(sender, shown, receiver, sender.destination.get());
    announce(to, receiver.id, shown, Tag(tag.0 & USER_TAG | marks));
}

/// Writes status, sender and tag of a message to a receiver's frame, and traces it. Returns the
/// frame.
fn announce(frame: &SharedFrame, receiver: Id, sender: Id, tag: Tag) -> &SharedFrame {
    frame.ax.set(Status::OK.0);
    frame.di.set(sender.0);
    frame.si.set(tag.0);
    crate::debugger::trace::message(sender, receiver, tag);
    frame
}

/// Returns the flags of a tag for a message that was redirected or has a virtual sender. Then the
/// receiver's UTCB has the destination or the real sender.
fn marks(sender: Ref<Thread>, shown: Id, receiver: Ref<Thread>, destination: Id) -> u64 {
    let mut flags = 0;
    if destination != receiver.id {
        let inside = clan::is_inside(sender.task, receiver.task);
        flags |= if inside { TAG_REDIRECTED } else { TAG_REDIRECTED | TAG_FROM_OUTSIDE };
        if let Some(utcb) = receiver.utcb() {
            utcb.destination.set(destination.0);
        }
    }
    if shown != sender.id {
        flags |= TAG_PROPAGATED;
        if let Some(utcb) = receiver.utcb() {
            utcb.virtual_sender.set(sender.id.0);
        }
    }
    flags
}

/// Copies the words that are in the UTCBs. An alien thread has none.
pub fn copy_words(sender: Ref<Thread>, receiver: Ref<Thread>, words: u64) {
    if words <= REGISTER_WORDS {
        return;
    }
    if let (Some(from), Some(to)) = (sender.utcb(), receiver.utcb()) {
        let range = REGISTER_WORDS as usize..words.min(MAX_WORDS) as usize;
        word::copy(&from.words[range.clone()], &to.words[range]);
    }
}

/// Completes the reply of a pager or handler, except for its map items: a native faulter gets the
/// frame that the message carries, if it does, and is ready.
pub fn resume(pager: Ref<Thread>, faulter: Ref<Thread>) {
    pager.waiters.set(pager.waiters.get() - 1);
    let words = Tag(pager.frame().si.get()).words() as usize;
    crate::debugger::trace::message(pager.id, faulter.id, Tag(pager.frame().si.get()));
    if let (Some(utcb), false, true) =
        (pager.utcb(), faulter.has(Flags::ALIEN.union(Flags::TRANSFER)), words >= FRAME_END)
    {
        word::copy(&utcb.words[REGISTER_WORDS as usize..], faulter.frame().words());
        // All its registers are loaded when it resumes, rcx and r11 too.
        faulter.frame().orig_ax.set(NO_CALL);
        faulter.found.set(0);
    }
    sched::wake(faulter);
}

/// Words of a message that carries a whole frame after the register words.
const FRAME_END: usize = REGISTER_WORDS as usize + FRAME_WORDS;

/// Sends the kernel-generated message in `sender.message` (fault.rs) to `receiver`; the sender
/// blocks until the reply. There is no timeout.
pub fn send_kernel_message(sender: Ref<Thread>, receiver: Ref<Thread>) {
    sender.partner.set(receiver.id);
    if accepts(receiver, sender.id) {
        stop_waiting(receiver);
        deliver_kernel_message(sender, receiver);
        sched::wake(receiver);
    } else {
        sender.change_state(State::Sending);
        sender.set(Flags::KERNEL_MESSAGE);
        receiver.maybe_pending.set(true);
        receiver.senders.push_back(sender);
    }
}

/// Writes the kernel-generated message to the receiver's registers. The sender is then Faulted, or
/// Preempted, and blocked on the receiver, its partner. The caller makes the receiver ready.
fn deliver_kernel_message(sender: Ref<Thread>, receiver: Ref<Thread>) {
    let preempted = sender.message.get().tag.kind() == KIND_PREEMPTION;
    write_kernel_message(sender, receiver);
    sender.unset(Flags::KERNEL_MESSAGE);
    sender.change_state(if preempted { State::Preempted } else { State::Faulted });
    receiver.waiters.set(receiver.waiters.get() + 1);
    receiver.lender.set(sender.as_ptr() as u64);
}

/// The running thread's kernel-generated message is for itself: it gets that as if it had received
/// it, with its registers, and goes on at its entry for upcalls.
#[cold]
pub fn call_up(thread: Ref<Thread>) {
    // So that the tag has no mark of a redirection.
    thread.fault_target.set(thread.id);
    write_kernel_message(thread, thread);
    let frame = thread.frame();
    frame.ip.set(thread.dispatch.get());
    // It may have been in 32-bit code.
    frame.cs.set(tables::USER_CS as u64);
    frame.flags.set(FLAGS_FIXED);
    frame.orig_ax.set(NO_CALL);
}

/// Writes the kernel-generated message in `sender.message` to the receiver's registers, and the
/// sender's frame to its UTCB.
#[inline(always)]
fn write_kernel_message(sender: Ref<Thread>, receiver: Ref<Thread>) {
    let message = sender.message.get();
    let to = receiver.frame();
    let mut tag = Tag(message.tag.0 | marks(sender, sender.id, receiver, sender.fault_target.get()));
    // Only the handler gets the registers; a thread that is just the pager need not see them.
    let handles = sender.fault_target.get() == sender.handler.get() || receiver == sender;
    let framed = tag.kind() != KIND_PREEMPTION && !sender.has(Flags::ALIEN) && handles;
    if let (Some(utcb), true) = (receiver.utcb(), framed) {
        word::copy(sender.frame().words(), &utcb.words[REGISTER_WORDS as usize..]);
        tag = Tag(tag.0 & !0xff | FRAME_END as u64);
    }
    announce(to, receiver.id, sender.id, tag);
    if tag.kind() == KIND_USER {
        // An alien thread's own words.
        word::copy(sender.frame().message(), to.message());
    } else {
        // The other registers must not show the words of another thread, as on the fast path.
        let [first, second, third, fourth] = message.words;
        let words = [first, second, third, fourth, 0, 0];
        to.message().into_iter().zip(words).for_each(|(target, word)| target.set(word));
    }
}

/// Removes a thread that no longer waits for its pager, handler or preempter from that one's count
/// of waiters. The caller changes its state.
pub fn leave_fault(thread: Ref<Thread>) {
    if let (State::Faulted | State::Preempted, Some(partner)) = (thread.state(), find(thread.partner.get())) {
        partner.waiters.set(partner.waiters.get() - 1);
    }
}

/// ORs word 0 into the receiver's notification word, and delivers it to an open wait. Error:
/// Denied, if the receiver is in neither the caller's task nor its clan.
fn notify(caller: Ref<Thread>, receiver: Ref<Thread>) -> Result<Sent, Error> {
    caller.task.controls(receiver.task)?;
    receiver.notify.set(receiver.notify.get() | caller.frame().r8.get());
    if receiver.notify.get() != 0 && receiver.state() == State::Receiving && receiver.open.get() {
        stop_waiting(receiver);
        deliver_notification(receiver);
        sched::wake(receiver);
    } else {
        receiver.maybe_pending.set(true);
    }
    Ok(Sent::Done)
}

/// Writes the notification word to a thread's registers, and clears it.
fn deliver_notification(thread: Ref<Thread>) {
    announce(thread.frame(), thread.id, thread.id, Tag::kernel(KIND_NOTIFY, 0, 1)).r8.set(thread.notify.take());
}

/// Delivers an interrupt to its receiver if that waits for it. Returns false if it does not: then
/// the caller keeps the interrupt pending.
pub fn interrupt(receiver: Ref<Thread>, source: Id) -> bool {
    if !accepts(receiver, source) {
        return false;
    }
    stop_waiting(receiver);
    write_interrupt(receiver, source);
    sched::wake(receiver);
    true
}

/// Writes an interrupt message to a thread's registers.
pub fn write_interrupt(receiver: Ref<Thread>, source: Id) {
    announce(receiver.frame(), receiver.id, source, Tag::kernel(KIND_INTERRUPT, 0, 1)).r8.set(clock::now());
}

/// A send to a kernel object invokes it. A call to it (a receive from the same id) returns at once
/// with the reply, so the call is then complete.
fn invoke(caller: Ref<Thread>, source: Id, flags: u64) -> Result<Sent, Error> {
    let frame = caller.frame();
    let label = Tag(frame.si.get()).label() as u64;
    let wants_answer = flags & (IPC_RECEIVE | IPC_OPEN) == IPC_RECEIVE && frame.dx.get() == source.0;
    let result = kernel_object::invoke(caller, source, label);
    if !wants_answer {
        return result.map(|_| Sent::Done);
    }
    let code = result.err().map_or(0, |error| error as u32);
    let (words, count) = result.unwrap_or(kernel_object::NO_WORDS);
    announce(frame, caller.id, source, Tag::kernel(KIND_KERNEL, code, count as u64));
    let in_utcb = caller.utcb().into_iter().flat_map(|utcb| &utcb.words[REGISTER_WORDS as usize..]);
    let targets = frame.message().into_iter().chain(in_utcb);
    targets.zip(&words[..count]).for_each(|(target, word)| target.set(*word));
    Ok(Sent::Elsewhere)
}

/// Sets the status of a call that failed. The thread is running, or the caller makes it ready.
pub fn finish(thread: Ref<Thread>, side: Side, error: Error) {
    thread.frame().ax.set(Status::error(side, error).0);
}

/// Sets the status of a call that failed, and makes the thread ready if it is not.
pub fn fail_call(thread: Ref<Thread>, side: Side, error: Error) {
    finish(thread, side, error);
    transfer::ready(thread);
}

/// Ends the wait of a blocked thread with an error.
pub fn fail(sender: Ref<Thread>, side: Side, error: Error) {
    leave_queues(sender);
    if sender.has(Flags::KERNEL_MESSAGE) {
        // Its pager, handler or preempter was deleted: fault.rs decides what becomes of the thread.
        sender.unset(Flags::KERNEL_MESSAGE);
        fault::no_handler(sender);
        return;
    }
    fail_call(sender, side, error);
}

/// Takes a thread out of any queue, count or timeout that it waits in. The caller changes its
/// state.
pub fn leave_queues(thread: Ref<Thread>) {
    match thread.state() {
        State::Sending => {
            if let Some(partner) = find(thread.partner.get()) {
                partner.senders.remove(thread);
            }
        }
        State::Receiving => return stop_waiting(thread),
        State::Faulted | State::Preempted => leave_fault(thread),
        _ => return,
    }
    sched::disarm(thread);
}

/// Ends the wait of a thread whose timeout has expired.
pub fn timed_out(thread: Ref<Thread>) {
    let side = match thread.state() {
        State::Sending | State::Faulted if thread.has(Flags::TRANSFER) => return transfer::timed_out(thread),
        State::Sending if !thread.has(Flags::KERNEL_MESSAGE) => Side::Send,
        State::Receiving => Side::Receive,
        _ => return,
    };
    leave_queues(thread);
    fail_call(thread, side, Error::Timeout);
}

/// Cancels a thread's IPC (EX_CANCEL). Does nothing for a thread that is in none, or in a fault
/// outside of a transfer.
pub fn cancel(thread: Ref<Thread>) {
    if thread.has(Flags::TRANSFER) {
        return transfer::fail(thread, Error::Aborted);
    }
    let side = match thread.state() {
        State::Sending if !thread.has(Flags::KERNEL_MESSAGE) => Side::Send,
        State::Receiving => Side::Receive,
        State::Ready if thread.has(Flags::RECEIVE_DUE) => Side::Receive,
        _ => return,
    };
    leave_queues(thread);
    thread.unset(Flags::RECEIVE_DUE);
    fail_call(thread, side, Error::Cancelled);
}

/// `partner` is being deleted: all threads that are blocked on it get an error, or are stopped.
/// This is rare (a server terminates), so all threads are searched. There are preemption points.
pub fn fail_waiters(partner: Ref<Thread>) {
    let has_partner = |thread: &Ref<Thread>| thread.partner.get() == partner.id && *thread != partner;
    for thread in task::all().flat_map(Ref::each_lthread).filter(has_partner) {
        preempt::poll();
        match thread.state() {
            State::Receiving if !thread.open.get() => fail(thread, Side::Receive, Error::NoPartner),
            State::Faulted | State::Preempted => fault::no_handler(thread),
            _ => {}
        }
        preempt::poll();
    }
}
