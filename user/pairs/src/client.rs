// SPDX-License-Identifier: BSD-2-Clause
//! A client: an alien thread whose system calls have numbers that follow one another. It checks
//! each answer, and that it keeps its registers, FPU state and bases. Beside a resident server it
//! runs 32-bit code, with a thread-local segment in place of bases.

use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use keel_l4::abi::call::TASK_SHARED_QUOTA;
use keel_l4::abi::fpage::{FPAGE_EXEC, FPAGE_READ, FPAGE_WRITE, PAGE_SIZE};
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
/// Flags: string instructions run backwards; in user mode alignment checks, in supervisor mode no
/// SMAP.
pub const DF_AND_AC: u64 = 1 << 10 | 1 << 18;
/// Rights to its code and to its data.
pub const CODE_RIGHTS: u64 = FPAGE_READ | FPAGE_EXEC;
/// See CODE_RIGHTS.
pub const DATA_RIGHTS: u64 = FPAGE_READ | FPAGE_WRITE;
/// Whether clients run 32-bit code, in tasks that show this one.
pub static RESIDENT: AtomicBool = AtomicBool::new(false);
/// The priority of clients, below the servers'.
pub const PRIORITY: u64 = 50;

const USER_CODE: u64 = 0x33;
const USER_DATA: u64 = 0x2b;
/// The first thread-local segment, and its descriptor: data of 4 GB from `DATA` on.
const LOCAL: u64 = 0x63;
const LOCAL_DESCRIPTOR: u64 = 0x00cf_f300_0000_ffff | (DATA & 0xff_ffff) << 16;
/// The selectors of 32-bit code: ds, es, fs, gs.
const SELECTORS: u64 = USER_DATA | USER_DATA << 16 | LOCAL << 48;
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
    // A call with the direction flag and that of alignment checks set.
    ".global client_flags",
    "client_flags: pushfq",
    "or dword ptr [rsp], {DF_AND_AC}",
    "popfq",
    "int 0x80",
    "ud2",
    ".p2align 12",
    // The same as above with 32 bits: ebx = number of the last call, esi = whether it has an FPU
    // state, edi = pauses.
    ".code32",
    ".global client_code_32",
    "client_code_32:",
    "2: inc ebx",
    "lock inc dword ptr gs:[0]",
    "test esi, esi",
    "jz 3f",
    "movd xmm5, ebx",
    "3: mov eax, ebx",
    "mov ebp, ebx",
    "int 0x80",
    "not eax",
    "cmp eax, ebp",
    "jne 6f",
    "cmp ebx, ebp",
    "jne 6f",
    "cmp dword ptr gs:[0], 0",
    "je 6f",
    "mov edx, {DATA}",
    "cmp dword ptr [edx], 0",
    "je 6f",
    "test esi, esi",
    "jz 4f",
    "movd eax, xmm5",
    "cmp eax, ebx",
    "jne 6f",
    "4: mov ecx, edi",
    "5: pause",
    "dec ecx",
    "jnz 5b",
    "jmp 2b",
    "6: ud2",
    // Attacks: by the address in ecx, and by the selector in edx.
    ".balign 16",
    ".global attack_load",
    "attack_load: mov eax, [ecx]",
    "ud2",
    ".balign 16",
    ".global attack_segment",
    "attack_segment: mov es, edx",
    "mov eax, es:[ecx]",
    "ud2",
    ".balign 16",
    ".global attack_jump",
    "attack_jump: push edx",
    "push ecx",
    "jmp fword ptr [esp]",
    ".balign 16",
    ".global attack_return",
    "attack_return: push edx",
    "push ecx",
    ".byte 0xcb",
    ".balign 16",
    ".global attack_syscall",
    "attack_syscall: .byte 0x0f, 0x05",
    "ud2",
    ".code64",
    ".p2align 12",
    ".popsection",
    DATA = const DATA,
    DF_AND_AC = const DF_AND_AC,
);

unsafe extern "C" {
    static client_code: u8;
    static client_code_32: u8;
}

/// Whether they do.
pub fn is_resident() -> bool {
    RESIDENT.load(SeqCst)
}

/// Address of the page with a client's code.
pub fn code() -> u64 {
    if is_resident() {
        &raw const client_code_32 as u64
    } else {
        &raw const client_code as u64
    }
}

/// A number of a call has above this bit the number of the client's life, and below it the call's.
/// 32 bits have room for a million calls in each of 4,096 lives.
pub fn life_shift() -> u32 {
    if is_resident() {
        20
    } else {
        32
    }
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
    let resident = is_resident();
    create_empty(&NewTask { number, max_priority: PRIORITY, quota: TASK_SHARED_QUOTA, resident, ..NewTask::default() })
}

/// The registers with which code starts at `ip`, in the page of clients' code.
pub fn frame_64(ip: u64) -> Frame {
    let mut start = Frame::zeroed();
    (start.ip, start.cs, start.ss, start.flags) = (CODE + ip - code(), USER_CODE, USER_DATA, FLAGS);
    start.sp = DATA + PAGE_SIZE;
    start
}

/// The same of 32-bit code. Its segment of code is said to be that of 64 bits, which the kernel
/// does not believe.
pub fn frame_32(ip: u64) -> Frame {
    Frame { segments: SELECTORS, ..frame_64(ip) }
}

/// Starts an alien thread with the frame `index`, whose pager and handler is `server`, and which
/// has a thread-local segment if `local` says so.
pub fn start_with(
    task: Id,
    [index, processor]: [u64; 2],
    start: Frame,
    server: Id,
    local: bool,
) -> Result<Id, Failure> {
    // SAFETY: the program has bought the frames' page, and no thread has this frame.
    unsafe { frame(index).write_volatile(start) };
    let mut record = ExRegs::zeroed();
    (record.frame, record.pager, record.handler) = (index, server.0, server.0);
    let mask = EX_CREATE | EX_ALIEN | EX_FRAME | EX_PAGER | EX_HANDLER;
    let client = thread::exchange(thread::lthread(task, LTHREAD_TASK as u16), mask, &mut record)?;
    if local {
        let mut record = ExRegs { tls: [LOCAL_DESCRIPTOR, 0, 0], ..ExRegs::zeroed() };
        thread::exchange(client, EX_TLS, &mut record)?;
    }
    thread::set_processor(client, processor)?;
    thread::set_priority(client, PRIORITY)?;
    thread::act(client, EX_START)?;
    Ok(client)
}

/// Starts a client on a processor, with the frame of that number, in its `life`.
pub fn start(task: Id, processor: u64, server: Id, life: u64) -> Result<Id, Failure> {
    let mut start = if is_resident() { frame_32(code()) } else { frame_64(code()) };
    let (last, with_fpu) = (life << life_shift(), processor % 2);
    if is_resident() {
        (start.bx, start.si, start.di) = (last & u32::MAX as u64, with_fpu, PAUSES);
    } else {
        (start.fs_base, start.gs_base) = (DATA, DATA);
        (start.bx, start.r12, start.r14) = (last, with_fpu, PAUSES);
    }
    start_with(task, [processor; 2], start, server, is_resident())
}
