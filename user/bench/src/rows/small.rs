// SPDX-License-Identifier: BSD-2-Clause
//! Round trips between two tasks that run 32-bit code: in windows of this task's tables, and in
//! spaces of their own. They use `int 0x80`; the client takes the readings itself.

use crate::partner::{image_pager, own_task, plan, task_number, CALL, REPLY_AND_WAIT, WAIT};
use crate::sample::{row, SAMPLES, WARM_UP};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, Ordering};
use keel_l4::abi::call::SMALL_ALL;
use keel_l4::abi::memory::EX_START;
use keel_l4::call::Failure;
use keel_l4::ipc::{send, wait, Message, Timeout};
use keel_l4::task::{self, NewTask};
use keel_l4::thread::{self, act, NewThread};
use keel_l4::Id;

/// Rounds of the client.
const ROUNDS: usize = WARM_UP + SAMPLES;
/// Windows of 32 MB, in which this image has its own addresses.
pub const WINDOWS: [u64; 2] = [0x8000_0000 | 25, 0x8200_0000 | 25];
/// Instructions between the two readings besides the call: the store of the first one, two of the
/// call number and the tag, and the second reading.
const OWN: u32 = 4;

/// The instructions of each round.
static TAKEN: [AtomicU32; ROUNDS] = [const { AtomicU32::new(0) }; ROUNDS];

global_asm!(
    ".code32",
    // Calls the thread in esi:edi without end, stores the instructions of each call, and calls
    // the one that its stack names afterwards.
    ".global small_client",
    "small_client:",
    "mov eax, 0x2b",
    "mov ds, eax",
    "mov es, eax",
    "mov ecx, offset {taken}",
    "2: rdtsc",
    "mov [ecx], eax",
    "mov eax, {call}",
    "xor ebx, ebx",
    "int 0x80",
    "rdtsc",
    "sub eax, [ecx]",
    "mov [ecx], eax",
    "add ecx, 4",
    "cmp ecx, offset {taken} + 4 * {rounds}",
    "jb 2b",
    "mov eax, {wait}",
    "int 0x80",
    "mov eax, {reply_and_wait}",
    "int 0x80",
    "ud2",
    // Answers every message with the same message.
    ".global small_echo",
    "small_echo:",
    "mov eax, 0x2b",
    "mov ds, eax",
    "mov es, eax",
    "mov eax, {wait}",
    "3: int 0x80",
    "mov eax, {reply_and_wait}",
    "jmp 3b",
    ".code64",
    taken = sym TAKEN,
    rounds = const ROUNDS,
    call = const CALL,
    wait = const WAIT,
    reply_and_wait = const REPLY_AND_WAIT,
);

unsafe extern "C" {
    static small_client: u8;
    static small_echo: u8;
}

/// All of them.
pub fn measure() -> Result<(), Failure> {
    round_trip("ipc-32-bit-small-spaces", WINDOWS)?;
    round_trip("ipc-32-bit-two-spaces", [SMALL_ALL; 2])
}

fn round_trip(name: &str, reaches: [u64; 2]) -> Result<(), Failure> {
    let server = start(0, &raw const small_echo as u64, reaches[0], image_pager(), 0)?;
    let client = start(1, &raw const small_client as u64, reaches[1], image_pager(), server.0)?;
    send(client, Message::label(0), Timeout::Never)?;
    wait(Timeout::Never)?;
    let mut round = 0;
    row(name, || {
        round += 1;
        Ok(TAKEN[round - 1].load(Ordering::Relaxed) - OWN)
    })?;
    end_both()
}

/// Deletes the two tasks that were started.
pub fn end_both() -> Result<(), Failure> {
    (0..2).try_for_each(|number| task::delete(task_number() + number, own_task()))
}

/// A task, the first (0) or the second (1), with one thread, whose first argument is in esi:edi.
pub fn start(number: u32, ip: u64, reach: u64, pager: Id, argument: u64) -> Result<Id, Failure> {
    let task = task::create_empty(&NewTask { number: task_number() + number, upper_half: false, ..plan() })?;
    let new = NewThread { task, number: 0, ip, sp: 0, pager, handler: pager, argument };
    let thread = new.create()?;
    thread::set_reach(thread, reach, Id::NIL)?;
    act(thread, EX_START)
}
