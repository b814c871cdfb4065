// SPDX-License-Identifier: GPL-2.0-only
//! ipc: who meets whom, and what passes.
//!
//! A message that waits is not copied: its registers stay in the sender's frame until the receiver comes. The
//! flags of a call stand in `orig_ax` of its frame, where entry.s put them. Every function first checks and only
//! then changes states ("commit" marks the place). A message with map items or strings is handed to transfer.rs, which
//! may take its time and sees to the rest of both calls.

use crate::arch::{clock, cpu::cpu, switch::NO_CALL};
use crate::ipc::{fault, kernel_object, transfer};
use crate::object::{clan, clan::Nearest, task, thread::*};
use crate::sched::{self, wake};
use crate::{base::Ref, mm::space::Stop, percpu::preempt};
use keel_abi::call::*;
use keel_abi::ids::ID_NIL;
use keel_abi::memory::SharedFrame;
use keel_abi::{word, Error, Id, Side, Status, Tag};

/// Every flag of ipc that has a meaning.
const KNOWN_FLAGS: u64 = CALL_MASK | IPC_SEND | IPC_RECEIVE | IPC_OPEN | IPC_NOTIFY | TO_THREADS | TIMEOUTS;
/// Those that mean something for a message to a thread alone.
const TO_THREADS: u64 = IPC_VIRTUAL_SENDER | IPC_ANSWER;
const TIMEOUTS: u64 = IPC_TIMEOUT_MASK << IPC_SEND_TIMEOUT_SHIFT | IPC_TIMEOUT_MASK << IPC_RECEIVE_TIMEOUT_SHIFT;
/// The bits of a tag that a user decides.
const USER_TAG: u64 = !(0xff << TAG_KIND_SHIFT);

/// The system call.
pub fn call(caller: Ref<Thread>) -> Result<(), Stop> {
    let flags = caller.frame().orig_ax.get();
    if flags & !KNOWN_FLAGS != 0 || flags & (IPC_SEND | IPC_RECEIVE) == 0 {
        finish(caller, Side::Call, Error::Invalid);
        return Ok(());
    }
    if flags & IPC_SEND != 0 {
        match send(caller, flags) {
            Ok(Sent::Done) => {}
            Ok(Sent::Elsewhere) => return Ok(()),
            Err(Stop::Restart) => return Err(Stop::Restart),
            Err(Stop::Failed(error)) => {
                finish(caller, Side::Send, error);
                return Ok(());
            }
        }
    }
    if flags & IPC_RECEIVE == 0 {
        caller.frame().ax.set(Status::OK.0);
        return Ok(());
    }
    if let Err(error) = receive(caller) {
        finish(caller, Side::Receive, error);
    }
    Ok(())
}

enum Sent {
    /// The send phase is over.
    Done,
    /// It waits, is being transferred, or the whole call is over: nothing is left to do here.
    Elsewhere,
}

fn send(caller: Ref<Thread>, flags: u64) -> Result<Sent, Stop> {
    let destination = Id(caller.frame().di.get());
    if flags & TO_THREADS != 0 && (destination.is_source() || flags & IPC_NOTIFY != 0) {
        return Err(Error::Invalid.into());
    }
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
    let tag = Tag(caller.frame().si.get());
    if receiver == caller || tag.words() > MAX_WORDS || tag.maps() > MAX_MAP_ITEMS {
        return Err(Error::Invalid.into());
    }
    if tag.strings() > 0 && !transfer::take_strings(caller, tag.strings()) {
        return Err(Error::Invalid.into());
    }
    if awaits_answer(receiver, caller) {
        if tag.0 & TAG_FORWARD != 0 && fault::refused(receiver) {
            return Ok(Sent::Done);
        }
        if tag.strings() > 0 {
            return Err(Error::MessageCut.into());
        }
        if tag.maps() > 0 {
            return transferred(transfer::answer(caller, receiver));
        }
        resume(caller, receiver);
        return Ok(Sent::Done);
    }
    if flags & IPC_ANSWER != 0 {
        return Err(Error::Timeout.into());
    }
    if receiver.state.get() == State::Preempted && receiver.partner.get() == caller.id {
        // A preempter has no right over space or registers.
        if has_items(tag) {
            return Err(Error::MessageCut.into());
        }
        leave_fault(receiver);
        wake(receiver);
        return Ok(Sent::Done);
    }
    if accepts(receiver, caller.shown.get()) {
        stop_waiting(receiver);
        if has_items(tag) {
            return transferred(transfer::begin(caller, receiver, caller));
        }
        copy(caller, receiver, tag);
        wake(receiver);
        return Ok(Sent::Done);
    }
    wait_to_send(caller, receiver, flags)?;
    Ok(Sent::Elsewhere)
}

/// What a transfer by the caller itself means for its call.
fn transferred(ended: Option<Result<(), Error>>) -> Result<Sent, Stop> {
    match ended {
        None => Ok(Sent::Elsewhere),
        Some(result) => result.map(|()| Sent::Done).map_err(Stop::Failed),
    }
}

/// Whether a message takes a transfer.
pub fn has_items(tag: Tag) -> bool {
    tag.maps() | tag.strings() != 0
}

/// Whether a thread's fault waits for the answer of `pager`.
pub fn awaits_answer(thread: Ref<Thread>, pager: Ref<Thread>) -> bool {
    thread.state.get() == State::Faulted && thread.partner.get() == pager.id
}

/// Who gets a message of `sender` to `destination`: it, or a chief on the way.
#[inline]
pub fn route(sender: Ref<Thread>, destination: Ref<Thread>) -> Result<Ref<Thread>, Error> {
    if clan::is_same_clan(sender.task, destination.task) {
        return Ok(destination);
    }
    nearest(sender, destination).map(|(receiver, _)| receiver)
}

/// The same, with how it lies to the sender (`NEAREST_*`). A chief's first lthread stands for it.
#[cold]
pub fn nearest(sender: Ref<Thread>, destination: Ref<Thread>) -> Result<(Ref<Thread>, u64), Error> {
    let (chief, relation) = match clan::nearest(sender.task, destination.task) {
        Nearest::Itself => return Ok((destination, NEAREST_SAME_CLAN)),
        Nearest::Outer(chief) => (chief, NEAREST_OUTER),
        Nearest::Inner(chief) => (chief, NEAREST_INNER),
    };
    Ok((chief.lthread(0).ok_or(Error::NoPartner)?, relation))
}

/// The virtual sender that the caller names, if it may: a message must pass its clan's border in the same direction with it.
#[cold]
fn propagate(caller: Ref<Thread>, destination: Ref<Thread>) -> Result<Id, Error> {
    let id = Id(caller.utcb().map_or(ID_NIL, |utcb| utcb.virtual_sender.get()));
    let shown = find(id).ok_or(Error::NoPartner)?;
    if clan::is_inside(shown.task, caller.task) == clan::is_inside(destination.task, caller.task) {
        return Err(Error::Denied);
    }
    Ok(id)
}

/// Whether a thread waits for a message that `sender` could bring.
pub fn accepts(receiver: Ref<Thread>, sender: Id) -> bool {
    receiver.state.get() == State::Receiving && (receiver.open.get() || receiver.partner.get() == sender)
}

fn wait_to_send(caller: Ref<Thread>, receiver: Ref<Thread>, flags: u64) -> Result<(), Error> {
    let utcb_time = caller.utcb().map_or(0, |utcb| utcb.send_timeout.get());
    let end = deadline(flags >> IPC_SEND_TIMEOUT_SHIFT & IPC_TIMEOUT_MASK, utcb_time)?;
    // Commit.
    caller.state.set(State::Sending);
    caller.partner.set(receiver.id);
    receiver.maybe_pending.set(true);
    receiver.senders.push_back(caller);
    if caller.shown.get() != caller.id {
        receiver.set(CROSS_CLAN);
    }
    sched::arm(caller, end);
    Ok(())
}

/// When a wait that begins now ends, perhaps `TIME_NEVER`; `Err`: it may not begin.
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

/// The receive phase of a thread whose registers stand in its frame: takes what is there, or waits.
pub fn receive(thread: Ref<Thread>) -> Result<(), Error> {
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
    thread.state.set(State::Receiving);
    thread.open.set(open);
    thread.maybe_pending.set(thread.maybe_pending.get() && !open);
    thread.partner.set(from);
    let mut far = thread.has(CROSS_CLAN) && !thread.senders.is_empty();
    if let Some(partner) = waited_for(thread) {
        partner.waiters.set(partner.waiters.get() + 1);
        far |= !clan::is_same_clan(thread.task, partner.task);
    }
    thread.put(CROSS_CLAN, far);
    sched::arm(thread, end);
    Ok(())
}

/// The thread that a closed wait is for.
fn waited_for(thread: Ref<Thread>) -> Option<Ref<Thread>> {
    if thread.open.get() || thread.partner.get() == Id::NIL || thread.partner.get().is_source() {
        return None;
    }
    find(thread.partner.get())
}

/// Delivers a notification or an interrupt that is there already.
fn take_event(thread: Ref<Thread>, open: bool, from: Id) -> bool {
    if open && thread.notify.get() != 0 {
        deliver_notification(thread);
        return true;
    }
    let pending = if open { thread.pending.first() } else { kernel_object::pending_for(thread, from) };
    pending.inspect(|source| kernel_object::received(*source, thread)).is_some()
}

/// Who waits to send what this receive takes. `Err` if nobody ever can.
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
    let waits = sender.state.get() == State::Sending && sender.partner.get() == thread.id;
    if waits && sender.sends_as() == from {
        return Ok(Some(sender));
    }
    Ok(if thread.has(CROSS_CLAN) { propagating_sender(thread, from) } else { None })
}

/// Who waits to send to a thread as `from`.
#[cold]
fn propagating_sender(thread: Ref<Thread>, from: Id) -> Option<Ref<Thread>> {
    let mut next = thread.senders.first();
    while let Some(sender) = next.filter(|sender| sender.sends_as() != from) {
        next = thread.senders.next(sender);
    }
    next
}

/// Takes the message of a thread in our queue.
fn take_from(sender: Ref<Thread>, receiver: Ref<Thread>) {
    // Commit: the sender leaves the queue.
    receiver.senders.remove(sender);
    if sender.has(KERNEL_MESSAGE) {
        deliver_kernel_message(sender, receiver);
        return;
    }
    sched::disarm(sender);
    let tag = Tag(sender.frame().si.get());
    if has_items(tag) {
        if let Some(result) = transfer::begin(sender, receiver, receiver) {
            transfer::sender_ends(sender, result);
        }
    } else {
        copy(sender, receiver, tag);
        sender_done(sender);
    }
}

/// The message of a thread that was queued, or in a transfer, has gone: its receive phase begins.
pub fn sender_done(sender: Ref<Thread>) {
    let frame = sender.frame();
    let flags = frame.orig_ax.get();
    frame.ax.set(Status::OK.0);
    if flags & IPC_RECEIVE == 0 {
        wake(sender);
        return;
    }
    let open = flags & IPC_OPEN != 0;
    let from = Id(frame.dx.get());
    let something = if open {
        sender.notify.get() != 0 || !sender.pending.is_empty() || !sender.senders.is_empty()
    } else {
        !matches!(next_sender(sender, false, from), Ok(None)) || kernel_object::pending_for(sender, from).is_some()
    };
    // Only where it would find something at once is it woken to do so itself: no recursion here.
    if something {
        sender.set(RECEIVE_DUE);
        wake(sender);
    } else if let Err(error) = receive(sender) {
        finish_and_wake(sender, Side::Receive, error);
    }
}

/// Ends the wait of a receiver: timeout and the partner's count.
pub fn stop_waiting(receiver: Ref<Thread>) {
    sched::disarm(receiver);
    if let Some(partner) = waited_for(receiver) {
        partner.waiters.set(partner.waiters.get() - 1);
    }
}

/// Copies a message without items. The number of words was checked by `send`.
pub fn copy(sender: Ref<Thread>, receiver: Ref<Thread>, tag: Tag) {
    copy_words(sender, receiver, tag.words());
    copy_registers(sender, receiver, tag);
}

/// Copies what travels in registers, and the tag.
pub fn copy_registers(sender: Ref<Thread>, receiver: Ref<Thread>, tag: Tag) {
    let to = receiver.frame();
    word::copy(sender.frame().message(), to.message());
    let shown = sender.shown.get();
    let marks = marks(sender, shown, receiver, sender.destination.get());
    announce(to, receiver.id, shown, Tag(tag.0 & USER_TAG | marks));
}

/// Says whose message is in a receiver's frame, and of which kind.
#[inline]
fn announce(frame: &SharedFrame, receiver: Id, sender: Id, tag: Tag) -> &SharedFrame {
    frame.ax.set(Status::OK.0);
    frame.di.set(sender.0);
    frame.si.set(tag.0);
    crate::debugger::trace::message(sender, receiver, tag);
    frame
}

/// The tag's flags of a message that was for another or shows another as its sender; the UTCB tells whom.
#[inline]
fn marks(sender: Ref<Thread>, shown: Id, receiver: Ref<Thread>, destination: Id) -> u64 {
    if destination == receiver.id && shown == sender.id {
        return 0;
    }
    mark(sender, shown, receiver, destination)
}

#[cold]
fn mark(sender: Ref<Thread>, shown: Id, receiver: Ref<Thread>, destination: Id) -> u64 {
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

/// Copies the words that lie in the UTCBs.
pub fn copy_words(sender: Ref<Thread>, receiver: Ref<Thread>, words: u64) {
    if words <= REGISTER_WORDS {
        return;
    }
    if let (Some(from), Some(to)) = (sender.utcb(), receiver.utcb()) {
        let range = REGISTER_WORDS as usize..words.min(MAX_WORDS) as usize;
        word::copy(&from.words[range.clone()], &to.words[range]);
    }
}

/// The answer of a pager or handler, but for its map items: a frame, and the thread goes on.
pub fn resume(pager: Ref<Thread>, faulter: Ref<Thread>) {
    pager.waiters.set(pager.waiters.get() - 1);
    let words = Tag(pager.frame().si.get()).words() as usize;
    crate::debugger::trace::message(pager.id, faulter.id, Tag(pager.frame().si.get()));
    if let (Some(utcb), false, true) = (pager.utcb(), faulter.has(ALIEN | TRANSFER), words >= FRAME_END) {
        word::copy(&utcb.words[REGISTER_WORDS as usize..], faulter.frame().words());
        // All its registers are to be loaded, rcx and r11 too.
        faulter.frame().orig_ax.set(NO_CALL);
        faulter.found.set(0);
    }
    wake(faulter);
}

/// Words of a message that carries a whole frame behind the register words.
const FRAME_END: usize = REGISTER_WORDS as usize + FRAME_WORDS;

/// Sends the message that `fault` composed in `sender.message` to `receiver`.
pub fn send_kernel_message(sender: Ref<Thread>, receiver: Ref<Thread>) {
    if accepts(receiver, sender.id) {
        stop_waiting(receiver);
        deliver_kernel_message(sender, receiver);
        wake(receiver);
    } else {
        sender.state.set(State::Sending);
        sender.set(KERNEL_MESSAGE);
        sender.partner.set(receiver.id);
        receiver.maybe_pending.set(true);
        receiver.senders.push_back(sender);
    }
}

/// Writes the kernel's message into the receiver's registers; the sender waits for the answer.
#[inline]
fn deliver_kernel_message(sender: Ref<Thread>, receiver: Ref<Thread>) {
    let message = sender.message.get();
    let to = receiver.frame();
    let mut tag = Tag(message.tag.0 | marks(sender, sender.id, receiver, sender.fault_target.get()));
    let preempted = tag.kind() == KIND_PREEMPTION;
    // Who is only its pager need not see its registers.
    let framed = !preempted && !sender.has(ALIEN) && sender.fault_target.get() == sender.handler.get();
    if let (Some(utcb), true) = (receiver.utcb(), framed) {
        word::copy(sender.frame().words(), &utcb.words[REGISTER_WORDS as usize..]);
        tag = Tag(tag.0 & !0xff | FRAME_END as u64);
    }
    announce(to, receiver.id, sender.id, tag);
    if tag.kind() == KIND_USER {
        // An alien thread's own words.
        word::copy(sender.frame().message(), to.message());
    } else {
        // Nobody's words are in the others, as on the fast path.
        let [first, second, third, fourth] = message.words;
        let words = [first, second, third, fourth, 0, 0];
        to.message().into_iter().zip(words).for_each(|(target, word)| target.set(word));
    }
    sender.unset(KERNEL_MESSAGE);
    sender.state.set(if preempted { State::Preempted } else { State::Faulted });
    sender.partner.set(receiver.id);
    receiver.waiters.set(receiver.waiters.get() + 1);
}

/// A thread no longer waits for its pager, handler or preempter.
pub fn leave_fault(thread: Ref<Thread>) {
    if let (State::Faulted | State::Preempted, Some(partner)) = (thread.state.get(), find(thread.partner.get())) {
        partner.waiters.set(partner.waiters.get() - 1);
    }
}

/// ORs word 0 into the receiver's notification word.
fn notify(caller: Ref<Thread>, receiver: Ref<Thread>) -> Result<Sent, Stop> {
    caller.task.controls(receiver.task)?;
    receiver.notify.set(receiver.notify.get() | caller.frame().r8.get());
    if receiver.notify.get() != 0 && receiver.state.get() == State::Receiving && receiver.open.get() {
        stop_waiting(receiver);
        deliver_notification(receiver);
        wake(receiver);
    } else {
        receiver.maybe_pending.set(true);
    }
    Ok(Sent::Done)
}

fn deliver_notification(thread: Ref<Thread>) {
    announce(thread.frame(), thread.id, thread.id, Tag::kernel(KIND_NOTIFY, 0, 1)).r8.set(thread.notify.take());
}

/// Delivers an interrupt at once, if its receiver waits for it.
pub fn interrupt(receiver: Ref<Thread>, source: Id) -> bool {
    if !accepts(receiver, source) {
        return false;
    }
    stop_waiting(receiver);
    write_interrupt(receiver, source);
    wake(receiver);
    true
}

/// Writes an interrupt message into a thread's registers.
pub fn write_interrupt(receiver: Ref<Thread>, source: Id) {
    announce(receiver.frame(), receiver.id, source, Tag::kernel(KIND_INTERRUPT, 0, 1)).r8.set(clock::now());
}

/// A send to a kernel source.
fn invoke(caller: Ref<Thread>, source: Id, flags: u64) -> Result<Sent, Stop> {
    let frame = caller.frame();
    let label = Tag(frame.si.get()).label() as u64;
    let wants_answer = flags & (IPC_RECEIVE | IPC_OPEN) == IPC_RECEIVE && frame.dx.get() == source.0;
    let result = kernel_object::invoke(caller, source, label);
    if !wants_answer {
        return result.map(|_| Sent::Done).map_err(Stop::Failed);
    }
    let code = result.err().map_or(0, |error| error as u32);
    let (words, count) = result.unwrap_or(kernel_object::NO_WORDS);
    announce(frame, caller.id, source, Tag::kernel(KIND_KERNEL, code, count as u64));
    for (number, word) in words[..count].iter().enumerate() {
        match (frame.message().get(number), caller.utcb()) {
            (Some(register), _) => register.set(*word),
            (None, Some(utcb)) => utcb.words[number].set(*word),
            (None, None) => {}
        }
    }
    Ok(Sent::Elsewhere)
}

/// Ends a call with an error; the thread runs or is made to.
pub fn finish(thread: Ref<Thread>, side: Side, error: Error) {
    thread.frame().ax.set(Status::error(side, error).0);
}

fn finish_and_wake(thread: Ref<Thread>, side: Side, error: Error) {
    finish(thread, side, error);
    wake(thread);
}

/// Ends the wait of a thread in a partner's queue with an error.
pub fn fail(sender: Ref<Thread>, side: Side, error: Error) {
    leave_queues(sender);
    if sender.has(KERNEL_MESSAGE) {
        // Its pager or handler went away: it stops.
        sender.unset(KERNEL_MESSAGE);
        fault::no_handler(sender);
        return;
    }
    finish_and_wake(sender, side, error);
}

/// Takes a thread out of whatever it waits in. Its state is the caller's to change.
pub fn leave_queues(thread: Ref<Thread>) {
    match thread.state.get() {
        State::Sending => {
            if let Some(partner) = find(thread.partner.get()) {
                partner.senders.remove(thread);
            }
            sched::disarm(thread);
        }
        State::Receiving => stop_waiting(thread),
        State::Faulted | State::Preempted => {
            leave_fault(thread);
            sched::disarm(thread);
        }
        _ => {}
    }
}

/// A thread's timeout has passed.
pub fn timed_out(thread: Ref<Thread>) {
    let side = match thread.state.get() {
        State::Sending | State::Faulted if thread.has(TRANSFER) => return transfer::timed_out(thread),
        State::Sending if !thread.has(KERNEL_MESSAGE) => Side::Send,
        State::Receiving => Side::Receive,
        _ => return,
    };
    leave_queues(thread);
    finish_and_wake(thread, side, Error::Timeout);
}

/// Ends an IPC (EX_CANCEL).
pub fn cancel(thread: Ref<Thread>) {
    if thread.has(TRANSFER) {
        return transfer::fail(thread, Error::Aborted);
    }
    let side = match thread.state.get() {
        State::Sending if !thread.has(KERNEL_MESSAGE) => Side::Send,
        State::Receiving => Side::Receive,
        State::Ready if thread.has(RECEIVE_DUE) => Side::Receive,
        _ => return,
    };
    leave_queues(thread);
    thread.unset(RECEIVE_DUE);
    finish(thread, side, Error::Cancelled);
    transfer::ready(thread);
}

/// `partner` goes: everybody who waits for just it is told. Rare (a server dies), so all threads are looked at.
pub fn fail_waiters(partner: Ref<Thread>) {
    task::for_each(|task| {
        let mut next = task.next_lthread(0);
        while let Some(thread) = next {
            next = task.next_lthread(thread.id.lthread() + 1);
            if thread.partner.get() != partner.id || thread == partner {
                continue;
            }
            preempt::poll();
            match thread.state.get() {
                State::Receiving if !thread.open.get() => fail(thread, Side::Receive, Error::NoPartner),
                State::Faulted | State::Preempted => fault::no_handler(thread),
                _ => {}
            }
            preempt::poll();
        }
    });
}
