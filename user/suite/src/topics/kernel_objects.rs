// SPDX-License-Identifier: BSD-2-Clause
//! Kernel objects: timers and GSIs.

use crate::case::{Case, Outcome};
use crate::pool::cell;
use crate::threads::{child, helper, own, park, pause, RUNNER};
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::ids::*;
use keel_l4::ipc::{call, receive, send, sleep, wait, Message, Timeout};
use keel_l4::kernel_object::{account, acknowledge, bind, claim_timer, give, invoke, set_timer, unbind};
use keel_l4::kip::now;
use keel_l4::protocol::status::{ERROR_DENIED, ERROR_NO_PARTNER};
use keel_l4::{sigma0, thread, Error, Id};

pub const CASES: &[Case] = &[
    ("timer-fires", timer_fires),
    ("timer-in-the-past-fires-at-once", timer_past),
    ("timer-off", timer_off),
    ("timer-replaced", timer_replaced),
    ("timer-pending-until-received", timer_pending),
    ("timer-in-an-open-wait", timer_open_wait),
    ("timer-fires-once", timer_once),
    ("timer-again-and-again", timer_again),
    ("two-timers", two_timers),
    ("timer-of-another-task-has-no-name", timer_of_another),
    ("timer-without-owner", timer_without_owner),
    ("timer-detached", timer_detached),
    ("timer-freed-with-its-thread", timer_freed),
    ("timers-run-out-with-an-error", timers_run_out),
    ("timers-of-others-do-not-run-out", others_timers),
    ("timers-cost-a-page-while-there-are-any", timers_cost),
    ("arming-shortens-another's-wait", arming_shortens),
    ("waiting-for-another's-object", wait_others),
    ("unknown-operation", unknown_operation),
    ("object-that-does-not-exist", no_such_object),
    ("answer-and-status", answer_and_status),
    ("gsi-without-the-right", gsi_denied),
    ("gsi-bind-unbind", gsi_bind),
    ("gsi-mode-unknown", gsi_mode),
    ("gsi-given-on", gsi_given),
    ("gsi-returns-to-the-chief", gsi_returns),
    ("messages-signalled-without-the-right", msi),
];

/// A GSI that no device of the emulated machine raises.
const GSI: u32 = 11;

fn timer_fires() -> Outcome {
    let timer = claim_timer()?;
    let deadline = now() + 3_000_000;
    set_timer(timer, deadline)?;
    let got = receive(timer, Timeout::Never)?;
    same!("kind, sender", (got.tag.kind(), got.from), (KIND_INTERRUPT, timer));
    holds!("not before its time", got.words[0] >= deadline && now() >= deadline);
    Ok(())
}

fn timer_past() -> Outcome {
    let timer = claim_timer()?;
    set_timer(timer, 1)?;
    same!("kind", receive(timer, Timeout::After(1_000_000_000))?.tag.kind(), KIND_INTERRUPT);
    Ok(())
}

fn timer_off() -> Outcome {
    let timer = claim_timer()?;
    set_timer(timer, now() + 5_000_000)?;
    set_timer(timer, TIMER_OFF)?;
    refused!("a timer that is off", receive(timer, Timeout::After(15_000_000)), Receive Timeout);
    Ok(())
}

fn timer_replaced() -> Outcome {
    let timer = claim_timer()?;
    let early = now() + 2_000_000;
    set_timer(timer, early)?;
    pause(5_000_000);
    let late = now() + 10_000_000;
    set_timer(timer, late)?;
    holds!("only the later time's message", receive(timer, Timeout::Never)?.words[0] >= late);
    Ok(())
}

fn timer_pending() -> Outcome {
    let timer = claim_timer()?;
    set_timer(timer, now())?;
    pause(5_000_000);
    same!("kind", receive(timer, Timeout::Zero)?.tag.kind(), KIND_INTERRUPT);
    Ok(())
}

fn timer_open_wait() -> Outcome {
    let timer = claim_timer()?;
    set_timer(timer, now() + 2_000_000)?;
    same!("sender", wait(Timeout::Never)?.from, timer);
    Ok(())
}

fn timer_once() -> Outcome {
    let timer = claim_timer()?;
    set_timer(timer, now())?;
    receive(timer, Timeout::Never)?;
    refused!("a second message", receive(timer, Timeout::After(10_000_000)), Receive Timeout);
    Ok(())
}

fn timer_again() -> Outcome {
    let timer = claim_timer()?;
    let mut time = now();
    for _ in 0..200 {
        time = time.max(now()) + 100_000;
        set_timer(timer, time)?;
        holds!("not before its time", receive(timer, Timeout::Never)?.words[0] >= time);
    }
    Ok(())
}

fn two_timers() -> Outcome {
    let (late, early) = (claim_timer()?, claim_timer()?);
    holds!("two timers", late != early);
    set_timer(late, now() + 20_000_000)?;
    set_timer(early, now() + 5_000_000)?;
    same!("first", wait(Timeout::Never)?.from, early);
    same!("second", wait(Timeout::Never)?.from, late);
    Ok(())
}

extern "C" fn meddle(timer: u64) -> ! {
    let word = set_timer(Id(timer), 1).map_or_else(|f| f.error as u64, |()| 1000);
    cell(1).store(word, SeqCst);
    park()
}

fn timer_of_another() -> Outcome {
    let timer = claim_timer()?;
    child(meddle, timer.0)?;
    pause(10_000_000);
    same!("the other's status", cell(1).load(SeqCst), ERROR_NO_PARTNER);
    refused!("nothing fired", receive(timer, Timeout::Zero), Receive Timeout);
    Ok(())
}

fn timer_without_owner() -> Outcome {
    let last = Id(ID_TIMER + TIMERS - 1);
    refused!("setting it", set_timer(last, 1), Call NoPartner);
    Ok(())
}

fn timer_detached() -> Outcome {
    let timer = claim_timer()?;
    set_timer(timer, now())?;
    pause(2_000_000);
    unbind(timer)?;
    refused!("its message is gone too", wait(Timeout::Zero), Receive Timeout);
    refused!("setting it", set_timer(timer, 1), Call NoPartner);
    Ok(())
}

extern "C" fn claim(_: u64) -> ! {
    cell(1).store(claim_timer().map_or(0, |t| t.0), SeqCst);
    park()
}

fn timer_freed() -> Outcome {
    let id = helper(claim, 0)?;
    pause(1_000_000);
    let timer = Id(cell(1).load(SeqCst));
    holds!("a timer", timer != Id::NIL);
    crate::threads::remove(id)?;
    refused!("setting it", set_timer(timer, 1), Call NoPartner);
    same!("it can be claimed again", claim_timer()?, timer);
    Ok(())
}

fn claim_all() -> Outcome {
    for _ in 0..TIMERS {
        claim_timer()?;
    }
    refused!("one more", claim_timer(), Call NoMemory);
    Ok(())
}

fn timers_run_out() -> Outcome {
    claim_all()
}

fn others_timers() -> Outcome {
    claim_all()?;
    child(claim, 0)?;
    pause(10_000_000);
    same!("the child's first timer", cell(1).load(SeqCst), ID_TIMER);
    Ok(())
}

fn timers_cost() -> Outcome {
    let used = || Ok::<u64, keel_l4::call::Failure>(account(Id::NIL)?[ACCOUNT_USED as usize]);
    let before = used()?;
    let timers = [claim_timer()?, claim_timer()?];
    same!("pages used", used()?, before + 1);
    for timer in timers {
        unbind(timer)?;
    }
    same!("pages used afterwards", used()?, before);
    Ok(())
}

extern "C" fn arm(timer: u64) -> ! {
    sleep(5_000_000);
    let _ = set_timer(Id(timer), 1);
    park()
}

fn arming_shortens() -> Outcome {
    let timer = claim_timer()?;
    set_timer(timer, now() + 60_000_000_000)?;
    helper(arm, timer.0)?;
    let before = now();
    receive(timer, Timeout::Never)?;
    holds!("an early end", now() - before < 5_000_000_000);
    Ok(())
}

fn wait_others() -> Outcome {
    for id in [Id(ID_TIMER + TIMERS - 1), Id::irq(3), Id(ID_IRQ + 0x3ff), Id(4095)] {
        refused!("waiting for a source that is not ours", receive(id, Timeout::Zero), Receive NoPartner);
    }
    Ok(())
}

fn unknown_operation() -> Outcome {
    let timer = claim_timer()?;
    refused!("at a timer", invoke(timer, 99, &[]), Call Invalid);
    refused!("at the quota", invoke(Id::QUOTA, 99, &[]), Call Invalid);
    refused!("attaching a timer that is attached", invoke(timer, OBJECT_GIVE, &[0]), Call Invalid);
    Ok(())
}

fn no_such_object() -> Outcome {
    for id in [3, 0xff, ID_IRQ + 0x3ff, SMALL_IDS - 1] {
        refused!("binding", bind(Id(id), IRQ_MODE_DEFAULT), Call NoPartner);
    }
    Ok(())
}

fn answer_and_status() -> Outcome {
    let answer = call(Id::MSI, Message::new(MSI_ALLOCATE as u32, &[]))?;
    same!("kind, label of the answer", (answer.tag.kind(), answer.tag.label() as u64), (KIND_KERNEL, ERROR_DENIED));
    let status = send(Id::MSI, Message::new(MSI_ALLOCATE as u32, &[]), Timeout::Never);
    refused!("the same without an answer", status, Send Denied);
    Ok(())
}

fn gsi_denied() -> Outcome {
    refused!("a GSI without a pin", bind(Id::irq(GSI_COUNT as u32 - 1), IRQ_MODE_DEFAULT), Call NoPartner);
    // The system timer's GSI has no owner. On a PC it has the pin of GSI 2, which therefore does
    // not exist.
    let second = bind(Id::irq(2), IRQ_MODE_DEFAULT).map_err(|failure| failure.error);
    holds!("GSI 2 to be refused", matches!(second, Err(Error::NoPartner | Error::Denied)));
    for gsi in [0, 1] {
        refused!("binding", bind(Id::irq(gsi), IRQ_MODE_DEFAULT), Call Denied);
        refused!("acknowledging", acknowledge(Id::irq(gsi)), Call Denied);
        refused!("giving", give(Id::irq(gsi), thread::task_of(own(RUNNER))), Call Denied);
    }
    Ok(())
}

fn gsi_bind() -> Outcome {
    sigma0::interrupt(GSI)?;
    let gsi = Id::irq(GSI);
    bind(gsi, IRQ_MODE_DEFAULT)?;
    refused!("a second time", bind(gsi, IRQ_MODE_DEFAULT), Call Busy);
    refused!("nothing came", receive(gsi, Timeout::After(2_000_000)), Receive Timeout);
    acknowledge(gsi)?;
    unbind(gsi)?;
    refused!("waiting afterwards", receive(gsi, Timeout::Zero), Receive NoPartner);
    bind(gsi, IRQ_MODE_LEVEL)?;
    unbind(gsi)?;
    Ok(())
}

fn gsi_mode() -> Outcome {
    sigma0::interrupt(GSI)?;
    for mode in [3, 255, u64::MAX] {
        refused!("binding", bind(Id::irq(GSI), mode), Call Invalid);
    }
    Ok(())
}

/// Stores in cell 1 the result of binding GSI `GSI`.
extern "C" fn attach_line(_: u64) -> ! {
    sleep(3_000_000);
    cell(1).store(bind(Id::irq(GSI), IRQ_MODE_DEFAULT).map_or_else(|f| f.error as u64, |()| 1000), SeqCst);
    park()
}

fn gsi_given() -> Outcome {
    sigma0::interrupt(GSI)?;
    let child = child(attach_line, 0)?;
    give(Id::irq(GSI), child.task)?;
    refused!("the giver has no right any more", bind(Id::irq(GSI), IRQ_MODE_DEFAULT), Call Denied);
    pause(15_000_000);
    same!("the taker's status", cell(1).load(SeqCst), 1000);
    Ok(())
}

fn gsi_returns() -> Outcome {
    // The previous case left the GSI with a child that is deleted now.
    bind(Id::irq(GSI), IRQ_MODE_DEFAULT)?;
    unbind(Id::irq(GSI))?;
    Ok(())
}

fn msi() -> Outcome {
    refused!("the allocator", invoke(Id::MSI, MSI_ALLOCATE, &[]), Call Denied);
    refused!("a source", invoke(Id(ID_MSI_SOURCE), OBJECT_BIND, &[]), Call Denied);
    refused!("beyond the last", invoke(Id(ID_MSI_SOURCE + MSI_SOURCES - 1), OBJECT_UNBIND, &[]), Call NoPartner);
    refused!("no operation", invoke(Id::MSI, u64::from(u32::MAX), &[]), Call Invalid);
    Ok(())
}
