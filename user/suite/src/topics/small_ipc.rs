// SPDX-License-Identifier: BSD-2-Clause
//! Calls of 32-bit threads by `int 0x80`: messages between small tasks, and with 64-bit threads.

use crate::case::{Case, Fault, Outcome};
use crate::pool::{cell, page, peek, poke, PAGE};
use crate::small::*;
use crate::small_code::*;
use crate::threads::{helper, park, remove, Spawn};
use crate::topics::strings::{bytes, item};
use crate::topics::window::slot;
use crate::{holds, same};
use core::mem::offset_of;
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{FPAGE_READ, FPAGE_RWX};
use keel_l4::abi::memory::*;
use keel_l4::abi::programs::*;
use keel_l4::abi::{ExRegs, MapItem, Status, Utcb};
use keel_l4::ipc::{call, notify, receive, send, Message, Received, Timeout};
use keel_l4::kip::now;
use keel_l4::{strings, thread, utcb, Error, Fpage, Id, Side, Tag};

pub const CASES: &[Case] = &[
    ("words-and-label", words_and_label),
    ("words-of-64-bits", wide_words),
    ("words-beyond-the-registers", words_beyond),
    ("all-words", all_words),
    ("open-wait", open_wait),
    ("closed-wait", closed_wait),
    ("reply-and-wait", reply_and_wait),
    ("small-to-small", small_to_small),
    ("with-all-of-its-own-space", all_of_own_space),
    ("from-a-home", from_a_home),
    ("timeout-that-passes", timeout_passes),
    ("timeout-of-zero", timeout_zero),
    ("cancelled", cancelled),
    ("partner-that-there-is-not", no_partner),
    ("calls-that-are-none", no_calls),
    ("id-nearest", id_nearest),
    ("yields", yields),
    ("reads-its-schedule", reads_schedule),
    ("sets-no-reach", sets_no_reach),
    ("makes-a-thread", makes_thread),
    ("makes-no-task", makes_no_task),
    ("notified", notified),
    ("notifies", notifies),
    ("maps-a-page", maps_page),
    ("gets-a-page", gets_page),
    ("grants-a-page", grants_page),
    ("maps-to-another-window", maps_to_another),
    ("unmaps-its-page", unmaps_page),
    ("takes-a-page-back", takes_back),
    ("sends-a-string", sends_string),
    ("receives-a-string", receives_string),
    ("string-between-windows-with-faults", string_between),
    ("string-from-beyond-its-window", string_from_beyond),
    ("int-0x80-of-64-bits", of_64_bits),
];

const CALL: u64 = CALL_IPC | IPC_SEND | IPC_RECEIVE;
const WAIT: u64 = CALL_IPC | IPC_RECEIVE | IPC_OPEN;

/// A status as 32-bit code has it.
fn status(side: Side, error: Error) -> i32 {
    Status::error(side, error).0 as i32
}

/// The worker's id.
fn me() -> Id {
    utcb::my_id()
}

/// Has a small thread send a message to the worker, and returns it.
fn message(small: &Small, call: &Call) -> Result<Received, Fault> {
    small.start(call)?;
    small.serve()
}

/// Waits for the report of a thread that made a call.
fn end_of(small: &Small) -> Result<End, Fault> {
    let got = small.serve()?;
    small.expect_report(&got)?;
    Ok(small.end())
}

/// Answers a call of a small thread, and returns what came of that there.
fn answered(small: &Small, answer: Message) -> Result<End, Fault> {
    send(small.thread, answer, Timeout::Zero)?;
    end_of(small)
}

fn words_and_label() -> Outcome {
    let small = Small::new(USUAL)?;
    let sent = Call { ax: CALL, tag: 3, label: 0x8765_4321, to: me(), words: [1, 0xffff_fffe, 3, 0, 0, 0] };
    let got = message(&small, &sent)?;
    same!("sender", got.from, small.thread);
    same!("label, words", (got.tag.label(), got.tag.words()), (0x8765_4321, 3));
    same!("words", got.words[..3], sent.words[..3]);
    let end = answered(&small, Message::new(0xfedc_ba98, &[7, 8, 0xffff_ffff]))?;
    same!("status, sender", (end.status, end.from), (0, me()));
    same!("tag, label", (end.tag, end.label), (3, 0xfedc_ba98));
    same!("words", end.words[..3], [7, 8, 0xffff_ffff]);
    Ok(())
}

fn wide_words() -> Outcome {
    let small = Small::new(USUAL)?;
    let words = [1, 2, 3, u64::MAX, 0x1234_5678_9abc_def0, 1 << 63];
    let got = message(&small, &Call { ax: CALL, tag: 6, to: me(), words, ..Call::default() })?;
    same!("words", got.words, words);
    let end = answered(&small, Message::new(0, &[1 << 32 | 5, u64::MAX, 6 << 60, 1 << 40, u64::MAX - 1, 0x77 << 56]))?;
    same!("words", end.words, [5, 0xffff_ffff, 0, 1 << 40, u64::MAX - 1, 0x77 << 56]);
    Ok(())
}

fn words_beyond() -> Outcome {
    const WORDS: usize = 20;
    let small = Small::new(USUAL)?;
    let place = |number: usize| offset_of!(Utcb, words) + 8 * number;
    for number in 6..WORDS {
        small.set_utcb(place(number), (number as u64) << 33)?;
    }
    let got = message(&small, &Call { ax: CALL, tag: WORDS as u32, to: me(), ..Call::default() })?;
    same!("words", got.tag.words(), WORDS as u64);
    holds!("each of them", (6..WORDS).all(|number| utcb::word(number) == (number as u64) << 33));
    (6..WORDS + 4).for_each(|number| utcb::set_word(number, number as u64 * 3));
    answered(&small, Message { tag: Tag::new(0, WORDS as u64 + 4), words: [0; 6] })?;
    for number in 6..WORDS + 4 {
        same!("a word", small.utcb_word(place(number))?, number as u64 * 3);
    }
    Ok(())
}

fn all_words() -> Outcome {
    let small = Small::new(USUAL)?;
    let words = [9, 8, 7, 6, 5, 4];
    let got = message(&small, &Call { ax: CALL, tag: MAX_WORDS as u32, to: me(), words, ..Call::default() })?;
    same!("words", (got.tag.words(), got.words), (MAX_WORDS, words));
    answered(&small, Message::label(0))?;
    let end = small.call(&Call { ax: CALL, tag: MAX_WORDS as u32 + 1, to: me(), ..Call::default() })?;
    same!("one more", end.status, status(Side::Send, Error::Invalid));
    Ok(())
}

fn open_wait() -> Outcome {
    let small = Small::new(USUAL)?;
    small.start(&Call { ax: WAIT, ..Call::default() })?;
    send(small.thread, Message::new(5, &[11, 12]), Timeout::Never)?;
    let end = end_of(&small)?;
    same!("sender, label, word", (end.status, end.from, end.label, end.words[0]), (0, me(), 5, 11));
    Ok(())
}

/// Sends its argument to the thread in cell 31.
extern "C" fn sender(word: u64) -> ! {
    let _ = send(Id(cell(31).load(SeqCst)), Message::new(0, &[word]), Timeout::Never);
    park()
}

fn closed_wait() -> Outcome {
    let small = Small::new(USUAL)?;
    cell(31).store(small.thread.0, SeqCst);
    small.start(&Call { ax: CALL_IPC | IPC_RECEIVE, to: me(), ..Call::default() })?;
    let other = helper(sender, 3)?;
    crate::threads::pause(2_000_000);
    send(small.thread, Message::new(0, &[4]), Timeout::Never)?;
    let end = end_of(&small)?;
    same!("sender, word", (end.from, end.words[0]), (me(), 4));
    let end = small.call(&Call { ax: CALL_IPC | IPC_RECEIVE, to: other, ..Call::default() })?;
    same!("the other's", (end.from, end.words[0]), (other, 3));
    Ok(())
}

/// Checks that a thread that runs `small_echo` answers.
fn echoes(small: &Small, rounds: u64) -> Outcome {
    small.tell(small_echo, 0, 0)?;
    for round in 0..rounds {
        let wide = round << 40 | 1;
        let got = call(small.thread, Message::new(round as u32, &[round, 2 * round, 3, wide, wide + 1, wide + 2]))?;
        same!("label, words", (got.tag.label(), got.tag.words()), (round as u32, 6));
        same!("words", got.words, [round + 1, 2 * round, 3, wide, wide + 1, wide + 2]);
    }
    Ok(())
}

fn reply_and_wait() -> Outcome {
    echoes(&Small::new(USUAL)?, 100)
}

fn all_of_own_space() -> Outcome {
    echoes(&Small::new(SMALL_ALL)?, 100)
}

fn from_a_home() -> Outcome {
    let (home, _) = home()?;
    echoes(&Small::hosted(USUAL, home)?, 100)
}

fn small_to_small() -> Outcome {
    let (client, server) = (Small::new(USUAL)?, Small::new(WINDOW + SIZE | LOG2)?);
    server.tell(small_echo, 0, 0)?;
    for round in 0..50 {
        let words = [round, 5, 6, 1 << 50 | round, 8, 9];
        let end = client.call(&Call { ax: CALL, tag: 6, label: 0x1_0000_0000 - 1, to: server.thread, words })?;
        same!("status, sender", (end.status, end.from), (0, server.thread));
        same!("tag, label", (end.tag, end.label), (6, 0xffff_ffff));
        same!("words", end.words, [round + 1, 5, 6, 1 << 50 | round, 8, 9]);
        same!("their reach", (client.reach_now()?, server.reach_now()?), (USUAL, WINDOW + SIZE | LOG2));
    }
    Ok(())
}

fn timeout_passes() -> Outcome {
    const TIME: u64 = 3_000_000;
    let small = Small::new(USUAL)?;
    small.set_utcb(offset_of!(Utcb, receive_timeout), TIME)?;
    let begin = now();
    let end = small.call(&Call { ax: WAIT | IPC_RECEIVE_UTCB, ..Call::default() })?;
    same!("status", end.status, status(Side::Receive, Error::Timeout));
    holds!("no earlier", now() >= begin + TIME);
    Ok(())
}

fn timeout_zero() -> Outcome {
    let (small, other) = (Small::new(USUAL)?, helper(idle_without_a_call, 0)?);
    let end = small.call(&Call { ax: WAIT | IPC_RECEIVE_ZERO, ..Call::default() })?;
    same!("nobody sends", end.status, status(Side::Receive, Error::Timeout));
    let end = small.call(&Call { ax: CALL_IPC | IPC_SEND | IPC_SEND_ZERO, to: other, ..Call::default() })?;
    same!("nobody waits", end.status, status(Side::Send, Error::Timeout));
    remove(other)?;
    Ok(())
}

extern "C" fn idle_without_a_call(_: u64) -> ! {
    loop {
        let _ = thread::switch(Id::NIL);
    }
}

fn cancelled() -> Outcome {
    let small = Small::new(USUAL)?;
    small.start(&Call { ax: WAIT, ..Call::default() })?;
    crate::threads::pause(1_000_000);
    thread::act(small.thread, EX_CANCEL)?;
    same!("status", end_of(&small)?.status, status(Side::Receive, Error::Cancelled));
    Ok(())
}

fn no_partner() -> Outcome {
    let small = Small::new(USUAL)?;
    let nobody = Id::thread(1, small.number + 1, 3, small.thread.nesting());
    for (to, side, ax) in [
        (nobody, Side::Send, CALL_IPC | IPC_SEND),
        (nobody, Side::Receive, CALL_IPC | IPC_RECEIVE),
        (Id::INVALID, Side::Send, CALL),
    ] {
        let end = small.call(&Call { ax, to, ..Call::default() })?;
        same!("status", end.status, status(side, Error::NoPartner));
    }
    Ok(())
}

fn no_calls() -> Outcome {
    let small = Small::new(USUAL)?;
    for ax in [CALL_TASK_NEW + 1, 15, CALL_IPC, CALL_IPC | 1 << 14 | IPC_RECEIVE, CALL_IPC | 1 << 31 | IPC_RECEIVE] {
        same!("status", small.call(&Call { ax, ..Call::default() })?.status, status(Side::Call, Error::Invalid));
    }
    same!("its reach", small.reach_now()?, USUAL);
    Ok(())
}

fn id_nearest() -> Outcome {
    let small = Small::new(USUAL)?;
    let sibling = Small::new(WINDOW + SIZE | LOG2)?;
    for (to, nearest, relation) in [
        (small.thread, small.thread, NEAREST_SAME_CLAN),
        (sibling.thread, sibling.thread, NEAREST_SAME_CLAN),
        (me(), me(), NEAREST_SAME_CLAN),
    ] {
        let end = small.call(&Call { ax: CALL_ID_NEAREST, to, ..Call::default() })?;
        same!("status, nearest, relation", (end.status, end.from, end.tag), (0, nearest, relation as u32));
    }
    let end = small.call(&Call { ax: CALL_ID_NEAREST, to: Id::ROOT, ..Call::default() })?;
    same!("status, relation", (end.status, end.from.task(), end.tag), (0, me().task(), NEAREST_OUTER as u32));
    let end = small.call(&Call { ax: CALL_ID_NEAREST, to: Id::INVALID, ..Call::default() })?;
    same!("nobody", end.status, status(Side::Call, Error::NoPartner));
    Ok(())
}

fn yields() -> Outcome {
    let small = Small::new(USUAL)?;
    same!("status", small.call(&Call { ax: CALL_THREAD_SWITCH, ..Call::default() })?.status, 0);
    let end = small.call(&Call { ax: CALL_THREAD_SWITCH, to: Id::INVALID, ..Call::default() })?;
    same!("to nobody", end.status, status(Side::Call, Error::NoPartner));
    Ok(())
}

/// Reads or sets a small thread's schedule from 32-bit code.
fn schedule(small: &Small, mask: u64, words: [u64; 6]) -> Result<End, Fault> {
    small.call(&Call { ax: CALL_THREAD_SCHEDULE, tag: mask as u32, to: small.thread, words, ..Call::default() })
}

fn reads_schedule() -> Outcome {
    let small = Small::new(USUAL)?;
    let end = schedule(&small, 0, [0; 6])?;
    same!("status", end.status, 0);
    same!("reach, which no thread is told of its own task", end.words[4], 0);
    same!("priority", end.from.0, thread::schedule(small.thread, 0, 0, 0)?.priority);
    Ok(())
}

fn sets_no_reach() -> Outcome {
    let small = Small::new(USUAL)?;
    for reach in [SMALL_NONE, SMALL_ALL, USUAL, WINDOW + SIZE | LOG2, 0x8000_0000 | 30] {
        let end = schedule(&small, SCHEDULE_SMALL, [0, 0, 0, 0, reach, 0])?;
        same!("status", end.status, status(Side::Call, Error::Denied));
    }
    same!("its reach", small.reach_now()?, USUAL);
    Ok(())
}

/// A small thread makes a second thread of its task, which reaches all at first, and starts it when
/// its chief has given it the window.
fn makes_thread() -> Outcome {
    let mut small = Small::new(USUAL)?;
    let at = BLOCKS + 2 * PAGE;
    let block = small.give_new(at, 0);
    // SAFETY: the page is the new thread's.
    unsafe { poke(block + BLOCK_CHIEF, me().0) };
    let mut record = ExRegs::zeroed();
    (record.ip, record.sp) = (operation(small_monitor), at + PAGE - 16);
    (record.pager, record.handler) = (me().0, me().0);
    let place = offset_of!(Utcb, record);
    for (offset, value) in [
        (offset_of!(ExRegs, ip), record.ip),
        (offset_of!(ExRegs, sp), record.sp),
        (offset_of!(ExRegs, pager), record.pager),
        (offset_of!(ExRegs, handler), record.handler),
    ] {
        small.set_utcb(place + offset, value)?;
    }
    const NUMBER: u16 = 5;
    let (ax, to) = (CALL_LTHREAD_EX_REGS, thread::lthread(small.task, NUMBER));
    let create = (EX_CREATE | EX_IP | EX_SP | EX_PAGER | EX_HANDLER) as u32;
    let end = small.call(&Call { ax, tag: create, to, ..Call::default() })?;
    same!("status, number", (end.status, end.from.lthread()), (0, NUMBER as u32 as _));
    let made = end.from;
    same!("its reach", thread::reach(made)?, SMALL_NONE);
    thread::set_reach(made, USUAL, Id::NIL)?;
    small.call(&Call { ax, tag: EX_START as u32, to: made, ..Call::default() })?;
    let mut second = small;
    (second.thread, second.block) = (made, block);
    let report = second.serve()?;
    second.expect_report(&report)?;
    second.give_new(SIZE - PAGE, 0x77);
    same!("it is in the window", second.ask(small_load, SIZE - 8, 0)?, 0x77);
    let end = small.call(&Call { ax, tag: EX_DELETE as u32, to: made, ..Call::default() })?;
    same!("deleted", (end.status, thread::reach(made).is_err()), (0, true));
    check()
}

fn makes_no_task() -> Outcome {
    let small = Small::new(USUAL)?;
    let to = Id::thread(0, small.number, 0, 0);
    let end = small.call(&Call { ax: CALL_TASK_NEW, tag: 1, to, ..Call::default() })?;
    same!("status", end.status, status(Side::Call, Error::Denied));
    Ok(())
}

fn notified() -> Outcome {
    let small = Small::new(USUAL)?;
    small.start(&Call { ax: WAIT, ..Call::default() })?;
    notify(small.thread, 0x8000_0001)?;
    let end = end_of(&small)?;
    same!("kind, word", (end.tag as u64 >> TAG_KIND_SHIFT & TAG_KIND_MASK, end.words[0]), (KIND_NOTIFY, 0x8000_0001));
    Ok(())
}

fn notifies() -> Outcome {
    let small = Small::new(USUAL)?;
    let mut other = small;
    other.add()?;
    other.begin()?;
    let words = [0x8000_0010, 0, 0, 0, 0, 0];
    let notify = Call { ax: CALL_IPC | IPC_SEND | IPC_NOTIFY, tag: 1, words, ..Call::default() };
    // Only in its own task and clan.
    same!("its chief", small.call(&Call { to: me(), ..notify })?.status, status(Side::Send, Error::Denied));
    other.start(&Call { ax: WAIT, ..Call::default() })?;
    small.start(&Call { to: other.thread, ..notify })?;
    for _ in 0..2 {
        same!("a report", serve(&[&small, &other])?.tag.kind(), KIND_USER);
    }
    let end = other.end();
    same!("what came", (small.end().status, end.status, end.words[0]), (0, 0, 0x8000_0010));
    Ok(())
}

/// Puts a map item into a small thread's UTCB.
fn set_item(small: &Small, send_base: u64, fpage: Fpage) -> Outcome {
    small.set_utcb(offset_of!(Utcb, maps), send_base)?;
    small.set_utcb(offset_of!(Utcb, maps) + 8, fpage.0)
}

/// A tag with one map item.
const ONE_ITEM: u32 = 1 << TAG_MAPS_SHIFT;
/// Where small tasks have what they map.
const THERE: u64 = 0x50_0000;

/// A page of a small task comes to the worker's slot 0. Returns it and the task.
fn with_given_page(grant: u64) -> Result<(Small, u64), Fault> {
    let mut small = Small::new(USUAL)?;
    small.give_new(THERE, 0x1111);
    same!("its own", small.ask(small_load, THERE, 0)?, 0x1111);
    set_item(&small, grant, Fpage::memory(THERE, 12, FPAGE_RWX))?;
    utcb::set_receive_window(slot(0));
    let got = message(&small, &Call { ax: CALL, tag: ONE_ITEM, to: me(), ..Call::default() });
    utcb::set_receive_window(Fpage::NIL);
    let got = got?;
    same!("items", got.tag.maps(), 1);
    answered(&small, Message::label(0))?;
    Ok((small, slot(0).base()))
}

fn maps_page() -> Outcome {
    let (small, at) = with_given_page(0)?;
    same!("what came", word(at), 0x1111);
    set_word(at, 0x2222);
    same!("the same page", small.ask(small_load, THERE, 0)?, 0x2222);
    Ok(())
}

fn grants_page() -> Outcome {
    let (mut small, at) = with_given_page(MAP_GRANT)?;
    same!("what came", word(at), 0x1111);
    small.give_no_more(THERE);
    let got = small.try_it(small_load, THERE, 0)?;
    same!("it has it no more", (got.tag.kind(), got.words[0]), (KIND_PAGE_FAULT, THERE));
    same!("its reach", small.reach_now()?, USUAL);
    check()
}

fn gets_page() -> Outcome {
    let small = Small::new(USUAL)?;
    small.set_utcb(offset_of!(Utcb, receive_fpage), Fpage::WHOLE.0)?;
    let from = page();
    fill(from, 0x3333);
    message(&small, &Call { ax: CALL, to: me(), ..Call::default() })?;
    let items = [MapItem { send_base: THERE, fpage: Fpage::memory(from, 12, FPAGE_READ).0 }];
    let end = answered(&small, Message::label(0).with_maps(&items))?;
    same!("items", end.tag & ONE_ITEM, ONE_ITEM);
    same!("where it came", small.utcb_word(offset_of!(Utcb, maps))?, THERE);
    same!("the page", small.ask(small_load, THERE, 0)?, 0x3333);
    let got = small.try_it(small_store, THERE, 1)?;
    same!("not to be written", (got.tag.kind(), got.words[0], got.words[3]), (KIND_PAGE_FAULT, THERE, 1));
    Ok(())
}

fn maps_to_another() -> Outcome {
    let (mut from, to) = (Small::new(USUAL)?, Small::new(WINDOW + SIZE | LOG2)?);
    from.give_new(THERE, 0x4444);
    from.ask(small_load, THERE, 0)?;
    to.set_utcb(offset_of!(Utcb, receive_fpage), Fpage::WHOLE.0)?;
    to.start(&Call { ax: WAIT, ..Call::default() })?;
    set_item(&from, 2 * THERE, Fpage::memory(THERE, 12, FPAGE_RWX))?;
    let sent = Call { ax: CALL_IPC | IPC_SEND, tag: ONE_ITEM, to: to.thread, ..Call::default() };
    from.start(&sent)?;
    for _ in 0..2 {
        let got = serve(&[&from, &to])?;
        same!("a report", got.tag.kind(), KIND_USER);
    }
    same!("status", (from.end().status, to.end().status), (0, 0));
    same!("the page", to.ask(small_load, 2 * THERE, 0)?, 0x4444);
    to.ask(small_store, 2 * THERE, 0x5555)?;
    same!("the same in both windows", from.ask(small_load, THERE, 0)?, 0x5555);
    // The mapper takes it back from the other window, and keeps it.
    let unmap = Call { ax: CALL_FPAGE_UNMAP, tag: UNMAP_RIGHTS as u32, ..Call::default() };
    same!("unmapped", from.call(&Call { to: Id(Fpage::memory(THERE, 12, FPAGE_RWX).0), ..unmap })?.status, 0);
    let got = to.try_it(small_load, 2 * THERE, 0)?;
    same!("a fault", (got.tag.kind(), got.from, got.words[0]), (KIND_PAGE_FAULT, to.thread, 2 * THERE));
    same!("its own", from.ask(small_load, THERE, 0)?, 0x5555);
    check()
}

fn unmaps_page() -> Outcome {
    let mut small = Small::new(USUAL)?;
    small.give_new(THERE, 0x6666);
    small.ask(small_store, THERE, 0x7777)?;
    small.give_no_more(THERE);
    let tag = (UNMAP_RIGHTS | UNMAP_FLUSH) as u32;
    let to = Id(Fpage::memory(THERE, 12, FPAGE_RWX).0);
    let end = small.call(&Call { ax: CALL_FPAGE_UNMAP, tag, to, ..Call::default() })?;
    same!("status", end.status, 0);
    same!("it was written", end.from.0 & UNMAP_DIRTY, UNMAP_DIRTY);
    let got = small.try_it(small_load, THERE, 0)?;
    same!("it is gone", (got.tag.kind(), got.words[0]), (KIND_PAGE_FAULT, THERE));
    Ok(())
}

fn takes_back() -> Outcome {
    let (small, at) = with_given_page(0)?;
    let to = Id(Fpage::memory(THERE, 12, FPAGE_RWX).0);
    let tag = UNMAP_RIGHTS as u32;
    same!("status", small.call(&Call { ax: CALL_FPAGE_UNMAP, tag, to, ..Call::default() })?.status, 0);
    same!("the worker's is gone", super::window::fault_at(at)?, 0);
    same!("its own is not", small.ask(small_load, THERE, 0)?, 0x1111);
    Ok(())
}

/// A tag with one string.
const ONE_STRING: u32 = 1 << TAG_STRINGS_SHIFT;
const LENGTH: u64 = PAGE + 100;

/// Puts a string or a buffer into a small thread's UTCB.
fn set_string(small: &Small, place: usize, address: u64, length: u64) -> Outcome {
    small.set_utcb(place, address)?;
    small.set_utcb(place + 8, length)
}

fn sends_string() -> Outcome {
    let mut small = Small::new(USUAL)?;
    for number in 0..2 {
        small.give_new(THERE + number * PAGE, 0x2121_2121 * (number as u32 + 1));
        small.ask(small_load, THERE + number * PAGE, 0)?;
    }
    set_string(&small, offset_of!(Utcb, strings), THERE + 50, LENGTH)?;
    let to = crate::pool::pages(2);
    // SAFETY: the case's own pages.
    unsafe { strings::offer(&[item(to, LENGTH)]) };
    let got = message(&small, &Call { ax: CALL, tag: ONE_STRING, to: me(), ..Call::default() })?;
    let came = strings::arrived(got.tag).next().map(|string| string.length);
    utcb::set_buffer_count(0);
    same!("its length", came, Some(LENGTH));
    let (first, second) = bytes(to, LENGTH).split_at((PAGE - 50) as usize);
    holds!(
        "the bytes of both pages",
        first.iter().all(|byte| *byte == 0x21) && second.iter().all(|byte| *byte == 0x42)
    );
    answered(&small, Message::label(0)).map(|_| ())
}

fn receives_string() -> Outcome {
    let mut small = Small::new(USUAL)?;
    let places = [small.give_new(THERE, 0), small.give_new(THERE + PAGE, 0)];
    for number in 0..2 {
        small.ask(small_store, THERE + number * PAGE, 0)?;
    }
    set_string(&small, offset_of!(Utcb, buffers), THERE + 52, LENGTH)?;
    small.set_utcb(offset_of!(Utcb, buffer_count), 1)?;
    message(&small, &Call { ax: CALL, to: me(), ..Call::default() })?;
    let from = crate::pool::pages(2);
    fill(from, 0x3737_3737);
    fill(from + PAGE, 0x3737_3737);
    let end = answered(&small, Message::label(0).with_strings(&[item(from, LENGTH)]))?;
    same!("strings", end.tag & ONE_STRING, ONE_STRING);
    same!("where it came", small.utcb_word(offset_of!(Utcb, strings))?, THERE + 52);
    same!("its length", small.utcb_word(offset_of!(Utcb, strings) + 8)?, LENGTH);
    let edges = [(0, 48, 0), (0, 52, 0x3737_3737), (1, 148, 0x3737_3737), (1, 152, 0)];
    for (number, offset, value) in edges {
        same!("a word", word(places[number] + offset), value);
    }
    Ok(())
}

/// The pages of both are not there before, and come by faults in the middle of the string.
fn string_between() -> Outcome {
    let (mut from, mut to) = (Small::new(USUAL)?, Small::new(WINDOW + SIZE | LOG2)?);
    for number in 0..2 {
        from.give_new(THERE + number * PAGE, 0x4646_4646);
        to.give_new(THERE + number * PAGE, 0);
    }
    for small in [&from, &to] {
        small.set_utcb(offset_of!(Utcb, send_fault_timeout), TIME_NEVER)?;
        small.set_utcb(offset_of!(Utcb, receive_fault_timeout), TIME_NEVER)?;
    }
    set_string(&from, offset_of!(Utcb, strings), THERE, 2 * PAGE)?;
    set_string(&to, offset_of!(Utcb, buffers), THERE, 2 * PAGE)?;
    to.set_utcb(offset_of!(Utcb, buffer_count), 1)?;
    to.start(&Call { ax: WAIT, ..Call::default() })?;
    from.start(&Call { ax: CALL_IPC | IPC_SEND, tag: ONE_STRING, to: to.thread, ..Call::default() })?;
    for _ in 0..2 {
        let got = serve(&[&from, &to])?;
        same!("a report", got.tag.kind(), KIND_USER);
    }
    same!("status", (from.end().status, to.end().status), (0, 0));
    for at in [THERE, THERE + PAGE - 4, THERE + PAGE, THERE + 2 * PAGE - 4] {
        same!("what came", to.ask(small_load, at, 0)?, 0x4646_4646);
    }
    same!("their reach", (from.reach_now()?, to.reach_now()?), (USUAL, WINDOW + SIZE | LOG2));
    Ok(())
}

/// Strings are in the task's space, of which a window shows a part.
fn string_from_beyond() -> Outcome {
    let mut small = Small::new(USUAL)?;
    small.give_new(SIZE, 0x5656_5656);
    small.set_utcb(offset_of!(Utcb, receive_fault_timeout), TIME_NEVER)?;
    set_string(&small, offset_of!(Utcb, strings), SIZE, 64)?;
    let to = page();
    // SAFETY: the case's own page.
    unsafe { strings::offer(&[item(to, 64)]) };
    let mut second = small;
    second.add_with(SMALL_ALL)?;
    second.begin()?;
    second.ask(small_load, SIZE, 0)?;
    let got = message(&small, &Call { ax: CALL, tag: ONE_STRING, to: me(), ..Call::default() })?;
    utcb::set_buffer_count(0);
    same!("strings", got.tag.strings(), 1);
    same!("what came", peek(to), 0x5656_5656_5656_5656);
    answered(&small, Message::label(0))?;
    same!("its reach", small.reach_now()?, USUAL);
    Ok(())
}

extern "C" fn calls_by_int80(_: u64) -> ! {
    // SAFETY: raises #GP.
    unsafe { core::arch::asm!("int 0x80", in("rax") CALL_ID_NEAREST, options(nostack)) };
    park()
}

fn of_64_bits() -> Outcome {
    const GP: u32 = 13;
    let id = Spawn::watched(calls_by_int80, 0).start()?;
    let got = receive(id, Timeout::After(PATIENCE))?;
    same!("kind, vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, GP));
    same!("error code", got.words[0], 0x80 * 8 + 2);
    remove(id)?;
    Ok(())
}
