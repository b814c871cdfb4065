// SPDX-License-Identifier: BSD-2-Clause
//! The order in which messages of different kinds reach an open wait.

use crate::case::{Case, Outcome};
use crate::pool::cell;
use crate::threads::{helper, park, pause};
use crate::{refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::{KIND_INTERRUPT, KIND_NOTIFY, KIND_USER};
use keel_l4::ipc::{notify, receive, send, wait, Message, Timeout};
use keel_l4::kernel_object::{claim_timer, set_timer};
use keel_l4::kip::now;
use keel_l4::{thread, utcb, Id};

pub const CASES: &[Case] = &[
    ("senders-first-come-first-served", first_come),
    ("notification-before-senders", notification_first),
    ("interrupt-before-senders", interrupt_first),
    ("notification-before-interrupt", notification_before_interrupt),
    ("closed-wait-takes-from-the-middle", from_the_middle),
    ("high-priority-sender-does-not-overtake", no_overtaking),
];

extern "C" fn sender(word: u64) -> ! {
    let _ = send(Id(cell(0).load(SeqCst)), Message::new(0, &[word]), Timeout::Never);
    park()
}

/// Starts helpers that queue up with the words 1 to `count`; their ids are in cells 1 and up.
fn queue(count: u64) -> Outcome {
    cell(0).store(utcb::my_id().0, SeqCst);
    for word in 1..=count {
        cell(word as usize).store(helper(sender, word)?.0, SeqCst);
        pause(1_000_000);
    }
    Ok(())
}

fn first_come() -> Outcome {
    queue(8)?;
    for word in 1..=8 {
        same!("next word", wait(Timeout::Zero)?.words[0], word);
    }
    refused!("the queue is empty", wait(Timeout::Zero), Receive Timeout);
    Ok(())
}

fn notification_first() -> Outcome {
    queue(1)?;
    notify(utcb::my_id(), 0x10)?;
    same!("first", wait(Timeout::Zero)?.tag.kind(), KIND_NOTIFY);
    same!("second", wait(Timeout::Zero)?.tag.kind(), KIND_USER);
    Ok(())
}

fn interrupt_first() -> Outcome {
    let timer = claim_timer()?;
    queue(1)?;
    set_timer(timer, now())?;
    pause(3_000_000);
    let first = wait(Timeout::Zero)?;
    same!("first", (first.tag.kind(), first.from), (KIND_INTERRUPT, timer));
    same!("second", wait(Timeout::Zero)?.tag.kind(), KIND_USER);
    Ok(())
}

fn notification_before_interrupt() -> Outcome {
    let timer = claim_timer()?;
    set_timer(timer, now())?;
    pause(3_000_000);
    notify(utcb::my_id(), 1)?;
    same!("first", wait(Timeout::Zero)?.tag.kind(), KIND_NOTIFY);
    same!("second", wait(Timeout::Zero)?.tag.kind(), KIND_INTERRUPT);
    Ok(())
}

fn from_the_middle() -> Outcome {
    queue(4)?;
    same!("the third", receive(Id(cell(3).load(SeqCst)), Timeout::Zero)?.words[0], 3);
    for word in [1, 2, 4] {
        same!("then the rest", wait(Timeout::Zero)?.words[0], word);
    }
    Ok(())
}

fn no_overtaking() -> Outcome {
    queue(3)?;
    thread::set_priority(Id(cell(1).load(SeqCst)), 10)?;
    for word in 1..=3 {
        same!("next word", wait(Timeout::Zero)?.words[0], word);
    }
    Ok(())
}
