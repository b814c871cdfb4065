// SPDX-License-Identifier: BSD-2-Clause
//! A server in user mode in its clients' spaces: who may have that, and what 32-bit clients try to
//! reach it, or to run 64-bit code, which could.

use crate::client::{self, CODE, CODE_RIGHTS, DATA_RIGHTS};
use crate::{check, single, Fault, Outcome, Pairs, ROW_LOG2};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::PAGE_SIZE;
use keel_l4::abi::memory::{EX_PAGER, FEATURE_SEGMENT_LIMITS};
use keel_l4::abi::programs::AREA_UPPER;
use keel_l4::abi::{ExRegs, Frame, MapItem, UnmapRange};
use keel_l4::call::Failure;
use keel_l4::ipc::{send, send_and_wait, wait, Message, Received, Timeout};
use keel_l4::kip::kip_at;
use keel_l4::mapping::unmap_in;
use keel_l4::start::Stack;
use keel_l4::task::{self, NewTask};
use keel_l4::{pager, thread, utcb, Error, Fpage, Id};

/// A name, and what is tried.
type Case = (&'static str, fn(&Pairs) -> Outcome);

/// All of them.
pub const CASES: [Case; 5] =
    [("created", created), ("reaches", reaches), ("attacks", attacks), ("syscall", syscall), ("unmapped", unmapped)];

const UD: u64 = 6;
const GP: u64 = 13;
/// Selectors: 64-bit code, the processor's number, kernel data, the task state segment.
const LONG: u64 = 0x33;
const NUMBER: u64 = 0x7b;
const KERNEL_DATA: u64 = 0x18;
const TASK_STATE: u64 = 0x40;

unsafe extern "C" {
    static attack_load: u8;
    static attack_segment: u8;
    static attack_jump: u8;
    static attack_return: u8;
    static attack_syscall: u8;
}

/// Tasks with an upper half, with a kernel area there, or in supervisor mode are not its own.
fn created(pairs: &Pairs) -> Outcome {
    let plain =
        NewTask { number: single::number(pairs), resident: true, quota: TASK_SHARED_QUOTA, ..NewTask::default() };
    let bad = [
        NewTask { upper_half: true, ..plain },
        NewTask { upper_half: true, resident: false, ..plain },
        NewTask { area: AREA_UPPER, ..plain },
        NewTask { supervisor: true, ..plain },
        NewTask { supervisor: true, resident: false, ..plain },
    ];
    for plan in bad {
        let refused = task::create_empty(&plan).is_err_and(|failure| failure.error == Error::Denied);
        check(refused, "it was created", [plan.upper_half as u64, plan.area])?;
    }
    Ok(())
}

/// What its threads reach is all of 32 bits, and stays so.
fn reaches(pairs: &Pairs) -> Outcome {
    for side in pairs.sides {
        let client = side.ids()[1];
        for reach in [SMALL_NONE, SMALL_ALL, 0x8000_0000 | SMALL_MIN_LOG2] {
            let refused = thread::set_reach(client, reach, Id::NIL).is_err();
            check(refused, "its reach was changed", [reach, 0])?;
        }
        let host = task::create_empty(&NewTask {
            number: single::number(pairs),
            quota: TASK_SHARED_QUOTA,
            ..NewTask::default()
        })?;
        let refused = thread::set_reach(client, 0x8000_0000 | SMALL_MIN_LOG2, host);
        check(refused.is_err(), "its reach was changed", [host.0, 0])?;
        task::delete(single::number(pairs), utcb::my_id())?;
    }
    Ok(())
}

/// The message with which an attack ends.
fn outcome(pairs: &Pairs, code: *const u8, cx: u64, dx: u64) -> Result<Received, Fault> {
    single::outcome(pairs, Frame { cx, dx, ..client::frame_32(code as u64) })
}

/// The server's address in 32 bits is the client's own, where it has nothing. Every segment that
/// would lead further is refused.
fn attacks(pairs: &Pairs) -> Outcome {
    let secret = client::code();
    let low = secret & u32::MAX as u64;
    let got = outcome(pairs, &raw const attack_load, secret, 0)?;
    let fault = [got.tag.kind(), got.words[0]];
    check(fault == [KIND_PAGE_FAULT, low], "a load of the server's did not fault", fault)?;
    let beyond = [
        (&raw const attack_segment, LONG),
        (&raw const attack_segment, KERNEL_DATA),
        (&raw const attack_segment, TASK_STATE),
        (&raw const attack_jump, LONG),
        (&raw const attack_jump, TASK_STATE),
        (&raw const attack_return, LONG),
    ];
    // QEMU's translator reads the stack of a far return as the kernel, which SMAP refuses.
    // SAFETY: the root task puts the kernel area of tasks in the upper half there.
    let limits = unsafe { kip_at(AREA_UPPER) }.features & FEATURE_SEGMENT_LIMITS != 0;
    for (code, selector) in beyond.into_iter().take(if limits { 6 } else { 5 }) {
        let got = outcome(pairs, code, CODE, selector)?;
        let raised = [got.tag.kind(), got.tag.label() as u64, got.words[0]];
        check(
            raised == [KIND_EXCEPTION, GP, selector & !7],
            "no exception, but",
            [raised[0] << 32 | raised[1], selector],
        )?;
    }
    // QEMU's translator knows no limits: a load there is one of the client's own address.
    let got = outcome(pairs, &raw const attack_segment, secret, NUMBER)?;
    let kinds = [KIND_PAGE_FAULT, KIND_EXCEPTION];
    check(kinds.contains(&got.tag.kind()), "the segment of the processor's number", [got.tag.kind(), got.words[0]])
}

/// 32-bit code has no SYSCALL.
fn syscall(pairs: &Pairs) -> Outcome {
    let got = outcome(pairs, &raw const attack_syscall, 0, 0)?;
    let raised = [got.tag.kind(), got.tag.label() as u64];
    check(raised == [KIND_EXCEPTION, UD], "no exception, but", raised)
}

/// So many pages that the kernel takes them away from a client all at once. That has them in the
/// table that its code is in, which stays.
#[repr(C, align(65536))]
struct Row(UnsafeCell<[u8; 1 << ROW_LOG2]>);
// SAFETY: nobody uses it here but to map it; the client has it, and whoever is in its space.
unsafe impl Sync for Row {}
static ROW: Row = Row(UnsafeCell::new([0; 1 << ROW_LOG2]));
const PAGES: u64 = (1 << ROW_LOG2) / PAGE_SIZE;
const SHOWN: u64 = CODE + 0x11_0000;
/// The second server thread's stack, and whether the row was unmapped.
static STACK: Stack<{ 16 << 10 }> = Stack::new();
static UNMAPPED: AtomicBool = AtomicBool::new(false);

/// What a server's thread takes from its client it does not read there any more: it runs in user
/// mode in the client's space, and could use what the processor holds of that.
fn unmapped(pairs: &Pairs) -> Outcome {
    UNMAPPED.store(false, SeqCst);
    let server = thread::spawn(&STACK, serve, utcb::my_id().0)?;
    let task = client::task(single::number(pairs))?;
    let start = Frame { cx: SHOWN, ..client::frame_32(&raw const attack_load as u64) };
    let client = client::start_with(task, [single::FRAME, 0], start, server, false)?;
    let got = wait(Timeout::Never)?;
    thread::delete(client)?;
    thread::delete(server)?;
    // SAFETY: its thread is gone.
    unsafe { STACK.give_back() };
    task::delete(single::number(pairs), utcb::my_id())?;
    check(UNMAPPED.load(SeqCst), "the server is not in its client's space", [got.tag.kind(), got.words[0]])?;
    let fault = [got.tag.kind(), got.words[0]];
    check(fault == [KIND_PAGE_FAULT, SHOWN], "a page that went was read", fault)
}

/// The client's pager and handler. `first`: the thread that gets its page faults, or what it reads.
extern "C" fn serve(first: u64) -> ! {
    let read = read_after_unmap(first).unwrap_or(u64::MAX);
    // It would be a fault of the case; the first thread deletes this one.
    let _ = send(Id(first), Message::new(0, &[read]), Timeout::Never);
    thread::park()
}

fn read_after_unmap(first: u64) -> Result<u64, Failure> {
    let row = ROW.0.get() as u64;
    let mut got = wait(Timeout::Never)?;
    while got.tag.kind() == KIND_PAGE_FAULT {
        let fault = pager::Fault::of(&got);
        let answer = if fault.page() == CODE {
            fault.map(client::code(), CODE_RIGHTS)
        } else {
            let pages = Fpage::memory(row, ROW_LOG2, DATA_RIGHTS);
            Message::label(0).with_maps(&[MapItem { send_base: SHOWN, fpage: pages.0 }])
        };
        got = send_and_wait(got.from, answer, Timeout::Zero, Timeout::Never)?;
    }
    // From here on its own faults show what it may not read.
    thread::exchange(utcb::my_id(), EX_PAGER, &mut ExRegs { pager: first, ..ExRegs::zeroed() })?;
    // SAFETY: the client has these pages, whose exception has brought this thread into its space; a
    // page that is not there is a fault that nobody answers.
    let read = |page: u64| unsafe { ((SHOWN + page * PAGE_SIZE) as *const u64).read_volatile() };
    for page in 0..PAGES {
        read(page);
    }
    unmap_in(got.from, &[UnmapRange { address: SHOWN, pages: PAGES }])?;
    UNMAPPED.store(true, SeqCst);
    Ok(read(0))
}
