// SPDX-License-Identifier: BSD-2-Clause
//! A client: an alien thread whose system calls have numbers that follow one another. It checks
//! each answer, and that it keeps its registers, FPU state and bases.

use keel_l4::abi::call::TASK_SHARED_QUOTA;
use keel_l4::abi::fpage::{FPAGE_EXEC, FPAGE_READ, FPAGE_WRITE};
use keel_l4::abi::ids::LTHREAD_TASK;
use keel_l4::abi::memory::*;
use keel_l4::abi::programs::*;
use keel_l4::abi::{ExRegs, Frame};
use keel_l4::call::Failure;
use keel_l4::task::{create_empty, NewTask};
use keel_l4::{thread, Id};

/// Where a client has its code and its data.
pub const CODE: u64 = 0x40_0000;
/// See CODE. Its bases lead there; its first word counts its turns.
pub const DATA: u64 = 0x50_0000;
/// Rights to its code and to its data.
pub const CODE_RIGHTS: u64 = FPAGE_READ | FPAGE_EXEC;
/// See CODE_RIGHTS.
pub const DATA_RIGHTS: u64 = FPAGE_READ | FPAGE_WRITE;
/// A number of a call: the client's life in the upper half, and the call in the lower one.
pub const LIFE_SHIFT: u32 = 32;
/// The priority of clients, below the servers'.
pub const PRIORITY: u64 = 50;

const USER_CODE: u64 = 0x33;
const USER_DATA: u64 = 0x2b;
/// Interrupts enabled, and the bit that is always one.
const FLAGS: u64 = 0x202;
/// How often a client pauses between two calls.
const PAUSES: u64 = 100;

// rbx = number of the last call, r12 = whether it has an FPU state, r14 = pauses.
core::arch::global_asm!(
    ".pushsection .text.client, \"ax\"",
    ".p2align 12",
    ".global client_code",
    "client_code:",
    "2: inc rbx",
    "lock inc qword ptr fs:[0]",
    "test r12d, r12d",
    "jz 3f",
    "movq xmm5, rbx",
    "3: mov rax, rbx",
    "mov r13, rbx",
    "syscall",
    "not rax",
    "cmp rax, r13",
    "jne 6f",
    "cmp rbx, r13",
    "jne 6f",
    "cmp qword ptr gs:[0], 0",
    "je 6f",
    "test r12d, r12d",
    "jz 4f",
    "movq rax, xmm5",
    "cmp rax, rbx",
    "jne 6f",
    "4: mov rcx, r14",
    "5: pause",
    "dec rcx",
    "jnz 5b",
    "jmp 2b",
    "6: ud2",
    ".p2align 12",
    ".popsection",
);

unsafe extern "C" {
    static client_code: u8;
}

/// Address of the page with a client's code.
pub fn code() -> u64 {
    &raw const client_code as u64
}

fn frame(index: u64) -> *mut Frame {
    (AREA_UPPER + AREA_FRAMES + index * FRAME_SIZE) as *mut Frame
}

/// Answers a system call in the frame `index`: the client gets the number of the call, inverted.
pub fn answer(index: u64, number: u64) {
    // SAFETY: the program has bought the frames' page, and the client waits.
    unsafe { (&raw mut (*frame(index)).ax).write_volatile(!number) };
}

/// A task without lthreads at `number`; a task that is there is deleted.
pub fn task(number: u32) -> Result<Id, Failure> {
    create_empty(&NewTask { number, max_priority: PRIORITY, quota: TASK_SHARED_QUOTA, ..NewTask::default() })
}

/// Starts a client on a processor, with the frame of that number, in its `life`.
pub fn start(task: Id, processor: u64, server: Id, life: u64) -> Result<Id, Failure> {
    let mut start = Frame::zeroed();
    (start.ip, start.cs, start.ss, start.flags) = (CODE, USER_CODE, USER_DATA, FLAGS);
    (start.fs_base, start.gs_base) = (DATA, DATA);
    (start.bx, start.r12, start.r14) = (life << LIFE_SHIFT, processor % 2, PAUSES);
    // SAFETY: the program has bought the frames' page, and no thread has this frame.
    unsafe { frame(processor).write_volatile(start) };
    let mut record = ExRegs::zeroed();
    (record.frame, record.pager, record.handler) = (processor, server.0, server.0);
    let mask = EX_CREATE | EX_ALIEN | EX_FRAME | EX_PAGER | EX_HANDLER;
    let client = thread::exchange(thread::lthread(task, LTHREAD_TASK as u16), mask, &mut record)?;
    thread::set_processor(client, processor)?;
    thread::set_priority(client, PRIORITY)?;
    thread::act(client, EX_START)?;
    Ok(client)
}
