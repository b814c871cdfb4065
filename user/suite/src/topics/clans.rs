// SPDX-License-Identifier: BSD-2-Clause
//! Clans and chiefs: the real receiver of a message, the virtual senders that a chief may use, and
//! what is deleted with a chief.

use crate::case::{Case, Outcome};
use crate::family::{at, found, Member, CLAN_PAGER, WORKER};
use crate::pool::{cell, page, peek, poke, WINDOW};
use crate::runner::forward_and_wait;
use crate::threads::*;
use crate::{refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::FPAGE_RWX;
use keel_l4::abi::memory::{EX_HANDLER, EX_PAGER};
use keel_l4::abi::{ExRegs, MapItem, Tag};
use keel_l4::call::{checked, Failure, Registers};
use keel_l4::ipc::{call, notify, receive, send, send_and_wait, send_as, wait, Message, Received, Timeout};
use keel_l4::protocol::sigma0::SIGMA0_MAP;
use keel_l4::protocol::status::{ERROR_DENIED, ERROR_NO_PARTNER, SIDE_RECEIVE, SIDE_SEND};
use keel_l4::task::NewTask;
use keel_l4::{kernel_object, thread, utcb, Fpage, Id};

pub const CASES: &[Case] = &[
    ("neighbours-talk-straight", neighbours),
    ("chief-and-member-talk-straight", chief_and_member),
    ("outward-goes-to-the-chief", outward),
    ("inward-goes-to-the-inner-chief", inward),
    ("three-levels-outward", three_levels_outward),
    ("three-levels-inward", three_levels_inward),
    ("two-chiefs-on-the-way", two_chiefs),
    ("call-through-two-chiefs", call_through),
    ("call-through-fifteen-levels", through_fifteen_levels),
    ("call-to-sigma0-from-a-grandchild", call_sigma0),
    ("nearest-from-outside", nearest_from_outside),
    ("nearest-from-inside", nearest_from_inside),
    ("chief-without-a-first-lthread", no_first_lthread),
    ("deceit-that-keeps-the-direction", deceit),
    ("deceit-that-does-not-denied", deceit_denied),
    ("deceit-without-a-clan-denied", deceit_without_clan),
    ("propagation-as-no-thread", propagate_as_no_thread),
    ("deceit-where-it-means-nothing", deceit_meaningless),
    ("closed-wait-takes-the-virtual-sender", closed_wait),
    ("marks-cannot-be-forged", forged_marks),
    ("page-fault-to-a-pager-outside", fault_outside),
    ("exception-to-a-handler-outside", exception_outside),
    ("notification-does-not-pass", notification),
    ("chief's-end-ends-waits", chief_ends),
    ("deletion-of-a-family-leaves-nothing", family_leaves_nothing),
    ("a-family-of-families-dies-with-its-chief", all_die),
];

/// A task's report about a message that it received.
fn description(got: &Received) -> Message {
    Message::new(1, &[got.from.0, got.tag.0, utcb::destination().0, utcb::real_sender().0, got.words[0], got.words[1]])
}

/// The contents of a report.
struct Told {
    from: Id,
    flags: u64,
    kind: u64,
    destination: Id,
    real: Id,
    word: u64,
}

impl Told {
    fn new(words: &[u64; 6]) -> Told {
        let tag = Tag(words[1]);
        Told {
            from: Id(words[0]),
            flags: tag.0 & (TAG_REDIRECTED | TAG_FROM_OUTSIDE | TAG_PROPAGATED),
            kind: tag.kind(),
            destination: Id(words[2]),
            real: Id(words[3]),
            word: words[4],
        }
    }
}

/// The next report of the suite's child at `slot`.
fn told_by(slot: usize) -> Result<Told, Failure> {
    receive(at(slot), Timeout::Never).map(|got| Told::new(&got.words))
}

extern "C" fn idle(_: u64) -> ! {
    park()
}

/// Sends 100 and `TO` to the task at slot `TO`.
extern "C" fn tell<const TO: usize>(_: u64) -> ! {
    let _ = send(at(TO), Message::new(0, &[100 + TO as u64]), Timeout::Never);
    park()
}

/// Reports every message to the task at slot `TO`.
extern "C" fn describe<const TO: usize>(_: u64) -> ! {
    loop {
        if let Ok(got) = wait(Timeout::Never) {
            let _ = send(at(TO), description(&got), Timeout::Never);
        }
    }
}

/// Calls the task at slot `TO` and reports the answer to its chief at slot `CHIEF`.
extern "C" fn ask<const TO: usize, const CHIEF: usize>(_: u64) -> ! {
    if let Ok(got) = call(at(TO), Message::new(0, &[41])) {
        let _ = send(at(CHIEF), description(&got), Timeout::Never);
    }
    park()
}

/// Answers with the word plus one.
extern "C" fn increment(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) => send_and_wait(got.from, Message::new(0, &[got.words[0] + 1]), Timeout::Zero, Timeout::Never),
            Err(_) => wait(Timeout::Never),
        };
    }
}

/// A chief that forwards all messages, and reports to the worker what its clan sends to itself.
extern "C" fn pass(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) if got.tag.has(TAG_REDIRECTED) => forward_and_wait(&got, Timeout::Never, Timeout::Never),
            Ok(got) => {
                let _ = send(at(WORKER), Message { tag: Tag::new(1, 6), words: got.words }, Timeout::Never);
                wait(Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

const fn leaf(slot: usize, main: Main) -> Member {
    Member { slot, main, clan: &[] }
}

fn neighbours() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: pass, clan: &[leaf(2, describe::<1>), leaf(3, tell::<2>)] };
    found(&FAMILY)?;
    let got = told_by(1)?;
    same!("sender, flags, word", (got.from, got.flags, got.word), (at(3), 0, 102));
    Ok(())
}

fn chief_and_member() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: describe::<0>, clan: &[leaf(2, tell::<1>)] };
    found(&FAMILY)?;
    let got = told_by(1)?;
    same!("upwards: sender, flags, word", (got.from, got.flags, got.word), (at(2), 0, 101));
    send(at(1), Message::new(0, &[9]), Timeout::Never)?;
    let got = told_by(1)?;
    same!("downwards: sender, flags, word", (got.from, got.flags, got.word), (at(WORKER), 0, 9));
    Ok(())
}

fn outward() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: describe::<0>, clan: &[leaf(2, tell::<0>)] };
    found(&FAMILY)?;
    let got = told_by(1)?;
    same!("sender, flags, word", (got.from, got.flags, got.word), (at(2), TAG_REDIRECTED, 100));
    same!("destination", got.destination, at(WORKER));
    Ok(())
}

fn inward() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: describe::<0>, clan: &[leaf(2, idle)] };
    found(&FAMILY)?;
    send(at(2), Message::new(0, &[5]), Timeout::Never)?;
    let got = told_by(1)?;
    let flags = TAG_REDIRECTED | TAG_FROM_OUTSIDE;
    same!("sender, flags, word", (got.from, got.flags, got.word), (at(WORKER), flags, 5));
    same!("destination", got.destination, at(2));
    Ok(())
}

fn three_levels_outward() -> Outcome {
    static INNER: [Member; 1] = [Member { slot: 2, main: pass, clan: &[leaf(3, tell::<0>)] }];
    static THROUGH: Member = Member { slot: 1, main: pass, clan: &INNER };
    static HALF: Member = Member { slot: 1, main: describe::<0>, clan: &INNER };
    found(&THROUGH)?;
    let got = receive(at(3), Timeout::Never)?;
    same!("word, mark", (got.words[0], got.tag.0 >> TAG_KIND_SHIFT & 0xff), (100, TAG_PROPAGATED >> TAG_KIND_SHIFT));
    same!("the real sender", utcb::real_sender(), at(1));
    found(&HALF)?;
    let got = told_by(1)?;
    same!("half-way: sender, flags", (got.from, got.flags), (at(3), TAG_REDIRECTED | TAG_PROPAGATED));
    same!("half-way: destination, real sender", (got.destination, got.real), (at(WORKER), at(2)));
    Ok(())
}

fn three_levels_inward() -> Outcome {
    static THROUGH: Member =
        Member { slot: 1, main: pass, clan: &[Member { slot: 2, main: pass, clan: &[leaf(3, describe::<2>)] }] };
    static HALF: Member =
        Member { slot: 1, main: pass, clan: &[Member { slot: 2, main: describe::<1>, clan: &[leaf(3, idle)] }] };
    found(&THROUGH)?;
    send(at(3), Message::new(0, &[7]), Timeout::Never)?;
    let got = told_by(2)?;
    same!("sender, flags, word", (got.from, got.flags, got.word), (at(WORKER), TAG_PROPAGATED, 7));
    same!("the real sender", got.real, at(2));
    found(&HALF)?;
    send(at(3), Message::new(0, &[8]), Timeout::Never)?;
    let got = told_by(1)?;
    let flags = TAG_REDIRECTED | TAG_FROM_OUTSIDE | TAG_PROPAGATED;
    same!("half-way: sender, flags, word", (got.from, got.flags, got.word), (at(WORKER), flags, 8));
    same!("half-way: destination, real sender", (got.destination, got.real), (at(3), at(1)));
    Ok(())
}

fn two_chiefs() -> Outcome {
    static TO: Member = Member { slot: 3, main: pass, clan: &[leaf(4, describe::<3>)] };
    static FROM: Member = Member { slot: 1, main: pass, clan: &[leaf(2, tell::<4>)] };
    found(&TO)?;
    found(&FROM)?;
    let got = told_by(3)?;
    same!("sender, flags, word", (got.from, got.flags, got.word), (at(2), TAG_PROPAGATED, 104));
    same!("the real sender", got.real, at(3));
    Ok(())
}

fn call_through() -> Outcome {
    static TO: Member = Member { slot: 3, main: pass, clan: &[leaf(4, increment)] };
    static FROM: Member = Member { slot: 1, main: pass, clan: &[leaf(2, ask::<4, 1>)] };
    found(&TO)?;
    found(&FROM)?;
    let got = told_by(1)?;
    same!("sender of the answer, flags, answer", (got.from, got.flags, got.word), (at(4), TAG_PROPAGATED, 42));
    same!("the real sender", got.real, at(1));
    Ok(())
}

/// Nested tasks, the last of which calls the worker.
macro_rules! chain {
    () => {
        &[leaf(3, ask::<0, 2>)]
    };
    ($level:tt $($rest:tt)*) => {
        &[Member { slot: 2, main: pass, clan: chain!($($rest)*) }]
    };
}

fn through_fifteen_levels() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: pass, clan: chain!(4 5 6 7 8 9 10 11 12 13 14) };
    found(&FAMILY)?;
    same!("the deepest nesting", at(3).nesting(), 15);
    let got = receive(at(3), Timeout::Never)?;
    same!("the real sender", utcb::real_sender(), at(1));
    send(at(3), Message::new(0, &[got.words[0] + 9]), Timeout::Never)?;
    let got = told_by(2)?;
    same!("sender of the answer, flags, answer", (got.from, got.flags, got.word), (at(WORKER), TAG_PROPAGATED, 50));
    Ok(())
}

/// Asks sigma0 for a page and sends the answer's label to its chief at slot 1.
extern "C" fn ask_sigma0(_: u64) -> ! {
    let page = Fpage::memory(WINDOW, 12, FPAGE_RWX);
    if let Ok(got) = call(Id::SIGMA0, Message::new(SIGMA0_MAP as u32, &[page.0])) {
        let _ = send(at(1), Message::new(0, &[got.from.0, got.tag.label() as u64]), Timeout::Never);
    }
    park()
}

fn call_sigma0() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: pass, clan: &[leaf(2, ask_sigma0)] };
    found(&FAMILY)?;
    let got = receive(at(1), Timeout::Never)?;
    same!("sender of the answer, label", (Id(got.words[0]), got.words[1]), (Id::SIGMA0, ERROR_DENIED));
    Ok(())
}

fn nearest_from_outside() -> Outcome {
    static FAMILY: Member =
        Member { slot: 1, main: idle, clan: &[Member { slot: 2, main: idle, clan: &[leaf(3, idle)] }] };
    found(&FAMILY)?;
    same!("the chief itself", thread::nearest(at(1))?, (at(1), NEAREST_SAME_CLAN));
    same!("its member", thread::nearest(at(2))?, (at(1), NEAREST_INNER));
    same!("below its member", thread::nearest(at(3))?, (at(1), NEAREST_INNER));
    same!("our chief", thread::nearest(Id::ROOT)?, (Id::ROOT, NEAREST_SAME_CLAN));
    same!("beyond our chief", thread::nearest(Id::SIGMA0)?, (Id::ROOT, NEAREST_OUTER));
    same!("a source", thread::nearest(Id::QUOTA)?, (Id::QUOTA, NEAREST_SAME_CLAN));
    Ok(())
}

/// Sends to its chief at slot 1 the nearest of the task at slot `OF`.
extern "C" fn tell_nearest<const OF: usize>(_: u64) -> ! {
    if let Ok((id, relation)) = thread::nearest(at(OF)) {
        let _ = send(at(1), Message::new(0, &[id.0, relation]), Timeout::Never);
    }
    park()
}

fn nearest_from_inside() -> Outcome {
    static FAMILY: Member = Member {
        slot: 1,
        main: pass,
        clan: &[leaf(2, tell_nearest::<0>), leaf(3, tell_nearest::<1>), leaf(4, tell_nearest::<2>)],
    };
    found(&FAMILY)?;
    for (what, id, relation) in [
        ("outside", at(1), NEAREST_OUTER),
        ("the chief", at(1), NEAREST_SAME_CLAN),
        ("a neighbour", at(2), NEAREST_SAME_CLAN),
    ] {
        let got = receive(at(1), Timeout::Never)?;
        same!(what, (Id(got.words[0]), got.words[1]), (id, relation));
    }
    Ok(())
}

fn no_first_lthread() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: idle, clan: &[leaf(2, idle)] };
    found(&FAMILY)?;
    remove(at(1))?;
    refused!("a message inward", send(at(2), Message::label(0), Timeout::Zero), Send NoPartner);
    refused!("the nearest", thread::nearest(at(2)), Call NoPartner);
    Ok(())
}

fn code(result: Result<(), Failure>) -> u64 {
    result.map_or_else(|failure| (failure.side as u64) << 8 | failure.error as u64, |()| 0)
}

/// Sends as its member at slot 2 to the worker, and as the worker and as its own other lthread to
/// that member, whose reports it forwards to the worker.
extern "C" fn deceive(_: u64) -> ! {
    let word = |n| Message::new(0, &[n]);
    let other = Id::thread(utcb::my_id().version(), utcb::my_id().task(), CLAN_PAGER, utcb::my_id().nesting());
    let mut failures = code(send_as(at(2), at(WORKER), word(1), Timeout::Never));
    for (sender, number) in [(at(WORKER), 2), (other, 3)] {
        failures += code(send_as(sender, at(2), word(number), Timeout::Never));
        if let Ok(got) = receive(at(2), Timeout::Never) {
            let _ = send(at(WORKER), Message { tag: Tag::new(failures as u32, 6), words: got.words }, Timeout::Never);
        }
    }
    park()
}

fn deceit() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: deceive, clan: &[leaf(2, describe::<1>)] };
    found(&FAMILY)?;
    let got = wait(Timeout::Never)?;
    same!("outward: sender, word", (got.from, got.words[0]), (at(2), 1));
    same!("outward: the real sender", utcb::real_sender(), at(1));
    let got = told_by(1)?;
    same!("inward: sender, flags, word", (got.from, got.flags, got.word), (at(WORKER), TAG_PROPAGATED, 2));
    let got = told_by(1)?;
    let other = (at(1).task(), CLAN_PAGER);
    same!(
        "as an own lthread",
        ((got.from.task(), got.from.lthread()), got.flags, got.word),
        (other, TAG_PROPAGATED, 3)
    );
    Ok(())
}

/// Tries what does not keep the direction, and sends the statuses to the worker.
extern "C" fn deceive_badly(_: u64) -> ! {
    let attempt = |sender, to| code(send_as(sender, to, Message::label(0), Timeout::Zero));
    let words = [
        attempt(at(3), at(2)),
        attempt(at(1), at(WORKER)),
        attempt(own(PAGER), at(WORKER)),
        attempt(Id::ROOT, at(WORKER)),
        attempt(at(2), at(3)),
        attempt(at(WORKER), Id::ROOT),
    ];
    let _ = send(at(WORKER), Message::new(0, &words), Timeout::Never);
    park()
}

fn deceit_denied() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: deceive_badly, clan: &[leaf(2, idle), leaf(3, idle)] };
    found(&FAMILY)?;
    let got = receive(at(1), Timeout::Never)?;
    same!("statuses", got.words, [SIDE_SEND << 8 | ERROR_DENIED; 6]);
    Ok(())
}

fn deceit_without_clan() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: deceive_badly, clan: &[] };
    let neighbour = child(idle, 0)?;
    [2, 3].iter().for_each(|slot| crate::family::place(*slot, neighbour.thread));
    found(&FAMILY)?;
    let got = receive(at(1), Timeout::Never)?;
    same!("statuses", got.words, [SIDE_SEND << 8 | ERROR_DENIED; 6]);
    Ok(())
}

fn propagate_as_no_thread() -> Outcome {
    let child = child(idle, 0)?;
    for id in [Id::NIL, Id::INVALID, Id::QUOTA, Id::irq(1), thread::task_of(Id::ROOT), Id::thread(9, 0xfff0, 0, 3)] {
        refused!("as no thread", send_as(id, child.thread, Message::label(0), Timeout::Zero), Send NoPartner);
    }
    refused!("to no thread", send_as(Id::ROOT, Id::INVALID, Message::label(0), Timeout::Zero), Send NoPartner);
    Ok(())
}

fn deceit_meaningless() -> Outcome {
    let child = child(idle, 0)?;
    refused!("to a source", send_as(child.thread, Id::QUOTA, Message::label(0), Timeout::Zero), Send Invalid);
    utcb::set_virtual_sender(child.thread);
    let flags = IPC_SEND | IPC_NOTIFY | IPC_VIRTUAL_SENDER;
    let notification = Registers { ax: CALL_IPC | flags, di: utcb::my_id().0, ..Registers::default() };
    refused!("a notification", checked(notification).map(|_| ()), Send Invalid);
    Ok(())
}

/// Sends to the worker as its member at slot 2.
extern "C" fn knock(_: u64) -> ! {
    let _ = send_as(at(2), at(WORKER), Message::new(0, &[7]), Timeout::Never);
    park()
}

fn closed_wait() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: knock, clan: &[leaf(2, idle)] };
    let before = helper(tell::<0>, 0)?;
    found(&FAMILY)?;
    let after = helper(tell::<0>, 0)?;
    pause(10_000_000);
    same!("the chief waits to send", thread::schedule(at(1), 0, 0, 0)?.state, STATE_SENDING);
    refused!("a wait for the chief itself", receive(at(1), Timeout::Zero), Receive Timeout);
    let got = receive(at(2), Timeout::Zero)?;
    same!("sender, word, real sender", (got.from, got.words[0], utcb::real_sender()), (at(2), 7, at(1)));
    refused!("a second time", receive(at(2), Timeout::Zero), Receive Timeout);
    for id in [after, before] {
        same!("the others still wait", receive(id, Timeout::Zero)?.words[0], 100);
    }
    Ok(())
}

fn forged_marks() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: describe::<0>, clan: &[] };
    found(&FAMILY)?;
    let tag = Tag(TAG_REDIRECTED | TAG_FROM_OUTSIDE | TAG_PROPAGATED | 1 << 31);
    send(at(1), Message { tag, words: [0; 6] }, Timeout::Never)?;
    same!("flags", told_by(1)?.flags, 0);
    Ok(())
}

/// Makes the worker the pager or the handler of the calling thread.
fn watched_by_worker(mask: u64) {
    touch_image();
    let mut record = ExRegs::zeroed();
    (record.pager, record.handler) = (at(WORKER).0, at(WORKER).0);
    let _ = thread::exchange(utcb::my_id(), mask, &mut record);
}

/// Faults with the worker as its pager, and reports to its chief what it read.
extern "C" fn fault(_: u64) -> ! {
    watched_by_worker(EX_PAGER);
    let word = peek(WINDOW);
    let _ = send(at(1), Message::new(0, &[word]), Timeout::Never);
    park()
}

/// Reports the first message to the worker, answers it with a page that begins with 77, reports the
/// next.
extern "C" fn serve_fault(_: u64) -> ! {
    let page = page();
    // SAFETY: the page is new.
    unsafe { poke(page, 77) };
    if let Ok(got) = wait(Timeout::Never) {
        let _ = send(at(WORKER), description(&got), Timeout::Never);
        let item = MapItem { send_base: WINDOW, fpage: Fpage::memory(page, 12, FPAGE_RWX).0 };
        let _ = send(got.from, Message::label(0).with_maps(&[item]), Timeout::Never);
    }
    describe::<0>(0)
}

fn fault_outside() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: serve_fault, clan: &[leaf(2, fault)] };
    found(&FAMILY)?;
    let got = told_by(1)?;
    same!("kind, sender, flags", (got.kind, got.from, got.flags), (KIND_PAGE_FAULT, at(2), TAG_REDIRECTED));
    same!("destination, address", (got.destination, got.word), (at(WORKER), WINDOW));
    let got = told_by(1)?;
    same!("then: sender, word read", (got.from, got.word), (at(2), 77));
    Ok(())
}

/// Raises #UD with the worker as its handler.
extern "C" fn raise(_: u64) -> ! {
    watched_by_worker(EX_HANDLER);
    keel_l4::start::stop()
}

fn exception_outside() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: describe::<0>, clan: &[leaf(2, raise)] };
    found(&FAMILY)?;
    let got = told_by(1)?;
    same!("kind, sender, flags", (got.kind, got.from, got.flags), (KIND_EXCEPTION, at(2), TAG_REDIRECTED));
    same!("destination", got.destination, at(WORKER));
    Ok(())
}

/// Notifies the worker and reports the status to its chief.
extern "C" fn notify_worker(_: u64) -> ! {
    let _ = send(at(1), Message::new(0, &[code(notify(at(WORKER), 1))]), Timeout::Never);
    park()
}

fn notification() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: pass, clan: &[leaf(2, notify_worker)] };
    found(&FAMILY)?;
    same!("outward", receive(at(1), Timeout::Never)?.words[0], SIDE_SEND << 8 | ERROR_DENIED);
    refused!("inward", notify(at(2), 1), Send Denied);
    Ok(())
}

/// Waits for the task at slot 2 and stores the result in cell 1.
extern "C" fn wait_for_member(_: u64) -> ! {
    cell(1).store(code(receive(at(2), Timeout::Never).map(|_| ())), SeqCst);
    park()
}

/// Sends to a task outside the clan and stores the result in cell 2.
extern "C" fn send_outward(_: u64) -> ! {
    cell(2).store(code(send(at(WORKER), Message::label(0), Timeout::Never)), SeqCst);
    park()
}

fn chief_ends() -> Outcome {
    static FAMILY: Member = Member { slot: 1, main: idle, clan: &[leaf(2, send_outward)] };
    let child = found(&FAMILY)?;
    helper(wait_for_member, 0)?;
    pause(10_000_000);
    same!("both wait", (cell(1).load(SeqCst), cell(2).load(SeqCst)), (0, 0));
    remove(at(1))?;
    pause(10_000_000);
    same!("the member's status", cell(2).load(SeqCst), SIDE_SEND << 8 | ERROR_NO_PARTNER);
    same!("its waiting partner still waits", cell(1).load(SeqCst), 0);
    remove_task(child.number)?;
    pause(10_000_000);
    same!("the partner's status", cell(1).load(SeqCst), SIDE_RECEIVE << 8 | ERROR_NO_PARTNER);
    Ok(())
}

fn family_leaves_nothing() -> Outcome {
    static FAMILY: Member = Member {
        slot: 1,
        main: pass,
        clan: &[
            leaf(2, tell::<0>),
            Member { slot: 3, main: idle, clan: &[leaf(4, tell::<0>), leaf(5, describe::<0>)] },
        ],
    };
    let mut before = None;
    for _ in 0..10 {
        let child = found(&FAMILY)?;
        pause(2_000_000);
        remove_task(child.number)?;
        crate::pool::reset_stacks();
        let account = kernel_object::account(Id::NIL)?;
        same!("the account", account, *before.get_or_insert(account));
    }
    Ok(())
}

fn all_die() -> Outcome {
    static FAMILY: Member = Member {
        slot: 1,
        main: pass,
        clan: &[Member { slot: 2, main: pass, clan: &[leaf(3, idle), leaf(4, idle)] }, leaf(5, idle)],
    };
    let child = found(&FAMILY)?;
    remove_task(child.number)?;
    for slot in 1..=5 {
        refused!("a task of the family", thread::nearest(at(slot)), Call NoPartner);
        // The number belongs to the suite again.
        keel_l4::task::create_empty(&NewTask { number: at(slot).task(), ..NewTask::default() })?;
        remove_task(at(slot).task())?;
    }
    Ok(())
}
