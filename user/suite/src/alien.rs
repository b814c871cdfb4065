// SPDX-License-Identifier: BSD-2-Clause
//! Alien threads for the cases: a task, a frame, a few lines of code, and the loop that answers the
//! thread's page faults until another message comes.

use crate::pool::{self, frame, frame_index, set_frame};
use crate::threads::{in_image, same_place, QUOTA};
use core::sync::atomic::{AtomicU64, Ordering};
use keel_l4::abi::call::KIND_PAGE_FAULT;
use keel_l4::abi::fpage::FPAGE_RWX;
use keel_l4::abi::ids::LTHREAD_TASK;
use keel_l4::abi::memory::*;
use keel_l4::abi::{ExRegs, Frame};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, Message, Received, Timeout};
use keel_l4::task::{create_empty, NewTask};
use keel_l4::{thread, utcb, Id};

/// Interrupts enabled, and the bit that is always one.
pub const FLAGS: u64 = 0x202;
/// 64-bit user code.
pub const CODE_64: u64 = 0x33;
/// 32-bit user code.
pub const CODE_32: u64 = 0x23;
/// User data.
pub const DATA: u64 = 0x2b;

/// Nanoseconds between two checks of a spinning thread.
const NAP: u64 = 1_000_000;

/// Address of the code of an alien thread.
pub fn address(code: unsafe extern "C" fn()) -> u64 {
    code as usize as u64
}

/// An alien thread.
#[derive(Clone, Copy, Debug)]
pub struct Alien {
    /// Its task.
    pub task: Id,
    /// The task's number.
    pub number: u32,
    /// The thread.
    pub id: Id,
    /// Its frame.
    pub frame: u64,
}

/// A frame that starts `code`, with a stack.
pub fn fresh_frame(code: unsafe extern "C" fn()) -> Frame {
    let mut frame = Frame::zeroed();
    frame.ip = code as usize as u64;
    frame.sp = pool::stack() + 8;
    frame.cs = CODE_64;
    frame.ss = DATA;
    frame.flags = FLAGS;
    frame
}

/// A task without lthreads and without a kernel area.
pub fn empty_task() -> Result<(Id, u32), Failure> {
    empty_task_of(QUOTA)
}

/// [`empty_task`] with this quota in pages.
pub fn empty_task_of(quota: u64) -> Result<(Id, u32), Failure> {
    let number = pool::task_number();
    let priority = crate::threads::base_priority();
    let task = create_empty(&NewTask { number, max_priority: priority, quota, ..NewTask::default() })?;
    Ok((task, number))
}

impl Alien {
    /// Creates a stopped alien thread in a new task; the caller is pager and handler. `edit`
    /// changes the frame with which the thread will start at `code`.
    pub fn new(code: unsafe extern "C" fn(), edit: impl FnOnce(&mut Frame)) -> Result<Alien, Failure> {
        let (task, number) = empty_task()?;
        Alien::in_task(task, number, code, edit)
    }

    /// [`Alien::new`] in an existing task.
    pub fn in_task(
        task: Id,
        number: u32,
        code: unsafe extern "C" fn(),
        edit: impl FnOnce(&mut Frame),
    ) -> Result<Alien, Failure> {
        let index = frame_index();
        let mut start = fresh_frame(code);
        edit(&mut start);
        set_frame(index, &start);
        let id = create(task, index, 0)?;
        Ok(Alien { task, number, id, frame: index })
    }

    /// Its frame.
    pub fn regs(&self) -> Frame {
        frame(self.frame)
    }

    /// Changes its frame.
    pub fn edit(&self, change: impl FnOnce(&mut Frame)) {
        let mut frame = self.regs();
        change(&mut frame);
        set_frame(self.frame, &frame);
    }

    /// Starts it and answers its page faults until another message comes from it.
    pub fn start(&self) -> Result<Received, Failure> {
        thread::act(self.id, EX_START)?;
        let first = receive(self.id, Timeout::Never)?;
        self.serve(first)
    }

    /// Starts it and returns its first message, whatever it is.
    pub fn start_raw(&self) -> Result<Received, Failure> {
        thread::act(self.id, EX_START)?;
        receive(self.id, Timeout::Never)
    }

    /// Resumes it; otherwise like [`Alien::start`].
    pub fn resume(&self) -> Result<Received, Failure> {
        let next = call(self.id, Message::label(0))?;
        self.serve(next)
    }

    /// Resumes it and returns at once.
    pub fn release(&self) -> Result<(), Failure> {
        send(self.id, Message::label(0), Timeout::Zero)
    }

    /// Starts it with code that counts in `counter` without end, and returns while it runs.
    pub fn spin(&self, counter: &AtomicU64) -> Result<(), Failure> {
        counter.store(0, Ordering::SeqCst);
        thread::act(self.id, EX_START)?;
        while counter.load(Ordering::SeqCst) == 0 {
            if let Ok(fault) = receive(self.id, Timeout::After(NAP)) {
                let item = same_place(fault.words[0], FPAGE_RWX);
                send(self.id, Message::label(0).with_maps(&[item]), Timeout::Zero)?;
            }
        }
        Ok(())
    }

    /// Answers page faults inside the suite's image with the same page, from `message` on.
    pub fn serve(&self, mut message: Received) -> Result<Received, Failure> {
        while message.tag.kind() == KIND_PAGE_FAULT && in_image(message.words[0]) {
            message = call(self.id, Message::label(0).with_maps(&[same_place(message.words[0], FPAGE_RWX)]))?;
        }
        Ok(message)
    }

    /// Applies `mask` to it.
    pub fn act(&self, mask: u64) -> Result<Id, Failure> {
        thread::act(self.id, mask)
    }
}

/// Creates an alien lthread of `task` bound to frame `index`; the caller is pager and handler.
pub fn create(task: Id, index: u64, more: u64) -> Result<Id, Failure> {
    let mut record = ExRegs::zeroed();
    record.frame = index;
    record.pager = utcb::my_id().0;
    record.handler = utcb::my_id().0;
    let mask = EX_CREATE | EX_ALIEN | EX_FRAME | EX_PAGER | EX_HANDLER | more;
    thread::exchange(thread::lthread(task, LTHREAD_TASK as u16), mask, &mut record)
}

/// Declares the pieces of code that alien threads run. None of them, which have 64 bytes at most,
/// crosses a page: cases expect no page fault within.
macro_rules! code {
    ($($(#[doc = $doc:literal])+ $name:ident: $($line:literal),+;)*) => {
        core::arch::global_asm!(
            $( ".p2align 6", concat!(".global ", stringify!($name)), concat!(stringify!($name), ":"), $($line,)+ )*
        );
        unsafe extern "C" {
            $( $(#[doc = $doc])+ pub fn $name(); )*
        }
    };
}

code! {
    /// System calls without end.
    code_syscall: "2: syscall", "jmp 2b";
    /// `int 0x80` without end.
    code_int80: "2: int 0x80", "jmp 2b";
    /// `sysenter`.
    code_sysenter: "sysenter", "ud2";
    /// Counts in the word at rdi without end.
    code_spin: "2: lock inc qword ptr [rdi]", "jmp 2b";
    /// Raises #UD.
    code_ud2: "ud2", "syscall";
    /// Divides by zero.
    code_divide: "xor edx, edx", "xor ecx, ecx", "div ecx", "syscall";
    /// Raises #BP.
    code_int3: "int3", "syscall";
    /// Raises #GP: only the kernel may do this.
    code_cli: "cli", "syscall";
    /// `int 0x20`, which no gate serves.
    code_int32: "int 0x20", "syscall";
    /// Loads from rdi, then calls.
    code_load: "mov rax, [rdi]", "syscall", "jmp code_load";
    /// Stores rsi to rdi, then calls.
    code_store: "mov [rdi], rsi", "syscall", "jmp code_store";
    /// Loads through fs and gs, then calls.
    code_bases: "mov rax, fs:[0]", "mov rbx, gs:[0]", "syscall", "jmp code_bases";
    /// Reads the flags, then calls.
    code_flags: "pushfq", "pop rax", "syscall", "jmp code_flags";
    /// Reads a port (dx), then calls.
    code_in: "in al, dx", "syscall", "jmp code_in";
    /// Loads rdi into xmm0 and xmm7, then calls; then reads xmm0 back without end.
    code_fpu: "movq xmm0, rdi", "movq xmm7, rdi", "syscall", "3: movq rax, xmm0", "syscall", "jmp 3b";
    /// Reads xmm0 and calls without end.
    code_fpu_read: "2: movq rax, xmm0", "syscall", "jmp 2b";
    /// Loads rdi into xmm0 and xmm7, then calls; then loads from rsi, reads xmm0 back and calls
    /// without end.
    code_fpu_load: "movq xmm0, rdi", "movq xmm7, rdi", "syscall", "3: mov rax, [rsi]", "movq rax, xmm0", "syscall", "jmp 3b";
    /// Stores the address of the descriptor table at rdi, then calls.
    code_sgdt: "sgdt [rdi]", "syscall";
    /// Stores the address of the interrupt descriptor table at rdi, then calls.
    code_sidt: "sidt [rdi]", "syscall";
    /// Reads the selector of the local descriptor table, then calls.
    code_sldt: "sldt eax", "syscall";
    /// Reads the selector of the task state, then calls.
    code_str: "str eax", "syscall";
    /// Reads half of CR0, then calls.
    code_smsw: "smsw eax", "syscall";
    /// Three instructions that do nothing, then a call.
    code_nops: "nop", "nop", "nop", "syscall", "jmp code_nops";
    /// Loads fs with the selector in edi, then calls.
    code_load_fs: "mov fs, edi", "syscall", "mov rax, fs:[0]", "syscall", "ud2";
    /// Thirty-two bit code: adds without wrapping past 32 bits, then `int 0x80`.
    code_compat: ".code32", "inc eax", "2: int 0x80", "jmp 2b", ".code64";
    /// Loads ss from the word at rdi, then calls at once: a watchpoint there fires inside the call.
    code_load_ss: "mov ss, [rdi]", "syscall", "jmp code_load_ss";
    /// Sets the gs base to rdi, then calls.
    code_wrgsbase: "wrgsbase rdi", "syscall", "jmp code_wrgsbase";
    /// Sets the gs base to rdi, then raises #UD.
    code_wrgsbase_ud2: "wrgsbase rdi", "ud2";
    /// Sets the gs base to rdi, then spins, counting at rsi.
    code_wrgsbase_spin: "wrgsbase rdi", "2: lock inc qword ptr [rsi]", "jmp 2b";
    /// Reads the TSC, then calls; then the same with the processor's number.
    code_tsc: "rdtsc", "syscall", "rdtscp", "syscall", "jmp code_tsc";
    /// Loads ds with the selector in edi, then calls.
    code_load_ds: "mov ds, edi", "syscall", "jmp code_load_ds";
}

core::arch::global_asm!(
    ".pushsection .text.entry, \"ax\"",
    ".p2align 12",
    ".global code_entry",
    "code_entry: mov r15, rcx",
    "mov rbx, r11",
    "2: syscall",
    "jmp 2b",
    ".p2align 12",
    ".popsection",
);

unsafe extern "C" {
    /// Dispatches system calls, in its own page: keeps the caller's address in r15 and the flags in
    /// rbx, and calls without end.
    pub fn code_entry();
}
