// SPDX-License-Identifier: BSD-2-Clause
//! Hostile code and arguments. In most cases the expected result is that all other tasks continue.

use crate::alien::*;
use crate::case::{Case, Fault, Outcome};
use crate::pool::{cell, page, PAGE, WINDOW};
use crate::threads::{child, helper, park, pause, remove_task};
use crate::topics::window::slot;
use crate::{holds, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::FPAGE_RWX;
use keel_l4::abi::memory::{EX_DEBUG_SET, EX_TRIGGER, FEATURE_FSGSBASE};
use keel_l4::abi::programs::*;
use keel_l4::abi::{ExRegs, Frame, MapItem};
use keel_l4::call::{invoke, Failure, Registers};
use keel_l4::ipc::{call, receive, send, Message, Received, Timeout};
use keel_l4::kip::kip;
use keel_l4::processor::{avoid_faults, is_translated};
use keel_l4::{sigma0, thread, utcb, Fpage, Id};

pub const CASES: &[Case] = &[
    ("all-ones-in-every-call", all_ones),
    ("every-call-number", every_number),
    ("utcb-overwritten", utcb_overwritten),
    ("stack-pointer-in-the-kernel", kernel_stack),
    ("every-software-interrupt", every_interrupt),
    ("sysenter", sysenter),
    ("single-step-into-a-call", step_into_call),
    ("watchpoint-after-a-stack-switch", watch_after_ss),
    ("gs-base-chosen-by-the-user", gs_base),
    ("gs-base-chosen-by-a-spinner", gs_base_spinner),
    ("selectors-of-the-kernel", kernel_selectors),
    ("frames-of-random-words", random_frames),
    ("code-of-random-bytes", random_code),
    ("frame-changed-while-it-runs", frame_races),
];

/// Address of generated code in the alien task.
const CODE: u64 = 0x7000_0000;

/// A small random generator: the cases are reproducible.
pub fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Checks that a new task still works.
fn all_is_well() -> Outcome {
    let alien = Alien::new(code_syscall, |f| f.ax = 0x600d)?;
    same!("a fresh thread's rax", alien.start()?.words[0], 0x600d);
    remove_task(alien.number)?;
    Ok(())
}

extern "C" fn ones(_: u64) -> ! {
    for number in 1..16u64 {
        let words = [u64::MAX; 6];
        invoke(Registers { ax: number, di: u64::MAX, si: u64::MAX, dx: u64::MAX, words });
        invoke(Registers { ax: number | 0xffff_fff0, di: u64::MAX, si: u64::MAX, dx: u64::MAX, words });
        cell(1).fetch_add(1, SeqCst);
    }
    park()
}

fn all_ones() -> Outcome {
    child(ones, 0)?;
    pause(20_000_000);
    same!("calls that returned", cell(1).load(SeqCst), 15);
    all_is_well()
}

extern "C" fn numbers(_: u64) -> ! {
    for number in 0..0x1_0000u64 {
        // No call that waits: both phases get a zero timeout.
        let ax = (number & !0xf00) | IPC_SEND_ZERO | IPC_RECEIVE_ZERO;
        invoke(Registers { ax, di: Id::INVALID.0, ..Registers::default() });
    }
    cell(1).store(1, SeqCst);
    park()
}

fn every_number() -> Outcome {
    child(numbers, 0)?;
    for _ in 0..100 {
        pause(20_000_000);
        if cell(1).load(SeqCst) == 1 {
            return all_is_well();
        }
    }
    Err(Fault::new(format_args!("expected all calls to return, got none within 2 s")))
}

extern "C" fn scribble(_: u64) -> ! {
    let words = utcb::address().cast::<u64>();
    for fill in [u64::MAX, 0x8000_0000_0000_0000, 0x1234_5678_9abc_def0] {
        for index in 0..512 {
            // SAFETY: the page is this thread's own; the library is not used below.
            unsafe { words.add(index).write_volatile(fill) };
        }
        for number in 0..7u64 {
            let ax = number | IPC_SEND | IPC_RECEIVE | IPC_SEND_ZERO | IPC_RECEIVE_ZERO;
            invoke(Registers {
                ax: if number == 0 { ax } else { number },
                di: Id::SIGMA0.0,
                si: 32 << 8 | 128,
                ..Registers::default()
            });
            invoke(Registers { ax: number, di: 0, si: UNMAP_TASK, dx: Id::SIGMA0.0, words: [128; 6] });
        }
        cell(1).fetch_add(1, SeqCst);
    }
    loop {
        invoke(Registers { ax: CALL_IPC | IPC_RECEIVE, ..Registers::default() });
    }
}

fn utcb_overwritten() -> Outcome {
    child(scribble, 0)?;
    pause(20_000_000);
    same!("rounds", cell(1).load(SeqCst), 3);
    all_is_well()
}

fn kernel_stack() -> Outcome {
    for sp in [0xffff_8000_0000_1000u64, 0xffff_ffff_8010_0000, u64::MAX, 8] {
        for code in [code_ud2 as unsafe extern "C" fn(), code_syscall, code_int80, code_divide] {
            let alien = Alien::new(code, |f| f.sp = sp)?;
            let got = alien.start()?;
            holds!("a call or an exception", matches!(got.tag.kind(), KIND_SYSCALL | KIND_EXCEPTION));
            same!("its stack pointer", alien.regs().sp, sp);
            remove_task(alien.number)?;
            crate::pool::reset_stacks();
        }
    }
    all_is_well()
}

/// An executable page of the window, for generated code.
fn code_page() -> Result<u64, Failure> {
    sigma0::any(Fpage::memory(0, 12, FPAGE_RWX), slot(0))?;
    Ok(WINDOW)
}

fn write_code(at: u64, bytes: &[u8]) {
    for (offset, byte) in bytes.iter().enumerate() {
        // SAFETY: the page belongs to the case.
        unsafe { ((at + offset as u64) as *mut u8).write_volatile(*byte) };
    }
}

/// An alien thread at `CODE`; the answer to its first fault maps the page `at`.
fn at_code(at: u64, frame: impl FnOnce(&mut Frame)) -> Result<(Alien, Message), Failure> {
    let alien = Alien::new(code_syscall, |f| {
        f.ip = CODE;
        frame(f);
    })?;
    alien.start_raw()?;
    let item = MapItem { send_base: CODE, fpage: Fpage::memory(at, 12, FPAGE_RWX).0 };
    Ok((alien, Message::label(0).with_maps(&[item])))
}

fn every_interrupt() -> Outcome {
    let at = code_page()?;
    let (alien, with_code) = at_code(at, |_| ())?;
    write_code(at, &[0x0f, 0x05]);
    same!("a call first", call(alien.id, with_code)?.tag.kind(), KIND_SYSCALL);
    for number in 0..=255u8 {
        write_code(at, &[0xcd, number]);
        alien.edit(|f| f.ip = CODE);
        let got: Received = alien.resume()?;
        let expected = match number {
            0x80 => (KIND_SYSCALL, GATE_INT80),
            3 => (KIND_EXCEPTION, 3),
            4 if got.tag.label() == 4 => (KIND_EXCEPTION, 4),
            _ => (KIND_EXCEPTION, 13),
        };
        same!(
            "interrupt, kind, label",
            (number, got.tag.kind(), got.tag.label() as u64),
            (number, expected.0, expected.1)
        );
    }
    all_is_well()
}

fn sysenter() -> Outcome {
    let alien = Alien::new(code_sysenter, |_| ())?;
    let got = alien.start()?;
    holds!("a call or an exception", matches!(got.tag.kind(), KIND_SYSCALL | KIND_EXCEPTION));
    all_is_well()
}

fn step_into_call() -> Outcome {
    for code in [code_syscall as unsafe extern "C" fn(), code_int80, code_sysenter] {
        let alien = Alien::new(code, |f| f.flags |= 0x100)?;
        let mut got = alien.start()?;
        for _ in 0..6 {
            holds!("a call or an exception", matches!(got.tag.kind(), KIND_SYSCALL | KIND_EXCEPTION));
            got = alien.resume()?;
        }
    }
    all_is_well()
}

fn watch_after_ss() -> Outcome {
    let word = page();
    crate::topics::window::fill(word, 1, DATA);
    let alien = Alien::new(code_load_ss, |f| f.di = word)?;
    let mut record = ExRegs::zeroed();
    // Breakpoint 0: read or write of two bytes.
    record.debug = [word, 0, 0, 0, 0, 1 | 0b0111 << 16];
    thread::exchange(alien.id, EX_DEBUG_SET, &mut record)?;
    let mut got = alien.start()?;
    for _ in 0..6 {
        holds!("a call or an exception", matches!(got.tag.kind(), KIND_SYSCALL | KIND_EXCEPTION));
        got = alien.resume()?;
    }
    all_is_well()
}

/// Bases that could mislead a kernel that trusts gs.
const BASES: [u64; 4] = [0, 0xffff_8000_0000_0000, 0xffff_ffff_8000_0000, 0x7fff_ffff_f000];

fn gs_base() -> Outcome {
    for base in BASES {
        for code in [code_wrgsbase as unsafe extern "C" fn(), code_wrgsbase_ud2] {
            let alien = Alien::new(code, |f| f.di = base)?;
            let got = alien.start()?;
            holds!("a call or an exception", matches!(got.tag.kind(), KIND_SYSCALL | KIND_EXCEPTION));
            if kip().features & FEATURE_FSGSBASE != 0 {
                same!("base in the frame", alien.regs().gs_base, base);
            }
            remove_task(alien.number)?;
        }
    }
    all_is_well()
}

fn gs_base_spinner() -> Outcome {
    for base in BASES {
        let counter = cell(4) as *const _ as u64;
        // If a thread cannot set its base by an instruction, its chief sets it.
        let alien = if kip().features & FEATURE_FSGSBASE != 0 {
            Alien::new(code_wrgsbase_spin, |f| (f.di, f.si) = (base, counter))?
        } else {
            Alien::new(code_spin, |f| (f.gs_base, f.di) = (base, counter))?
        };
        alien.spin(cell(4))?;
        pause(5_000_000);
        remove_task(alien.number)?;
    }
    all_is_well()
}

fn kernel_selectors() -> Outcome {
    for selector in [0u64, 8, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38, 0x40, 0x2b, 0x33, 0x4b, 7, 0xffff] {
        let alien = Alien::new(code_load_ds, |f| f.di = selector)?;
        let got = alien.start()?;
        let seen = (selector, got.tag.kind(), got.words[0]);
        let well = matches!(got.tag.kind(), KIND_SYSCALL | KIND_EXCEPTION);
        same!("selector, kind of message, its word 0", (seen, well), (seen, true));
        remove_task(alien.number)?;
    }
    all_is_well()
}

fn random_frames() -> Outcome {
    let mut state = crate::pool::seed(0x1234_5678_9abc_def1);
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    for _ in 0..3000 {
        alien.edit(|frame| {
            let words = (frame as *mut Frame).cast::<u64>();
            for index in 0..size_of::<Frame>() / 8 {
                let value = random(&mut state);
                let value = if value & 3 == 0 { value >> 20 } else { value };
                // SAFETY: the frame consists of that many words.
                unsafe { words.add(index).write(value) };
            }
        });
        // It faults or calls in any case: nothing is mapped at other addresses, or it is stopped.
        send(alien.id, Message::label(0), Timeout::Zero)?;
        if receive(alien.id, Timeout::After(2_000_000)).is_err() {
            alien.act(EX_TRIGGER)?;
            receive(alien.id, Timeout::After(1_000_000_000))?;
        }
    }
    all_is_well()
}

fn random_code() -> Outcome {
    let at = code_page()?;
    let mut state = crate::pool::seed(0xfeed_beef_cafe_f00d);
    let (alien, with_code) = at_code(at, |_| ())?;
    write_code(at, &[0x0f, 0x05]);
    call(alien.id, with_code)?;
    let translated = is_translated();
    for _ in 0..3000 {
        let mut bytes: [u8; 64] = core::array::from_fn(|_| (random(&mut state) >> 32) as u8);
        avoid_faults(&mut bytes, translated);
        write_code(at, &bytes);
        let mut frame = fresh_words(&mut state);
        frame.ip = CODE;
        crate::pool::set_frame(alien.frame, &frame);
        send(alien.id, Message::label(0), Timeout::Zero)?;
        if receive(alien.id, Timeout::After(1_000_000)).is_err() {
            alien.act(EX_TRIGGER)?;
            receive(alien.id, Timeout::After(1_000_000_000))?;
        }
    }
    all_is_well()
}

/// A frame with random general registers, some with small numbers.
fn fresh_words(state: &mut u64) -> Frame {
    let mut frame = Frame::zeroed();
    for word in
        [&mut frame.ax, &mut frame.bx, &mut frame.cx, &mut frame.dx, &mut frame.si, &mut frame.di, &mut frame.bp]
    {
        *word = random(state) >> (random(state) % 64);
    }
    (frame.cs, frame.ss, frame.flags, frame.sp) = (CODE_64, DATA, FLAGS, CODE + PAGE / 2);
    frame
}

/// Writes random words into the frame at its argument, without end.
extern "C" fn frame_writer(index: u64) -> ! {
    let mut state = 99;
    loop {
        let mut frame = fresh_words(&mut state);
        frame.ip = random(&mut state);
        frame.flags = random(&mut state);
        frame.cs = random(&mut state);
        crate::pool::set_frame(index, &frame);
    }
}

fn frame_races() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    let writer = helper(frame_writer, alien.frame)?;
    thread::schedule(writer, SCHEDULE_SLICE, 0, 200_000)?;
    for _ in 0..300 {
        send(alien.id, Message::label(0), Timeout::Zero)?;
        if receive(alien.id, Timeout::After(2_000_000)).is_err() {
            alien.act(EX_TRIGGER)?;
            receive(alien.id, Timeout::After(1_000_000_000))?;
        }
    }
    crate::threads::remove(writer)?;
    all_is_well()
}
