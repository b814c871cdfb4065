// SPDX-License-Identifier: BSD-2-Clause
//! Notifications: kept until received, ORed, never waiting.

use crate::case::{Case, Outcome};
use crate::pool::cell;
use crate::threads::{child, helper, park, pause, remove};
use crate::{refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::{KIND_NOTIFY, KIND_USER};
use keel_l4::ipc::{notify, notify_and_wait, receive, send, sleep, wait, Message, Timeout};
use keel_l4::{utcb, Id};

pub const CASES: &[Case] = &[
    ("before-the-wait", before_wait),
    ("bits-are-ored", bits_ored),
    ("cleared-by-receiving", cleared),
    ("zero-does-nothing", zero),
    ("wakes-a-waiting-thread", wakes),
    ("closed-wait-is-not-disturbed", closed_wait),
    ("sleep-is-not-disturbed", sleep_undisturbed),
    ("followed-by-a-receive", with_receive),
    ("from-the-chief", from_chief),
    ("from-a-child-is-denied", from_child),
    ("to-another-task-is-denied", to_root),
    ("to-no-thread", to_no_thread),
    ("dies-with-the-thread", dies),
];

fn before_wait() -> Outcome {
    notify(utcb::my_id(), 0x8000_0000_0000_0001)?;
    let got = wait(Timeout::Zero)?;
    same!("kind and sender", (got.tag.kind(), got.from), (KIND_NOTIFY, utcb::my_id()));
    same!("word", got.words[0], 0x8000_0000_0000_0001);
    Ok(())
}

fn bits_ored() -> Outcome {
    for bit in 0..64 {
        notify(utcb::my_id(), 1 << bit)?;
    }
    same!("word", wait(Timeout::Zero)?.words[0], u64::MAX);
    Ok(())
}

fn cleared() -> Outcome {
    notify(utcb::my_id(), 1)?;
    wait(Timeout::Zero)?;
    refused!("a second wait", wait(Timeout::Zero), Receive Timeout);
    Ok(())
}

fn zero() -> Outcome {
    notify(utcb::my_id(), 0)?;
    refused!("the wait", wait(Timeout::Zero), Receive Timeout);
    Ok(())
}

/// Waits openly without end; adds the received bits to cell 1, the kind to cell 2.
extern "C" fn listener(_: u64) -> ! {
    loop {
        if let Ok(got) = wait(Timeout::Never) {
            cell(1).fetch_add(got.words[0], SeqCst);
            cell(2).store(got.tag.kind() + 100, SeqCst);
        }
    }
}

fn wakes() -> Outcome {
    let id = helper(listener, 0)?;
    pause(1_000_000);
    notify(id, 0x42)?;
    pause(1_000_000);
    same!("word and kind", (cell(1).load(SeqCst), cell(2).load(SeqCst)), (0x42, KIND_NOTIFY + 100));
    Ok(())
}

extern "C" fn late_sender(to: u64) -> ! {
    sleep(3_000_000);
    let _ = send(Id(to), Message::new(0, &[5]), Timeout::Never);
    park()
}

fn closed_wait() -> Outcome {
    let id = helper(late_sender, utcb::my_id().0)?;
    notify(utcb::my_id(), 1)?;
    let got = receive(id, Timeout::Never)?;
    same!("kind and word", (got.tag.kind(), got.words[0]), (KIND_USER, 5));
    same!("the notification is still there", wait(Timeout::Zero)?.tag.kind(), KIND_NOTIFY);
    Ok(())
}

fn sleep_undisturbed() -> Outcome {
    notify(utcb::my_id(), 1)?;
    refused!("the sleep", receive(Id::NIL, Timeout::After(1_000_000)), Receive Timeout);
    same!("afterwards", wait(Timeout::Zero)?.words[0], 1);
    Ok(())
}

fn with_receive() -> Outcome {
    let got = notify_and_wait(utcb::my_id(), 6, Timeout::Never)?;
    same!("kind and word", (got.tag.kind(), got.words[0]), (KIND_NOTIFY, 6));
    Ok(())
}

fn from_chief() -> Outcome {
    let child = child(listener, 0)?;
    pause(1_000_000);
    notify(child.thread, 7)?;
    pause(3_000_000);
    same!("word and kind", (cell(1).load(SeqCst), cell(2).load(SeqCst)), (7, KIND_NOTIFY + 100));
    Ok(())
}

extern "C" fn notify_parent(to: u64) -> ! {
    let word = match notify(Id(to), 1) {
        Ok(()) => 1 << 32,
        Err(failure) => (failure.side as u64) << 8 | failure.error as u64,
    };
    cell(1).store(word, SeqCst);
    park()
}

fn from_child() -> Outcome {
    child(notify_parent, utcb::my_id().0)?;
    pause(5_000_000);
    let denied = (keel_l4::Side::Send as u64) << 8 | keel_l4::Error::Denied as u64;
    same!("the child's status", cell(1).load(SeqCst), denied);
    refused!("nothing came", wait(Timeout::Zero), Receive Timeout);
    Ok(())
}

fn to_root() -> Outcome {
    refused!("notifying the root task", notify(Id::ROOT, 1), Send Denied);
    refused!("notifying sigma0", notify(Id::SIGMA0, 1), Send Denied);
    Ok(())
}

fn to_no_thread() -> Outcome {
    refused!("notifying no thread", notify(Id::INVALID, 1), Send NoPartner);
    Ok(())
}

extern "C" fn idle(_: u64) -> ! {
    park()
}

fn dies() -> Outcome {
    let old = crate::threads::Spawn { number: 9, ..crate::threads::Spawn::new(idle, 0) }.start()?;
    notify(old, 0xff)?;
    remove(old)?;
    crate::threads::Spawn { number: 9, ..crate::threads::Spawn::new(listener, 0) }.start()?;
    pause(2_000_000);
    same!("what the next thread of that number got", cell(1).load(SeqCst), 0);
    Ok(())
}
