// SPDX-License-Identifier: BSD-2-Clause
//! Events on another processor while a thread is in the kernel and waits for its lock.
//!
//! A debug build makes this wait as long as a case needs it. In other builds, and on one processor,
//! the expected results are the same, but the moment is seldom hit.

use crate::alien::{code_load, Alien};
use crate::case::{Case, Outcome};
use crate::pool::{cell, poke, stack, WINDOW};
use crate::same;
use crate::threads::{base_priority, child_plan, make_child, park, touch_image, Main, Spawn};
use core::hint::spin_loop;
use core::mem::offset_of;
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::FPAGE_READ;
use keel_l4::abi::ids::ID_CHECK;
use keel_l4::abi::memory::*;
use keel_l4::abi::trace::{CHECK_ALL, CHECK_DELAY};
use keel_l4::abi::{ExRegs, Frame};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, send_and_wait, send_as, sleep, wait, Message, Timeout};
use keel_l4::kip::{kip, now};
use keel_l4::{kernel_object, thread, utcb, Error, Id};

pub const CASES: &[Case] = &[
    ("virtual-sender-comes-before-a-closed-wait", virtual_sender),
    ("debug-registers-come-before-a-closed-wait", debug_registers),
    ("ip-exchanged-before-the-call-is-served", redirected),
    ("error-code-written-by-the-chief", error_code),
];

/// How long the call of a thread on the other processor waits for its lock, in ns: longer than all
/// that the worker does meanwhile.
const DELAY: u64 = 500_000_000;
/// How long the worker lets the call run before it acts.
const BEGINNING: u64 = 5_000_000;
/// The longest wait of a case for an expected event, in ns.
const PATIENCE: u64 = 5_000_000_000;

/// The last processor: not the worker's, if there is another one.
fn other() -> u64 {
    kip().processors - 1
}

/// Cell: the thread for whose answers a `caller` waits.
const SERVER: usize = 1;
/// Cell: the worker, which tells that thread to answer.
const WORKER: usize = 2;
/// Cell: the first result of a thread.
const GOT: usize = 3;
/// Cell: a thread is told to make its call.
const GO: usize = 4;
/// Cell: it is about to do so.
const GOES: usize = 5;

/// Cell: a thread waits for that.
const WAITS: usize = 6;
/// Cell: a caller is at the right place.
const PLACED: usize = 7;

/// Reports that it waits, and waits without a call for the signal.
fn wait_to_go() {
    cell(WAITS).store(1, SeqCst);
    while cell(GO).load(SeqCst) == 0 {
        spin_loop();
    }
    cell(GOES).store(1, SeqCst);
}

/// Lets the thread on the other processor make its call, which takes `DELAY` there. The worker
/// resumes in the middle of that.
fn let_go() -> Outcome {
    match kernel_object::invoke(Id(ID_CHECK), CHECK_DELAY, &[DELAY, other()]) {
        Ok(_) | Err(Failure { error: Error::NoPartner, .. }) => {}
        Err(failure) => return Err(failure.into()),
    }
    cell(GO).store(1, SeqCst);
    while cell(GOES).load(SeqCst) == 0 {
        sleep(BEGINNING / 10);
    }
    let begun = now();
    while now() < begun + BEGINNING {
        spin_loop();
    }
    Ok(())
}

/// Answers the first call at once, the second when the worker says so.
extern "C" fn server(_: u64) -> ! {
    if let Ok(first) = wait(Timeout::Never) {
        if let Ok(second) = send_and_wait(first.from, Message::label(1), Timeout::Zero, Timeout::Never) {
            let _ = receive(Id(cell(WORKER).load(SeqCst)), Timeout::Never);
            let _ = send(second.from, Message::label(2), Timeout::Zero);
        }
    }
    park()
}

/// Calls the server twice; the second call is the one that is delayed.
extern "C" fn caller(_: u64) -> ! {
    let server = Id(cell(SERVER).load(SeqCst));
    touch_image();
    // A processor's fast paths cache the partner of the last call.
    while cell(PLACED).load(SeqCst) == 0 {
        spin_loop();
    }
    let _ = call(server, Message::label(0));
    wait_to_go();
    if let Ok(got) = call(server, Message::label(0)) {
        cell(GOT).store(got.tag.label() as u64, SeqCst);
    }
    park()
}

/// Server and caller, in a child task, on the other processor; the caller is about to make its
/// second call.
fn pair() -> Result<(Id, Id), Failure> {
    let server = Spawn::new(server, 0).create()?;
    thread::set_processor(server, other())?;
    cell(SERVER).store(server.0, SeqCst);
    cell(WORKER).store(utcb::my_id().0, SeqCst);
    thread::act(server, EX_START)?;
    let child = make_child(&child_plan(caller, 0))?.thread;
    thread::set_processor(child, other())?;
    cell(PLACED).store(1, SeqCst);
    while cell(WAITS).load(SeqCst) == 0 {
        sleep(BEGINNING / 10);
    }
    Ok((server, child))
}

/// A message that shows the caller's server as its sender is queued after the caller's flags were
/// checked and before the caller waits.
fn virtual_sender() -> Outcome {
    const SHOWN: u64 = 77;
    let (server, caller) = pair()?;
    let_go()?;
    send_as(server, caller, Message::label(SHOWN as u32), Timeout::After(PATIENCE))?;
    let end = now() + PATIENCE;
    while cell(GOT).load(SeqCst) == 0 && now() < end {
        sleep(BEGINNING / 10);
    }
    same!("what the caller got first", cell(GOT).load(SeqCst), SHOWN);
    Ok(())
}

/// The caller gets debug registers by a call that then fails: the kernel's accounting must not lose
/// them.
fn debug_registers() -> Outcome {
    const NOT_ALIGNED: u64 = 1;
    let (server, caller) = pair()?;
    let_go()?;
    let mut record = ExRegs::zeroed();
    record.fpu = NOT_ALIGNED;
    let refused = thread::exchange(caller, EX_DEBUG_SET | EX_FPU_GET, &mut record);
    same!("the call's end", refused.map_err(|failure| failure.error), Err(Error::Invalid));
    sleep(2 * DELAY);
    if let Ok(answer) = kernel_object::invoke(Id(ID_CHECK), CHECK_ALL, &[]) {
        same!("what the check of the kernel finds", answer.words[0], 0);
    }
    send(server, Message::label(0), Timeout::After(PATIENCE))?;
    Ok(())
}

/// A thread that waits for its lock with a call is moved. It arrives there, and the call is not
/// executed any more.
fn redirected() -> Outcome {
    extern "C" fn landed(_: u64) -> ! {
        cell(GOT).store(1, SeqCst);
        park()
    }
    extern "C" fn waiting(_: u64) -> ! {
        wait_to_go();
        let _ = receive(Id::NIL, Timeout::Never);
        park()
    }
    let id = Spawn::new(waiting, 0).create()?;
    thread::set_processor(id, other())?;
    thread::act(id, EX_START)?;
    let_go()?;
    let mut record = ExRegs::zeroed();
    (record.ip, record.sp) = (landed as Main as usize as u64, stack());
    thread::exchange(id, EX_CANCEL | EX_IP | EX_SP, &mut record)?;
    let end = now() + PATIENCE;
    while cell(GOT).load(SeqCst) == 0 && now() < end {
        sleep(BEGINNING / 10);
    }
    same!("it is there", cell(GOT).load(SeqCst), 1);
    Ok(())
}

/// Repeatedly changes the frame at `frame` as if its thread had written.
extern "C" fn writer(frame: u64) -> ! {
    const WRITE: u64 = 2;
    loop {
        for offset in [offset_of!(Frame, orig_ax), offset_of!(Frame, error_code)] {
            // SAFETY: the frame belongs to the case.
            unsafe { poke(frame + offset as u64, WRITE) };
        }
    }
}

/// The chief can write a frame while its thread enters the kernel: a fault is reported as the
/// hardware reported it.
fn error_code() -> Outcome {
    const FAULTS: u64 = 500;
    let alien = Alien::new(code_load, |frame| frame.di = WINDOW)?;
    let mut fault = alien.start()?;
    let frame = AREA_DEFAULT + AREA_FRAMES + alien.frame * FRAME_SIZE;
    let writer = Spawn::new(writer, frame).create()?;
    thread::set_priority(writer, base_priority() - 1)?;
    thread::set_processor(writer, other())?;
    thread::act(writer, EX_START)?;
    for number in 0..FAULTS {
        let (kind, access) = (fault.tag.kind(), fault.tag.label() as u64);
        same!("kind, access, address", (kind, access, fault.words[0]), (KIND_PAGE_FAULT, FPAGE_READ, WINDOW));
        // The fast path is for an open wait.
        fault = match number % 2 {
            0 => send_and_wait(alien.id, Message::label(0), Timeout::Zero, Timeout::Never)?,
            _ => call(alien.id, Message::label(0))?,
        };
    }
    Ok(())
}
