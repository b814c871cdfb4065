// SPDX-License-Identifier: BSD-2-Clause
//! Alien threads: their system calls and faults as messages, their frames, and the valid contents
//! of a frame.

use crate::alien::*;
use crate::case::{Case, Outcome};
use crate::pool::{cell, frame, frame_index, page, peek, set_frame, PAGE};
use crate::threads::pause;
use crate::{holds, refused, same};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::*;
use keel_l4::abi::{ExRegs, Frame, MapItem};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, Message, Received, Timeout};
use keel_l4::{kernel_object, thread, Fpage, Id};

pub const CASES: &[Case] = &[
    ("system-call", system_call),
    ("int-0x80", int80),
    ("registers-in", registers_in),
    ("registers-out", registers_out),
    ("all-registers-survive-a-call", registers_survive),
    ("rcx-and-r11-as-the-processor-leaves-them", rcx_r11),
    ("orig-ax", orig_ax),
    ("page-fault", page_fault),
    ("page-fault-fields", page_fault_fields),
    ("fault-address-not-canonical", non_canonical),
    ("exceptions", exceptions),
    ("no-l4-calls", no_l4_calls),
    ("ip-not-canonical", bad_ip),
    ("ip-in-the-kernel-half", kernel_ip),
    ("flags-masked", flags_masked),
    ("selectors-forced", selectors_forced),
    ("compatibility-code", compat),
    ("bases-loaded", bases),
    ("bad-bases-refused", bad_bases),
    ("high-bases-kept", high_bases),
    ("stack-not-canonical", bad_stack),
    ("spare-fields-do-not-matter", spare_fields),
    ("frame-names-its-thread", frame_names_thread),
    ("frame-outlives-the-thread", frame_outlives),
    ("frame-bound-once", frame_bound_once),
    ("frame-exchanged", frame_exchanged),
    ("frame-not-bought", frame_not_bought),
    ("unbound-does-not-start", unbound),
    ("bought-frames-are-kept", bought_kept),
    ("two-threads-in-a-task", two_threads),
    ("many-calls", many_calls),
    ("answer-with-page-and-frame", page_and_frame),
    ("deleted-while-it-waits", deleted),
    ("task-deleted-while-it-runs", task_deleted),
    ("resumed-by-start", resumed_by_start),
];

/// Where the alien threads of this topic have pages outside the suite's image.
const PLACE: u64 = 0x5000_0000;

fn system_call() -> Outcome {
    let alien = Alien::new(code_syscall, |f| f.ax = 0x1234_5678_9abc)?;
    let got = alien.start()?;
    same!(
        "kind, gate, sender",
        (got.tag.kind(), got.tag.label() as u64, got.from),
        (KIND_SYSCALL, GATE_SYSCALL, alien.id)
    );
    same!("rax, frame index", (got.words[0], got.words[2]), (0x1234_5678_9abc, alien.frame));
    same!("ip after the instruction", got.words[1], code_syscall as *const () as u64 + 2);
    Ok(())
}

fn int80() -> Outcome {
    let alien = Alien::new(code_int80, |f| f.ax = 20)?;
    let got = alien.start()?;
    same!("kind, gate", (got.tag.kind(), got.tag.label() as u64), (KIND_SYSCALL, GATE_INT80));
    same!("rax", got.words[0], 20);
    same!("ip after the instruction", got.words[1], code_int80 as *const () as u64 + 2);
    same!("again after the answer", alien.resume()?.tag.label() as u64, GATE_INT80);
    Ok(())
}

/// Gives every general register a value of its own.
fn mark(f: &mut Frame, base: u64) {
    let words = [
        &mut f.r15, &mut f.r14, &mut f.r13, &mut f.r12, &mut f.bp, &mut f.bx, &mut f.r10, &mut f.r9, &mut f.r8,
        &mut f.ax, &mut f.dx, &mut f.si, &mut f.di,
    ];
    for (index, word) in words.into_iter().enumerate() {
        *word = base + index as u64 * 0x1_0001_0001;
    }
}

/// The general registers except rcx and r11, in the order of `mark`.
fn marked(f: &Frame) -> [u64; 13] {
    [f.r15, f.r14, f.r13, f.r12, f.bp, f.bx, f.r10, f.r9, f.r8, f.ax, f.dx, f.si, f.di]
}

fn registers_in() -> Outcome {
    let alien = Alien::new(code_syscall, |f| mark(f, 0xaaaa_0000))?;
    let before = alien.regs();
    alien.start()?;
    same!("registers at the call", marked(&alien.regs()), marked(&before));
    same!("stack pointer", alien.regs().sp, before.sp);
    Ok(())
}

fn registers_out() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    alien.edit(|f| mark(f, u64::MAX << 40));
    let expected = alien.regs();
    alien.resume()?;
    same!("registers at the next call", marked(&alien.regs()), marked(&expected));
    Ok(())
}

fn registers_survive() -> Outcome {
    let alien = Alien::new(code_syscall, |f| mark(f, 7))?;
    alien.start()?;
    for round in 0..100 {
        alien.edit(|f| f.ax = round);
        let expected = marked(&alien.regs());
        alien.resume()?;
        same!("registers", marked(&alien.regs()), expected);
    }
    Ok(())
}

fn rcx_r11() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    let f = alien.regs();
    same!("rcx = ip", f.cx, f.ip);
    same!("r11 = flags", f.r11, f.flags);
    // Other values need the slow return to user mode and must arrive all the same.
    alien.edit(|f| {
        f.ip = code_load as *const () as u64;
        f.di = crate::pool::cell(9) as *const _ as u64;
        f.cx = 0x5555;
        f.r11 = 0x6666;
    });
    cell(9).store(88, core::sync::atomic::Ordering::SeqCst);
    same!("what the code loaded", alien.resume()?.words[0], 88);
    Ok(())
}

fn orig_ax() -> Outcome {
    let alien = Alien::new(code_syscall, |f| f.ax = 39)?;
    alien.start()?;
    same!("after a call", alien.regs().orig_ax, 39);
    let faulter = Alien::new(code_ud2, |f| f.ax = 39)?;
    faulter.start()?;
    same!("after an exception", faulter.regs().orig_ax, u64::MAX);
    Ok(())
}

fn page_fault() -> Outcome {
    let alien = Alien::new(code_store, |f| f.di = PLACE + 24)?;
    let got = alien.start()?;
    same!("kind, access", (got.tag.kind(), got.tag.label() as u64), (KIND_PAGE_FAULT, FPAGE_WRITE));
    same!("address, ip, frame", got.words[..3], [PLACE + 24, code_store as *const () as u64, alien.frame]);
    Ok(())
}

fn page_fault_fields() -> Outcome {
    let alien = Alien::new(code_store, |f| f.di = PLACE + 24)?;
    alien.start()?;
    let f = alien.regs();
    same!("vector, cr2", (f.vector, f.cr2), (14, PLACE + 24));
    same!("error code: a write by a user to nothing", f.error_code & 7, 6);
    let read_only = MapItem { send_base: PLACE, fpage: Fpage::memory(page(), 12, FPAGE_READ).0 };
    let got = call(alien.id, Message::label(0).with_maps(&[read_only]))?;
    same!("cause with a read-only page", got.words[3], 1);
    same!("error code then", alien.regs().error_code & 7, 7);
    Ok(())
}

fn non_canonical() -> Outcome {
    let alien = Alien::new(code_load, |f| f.di = 0x8000_0000_0000)?;
    let got = alien.start()?;
    same!("kind, vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, 13));
    let kernel = Alien::new(code_load, |f| f.di = 0xffff_8000_0000_0000)?;
    let got = kernel.start()?;
    same!("kind, address in the kernel half", (got.tag.kind(), got.words[0]), (KIND_PAGE_FAULT, 0xffff_8000_0000_0000));
    Ok(())
}

fn exceptions() -> Outcome {
    let all: [(unsafe extern "C" fn(), u64, u64); 5] =
        [(code_ud2, 6, 0), (code_divide, 0, 4), (code_int3, 3, 1), (code_cli, 13, 0), (code_int32, 13, 0)];
    for (code, vector, distance) in all {
        let alien = Alien::new(code, |_| ())?;
        let got = alien.start()?;
        same!("kind, vector", (got.tag.kind(), got.tag.label() as u64), (KIND_EXCEPTION, vector));
        same!(
            "ip, vector in the frame",
            (got.words[1], alien.regs().vector),
            (code as usize as u64 + distance, vector)
        );
    }
    Ok(())
}

fn no_l4_calls() -> Outcome {
    // The instruction that is an ipc in a native thread: every number arrives at the handler.
    let alien = Alien::new(code_syscall, |f| f.ax = CALL_IPC | IPC_RECEIVE | IPC_OPEN)?;
    same!("kind", alien.start()?.tag.kind(), KIND_SYSCALL);
    for number in 0..16 {
        alien.edit(|f| f.ax = number);
        let got = alien.resume()?;
        same!("kind, rax", (got.tag.kind(), got.words[0]), (KIND_SYSCALL, number));
    }
    Ok(())
}

/// What comes of an alien thread that resumes at an address after a call.
fn resumed_at(ip: u64) -> Result<Received, Failure> {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    alien.edit(|f| f.ip = ip);
    alien.resume()
}

/// A resumption at an address that is not canonical is a fault of the alien thread.
fn bad_ip() -> Outcome {
    for ip in [1 << 47, 0x7fff_ffff_ffff_ffff, 1 << 63, 0xffff_7fff_ffff_ffff] {
        let got = resumed_at(ip)?;
        same!("kind, vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, 13));
    }
    Ok(())
}

/// In the kernel's pages it fetches nothing.
fn kernel_ip() -> Outcome {
    for ip in [0xffff_8000_0000_0000, 0xffff_ffff_8010_0000, u64::MAX] {
        let got = resumed_at(ip)?;
        let (access, address, at) = (got.tag.label() as u64, got.words[0], got.words[1]);
        same!(
            "kind, access, address, ip",
            (got.tag.kind(), access, address, at),
            (KIND_PAGE_FAULT, FPAGE_EXEC, ip, ip)
        );
    }
    Ok(())
}

fn flags_masked() -> Outcome {
    // IOPL, NT, VM, VIF, VIP set; IF cleared. A user may set NT, but it must not harm the kernel.
    let alien = Alien::new(code_flags, |f| f.flags = 0x1a_7000)?;
    let got = alien.start()?;
    same!("kind", got.tag.kind(), KIND_SYSCALL);
    same!("IOPL, VM, VIF, VIP in user mode", got.words[0] & 0x1a_3000, 0);
    holds!("interrupts on", got.words[0] & 0x200 != 0);
    alien.edit(|f| {
        f.ip = code_flags as *const () as u64;
        f.flags = 0x202 | 0xcd5;
    });
    same!("the arithmetic flags arrive", alien.resume()?.words[0] & 0xcd5, 0xcd5);
    Ok(())
}

fn selectors_forced() -> Outcome {
    for (cs, ss) in [(0u64, 0u64), (8, 16), (0x10, 0x18), (0xffff, 0xffff), (0x33 | 4, 0x2b), (u64::MAX, u64::MAX)] {
        let alien = Alien::new(code_syscall, |f| (f.cs, f.ss) = (cs, ss))?;
        same!("kind", alien.start()?.tag.kind(), KIND_SYSCALL);
        same!("cs, ss", (alien.regs().cs, alien.regs().ss), (CODE_64, DATA));
    }
    Ok(())
}

fn compat() -> Outcome {
    let alien = Alien::new(code_compat, |f| (f.cs, f.ax) = (CODE_32, 0xffff_ffff))?;
    let got = alien.start()?;
    same!("kind, gate", (got.tag.kind(), got.tag.label() as u64), (KIND_SYSCALL, GATE_INT80));
    same!("eax wrapped, cs", (got.words[0], alien.regs().cs), (0, CODE_32));
    same!("again after the answer", alien.resume()?.tag.kind(), KIND_SYSCALL);
    Ok(())
}

fn bases() -> Outcome {
    let (fs, gs) = (page(), page());
    crate::topics::window::fill(fs, 1, 0xf5);
    crate::topics::window::fill(gs, 1, 0x65);
    let alien = Alien::new(code_bases, |f| (f.fs_base, f.gs_base) = (fs, gs))?;
    alien.start()?;
    same!("what fs and gs reach", (alien.regs().ax, alien.regs().bx), (0xf5, 0x65));
    alien.edit(|f| (f.fs_base, f.gs_base) = (gs, fs));
    alien.resume()?;
    same!("after an exchange", (alien.regs().ax, alien.regs().bx), (0x65, 0xf5));
    same!("bases in the frame", (alien.regs().fs_base, alien.regs().gs_base), (gs, fs));
    Ok(())
}

fn bad_bases() -> Outcome {
    // A non-canonical base must not be loaded; the thread runs with 0.
    for base in [1 << 47, 0xffff_7fff_ffff_ffff, 1 << 63] {
        let alien = Alien::new(code_syscall, |f| (f.fs_base, f.gs_base) = (base, base))?;
        same!("kind", alien.start()?.tag.kind(), KIND_SYSCALL);
        same!("bases", (base, alien.regs().fs_base, alien.regs().gs_base), (base, 0, 0));
    }
    Ok(())
}

fn high_bases() -> Outcome {
    // A value that WRGSBASE allows a user to set is kept.
    for base in [0xffff_8000_0000_0000, u64::MAX] {
        let alien = Alien::new(code_syscall, |f| (f.fs_base, f.gs_base) = (base, base))?;
        same!("kind", alien.start()?.tag.kind(), KIND_SYSCALL);
        same!("bases", (alien.regs().fs_base, alien.regs().gs_base), (base, base));
        alien.resume()?;
        same!("bases after another call", (alien.regs().fs_base, alien.regs().gs_base), (base, base));
    }
    Ok(())
}

fn bad_stack() -> Outcome {
    for sp in [0, 1 << 47, u64::MAX, 1 << 63] {
        let alien = Alien::new(code_syscall, |f| f.sp = sp)?;
        same!("kind", alien.start()?.tag.kind(), KIND_SYSCALL);
        same!("stack pointer", alien.regs().sp, sp);
    }
    Ok(())
}

fn spare_fields() -> Outcome {
    let alien = Alien::new(code_syscall, |f| {
        (f.spare, f.vector, f.error_code, f.cr2) = (u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        (f.orig_ax, f.dr6, f.thread, f.reserved) = (1, u64::MAX, u64::MAX, [u64::MAX; 2]);
    })?;
    same!(
        "kind, sender",
        {
            let got = alien.start()?;
            (got.tag.kind(), got.from)
        },
        (KIND_SYSCALL, alien.id)
    );
    Ok(())
}

fn frame_names_thread() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    same!("thread in the frame", alien.regs().thread, alien.id.0);
    Ok(())
}

fn frame_outlives() -> Outcome {
    let alien = Alien::new(code_syscall, |f| mark(f, 3))?;
    alien.start()?;
    let before = marked(&alien.regs());
    alien.act(EX_DELETE)?;
    same!("registers afterwards", marked(&alien.regs()), before);
    let (task, _) = empty_task()?;
    let next = create(task, alien.frame, EX_START)?;
    let got = Alien { task, id: next, ..alien }.serve(receive(next, Timeout::Never)?)?;
    same!("a thread of another task resumes with it", (got.tag.kind(), got.from), (KIND_SYSCALL, next));
    same!("registers then", marked(&alien.regs()), before);
    Ok(())
}

fn frame_bound_once() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    let (task, _) = empty_task()?;
    refused!("a second thread on the frame", create(task, alien.frame, 0), Call Busy);
    alien.act(EX_DELETE)?;
    create(task, alien.frame, 0)?;
    Ok(())
}

fn exchange_frame(id: Id, index: u64) -> Result<u64, keel_l4::call::Failure> {
    let mut record = ExRegs::zeroed();
    record.frame = index;
    thread::exchange(id, EX_FRAME, &mut record).map(|_| record.frame)
}

fn frame_exchanged() -> Outcome {
    let alien = Alien::new(code_syscall, |f| f.ax = 1)?;
    alien.start()?;
    let other = frame_index();
    let mut copy = alien.regs();
    copy.ax = 2;
    copy.ip -= 2;
    set_frame(other, &copy);
    exchange_frame(alien.id, other)?;
    let moved = Alien { frame: other, ..alien };
    let got = moved.resume()?;
    same!("rax, frame index", (got.words[0], got.words[2]), (2, other));
    same!("the old frame has no thread", frame(alien.frame).thread, 0);
    Ok(())
}

fn frame_not_bought() -> Outcome {
    let (task, _) = empty_task()?;
    let first_missing = crate::pool::FRAME_PAGES * FRAMES_PER_PAGE;
    for index in [first_missing, AREA_FRAME_PAGES * FRAMES_PER_PAGE, u64::MAX, 1 << 32] {
        holds!("a refusal", create(task, index, 0).is_err());
    }
    Ok(())
}

fn unbound() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    exchange_frame(alien.id, FRAME_NONE)?;
    refused!("starting it", alien.act(EX_START), Call Invalid);
    exchange_frame(alien.id, alien.frame)?;
    alien.act(EX_START)?;
    same!("with the frame", receive(alien.id, Timeout::Never)?.tag.kind(), KIND_SYSCALL);
    Ok(())
}

fn bought_kept() -> Outcome {
    let index = frame_index();
    let mut marked_frame = Frame::zeroed();
    marked_frame.ax = 0x4711;
    set_frame(index, &marked_frame);
    kernel_object::buy_frames(0, crate::pool::FRAME_PAGES)?;
    same!("the frame's content", frame(index).ax, 0x4711);
    Ok(())
}

fn two_threads() -> Outcome {
    let first = Alien::new(code_syscall, |f| f.ax = 1)?;
    let second = Alien::in_task(first.task, first.number, code_syscall, |f| f.ax = 2)?;
    same!("the first", first.start()?.words[0], 1);
    same!("the second", second.start()?.words[0], 2);
    holds!("lthreads of one task", first.id.task() == second.id.task() && first.id.lthread() != second.id.lthread());
    Ok(())
}

fn many_calls() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    for n in 0..20_000 {
        alien.edit(|f| f.ax = n);
        same!("rax", alien.resume()?.words[0], n);
    }
    Ok(())
}

fn page_and_frame() -> Outcome {
    let from = page();
    crate::topics::window::fill(from, 1, 5);
    let alien = Alien::new(code_store, |f| (f.di, f.si) = (PLACE, 1))?;
    alien.start()?;
    alien.edit(|f| f.si = 42);
    let item = MapItem { send_base: PLACE, fpage: Fpage::memory(from, 12, FPAGE_RWX).0 };
    let got = call(alien.id, Message::label(0).with_maps(&[item]))?;
    same!("kind", alien.serve(got)?.tag.kind(), KIND_SYSCALL);
    same!("the edited register was stored", peek(from), 42);
    holds!("nothing was stored elsewhere", peek(from + PAGE - 8) == 0);
    Ok(())
}

fn deleted() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    alien.act(EX_DELETE)?;
    refused!("the answer", alien.release(), Send NoPartner);
    Ok(())
}

fn task_deleted() -> Outcome {
    let alien = Alien::new(code_spin, |f| f.di = cell(4) as *const _ as u64)?;
    alien.spin(cell(4))?;
    holds!("it counts", cell(4).load(core::sync::atomic::Ordering::SeqCst) > 0);
    crate::threads::remove_task(alien.number)?;
    let count = cell(4).load(core::sync::atomic::Ordering::SeqCst);
    pause(5_000_000);
    same!("its counter is unchanged", cell(4).load(core::sync::atomic::Ordering::SeqCst), count);
    Ok(())
}

fn resumed_by_start() -> Outcome {
    let alien = Alien::new(code_syscall, |f| f.ax = 10)?;
    alien.start()?;
    alien.edit(|f| f.ax = 11);
    alien.act(EX_START)?;
    same!("rax at the next call", receive(alien.id, Timeout::Never)?.words[0], 11);
    Ok(())
}
