// SPDX-License-Identifier: BSD-2-Clause
//! Transfers that reach a missing page or are ended in the middle, each with either partner as the
//! active one.

use crate::case::{Case, Fault, Outcome};
use crate::pool::{cell, page, pages, poke, PAGE, WINDOW};
use crate::post::{failed, Job, Post};
use crate::threads::{base_priority, helper, in_image, park, pause, remove, same_place, Spawn};
use crate::topics::strings::{arrived, fill, item};
use crate::topics::window::{map_own, slot};
use crate::{holds, refused, same};
use core::mem::offset_of;
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::{EX_CANCEL, EX_IP, EX_START, EX_TRIGGER};
use keel_l4::abi::{ExRegs, Frame, MapItem, StringItem};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, sleep, wait, Message, Received, Timeout};
use keel_l4::kip::now;
use keel_l4::protocol::status::ERROR_MESSAGE_CUT;
use keel_l4::{mapping, strings, thread, utcb, Error, Fpage, Id, Side, Tag};

pub const CASES: &[Case] = &[
    ("fault-message-and-states", message_and_states),
    ("fault-answered", answered),
    ("fault-at-every-page", every_page),
    ("fault-in-both-spaces", both_spaces),
    ("fault-in-a-child-task", in_child),
    ("read-only-buffer", read_only),
    ("fault-while-the-pager-is-busy", busy_pager),
    ("answer-without-a-page-faults-again", faults_again),
    ("frame-in-the-answer-is-not-taken", frame_ignored),
    ("fault-timeout-zero", timeout_zero),
    ("fault-timeout-passes", timeout_passes),
    ("fault-timeout-passes-in-the-pager's-queue", timeout_in_queue),
    ("fault-timeout-passes-while-it-is-answered", timeout_in_answer),
    ("fault-timeout-absolute", timeout_absolute),
    ("fault-timeout-ends-with-the-answer", timeout_ends),
    ("fault-timeout-ends-with-a-cancelled-transfer", no_late_receive_timeout),
    ("fault-timeout-ends-no-later-send", no_late_send_timeout),
    ("fault-timeout-spoils-no-register", no_spoilt_register),
    ("fault-timeout-never", timeout_never),
    ("fault-timeout-is-the-partner's", timeout_of_partner),
    ("fault-timeout-is-that-of-the-phase", timeout_of_phase),
    ("fault-timeout-begins-with-each-fault", timeout_each),
    ("fault-without-a-pager", no_pager),
    ("pager-deleted-before-it-took-the-fault", pager_deleted_early),
    ("pager-deleted-before-it-answered", pager_deleted_late),
    ("partner-as-pager", partner_as_pager),
    ("cancelled", cancelled),
    ("deleted", deleted),
    ("task-deleted", task_deleted),
    ("late-answer", late_answer),
    ("registers-exchanged-in-the-middle", registers_exchanged),
    ("trigger-waits-for-the-end", trigger_waits),
    ("answer-with-strings-refused", answer_with_strings),
    ("others-wait-for-the-end", others_wait),
    ("call-goes-on-to-its-receive-phase", call_goes_on),
    ("map-items-before-a-cut-stay", maps_before_cut),
];

/// Address of the missing string or buffer.
const MISSING: u64 = WINDOW + 0x123;
/// Its size.
const SIZE: u64 = 500;
/// Pages in each item of an answer that takes long.
const ANSWER_PAGES: u64 = 16;

/// A sender and a receiver; one of them has a page missing in the middle of the transfer.
struct Pair {
    sender: Post,
    receiver: Post,
    /// The other end of the string, whose memory is mapped.
    present: u64,
    in_receiver: bool,
}

impl Pair {
    /// Prepares them, with `pager` for both. The page is missing in the receiver's space or the
    /// sender's.
    fn new(pager: Id, in_receiver: bool) -> Result<Pair, Failure> {
        let (sender, receiver) = (Post::paged_by(pager, 0)?, Post::paged_by(pager, 1)?);
        Ok(Pair { sender, receiver, present: page(), in_receiver })
    }

    /// Starts both; the sender first or second.
    fn meet(&self, queued: bool, of_sender: Timeout, of_receiver: Timeout) -> Outcome {
        let (missing, present) = (item(MISSING, SIZE), item(self.present, SIZE));
        let (from, to) = if self.in_receiver { (present, missing) } else { (missing, present) };
        self.meet_with(queued, &[from], &[to], of_sender, of_receiver)
    }

    fn meet_with(
        &self,
        queued: bool,
        from: &[StringItem],
        to: &[StringItem],
        of_sender: Timeout,
        of_receiver: Timeout,
    ) -> Outcome {
        let sends = Job::send(self.receiver.id, from).within(of_sender);
        let receives = Job::receive(self.sender.id, to).within(of_receiver);
        if queued {
            self.sender.start_and_wait(sends)?;
            self.receiver.start(receives)?;
        } else {
            self.receiver.start_and_wait(receives)?;
            self.sender.start(sends)?;
        }
        Ok(())
    }

    fn faulter(&self) -> Post {
        if self.in_receiver {
            self.receiver
        } else {
            self.sender
        }
    }

    fn other(&self) -> Post {
        if self.in_receiver {
            self.sender
        } else {
            self.receiver
        }
    }

    /// The fault message, as the worker gets it.
    fn fault(&self) -> Result<Received, Failure> {
        receive(self.faulter().id, Timeout::Never)
    }

    /// Both got `error` in this transfer.
    fn both_failed(&self, error: Error) -> Outcome {
        same!("the sender's status", self.sender.end()?.status, failed(Side::Send, error));
        let end = self.receiver.end()?;
        same!("the receiver's status, sender", (end.status, end.from), (failed(Side::Receive, error), self.sender.id));
        Ok(())
    }

    /// Both succeeded.
    fn both_done(&self) -> Outcome {
        same!("both statuses", (self.sender.end()?.status, self.receiver.end()?.status), (Ok(()), Ok(())));
        Ok(())
    }

    fn remove(&self) -> Outcome {
        remove(self.sender.id)?;
        remove(self.receiver.id)?;
        crate::pool::reset_stacks();
        mapping::unmap(Fpage::memory(WINDOW, 24, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
        Ok(())
    }
}

/// Runs `check` with a page missing on either side, for either order of the partners.
fn in_all_ways(check: impl Fn(&Pair) -> Outcome) -> Outcome {
    in_all_ways_within(Timeout::Never, check)
}

fn in_all_ways_within(faults: Timeout, check: impl Fn(&Pair) -> Outcome) -> Outcome {
    for way in 0..4 {
        let pair = Pair::new(utcb::my_id(), way & 1 != 0)?;
        pair.meet(way & 2 != 0, faults, faults)?;
        check(&pair)?;
        pair.remove()?;
    }
    Ok(())
}

/// The answer that maps the suite's page at `from` to the page of `address`.
fn page_for(address: u64, from: u64) -> Message {
    let item = MapItem { send_base: address & !(PAGE - 1), fpage: Fpage::memory(from, 12, FPAGE_RWX).0 };
    Message::label(0).with_maps(&[item])
}

fn message_and_states() -> Outcome {
    in_all_ways(|pair| {
        let fault = pair.fault()?;
        let access = if pair.in_receiver { FPAGE_WRITE } else { FPAGE_READ };
        same!("kind, access", (fault.tag.kind(), fault.tag.label() as u64), (KIND_PAGE_FAULT, access));
        same!("address, frame, cause", (fault.words[0], fault.words[2], fault.words[3]), (MISSING, FRAME_NONE, 0));
        holds!("an ip in the code", in_image(fault.words[1]));
        let (faulter, other) = (pair.faulter(), pair.other());
        same!("the faulter's state", faulter.state()?, (STATE_FAULTED, utcb::my_id()));
        same!("the other's state", other.state()?, (STATE_TRANSFERRING, faulter.id));
        Ok(())
    })
}

fn answered() -> Outcome {
    in_all_ways(|pair| {
        let fault = pair.fault()?;
        let from = page();
        fill(from, PAGE);
        fill(pair.present, PAGE);
        send(pair.faulter().id, page_for(fault.words[0], from), Timeout::Zero)?;
        pair.both_done()?;
        let (source, target) =
            if pair.in_receiver { (pair.present, from + 0x123) } else { (from + 0x123, pair.present) };
        same!(
            "what was copied",
            crate::topics::strings::bytes(target, SIZE) == crate::topics::strings::bytes(source, SIZE),
            true
        );
        Ok(())
    })
}

/// Pages in a string, all of which are missing.
const PAGES: u64 = 4;

fn every_page() -> Outcome {
    for in_receiver in [false, true] {
        let (memory, present) = (pages(PAGES), pages(PAGES + 1));
        let (missing, there) = (item(WINDOW + 8, PAGES * PAGE - 8), item(present + 8, PAGES * PAGE - 8));
        let pair = Pair::new(utcb::my_id(), in_receiver)?;
        let (from, to) = if in_receiver { (there, missing) } else { (missing, there) };
        let source = if in_receiver { present } else { memory };
        fill(source, PAGES * PAGE);
        pair.meet_with(false, &[from], &[to], Timeout::Never, Timeout::Never)?;
        for n in 0..PAGES {
            let fault = pair.fault()?;
            same!("the address", fault.words[0], WINDOW + n * PAGE + if n == 0 { 8 } else { 0 });
            send(pair.faulter().id, page_for(fault.words[0], memory + n * PAGE), Timeout::Zero)?;
        }
        pair.both_done()?;
        let target = if in_receiver { memory } else { present };
        let size = (PAGES * PAGE - 8) as usize;
        let bytes = |at: u64| crate::topics::strings::bytes(at + 8, size as u64);
        same!("all that was copied", bytes(target) == bytes(source), true);
        pair.remove()?;
    }
    Ok(())
}

fn both_spaces() -> Outcome {
    let (source, target) = (page(), page());
    fill(source, PAGE);
    let pair = Pair::new(utcb::my_id(), false)?;
    let (from, to) = (item(WINDOW, PAGE / 2), item(WINDOW + PAGE, PAGE / 2));
    pair.meet_with(false, &[from], &[to], Timeout::Never, Timeout::Never)?;
    let first = wait(Timeout::Never)?;
    same!("the sender's fault first", (first.from, first.words[0]), (pair.sender.id, WINDOW));
    send(first.from, page_for(WINDOW, source), Timeout::Zero)?;
    let second = wait(Timeout::Never)?;
    same!("then the receiver's", (second.from, second.words[0]), (pair.receiver.id, WINDOW + PAGE));
    send(second.from, page_for(WINDOW + PAGE, target), Timeout::Zero)?;
    pair.both_done()?;
    arrived(source, target, PAGE / 2)
}

/// Answers the faults of a child task in the image until another fault comes.
fn serve(mut message: Received) -> Result<Received, Failure> {
    while message.tag.kind() == KIND_PAGE_FAULT && in_image(message.words[0]) {
        let answer = Message::label(0).with_maps(&[same_place(message.words[0], FPAGE_RWX)]);
        message = call(message.from, answer)?;
    }
    Ok(message)
}

fn in_child() -> Outcome {
    let (source, target) = (page(), page());
    fill(source, PAGE);
    let sender = Post::create(0)?;
    let job = Job::receive(sender.id, &[item(MISSING, SIZE)]);
    let receiver = Post::in_child_paged_by(utcb::my_id(), 1, job)?;
    sender.start(Job::send(receiver.id, &[item(source, SIZE)]))?;
    let fault = serve(receive(receiver.id, Timeout::Never)?)?;
    same!("the address", fault.words[0], MISSING);
    same!("the sender's state", sender.state()?.0, STATE_TRANSFERRING);
    // The child reports on a page of the image that it may not have accessed yet.
    let report = serve(call(receiver.id, page_for(MISSING, target))?)?;
    same!("the child's report", report.tag.kind(), KIND_USER);
    same!("the sender's status", sender.end()?.status, Ok(()));
    arrived(source, target + 0x123, SIZE)
}

fn read_only() -> Outcome {
    map_own(page(), FPAGE_READ, 0)?;
    let pair = Pair::new(utcb::my_id(), true)?;
    pair.meet(false, Timeout::Never, Timeout::Never)?;
    let fault = pair.fault()?;
    same!(
        "access, address, cause",
        (fault.tag.label() as u64, fault.words[0], fault.words[3]),
        (FPAGE_WRITE, MISSING, 1)
    );
    let target = page();
    fill(pair.present, PAGE);
    send(pair.receiver.id, page_for(MISSING, target), Timeout::Zero)?;
    pair.both_done()?;
    arrived(pair.present, target + 0x123, SIZE)
}

fn busy_pager() -> Outcome {
    in_all_ways(|pair| {
        // The worker is the pager and does not receive yet.
        pair.faulter().reaches_with(STATE_SENDING, utcb::my_id())?;
        same!("the other's state", pair.other().state()?, (STATE_TRANSFERRING, pair.faulter().id));
        let fault = pair.fault()?;
        send(pair.faulter().id, page_for(fault.words[0], page()), Timeout::Zero)?;
        pair.both_done()
    })
}

fn faults_again() -> Outcome {
    in_all_ways(|pair| {
        let first = pair.fault()?;
        for _ in 0..3 {
            same!("the same fault", call(pair.faulter().id, Message::label(0))?.words, first.words);
        }
        Ok(())
    })
}

extern "C" fn astray(_: u64) -> ! {
    cell(3).store(1, SeqCst);
    park()
}

fn frame_ignored() -> Outcome {
    in_all_ways(|pair| {
        let fault = pair.fault()?;
        let word = |offset: usize| REGISTER_WORDS as usize + offset / 8;
        utcb::set_word(word(offset_of!(Frame, ip)), astray as *const () as u64);
        utcb::set_word(word(offset_of!(Frame, si)), u64::MAX);
        let message = page_for(fault.words[0], page());
        let tag = Tag::new(0, fault.tag.words()).with_maps(1);
        send(pair.faulter().id, Message { tag, ..message }, Timeout::Zero)?;
        pair.both_done()?;
        same!("threads that went astray", cell(3).load(SeqCst), 0);
        Ok(())
    })
}

/// The errors when a fault takes too long.
fn too_long(pair: &Pair) -> Outcome {
    pair.both_failed(if pair.in_receiver { Error::SendFault } else { Error::ReceiveFault })
}

fn timeout_zero() -> Outcome {
    in_all_ways_within(Timeout::Zero, |pair| {
        too_long(pair)?;
        refused!("no fault was sent", wait(Timeout::Zero), Receive Timeout);
        Ok(())
    })
}

/// A short time, in ns.
const SHORT: u64 = 3_000_000;

/// A long time in ns: a fault comes within it even if the emulator is delayed.
const LONG: u64 = 300_000_000;

fn timeout_passes() -> Outcome {
    in_all_ways_within(Timeout::After(SHORT), |pair| {
        let fault = pair.fault()?;
        let began = now();
        too_long(pair)?;
        holds!("no more than 5 s", now() - began < 5_000_000_000);
        let answer = page_for(fault.words[0], page());
        refused!("a late answer", send(pair.faulter().id, answer, Timeout::Zero), Send Timeout);
        Ok(())
    })
}

fn timeout_in_queue() -> Outcome {
    let deaf = helper(idle, 0)?;
    for way in 0..4 {
        let pair = Pair::new(deaf, way & 1 != 0)?;
        pair.meet(way & 2 != 0, Timeout::After(SHORT), Timeout::After(SHORT))?;
        too_long(&pair)?;
        pair.remove()?;
    }
    Ok(())
}

/// The answer maps so much that the time passes meanwhile: the answer is too late, and the faulter
/// wakes only once.
fn timeout_in_answer() -> Outcome {
    const BEFORE: u64 = 200_000;
    let source = pages(ANSWER_PAGES);
    for way in 0..4 {
        // The time is doubled until the fault comes before it: the emulator may have been delayed.
        let mut length = LONG;
        let (pair, end) = loop {
            let pair = Pair::new(utcb::my_id(), way & 1 != 0)?;
            let end = now() + length;
            pair.meet(way & 2 != 0, Timeout::At(end), Timeout::At(end))?;
            if receive(pair.faulter().id, Timeout::At(end)).is_ok() {
                break (pair, end);
            }
            pair.remove()?;
            length *= 2;
        };
        let size = ANSWER_PAGES * PAGE;
        let items: [MapItem; MAX_MAP_ITEMS as usize] = core::array::from_fn(|n| MapItem {
            send_base: WINDOW + (1 + n as u64) * size,
            fpage: Fpage::memory(source, size.ilog2() as u8, FPAGE_RWX).0,
        });
        while now() < end - BEFORE {
            core::hint::spin_loop();
        }
        let answer = Message::label(0).with_maps(&items);
        // Whether it is too late depends on the machine's speed and on the time of its interrupt.
        // If it is in time, the page is still missing. The end of the transfer does not depend on
        // that.
        let _ = send(pair.faulter().id, answer, Timeout::Zero);
        too_long(&pair)?;
        pair.remove()?;
    }
    Ok(())
}

fn timeout_absolute() -> Outcome {
    let mut length = 5 * SHORT;
    while !passes_at(now() + length)? {
        length *= 2;
    }
    same!("a fault after its time", passes_at(1)?, false);
    Ok(())
}

/// A fault whose time ends at `end`. False: it did not come before, because the emulator was
/// delayed.
fn passes_at(end: u64) -> Result<bool, Fault> {
    let pair = Pair::new(utcb::my_id(), true)?;
    pair.meet(false, Timeout::At(end), Timeout::Zero)?;
    let came = receive(pair.faulter().id, Timeout::At(end)).is_ok();
    too_long(&pair)?;
    refused!("nothing else comes", wait(Timeout::Zero), Receive Timeout);
    pair.remove()?;
    Ok(came)
}

/// The sender's timeout for sends applies if the receiver faults, the receiver's timeout for
/// receives if the sender does.
fn timeout_of_phase() -> Outcome {
    for way in 0..4 {
        let (in_receiver, allowed) = (way & 1 != 0, way & 2 != 0);
        let pair = Pair::new(utcb::my_id(), in_receiver)?;
        let (counts, other) = if allowed { (Timeout::Never, Timeout::Zero) } else { (Timeout::Zero, Timeout::Never) };
        let (sends, receives) = if in_receiver { (counts, other) } else { (other, counts) };
        let (missing, present) = (item(MISSING, SIZE), item(pair.present, SIZE));
        let (from, to) = if in_receiver { (present, missing) } else { (missing, present) };
        pair.receiver.start_and_wait(Job::receive(pair.sender.id, &[to]).within_each(sends, receives))?;
        pair.sender.start(Job::send(pair.receiver.id, &[from]).within_each(sends, receives))?;
        if allowed {
            let fault = pair.fault()?;
            send(pair.faulter().id, page_for(fault.words[0], page()), Timeout::Zero)?;
            pair.both_done()?;
        } else {
            too_long(&pair)?;
        }
        pair.remove()?;
    }
    Ok(())
}

/// Receives a string from the thread in cell 6 into a missing page, then a word from the worker,
/// and counts in cell 1 what arrived.
extern "C" fn string_then_word(worker: u64) -> ! {
    // SAFETY: the page that the case maps there is for this.
    unsafe { strings::offer(&[item(MISSING, SIZE)]) };
    for from in [Id(cell(6).load(SeqCst)), Id(worker)] {
        cell(1).fetch_add(receive(from, Timeout::Never).is_ok() as u64, SeqCst);
    }
    park()
}

/// The time of a fault that is answered must not end the next wait of its thread.
fn timeout_ends() -> Outcome {
    let sender = Post::create(0)?;
    cell(6).store(sender.id.0, SeqCst);
    let receiver = Spawn::watched(string_then_word, utcb::my_id().0).start()?;
    sender.start(Job::send(receiver, &[item(page(), SIZE)]).within(Timeout::After(LONG)))?;
    let fault = receive(receiver, Timeout::Never)?;
    send(receiver, page_for(fault.words[0], page()), Timeout::Zero)?;
    same!("the sender's status", sender.end()?.status, Ok(()));
    pause(LONG + LONG / 2);
    let state = thread::schedule(receiver, 0, 0, 0)?.state;
    same!("what came, and its state", (cell(1).load(SeqCst), state), (1, STATE_RECEIVING));
    send(receiver, Message::label(0), Timeout::Zero)?;
    pause(1_000_000);
    same!("what came", cell(1).load(SeqCst), 2);
    Ok(())
}

/// Receives a string into a missing page, and then acts by cell 7: waits for no sender (0), sends
/// to the worker (1), or loads from a missing page (2). Cell 2 says that this has ended, or has the
/// value of rax then.
extern "C" fn string_then_more(worker: u64) -> ! {
    // SAFETY: the page that the case maps there is for this.
    unsafe { strings::offer(&[item(MISSING, SIZE)]) };
    let _ = receive(Id(cell(6).load(SeqCst)), Timeout::Never);
    let mut ax = KNOWN;
    match cell(7).load(SeqCst) {
        0 => drop(receive(Id::NIL, Timeout::Never)),
        1 => drop(send(Id(worker), Message::label(0), Timeout::Never)),
        // SAFETY: the case maps the page.
        _ => unsafe { core::arch::asm!("mov rcx, [{at}]", at = in(reg) OTHER, inout("rax") ax, out("rcx") _) },
    }
    cell(2).store(ax, SeqCst);
    park()
}

/// The value of rax in a thread while it loads.
const KNOWN: u64 = 0x1122_3344_5566_7788;
/// The value that it loads.
const OTHER: u64 = WINDOW + 16 * PAGE;

/// Such a thread, whose fault was answered, and whose transfer was ended before it could resume it.
/// The client of that transfer let its faults take `LONG`.
fn after_ended_transfer(then: u64, end: impl Fn(Id, Id) -> Result<(), Failure>) -> Result<Id, Fault> {
    let client = Post::create(0)?;
    cell(2).store(0, SeqCst);
    cell(6).store(client.id.0, SeqCst);
    cell(7).store(then, SeqCst);
    let server = Spawn::watched(string_then_more, utcb::my_id().0).create()?;
    thread::set_priority(server, base_priority() - 1)?;
    thread::act(server, EX_START)?;
    while thread::schedule(server, 0, 0, 0)?.state != STATE_RECEIVING {
        sleep(100_000);
    }
    client.start(Job::send(server, &[item(page(), SIZE)]).within(Timeout::After(LONG)))?;
    let fault = receive(server, Timeout::Never)?;
    same!("kind, address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, MISSING));
    send(server, page_for(MISSING, page()), Timeout::Zero)?;
    end(client.id, server)?;
    Ok(server)
}

fn cancel(thread: Id) -> Result<(), Failure> {
    thread::act(thread, EX_CANCEL).map(|_| ())
}

fn no_late_receive_timeout() -> Outcome {
    let server = after_ended_transfer(0, |_, server| cancel(server))?;
    pause(2 * LONG);
    let state = thread::schedule(server, 0, 0, 0)?.state;
    same!("its wait with never, and its state", (cell(2).load(SeqCst), state), (0, STATE_RECEIVING));
    Ok(())
}

fn no_late_send_timeout() -> Outcome {
    let server = after_ended_transfer(1, |_, server| cancel(server))?;
    pause(2 * LONG);
    same!("its send with never", cell(2).load(SeqCst), 0);
    receive(server, Timeout::Zero)?;
    Ok(())
}

/// Whichever thread ends the transfer: the later fault is another one, and its pager is busy.
fn no_spoilt_register() -> Outcome {
    type End = fn(Id, Id) -> Result<(), Failure>;
    let ends: [End; 3] = [|_, server| cancel(server), |client, _| cancel(client), |client, _| remove(client)];
    for end in ends {
        let server = after_ended_transfer(2, end)?;
        pause(2 * LONG);
        let fault = receive(server, Timeout::Zero)?;
        same!("kind, address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, OTHER));
        send(server, page_for(OTHER, page()), Timeout::Zero)?;
        pause(1_000_000);
        same!("rax", cell(2).load(SeqCst), KNOWN);
        remove(server)?;
        mapping::unmap(slot(0), UNMAP_RIGHTS | UNMAP_FLUSH)?;
        mapping::unmap(slot((OTHER - WINDOW) / PAGE), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    }
    Ok(())
}

fn timeout_never() -> Outcome {
    in_all_ways_within(Timeout::Never, |pair| {
        let fault = pair.fault()?;
        pause(5 * SHORT);
        same!("the faulter's state", pair.faulter().state()?.0, STATE_FAULTED);
        send(pair.faulter().id, page_for(fault.words[0], page()), Timeout::Zero)?;
        pair.both_done()
    })
}

fn timeout_of_partner() -> Outcome {
    for in_receiver in [false, true] {
        // The partner whose page is missing sets no timeout itself; that has no effect.
        let pair = Pair::new(utcb::my_id(), in_receiver)?;
        let (of_sender, of_receiver) =
            if in_receiver { (Timeout::Never, Timeout::Zero) } else { (Timeout::Zero, Timeout::Never) };
        pair.meet(false, of_sender, of_receiver)?;
        let fault = pair.fault()?;
        send(pair.faulter().id, page_for(fault.words[0], page()), Timeout::Zero)?;
        pair.both_done()?;
        pair.remove()?;
        let pair = Pair::new(utcb::my_id(), in_receiver)?;
        pair.meet(false, of_receiver, of_sender)?;
        too_long(&pair)?;
        pair.remove()?;
    }
    Ok(())
}

/// A time in ns within which everything else in a case is certainly finished.
const PATIENT: u64 = 1_000_000_000;

fn timeout_each() -> Outcome {
    let (present, memory) = (pages(2), page());
    let pair = Pair::new(utcb::my_id(), true)?;
    let (from, to) = (item(present, 2 * PAGE), item(WINDOW, 2 * PAGE));
    pair.meet_with(false, &[from], &[to], Timeout::After(PATIENT), Timeout::Zero)?;
    pair.fault()?;
    pause(20_000_000);
    let second = now();
    same!("the second page's address", call(pair.receiver.id, page_for(WINDOW, memory))?.words[0], WINDOW + PAGE);
    too_long(&pair)?;
    holds!("the whole time for the second fault", now() >= second + PATIENT);
    Ok(())
}

fn no_pager() -> Outcome {
    for way in 0..4 {
        for pager in [Id::NIL, Id::INVALID] {
            let pair = Pair::new(pager, way & 1 != 0)?;
            pair.meet(way & 2 != 0, Timeout::Never, Timeout::Never)?;
            pair.both_failed(Error::Aborted)?;
            pair.remove()?;
        }
    }
    Ok(())
}

extern "C" fn idle(_: u64) -> ! {
    park()
}

/// Takes one message and never answers.
extern "C" fn taker(_: u64) -> ! {
    let _ = wait(Timeout::Never);
    park()
}

fn pager_deleted(main: crate::threads::Main, state: u64) -> Outcome {
    for way in 0..4 {
        let pager = helper(main, 0)?;
        let pair = Pair::new(pager, way & 1 != 0)?;
        pair.meet(way & 2 != 0, Timeout::After(PATIENT), Timeout::After(PATIENT))?;
        pair.faulter().reaches_with(state, pager)?;
        remove(pager)?;
        pair.both_failed(Error::Aborted)?;
        pair.remove()?;
    }
    Ok(())
}

fn pager_deleted_early() -> Outcome {
    pager_deleted(idle, STATE_SENDING)
}

fn pager_deleted_late() -> Outcome {
    pager_deleted(taker, STATE_FAULTED)
}

fn partner_as_pager() -> Outcome {
    // The sender is the receiver's pager: it cannot answer, but the timeout ends the transfer.
    let sender = Post::create(0)?;
    let receiver = Post::paged_by(sender.id, 1)?;
    receiver.start_and_wait(Job::receive(sender.id, &[item(MISSING, SIZE)]))?;
    sender.start(Job::send(receiver.id, &[item(page(), SIZE)]).within(Timeout::After(SHORT)))?;
    let both = (failed(Side::Send, Error::SendFault), failed(Side::Receive, Error::SendFault));
    same!("both statuses", (sender.end()?.status, receiver.end()?.status), both);
    Ok(())
}

/// Runs `check` on a transfer whose fault is in its pager's queue, or was received by the pager.
/// `check` gets the victim and the other partner.
fn struck(check: impl Fn(&Pair, Post, Post) -> Outcome) -> Outcome {
    for way in 0..16 {
        let taken = way & 4 != 0;
        let pager = helper(if taken { taker } else { idle }, 0)?;
        let pair = Pair::new(pager, way & 1 != 0)?;
        pair.meet(way & 2 != 0, Timeout::Never, Timeout::Never)?;
        let (faulter, other) = (pair.faulter(), pair.other());
        faulter.reaches_with(if taken { STATE_FAULTED } else { STATE_SENDING }, pager)?;
        match way & 8 {
            0 => check(&pair, faulter, other)?,
            _ => check(&pair, other, faulter)?,
        }
        remove(pager)?;
        crate::pool::reset_stacks();
    }
    Ok(())
}

fn cancelled() -> Outcome {
    struck(|pair, victim, _| {
        thread::act(victim.id, EX_CANCEL)?;
        pair.both_failed(Error::Aborted)?;
        pair.remove()
    })
}

fn deleted() -> Outcome {
    struck(|pair, victim, left| {
        remove(victim.id)?;
        let side = if left.id == pair.sender.id { Side::Send } else { Side::Receive };
        same!("the other's status", left.end()?.status, failed(side, Error::Aborted));
        Ok(remove(left.id)?)
    })
}

fn task_deleted() -> Outcome {
    let sender = Post::create(0)?;
    let job = Job::receive(sender.id, &[item(MISSING, SIZE)]);
    let receiver = Post::in_child_paged_by(utcb::my_id(), 1, job)?;
    sender.start(Job::send(receiver.id, &[item(page(), SIZE)]))?;
    serve(receive(receiver.id, Timeout::Never)?)?;
    crate::threads::remove_task(receiver.id.task())?;
    same!("the sender's status", sender.end()?.status, failed(Side::Send, Error::Aborted));
    Ok(())
}

fn late_answer() -> Outcome {
    in_all_ways(|pair| {
        let fault = pair.fault()?;
        thread::act(pair.other().id, EX_CANCEL)?;
        pair.both_failed(Error::Aborted)?;
        let answer = page_for(fault.words[0], page());
        refused!("an answer", send(pair.faulter().id, answer, Timeout::Zero), Send Timeout);
        same!("nothing was mapped", mapping::unmap(slot(0), UNMAP_RIGHTS)?, 0);
        Ok(())
    })
}

extern "C" fn landing(_: u64) -> ! {
    let _ = send(Id(cell(4).load(SeqCst)), Message::label(77), Timeout::Never);
    park()
}

fn registers_exchanged() -> Outcome {
    cell(4).store(utcb::my_id().0, SeqCst);
    in_all_ways(|pair| {
        let fault = pair.fault()?;
        let moved = pair.other();
        let mut record = ExRegs::zeroed();
        record.ip = landing as *const () as u64;
        thread::exchange(moved.id, EX_IP, &mut record)?;
        same!("its state in the record", record.state, STATE_TRANSFERRING);
        same!("its state afterwards", moved.state()?.0, STATE_TRANSFERRING);
        send(pair.faulter().id, page_for(fault.words[0], page()), Timeout::Zero)?;
        same!("the faulter's status", pair.faulter().end()?.status, Ok(()));
        same!("the other one resumes on the new processor", receive(moved.id, Timeout::Never)?.tag.label(), 77);
        Ok(())
    })
}

fn trigger_waits() -> Outcome {
    let (sender, receiver) = (Post::create(0)?, Post::paged_by(utcb::my_id(), 1)?);
    let mut record = ExRegs::zeroed();
    record.handler = utcb::my_id().0;
    thread::exchange(receiver.id, keel_l4::abi::memory::EX_HANDLER, &mut record)?;
    receiver.start_and_wait(Job::receive(sender.id, &[item(MISSING, SIZE)]))?;
    sender.start(Job::send(receiver.id, &[item(page(), SIZE)]))?;
    let fault = receive(receiver.id, Timeout::Never)?;
    same!("first the fault", fault.tag.kind(), KIND_PAGE_FAULT);
    thread::act(receiver.id, EX_TRIGGER)?;
    same!("its state", receiver.state()?.0, STATE_FAULTED);
    let trigger = call(receiver.id, page_for(MISSING, page()))?;
    same!("then the trigger", trigger.tag.kind(), KIND_TRIGGER);
    same!("the sender is done by then", sender.end()?.status, Ok(()));
    send(receiver.id, Message::label(0), Timeout::Zero)?;
    same!("the receiver's status", receiver.end()?.status, Ok(()));
    Ok(())
}

extern "C" fn reader(address: u64) -> ! {
    crate::pool::peek(address);
    park()
}

fn answer_with_strings() -> Outcome {
    let id = Spawn::watched(reader, WINDOW).start()?;
    receive(id, Timeout::Never)?;
    let answer = Message::label(0).with_strings(&[strings::string(b"no")]);
    refused!("an answer with a string", send(id, answer, Timeout::Zero), Send MessageCut);
    same!("its state", thread::schedule(id, 0, 0, 0)?.state, STATE_FAULTED);
    send(id, page_for(WINDOW, page()), Timeout::Zero)?;
    Ok(())
}

extern "C" fn third(to: u64) -> ! {
    let _ = send(Id(to), Message::label(3), Timeout::Never);
    cell(5).fetch_add(1, SeqCst);
    park()
}

/// Receives a string from the thread in cell 6 into a missing page, then from any sender, and
/// reports to the worker what arrived.
extern "C" fn two_receives(worker: u64) -> ! {
    strings::set_fault_timeouts(Timeout::Never, Timeout::Never);
    // SAFETY: the page that the case maps there is for this.
    unsafe { strings::offer(&[item(MISSING, SIZE)]) };
    let first = receive(Id(cell(6).load(SeqCst)), Timeout::Never).map_or(0, |got| got.tag.strings());
    let second = wait(Timeout::Never).map_or(0, |got| got.tag.kind());
    let third = wait(Timeout::Never).map_or(0, |got| got.tag.label() as u64);
    let _ = send(Id(worker), Message::new(0, &[first, second, third]), Timeout::Never);
    park()
}

fn others_wait() -> Outcome {
    let sender = Post::create(0)?;
    cell(6).store(sender.id.0, SeqCst);
    let receiver = Spawn::watched(two_receives, utcb::my_id().0).start()?;
    sender.start(Job::send(receiver, &[item(page(), SIZE)]))?;
    receive(receiver, Timeout::Never)?;
    helper(third, receiver.0)?;
    keel_l4::ipc::notify(receiver, 8)?;
    pause(SHORT);
    same!("messages received meanwhile", cell(5).load(SeqCst), 0);
    let report = call(receiver, page_for(MISSING, page()))?;
    same!("a string, a notification, the third's", report.words[..3], [1, KIND_NOTIFY, 3]);
    same!("the sender's status", sender.end()?.status, Ok(()));
    Ok(())
}

/// Calls its argument with a missing string, and reports to the worker in cell 6 what came back.
extern "C" fn caller(to: u64) -> ! {
    strings::set_fault_timeouts(Timeout::Never, Timeout::Never);
    let got = call(Id(to), Message::label(1).with_strings(&[item(MISSING, SIZE)]));
    let label = got.map_or(u32::MAX, |got| got.tag.label());
    let _ = send(Id(cell(6).load(SeqCst)), Message::label(label), Timeout::Never);
    park()
}

extern "C" fn answerer(buffer: u64) -> ! {
    strings::set_fault_timeouts(Timeout::Never, Timeout::Never);
    // SAFETY: memory that belongs to the case.
    unsafe { strings::offer(&[item(buffer, PAGE)]) };
    if let Ok(got) = wait(Timeout::Never) {
        let length = strings::arrived(got.tag).next().map_or(0, |string| string.length);
        let _ = send(got.from, Message::label(length as u32), Timeout::Zero);
    }
    park()
}

fn call_goes_on() -> Outcome {
    cell(6).store(utcb::my_id().0, SeqCst);
    for queued in [false, true] {
        let server = Spawn::new(answerer, page()).create()?;
        if !queued {
            thread::act(server, keel_l4::abi::memory::EX_START)?;
            pause(1_000_000);
        }
        let client = Spawn::watched(caller, server.0).start()?;
        if queued {
            pause(1_000_000);
            thread::act(server, keel_l4::abi::memory::EX_START)?;
        }
        receive(client, Timeout::Never)?;
        let report = call(client, page_for(MISSING, page()))?;
        same!("the reply: the string's length", report.tag.label() as u64, SIZE);
        mapping::unmap(slot(0), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    }
    Ok(())
}

extern "C" fn giver_and_cut(to: u64) -> ! {
    let from = page();
    // SAFETY: this thread's own page.
    unsafe { poke(from, 4711) };
    let page = MapItem { send_base: 0, fpage: Fpage::memory(from, 12, FPAGE_RWX).0 };
    let message = Message::new(9, &[5]).with_maps(&[page]).with_strings(&[strings::string(b"too long")]);
    let status = send(Id(to), message, Timeout::Never);
    cell(7).store(status.map_or_else(|failure| failure.error as u64, |()| 0), SeqCst);
    park()
}

fn maps_before_cut() -> Outcome {
    let giver = helper(giver_and_cut, utcb::my_id().0)?;
    utcb::set_receive_window(slot(0));
    let got = receive(giver, Timeout::Never);
    utcb::set_receive_window(Fpage::NIL);
    refused!("the message", got, Receive MessageCut);
    same!("the page is there", crate::pool::peek(WINDOW), 4711);
    same!("where it was placed", utcb::map_item(0).send_base, WINDOW);
    pause(1_000_000);
    same!("the sender's error", cell(7).load(SeqCst), ERROR_MESSAGE_CUT);
    Ok(())
}
