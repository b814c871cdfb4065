// SPDX-License-Identifier: GPL-2.0-only
//! Transfers of map items and strings between the two partners of an IPC (long IPC).
//!
//! Every function here is called with all CPU locks held and interrupts off, except `map_answer`,
//! `map_item` and what these call: fast paths map by them with less (`lock::ordered`). A transfer
//! takes time, so it has preemption points (`poll`): there interrupts are served, and a thread of a
//! higher priority, or another CPU, makes the transfer stop with `Stop::Restart`.
//!
//! No third thread takes part. One partner is the *active partner*: it is Ready, and runs the copy
//! loop in its own time, whenever it is scheduled (TRANSFER is a flag of exit work: `leave::leave`
//! calls `proceed`). The other one is Transferring. The thread that runs at the rendezvous is the
//! first active partner. If a page of a string is missing, the thread in whose space it is sends
//! its page fault to its pager as always, and is the active partner once the pager has replied.
//!
//! Progress is stored in the `Transfer` of both. Partners are stored as ids and looked up again
//! each time, because a partner may be deleted while the transfer is preempted. Deleting or
//! cancelling one of them ends the transfer for both (`fail`).
//!
//! Users may change their memory meanwhile. Read once, at the beginning: the tag, the words, and
//! the lists of strings and of buffers. Read when its turn comes: a map item, which is then kept
//! until it is done. Read again at each resumption: the receive window, for the items that are not
//! begun; and at each fault the partner's fault timeout. Read at the end: the registers.
//!
//! One short map item alone needs no transfer (`at_once`), nor does a pager's reply with pages that
//! a fast path maps (`map_answer`). Where these find that it is not so simple, some pages
//! are mapped already, and the transfer maps them once more, which changes nothing.
//!
//! A pager's reply with map items is a transfer too, but one-sided: the faulter stays Faulted, and
//! learns nothing of an error, because it made no call that could return one. The pager gets the
//! error, and may reply again. So are map items to oneself (`Role::Alone`), which have no partner.
//!
//! Interrupts are off for at most one of these: `PAGES_AT_ONCE` small pages of a pager's reply; one
//! item of `at_once`; one other map item, in which `space::map` has preemption points by what its
//! steps cost (`Work`); `2^PORTS_AT_ONCE` ports; a step of a string, at most a page; the copy of
//! the words and lists. `user/bench` measures the longest stretch (docs/measuring.md).
//!
//! | event | sender | receiver | active partner |
//! |---|---|---|---|
//! | the sender finds its receiver waiting | Ready | Transferring | sender |
//! | the receiver takes a queued sender | Transferring | Ready | receiver |
//! | a page is missing in X's space, Y is the other | X: Sending, then Faulted; Y: Transferring | | X, once its pager has replied |
//! | X's pager has replied | X: Ready, with its fault's timeout until it resumes or the transfer ends | | X |
//! | `Stop::Restart` | as before: the active partner stays Ready, and `leave::leave` calls `proceed` | | the same |
//! | the end, or `fail` | its receive phase, or Ready with an error | Ready | none |

use crate::{base::abi::*, base::*, object::thread::*, object::Task, percpu::lock, percpu::preempt::poll, sched};
use crate::{ipc::strings::StringItems, ipc::*, mm::space::Progress, mm::space::Stop, mm::*};

/// Map items of one small page each that are mapped between two preemption points. Only in a
/// pager's reply, where nothing has to be reported for each of them.
const PAGES_AT_ONCE: u64 = 16;
/// Tag bits of words and items.
pub const TAG_CONTENT: u64 = 0xff << TAG_WORDS_SHIFT | 0xff << TAG_MAPS_SHIFT | 0xff << TAG_STRINGS_SHIFT | TAG_FORWARD;
/// What they are where a message is one map item.
pub const TAG_ONE_ITEM: u64 = 1 << TAG_MAPS_SHIFT;
/// Log2 of the I/O ports that are mapped between two preemption points.
const PORTS_AT_ONCE: u8 = 10;

/// The part that a thread has in a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It sends; the strings are its own.
    Sender,
    /// It receives; the strings are its buffers.
    Receiver,
    /// It replies to a fault of its partner, which is blocked on it and does not take part.
    Answerer,
    /// It maps in its own space, and is its own partner.
    Alone,
}

object! {
    /// What a thread stores about its transfer. Valid only while TRANSFER is set, except `parts`,
    /// which is also valid for a queued sender.
    pub struct Transfer const () {
        role: Cell<Role> = Cell::new(Role::Sender),
        partner: Cell<Id> = Cell::new(Id::NIL),
        /// The message's tag; read once, because the sender's frame may change during the transfer:
        /// that of an alien thread is its chief's memory too.
        tag: Cell<Tag> = Cell::new(Tag(0)),
        /// Sender: number of map items that are done, and the item that was preempted.
        maps: Cell<u64> = Cell::new(0),
        under_way: Cell<Option<Item>> = Cell::new(None),
        parts: StringItems = StringItems::new(),
    }
}

/// A preempted map item: the item and the receive window as they were when it was begun, because
/// the UTCBs may have changed since, and the progress.
#[derive(Clone, Copy)]
struct Item {
    item: MapItem,
    window: Fpage,
    progress: Progress,
}

/// Copies the list of strings that `sender` is going to send, and checks it: from now on the UTCB
/// may change. Returns false if there are not `count` valid items, or the last one continues.
pub fn take_strings(sender: Ref<Thread>, count: u64) -> bool {
    let Some(utcb) = sender.utcb() else { return false };
    let parts = &sender.transfer.parts;
    parts.take(items(&utcb.strings, count));
    parts.is_whole(count)
}

/// Reads the first `count` items of a list in a UTCB.
fn items(words: &[Word; 2 * MAX_STRINGS as usize], count: u64) -> impl Iterator<Item = StringItem> + '_ {
    let item = |pair: &[Word]| StringItem { address: pair[0].get(), length: pair[1].get() };
    words.chunks_exact(2).map(item).take(count as usize)
}

/// Maps a message's only item without a transfer, if that is simple (`pass_row`). Then the message
/// is like one without items, and `ipc::copy` delivers it. Returns false if a transfer has to do
/// it. `receiver` has been waiting, or is the running thread.
pub fn at_once(sender: Ref<Thread>, receiver: Ref<Thread>, tag: Tag) -> bool {
    if tag.maps() != 1 || tag.strings() > 0 {
        return false;
    }
    if receiver.state() == State::Receiving {
        // An interrupt at a preemption point must not find it waiting.
        receiver.change_state(State::Transferring);
    }
    pass_one(sender, receiver, true)
}

/// `at_once` on a fast path, without preemption points: only where no tables have to be made.
pub extern "C" fn map_item(sender: Ref<Thread>, receiver: Ref<Thread>) -> bool {
    pass_one(sender, receiver, false)
}

/// `map_item` on a multiprocessor; as `map_answer_ordered`.
pub extern "C" fn map_item_ordered(sender: Ref<Thread>, receiver: Ref<Thread>) -> bool {
    lock::ordered(|| pass_one(sender, receiver, false))
}

/// Maps the first item of a message, and tells the receiver, if that is simple (`pass_row`).
#[inline(always)]
fn pass_one(sender: Ref<Thread>, receiver: Ref<Thread>, tables: bool) -> bool {
    let (Some(from), Some(to)) = (sender.utcb(), receiver.utcb()) else { return false };
    let window = Fpage(to.receive_fpage.get());
    let arrived = pass_row((sender.task, receiver.task), &from.maps[..2], window, tables);
    let Some(item) = arrived else { return false };
    to.maps[0].set(item.send_base);
    to.maps[1].set(item.fpage);
    true
}

/// Maps an item that is memory of at most a row of small pages, to where nothing is but the tables;
/// `tables`: those are made, and there are preemption points. Returns what is reported to the
/// receiver. `None`: it is not so simple. Some of the pages are perhaps mapped then, which a
/// transfer maps once more.
pub fn pass_row((from, to): (Ref<Task>, Ref<Task>), item: &[Word], window: Fpage, tables: bool) -> Option<MapItem> {
    let (base, item) = (item[0].get(), Fpage(item[1].get()));
    if item.is_io() || item.log2().min(window.log2()) > space::ROW_LOG2 {
        return None;
    }
    let place = space::place(item, base, window)?;
    let rights = space::Mapping { from, to, place, item, grant: base & MAP_GRANT != 0 }.at_once(tables);
    let fpage = Fpage::memory(place.target, place.log2, rights).0;
    (rights > 0).then_some(MapItem { send_base: canonical(place.target), fpage })
}

/// Maps what a pager's answer names, or a thread's message to itself. `content` is what TAG_CONTENT
/// leaves of its tag. False: it is not so simple, and some pages are perhaps mapped.
pub extern "C" fn map_answer(from: Ref<Task>, to: Ref<Task>, utcb: &SharedUtcb, content: u64) -> bool {
    let (target, item) = (utcb.maps[0].get(), Fpage(utcb.maps[1].get()));
    match content == TAG_ONE_ITEM && item.is_page() {
        true => space::map_small_pages::<false>(from, to, target, core::iter::once((target, item))) > 0,
        false => map_more(from, to, utcb, content),
    }
}

/// `map_answer` on a multiprocessor, with the lock of this CPU alone. False also if another CPU
/// maps or unmaps just now.
pub extern "C" fn map_answer_ordered(from: Ref<Task>, to: Ref<Task>, utcb: &SharedUtcb, content: u64) -> bool {
    lock::ordered(|| map_answer(from, to, utcb, content))
}

/// Likewise for several pages, or a row of them.
#[cold]
#[inline(never)]
fn map_more(from: Ref<Task>, to: Ref<Task>, utcb: &SharedUtcb, content: u64) -> bool {
    let count = content / TAG_ONE_ITEM;
    if content == TAG_ONE_ITEM {
        pass_row((from, to), &utcb.maps[..2], Fpage::WHOLE, false).is_some()
    } else if content % TAG_ONE_ITEM == 0 && (1..=PAGES_AT_ONCE).contains(&count) {
        space::map_all_pages(from, to, &utcb.maps[..2 * count as usize])
    } else {
        false
    }
}

/// Begins a transfer between two threads of which neither is in a queue or has a timeout any more:
/// `ipc::send`, or `ipc::receive` for a queued sender. `active_partner` is the one that runs. The
/// words in the UTCBs are copied at once, the registers at the end.
///
/// Returns the result if the transfer ended. Then the receiver has its status and is ready; the
/// caller completes the sender's call. Returns `None` if it was preempted, or waits for a pager:
/// then `proceed` or `fail` completes both calls.
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

/// Begins the mapping of the running thread's items in its own space. Returns as `begin`.
pub fn to_itself(thread: Ref<Thread>) -> Option<Result<(), Error>> {
    let (tag, task) = (Tag(thread.frame().si.get()), thread.task);
    if thread.utcb().is_some_and(|utcb| map_answer(task, task, utcb, tag.0 & TAG_CONTENT)) {
        return Some(Ok(()));
    }
    one_sided(thread, thread, Role::Alone)
}

/// Begins the transfer of the running sender's map items after `map_answer` has perhaps mapped some
/// of them, with interrupts off: to its own space, or in its reply as a pager to a faulter, which
/// is blocked on it (`ipc::awaits_answer`), and is resumed on success only. Returns as `begin`.
pub fn one_sided(sender: Ref<Thread>, receiver: Ref<Thread>, role: Role) -> Option<Result<(), Error>> {
    enter(sender, receiver, role, Tag(sender.frame().si.get()));
    poll();
    run(sender, receiver, sender)
}

/// Initialises the state of one partner. Its list of strings stays.
fn enter(thread: Ref<Thread>, partner: Ref<Thread>, role: Role, tag: Tag) {
    thread.set(Flags::TRANSFER);
    thread.transfer.role.set(role);
    thread.transfer.partner.set(partner.id);
    thread.transfer.tag.set(tag);
    thread.transfer.maps.set(0);
    thread.transfer.under_way.set(None);
}

/// Blocks `thread` until the active partner ends the transfer.
fn wait_for(thread: Ref<Thread>, active_partner: Ref<Thread>) {
    thread.change_state(State::Transferring);
    thread.partner.set(active_partner.id);
}

/// Returns sender and receiver of a thread's transfer. `None` if it is a pager's reply, and the
/// faulter was deleted or is no longer blocked on that pager.
fn partners(thread: Ref<Thread>) -> Option<(Ref<Thread>, Ref<Thread>)> {
    let other = find(thread.transfer.partner.get())?;
    match thread.transfer.role.get() {
        Role::Sender => Some((thread, other)),
        Role::Receiver => Some((other, thread)),
        Role::Answerer => ipc::awaits_answer(other, thread).then_some((thread, other)),
        Role::Alone => Some((thread, thread)),
    }
}

/// Resumes the transfer of the running thread: to its end, to a missing page, or until it is
/// preempted. Called by `leave::leave`, before the thread returns to user mode.
pub fn proceed(active_partner: Ref<Thread>) {
    // Its pager has replied to its page fault, if there was one: the fault's timeout ends here.
    sched::disarm(active_partner);
    // Interrupts may have been off since its pager entered the kernel to reply.
    poll();
    let Some((sender, receiver)) = partners(active_partner) else { return fail(active_partner, Error::Aborted) };
    if let Some(result) = run(sender, receiver, active_partner) {
        sender_ends(sender, result);
    }
}

/// Runs the copy loop, and finishes the transfer unless it was preempted. Returns as `begin`.
fn run(sender: Ref<Thread>, receiver: Ref<Thread>, active_partner: Ref<Thread>) -> Option<Result<(), Error>> {
    let tag = sender.transfer.tag.get();
    let strings = |()| if tag.strings() > 0 { pass_strings(sender, receiver, active_partner) } else { Ok(()) };
    // First the map items, then the strings. Each resumes at the stored progress.
    let result = match pass_maps(sender, receiver, tag).and_then(strings) {
        Err(Stop::Restart) => return None,
        Err(Stop::Failed(error)) => Err(error),
        // An interrupt at a preemption point may have ended the faulter's wait: a fault in a
        // transfer has a timeout.
        Ok(()) if active_partner.transfer.role.get() == Role::Answerer && !ipc::awaits_answer(receiver, sender) => {
            Err(Error::Aborted)
        }
        Ok(()) => Ok(()),
    };
    finish(sender, receiver, result);
    Some(result)
}

/// Maps the sender's map items, and writes what arrived to the receiver's UTCB. In a pager's reply,
/// and in the thread's own space, the window is all of the space, and nothing is reported.
fn pass_maps(sender: Ref<Thread>, receiver: Ref<Thread>, tag: Tag) -> Result<(), Stop> {
    let state = &sender.transfer;
    let (told, window) = match state.role.get() {
        Role::Answerer | Role::Alone => (None, Fpage::WHOLE),
        _ => (receiver.utcb(), receiver.utcb().map_or(Fpage::NIL, |utcb| Fpage(utcb.receive_fpage.get()))),
    };
    let Some(from) = sender.utcb() else { return Ok(()) };
    let count = tag.maps().min(MAX_MAP_ITEMS);
    while state.maps.get() < count {
        let at = 2 * state.maps.get() as usize;
        let items = &from.maps[at..2 * count.min(state.maps.get() + PAGES_AT_ONCE) as usize];
        let pages = if told.is_none() { space::map_pages(sender.task, receiver.task, items) } else { 0 };
        if pages > 0 {
            // The item may have been preempted earlier, when something else was mapped at its
            // target.
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
        Stop::Restart.when(more && poll())?;
    }
    Ok(())
}

/// Maps or grants one item, or the rest of it. Returns what is reported to the receiver: REFUSED if
/// nothing was mapped. `Err`: it was preempted, with its progress in `under_way`, or failed.
fn pass_item(sender: Ref<Thread>, receiver: Ref<Thread>, under_way: &mut Item) -> Result<MapItem, Stop> {
    const REFUSED: MapItem = MapItem { send_base: 0, fpage: 0 };
    let Item { item, window, progress } = under_way;
    // A task without an account of its own lives by its chief's, which may take the memory back
    // through the mapping that it gave. So it maps where it would grant: after a grant the chief
    // would not find the page where it was (docs/abi.md).
    let grant = item.send_base & MAP_GRANT != 0 && sender.task.owns_account();
    let (fpage, base) = (Fpage(item.fpage), item.send_base & !MAP_GRANT);
    let window = if fpage.is_io() && *window == Fpage::WHOLE { Fpage::io(0, 16) } else { *window };
    let Some(place) = space::place(fpage, base, window) else { return Ok(REFUSED) };
    let (send_base, came) = if fpage.is_io() {
        // A port has the same number in all spaces. Bit 0 of the send base is the grant bit.
        if place.source & !MAP_GRANT != place.target & !MAP_GRANT {
            return Ok(REFUSED);
        }
        while progress.done < 1 << place.log2 {
            let first = (place.source + progress.done) as u16;
            let log2 = place.log2.min(PORTS_AT_ONCE);
            progress.rights |= crate::mm::io::map(sender.task, receiver.task, first, log2, grant)? as u64;
            progress.done += 1 << log2;
            Stop::Restart.when(log2 < place.log2 && poll())?;
        }
        (place.source, Fpage::io(place.source as u16, place.log2))
    } else {
        let mapping = space::Mapping { from: sender.task, to: receiver.task, place, item: fpage, grant };
        space::map(&mapping, progress)?;
        (canonical(place.target), Fpage::memory(place.target, place.log2, progress.rights))
    };
    Ok(if progress.rights == 0 { REFUSED } else { MapItem { send_base, fpage: came.0 } })
}

/// Copies the strings, at most to the end of a page at a time, with a preemption point after each
/// step. Pages are looked up again in each step, because mappings may change at a preemption point.
fn pass_strings(sender: Ref<Thread>, receiver: Ref<Thread>, active_partner: Ref<Thread>) -> Result<(), Stop> {
    let (parts, buffers) = (&sender.transfer.parts, &receiver.transfer.parts);
    while let Some((from, to, size)) = strings::next(parts, buffers)? {
        let place = |owner: Ref<Thread>, other, address, write| {
            let missing = |present| page_missing(owner, other, active_partner, (address, write, present));
            space::access(owner.task, address, write).map_err(missing)
        };
        let source = place(sender, receiver, from, false)?;
        umem::copy(source, place(receiver, sender, to, true)?, size)?;
        strings::moved(parts, buffers, size);
        Stop::Restart.when(poll())?;
    }
    Ok(())
}

/// Handles a page of a string that is missing, or read-only, in `owner`'s space: `owner` sends a
/// page fault to its pager. Its partner `other` sets the timeout, because it waits meanwhile: a
/// sender for faults in its receiver's buffers, a receiver for faults in its sender's strings. A
/// timeout of zero allows no fault: no pager gets a message, and both partners get the error. `at`
/// is the address, whether it is written, and whether a page is there. `active` is the active
/// partner.
#[cold]
fn page_missing(owner: Ref<Thread>, other: Ref<Thread>, active: Ref<Thread>, at: (VirtAddr, bool, bool)) -> Stop {
    let (address, write, present) = at;
    let (of_sends, of_receives) =
        other.utcb().map_or((0, 0), |utcb| (utcb.send_fault_timeout.get(), utcb.receive_fault_timeout.get()));
    let (allowed, error) = if write { (of_sends, Error::SendFault) } else { (of_receives, Error::ReceiveFault) };
    let Ok(end) = ipc::deadline(TIMEOUT_UTCB, allowed) else { return error.into() };
    let access = if write { fault::CODE_WRITE } else { 0 };
    fault::page_fault(owner, address, access | if present { fault::CODE_PRESENT } else { 0 });
    // sigma0's page was mapped by the kernel at once, and no thread waits; without a pager the
    // transfer has ended.
    if owner.has(Flags::TRANSFER) && waits_for_pager(owner) {
        sched::arm(owner, end);
        if active != owner {
            wait_for(active, owner);
        }
    }
    Stop::Restart
}

/// Ends the transfer in which `faulter` has a page fault: the timeout for that has expired. The
/// error names the side whose timeout it was.
pub fn timed_out(faulter: Ref<Thread>) {
    let sends = faulter.transfer.role.get() == Role::Sender;
    fail(faulter, if sends { Error::ReceiveFault } else { Error::SendFault });
}

/// Ends the transfer of a thread with an error, in whichever state the partners are; both get it.
/// In a pager's reply only the pager does.
pub fn fail(thread: Ref<Thread>, error: Error) {
    let Some((sender, receiver)) = partners(thread) else {
        leave(thread);
        return sender_ends(thread, Err(error));
    };
    finish(sender, receiver, Err(error));
    sender_ends(sender, Err(error));
}

/// Ends a transfer, except for the sender's call. The receiver gets the registers of the message
/// if it arrived, whole or cut, and the status; it is ready. A faulter is resumed if its pager's
/// reply succeeded; otherwise it stays Faulted.
fn finish(sender: Ref<Thread>, receiver: Ref<Thread>, result: Result<(), Error>) {
    leave(sender);
    match sender.transfer.role.get() {
        Role::Answerer if result.is_ok() => return ipc::resume(sender, receiver),
        Role::Answerer | Role::Alone => return,
        Role::Sender | Role::Receiver => {}
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

/// Completes the sender's call: it begins its receive phase, or is ready with the error.
pub fn sender_ends(sender: Ref<Thread>, result: Result<(), Error>) {
    match result {
        Ok(()) => ipc::sender_done(sender),
        Err(error) => ipc::fail_call(sender, Side::Send, error),
    }
}

/// Writes address and length of each string that arrived to the receiver's UTCB. Returns their
/// number.
fn tell_strings(receiver: Ref<Thread>) -> u64 {
    let pairs = receiver.utcb().into_iter().flat_map(|utcb| utcb.strings.chunks_exact(2));
    let told = pairs.zip(receiver.transfer.parts.arrived()).map(|(pair, string)| {
        pair[0].set(string.address);
        pair[1].set(string.length);
    });
    told.count() as u64
}

/// Takes a thread out of its transfer, and out of the wait for its pager. Its pager may have
/// replied without its having run since; the fault's timeout, which the other partner set, ends
/// here too.
fn leave(thread: Ref<Thread>) {
    if waits_for_pager(thread) {
        ipc::leave_queues(thread);
    }
    sched::disarm(thread);
    thread.unset(Flags::TRANSFER.union(Flags::KERNEL_MESSAGE));
}

/// Returns true if a thread in a transfer is blocked on its pager: in the queue, or for the reply.
fn waits_for_pager(thread: Ref<Thread>) -> bool {
    matches!(thread.state(), State::Sending | State::Faulted)
}

/// Makes a thread ready unless it is ready already.
pub fn ready(thread: Ref<Thread>) {
    if thread.state() != State::Ready {
        sched::wake(thread);
    }
}
