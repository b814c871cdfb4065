// SPDX-License-Identifier: BSD-2-Clause
//! Messages that do not arrive, and their errors.

use crate::alien::{code_syscall, Alien};
use crate::case::{Case, Outcome};
use crate::pool::cell;
use crate::threads::{child, helper, park, pause, remove, remove_task, Spawn};
use crate::{refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::memory::{EX_CANCEL, EX_DELETE, EX_START};
use keel_l4::abi::programs::*;
use keel_l4::abi::Tag;
use keel_l4::call::{checked, Registers};
use keel_l4::ipc::{call, call_within, receive, send, send_and_wait, wait, Message, Timeout};
use keel_l4::{thread, utcb, Error, Id, Side};

pub const CASES: &[Case] = &[
    ("send-to-no-thread", send_to_no_thread),
    ("send-to-nil", send_to_nil),
    ("receive-from-no-thread", receive_from_no_thread),
    ("failed-send-skips-receive", failed_send_skips),
    ("not-started-thread", not_started),
    ("partner-deleted-while-sending", deleted_while_sending),
    ("partner-deleted-while-receiving", deleted_while_receiving),
    ("partner-deleted-in-call", deleted_in_call),
    ("task-deleted-while-receiving", task_deleted),
    ("sender-deleted-leaves-the-queue", sender_deleted),
    ("cancel-receive", cancel_receive),
    ("cancel-send", cancel_send),
    ("cancel-sleep", cancel_sleep),
    ("cancel-spares-the-running", cancel_running),
    ("too-many-words", too_many_words),
    ("too-many-words-to-an-alien-thread", too_many_words_to_an_alien),
    ("too-many-maps", too_many_maps),
    ("too-many-strings", strings),
    ("kind-cannot-be-forged", forged_kind),
    ("unknown-flags", unknown_flags),
    ("unknown-call", unknown_call),
    ("send-to-task-id", send_to_task_id),
];

extern "C" fn idle(_: u64) -> ! {
    park()
}

/// Waits for the thread in cell 0 and stores the result: 0x100 * side + error, or 1 << 32.
extern "C" fn receiver(_: u64) -> ! {
    note(receive(Id(cell(0).load(SeqCst)), Timeout::Never).map(|_| ()))
}

/// Sends to the thread in cell 0 and stores the result.
extern "C" fn sender(_: u64) -> ! {
    note(send(Id(cell(0).load(SeqCst)), Message::label(0), Timeout::Never))
}

/// Calls the thread in cell 0 and stores the result.
extern "C" fn caller(_: u64) -> ! {
    note(call(Id(cell(0).load(SeqCst)), Message::label(0)).map(|_| ()))
}

fn note(result: Result<(), keel_l4::call::Failure>) -> ! {
    let word = match result {
        Ok(()) => 1 << 32,
        Err(failure) => {
            crate::errors::note_message(failure);
            (failure.side as u64) << 8 | failure.error as u64
        }
    };
    cell(1).store(word, SeqCst);
    park()
}

const fn noted(side: Side, error: Error) -> u64 {
    (side as u64) << 8 | error as u64
}

/// Starts `main` with the partner `partner`, and waits until it waits.
fn against(partner: Id, main: crate::threads::Main) -> Result<Id, keel_l4::call::Failure> {
    cell(0).store(partner.0, SeqCst);
    let id = helper(main, 0)?;
    pause(2_000_000);
    Ok(id)
}

fn settled() -> u64 {
    pause(2_000_000);
    cell(1).load(SeqCst)
}

fn send_to_no_thread() -> Outcome {
    for id in [Id::INVALID, Id::thread(1, 0xfff0, 0, 2), Id::thread(77, 2, 0, 1), Id::thread(1, 0xf_ffff, 5, 1)] {
        refused!("send", send(id, Message::label(0), Timeout::Never), Send NoPartner);
    }
    Ok(())
}

fn send_to_nil() -> Outcome {
    refused!("send", send(Id::NIL, Message::label(0), Timeout::Zero), Send NoPartner);
    Ok(())
}

fn receive_from_no_thread() -> Outcome {
    for id in [Id::INVALID, Id::thread(1, 0xfff0, 0, 2)] {
        refused!("receive", receive(id, Timeout::Never), Receive NoPartner);
    }
    Ok(())
}

fn failed_send_skips() -> Outcome {
    let deaf = helper(idle, 0)?;
    refused!("call", call_within(deaf, Message::label(0), Timeout::Zero, Timeout::Never), Send Timeout);
    refused!("call to no thread", call(Id::INVALID, Message::label(0)), Send NoPartner);
    Ok(())
}

fn not_started() -> Outcome {
    let id = Spawn::new(idle, 0).create()?;
    refused!("send", send(id, Message::label(0), Timeout::Zero), Send Timeout);
    Ok(())
}

fn deleted_while_sending() -> Outcome {
    let deaf = helper(idle, 0)?;
    against(deaf, sender)?;
    remove(deaf)?;
    same!("the sender's status", settled(), noted(Side::Send, Error::NoPartner));
    Ok(())
}

fn deleted_while_receiving() -> Outcome {
    let partner = helper(idle, 0)?;
    against(partner, receiver)?;
    remove(partner)?;
    same!("the receiver's status", settled(), noted(Side::Receive, Error::NoPartner));
    Ok(())
}

/// Takes one message and never answers.
extern "C" fn taker(_: u64) -> ! {
    let _ = wait(Timeout::Never);
    park()
}

fn deleted_in_call() -> Outcome {
    let partner = helper(taker, 0)?;
    pause(1_000_000);
    against(partner, caller)?;
    remove(partner)?;
    same!("the caller's status", settled(), noted(Side::Receive, Error::NoPartner));
    Ok(())
}

fn task_deleted() -> Outcome {
    let child = child(idle, 0)?;
    against(child.thread, receiver)?;
    remove_task(child.number)?;
    same!("the receiver's status", settled(), noted(Side::Receive, Error::NoPartner));
    Ok(())
}

fn sender_deleted() -> Outcome {
    let id = against(utcb::my_id(), sender)?;
    remove(id)?;
    refused!("the queue is empty", wait(Timeout::Zero), Receive Timeout);
    Ok(())
}

fn cancel_receive() -> Outcome {
    let partner = helper(idle, 0)?;
    let id = against(partner, receiver)?;
    thread::act(id, EX_CANCEL)?;
    same!("status", settled(), noted(Side::Receive, Error::Cancelled));
    Ok(())
}

fn cancel_send() -> Outcome {
    let deaf = helper(idle, 0)?;
    let id = against(deaf, sender)?;
    thread::act(id, EX_CANCEL)?;
    same!("status", settled(), noted(Side::Send, Error::Cancelled));
    Ok(())
}

extern "C" fn sleeper(_: u64) -> ! {
    note(receive(Id::NIL, Timeout::After(60_000_000_000)).map(|_| ()))
}

fn cancel_sleep() -> Outcome {
    let id = against(Id::NIL, sleeper)?;
    thread::act(id, EX_CANCEL)?;
    same!("status", settled(), noted(Side::Receive, Error::Cancelled));
    Ok(())
}

extern "C" fn spinner(_: u64) -> ! {
    loop {
        cell(2).fetch_add(1, SeqCst);
    }
}

fn cancel_running() -> Outcome {
    let id = helper(spinner, 0)?;
    pause(1_000_000);
    thread::act(id, EX_CANCEL)?;
    let before = cell(2).load(SeqCst);
    pause(20_000_000);
    crate::holds!("it runs on", cell(2).load(SeqCst) > before);
    thread::act(id, EX_DELETE)?;
    Ok(())
}

/// A send with this tag to a helper in an open wait.
fn send_tag(tag: u64) -> Result<(), keel_l4::call::Failure> {
    let partner = Spawn::new(taker, 0).create()?;
    thread::act(partner, EX_START)?;
    pause(1_000_000);
    send(partner, Message { tag: Tag(tag), words: [0; 6] }, Timeout::Zero)
}

fn too_many_words() -> Outcome {
    refused!("129 words", send_tag(MAX_WORDS + 1), Send Invalid);
    refused!("255 words", send_tag(255), Send Invalid);
    Ok(())
}

/// By a reply and an open wait, which takes the fast path.
fn too_many_words_to_an_alien() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    let reply = |tag| send_and_wait(alien.id, Message { tag: Tag(tag), words: [0; 6] }, Timeout::Zero, Timeout::Never);
    refused!("129 words", reply(MAX_WORDS + 1), Send Invalid);
    refused!("255 words", reply(255), Send Invalid);
    same!("128 words", reply(MAX_WORDS)?.tag.kind(), KIND_SYSCALL);
    Ok(())
}

fn too_many_maps() -> Outcome {
    refused!("33 map items", send_tag((MAX_MAP_ITEMS + 1) << TAG_MAPS_SHIFT), Send Invalid);
    Ok(())
}

fn strings() -> Outcome {
    refused!("nine strings", send_tag((MAX_STRINGS + 1) << TAG_STRINGS_SHIFT), Send Invalid);
    Ok(())
}

/// Waits for any sender and reports the received tag to the worker.
extern "C" fn tag_teller(_: u64) -> ! {
    let tag = wait(Timeout::Never).map_or(u64::MAX, |received| received.tag.0);
    cell(1).store(tag, SeqCst);
    park()
}

fn forged_kind() -> Outcome {
    for bit in TAG_KIND_SHIFT..TAG_LABEL_SHIFT {
        let partner = helper(tag_teller, 0)?;
        pause(1_000_000);
        // The kernel may refuse the tag or clear the flags that a user must not set.
        let sent = send(partner, Message { tag: Tag(1 << bit), words: [0; 6] }, Timeout::Zero);
        if sent.is_ok() {
            same!("the tag that arrived", settled(), 0);
        } else {
            refused!("a kernel's bit", sent, Send Invalid);
        }
        remove(partner)?;
    }
    Ok(())
}

fn unknown_flags() -> Outcome {
    for flag in [14, 15, 20, 31] {
        let ax = CALL_IPC | IPC_RECEIVE | IPC_RECEIVE_ZERO | 1 << flag;
        refused!("an unknown flag", checked(Registers { ax, ..Registers::default() }), Call Invalid);
    }
    let ax = CALL_IPC | IPC_RECEIVE | 3 << IPC_RECEIVE_TIMEOUT_SHIFT;
    refused!("an unknown timeout", checked(Registers { ax, ..Registers::default() }), Receive Invalid);
    Ok(())
}

fn unknown_call() -> Outcome {
    for number in [7u64, 8, 15] {
        let result = checked(Registers { ax: number, ..Registers::default() });
        refused!("an unknown call", result, Call Invalid);
    }
    Ok(())
}

fn send_to_task_id() -> Outcome {
    let child = child(idle, 0)?;
    refused!("send", send(child.task, Message::label(0), Timeout::Zero), Send NoPartner);
    Ok(())
}
