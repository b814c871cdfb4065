// SPDX-License-Identifier: BSD-2-Clause
//! Long transfers while threads of higher priority run, which see them half finished and end them
//! there.
//!
//! A watcher of higher priority wakes repeatedly until it finds a transfer in the middle; then it
//! acts on a partner. Each case repeats its transfer until that has happened.

use crate::alien::{code_load, empty_task_of, Alien};
use crate::case::{Case, Fault, Outcome};
use crate::pool::{cell, peek, poke, WINDOW};
use crate::post::{failed, Job, Post};
use crate::threads::{base_priority, helper, park, remove, remove_task, Spawn};
use crate::topics::hostile::random;
use crate::topics::strings::{item, large_area};
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::{EX_CANCEL, EX_DELETE, EX_START};
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{receive, send, sleep, Message, Timeout};
use keel_l4::{kernel_object, mapping, strings, thread, utcb, Error, Fpage, Id, Side};

pub const CASES: &[Case] = &[
    ("string-seen-half-done", string_seen),
    ("string-shares-its-slices", string_shares),
    ("string-cancelled-half-done", string_cancelled),
    ("string-partner-deleted-half-done", string_deleted),
    ("maps-seen-half-done", maps_seen),
    ("one-large-map-seen-half-done", large_map_seen),
    ("maps-cancelled-half-done", maps_cancelled),
    ("maps-sender-deleted-half-done", maps_sender_deleted),
    ("grant-seen-half-done", grant_seen),
    ("answer-seen-half-done", answer_seen),
    ("answer-cancelled-half-done", answer_cancelled),
    ("answer's-faulter-deleted-half-done", faulter_deleted),
    ("answer's-faulter-started-half-done", faulter_started),
    ("answer-to-a-alien thread", alien_answer),
    ("answer-beyond-the-quota", answer_beyond_quota),
    ("random-ends", random_ends),
];

/// What the watcher checks (the target of a string: in the middle it has its first word and not its
/// last; GRANTED: the target of a grant; otherwise a task: its mapping nodes), and what it saw.
const WATCHED: usize = 8;
const SEEN: usize = 9;
/// The action then (`EX_*`, or none), and its victim.
const STROKE: usize = 10;
const VICTIM: usize = 11;
/// The least and the most nodes that count as the middle.
const LEAST: usize = 12;
const MOST: usize = 13;

/// Nanoseconds between two checks.
const LOOK: u64 = 30_000;
/// Bytes of the long strings, and of the memory that is mapped repeatedly.
const LARGE: u64 = MAX_STRING_BYTES;
/// Log2 of a map item that consists of small pages, because it is not aligned for larger ones.
const ITEM_LOG2: u8 = 20;
/// The destination of map items.
const TARGET: u64 = WINDOW + (1 << 30);
/// Log2 of the range of a message's 32 items, and the pages in it.
const ALL_LOG2: u8 = ITEM_LOG2 + 5;
const ALL_PAGES: u64 = 1 << (ALL_LOG2 - PAGE_SHIFT as u8);
/// The address at which the same memory is mapped as small pages.
const FINE: u64 = WINDOW + (2 << 30);

fn nodes(task: Id) -> Result<u64, Failure> {
    kernel_object::account(task).map(|words| words[ACCOUNT_NODES as usize])
}

/// Watches a grant: the target's first page is marked as accessed (the mark came with the grant),
/// its last one not.
const GRANTED: u64 = TARGET;

fn is_half_done() -> bool {
    let watched = cell(WATCHED).load(SeqCst);
    if watched == GRANTED {
        let used = |page: u64| mapping::unmap(Fpage::memory(TARGET + page * PAGE_SIZE, 12, FPAGE_RWX), UNMAP_FLUSH);
        return used(0).is_ok_and(|state| state != 0) && used(ALL_PAGES - 1).is_ok_and(|state| state == 0);
    }
    if (WINDOW..WINDOW + (1 << 32)).contains(&watched) {
        return peek(watched) != 0 && peek(watched + LARGE - 8) == 0;
    }
    let middle = cell(LEAST).load(SeqCst)..cell(MOST).load(SeqCst);
    nodes(Id(watched)).is_ok_and(|count| middle.contains(&count))
}

extern "C" fn watcher(_: u64) -> ! {
    while !is_half_done() {
        sleep(LOOK);
    }
    cell(SEEN).store(1, SeqCst);
    let stroke = cell(STROKE).load(SeqCst);
    if stroke != 0 {
        let done = thread::act(Id(cell(VICTIM).load(SeqCst)), stroke);
        cell(SEEN).store(if done.is_ok() { 1 } else { 2 }, SeqCst);
    }
    park()
}

/// Starts a watcher with the victim `victim`.
fn watch(watched: u64, stroke: u64, victim: Id) -> Result<Id, Failure> {
    let words = [(WATCHED, watched), (SEEN, 0), (STROKE, stroke), (VICTIM, victim.0)];
    words.iter().for_each(|(number, word)| cell(*number).store(*word, SeqCst));
    let id = Spawn::light(watcher, 0).create()?;
    thread::set_priority(id, base_priority() + 1)?;
    thread::act(id, EX_START)
}

/// The same for the number of mapping nodes; `pages` of them will be created in `task`.
fn watch_nodes(task: Id, pages: u64, stroke: u64, victim: Id) -> Result<Id, Failure> {
    let before = nodes(task)?;
    cell(LEAST).store(before + pages / 8, SeqCst);
    cell(MOST).store(before + pages * 7 / 8, SeqCst);
    watch(task.0, stroke, victim)
}

fn seen() -> bool {
    cell(SEEN).load(SeqCst) != 0
}

/// Two areas for long strings; all of the first is filled.
fn areas() -> Result<(u64, u64), Fault> {
    let (from, to) = (large_area(0)?, large_area(1)?);
    for at in (from..from + LARGE).step_by(8) {
        // SAFETY: memory that belongs to the case.
        unsafe { poke(at, !at) };
    }
    Ok((from, to))
}

/// Begins a transfer of a long string; the receiver waits first, or the sender does.
fn begin(areas: (u64, u64), queued: bool) -> Result<(Post, Post), Fault> {
    for at in [areas.1, areas.1 + LARGE - 8] {
        // SAFETY: memory that belongs to the case.
        unsafe { poke(at, 0) };
    }
    let (sender, receiver) = (Post::create(0)?, Post::create(1)?);
    for post in [sender, receiver] {
        thread::schedule(post.id, SCHEDULE_SLICE, 0, SLICE)?;
    }
    let sends = Job::send(receiver.id, &[item(areas.0, LARGE)]);
    let receives = Job::receive(sender.id, &[item(areas.1, LARGE)]);
    if queued {
        sender.start_and_wait(sends)?;
        receiver.start(receives)?;
    } else {
        receiver.start_and_wait(receives)?;
        sender.start(sends)?;
    }
    Ok((sender, receiver))
}

fn remove_both(sender: Post, receiver: Post) {
    for post in [sender, receiver] {
        // The watcher may have deleted one of them.
        let _ = remove(post.id);
    }
    crate::pool::reset_stacks();
}

fn string_seen() -> Outcome {
    let areas = areas()?;
    for queued in [false, true] {
        let watcher = watch(areas.1, 0, Id::NIL)?;
        while !seen() {
            let (sender, receiver) = begin(areas, queued)?;
            same!("both statuses", (sender.end()?.status, receiver.end()?.status), (Ok(()), Ok(())));
            remove_both(sender, receiver);
        }
        remove(watcher)?;
        let wrong = (0..LARGE).step_by(8).find(|n| peek(areas.1 + n) != !(areas.0 + n));
        same!("a word that was not copied", wrong, None);
    }
    Ok(())
}

/// Counts while a string is half finished.
extern "C" fn sharer(_: u64) -> ! {
    loop {
        if is_half_done() {
            cell(SEEN).fetch_add(1, SeqCst);
        }
    }
}

/// A time slice in ns: shorter than a long string takes.
const SLICE: u64 = 100_000;

fn string_shares() -> Outcome {
    let areas = areas()?;
    cell(WATCHED).store(areas.1, SeqCst);
    let sharer = Spawn::light(sharer, 0).create()?;
    thread::schedule(sharer, SCHEDULE_SLICE, 0, SLICE)?;
    thread::act(sharer, EX_START)?;
    while !seen() {
        let (sender, receiver) = begin(areas, false)?;
        same!("both statuses", (sender.end()?.status, receiver.end()?.status), (Ok(()), Ok(())));
        remove_both(sender, receiver);
    }
    remove(sharer)?;
    Ok(())
}

/// Acts on one of the partners of a long string in the middle, in all ways; `check` gets both
/// afterwards.
fn strike_string(stroke: u64, check: impl Fn(Post, Post, bool) -> Outcome) -> Outcome {
    let areas = areas()?;
    for way in 0..4 {
        let (queued, strikes_sender) = (way & 1 != 0, way & 2 != 0);
        loop {
            let (sender, receiver) = begin(areas, queued)?;
            let victim = if strikes_sender { sender.id } else { receiver.id };
            let watcher = watch(areas.1, stroke, victim)?;
            let other = if strikes_sender { receiver } else { sender };
            let status = other.end()?.status;
            remove(watcher)?;
            if seen() {
                same!("the stroke", cell(SEEN).load(SeqCst), 1);
                let side = if strikes_sender { Side::Receive } else { Side::Send };
                same!("the other's status", status, failed(side, Error::Aborted));
                check(sender, receiver, strikes_sender)?;
                remove_both(sender, receiver);
                break;
            }
            remove_both(sender, receiver);
        }
    }
    Ok(())
}

fn string_cancelled() -> Outcome {
    strike_string(EX_CANCEL, |sender, receiver, struck_sender| {
        let (victim, side) = if struck_sender { (sender, Side::Send) } else { (receiver, Side::Receive) };
        same!("the victim's status", victim.end()?.status, failed(side, Error::Aborted));
        Ok(())
    })
}

fn string_deleted() -> Outcome {
    strike_string(EX_DELETE, |sender, receiver, struck_sender| {
        let victim = if struck_sender { sender } else { receiver };
        refused!("the victim", receive(victim.id, Timeout::Zero), Receive NoPartner);
        Ok(())
    })
}

/// The memory that is mapped, and the shape of the message: 0: 32 items, 1: one item for all, 2: a
/// grant of it.
const SHAPE: usize = 14;
/// The sender's result: 1 + 0x100 * side + error, or 1.
const SENT: usize = 15;

/// The message with the items of that shape, for the first address `target`.
fn items(target: u64) -> Message {
    let all = Fpage::memory(FINE, ALL_LOG2, FPAGE_RWX).0;
    match cell(SHAPE).load(SeqCst) {
        0 => Message::label(0).with_maps(&core::array::from_fn::<_, 32, _>(|n| {
            let (place, memory) = ((n as u64) << ITEM_LOG2, (n as u64) << ITEM_LOG2 & (LARGE - 1));
            MapItem { send_base: target + place, fpage: Fpage::memory(WINDOW + memory, ITEM_LOG2, FPAGE_RWX).0 }
        })),
        1 => Message::label(0).with_maps(&[MapItem { send_base: target, fpage: all }]),
        _ => Message::label(0).with_maps(&[MapItem { send_base: target | 1, fpage: all }]),
    }
}

extern "C" fn mapper(to: u64) -> ! {
    let sent = send(Id(to), items(TARGET), Timeout::Never);
    let word = sent.map_or_else(|failure| 0x100 * failure.side as u64 + failure.error as u64, |()| 0);
    cell(SENT).store(1 + word, SeqCst);
    park()
}

fn sent() -> u64 {
    while cell(SENT).load(SeqCst) == 0 {
        sleep(LOOK);
    }
    cell(SENT).load(SeqCst) - 1
}

fn target() -> Fpage {
    Fpage::memory(TARGET, ALL_LOG2, FPAGE_RWX)
}

fn clear(fpage: Fpage) -> Outcome {
    mapping::unmap(fpage, UNMAP_RIGHTS | UNMAP_FLUSH)?;
    Ok(())
}

/// Lets a helper send the items of a shape to the worker; returns the worker's result.
fn map_all(shape: u64, stroke: u64, victim: Option<Id>) -> Result<Result<(), Failure>, Fault> {
    if shape != 0 {
        // The same memory in small pages first.
        map_to(FINE)?;
    }
    cell(SHAPE).store(shape, SeqCst);
    cell(SENT).store(0, SeqCst);
    let sender = helper(mapper, utcb::my_id().0)?;
    // The nodes of a grant are those of its source.
    let pages = if shape == 2 { 0 } else { ALL_PAGES };
    let watcher = watch_nodes(Id::NIL, pages, stroke, victim.unwrap_or(sender))?;
    utcb::set_receive_window(target());
    let got = receive(sender, Timeout::Never);
    utcb::set_receive_window(Fpage::NIL);
    remove(watcher)?;
    Ok(got.map(|_| ()))
}

/// Maps the large memory in small pages to `place`.
fn map_to(place: u64) -> Outcome {
    cell(SHAPE).store(0, SeqCst);
    let sender = helper(mapper, utcb::my_id().0)?;
    utcb::set_receive_window(Fpage::memory(place, ALL_LOG2, FPAGE_RWX));
    let got = receive(sender, Timeout::Never);
    utcb::set_receive_window(Fpage::NIL);
    got?;
    remove(sender)?;
    Ok(())
}

/// Memory that is mapped in every case, filled with its own offsets.
fn memory() -> Outcome {
    large_area(0)?;
    // SAFETY: memory that belongs to the case.
    (0..LARGE).step_by(4096).for_each(|offset| unsafe { poke(WINDOW + offset, offset) });
    Ok(())
}

/// Whether every page of an area has the right content.
fn is_mapped(place: u64) -> Outcome {
    let wrong = (0..1 << ALL_LOG2).step_by(4096).find(|offset| peek(place + offset) != offset & (LARGE - 1));
    same!("a page that was not mapped", wrong, None);
    Ok(())
}

fn see_maps(shape: u64) -> Outcome {
    memory()?;
    let before = nodes(Id::NIL)?;
    loop {
        same!("the receiver's status", map_all(shape, 0, None)?, Ok(()));
        same!("the sender's status", sent(), 0);
        is_mapped(TARGET)?;
        if seen() {
            break;
        }
        clear(target())?;
        crate::pool::reset_stacks();
    }
    clear(target())?;
    clear(Fpage::memory(FINE, ALL_LOG2, FPAGE_RWX))?;
    same!("mapping nodes, before and after", nodes(Id::NIL)?, before);
    Ok(())
}

fn maps_seen() -> Outcome {
    see_maps(0)
}

fn large_map_seen() -> Outcome {
    see_maps(1)
}

/// Acts on a sender of maps, or on the worker itself, in the middle; then repeats the transfer to
/// its end.
fn strike_maps(stroke: u64, strikes_worker: bool) -> Outcome {
    memory()?;
    let before = nodes(Id::NIL)?;
    loop {
        let got = map_all(0, stroke, strikes_worker.then(utcb::my_id))?;
        if seen() {
            same!("the stroke", cell(SEEN).load(SeqCst), 1);
            same!("the receiver's status", got, failed(Side::Receive, Error::Aborted));
            if stroke == EX_CANCEL {
                let expected = 0x100 * Side::Send as u64 + Error::Aborted as u64;
                same!("the sender's status", sent(), expected);
            }
            break;
        }
        clear(target())?;
        crate::pool::reset_stacks();
    }
    map_to(TARGET)?;
    is_mapped(TARGET)?;
    clear(target())?;
    same!("mapping nodes, before and after", nodes(Id::NIL)?, before);
    Ok(())
}

fn maps_cancelled() -> Outcome {
    strike_maps(EX_CANCEL, false)?;
    clear(Fpage::memory(WINDOW, LARGE.ilog2() as u8, FPAGE_RWX))?;
    crate::pool::reset_stacks();
    strike_maps(EX_CANCEL, true)
}

fn maps_sender_deleted() -> Outcome {
    strike_maps(EX_DELETE, false)
}

fn grant_seen() -> Outcome {
    memory()?;
    loop {
        map_to(FINE)?;
        // A grant takes the accessed mark along, so that the watcher sees it.
        is_mapped(FINE)?;
        cell(SHAPE).store(2, SeqCst);
        cell(SENT).store(0, SeqCst);
        let sender = helper(mapper, utcb::my_id().0)?;
        let watcher = watch(GRANTED, 0, Id::NIL)?;
        utcb::set_receive_window(target());
        let got = receive(sender, Timeout::Never);
        utcb::set_receive_window(Fpage::NIL);
        remove(watcher)?;
        same!("both statuses", (got.map(|_| ()), sent()), (Ok(()), 0));
        is_mapped(TARGET)?;
        clear(target())?;
        crate::pool::reset_stacks();
        if seen() {
            return Ok(());
        }
    }
}

extern "C" fn reader(address: u64) -> ! {
    cell(16).store(1 + peek(address), SeqCst);
    park()
}

/// Lets a thread fault at the target, answers with all items while the watcher checks, and returns
/// the result of the answer.
fn answer_all(stroke: u64, victim: Option<Id>) -> Result<(Id, Result<(), Failure>), Fault> {
    cell(16).store(0, SeqCst);
    cell(SHAPE).store(0, SeqCst);
    let faulter = Spawn::watched(reader, TARGET).start()?;
    receive(faulter, Timeout::Never)?;
    let watcher = watch_nodes(Id::NIL, ALL_PAGES, stroke, victim.unwrap_or(faulter))?;
    let answered = send(faulter, items(TARGET), Timeout::Zero);
    remove(watcher)?;
    Ok((faulter, answered))
}

/// Answers until the watcher has acted. Returns the faulter and the result of the answer.
fn struck_answer(stroke: u64, strikes_worker: bool) -> Result<(Id, Result<(), Failure>), Fault> {
    memory()?;
    loop {
        let (faulter, answered) = answer_all(stroke, strikes_worker.then(utcb::my_id))?;
        if seen() {
            same!("the stroke", cell(SEEN).load(SeqCst), 1);
            return Ok((faulter, answered));
        }
        remove(faulter)?;
        clear(target())?;
        crate::pool::reset_stacks();
    }
}

fn state_of(id: Id) -> Result<u64, Failure> {
    thread::schedule(id, 0, 0, 0).map(|told| told.state)
}

/// The faulter has read the first word of its page.
fn went_on() -> Outcome {
    while cell(16).load(SeqCst) == 0 {
        sleep(LOOK);
    }
    same!("the word that it read", cell(16).load(SeqCst), 1);
    Ok(())
}

fn answer_seen() -> Outcome {
    let (_, answered) = struck_answer(0, false)?;
    same!("the answer's status", answered, Ok(()));
    went_on()?;
    is_mapped(TARGET)
}

fn answer_cancelled() -> Outcome {
    let (faulter, answered) = struck_answer(EX_CANCEL, true)?;
    same!("the answer's status", answered, failed(Side::Send, Error::Aborted));
    same!("the faulter's state", state_of(faulter)?, STATE_FAULTED);
    send(faulter, items(TARGET), Timeout::Zero)?;
    went_on()?;
    is_mapped(TARGET)
}

fn faulter_deleted() -> Outcome {
    let (faulter, answered) = struck_answer(EX_DELETE, false)?;
    same!("the answer's status", answered, failed(Side::Send, Error::Aborted));
    refused!("the faulter", receive(faulter, Timeout::Zero), Receive NoPartner);
    Ok(())
}

fn faulter_started() -> Outcome {
    let (_, answered) = struck_answer(EX_START, false)?;
    same!("the answer's status", answered, failed(Side::Send, Error::Aborted));
    went_on()
}

/// Items that fit into the small account of an alien thread's task.
const ALIEN_ITEMS: u64 = 8;

fn alien_items(count: u64) -> Message {
    let message = items(TARGET);
    Message { tag: message.tag.with_maps(count), ..message }
}

fn alien_answer() -> Outcome {
    memory()?;
    cell(SHAPE).store(0, SeqCst);
    loop {
        let alien = Alien::new(code_load, |frame| frame.di = TARGET)?;
        let fault = alien.serve(alien.start_raw()?)?;
        same!("the fault", fault.words[0], TARGET);
        let pages = ALIEN_ITEMS << (ITEM_LOG2 - PAGE_SHIFT as u8);
        let watcher = watch_nodes(alien.task, pages, 0, Id::NIL)?;
        send(alien.id, alien_items(ALIEN_ITEMS), Timeout::Zero)?;
        let next = alien.serve(receive(alien.id, Timeout::Never)?)?;
        same!("it went on to its call", next.tag.kind(), KIND_SYSCALL);
        remove(watcher)?;
        remove_task(alien.number)?;
        // On a slow host the watcher may look in vain more often than there are frames.
        crate::pool::reset_stacks();
        crate::pool::reset_tasks();
        if seen() {
            return Ok(());
        }
    }
}

fn answer_beyond_quota() -> Outcome {
    memory()?;
    cell(SHAPE).store(0, SeqCst);
    let before = kernel_object::account(Id::NIL)?[ACCOUNT_USED as usize];
    // The page tables of all items, without their mapping nodes.
    let (task, number) = empty_task_of((ALL_PAGES >> 9) + 16)?;
    let alien = Alien::in_task(task, number, code_load, |frame| frame.di = TARGET)?;
    alien.serve(alien.start_raw()?)?;
    refused!("all items", send(alien.id, alien_items(32), Timeout::Zero), Send NoMemory);
    same!("its state", state_of(alien.id)?, STATE_FAULTED);
    holds!("many of its pages mapped", nodes(alien.task)? > 256);
    // The page itself is mapped, so an empty answer suffices.
    same!("it resumes and calls", alien.resume()?.tag.kind(), KIND_SYSCALL);
    remove_task(alien.number)?;
    same!("pages used, before and after", kernel_object::account(Id::NIL)?[ACCOUNT_USED as usize], before);
    Ok(())
}

/// Pairs in `random_ends`.
const ROUNDS: u64 = 25;

/// Sends strings and maps to its argument without end, or receives them from it.
extern "C" fn restless(argument: u64) -> ! {
    let partner = Id(cell(17 + (argument & 1) as usize).load(SeqCst));
    strings::set_fault_timeouts(Timeout::After(100_000), Timeout::After(100_000));
    utcb::set_receive_window(target());
    // SAFETY: the half of the large memory that is not sent.
    unsafe { strings::offer(&[item(WINDOW + LARGE / 2, LARGE / 2)]) };
    let string = [item(WINDOW, LARGE / 4)];
    loop {
        let _ = match argument & 1 {
            0 => send(partner, items(TARGET).with_strings(&string), Timeout::Never),
            _ => receive(partner, Timeout::Never).map(|_| ()),
        };
    }
}

fn random_ends() -> Outcome {
    memory()?;
    cell(SHAPE).store(0, SeqCst);
    let before = (nodes(Id::NIL)?, kernel_object::account(Id::NIL)?[ACCOUNT_USED as usize]);
    let mut state = crate::pool::seed(0x5_7106);
    let start = |number: u64| -> Result<Id, Failure> {
        let id = Spawn { pager: Id::NIL, ..Spawn::new(restless, number) }.create()?;
        cell(17 + (number & 1 ^ 1) as usize).store(id.0, SeqCst);
        Ok(id)
    };
    for _ in 0..ROUNDS {
        let pair = [start(0)?, start(1)?];
        thread::act(pair[0], EX_START)?;
        thread::act(pair[1], EX_START)?;
        for _ in 0..3 {
            sleep(random(&mut state) % 400_000);
            let victim = pair[(random(&mut state) % 2) as usize];
            thread::act(victim, EX_CANCEL)?;
        }
        let first = (random(&mut state) % 2) as usize;
        remove(pair[first])?;
        sleep(random(&mut state) % 100_000);
        remove(pair[1 - first])?;
        crate::pool::reset_stacks();
    }
    clear(target())?;
    let after = (nodes(Id::NIL)?, kernel_object::account(Id::NIL)?[ACCOUNT_USED as usize]);
    same!("mapping nodes and pages, before and after", after, before);
    Ok(())
}
