// SPDX-License-Identifier: BSD-2-Clause
//! Handlers that have no FPU state of their own and borrow that of the alien thread that they
//! handle (EX_FPU_BORROW): they see and change it and no other, and nobody else sees it.

use crate::alien::{address, code_fpu, code_fpu_load, code_fpu_read, code_syscall, Alien};
use crate::case::{Case, Fault, Outcome};
use crate::pool::{cell, pages, WINDOW};
use crate::threads::{base_priority, helper, park, Spawn};
use crate::topics::fpu::{answer, get, serve, set, set_word, set_xmm7, with_xmm0, word, xmm7};
use crate::topics::fpu::{ASK, BOTH, COMPONENTS, XMM0, XMM7};
use crate::{holds, refused, same};
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::{KIND_EXCEPTION, KIND_PAGE_FAULT, KIND_SYSCALL, KIND_TRIGGER};
use keel_l4::abi::memory::{EX_FPU_BORROW, EX_FPU_RESET, EX_FPU_SET, EX_HANDLER, EX_TRIGGER};
use keel_l4::abi::ExRegs;
use keel_l4::ipc::{call, send_and_wait, sleep, wait, Message, Timeout};
use keel_l4::thread::set_priority;
use keel_l4::{thread, utcb, Id};

pub const CASES: &[Case] = &[
    ("read-and-changed", || finished(read_and_changed)),
    ("two-in-turn-with-one-that-has-none", || finished(in_turn)),
    ("with-other-registers", || finished(other_registers)),
    ("page-faults", || finished(page_faults)),
    ("read-and-set-by-calls-meanwhile", || finished(by_calls)),
    ("called-natives-do-not-see-it", || finished(called_native)),
    ("answered-natives-do-not-see-it", || finished(answered_native)),
    ("natives-after-a-deletion-do-not-see-it", || finished(deleted)),
    ("none-is-handled", || traps(nothing)),
    ("a-pager-that-is-not-the-handler", || traps(only_pager)),
    ("put-away-for-another", || traps(put_away)),
    ("handled-by-another-borrower", || traps(of_another)),
    ("of-one-that-waits-while-another-is-handled", || traps(of_one_that_waits)),
    ("of-one-that-waits-after-a-trigger-of-another", || traps(after_trigger)),
    ("of-one-that-waits-after-an-answer-without-a-wait", || traps(after_release)),
    ("refused-where-there-is-a-state", refused_with_state),
    ("a-state-of-its-own", || finished(own_state)),
];

/// Exception of an FPU instruction where no FPU is to be had.
const NO_FPU: u32 = 7;
/// Messages that suffice to replace all cached partners.
const ROUNDS: u64 = 20;

/// What a borrower's case returned.
struct Shared(UnsafeCell<Outcome>);
// SAFETY: the borrower writes it before its message, and the worker reads it after that.
unsafe impl Sync for Shared {}
static OUTCOME: Shared = Shared(UnsafeCell::new(Ok(())));
type Body = fn() -> Outcome;

/// Borrows, runs the body, and calls the worker, whose id is in cell 0.
extern "C" fn borrower(body: u64) -> ! {
    // SAFETY: the argument was made of such a function.
    let body: Body = unsafe { core::mem::transmute(body) };
    let outcome = thread::act(utcb::my_id(), EX_FPU_BORROW).map_err(Fault::from).and_then(|_| body());
    // SAFETY: see `Shared`.
    unsafe { *OUTCOME.0.get() = outcome };
    let _ = call(Id(cell(0).load(SeqCst)), Message::label(0));
    park()
}

/// Runs a body in a borrower. Returns the vector of the exception that it ended with, 0 if it
/// returned.
fn lend(body: Body) -> Result<u32, Fault> {
    let me = utcb::my_id();
    cell(0).store(me.0, SeqCst);
    Spawn { handler: me, ..Spawn::new(borrower, body as usize as u64) }.start()?;
    let got = wait(Timeout::Never)?;
    if got.tag.kind() == KIND_EXCEPTION {
        return Ok(got.tag.label());
    }
    // SAFETY: see `Shared`.
    unsafe { *OUTCOME.0.get() }.map(|()| 0)
}

fn finished(body: Body) -> Outcome {
    // Without XSAVE there is nothing else than anywhere: the state is kept in FXSAVE's format.
    same!("exception", lend(body)?, 0);
    Ok(())
}

fn traps(body: Body) -> Outcome {
    same!("exception", lend(body)?, NO_FPU);
    Ok(())
}

fn set_xmm0(value: u64) {
    // SAFETY: code that is compiled without SSE does not use xmm0.
    unsafe { core::arch::asm!("movq xmm0, {}", in(reg) value, options(nomem, nostack)) };
}

fn read_and_changed() -> Outcome {
    let alien = with_xmm0(0x1111)?;
    for round in 1..=ROUNDS {
        same!("the thread's xmm7", xmm7(), 0x1111);
        set_xmm0(round);
        same!("xmm0 after a call", alien.resume()?.words[0], round);
        set_xmm0(round << 32);
        same!("xmm0 after an answer", answer(&alien, Message::label(0))?.words[0], round << 32);
    }
    Ok(())
}

fn in_turn() -> Outcome {
    let users = [with_xmm0(0x1111)?, with_xmm0(0x2222)?];
    let other = Alien::new(code_syscall, |_| ())?;
    other.start()?;
    for round in 1..=ROUNDS {
        same!("a call", answer(&other, Message::label(0))?.tag.kind(), KIND_SYSCALL);
        for (alien, value) in users.iter().zip([0x1111, 0x2222]) {
            let before = if round == 1 { value } else { value + round - 1 };
            same!("xmm0", answer(alien, Message::label(0))?.words[0], before);
            same!("xmm7", xmm7(), value);
            set_xmm0(value + round);
        }
    }
    other.edit(|frame| frame.ip = address(code_fpu_read));
    let mut got = answer(&other, Message::label(0))?;
    while got.tag.kind() == KIND_PAGE_FAULT {
        got = other.serve(got)?;
    }
    same!("the initial xmm0", got.words[0], 0);
    same!("the initial xmm7", xmm7(), 0);
    Ok(())
}

/// Resumptions that cannot use SYSRET.
fn other_registers() -> Outcome {
    let (alien, another) = (with_xmm0(0x3333)?, Alien::new(code_syscall, |_| ())?);
    another.start()?;
    alien.resume()?;
    for round in 1..=ROUNDS {
        set_xmm0(round);
        alien.edit(|frame| (frame.ip, frame.bx) = (address(code_fpu_read), round));
        same!("xmm0", answer(&alien, Message::label(0))?.words[0], round);
        another.edit(|frame| (frame.ip, frame.bx) = (address(code_syscall), round));
        same!("a call", answer(&another, Message::label(0))?.tag.kind(), KIND_SYSCALL);
        same!("xmm0 of the first", answer(&alien, Message::label(0))?.words[0], round);
    }
    Ok(())
}

fn page_faults() -> Outcome {
    let alien = Alien::new(code_fpu_load, |frame| (frame.di, frame.si) = (0x5555, WINDOW))?;
    alien.start()?;
    let fault = answer(&alien, Message::label(0))?;
    same!("a fault", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, WINDOW));
    same!("xmm7 at the fault", xmm7(), 0x5555);
    set_xmm0(0x6666);
    let item = crate::threads::same_place(pages(1), keel_l4::abi::fpage::FPAGE_RWX);
    let item = keel_l4::abi::MapItem { send_base: WINDOW, ..item };
    let mut got = answer(&alien, Message::label(0).with_maps(&[item]))?;
    while got.tag.kind() == KIND_PAGE_FAULT {
        got = alien.serve(got)?;
    }
    same!("xmm0", got.words[0], 0x6666);
    Ok(())
}

fn by_calls() -> Outcome {
    let (alien, at) = (with_xmm0(0x7777)?, pages(1));
    get(alien.id, at)?;
    same!("xmm0", word(at + XMM0), 0x7777);
    set_xmm0(0x8888);
    get(alien.id, at)?;
    same!("xmm0 after a change", word(at + XMM0), 0x8888);
    set_word(at + XMM0, 0x9999);
    set(alien.id, at)?;
    same!("xmm0 in the thread", answer(&alien, Message::label(0))?.words[0], 0x9999);
    Ok(())
}

/// Messages after which a partner is known, and a message to it may take the fast path.
const KNOWN: u64 = 3;

/// The native server has no state until it is asked.
fn called_native() -> Outcome {
    let (alien, server) = (with_xmm0(0xaaaa)?, helper(serve, 0)?);
    for round in 1..=ROUNDS {
        same!("the thread's xmm7", xmm7(), 0xaaaa);
        let message = if round > KNOWN { Message::label(ASK) } else { Message::new(0, &[0]) };
        same!("the server's xmm7", call(server, message)?.words[0], 0);
        same!("xmm0 in the thread", answer(&alien, Message::label(0))?.words[0], 0xaaaa);
    }
    Ok(())
}

/// Calls the thread whose id is the argument; once it is asked, with what it has in xmm7.
extern "C" fn client(server: u64) -> ! {
    let mut value = 0;
    while let Ok(answer) = call(Id(server), Message::new(0, &[value])) {
        value = if answer.tag.label() == ASK { xmm7() } else { 0 };
    }
    park()
}

fn answered_native() -> Outcome {
    let client = helper(client, utcb::my_id().0)?;
    let mut got = wait(Timeout::Never)?;
    let alien = with_xmm0(0xbbbb)?;
    for round in 1..=ROUNDS {
        same!("who calls, and its xmm7", (got.from, got.words[0]), (client, 0));
        same!("xmm0 in the thread", alien.resume()?.words[0], 0xbbbb);
        let message = Message::label(if round > KNOWN { ASK } else { 0 });
        got = send_and_wait(client, message, Timeout::Zero, Timeout::Never)?;
    }
    Ok(())
}

fn deleted() -> Outcome {
    let (alien, server) = (with_xmm0(0xcccc)?, helper(serve, 0)?);
    same!("the thread's xmm7", xmm7(), 0xcccc);
    crate::threads::remove_task(alien.number)?;
    same!("the server's xmm7", call(server, Message::label(ASK))?.words[0], 0);
    Ok(())
}

fn nothing() -> Outcome {
    holds!("an FPU instruction", xmm7() == u64::MAX);
    Ok(())
}

fn only_pager() -> Outcome {
    let alien = Alien::new(code_fpu_load, |frame| (frame.di, frame.si) = (0xdddd, WINDOW))?;
    alien.start()?;
    let mut record = ExRegs::zeroed();
    record.handler = cell(0).load(SeqCst);
    thread::exchange(alien.id, EX_HANDLER, &mut record)?;
    same!("a fault", answer(&alien, Message::label(0))?.tag.kind(), KIND_PAGE_FAULT);
    nothing()
}

fn put_away() -> Outcome {
    let (_alien, server) = (with_xmm0(0xeeee)?, helper(serve, 1)?);
    same!("the server's", call(server, Message::new(0, &[1]))?.tag.label(), 0);
    nothing()
}

/// A borrower that is not the handler runs after the one that is.
extern "C" fn another(_: u64) -> ! {
    thread::act(utcb::my_id(), EX_FPU_BORROW).expect("it has no state");
    while let Ok(got) = wait(Timeout::Never) {
        let _ = nothing();
        let _ = send_and_wait(got.from, Message::label(0), Timeout::Zero, Timeout::Never);
    }
    park()
}

fn of_another() -> Outcome {
    let worker = Id(cell(0).load(SeqCst));
    let server = Spawn { handler: worker, ..Spawn::new(another, 0) }.start()?;
    let _alien = with_xmm0(0xffff)?;
    call(server, Message::label(0))?;
    Ok(())
}

/// The owner of the registers waits, the thread that is handled has none: also after a slow path.
fn of_one_that_waits() -> Outcome {
    let (_waits, other) = (with_xmm0(0x1234)?, Alien::new(code_syscall, |_| ())?);
    other.start()?;
    for _ in 0..KNOWN {
        same!("a call", answer(&other, Message::label(0))?.tag.kind(), KIND_SYSCALL);
    }
    // Another thread runs meanwhile, so that this one is loaded again.
    helper(sleeper, 0)?;
    sleep(1_000_000);
    nothing()
}

/// A thread sends its trigger without having run since the other one was handled.
fn after_trigger() -> Outcome {
    let (triggered, waits) = (with_xmm0(0x1234)?, with_xmm0(0x5678)?);
    triggered.resume()?;
    waits.resume()?;
    triggered.act(EX_TRIGGER)?;
    same!("the other's xmm7", xmm7(), 0x5678);
    same!("a trigger", answer(&triggered, Message::label(0))?.tag.kind(), KIND_TRIGGER);
    nothing()
}

/// The thread does not wait for its handler any more, nor has it run.
fn after_release() -> Outcome {
    let alien = with_xmm0(0x1234)?;
    same!("its xmm7", xmm7(), 0x1234);
    set_priority(alien.id, base_priority() - 1)?;
    alien.release()?;
    nothing()
}

fn refused_with_state() -> Outcome {
    set_xmm7(1);
    refused!("one's own", thread::act(utcb::my_id(), EX_FPU_BORROW), Call Invalid);
    let alien = Alien::new(code_fpu, |frame| frame.di = 1)?;
    refused!("an alien thread's", alien.act(EX_FPU_BORROW), Call Invalid);
    let thread = helper(sleeper, 0)?;
    refused!("one that gets a state", thread::act(thread, EX_FPU_BORROW | EX_FPU_SET), Call Invalid);
    Ok(())
}

extern "C" fn sleeper(_: u64) -> ! {
    park()
}

/// One that is given a state has that, and borrows none, until it is reset.
fn own_state() -> Outcome {
    let (me, at) = (utcb::my_id(), pages(1));
    get(me, at)?;
    set_word(at + COMPONENTS, BOTH);
    set_word(at + XMM7, 0x5555);
    set(me, at)?;
    same!("its own xmm7", xmm7(), 0x5555);
    let alien = with_xmm0(0x1111)?;
    for _ in 0..ROUNDS {
        same!("beside the thread's", xmm7(), 0x5555);
        set_xmm0(0x6666);
        same!("the thread's xmm0 after a call", alien.resume()?.words[0], 0x1111);
        same!("after an answer", answer(&alien, Message::label(0))?.words[0], 0x1111);
    }
    get(me, at)?;
    same!("its own xmm0 is read", word(at + XMM0), 0x6666);
    thread::act(me, EX_FPU_RESET)?;
    same!("the thread's xmm0 after that", alien.resume()?.words[0], 0x1111);
    same!("the thread's xmm7", xmm7(), 0x1111);
    Ok(())
}
