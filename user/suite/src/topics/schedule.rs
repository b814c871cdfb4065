// SPDX-License-Identifier: BSD-2-Clause
//! Priorities, time slices, thread_switch, thread_schedule.

use crate::case::{Case, Outcome};
use crate::pool::cell;
use crate::threads::{base_priority, child, helper, own, park, pause, Spawn, RUNNER};
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::memory::EX_START;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, send_and_wait, sleep, wait, Message, Timeout};
use keel_l4::thread::{self, schedule, set_priority};
use keel_l4::{utcb, Id};

pub const CASES: &[Case] = &[
    ("read-one's-own", read_own),
    ("set-and-read", set_and_read),
    ("lower-does-not-run", lower_waits),
    ("higher-runs-at-once", higher_runs),
    ("woken-higher-preempts", woken_preempts),
    ("equal-priorities-share", round_robin),
    ("slices-weigh", slices_weigh),
    ("a-busy-server's-client-shares-with-its-equals", client_shares),
    ("raising-a-ready-thread", raise_ready),
    ("lowering-oneself", lower_self),
    ("states", states),
    ("partner-is-told", partner_told),
    ("consumed-time-grows", consumed),
    ("slice-is-told", slice_told),
    ("above-the-limit-denied", above_limit),
    ("priority-out-of-range", out_of_range),
    ("another-clan's-denied", denied),
    ("no-thread", no_thread),
    ("unknown-bits", unknown_bits),
    ("switch-yields", switch_yields),
    ("switch-to-a-thread", switch_to),
    ("switch-to-no-thread", switch_no_thread),
    ("switch-to-a-waiting-thread", switch_waiting),
    ("timer-ends-a-spinner's-turn", timer_preempts),
];

extern "C" fn mark(cell_number: u64) -> ! {
    cell(cell_number as usize).store(1, SeqCst);
    park()
}

extern "C" fn count(cell_number: u64) -> ! {
    loop {
        cell(cell_number as usize).fetch_add(1, SeqCst);
    }
}

fn spin() {
    for _ in 0..2_000_000 {
        core::hint::spin_loop();
    }
}

/// A stopped helper with this priority.
fn helper_at(main: crate::threads::Main, argument: u64, priority: u64) -> Result<Id, Failure> {
    let id = Spawn::new(main, argument).create()?;
    set_priority(id, priority)?;
    Ok(id)
}

fn read_own() -> Outcome {
    let told = schedule(utcb::my_id(), 0, 0, 0)?;
    same!("priority, state", (told.priority, told.state), (base_priority(), STATE_READY));
    Ok(())
}

fn set_and_read() -> Outcome {
    let id = Spawn::new(mark, 1).create()?;
    for priority in [0, 1, 50, base_priority()] {
        set_priority(id, priority)?;
        same!("priority", schedule(id, 0, 0, 0)?.priority, priority);
    }
    Ok(())
}

fn lower_waits() -> Outcome {
    let id = helper_at(mark, 1, base_priority() - 1)?;
    thread::act(id, EX_START)?;
    spin();
    same!("while we run", cell(1).load(SeqCst), 0);
    pause(2_000_000);
    same!("while we sleep", cell(1).load(SeqCst), 1);
    Ok(())
}

fn higher_runs() -> Outcome {
    let id = helper_at(mark, 1, base_priority() + 1)?;
    thread::act(id, EX_START)?;
    same!("right after its start", cell(1).load(SeqCst), 1);
    Ok(())
}

extern "C" fn wait_then_mark(cell_number: u64) -> ! {
    let _ = receive(Id(cell(0).load(SeqCst)), Timeout::Never);
    mark(cell_number)
}

fn woken_preempts() -> Outcome {
    cell(0).store(utcb::my_id().0, SeqCst);
    let high = helper_at(wait_then_mark, 1, base_priority() + 1)?;
    thread::act(high, EX_START)?;
    let low = helper_at(wait_then_mark, 2, base_priority() - 1)?;
    thread::act(low, EX_START)?;
    pause(1_000_000);
    send(low, Message::label(0), Timeout::Zero)?;
    send(high, Message::label(0), Timeout::Zero)?;
    same!("right after the messages: high, low", (cell(1).load(SeqCst), cell(2).load(SeqCst)), (1, 0));
    Ok(())
}

fn round_robin() -> Outcome {
    for number in 1..=4 {
        thread::act(helper_at(count, number, base_priority() - 1)?, EX_START)?;
    }
    pause(400_000_000);
    let counts = [1, 2, 3, 4].map(|n| cell(n).load(SeqCst));
    let (least, most) = (counts.iter().min(), counts.iter().max());
    holds!("every one to have run", least.is_some_and(|n| *n > 0));
    holds!("shares that are alike", most.zip(least).is_some_and(|(most, least)| *most < 4 * *least));
    Ok(())
}

fn slices_weigh() -> Outcome {
    let (long, short) = (helper_at(count, 1, base_priority() - 1)?, helper_at(count, 2, base_priority() - 1)?);
    schedule(long, SCHEDULE_SLICE, 0, 40_000_000)?;
    schedule(short, SCHEDULE_SLICE, 0, 5_000_000)?;
    thread::act(long, EX_START)?;
    thread::act(short, EX_START)?;
    pause(600_000_000);
    let (long, short) = (cell(1).load(SeqCst), cell(2).load(SeqCst));
    holds!("both to have run", long > 0 && short > 0);
    holds!("the longer slice to have run more", long > 2 * short);
    Ok(())
}

extern "C" fn answer_all(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(received) => send_and_wait(received.from, Message::label(0), Timeout::Zero, Timeout::Never),
            Err(_) => wait(Timeout::Never),
        };
    }
}

extern "C" fn call_for_ever(cell_number: u64) -> ! {
    loop {
        let _ = call(Id(cell(0).load(SeqCst)), Message::label(0));
        cell(cell_number as usize).fetch_add(1, SeqCst);
    }
}

fn client_shares() -> Outcome {
    let server = helper_at(answer_all, 0, base_priority())?;
    cell(0).store(server.0, SeqCst);
    let (client, equal) =
        (helper_at(call_for_ever, 1, base_priority() - 1)?, helper_at(count, 2, base_priority() - 1)?);
    for id in [server, client, equal] {
        schedule(id, SCHEDULE_SLICE, 0, 1_000_000)?;
        thread::act(id, EX_START)?;
    }
    for _ in 0..5 {
        let before = [1, 2].map(|number| cell(number).load(SeqCst));
        pause(200_000_000);
        holds!("both to run on, again and again", (0..2).all(|n| cell(n + 1).load(SeqCst) > before[n]));
    }
    Ok(())
}

fn raise_ready() -> Outcome {
    let id = helper_at(mark, 1, base_priority() - 1)?;
    thread::act(id, EX_START)?;
    set_priority(id, base_priority() + 1)?;
    same!("right after it was raised", cell(1).load(SeqCst), 1);
    Ok(())
}

fn lower_self() -> Outcome {
    let id = helper_at(mark, 1, base_priority() - 1)?;
    thread::act(id, EX_START)?;
    set_priority(utcb::my_id(), base_priority() - 2)?;
    same!("right after we stepped down", cell(1).load(SeqCst), 1);
    set_priority(utcb::my_id(), base_priority())?;
    Ok(())
}

extern "C" fn send_to_0(_: u64) -> ! {
    let _ = send(Id(cell(0).load(SeqCst)), Message::label(0), Timeout::Never);
    park()
}

fn states() -> Outcome {
    cell(0).store(utcb::my_id().0, SeqCst);
    let stopped = Spawn::new(mark, 1).create()?;
    let ready = helper_at(count, 2, 1)?;
    thread::act(ready, EX_START)?;
    let (sending, receiving) = (helper(send_to_0, 0)?, helper(mark, 3)?);
    pause(2_000_000);
    for (id, state) in
        [(stopped, STATE_INACTIVE), (ready, STATE_READY), (sending, STATE_SENDING), (receiving, STATE_RECEIVING)]
    {
        same!("state", schedule(id, 0, 0, 0)?.state, state);
    }
    Ok(())
}

fn partner_told() -> Outcome {
    cell(0).store(utcb::my_id().0, SeqCst);
    let id = helper(send_to_0, 0)?;
    pause(1_000_000);
    same!("partner", schedule(id, 0, 0, 0)?.partner, utcb::my_id());
    Ok(())
}

fn consumed() -> Outcome {
    let id = helper_at(count, 1, base_priority() - 1)?;
    thread::act(id, EX_START)?;
    sleep(30_000_000);
    let first = schedule(id, 0, 0, 0)?.consumed;
    sleep(30_000_000);
    let second = schedule(id, 0, 0, 0)?.consumed;
    holds!("some time used", first > 1_000_000);
    holds!("more time later", second > first + 1_000_000);
    holds!("no more than has passed", second < 60_000_000_000);
    Ok(())
}

fn slice_told() -> Outcome {
    let id = Spawn::new(mark, 1).create()?;
    schedule(id, SCHEDULE_SLICE, 0, 7_000_000)?;
    same!("slice", schedule(id, 0, 0, 0)?.slice, 7_000_000);
    schedule(id, SCHEDULE_SLICE, 0, 0)?;
    same!("unlimited", schedule(id, 0, 0, 0)?.slice, 0);
    Ok(())
}

fn above_limit() -> Outcome {
    let id = Spawn::new(mark, 1).create()?;
    for priority in [base_priority() + 3, 200, 255] {
        refused!("a priority above our limit", set_priority(id, priority), Call Denied);
    }
    Ok(())
}

fn out_of_range() -> Outcome {
    let id = Spawn::new(mark, 1).create()?;
    for priority in [256, 1 << 32, u64::MAX] {
        refused!("a priority that is none", set_priority(id, priority), Call Invalid);
    }
    Ok(())
}

fn denied() -> Outcome {
    for id in [Id::ROOT, Id::SIGMA0] {
        refused!("reading", schedule(id, 0, 0, 0), Call Denied);
        refused!("setting", set_priority(id, 1), Call Denied);
    }
    Ok(())
}

fn no_thread() -> Outcome {
    for id in [Id::NIL, Id::INVALID, Id(0x100)] {
        refused!("reading", schedule(id, 0, 0, 0), Call NoPartner);
    }
    Ok(())
}

fn unknown_bits() -> Outcome {
    for bit in [5, 6, 31, 63] {
        refused!("a bit", schedule(utcb::my_id(), 1 << bit, 0, 0), Call Invalid);
    }
    Ok(())
}

fn switch_yields() -> Outcome {
    let id = helper_at(mark, 1, base_priority())?;
    thread::act(id, EX_START)?;
    for _ in 0..3 {
        thread::switch(Id::NIL)?;
    }
    same!("the other had its turn", cell(1).load(SeqCst), 1);
    Ok(())
}

fn switch_to() -> Outcome {
    helper_at(count, 3, base_priority()).and_then(|id| thread::act(id, EX_START))?;
    let wanted = helper_at(mark, 1, base_priority())?;
    thread::act(wanted, EX_START)?;
    thread::switch(wanted)?;
    same!("it ran", cell(1).load(SeqCst), 1);
    Ok(())
}

fn switch_no_thread() -> Outcome {
    refused!("switching", thread::switch(Id::INVALID), Call NoPartner);
    Ok(())
}

fn switch_waiting() -> Outcome {
    let id = helper(mark, 1)?;
    pause(1_000_000);
    thread::switch(id)?;
    thread::switch(own(RUNNER))?;
    thread::switch(Id::ROOT)?;
    Ok(())
}

fn timer_preempts() -> Outcome {
    let child = child(count, 1)?;
    set_priority(child.thread, base_priority())?;
    let before = keel_l4::kip::now();
    sleep(50_000_000);
    holds!("a wake-up within 5 s beside a spinner", keel_l4::kip::now() - before < 5_000_000_000);
    holds!("the spinner to have run", cell(1).load(SeqCst) > 0);
    Ok(())
}
