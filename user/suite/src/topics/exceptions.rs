// SPDX-License-Identifier: BSD-2-Clause
//! Exceptions of native threads, with the worker as their handler.

use crate::alien::{code_cli, code_divide, code_int3, code_int32, code_int80, code_ud2};
use crate::case::{Case, Outcome};
use crate::pool::{cell, WINDOW};
use crate::threads::{in_image, park, pause, remove, Spawn};
use crate::{holds, same};
use core::mem::offset_of;
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::memory::{EX_CREATE, EX_DELETE, EX_HANDLER, EX_IP, EX_PAGER, EX_SP, EX_START, EX_TRIGGER};
use keel_l4::abi::{ExRegs, Frame};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, wait, Message, Received, Timeout};
use keel_l4::pager::{refused, Fault};
use keel_l4::{thread, utcb, Id, Tag};

pub const CASES: &[Case] = &[
    ("undefined-instruction", undefined),
    ("division-by-zero", divide),
    ("breakpoint", breakpoint),
    ("privileged-instruction", privileged),
    ("interrupt-without-a-gate", no_gate),
    ("int-0x80-of-a-native-thread", int80),
    ("port-without-the-right", port),
    ("message-shape", message_shape),
    ("frame-holds-the-registers", frame_registers),
    ("answer-skips-the-instruction", skips),
    ("answer-without-a-frame-repeats", repeats),
    ("bad-ip-in-the-answer", bad_ip),
    ("flags-are-masked", masked_flags),
    ("trigger-of-a-native-thread", trigger),
    ("no-handler", no_handler),
    ("refused-and-no-handler", refused_and_no_handler),
    ("single-step", single_step),
];

/// Starts native code with the caller as handler and returns its message.
fn raised(code: unsafe extern "C" fn()) -> Result<(Id, Received), Failure> {
    let id = create(code)?;
    thread::act(id, EX_START)?;
    Ok((id, receive(id, Timeout::Never)?))
}

fn create(code: unsafe extern "C" fn()) -> Result<Id, Failure> {
    let mut record = ExRegs::zeroed();
    record.ip = code as usize as u64;
    record.sp = crate::pool::stack();
    record.pager = Id::ROOT.0;
    record.handler = utcb::my_id().0;
    let any = thread::lthread(utcb::my_id(), keel_l4::abi::ids::LTHREAD_TASK as u16);
    thread::exchange(any, EX_CREATE | EX_IP | EX_SP | EX_PAGER | EX_HANDLER, &mut record)
}

pub fn field(offset: usize) -> u64 {
    utcb::word(REGISTER_WORDS as usize + offset / 8)
}

fn set_field(offset: usize, value: u64) {
    utcb::set_word(REGISTER_WORDS as usize + offset / 8, value);
}

/// The whole frame in words 6 to 37.
pub const FRAME_TAG: Tag = Tag::new(0, REGISTER_WORDS + (size_of::<Frame>() / 8) as u64);

fn expect(code: unsafe extern "C" fn(), vector: u32) -> Result<Received, crate::case::Fault> {
    let (_, got) = raised(code)?;
    same!("kind and vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, vector));
    holds!("an ip in the code", in_image(got.words[1]));
    Ok(got)
}

fn undefined() -> Outcome {
    same!("ip", expect(code_ud2, 6)?.words[1], code_ud2 as *const () as u64);
    Ok(())
}

fn divide() -> Outcome {
    expect(code_divide, 0).map(|_| ())
}

fn breakpoint() -> Outcome {
    same!("ip after the instruction", expect(code_int3, 3)?.words[1], code_int3 as *const () as u64 + 1);
    Ok(())
}

fn privileged() -> Outcome {
    same!("error code", expect(code_cli, 13)?.words[0], 0);
    Ok(())
}

fn no_gate() -> Outcome {
    expect(code_int32, 13).map(|_| ())
}

fn int80() -> Outcome {
    expect(code_int80, 13).map(|_| ())
}

fn port() -> Outcome {
    expect(crate::alien::code_in, 13).map(|_| ())
}

fn message_shape() -> Outcome {
    let (id, got) = raised(code_ud2)?;
    same!("sender, frame index", (got.from, got.words[2]), (id, FRAME_NONE));
    same!("number of words", got.tag.words(), FRAME_TAG.words());
    Ok(())
}

fn frame_registers() -> Outcome {
    let (_, got) = raised(code_ud2)?;
    same!("ip", field(offset_of!(Frame, ip)), got.words[1]);
    same!("cs, ss", (field(offset_of!(Frame, cs)), field(offset_of!(Frame, ss)) & 0xff), (0x33, 0x2b));
    same!("vector", field(offset_of!(Frame, vector)), 6);
    holds!("interrupts on", field(offset_of!(Frame, flags)) & 0x200 != 0);
    Ok(())
}

extern "C" fn landing(argument: u64) -> ! {
    cell(1).store(argument, SeqCst);
    park()
}

fn skips() -> Outcome {
    let (id, _) = raised(code_ud2)?;
    set_field(offset_of!(Frame, ip), landing as *const () as u64);
    set_field(offset_of!(Frame, di), 55);
    send(id, Message { tag: FRAME_TAG, words: [0; 6] }, Timeout::Zero)?;
    pause(2_000_000);
    same!("it landed with its argument", cell(1).load(SeqCst), 55);
    Ok(())
}

fn repeats() -> Outcome {
    let (id, first) = raised(code_ud2)?;
    for _ in 0..5 {
        same!("ip", call(id, Message::label(0))?.words[1], first.words[1]);
    }
    Ok(())
}

fn bad_ip() -> Outcome {
    for ip in [0x8000_0000_0000, 0xffff_7fff_ffff_ffff, 1 << 63, u64::MAX >> 1] {
        let (id, _) = raised(code_ud2)?;
        set_field(offset_of!(Frame, ip), ip);
        let got = call(id, Message { tag: FRAME_TAG, words: [0; 6] })?;
        holds!("a fault of its own", matches!(got.tag.kind(), KIND_EXCEPTION | KIND_PAGE_FAULT));
        if got.tag.kind() == KIND_EXCEPTION {
            same!("vector", got.tag.label(), 13);
        }
        remove(id)?;
    }
    Ok(())
}

fn masked_flags() -> Outcome {
    let (id, _) = raised(code_ud2)?;
    set_field(offset_of!(Frame, flags), !0x100);
    set_field(offset_of!(Frame, cs), 0);
    set_field(offset_of!(Frame, ss), 0xffff);
    let got = call(id, Message { tag: FRAME_TAG, words: [0; 6] })?;
    let (vector, flags) = (got.tag.label(), field(offset_of!(Frame, flags)));
    // A user may set the flag for alignment checking (AC), and it may raise its exception.
    holds!("an exception in user mode", vector == 6 || vector == 17);
    same!("IOPL and VM", flags & 0x2_3000, 0);
    holds!("interrupts on", flags & 0x200 != 0);
    Ok(())
}

extern "C" fn spinner(_: u64) -> ! {
    loop {
        cell(2).fetch_add(1, SeqCst);
    }
}

fn trigger() -> Outcome {
    let id = Spawn::watched(spinner, 0).start()?;
    pause(2_000_000);
    thread::act(id, EX_TRIGGER)?;
    let got = receive(id, Timeout::Never)?;
    same!("kind", got.tag.kind(), KIND_TRIGGER);
    let before = cell(2).load(SeqCst);
    send(id, Message::label(0), Timeout::Zero)?;
    pause(20_000_000);
    holds!("it runs on", cell(2).load(SeqCst) > before);
    Ok(())
}

fn no_handler() -> Outcome {
    let id = create(code_ud2)?;
    let mut record = ExRegs::zeroed();
    record.handler = Id::INVALID.0;
    thread::exchange(id, EX_HANDLER | EX_START, &mut record)?;
    pause(2_000_000);
    same!("its state", thread::schedule(id, 0, 0, 0)?.state, STATE_INACTIVE);
    Ok(())
}

/// A pager that refuses a native thread's fault stops the thread if it has no handler; otherwise
/// the bit has no effect. A fault whose pager is in an open wait takes the fast path.
fn refused_and_no_handler() -> Outcome {
    for (handler, is_open) in [utcb::my_id(), Id::NIL].into_iter().flat_map(|id| [(id, false), (id, true)]) {
        let mut record = ExRegs::zeroed();
        record.ip = WINDOW;
        record.sp = crate::pool::stack();
        record.pager = utcb::my_id().0;
        record.handler = handler.0;
        let any = thread::lthread(utcb::my_id(), keel_l4::abi::ids::LTHREAD_TASK as u16);
        let id = thread::exchange(any, EX_CREATE | EX_IP | EX_SP | EX_PAGER | EX_HANDLER, &mut record)?;
        thread::act(id, EX_START)?;
        for _ in 0..2 {
            let got = if is_open { wait(Timeout::Never)? } else { receive(id, Timeout::Never)? };
            let fault = Fault::of(&got);
            same!("sender", got.from, id);
            same!("address, ip", (fault.address, fault.ip), (WINDOW, WINDOW));
            send(id, refused(), Timeout::Zero)?;
            if handler == Id::NIL {
                same!("its state", thread::schedule(id, 0, 0, 0)?.state, STATE_INACTIVE);
                break;
            }
        }
        thread::act(id, EX_DELETE)?;
    }
    Ok(())
}

fn single_step() -> Outcome {
    let (id, _) = raised(code_ud2)?;
    set_field(offset_of!(Frame, ip), crate::alien::code_nops as *const () as u64);
    set_field(offset_of!(Frame, flags), 0x302);
    let got = call(id, Message { tag: FRAME_TAG, words: [0; 6] })?;
    same!("vector", got.tag.label(), 1);
    same!("ip, one instruction on", got.words[1], crate::alien::code_nops as *const () as u64 + 1);
    holds!("the single-step bit of dr6", got.words[3] & 0x4000 != 0);
    Ok(())
}
