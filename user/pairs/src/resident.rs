// SPDX-License-Identifier: BSD-2-Clause
//! A server in user mode in its clients' spaces: who may have that, and what 32-bit clients try to
//! reach it, or to run 64-bit code, which could.

use crate::client::{self, CODE};
use crate::{check, single, Fault, Outcome, Pairs};
use keel_l4::abi::call::*;
use keel_l4::abi::memory::FEATURE_SEGMENT_LIMITS;
use keel_l4::abi::programs::AREA_UPPER;
use keel_l4::abi::Frame;
use keel_l4::ipc::Received;
use keel_l4::kip::kip_at;
use keel_l4::task::{self, NewTask};
use keel_l4::{thread, utcb, Error, Id};

/// A name, and what is tried.
type Case = (&'static str, fn(&Pairs) -> Outcome);

/// All of them.
pub const CASES: [Case; 4] = [("created", created), ("reaches", reaches), ("attacks", attacks), ("syscall", syscall)];

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
