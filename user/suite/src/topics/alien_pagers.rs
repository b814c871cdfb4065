// SPDX-License-Identifier: BSD-2-Clause
//! Alien threads whose pager is not their handler, the worker: what the pager forwards or cannot
//! take, and the effect of a trigger meanwhile. Also the right to change an alien thread.

use crate::alien::{code_load, code_syscall, Alien};
use crate::case::{Case, Outcome};
use crate::pool::{cell, page, poke, WINDOW};
use crate::threads::{child, helper, in_image, park, pause, remove, same_place, Main};
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{FPAGE_READ, FPAGE_RWX};
use keel_l4::abi::memory::*;
use keel_l4::abi::{ExRegs, MapItem};
use keel_l4::call::{checked, Failure, Registers};
use keel_l4::ipc::{answer_fault, call, receive, send_and_wait, wait, Message, Received, Timeout};
use keel_l4::{thread, Error, Fpage, Id, Tag};

pub const CASES: &[Case] = &[
    ("passed-on-to-the-handler", passed_on),
    ("passed-on-again-and-again", passed_on_often),
    ("passed-on-with-a-page", passed_on_with_page),
    ("the-handler-passes-nothing-on", handlers_own),
    ("the-pager-maps", pager_maps),
    ("no-pager", no_pager),
    ("pager-gone-while-it-is-busy", gone_while_busy),
    ("pager-gone-while-it-serves", gone_while_serving),
    ("gone-where-the-handler-is-the-pager", gone_with_far_handler),
    ("a-pager-out-of-reach-is-none", far_pager),
    ("triggered-while-the-pager-is-busy", triggered_while_busy),
    ("triggered-while-the-pager-serves", triggered_while_serving),
    ("its-own-task-may-not-change-it", not_its_own_tasks),
    ("an-answer-is-nothing-else", only_answers),
];

/// The value for a page in the window.
const VALUE: u64 = 0x1234;

/// Maps pages of the image and forwards all other faults.
extern "C" fn passing_pager(_: u64) -> ! {
    serve(|_| Some(Message { tag: Tag(TAG_FORWARD), ..Message::default() }))
}

/// Like [`passing_pager`], with map items in the forwarded message.
extern "C" fn two_minded_pager(page: u64) -> ! {
    serve(|got| {
        let item = MapItem { send_base: got.words[0] & !0xfff, fpage: Fpage::memory(page, 12, FPAGE_READ).0 };
        let answer = Message::label(0).with_maps(&[item]);
        Some(Message { tag: Tag(answer.tag.0 | TAG_FORWARD), ..answer })
    })
}

/// Maps pages of the image, and one given page for all other faults.
extern "C" fn mapping_pager(page: u64) -> ! {
    serve(|got| {
        let item = MapItem { send_base: got.words[0] & !0xfff, fpage: Fpage::memory(page, 12, FPAGE_READ).0 };
        Some(Message::label(0).with_maps(&[item]))
    })
}

/// Maps pages of the image, reports another fault in cell 1, and does not answer it.
extern "C" fn silent_pager(_: u64) -> ! {
    serve(|_| {
        cell(1).fetch_add(1, SeqCst);
        None
    })
}

extern "C" fn busy_pager(_: u64) -> ! {
    park()
}

fn serve(elsewhere: impl Fn(&Received) -> Option<Message>) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) => {
                let inside = got.tag.kind() == KIND_PAGE_FAULT && in_image(got.words[0]);
                let own = inside.then(|| Message::label(0).with_maps(&[same_place(got.words[0], FPAGE_RWX)]));
                match own.or_else(|| elsewhere(&got)) {
                    Some(answer) => send_and_wait(got.from, answer, Timeout::Zero, Timeout::Never),
                    None => wait(Timeout::Never),
                }
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

/// A stopped alien thread that loads from the window, then calls; with this pager.
fn loading(pager: Id) -> Result<Alien, Failure> {
    let alien = Alien::new(code_load, |frame| frame.di = WINDOW)?;
    let mut record = ExRegs::zeroed();
    record.pager = pager.0;
    thread::exchange(alien.id, EX_PAGER, &mut record)?;
    Ok(alien)
}

/// The answer of a handler that maps a page with [`VALUE`] where the thread loads.
fn with_value() -> Message {
    let page = page();
    // SAFETY: a page of this case.
    unsafe { poke(page, VALUE) };
    Message::label(0).with_maps(&[MapItem { send_base: WINDOW, fpage: Fpage::memory(page, 12, FPAGE_READ).0 }])
}

fn state_of(id: Id) -> Result<u64, Failure> {
    Ok(thread::schedule(id, 0, 0, 0)?.state)
}

/// The fault is the handler's now, which serves it.
fn is_served(alien: &Alien, fault: &Received) -> Outcome {
    same!("kind, access", (fault.tag.kind(), fault.tag.label() as u64), (KIND_PAGE_FAULT, FPAGE_READ));
    same!("address, ip", (fault.words[0], fault.words[1]), (WINDOW, alien.regs().ip));
    same!("frame index", fault.words[2], alien.frame);
    let called = call(alien.id, with_value())?;
    same!("it resumes", (called.tag.kind(), called.words[0]), (KIND_SYSCALL, VALUE));
    Ok(())
}

fn passed_on() -> Outcome {
    let alien = loading(helper(passing_pager, 0)?)?;
    is_served(&alien, &alien.start_raw()?)
}

fn passed_on_often() -> Outcome {
    let alien = loading(helper(passing_pager, 0)?)?;
    let mut fault = alien.start_raw()?;
    for _ in 0..100 {
        same!("kind", fault.tag.kind(), KIND_PAGE_FAULT);
        fault = call(alien.id, Message::label(0))?;
    }
    is_served(&alien, &fault)
}

fn passed_on_with_page() -> Outcome {
    let page = page();
    // SAFETY: a page of this case.
    unsafe { poke(page, VALUE + 1) };
    let alien = loading(helper(two_minded_pager, page)?)?;
    is_served(&alien, &alien.start_raw()?)
}

fn handlers_own() -> Outcome {
    let alien = Alien::new(code_load, |frame| frame.di = WINDOW)?;
    alien.start()?;
    let again = call(alien.id, Message { tag: Tag(TAG_FORWARD), ..Message::default() })?;
    same!("it went on", (again.tag.kind(), again.words[0]), (KIND_PAGE_FAULT, WINDOW));
    is_served(&alien, &again)
}

fn pager_maps() -> Outcome {
    let page = page();
    // SAFETY: a page of this case.
    unsafe { poke(page, VALUE) };
    let alien = loading(helper(mapping_pager, page)?)?;
    let called = alien.start_raw()?;
    same!("its first message is a call", (called.tag.kind(), called.words[0]), (KIND_SYSCALL, VALUE));
    Ok(())
}

fn no_pager() -> Outcome {
    for pager in [Id::NIL, Id::INVALID] {
        let alien = loading(pager)?;
        is_served(&alien, &alien.start()?)?;
    }
    Ok(())
}

/// A thread that waits for a pager; the fault is at the window if the pager serves it.
fn waiting_for(pager: Main, state: u64) -> Result<(Alien, Id), Failure> {
    cell(1).store(0, SeqCst);
    let pager = helper(pager, 0)?;
    let alien = loading(pager)?;
    alien.act(EX_START)?;
    while state_of(alien.id)? != state || state == STATE_FAULTED && cell(1).load(SeqCst) == 0 {
        pause(1_000_000);
    }
    Ok((alien, pager))
}

fn gone_while_busy() -> Outcome {
    let (alien, pager) = waiting_for(busy_pager, STATE_SENDING)?;
    remove(pager)?;
    let fault = alien.serve(receive(alien.id, Timeout::Never)?)?;
    is_served(&alien, &fault)
}

fn gone_while_serving() -> Outcome {
    let (alien, pager) = waiting_for(silent_pager, STATE_FAULTED)?;
    remove(pager)?;
    is_served(&alien, &receive(alien.id, Timeout::Never)?)
}

fn gone_with_far_handler() -> Outcome {
    let (alien, pager) = waiting_for(busy_pager, STATE_SENDING)?;
    let mut record = ExRegs::zeroed();
    record.handler = pager.0;
    thread::exchange(alien.id, EX_HANDLER, &mut record)?;
    remove(pager)?;
    same!("it stops", state_of(alien.id)?, STATE_INACTIVE);
    Ok(())
}

fn far_pager() -> Outcome {
    let alien = loading(Id::SIGMA0)?;
    is_served(&alien, &alien.start()?)
}

fn triggered_while_busy() -> Outcome {
    let (alien, _) = waiting_for(busy_pager, STATE_SENDING)?;
    for _ in 0..100 {
        alien.act(EX_TRIGGER)?;
        same!("the handler gets it", receive(alien.id, Timeout::Never)?.tag.kind(), KIND_TRIGGER);
        alien.release()?;
        pause(100_000);
        same!("then it faults again", state_of(alien.id)?, STATE_SENDING);
    }
    Ok(())
}

fn triggered_while_serving() -> Outcome {
    let (alien, pager) = waiting_for(silent_pager, STATE_FAULTED)?;
    alien.act(EX_TRIGGER)?;
    same!("the handler gets it", receive(alien.id, Timeout::Never)?.tag.kind(), KIND_TRIGGER);
    same!("the pager got one fault", cell(1).load(SeqCst), 1);
    alien.release()?;
    pause(10_000_000);
    same!("then it faults again", cell(1).load(SeqCst), 2);
    // A trigger before the thread runs has no further effect.
    alien.act(EX_TRIGGER)?;
    alien.act(EX_TRIGGER)?;
    same!("once more", receive(alien.id, Timeout::Never)?.tag.kind(), KIND_TRIGGER);
    remove(pager)?;
    is_served(&alien, &call(alien.id, Message::label(0))?)
}

/// Tries to change the thread; the error codes go to cells 1 to 4.
extern "C" fn meddler(thread: u64) -> ! {
    let id = Id(thread);
    let code = |result: Result<(), Failure>| result.map_or_else(|failure| failure.error as u64, |()| 0);
    cell(1).store(code(thread::act(id, EX_TRIGGER).map(|_| ())), SeqCst);
    cell(2).store(code(thread::act(id, EX_DELETE).map(|_| ())), SeqCst);
    cell(3).store(code(thread::set_priority(id, 1)), SeqCst);
    cell(4).store(code(thread::schedule(id, 0, 0, 0).map(|_| ())), SeqCst);
    cell(5).store(1, SeqCst);
    park()
}

fn not_its_own_tasks() -> Outcome {
    let host = child(busy_pager, 0)?;
    let alien = Alien::in_task(host.task, host.number, code_syscall, |_| ())?;
    alien.start()?;
    (1..=5).for_each(|index| cell(index).store(0, SeqCst));
    let mut record = ExRegs::zeroed();
    record.ip = meddler as *const () as u64;
    record.argument = alien.id.0;
    thread::exchange(host.thread, EX_IP | EX_ARGUMENT | EX_CANCEL, &mut record)?;
    while cell(5).load(SeqCst) == 0 {
        pause(1_000_000);
    }
    let refused = (1..=4).map(|index| cell(index).load(SeqCst)).filter(|code| *code == Error::Denied as u64).count();
    same!("refused", refused, 4);
    holds!("it is still there", alien.resume()?.tag.kind() == KIND_SYSCALL);
    Ok(())
}

fn only_answers() -> Outcome {
    let listener = helper(record_and_park, 0)?;
    cell(1).store(0, SeqCst);
    pause(1_000_000);
    same!("it waits for a message", state_of(listener)?, STATE_RECEIVING);
    refused!("to a thread that waits for a message", answer_fault(listener, Message::label(0)), Send Timeout);
    refused!("to a source", answer_fault(Id::QUOTA, Message::label(0)), Send Invalid);
    let flags = IPC_SEND | IPC_NOTIFY | IPC_ANSWER;
    let notification = Registers { ax: CALL_IPC | flags, di: listener.0, ..Registers::default() };
    refused!("a notification", checked(notification).map(|_| ()), Send Invalid);
    same!("none was heard", cell(1).load(SeqCst), 0);
    let alien = Alien::new(code_load, |frame| frame.di = WINDOW)?;
    alien.start()?;
    answer_fault(alien.id, with_value())?;
    let called = receive(alien.id, Timeout::Never)?;
    same!("it resumes", (called.tag.kind(), called.words[0]), (KIND_SYSCALL, VALUE));
    Ok(())
}

/// Sets cell 1 when a message comes.
extern "C" fn record_and_park(_: u64) -> ! {
    let _ = wait(Timeout::Never);
    cell(1).store(1, SeqCst);
    park()
}
