// SPDX-License-Identifier: GPL-2.0-only
//! Transfers of map items and strings between two threads that have met.
//!
//! These take time, so interrupts are let in on the way and somebody more important may run. There is no third party:
//! one of the partners is the *mover*, Ready, and goes on whenever it runs (TRANSFER is among the flags that
//! `sched::leave` looks at); the other one is Transferring. Whoever runs when they meet is the active_partner. If a page of
//! a string is missing, the thread in whose space that is sends its page fault as always, and moves when it is answered.
//! Progress stands in the `Transfer` of both; partners are named by ids and found anew each time.
//!
//! A pager's answer is a transfer too, but one-sided: the faulter stays Faulted, and nothing is said to it if it fails.
//!
//! | event | sender | receiver | mover |
//! |---|---|---|---|
//! | the sender finds its receiver waiting | Ready | Transferring | sender |
//! | the receiver takes a queued sender | Transferring | Ready | receiver |
//! | a page is missing in X's space, Y is the other | X: Sending, then Faulted; Y: Transferring | | X, once it is answered |
//! | its pager has answered X | X: Ready, with its fault's timeout until it resumes or the transfer ends | | X |
//! | `Stop::Restart` | as before: the mover stays Ready, and `sched::leave` comes back to `proceed` | | the same |
//! | the end, or `fail` | its receive phase, or Ready with an error | Ready | none |

use crate::ipc::strings::{Step, StringItems};
use crate::ipc::{fault, ipc, strings};
use crate::mm::space::{Progress, Stop};
use crate::mm::{space, umem};
use crate::{base::Ref, object::thread::*, percpu::preempt::poll, sched};
use core::cell::Cell;
use keel_abi::call::*;
use keel_abi::memory::{MapItem, MAP_GRANT};
use keel_abi::word::Word;
use keel_abi::{Error, Fpage, Id, Side, StringItem, Tag};

/// Items of one small page that are mapped with interrupts off.
const PAGES_AT_ONCE: u64 = 16;
/// Log2 of the ports that are mapped with interrupts off.
const PORTS_AT_ONCE: u8 = 10;

/// A thread's part in a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It sends; the strings are its own.
    Sender,
    /// It receives; the strings are its buffers.
    Receiver,
    /// It answers a fault of its partner, who does not take part.
    Answerer,
}

object! {
    /// What a thread keeps about its transfer. Good while it has the flag TRANSFER, but for the strings of a queued sender.
    pub struct Transfer const () {
        role: Cell<Role> = Cell::new(Role::Sender),
        partner: Cell<Id> = Cell::new(Id::NIL),
        /// The message's; read once, because the frame of an alien sender is its chief's memory too.
        tag: Cell<Tag> = Cell::new(Tag(0)),
        /// Sender: map items that are done, and one that was left in the middle.
        maps: Cell<u64> = Cell::new(0),
        under_way: Cell<Option<Item>> = Cell::new(None),
        parts: StringItems = StringItems::new(),
    }
}

/// A map item under way: as it was when it was begun, and how far it has come.
#[derive(Clone, Copy)]
struct Item {
    item: MapItem,
    window: Fpage,
    progress: Progress,
}

/// Reads the strings that `sender` is going to send. False if they are malformed.
pub fn take_strings(sender: Ref<Thread>, count: u64) -> bool {
    let Some(utcb) = sender.utcb() else { return false };
    let parts = &sender.transfer.parts;
    parts.take(items(&utcb.strings, count));
    parts.is_whole(count)
}

/// The first `count` items of a list in a UTCB.
fn items(words: &[Word; 2 * MAX_STRINGS as usize], count: u64) -> impl Iterator<Item = StringItem> + '_ {
    let item = |pair: &[Word]| StringItem { address: pair[0].get(), length: pair[1].get() };
    words.chunks_exact(2).map(item).take(count as usize)
}

/// Transfers between two threads that wait for nothing else any more; `mover` is the one that runs. How it ended, if it
/// has: then the receiver knows already, and the sender is the caller's business.
pub fn begin(sender: Ref<Thread>, receiver: Ref<Thread>, active_partner: Ref<Thread>) -> Option<Result<(), Error>> {
    let tag = Tag(sender.frame().si.get());
    enter(sender, receiver, Role::Sender, tag);
    enter(receiver, sender, Role::Receiver, tag);
    if let (Some(utcb), true) = (receiver.utcb(), tag.strings() > 0) {
        receiver.transfer.parts.take(items(&utcb.buffers, utcb.buffer_count.get()));
    }
    ipc::copy_words(sender, receiver, tag.words());
    wait_for(if active_partner == sender { receiver } else { sender }, active_partner);
    run(sender, receiver, active_partner)
}

/// The same for the map items with which the running `pager` answers `faulter`.
pub fn answer(pager: Ref<Thread>, faulter: Ref<Thread>) -> Option<Result<(), Error>> {
    enter(pager, faulter, Role::Answerer, Tag(pager.frame().si.get()));
    run(pager, faulter, pager)
}

fn enter(thread: Ref<Thread>, partner: Ref<Thread>, role: Role, tag: Tag) {
    thread.set(TRANSFER);
    thread.transfer.role.set(role);
    thread.transfer.partner.set(partner.id);
    thread.transfer.tag.set(tag);
    thread.transfer.maps.set(0);
    thread.transfer.under_way.set(None);
}

fn wait_for(thread: Ref<Thread>, active_partner: Ref<Thread>) {
    thread.state.set(State::Transferring);
    thread.partner.set(active_partner.id);
}

/// Sender and receiver of a thread's transfer. `None` if an answer has lost its faulter.
fn partners(thread: Ref<Thread>) -> Option<(Ref<Thread>, Ref<Thread>)> {
    let other = find(thread.transfer.partner.get())?;
    match thread.transfer.role.get() {
        Role::Sender => Some((thread, other)),
        Role::Receiver => Some((other, thread)),
        Role::Answerer => ipc::awaits_answer(other, thread).then_some((thread, other)),
    }
}

/// Goes on with the transfer of the running thread: to its end, to a page that is missing, or until somebody more
/// important is ready.
pub fn proceed(active_partner: Ref<Thread>) {
    // Its page fault, if there was one, has been answered.
    sched::disarm(active_partner);
    // Interrupts may have been off since its pager came in to answer.
    poll();
    let Some((sender, receiver)) = partners(active_partner) else { return fail(active_partner, Error::Aborted) };
    if let Some(result) = run(sender, receiver, active_partner) {
        sender_ends(sender, result);
    }
}

fn run(sender: Ref<Thread>, receiver: Ref<Thread>, active_partner: Ref<Thread>) -> Option<Result<(), Error>> {
    let result = match copy_loop(sender, receiver, active_partner) {
        Err(Stop::Restart) => return None,
        Err(Stop::Failed(error)) => Err(error),
        // An interrupt that was let in on the way may have been the end of the faulter's patience.
        Ok(()) if active_partner.transfer.role.get() == Role::Answerer && !ipc::awaits_answer(receiver, sender) => {
            Err(Error::Aborted)
        }
        Ok(()) => Ok(()),
    };
    finish(sender, receiver, result);
    Some(result)
}

fn copy_loop(sender: Ref<Thread>, receiver: Ref<Thread>, active_partner: Ref<Thread>) -> Result<(), Stop> {
    let tag = sender.transfer.tag.get();
    pass_maps(sender, receiver, tag)?;
    if tag.strings() > 0 {
        pass_strings(sender, receiver, active_partner)?;
    }
    Ok(())
}

fn pass_maps(sender: Ref<Thread>, receiver: Ref<Thread>, tag: Tag) -> Result<(), Stop> {
    let state = &sender.transfer;
    let (told, window) = match state.role.get() {
        Role::Answerer => (None, Fpage::WHOLE),
        _ => (receiver.utcb(), receiver.utcb().map_or(Fpage::NIL, |utcb| Fpage(utcb.receive_fpage.get()))),
    };
    let Some(from) = sender.utcb() else { return Ok(()) };
    let count = tag.maps().min(MAX_MAP_ITEMS);
    while state.maps.get() < count {
        let at = 2 * state.maps.get() as usize;
        let items = &from.maps[at..2 * count.min(state.maps.get() + PAGES_AT_ONCE) as usize];
        let pages = if told.is_none() { space::map_pages(sender.task, receiver.task, items) } else { 0 };
        if pages > 0 {
            // It may have been begun before, when something else was in its place.
            state.under_way.set(None);
        } else {
            let pair = &from.maps[at..at + 2];
            let mut item = state.under_way.take().unwrap_or_else(|| Item {
                item: MapItem { send_base: pair[0].get(), fpage: pair[1].get() },
                window,
                progress: Progress::default(),
            });
            let arrived = pass_item(sender, receiver, &mut item).inspect_err(|_| state.under_way.set(Some(item)))?;
            if let Some(to) = told {
                to.maps[at].set(arrived.send_base);
                to.maps[at + 1].set(arrived.fpage);
            }
        }
        state.maps.set(state.maps.get() + pages.max(1) as u64);
        let more = state.maps.get() < count || tag.strings() > 0;
        if more && poll() {
            return Err(Stop::Restart);
        }
    }
    Ok(())
}

/// Maps or grants one item, or the rest of it; what the receiver is told about it.
fn pass_item(sender: Ref<Thread>, receiver: Ref<Thread>, under_way: &mut Item) -> Result<MapItem, Stop> {
    const REFUSED: MapItem = MapItem { send_base: 0, fpage: 0 };
    let Item { item, window, progress } = under_way;
    // Whose account is the chief's maps what it would grant: the chief would not find it where it was.
    let grant = item.send_base & MAP_GRANT != 0 && sender.task.owns_account();
    let (fpage, base) = (Fpage(item.fpage), item.send_base & !MAP_GRANT);
    let window = if fpage.is_io() && *window == Fpage::WHOLE { Fpage::io(0, 16) } else { *window };
    let Some(place) = space::place(fpage, base, window) else { return Ok(REFUSED) };
    if fpage.is_io() {
        // Ports have no other place than their own. Bit 0 of the send base is the grant bit.
        if place.source & !MAP_GRANT != place.target & !MAP_GRANT {
            return Ok(REFUSED);
        }
        while progress.done < 1 << place.log2 {
            let first = (place.source + progress.done) as u16;
            let log2 = place.log2.min(PORTS_AT_ONCE);
            progress.rights |= crate::mm::io::map(sender.task, receiver.task, first, log2, grant)? as u64;
            progress.done += 1 << log2;
            if log2 < place.log2 && poll() {
                return Err(Stop::Restart);
            }
        }
    } else {
        let mapping = space::Mapping { from: sender.task, to: receiver.task, place, item: fpage, grant };
        space::map(&mapping, progress)?;
    }
    let (send_base, came) = match fpage.is_io() {
        true => (place.source, Fpage::io(place.source as u16, place.log2)),
        false => (place.target, Fpage::memory(place.target, place.log2, progress.rights)),
    };
    Ok(if progress.rights == 0 { REFUSED } else { MapItem { send_base, fpage: came.0 } })
}

fn pass_strings(sender: Ref<Thread>, receiver: Ref<Thread>, active_partner: Ref<Thread>) -> Result<(), Stop> {
    let (parts, buffers) = (&sender.transfer.parts, &receiver.transfer.parts);
    loop {
        let (from, to, size) = match strings::next(parts, buffers) {
            Step::Copy { from, to, size } => (from, to, size),
            Step::Cut => return Err(Error::MessageCut.into()),
            Step::Done => return Ok(()),
        };
        let place = |owner: Ref<Thread>, other, address, write| {
            let missing = |present| page_missing(owner, other, active_partner, (address, write, present));
            space::access(owner.task, address, write).map_err(missing)
        };
        let source = place(sender, receiver, from, false)?;
        umem::copy(source, place(receiver, sender, to, true)?, size)?;
        strings::moved(parts, buffers, size);
        if poll() {
            return Err(Stop::Restart);
        }
    }
}

/// A page in `owner`'s space is missing or read-only: its pager is asked, for as long as `other`
/// allows. A time of zero allows no fault: no pager is asked, and both get the error.
fn page_missing(
    owner: Ref<Thread>,
    other: Ref<Thread>,
    active_partner: Ref<Thread>,
    (address, write, present): (u64, bool, bool),
) -> Stop {
    let (of_sends, of_receives) =
        other.utcb().map_or((0, 0), |utcb| (utcb.send_fault_timeout.get(), utcb.receive_fault_timeout.get()));
    let (allowed, error) = if write { (of_sends, Error::SendFault) } else { (of_receives, Error::ReceiveFault) };
    let Ok(end) = ipc::deadline(TIMEOUT_UTCB, allowed) else { return error.into() };
    fault::missing_page(owner, address, write, present);
    // If sigma0's space was filled nobody waits, and without a pager the transfer has ended.
    if owner.has(TRANSFER) && waits_for_pager(owner) {
        sched::arm(owner, end);
        if active_partner != owner {
            wait_for(active_partner, owner);
        }
    }
    Stop::Restart
}

/// The time for a page fault in a transfer has passed.
pub fn timed_out(faulter: Ref<Thread>) {
    let sends = faulter.transfer.role.get() == Role::Sender;
    fail(faulter, if sends { Error::ReceiveFault } else { Error::SendFault });
}

/// Ends the transfer of a thread, whatever the partners do; both are told.
pub fn fail(thread: Ref<Thread>, error: Error) {
    let Some((sender, receiver)) = partners(thread) else {
        leave(thread);
        return sender_ends(thread, Err(error));
    };
    finish(sender, receiver, Err(error));
    sender_ends(sender, Err(error));
}

/// The end of a transfer, for all but the sender's further course.
fn finish(sender: Ref<Thread>, receiver: Ref<Thread>, result: Result<(), Error>) {
    leave(sender);
    if sender.transfer.role.get() == Role::Answerer {
        if result.is_ok() {
            ipc::resume(sender, receiver);
        }
        return;
    }
    leave(receiver);
    if matches!(result, Ok(()) | Err(Error::MessageCut)) {
        let tag = sender.transfer.tag.get();
        let strings = if tag.strings() > 0 { tell_strings(receiver) } else { 0 };
        ipc::copy_registers(sender, receiver, tag.with_strings(strings));
    }
    if let Err(error) = result {
        receiver.frame().di.set(sender.shown.get().0);
        ipc::finish(receiver, Side::Receive, error);
    }
    ready(receiver);
}

/// The sender's further course: its receive phase, or its error.
pub fn sender_ends(sender: Ref<Thread>, result: Result<(), Error>) {
    match result {
        Ok(()) => ipc::sender_done(sender),
        Err(error) => {
            ipc::finish(sender, Side::Send, error);
            ready(sender);
        }
    }
}

/// Tells the receiver where its strings lie.
fn tell_strings(receiver: Ref<Thread>) -> u64 {
    let pairs = receiver.utcb().into_iter().flat_map(|utcb| utcb.strings.chunks_exact(2));
    let told = pairs.zip(receiver.transfer.parts.arrived()).map(|(pair, string)| {
        pair[0].set(string.address);
        pair[1].set(string.length);
    });
    told.count() as u64
}

/// A thread is no longer in a transfer, nor waits for a pager because of it. Its fault may have
/// been answered without its having run since: the timeout for that, which the other partner chose,
/// ends here too.
fn leave(thread: Ref<Thread>) {
    if waits_for_pager(thread) {
        ipc::leave_queues(thread);
    }
    sched::disarm(thread);
    thread.unset(TRANSFER | KERNEL_MESSAGE);
}

fn waits_for_pager(thread: Ref<Thread>) -> bool {
    matches!(thread.state.get(), State::Sending | State::Faulted)
}

/// Makes a thread ready that may be so already.
pub fn ready(thread: Ref<Thread>) {
    if thread.state.get() != State::Ready {
        sched::wake(thread);
    }
}
