// SPDX-License-Identifier: BSD-2-Clause
//! Random programs that raise all kinds of faults, and the warden, their pager and exception
//! handler. A rogue runs some instructions from a random frame until it faults, calls, or must be
//! stopped. Then it gets the next program.

use crate::places::*;
use crate::random::Random;
use crate::reach;
use core::sync::atomic::Ordering::Relaxed;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::ids::LTHREAD_TASK;
use keel_l4::abi::memory::*;
use keel_l4::abi::{ExRegs, Frame, MapItem};
use keel_l4::call::Failure;
use keel_l4::ipc::{receive, send, sleep, Message, Received, Timeout};
use keel_l4::kip::kip;
use keel_l4::processor::{avoid_faults, is_translated};
use keel_l4::task::{self, NewTask};
use keel_l4::thread::{self, NewThread};
use keel_l4::{kernel_object, utcb, Fpage, Id, Tag};

/// Address of the programs in the rogues' task, and in the warden's.
const CODE: u64 = 0x100_0000;
const CODE_HERE: u64 = DEN + (DEN_PAGES - 1) * PAGE_SIZE;
/// Data of the rogues: the page before.
const DATA: u64 = CODE - PAGE_SIZE;
const DATA_HERE: u64 = CODE_HERE - PAGE_SIZE;
/// A window of the rogues in the warden's tables, and their kernel area, in which it is or is not.
const WINDOW: u64 = 0x8000_0000 | 26;
const AREAS: [u64; 2] = [AREA_DEFAULT, AREA_SMALL_SIZE];
/// Likely bases of their thread-local segments.
const TLS_PLACES: [u64; 6] = [0, DATA, CODE + 0x800, 0x3ff_f000, 0x400_0000, 0xffff_f000];
/// Bytes of a program.
const PROGRAM: usize = 192;
/// How long a program may run, and how long the kernel may take to stop it.
const RUN: u64 = 200_000;
const STOP: u64 = 1_000_000_000;
/// Time slice of a rogue. The warden has the same priority.
const SLICE: u64 = 50_000;
/// Programs between two pauses of the warden, and the length of a pause: the attackers have lower
/// priority.
const PROGRAMS: u64 = 16;
const REST: u64 = 1_000_000;
/// Pages of kernel memory for the rogues.
const QUOTA: u64 = 24;

/// Code and data of 64-bit programs, code of 32-bit ones.
const CODE_64: u64 = 0x33;
const CODE_32: u64 = 0x23;
const DATA_SEGMENT: u64 = 0x2b;

/// What programs consist of, in addition to random bytes.
const PIECES: &[&[u8]] = &[
    // ud2, int3, int1, int 0x80, int n, syscall, sysenter.
    &[0x0f, 0x0b],
    &[0xcc],
    &[0xf1],
    &[0xcd, 0x80],
    &[0xcd],
    &[0x0f, 0x05],
    &[0x0f, 0x34],
    // sysret, sysexit, iretq, retfq, ret, jmp rax, call rax, jmp far [rax].
    &[0x0f, 0x07],
    &[0x0f, 0x35],
    &[0x48, 0xcf],
    &[0x48, 0xcb],
    &[0xc3],
    &[0xff, 0xe0],
    &[0xff, 0xd0],
    &[0xff, 0x28],
    // pushfq, popfq; push random, popfq; single step, alignment check, nested task, I/O privilege
    // by popfq.
    &[0x9c, 0x9d],
    &[0x68],
    &[0x9d],
    &[0x9c, 0x81, 0x0c, 0x24, 0, 1, 0, 0, 0x9d],
    &[0x9c, 0x81, 0x0c, 0x24, 0, 0, 4, 0, 0x9d],
    &[0x9c, 0x81, 0x0c, 0x24, 0, 0x70, 0, 0, 0x9d],
    &[0xfd],
    &[0xfc],
    // mov to ss, ds, es, fs, gs; pop fs, gs; lss.
    &[0x8e, 0xd0],
    &[0x8e, 0xd8],
    &[0x8e, 0xc0],
    &[0x8e, 0xe0],
    &[0x8e, 0xe8],
    &[0x0f, 0xa1],
    &[0x0f, 0xa9],
    &[0x0f, 0xb2, 0x20],
    // mov ax, an existing selector; one of the above may follow.
    &[0x66, 0xb8, 0x2b, 0],
    &[0x66, 0xb8, 0x33, 0],
    &[0x66, 0xb8, 0x10, 0],
    &[0x66, 0xb8, 0x63, 0],
    &[0x66, 0xb8, 3, 0],
    // push random, ldmxcsr [rsp]; divss, sqrtps, mulps; cvttsd2si.
    &[0x0f, 0xae, 0x14, 0x24],
    &[0xf3, 0x0f, 0x5e, 0xc1],
    &[0x0f, 0x51, 0xc0],
    &[0x0f, 0x59, 0xc1],
    &[0xf2, 0x0f, 0x2c, 0xc0],
    // fninit, fld1, fldz, fdivp, fldcw [rsp], fwait, emms, fxsave and fxrstor [rsp], xsave and
    // xrstor [rsp], vzeroall and similar.
    &[0xdb, 0xe3],
    &[0xd9, 0xe8],
    &[0xd9, 0xee],
    &[0xde, 0xf9],
    &[0xd9, 0x2c, 0x24],
    &[0x9b],
    &[0x0f, 0x77],
    &[0x0f, 0xae, 0x04, 0x24],
    &[0x0f, 0xae, 0x0c, 0x24],
    &[0x0f, 0xae, 0x24, 0x24],
    &[0x0f, 0xae, 0x2c, 0x24],
    // A misaligned movaps; div ecx; idiv rax; lock on a register; enter; rep movsb, rep stosq, rep
    // outsb.
    &[0x0f, 0x29, 0x44, 0x24, 1],
    &[0xf7, 0xf1],
    &[0x48, 0xf7, 0xf8],
    &[0xf0, 0x89, 0xc0],
    &[0xc8, 0xff, 0xff, 0x1f],
    &[0xf3, 0xa4],
    &[0xf3, 0x48, 0xab],
    &[0xf3, 0x6e],
    // hlt, cli, sti, in, out, rdmsr, wrmsr, rdtsc, rdtscp, rdpmc, cpuid, wbinvd, invd, clts.
    &[0xf4],
    &[0xfa],
    &[0xfb],
    &[0xec],
    &[0xee],
    &[0x0f, 0x32],
    &[0x0f, 0x30],
    &[0x0f, 0x31],
    &[0x0f, 1, 0xf9],
    &[0x0f, 0x33],
    &[0x0f, 0xa2],
    &[0x0f, 9],
    &[0x0f, 8],
    &[0x0f, 6],
    // sgdt, sidt, lgdt, lidt, smsw, lmsw, invlpg, swapgs, xgetbv, xsetbv, monitor, mwait, vmcall,
    // clac, stac.
    &[0x0f, 1, 4, 0x24],
    &[0x0f, 1, 0x0c, 0x24],
    &[0x0f, 1, 0x14, 0x24],
    &[0x0f, 1, 0x1c, 0x24],
    &[0x0f, 1, 0xe0],
    &[0x0f, 1, 0xf0],
    &[0x0f, 1, 0x38],
    &[0x0f, 1, 0xf8],
    &[0x0f, 1, 0xd0],
    &[0x0f, 1, 0xd1],
    &[0x0f, 1, 0xc8],
    &[0x0f, 1, 0xc9],
    &[0x0f, 1, 0xc1],
    &[0x0f, 1, 0xca],
    &[0x0f, 1, 0xcb],
    // mov to and from control and debug registers, ltr, lldt, str, sldt, lar, verr.
    &[0x0f, 0x22, 0xc0],
    &[0x0f, 0x20, 0xd8],
    &[0x0f, 0x22, 0xe0],
    &[0x0f, 0x23, 0xf8],
    &[0x0f, 0x21, 0xf0],
    &[0x0f, 0, 0xd8],
    &[0x0f, 0, 0xd0],
    &[0x0f, 0, 0xc8],
    &[0x0f, 0, 0xc0],
    &[0x0f, 2, 0xc0],
    &[0x0f, 0, 0xe0],
    // wrfsbase, wrgsbase, rdgsbase; loads and stores by rax, fs and gs; mov rsp, rax; mov rax,
    // random.
    &[0xf3, 0x48, 0x0f, 0xae, 0xd0],
    &[0xf3, 0x48, 0x0f, 0xae, 0xd8],
    &[0xf3, 0x48, 0x0f, 0xae, 0xc8],
    &[0x48, 0x8b, 0],
    &[0x48, 0x89, 0x18],
    &[0x64, 0x48, 0x8b, 0],
    &[0x65, 0x48, 0x89, 0x18],
    &[0x48, 0x89, 0xc4],
    &[0x48, 0xb8],
    // In 32-bit code: loads and stores by gs and fs, at any offset and by rax and rbx, mov gs
    // before one, far jumps, mov ax, a thread-local or bad selector, and int 0x80 before a load.
    &[0x65, 0xa1],
    &[0x65, 0xa3],
    &[0x64, 0xa1],
    &[0x65, 0x8b, 0],
    &[0x65, 0x8b, 3],
    &[0x65, 0x89, 3],
    &[0x8e, 0xe8, 0x65, 0x8b, 3],
    &[0xea],
    &[0x66, 0xb8, 0x63, 0, 0x8e, 0xe8],
    &[0x66, 0xb8, 0x6b, 0, 0x8e, 0xd8],
    &[0x66, 0xb8, 0x73, 0, 0x8e, 0xd0],
    &[0x66, 0xb8, 0x7b, 0, 0x8e, 0xc0],
    &[0xcd, 0x80, 0x65, 0x8b, 3],
    // jmp to itself, jmp back.
    &[0xeb, 0xfe],
    &[0xeb, 0xe0],
];

/// A rogue: its id, and its frame in the warden's window if it is an alien thread.
#[derive(Clone, Copy)]
struct Rogue {
    id: Id,
    frame: Option<u64>,
}

/// The warden: `argument` is the seed.
pub extern "C" fn run(argument: u64) -> ! {
    let mut random = Random::new(argument);
    let ledger = own_ledger();
    let bought = kernel_object::buy_frames(0, 1).is_ok();
    let mut rogues = None;
    for count in 1u64.. {
        if count % PROGRAMS == 0 {
            sleep(REST);
        }
        let Some([alien, native]) = rogues.or_else(|| start(&mut random).ok().filter(|_| bought)) else {
            continue;
        };
        rogues = Some([alien, native]);
        let rogue = if random.once_in(3) { native } else { alien };
        if next_program(rogue, &mut random, ledger).is_none() {
            ledger.events[event::RECREATED].fetch_add(1, Relaxed);
            rogues = None;
        }
    }
    unreachable!("a count of programs has an end")
}

/// Creates the rogues' task and its threads. They fault at once and wait for their first program.
fn start(random: &mut Random) -> Result<[Rogue; 2], Failure> {
    let me = utcb::my_id();
    let number = me.task() + 1;
    let area = random.one_of(&AREAS);
    let plan = NewTask { number, max_priority: PRIORITIES - 1, quota: QUOTA, area, ..NewTask::default() };
    let task = task::create_empty(&plan)?;
    let mut record = ExRegs::zeroed();
    (record.pager, record.handler, record.frame) = (me.0, me.0, 0);
    let any = thread::lthread(task, LTHREAD_TASK as u16);
    let mask = EX_CREATE | EX_ALIEN | EX_FRAME | EX_PAGER | EX_HANDLER;
    let alien = thread::exchange(any, mask, &mut record)?;
    let plan = NewThread { task, number: LTHREAD_TASK as u16, ip: 0, sp: 0, pager: me, handler: me, argument: 0 };
    let native = plan.create()?;
    set_frame(0, &Frame::zeroed());
    for id in [alien, native] {
        thread::schedule(id, SCHEDULE_SLICE, 0, SLICE)?;
        thread::set_processor(id, random.below(kip().processors))?;
        thread::act(id, EX_START)?;
        receive(id, Timeout::After(STOP))?;
    }
    Ok([Rogue { id: alien, frame: Some(0) }, Rogue { id: native, frame: None }])
}

fn set_frame(index: u64, frame: &Frame) {
    let at = (AREA_DEFAULT + AREA_FRAMES + index * FRAME_SIZE) as *mut Frame;
    // SAFETY: the frame was bought and belongs to the warden. The kernel itself reads it.
    unsafe { at.write_volatile(*frame) };
}

/// Resumes a waiting rogue with a new program. Waits until the rogue needs an answer again.
fn next_program(rogue: Rogue, random: &mut Random, ledger: &Ledger) -> Option<()> {
    write_program(random);
    change_segments(rogue, random);
    send(rogue.id, answer(rogue, random), Timeout::Zero).ok()?;
    let received = match receive(rogue.id, Timeout::After(RUN)) {
        Ok(received) => received,
        Err(_) => {
            ledger.events[event::STOPPED].fetch_add(1, Relaxed);
            thread::act(rogue.id, EX_CANCEL | EX_TRIGGER).ok()?;
            receive(rogue.id, Timeout::After(STOP)).ok()?
        }
    };
    count(&received, ledger);
    // A message that a rogue with a UTCB sends is no fault: such a rogue must be stopped too.
    match received.tag.kind() {
        KIND_USER => None,
        _ => Some(()),
    }
}

/// Now and then gives a rogue another reach and other thread-local descriptors. In a window it is
/// only where segments have limits: elsewhere it could overwrite the warden.
fn change_segments(rogue: Rogue, random: &mut Random) {
    let limits = kip().features & FEATURE_SEGMENT_LIMITS != 0;
    if random.once_in(4) {
        let reach = random.one_of(&[SMALL_NONE, SMALL_ALL, WINDOW, WINDOW, WINDOW]);
        let _ = thread::set_reach(rogue.id, if limits { reach } else { reach.min(SMALL_ALL) }, Id::NIL);
    }
    if random.once_in(16) {
        let mut record = ExRegs::zeroed();
        record.tls = core::array::from_fn(|_| reach::descriptor(random, &TLS_PLACES));
        let _ = thread::exchange(rogue.id, EX_TLS, &mut record);
    }
}

fn count(received: &Received, ledger: &Ledger) {
    let counter = match received.tag.kind() {
        KIND_EXCEPTION => &ledger.vectors[received.tag.label() as usize % VECTORS],
        KIND_PAGE_FAULT => &ledger.events[event::FAULT],
        KIND_TRIGGER => &ledger.events[event::TRIGGER],
        _ => &ledger.events[event::CALL],
    };
    counter.fetch_add(1, Relaxed);
}

/// Fills code and data of the rogues.
fn write_program(random: &mut Random) {
    let mut code = [0u8; PROGRAM];
    let mut used = 0;
    while used < PROGRAM {
        let piece = random.one_of(PIECES);
        let bytes = random.below(8).saturating_sub(3) as usize;
        for index in 0..piece.len() + bytes {
            let byte = piece.get(index).copied().unwrap_or_else(|| random.next() as u8);
            if used < PROGRAM {
                code[used] = byte;
                used += 1;
            }
        }
    }
    avoid_faults(&mut code, is_translated());
    for (offset, byte) in code.iter().enumerate() {
        // SAFETY: the last page of the den is the rogues' code.
        unsafe { ((CODE_HERE + offset as u64) as *mut u8).write_volatile(*byte) };
    }
    for offset in (0..PAGE_SIZE).step_by(64) {
        // SAFETY: the page before it is their data.
        unsafe { ((DATA_HERE + offset) as *mut u64).write_volatile(random.next()) };
    }
}

/// The answer to a rogue's fault: its pages, and the frame with which it resumes.
fn answer(rogue: Rogue, random: &mut Random) -> Message {
    let frame = frame(random);
    // Where some bytes must not be executed, nothing that a program writes is.
    let (code, data) =
        if is_translated() { (FPAGE_RWX & !FPAGE_WRITE, FPAGE_RWX & !FPAGE_EXEC) } else { (FPAGE_RWX, FPAGE_RWX) };
    let item =
        |to: u64, from: u64, rights| MapItem { send_base: to, fpage: Fpage::memory(from, PAGE_SHIFT as u8, rights).0 };
    let elsewhere = random.next() & 0x7fff_ffff_f000;
    let items = [item(CODE, CODE_HERE, code), item(DATA, DATA_HERE, data), item(elsewhere, DATA_HERE, data)];
    let items = if random.once_in(16) { &items[..] } else { &items[..2] };
    let message = Message::label(0).with_maps(items);
    match rogue.frame {
        Some(index) => {
            set_frame(index, &frame);
            message
        }
        None => {
            let words = (&raw const frame).cast::<u64>();
            let count = size_of::<Frame>() / 8;
            for index in 0..count {
                // SAFETY: the frame consists of that many words.
                utcb::set_word(REGISTER_WORDS as usize + index, unsafe { words.add(index).read() });
            }
            let tag = Tag::new(0, REGISTER_WORDS + count as u64).with_maps(message.tag.maps());
            Message { tag, ..message }
        }
    }
}

/// A frame at the program's beginning with random registers. Sometimes all of it is random.
fn frame(random: &mut Random) -> Frame {
    let mut frame = Frame::zeroed();
    let words = (&raw mut frame).cast::<u64>();
    for index in 0..size_of::<Frame>() / 8 {
        let value = match random.below(4) {
            0 => random.next(),
            1 => DATA + random.below(2 * PAGE_SIZE),
            2 => 1 << random.below(64),
            _ => random.below(256),
        };
        // SAFETY: the frame consists of that many words.
        unsafe { words.add(index).write(value) };
    }
    if !random.once_in(16) {
        frame.ip = CODE + random.below(PROGRAM as u64 / 2);
        frame.cs = if random.once_in(8) { CODE_32 } else { CODE_64 };
        frame.ss = DATA_SEGMENT;
    }
    if !random.once_in(4) {
        frame.sp = DATA + PAGE_SIZE / 2 + 8 * random.below(PAGE_SIZE / 32);
        frame.segments = 0;
    }
    // Arithmetic, trap, direction and alignment flags, sometimes all bits.
    frame.flags = random.next() & if random.once_in(4) { u64::MAX } else { 0x8d5 };
    frame
}
