// SPDX-License-Identifier: BSD-2-Clause
//! The pending exception (trigger) of an alien thread, in each of its states.

use crate::alien::{code_spin, code_syscall, code_ud2, Alien};
use crate::case::{Case, Outcome};
use crate::pool::cell;
use crate::threads::pause;
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::memory::EX_TRIGGER;
use keel_l4::call::Failure;
use keel_l4::ipc::{notify, receive, sleep, wait, Message, Timeout};
use keel_l4::{thread, utcb, Id};

pub const CASES: &[Case] = &[
    ("while-it-runs", while_running),
    ("while-it-waits-for-its-handler", while_waiting),
    ("before-it-starts", before_start),
    ("twice-is-once", twice),
    ("after-the-frame-was-stored", after_frame),
    ("before-a-fault-is-repeated", before_fault),
    ("message-shape", message_shape),
    ("in-the-very-reply", in_reply),
    ("of-another-task-denied", denied),
    ("spinning-thread-is-stopped-again-and-again", again),
    ("notification-ends-the-handler's-wait", with_notification),
];

/// An alien thread that counts in cell 4, running.
fn spinning() -> Result<Alien, Failure> {
    let alien = Alien::new(code_spin, |f| f.di = cell(4) as *const _ as u64)?;
    alien.spin(cell(4))?;
    Ok(alien)
}

fn while_running() -> Outcome {
    let alien = spinning()?;
    alien.act(EX_TRIGGER)?;
    let got = receive(alien.id, Timeout::After(1_000_000_000))?;
    same!("kind", got.tag.kind(), KIND_TRIGGER);
    let before = cell(4).load(SeqCst);
    alien.release()?;
    pause(20_000_000);
    holds!("it runs on", cell(4).load(SeqCst) > before);
    Ok(())
}

fn while_waiting() -> Outcome {
    let alien = Alien::new(code_syscall, |f| f.ax = 1)?;
    alien.start()?;
    alien.act(EX_TRIGGER)?;
    refused!("nothing before the answer", receive(alien.id, Timeout::Zero), Receive Timeout);
    alien.edit(|f| f.ax = 2);
    same!("first the trigger", alien.resume()?.tag.kind(), KIND_TRIGGER);
    same!("then the next call", alien.resume()?.words[0], 2);
    Ok(())
}

fn before_start() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.act(EX_TRIGGER)?;
    let got = alien.start_raw()?;
    same!("kind, ip", (got.tag.kind(), got.words[1]), (KIND_TRIGGER, code_syscall as *const () as u64));
    same!("then its first call", alien.resume()?.tag.kind(), KIND_SYSCALL);
    Ok(())
}

fn twice() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    alien.act(EX_TRIGGER)?;
    alien.act(EX_TRIGGER)?;
    same!("first", alien.resume()?.tag.kind(), KIND_TRIGGER);
    same!("then", alien.resume()?.tag.kind(), KIND_SYSCALL);
    Ok(())
}

fn after_frame() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    alien.act(EX_TRIGGER)?;
    alien.edit(|f| f.ip = code_ud2 as *const () as u64);
    same!("ip of the trigger: the answer's", alien.resume()?.words[1], code_ud2 as *const () as u64);
    same!("then the new place", alien.resume()?.tag.label(), 6);
    Ok(())
}

fn before_fault() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    let fault = alien.start_raw()?;
    same!("the code is not there yet", fault.tag.kind(), KIND_PAGE_FAULT);
    alien.act(EX_TRIGGER)?;
    same!("first the trigger", keel_l4::ipc::call(alien.id, Message::label(0))?.tag.kind(), KIND_TRIGGER);
    same!("then the fault again", keel_l4::ipc::call(alien.id, Message::label(0))?.tag.kind(), KIND_PAGE_FAULT);
    Ok(())
}

fn message_shape() -> Outcome {
    let alien = spinning()?;
    alien.act(EX_TRIGGER)?;
    let got = receive(alien.id, Timeout::After(1_000_000_000))?;
    same!("sender, frame index", (got.from, got.words[2]), (alien.id, alien.frame));
    same!("ip in message and frame", got.words[1], alien.regs().ip);
    same!("orig-ax says: no call", alien.regs().orig_ax, u64::MAX);
    Ok(())
}

fn in_reply() -> Outcome {
    // A server that decides to reschedule just before it answers does this.
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    for _ in 0..100 {
        alien.act(EX_TRIGGER)?;
        same!("the answer's wait gets it", alien.resume()?.tag.kind(), KIND_TRIGGER);
        same!("then a call", alien.resume()?.tag.kind(), KIND_SYSCALL);
    }
    Ok(())
}

fn denied() -> Outcome {
    refused!("triggering the root task", thread::act(Id::ROOT, EX_TRIGGER), Call Denied);
    refused!("triggering no thread", thread::act(Id::INVALID, EX_TRIGGER), Call NoPartner);
    Ok(())
}

fn again() -> Outcome {
    let alien = spinning()?;
    for _ in 0..200 {
        alien.act(EX_TRIGGER)?;
        let got = receive(alien.id, Timeout::After(1_000_000_000))?;
        same!("kind", got.tag.kind(), KIND_TRIGGER);
        alien.release()?;
    }
    let before = cell(4).load(SeqCst);
    pause(20_000_000);
    holds!("it runs on", cell(4).load(SeqCst) > before);
    Ok(())
}

extern "C" fn notifier(to: u64) -> ! {
    sleep(5_000_000);
    let _ = notify(Id(to), 1);
    crate::threads::park()
}

fn with_notification() -> Outcome {
    let alien = spinning()?;
    let helper = crate::threads::helper(notifier, utcb::my_id().0)?;
    thread::set_priority(helper, crate::threads::base_priority())?;
    thread::set_priority(alien.id, crate::threads::base_priority() - 1)?;
    same!("kind", wait(Timeout::After(1_000_000_000))?.tag.kind(), KIND_NOTIFY);
    Ok(())
}
