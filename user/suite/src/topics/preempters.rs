// SPDX-License-Identifier: BSD-2-Clause
//! Preempters: the messages at the end of a time slice and at a preemption by a higher priority,
//! and when the thread resumes.
//!
//! The worker is the preempter of threads of lower priority, unless a case says otherwise.

use crate::alien::{code_spin, Alien};
use crate::case::{Case, Fault, Outcome};
use crate::family::{at, found, Member, WORKER};
use crate::pool::{cell, page, peek};
use crate::threads::{base_priority, child_plan, make_child, park, pause, remove, Main, Spawn};
use crate::topics::strings::{item, large_area};
use crate::{holds, refused, same};
use core::hint::spin_loop;
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::ids::{ID_IRQ, LTHREAD_TASK};
use keel_l4::abi::memory::*;
use keel_l4::abi::{ExRegs, MapItem};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, send_and_wait, sleep, wait, Message, Timeout};
use keel_l4::kip::{kip, now};
use keel_l4::preempter::{of_every_preemption, Preemption};
use keel_l4::task::NewTask;
use keel_l4::thread::{self, act, schedule, set_preempter, set_schedule};
use keel_l4::{kernel_object, strings, utcb, Id, Tag};

pub const CASES: &[Case] = &[
    ("slice-ends", slice_ends),
    ("slice-given-up", slice_given_up),
    ("slice-goes-on-after-waits", slice_kept),
    ("slice-is-not-used-by-waits", slice_not_used),
    ("slice-counts-after-a-call", slice_after_call),
    ("slice-donated", slice_donated),
    ("slice-restarts-when-it-is-set", slice_restarts),
    ("preempted-by-priority-and-silent", priority_silent),
    ("preempted-by-priority-and-reported", priority_reported),
    ("none", none),
    ("taken-away", taken_away),
    ("no-such-preempter", no_such_preempter),
    ("deleted-while-it-is-waited-for", deleted_waited_for),
    ("deleted-while-the-message-waits", deleted_queued),
    ("replaced-while-it-is-waited-for", replaced),
    ("set-and-read", set_and_read),
    ("set-at-creation", set_at_creation),
    ("above-the-limit-denied", above_limit),
    ("another-clan's-denied", others_denied),
    ("refused-as-a-whole", refused_whole),
    ("on-another-processor", elsewhere),
    ("answered-late", answered_late),
    ("one-message-each", one_message_each),
    ("told-thread-deleted", told_deleted),
    ("answer-with-items-refused", answer_items),
    ("registers-are-not-shown-or-taken", registers_kept),
    ("only-the-preempter-lets-it-go-on", only_the_preempter),
    ("trigger-while-it-waits", triggered),
    ("after-a-string", after_string),
    ("alien thread", alien),
    ("outside-the-clan", outside),
    ("each-the-other's", each_others),
    ("not-forged", not_forged),
];

/// A time slice in ns that ends many times in a case, and in which a thread makes progress even on
/// a busy host.
const SLICE: u64 = 5_000_000;
/// A time slice in ns for measurements: longer than the host delays the emulator.
const MEASURED: u64 = 20_000_000;
/// A time slice that does not end in a case.
const LONG: u64 = 3_600_000_000_000;
/// The longest wait of a case for an expected event, in ns.
const PATIENCE: u64 = 5_000_000_000;

extern "C" fn count(number: u64) -> ! {
    loop {
        cell(number as usize).fetch_add(1, SeqCst);
    }
}

/// A stopped thread of lower priority with this time slice and preempter.
fn made(main: Main, argument: u64, slice: u64, preempter: Id) -> Result<Id, Failure> {
    let id = Spawn::new(main, argument).create()?;
    let mask = SCHEDULE_PRIORITY | SCHEDULE_SLICE | SCHEDULE_PREEMPTER;
    set_schedule(id, mask, base_priority() - 1, [slice, preempter.0, 0])?;
    Ok(id)
}

/// The same, started.
fn started(main: Main, argument: u64, slice: u64, preempter: Id) -> Result<Id, Failure> {
    act(made(main, argument, slice, preempter)?, EX_START)
}

/// A thread that counts in cell 1; the worker is its pager and handler too.
fn watched(slice: u64) -> Result<Id, Failure> {
    let id = Spawn::watched(count, 1).create()?;
    let mask = SCHEDULE_PRIORITY | SCHEDULE_SLICE | SCHEDULE_PREEMPTER;
    set_schedule(id, mask, base_priority() - 1, [slice, utcb::my_id().0, 0])?;
    act(id, EX_START)
}

/// The next message to the worker about this thread.
fn preemption(id: Id) -> Result<Preemption, Fault> {
    let received = receive(id, Timeout::After(PATIENCE))?;
    Preemption::of(&received).ok_or_else(|| Fault::new(format_args!("expected a preemption, got {received:x?}")))
}

fn is_silent(id: Id) -> Outcome {
    refused!("a message", receive(id, Timeout::After(10 * SLICE)), Receive Timeout);
    Ok(())
}

fn state(id: Id) -> Result<(u64, Id), Failure> {
    schedule(id, 0, 0, 0).map(|told| (told.state, told.partner))
}

/// Lets other threads run until the condition holds.
fn until(what: &str, mut condition: impl FnMut() -> Result<bool, Failure>) -> Outcome {
    let end = now() + PATIENCE;
    while !condition()? {
        if now() > end {
            return Err(Fault::new(format_args!("expected {what} soon, got nothing for long")));
        }
        sleep(SLICE / 10);
    }
    Ok(())
}

fn goes_on(number: usize) -> Outcome {
    let before = cell(number).load(SeqCst);
    until("a count to continue", || Ok(cell(number).load(SeqCst) > before))
}

fn stands_still(number: usize) -> Outcome {
    let before = cell(number).load(SeqCst);
    pause(5 * SLICE);
    same!("an unchanged count", cell(number).load(SeqCst), before);
    Ok(())
}

fn slice_ends() -> Outcome {
    let id = started(count, 1, MEASURED, utcb::my_id())?;
    let mut used = 0;
    for _ in 0..5 {
        let told = preemption(id)?;
        same!("slice ended, higher priority", (told.slice_ended, told.higher_priority), (true, false));
        same!("state, partner", state(id)?, (STATE_PREEMPTED, utcb::my_id()));
        // The clock starts a little before the accounting.
        holds!("a slice used", told.consumed > used + MEASURED / 2);
        holds!("a time that has passed", told.time <= now());
        used = told.consumed;
        stands_still(1)?;
        told.answer()?;
        goes_on(1)?;
    }
    Ok(())
}

fn slice_given_up() -> Outcome {
    extern "C" fn give_up(_: u64) -> ! {
        let _ = thread::switch(Id::NIL);
        cell(1).store(1, SeqCst);
        park()
    }
    for slice in [LONG, 0] {
        cell(1).store(0, SeqCst);
        let told = preemption(started(give_up, 0, slice, utcb::my_id())?)?;
        same!("slice ended, higher priority", (told.slice_ended, told.higher_priority), (true, false));
        pause(SLICE);
        same!("before the answer", cell(1).load(SeqCst), 0);
        told.answer()?;
        until("it to resume", || Ok(cell(1).load(SeqCst) == 1))?;
    }
    Ok(())
}

fn slice_kept() -> Outcome {
    const PART: u64 = MEASURED / 20;
    extern "C" fn work_and_wait(_: u64) -> ! {
        loop {
            let end = now() + PART;
            while now() < end {
                spin_loop();
            }
            cell(1).fetch_add(1, SeqCst);
            sleep(PART);
        }
    }
    let told = preemption(started(work_and_wait, 0, MEASURED, utcb::my_id())?)?;
    holds!("a slice used", told.slice_ended && told.consumed > MEASURED / 2);
    // The emulator's timer may be late, but each part counts.
    holds!("few more parts than make up a slice", cell(1).load(SeqCst) < 2 * MEASURED / PART);
    Ok(())
}

fn slice_not_used() -> Outcome {
    extern "C" fn wait_for_long(length: u64) -> ! {
        for _ in 0..3 {
            sleep(length);
        }
        cell(1).store(1, SeqCst);
        park()
    }
    const LENGTH: u64 = 100_000_000;
    let id = started(wait_for_long, LENGTH, LENGTH, utcb::my_id())?;
    refused!("a message", receive(id, Timeout::After(4 * LENGTH)), Receive Timeout);
    until("the end of its waits", || Ok(cell(1).load(SeqCst) == 1))?;
    is_silent(id)
}

fn slice_after_call() -> Outcome {
    extern "C" fn server(_: u64) -> ! {
        let mut next = wait(Timeout::Never);
        loop {
            next = match next {
                Ok(received) => send_and_wait(received.from, Message::label(0), Timeout::Zero, Timeout::Never),
                Err(_) => wait(Timeout::Never),
            };
        }
    }
    extern "C" fn client(server: u64) -> ! {
        // The first answer takes the slow path in any case.
        for _ in 0..3 {
            let _ = call(Id(server), Message::label(0));
        }
        count(1)
    }
    let server = Spawn::new(server, 0).start()?;
    pause(SLICE);
    // No other thread enters the kernel while it counts.
    holds!("the end of its slice", preemption(started(client, server.0, SLICE, utcb::my_id())?)?.slice_ended);
    Ok(())
}

fn slice_donated() -> Outcome {
    extern "C" fn donate(_: u64) -> ! {
        loop {
            let _ = thread::switch(Id(cell(2).load(SeqCst)));
        }
    }
    let taker = started(count, 1, 0, Id::NIL)?;
    thread::set_priority(taker, base_priority() - 2)?;
    cell(2).store(taker.0, SeqCst);
    let told = preemption(started(donate, 0, MEASURED, utcb::my_id())?)?;
    same!("slice ended, higher priority", (told.slice_ended, told.higher_priority), (true, false));
    holds!("most of it used by the other", told.consumed < MEASURED / 2 && cell(1).load(SeqCst) > 0);
    told.answer()?;
    let unlimited = started(donate, 0, 0, utcb::my_id())?;
    goes_on(1)?;
    refused!("a message", receive(unlimited, Timeout::After(10 * MEASURED)), Receive Timeout);
    Ok(())
}

/// After the donated slice, the thread's own slice continues where it was, and its end is not the
/// thread's own any more. (A case of `processors`.)
pub fn slice_of_moved() -> Outcome {
    // Much longer than the worker takes to move the thread, unless the host does not run its
    // processor.
    let mut donated = 1_000_000_000;
    while !moved_within(donated)? {
        donated *= 2;
    }
    goes_on(3)
}

/// Moves a thread that donated its slice of this many ns, and gets no message at the slice's end.
/// False: it had ended before.
fn moved_within(donated: u64) -> Result<bool, Fault> {
    extern "C" fn donate_once(taker: u64) -> ! {
        cell(2).store(1, SeqCst);
        let _ = thread::switch(Id(taker));
        count(3)
    }
    // From another processor, because the moved thread must not be interrupted first.
    let last = kip().processors - 1;
    thread::set_processor(utcb::my_id(), last)?;
    let begun = now();
    let taker = made(count, 1, 0, Id::NIL)?;
    thread::set_priority(taker, base_priority() - 2)?;
    cell(2).store(0, SeqCst);
    let donor = made(donate_once, taker.0, donated, utcb::my_id())?;
    for id in [taker, donor] {
        thread::set_processor(id, 0)?;
        act(id, EX_START)?;
    }
    until("the donation", || Ok(cell(2).load(SeqCst) > 0))?;
    goes_on(1)?;
    thread::set_processor(donor, last)?;
    schedule(donor, SCHEDULE_SLICE, 0, LONG)?;
    if now() >= begun + donated {
        [donor, taker].into_iter().try_for_each(thread::delete)?;
        return Ok(false);
    }
    sleep((begun + 2 * donated).saturating_sub(now()));
    is_silent(donor)?;
    Ok(true)
}

fn slice_restarts() -> Outcome {
    let id = started(count, 1, LONG, utcb::my_id())?;
    goes_on(1)?;
    is_silent(id)?;
    schedule(id, SCHEDULE_SLICE, 0, SLICE)?;
    holds!("the shorter slice to have ended", preemption(id)?.slice_ended);
    Ok(())
}

fn priority_silent() -> Outcome {
    let id = started(count, 1, 0, utcb::my_id())?;
    goes_on(1)?;
    pause(10 * SLICE);
    same!("its state", state(id)?.0, STATE_READY);
    is_silent(id)
}

fn priority_reported() -> Outcome {
    let id = started(count, 1, 0, of_every_preemption(utcb::my_id()))?;
    for _ in 0..3 {
        sleep(SLICE);
        same!("its message waits", state(id)?, (STATE_SENDING, utcb::my_id()));
        stands_still(1)?;
        let told = preemption(id)?;
        same!("slice ended, higher priority", (told.slice_ended, told.higher_priority), (false, true));
        told.answer()?;
    }
    set_preempter(id, utcb::my_id())?;
    goes_on(1)
}

fn none() -> Outcome {
    let id = started(count, 1, SLICE, Id::NIL)?;
    same!("preempter", schedule(id, 0, 0, 0)?.preempter, Id::NIL);
    goes_on(1)?;
    is_silent(id)
}

fn taken_away() -> Outcome {
    let id = started(count, 1, SLICE, utcb::my_id())?;
    preemption(id)?;
    set_preempter(id, Id::NIL)?;
    goes_on(1)?;
    is_silent(id)?;
    goes_on(1)
}

/// A thread resumes without a preempter.
fn has_none(id: Id, number: usize) -> Outcome {
    until("its preempter to be nil", || Ok(schedule(id, 0, 0, 0)?.preempter == Id::NIL))?;
    goes_on(number)?;
    same!("its state", state(id)?.0, STATE_READY);
    is_silent(id)
}

fn no_such_preempter() -> Outcome {
    let gone = Spawn::new(count, 2).create()?;
    remove(gone)?;
    let stranger = Alien::new(code_spin, |_| ())?.id;
    let strange = [gone, stranger, thread::task_of(stranger), Id::INVALID, Id(ID_IRQ), Id::NIL, Id(gone.0 | 2)];
    for (number, preempter) in strange.into_iter().enumerate() {
        for preempter in [preempter, of_every_preemption(preempter)] {
            cell(number).store(0, SeqCst);
            let id = started(count, number as u64, SLICE, preempter)?;
            has_none(id, number)?;
            remove(id)?;
        }
    }
    let itself = made(count, 1, SLICE, Id::NIL)?;
    set_preempter(itself, of_every_preemption(itself))?;
    act(itself, EX_START)?;
    has_none(itself, 1)
}

/// A preempter that takes one message and never answers; with 0, none.
extern "C" fn careless(messages: u64) -> ! {
    for _ in 0..messages {
        let _ = wait(Timeout::Never);
    }
    park()
}

/// A thread that waits for a preempter that does not answer, and that preempter.
fn neglected(messages: u64, expected: u64) -> Result<(Id, Id), Fault> {
    let preempter = Spawn::new(careless, messages).start()?;
    let id = started(count, 1, SLICE, preempter)?;
    until("it to wait for its preempter", || Ok(state(id)? == (expected, preempter)))?;
    Ok((id, preempter))
}

fn deleted_waited_for() -> Outcome {
    let (id, preempter) = neglected(1, STATE_PREEMPTED)?;
    remove(preempter)?;
    has_none(id, 1)
}

fn deleted_queued() -> Outcome {
    let (id, preempter) = neglected(0, STATE_SENDING)?;
    remove(preempter)?;
    has_none(id, 1)
}

fn replaced() -> Outcome {
    for (messages, expected) in [(1, STATE_PREEMPTED), (0, STATE_SENDING)] {
        let (id, preempter) = neglected(messages, expected)?;
        set_preempter(id, utcb::my_id())?;
        holds!("a message about the next slice to the new one", preemption(id)?.slice_ended);
        remove(preempter)?;
        same!("state, partner", state(id)?, (STATE_PREEMPTED, utcb::my_id()));
    }
    Ok(())
}

/// Sets the preempter by lthread_ex_regs; returns the old one.
fn exchange(id: Id, preempter: Id) -> Result<Id, Failure> {
    let mut record = ExRegs { preempter: preempter.0, ..ExRegs::zeroed() };
    thread::exchange(id, EX_PREEMPTER, &mut record)?;
    Ok(Id(record.preempter))
}

fn set_and_read() -> Outcome {
    let id = made(count, 1, SLICE, Id::NIL)?;
    let (me, every) = (utcb::my_id(), of_every_preemption(utcb::my_id()));
    let read = || schedule(id, 0, 0, 0).map(|told| told.preempter);
    same!("at first", read()?, Id::NIL);
    same!("before an exchange", exchange(id, every)?, Id::NIL);
    same!("by the other call", read()?, every);
    same!("before it was set", set_schedule(id, SCHEDULE_PREEMPTER, 0, [0, me.0, 0])?.preempter, every);
    same!("before another exchange", exchange(id, every)?, me);
    let mut record = ExRegs::zeroed();
    thread::exchange(id, EX_PAGER, &mut record)?;
    same!("where another word is exchanged", record.preempter, every.0);
    same!("after all", read()?, every);
    Ok(())
}

fn set_at_creation() -> Outcome {
    let mut record = ExRegs {
        ip: count as Main as usize as u64,
        sp: crate::pool::stack(),
        argument: 1,
        preempter: utcb::my_id().0,
        ..ExRegs::zeroed()
    };
    let any = thread::lthread(utcb::my_id(), LTHREAD_TASK as u16);
    let id = thread::exchange(any, EX_CREATE | EX_IP | EX_SP | EX_ARGUMENT | EX_PREEMPTER, &mut record)?;
    schedule(id, SCHEDULE_PRIORITY | SCHEDULE_SLICE, base_priority() - 1, SLICE)?;
    act(id, EX_START)?;
    holds!("a message about its slice", preemption(id)?.slice_ended);
    Ok(())
}

/// Tries to remove its preempter, and counts in cell 1 how often that was denied.
extern "C" fn climber(_: u64) -> ! {
    while cell(3).load(SeqCst) == 0 {
        sleep(SLICE / 10);
    }
    let me = utcb::my_id();
    let tries = [
        set_preempter(me, Id::NIL),
        exchange(me, Id::NIL).map(|_| ()),
        schedule(me, SCHEDULE_SLICE, 0, LONG).map(|_| ()),
        thread::set_priority(me, 0),
        thread::set_processor(me, 0),
        act(me, EX_START | EX_CANCEL).map(|_| ()),
    ];
    let denied = |outcome: &&Result<(), Failure>| outcome.is_err_and(|failure| failure.error == keel_l4::Error::Denied);
    cell(1).store(tries.iter().filter(denied).count() as u64, SeqCst);
    count(2)
}

fn above_limit() -> Outcome {
    let child = make_child(&NewTask { max_priority: base_priority() - 5, ..child_plan(climber, 0) })?;
    let mask = SCHEDULE_PRIORITY | SCHEDULE_SLICE | SCHEDULE_PREEMPTER;
    set_schedule(child.thread, mask, base_priority() - 1, [SLICE, utcb::my_id().0, 0])?;
    cell(3).store(1, SeqCst);
    until("its tries", || {
        receive(child.thread, Timeout::After(PATIENCE))?;
        send(child.thread, Message::label(0), Timeout::Zero)?;
        Ok(cell(2).load(SeqCst) != 0)
    })?;
    same!("tries that were denied", cell(1).load(SeqCst), 5);
    preemption(child.thread)?;
    stands_still(2)
}

fn others_denied() -> Outcome {
    for id in [Id::ROOT, Id::SIGMA0] {
        refused!("setting", set_preempter(id, utcb::my_id()), Call Denied);
        refused!("exchanging", exchange(id, utcb::my_id()), Call Denied);
    }
    for id in [Id::NIL, Id::INVALID, Id(ID_IRQ)] {
        refused!("setting", set_preempter(id, utcb::my_id()), Call NoPartner);
    }
    Ok(())
}

fn refused_whole() -> Outcome {
    let id = made(count, 1, SLICE, Id::NIL)?;
    let before = schedule(id, 0, 0, 0)?;
    let all = SCHEDULE_PRIORITY | SCHEDULE_SLICE | SCHEDULE_PREEMPTER | SCHEDULE_PROCESSOR;
    let me = utcb::my_id().0;
    refused!("no priority", set_schedule(id, all, PRIORITIES, [1, me, 0]), Call Invalid);
    refused!("no processor", set_schedule(id, all, 1, [1, me, kip().processors]), Call Invalid);
    refused!("an unknown bit", set_schedule(id, all | 32, 1, [1, me, 0]), Call Invalid);
    refused!("a priority above the limit", set_schedule(id, all, 255, [1, me, 0]), Call Denied);
    same!("all of it", schedule(id, 0, 0, 0)?, before);
    Ok(())
}

fn elsewhere() -> Outcome {
    let last = kip().processors - 1;
    let id = made(count, 1, LONG, Id::NIL)?;
    thread::set_processor(id, last)?;
    act(id, EX_START)?;
    goes_on(1)?;
    set_preempter(id, utcb::my_id())?;
    is_silent(id)?;
    goes_on(1)?;
    schedule(id, SCHEDULE_SLICE, 0, SLICE)?;
    for _ in 0..3 {
        let told = preemption(id)?;
        holds!("the end of its slice", told.slice_ended);
        stands_still(1)?;
        told.answer()?;
    }
    preemption(id)?;
    // A thread that is moved while it waits resumes on the new processor, and its preempter gets
    // messages again.
    thread::set_processor(id, 0)?;
    stands_still(1)?;
    send(id, Message::label(0), Timeout::Zero)?;
    preemption(id)?;
    same!("its processor", schedule(id, 0, 0, 0)?.processor, 0);
    Ok(())
}

fn answered_late() -> Outcome {
    let id = started(count, 1, SLICE, utcb::my_id())?;
    let told = preemption(id)?;
    let other = started(count, 2, 0, Id::NIL)?;
    let before = cell(1).load(SeqCst);
    for _ in 0..5 {
        goes_on(2)?;
    }
    same!("the one that waits", cell(1).load(SeqCst), before);
    remove(other)?;
    told.answer()?;
    goes_on(1)
}

fn one_message_each() -> Outcome {
    const THREADS: usize = 8;
    let mut threads = [Id::NIL; THREADS];
    for (number, id) in threads.iter_mut().enumerate() {
        *id = started(count, number as u64, 1, of_every_preemption(utcb::my_id()))?;
    }
    for _ in 0..3 {
        for id in threads {
            until("its message to wait", || Ok(state(id)?.0 == STATE_SENDING))?;
        }
        for _ in threads {
            let received = wait(Timeout::Zero)?;
            holds!("a preemption", Preemption::of(&received).is_some());
            same!("its state", state(received.from)?.0, STATE_PREEMPTED);
        }
        refused!("more", wait(Timeout::After(10 * SLICE)), Receive Timeout);
        for id in threads {
            send(id, Message::label(0), Timeout::Zero)?;
        }
    }
    Ok(())
}

fn told_deleted() -> Outcome {
    let used = || kernel_object::account(Id::NIL).map(|words| words[ACCOUNT_USED as usize]);
    let before = used()?;
    for takes in [true, false] {
        let id = started(count, 1, 0, of_every_preemption(utcb::my_id()))?;
        sleep(SLICE);
        same!("its message waits", state(id)?.0, STATE_SENDING);
        if takes {
            preemption(id)?;
        }
        remove(id)?;
        refused!("its message", wait(Timeout::Zero), Receive Timeout);
        refused!("an answer", send(id, Message::label(0), Timeout::Zero), Send NoPartner);
    }
    same!("pages used", used()?, before);
    Ok(())
}

fn answer_items() -> Outcome {
    let id = started(count, 1, SLICE, utcb::my_id())?;
    let told = preemption(id)?;
    let maps = Message::label(0).with_maps(&[MapItem { send_base: 0, fpage: 0 }]);
    let string = Message::label(0).with_strings(&[item(page(), 8)]);
    for message in [maps, string] {
        refused!("items", send(id, message, Timeout::Zero), Send MessageCut);
        same!("its state", state(id)?.0, STATE_PREEMPTED);
    }
    told.answer()?;
    goes_on(1)
}

fn registers_kept() -> Outcome {
    // Not even if its preempter is its handler, which would see them with an exception.
    let id = watched(SLICE)?;
    for number in REGISTER_WORDS as usize..MAX_WORDS as usize {
        utcb::set_word(number, number as u64);
    }
    let received = receive(id, Timeout::After(PATIENCE))?;
    same!("kind, words", (received.tag.kind(), received.tag.words()), (KIND_PREEMPTION, 4));
    for number in REGISTER_WORDS as usize..MAX_WORDS as usize {
        same!("a word of this thread's", utcb::word(number), number as u64);
    }
    send(id, Message { tag: Tag::new(0, MAX_WORDS), words: [0; 6] }, Timeout::Zero)?;
    goes_on(1)
}

fn only_the_preempter() -> Outcome {
    extern "C" fn meddle(to: u64) -> ! {
        let answer = send(Id(to), Message::label(0), Timeout::After(SLICE));
        cell(2).store(1 + answer.is_ok() as u64, SeqCst);
        park()
    }
    let id = started(count, 1, SLICE, utcb::my_id())?;
    let told = preemption(id)?;
    act(id, EX_START)?;
    act(id, EX_CANCEL)?;
    Spawn::new(meddle, id.0).start()?;
    until("the other's message to fail", || Ok(cell(2).load(SeqCst) != 0))?;
    same!("the other's message", cell(2).load(SeqCst), 1);
    same!("state, partner", state(id)?, (STATE_PREEMPTED, utcb::my_id()));
    stands_still(1)?;
    told.answer()?;
    goes_on(1)
}

fn triggered() -> Outcome {
    let id = watched(SLICE)?;
    let told = preemption(id)?;
    act(id, EX_TRIGGER)?;
    same!("its state", state(id)?.0, STATE_PREEMPTED);
    let before = cell(1).load(SeqCst);
    told.answer()?;
    same!("what comes next", receive(id, Timeout::After(PATIENCE))?.tag.kind(), KIND_TRIGGER);
    same!("what it did between", cell(1).load(SeqCst), before);
    Ok(())
}

/// Bytes of a string whose copying takes several of the sender's slices.
const STRING: u64 = MAX_STRING_BYTES / 2;

fn after_string() -> Outcome {
    extern "C" fn sender(to: u64) -> ! {
        let _ = send(Id(to), Message::label(0).with_strings(&[item(cell(3).load(SeqCst), STRING)]), Timeout::Never);
        // Its time slice continues, so that a message comes even if the whole string was copied in
        // one slice.
        count(1)
    }
    extern "C" fn receiver(buffer: u64) -> ! {
        // SAFETY: only the case uses this memory.
        unsafe { strings::offer(&[item(buffer, STRING)]) };
        let _ = wait(Timeout::Never);
        park()
    }
    let area = large_area(0)?;
    let buffer = area + STRING;
    cell(3).store(area, SeqCst);
    // SAFETY: the large area belongs to this case.
    unsafe {
        crate::pool::poke(area, 1);
        crate::pool::poke(area + STRING - 8, 1);
        crate::pool::poke(buffer, 0);
        crate::pool::poke(buffer + STRING - 8, 0);
    }
    let to = Spawn::new(receiver, buffer).start()?;
    pause(SLICE);
    let id = started(sender, to.0, SLICE / 50, utcb::my_id())?;
    let mut behind = 0;
    while behind == 0 {
        let told = preemption(id)?;
        behind = peek(buffer + STRING - 8);
        same!("the last word, as the first", behind, peek(buffer));
        told.answer()?;
    }
    set_preempter(id, Id::NIL)?;
    until("its end", || Ok(cell(1).load(SeqCst) > 0))
}

fn alien() -> Outcome {
    let counter = cell(1);
    let alien = Alien::new(code_spin, |frame| frame.di = counter as *const _ as u64)?;
    thread::set_priority(alien.id, base_priority() - 1)?;
    alien.spin(counter)?;
    schedule(alien.id, SCHEDULE_SLICE, 0, SLICE)?;
    set_preempter(alien.id, utcb::my_id())?;
    for _ in 0..3 {
        let told = preemption(alien.id)?;
        same!("frame, ip", (told.frame, told.ip), (alien.frame, alien.regs().ip));
        stands_still(1)?;
        refused!("another frame", thread::exchange(alien.id, EX_FRAME, &mut ExRegs::zeroed()), Call Invalid);
        told.answer()?;
        goes_on(1)?;
    }
    Ok(())
}

fn outside() -> Outcome {
    extern "C" fn chief(_: u64) -> ! {
        let mask = SCHEDULE_PRIORITY | SCHEDULE_SLICE | SCHEDULE_PREEMPTER;
        let _ = set_schedule(at(2), mask, base_priority() - 1, [SLICE, at(WORKER).0, 0]);
        if let Ok(got) = wait(Timeout::Never) {
            let told = [got.from.0, got.tag.0, utcb::destination().0, cell(1).load(SeqCst)];
            let _ = send(at(WORKER), Message::new(0, &told), Timeout::Never);
            let _ = send(got.from, Message::label(0), Timeout::Zero);
        }
        park()
    }
    extern "C" fn spin(_: u64) -> ! {
        count(1)
    }
    static FAMILY: Member = Member { slot: 1, main: chief, clan: &[Member { slot: 2, main: spin, clan: &[] }] };
    found(&FAMILY)?;
    let told = receive(at(1), Timeout::After(PATIENCE))?.words;
    let tag = Tag(told[1]);
    same!("thread, kind, destination", (Id(told[0]), tag.kind(), Id(told[2])), (at(2), KIND_PREEMPTION, utcb::my_id()));
    holds!("it marked as redirected", tag.has(TAG_REDIRECTED) && !tag.has(TAG_FROM_OUTSIDE));
    until("it to resume", || Ok(cell(1).load(SeqCst) > told[3]))
}

fn each_others() -> Outcome {
    let (one, two) = (made(count, 1, SLICE, Id::NIL)?, made(count, 2, SLICE, Id::NIL)?);
    set_preempter(one, two)?;
    set_preempter(two, one)?;
    act(one, EX_START)?;
    act(two, EX_START)?;
    until("both to wait", || Ok((state(one)?, state(two)?) == ((STATE_SENDING, two), (STATE_SENDING, one))))?;
    remove(one)?;
    has_none(two, 2)
}

fn not_forged() -> Outcome {
    extern "C" fn forge(to: u64) -> ! {
        let forged = Message { tag: Tag::kernel(KIND_PREEMPTION, PREEMPTED_SLICE as u32, 4), words: [0; 6] };
        let _ = send(Id(to), forged, Timeout::Never);
        park()
    }
    let id = Spawn::new(forge, utcb::my_id().0).start()?;
    same!("its kind", receive(id, Timeout::After(PATIENCE))?.tag.kind(), KIND_USER);
    Ok(())
}
