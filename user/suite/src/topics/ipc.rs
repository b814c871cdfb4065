// SPDX-License-Identifier: BSD-2-Clause
//! Messages that arrive: every form, every size, within a task and between tasks.

use crate::case::{Case, Outcome};
use crate::pool::cell;
use crate::threads::{child, helper, park, pause, Spawn};
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::{KIND_USER, MAX_WORDS, REGISTER_WORDS, STATE_RECEIVING};
use keel_l4::abi::Tag;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, call_within, receive, send, send_and_wait, sleep, wait, Message, Timeout};
use keel_l4::kip::now;
use keel_l4::{thread, utcb, Id};

pub const CASES: &[Case] = &[
    ("call-and-reply", call_and_reply),
    ("label-and-tag", label_and_tag),
    ("no-words", no_words),
    ("long-message", long_message),
    ("every-length", every_length),
    ("send-to-waiting", send_to_waiting),
    ("send-before-receive", send_before_receive),
    ("open-wait-names-the-sender", open_wait),
    ("closed-wait-ignores-others", closed_wait),
    ("reply-and-wait", reply_and_wait),
    ("reply-with-zero-timeout-reaches-a-caller", zero_reply),
    ("between-tasks", between_tasks),
    ("long-message-between-tasks", long_between_tasks),
    ("task-to-its-creator-and-back", child_calls_parent),
    ("sleep", sleeps),
    ("sleep-zero", sleep_zero),
    ("receive-timeout", receive_timeout),
    ("receive-timeout-absolute", receive_timeout_absolute),
    ("absolute-time-in-the-past", absolute_past),
    ("send-timeout", send_timeout),
    ("timeout-does-not-end-a-partner's-wait", partner_waits_on),
    ("message-before-timeout", message_before_timeout),
    ("timeout-ends-with-the-message", timeout_ends),
    ("sleepers-wake-in-order", sleepers_in_order),
    ("ten-thousand-calls", many_calls),
];

/// Answers every message with label + 1 and the words doubled.
extern "C" fn doubler(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(received) => {
                let words = received.words.map(|w| w.wrapping_mul(2));
                let count = received.tag.words();
                for index in REGISTER_WORDS..count {
                    utcb::set_word(index as usize, utcb::word(index as usize).wrapping_mul(2));
                }
                let reply = Message { tag: Tag::new(received.tag.label() + 1, count), words };
                send_and_wait(received.from, reply, Timeout::Zero, Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

/// Sends its own argument's low half, after that many microseconds in the high half, to the worker
/// in cell 0.
extern "C" fn sender(argument: u64) -> ! {
    if argument >> 32 != 0 {
        sleep((argument >> 32) * 1000);
    }
    let _ = send(Id(cell(0).load(SeqCst)), Message::new(1, &[argument & 0xffff_ffff]), Timeout::Never);
    cell(1).fetch_add(1, SeqCst);
    park()
}

fn i_am_in_cell_0() {
    cell(0).store(utcb::my_id().0, SeqCst);
}

fn call_and_reply() -> Outcome {
    let server = helper(doubler, 0)?;
    let answer = call(server, Message::new(5, &[1, 2, 3, 4, 5, u64::MAX]))?;
    same!("words", answer.words, [2, 4, 6, 8, 10, u64::MAX - 1]);
    same!("sender", answer.from, server);
    Ok(())
}

fn label_and_tag() -> Outcome {
    let server = helper(doubler, 0)?;
    let answer = call(server, Message::new(0xffff_fffe, &[7, 8, 9]))?;
    same!("label", answer.tag.label(), 0xffff_ffff);
    same!("words", answer.tag.words(), 3);
    same!("kind, maps, strings", (answer.tag.kind(), answer.tag.maps(), answer.tag.strings()), (KIND_USER, 0, 0));
    Ok(())
}

fn no_words() -> Outcome {
    let server = helper(doubler, 0)?;
    same!("words of the answer", call(server, Message::label(0))?.tag.words(), 0);
    Ok(())
}

/// Sends `count` words to `server` and checks that they come back doubled.
fn exchange(server: Id, count: u64) -> Outcome {
    let word = |index: u64| (index + 1) * 0x0101_0101_0101;
    let mut message = Message { tag: Tag::new(1, count), words: [0; 6] };
    for index in 0..count {
        match message.words.get_mut(index as usize) {
            Some(register) => *register = word(index),
            None => utcb::set_word(index as usize, word(index)),
        }
    }
    let answer = call(server, message)?;
    same!("number of words", answer.tag.words(), count);
    for index in 0..count {
        let got = answer.words.get(index as usize).copied().unwrap_or_else(|| utcb::word(index as usize));
        same!("a word", (index, got), (index, word(index).wrapping_mul(2)));
    }
    Ok(())
}

fn long_message() -> Outcome {
    exchange(helper(doubler, 0)?, MAX_WORDS)
}

fn every_length() -> Outcome {
    let server = helper(doubler, 0)?;
    (0..=MAX_WORDS).try_for_each(|count| exchange(server, count))
}

fn send_to_waiting() -> Outcome {
    i_am_in_cell_0();
    let id = helper(sender, 1000 << 32 | 7)?;
    let got = receive(id, Timeout::Never)?;
    same!("word", got.words[0], 7);
    Ok(())
}

fn send_before_receive() -> Outcome {
    i_am_in_cell_0();
    let id = helper(sender, 8)?;
    pause(2_000_000);
    same!("the sender still waits", cell(1).load(SeqCst), 0);
    same!("word", receive(id, Timeout::Zero)?.words[0], 8);
    pause(2_000_000);
    same!("the sender went on", cell(1).load(SeqCst), 1);
    Ok(())
}

fn open_wait() -> Outcome {
    i_am_in_cell_0();
    let id = helper(sender, 9)?;
    let got = wait(Timeout::Never)?;
    same!("sender and word", (got.from, got.words[0]), (id, 9));
    Ok(())
}

fn closed_wait() -> Outcome {
    i_am_in_cell_0();
    let first = helper(sender, 1)?;
    let second = helper(sender, 2)?;
    pause(2_000_000);
    same!("from the second", receive(second, Timeout::Never)?.words[0], 2);
    same!("then from the first", receive(first, Timeout::Never)?.words[0], 1);
    Ok(())
}

fn reply_and_wait() -> Outcome {
    i_am_in_cell_0();
    let server = helper(doubler, 0)?;
    helper(sender, 1000 << 32 | 3)?;
    let got = send_and_wait(server, Message::new(0, &[21]), Timeout::Never, Timeout::Never)?;
    same!("the server's answer comes first", (got.from, got.words[0]), (server, 42));
    same!("then the other's message", wait(Timeout::Never)?.words[0], 3);
    Ok(())
}

fn zero_reply() -> Outcome {
    // The server replies with timeout zero: a caller is in its receive phase at once.
    let server = helper(doubler, 0)?;
    for n in 0..200 {
        same!("answer", call(server, Message::new(0, &[n]))?.words[0], 2 * n);
    }
    Ok(())
}

fn between_tasks() -> Outcome {
    let server = child(doubler, 0)?;
    let answer = call(server.thread, Message::new(5, &[1, 2, 3, 4, 5, 6]))?;
    same!("words", answer.words, [2, 4, 6, 8, 10, 12]);
    same!("sender", answer.from, server.thread);
    Ok(())
}

fn long_between_tasks() -> Outcome {
    let server = child(doubler, 0)?;
    exchange(server.thread, MAX_WORDS)
}

extern "C" fn ask_parent(_: u64) -> ! {
    let parent = Id(cell(0).load(SeqCst));
    let answer = call(parent, Message::new(1, &[utcb::my_id().0]));
    cell(1).store(answer.map_or(0, |a| a.words[0]), SeqCst);
    let _ = send(parent, Message::label(2), Timeout::Never);
    park()
}

fn child_calls_parent() -> Outcome {
    i_am_in_cell_0();
    let child = child(ask_parent, 0)?;
    let asked = wait(Timeout::Never)?;
    same!("sender and the id that it knows", (asked.from.0, asked.words[0]), (child.thread.0, child.thread.0));
    let done = send_and_wait(asked.from, Message::new(0, &[99]), Timeout::Zero, Timeout::Never)?;
    same!("label", done.tag.label(), 2);
    same!("the answer it got", cell(1).load(SeqCst), 99);
    Ok(())
}

fn sleeps() -> Outcome {
    for time in [1_000u64, 1_000_000, 20_000_000] {
        let before = now();
        sleep(time);
        let slept = now() - before;
        holds!("a sleep not shorter than asked", slept >= time);
        holds!("a sleep not a second longer", slept < time + 1_000_000_000);
    }
    Ok(())
}

fn sleep_zero() -> Outcome {
    refused!("receiving from nil", receive(Id::NIL, Timeout::Zero), Receive Timeout);
    Ok(())
}

fn receive_timeout() -> Outcome {
    let before = now();
    refused!("waiting for no thread", wait(Timeout::After(5_000_000)), Receive Timeout);
    holds!("the time passed", now() - before >= 5_000_000);
    refused!("not waiting at all", wait(Timeout::Zero), Receive Timeout);
    Ok(())
}

fn receive_timeout_absolute() -> Outcome {
    let deadline = now() + 5_000_000;
    refused!("waiting for no thread", wait(Timeout::At(deadline)), Receive Timeout);
    holds!("the time has come", now() >= deadline);
    Ok(())
}

fn absolute_past() -> Outcome {
    let before = now();
    refused!("waiting till yesterday", wait(Timeout::At(1)), Receive Timeout);
    holds!("no wait", now() - before < 1_000_000_000);
    Ok(())
}

extern "C" fn deaf(_: u64) -> ! {
    park()
}

fn send_timeout() -> Outcome {
    let id = helper(deaf, 0)?;
    refused!("sending, zero", send(id, Message::label(0), Timeout::Zero), Send Timeout);
    let before = now();
    refused!("sending, 5 ms", send(id, Message::label(0), Timeout::After(5_000_000)), Send Timeout);
    holds!("the time passed", now() - before >= 5_000_000);
    Ok(())
}

fn partner_waits_on() -> Outcome {
    let server = helper(doubler, 0)?;
    refused!("closed wait", receive(server, Timeout::After(1_000_000)), Receive Timeout);
    same!("the server's answer", call(server, Message::new(0, &[4]))?.words[0], 8);
    Ok(())
}

fn message_before_timeout() -> Outcome {
    i_am_in_cell_0();
    let id = helper(sender, 1000 << 32 | 5)?;
    let before = now();
    same!("word", receive(id, Timeout::After(10_000_000_000))?.words[0], 5);
    holds!("it came long before the timeout", now() - before < 5_000_000_000);
    // The unused timeout must not end the next wait.
    refused!("the next wait", wait(Timeout::After(20_000_000)), Receive Timeout);
    Ok(())
}

/// A time in ns within which a thread that already waits gets a message, even if the emulator is
/// delayed.
const LONG: u64 = 1_000_000_000;

/// Waits with a timeout, then without one, and counts the successful waits in cell 1.
extern "C" fn waits_twice(from: u64) -> ! {
    for timeout in [Timeout::After(LONG), Timeout::Never] {
        cell(1).fetch_add(receive(Id(from), timeout).is_ok() as u64, SeqCst);
    }
    park()
}

fn timeout_ends() -> Outcome {
    let id = helper(waits_twice, utcb::my_id().0)?;
    pause(1_000_000);
    send(id, Message::label(0), Timeout::Zero)?;
    pause(LONG + LONG / 2);
    same!("waits that ended, and its state", (cell(1).load(SeqCst), state(id)?), (1, STATE_RECEIVING));
    send(id, Message::label(0), Timeout::Zero)?;
    pause(1_000_000);
    same!("waits that ended", cell(1).load(SeqCst), 2);
    Ok(())
}

fn state(id: Id) -> Result<u64, Failure> {
    thread::schedule(id, 0, 0, 0).map(|told| told.state)
}

extern "C" fn sleeper(argument: u64) -> ! {
    sleep(argument * 1_000_000);
    let order = cell(1).fetch_add(1, SeqCst);
    cell(10 + order as usize).store(argument, SeqCst);
    park()
}

fn sleepers_in_order() -> Outcome {
    for time in [40, 10, 30, 20, 50] {
        let id = Spawn::new(sleeper, time).create()?;
        thread::act(id, keel_l4::abi::memory::EX_START)?;
    }
    pause(400_000_000);
    let order = [10, 11, 12, 13, 14].map(|n| cell(n).load(SeqCst));
    same!("order of waking", order, [10, 20, 30, 40, 50]);
    Ok(())
}

fn many_calls() -> Outcome {
    let server = child(doubler, 0)?;
    for n in 0..10_000 {
        let answer = call_within(server.thread, Message::new(0, &[n]), Timeout::Never, Timeout::Never)?;
        same!("answer", answer.words[0], 2 * n);
    }
    Ok(())
}
