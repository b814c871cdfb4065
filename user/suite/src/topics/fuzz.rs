// SPDX-License-Identifier: BSD-2-Clause
//! A child task that makes random calls, while the suite watches it.

use crate::case::{Case, Outcome};
use crate::pool::{cell, task_number};
use crate::threads::*;
use crate::topics::hostile::random;
use crate::{holds, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::ids::*;
use keel_l4::abi::memory::AREA_DEFAULT;
use keel_l4::abi::programs::*;
use keel_l4::call::{invoke, Registers};
use keel_l4::ipc::{call, sleep, Message};
use keel_l4::kip::now;
use keel_l4::protocol::boot::ROOT_PRINT;
use keel_l4::task::hand_over;
use keel_l4::{kernel_object, utcb, Id};

pub const CASES: &[Case] =
    &[("hundred-thousand-random-calls", random_calls), ("random-calls-by-three-threads", three_threads)];

/// Total number of calls, and the time without a call after which a fuzzer is restarted.
const CALLS: u64 = 100_000;
const STALL: u64 = 4_000_000;
/// All of it must end within this time.
const LIMIT: u64 = 14_000_000_000;
/// Cells: calls made, the fuzzer's task, a spare task number.
const MADE: usize = 1;
const SELF: usize = 2;
const SPARE: usize = 3;

/// A random word that is often a meaningful value.
fn word(state: &mut u64) -> u64 {
    let choice = random(state);
    let value = random(state);
    match choice % 12 {
        0 => 0,
        1 => u64::MAX,
        2 => value & 0xff,
        3 => 1 << (value % 64),
        4 => AREA_DEFAULT + (value & 0x2000_ffff),
        5 => (value & 0xffff_ffff_f000) | (12 + value % 37) << 4 | (value >> 60 & 7),
        6 => Id(cell(SELF).load(SeqCst)).0 | (value & 7) << ID_LTHREAD_SHIFT,
        7 => Id::thread(0, cell(SPARE).load(SeqCst) as u32, (value & 3) as u16, 0).0,
        8 => value % SMALL_IDS,
        9 => (crate::pool::WINDOW + (value & 0xffff_f000)) | 12 << 4 | 7,
        10 => (0x1000 * (value & 0xfff)) | 7,
        _ => value,
    }
}

/// Nothing that waits without end, prints, or stops the machine's log.
fn tame(registers: &mut Registers) {
    if registers.ax & CALL_MASK == CALL_IPC {
        registers.ax &= !(IPC_TIMEOUT_MASK << IPC_SEND_TIMEOUT_SHIFT | IPC_TIMEOUT_MASK << IPC_RECEIVE_TIMEOUT_SHIFT);
        registers.ax |= IPC_SEND_ZERO | IPC_RECEIVE_ZERO;
        if registers.di == Id::ROOT.0 && registers.si >> TAG_LABEL_SHIFT == ROOT_PRINT {
            registers.si = 0;
        }
    }
}

extern "C" fn fuzzer(seed: u64) -> ! {
    let mut state = seed;
    loop {
        for index in 0..512 {
            if random(&mut state) & 63 == 0 {
                // SAFETY: words of this thread's own UTCB except the first, by which the UTCB is
                // found.
                unsafe { utcb::address().cast::<u64>().add(index.max(1)).write_volatile(word(&mut state)) };
            }
        }
        for _ in 0..32 {
            let number = random(&mut state) % 8;
            let flags = (random(&mut state) & 0xfff) << 4;
            let mut registers = Registers {
                ax: if number == CALL_IPC { flags } else { number },
                di: word(&mut state),
                si: word(&mut state),
                dx: word(&mut state),
                words: core::array::from_fn(|_| word(&mut state)),
            };
            tame(&mut registers);
            invoke(registers);
            cell(MADE).fetch_add(1, SeqCst);
        }
    }
}

/// Runs fuzzers until `calls` are made. A task that stalls (it deleted, stopped or unmapped itself)
/// is created again with the next seed.
fn run(calls: u64, threads: u64) -> Outcome {
    let mut plan = child_plan(fuzzer, 1);
    let spare = task_number();
    let end = now() + LIMIT;
    let before = kernel_object::account(Id::NIL)?[ACCOUNT_USED as usize];
    let (mut seed, mut last) = (crate::pool::seed(0x5eed_0001), u64::MAX);
    cell(SPARE).store(spare as u64, SeqCst);
    while cell(MADE).load(SeqCst) < calls {
        holds!("an end within 14 s", now() < end);
        let made = cell(MADE).load(SeqCst);
        if made == last {
            let _ = remove_task(plan.number);
            let _ = remove_task(spare);
            crate::pool::reset_stacks();
            seed = seed.wrapping_add(0x1000).max(1);
            (plan.argument, plan.sp) = (seed, crate::pool::stack());
            let child = make_child(&plan)?;
            cell(SELF).store(child.thread.0 & !(0xffff << ID_LTHREAD_SHIFT), SeqCst);
            hand_over(spare, 0, child.task)?;
            for extra in 1..threads {
                start_another(child, seed.wrapping_add(extra).max(1))?;
            }
        }
        last = made;
        sleep(STALL);
    }
    remove_task(plan.number)?;
    let _ = remove_task(spare);
    same!("pages used, before and after", kernel_object::account(Id::NIL)?[ACCOUNT_USED as usize], before);
    holds!("sigma0 to answer", call(Id::SIGMA0, Message::label(0x7777))?.tag.label() != 0);
    holds!("the root task to answer", call(Id::ROOT, Message::label(0x7777))?.tag.label() != 0);
    Ok(())
}

/// One more fuzzing lthread in the child.
fn start_another(child: Child, seed: u64) -> Outcome {
    let mut record = keel_l4::abi::ExRegs::zeroed();
    (record.ip, record.sp, record.argument) = (fuzzer as Main as usize as u64, crate::pool::stack(), seed);
    (record.pager, record.handler) = (own(PAGER).0, own(PAGER).0);
    use keel_l4::abi::memory::*;
    let mask = EX_CREATE | EX_START | EX_IP | EX_SP | EX_ARGUMENT | EX_PAGER | EX_HANDLER;
    let any = keel_l4::thread::lthread(child.task, LTHREAD_TASK as u16);
    // A fuzzer that already runs may have used up the task's quota; then there is one less.
    let _ = keel_l4::thread::exchange(any, mask, &mut record);
    Ok(())
}

fn random_calls() -> Outcome {
    run(CALLS, 1)
}

fn three_threads() -> Outcome {
    run(CALLS / 2, 3)
}
