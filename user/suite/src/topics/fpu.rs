// SPDX-License-Identifier: BSD-2-Clause
//! FPU states: private to each thread, kept through every kind of ipc, read and written by the
//! chief.

use crate::alien::{address, code_fpu, code_fpu_load, code_fpu_read, code_syscall, Alien};
use crate::case::{Case, Outcome};
use crate::pool::{cell, page, pages, WINDOW};
use crate::threads::{base_priority, helper, park, pause, Spawn};
use crate::topics::hardening::has_xsave;
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::{KIND_PAGE_FAULT, KIND_SYSCALL};
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SIZE};
use keel_l4::abi::memory::{EX_FPU_GET, EX_FPU_RESET, EX_FPU_SET, EX_START};
use keel_l4::abi::{ExRegs, MapItem};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, send_and_wait, sleep, wait, Message, Received, Timeout};
use keel_l4::kip::kip;
use keel_l4::thread::set_priority;
use keel_l4::{thread, utcb, Fpage, Id};

pub const CASES: &[Case] = &[
    ("two-threads-keep-their-own", two_threads),
    ("natives-keep-their-own", natives),
    ("read-by-the-chief", read),
    ("written-by-the-chief", written),
    ("copied-from-one-to-another", copied),
    ("unused-gives-the-initial-state", unused),
    ("reserved-bits-refused", reserved_bits),
    ("reserved-mxcsr-refused", reserved_mxcsr),
    ("buffer-not-mapped", not_mapped),
    ("buffer-not-aligned", not_aligned),
    ("buffer-too-small", too_small),
    ("of-another-task-denied", denied),
    ("calls-of-a-server-that-uses-it", server_uses),
    ("calls-by-a-client-that-uses-it", client_uses),
    ("calls-where-both-use-it", both_use),
    ("calls-where-neither-uses-it", neither_uses),
    ("three-natives-take-turns", natives_take_turns),
    ("alien-calls-answered-at-once", alien_answers),
    ("alien-calls-answered-by-one-that-uses-it", alien_answers_with),
    ("other-registers-answered-at-once", other_registers),
    ("page-faults-answered-at-once", fault_answers),
    ("page-faults-answered-by-one-that-uses-it", fault_answers_with),
    ("native-page-faults", native_faults),
    ("read-to-two-pages", read_to_two_pages),
    ("what-the-buffer-held-does-not-matter", buffer_content),
    ("reset", reset),
    ("reset-of-an-unused-one", reset_unused),
    ("reset-ends-a-donation", reset_ends_a_donation),
    ("initial-components-are-initial", initial_components),
    ("ones-own", own),
    ("read-state-stays-hidden", stays_hidden),
];

/// Offsets in the standard format: control word, mxcsr, xmm0, the state-component bitmap, what
/// follows it.
const CONTROL_WORD: u64 = 0;
const MXCSR: u64 = 24;
pub const XMM0: u64 = 160;
pub const COMPONENTS: u64 = 512;
const COMPACTION: u64 = 520;
/// x87 and SSE.
pub const BOTH: u64 = 3;
/// xmm7, which native threads use here.
pub const XMM7: u64 = XMM0 + 7 * 16;
/// Initial values of the control word and of mxcsr.
const INITIAL: (u64, u64) = (0x37f, 0x1f80);
/// Another value of mxcsr.
const ROUND_DOWN: u64 = 0x3f80;
/// Messages that suffice to replace all cached partners.
const ROUNDS: u64 = 20;

fn buffer() -> u64 {
    pages(4)
}

pub fn word(address: u64) -> u64 {
    crate::pool::peek(address)
}

pub fn set_word(address: u64, value: u64) {
    // SAFETY: the buffers of this topic are separate pages.
    unsafe { crate::pool::poke(address, value) };
}

fn transfer(id: Id, mask: u64, address: u64, size: u64) -> Result<u64, Failure> {
    let mut record = ExRegs::zeroed();
    (record.fpu, record.fpu_size) = (address, size);
    thread::exchange(id, mask, &mut record).map(|_| record.fpu_size)
}

/// Reads the state of a thread to a buffer; its bytes.
pub fn get(id: Id, address: u64) -> Result<u64, Failure> {
    transfer(id, EX_FPU_GET, address, kip().fpu_size)
}

pub fn set(id: Id, address: u64) -> Result<u64, Failure> {
    transfer(id, EX_FPU_SET, address, kip().fpu_size)
}

/// An alien thread whose xmm0 holds `value`, at its first call.
pub fn with_xmm0(value: u64) -> Result<Alien, Failure> {
    let alien = Alien::new(code_fpu, |f| f.di = value)?;
    alien.start()?;
    Ok(alien)
}

fn two_threads() -> Outcome {
    let (first, second) = (with_xmm0(0x1111)?, with_xmm0(0x2222)?);
    for _ in 0..20 {
        same!("the first's xmm0", first.resume()?.words[0], 0x1111);
        same!("the second's xmm0", second.resume()?.words[0], 0x2222);
    }
    Ok(())
}

pub fn set_xmm7(value: u64) {
    // SAFETY: code that is compiled without SSE does not use xmm7.
    unsafe { core::arch::asm!("movq xmm7, {}", in(reg) value, options(nomem, nostack)) };
}

pub fn xmm7() -> u64 {
    let value: u64;
    // SAFETY: as above.
    unsafe { core::arch::asm!("movq {}, xmm7", out(reg) value, options(nomem, nostack)) };
    value
}

/// Keeps its argument in xmm7 and checks it; counts rounds in cell 2 + the argument, damage in cell
/// 1.
extern "C" fn keeper(value: u64) -> ! {
    set_xmm7(value);
    for _ in 0..100 {
        sleep(200_000);
        if xmm7() != value {
            crate::pool::cell(1).fetch_add(1, SeqCst);
        }
        crate::pool::cell(2 + value as usize).fetch_add(1, SeqCst);
    }
    park()
}

fn natives() -> Outcome {
    (1..=3).try_for_each(|value| helper(keeper, value).map(|_| ()))?;
    pause(400_000_000);
    let rounds = [3, 4, 5].map(|c| crate::pool::cell(c).load(SeqCst));
    same!("damage, rounds", (crate::pool::cell(1).load(SeqCst), rounds), (0, [100; 3]));
    Ok(())
}

fn read() -> Outcome {
    let alien = with_xmm0(0xabcd_ef01_2345_6789)?;
    let at = buffer();
    same!("bytes", get(alien.id, at)?, kip().fpu_size);
    same!("xmm0", word(at + XMM0), 0xabcd_ef01_2345_6789);
    holds!("SSE among the components", word(at + COMPONENTS) & 2 != 0);
    same!("standard format", word(at + COMPACTION), 0);
    Ok(())
}

fn written() -> Outcome {
    let alien = with_xmm0(1)?;
    let at = buffer();
    get(alien.id, at)?;
    set_word(at + XMM0, 0x7777);
    set(alien.id, at)?;
    same!("xmm0 in the thread", alien.resume()?.words[0], 0x7777);
    Ok(())
}

fn copied() -> Outcome {
    let (from, to) = (with_xmm0(0x1234)?, with_xmm0(0x5678)?);
    let at = buffer();
    get(from.id, at)?;
    set(to.id, at)?;
    same!("xmm0 of both", (from.resume()?.words[0], to.resume()?.words[0]), (0x1234, 0x1234));
    Ok(())
}

fn unused() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    let at = buffer();
    set_word(at + XMM0, 0xffff);
    get(alien.id, at)?;
    same!("control word", word(at + CONTROL_WORD) & 0xffff, 0x37f);
    same!("mxcsr", word(at + MXCSR) & 0xffff_ffff, 0x1f80);
    same!("xmm0", word(at + XMM0), 0);
    Ok(())
}

fn reserved_bits() -> Outcome {
    let alien = with_xmm0(5)?;
    let at = buffer();
    get(alien.id, at)?;
    for (offset, value) in
        [(COMPONENTS, 1 << 62 | BOTH), (COMPACTION, 1 << 63), (COMPACTION + 8, 1), (COMPONENTS, u64::MAX)]
    {
        let before = word(at + offset);
        set_word(at + offset, value);
        refused!("a state with reserved bits", set(alien.id, at), Call Invalid);
        set_word(at + offset, before);
    }
    same!("the thread's xmm0", alien.resume()?.words[0], 5);
    Ok(())
}

fn reserved_mxcsr() -> Outcome {
    let alien = with_xmm0(6)?;
    let at = buffer();
    get(alien.id, at)?;
    set_word(at + MXCSR, word(at + MXCSR) | 0x8000_0000);
    refused!("reserved bits of mxcsr", set(alien.id, at), Call Invalid);
    same!("the thread's xmm0", alien.resume()?.words[0], 6);
    Ok(())
}

fn not_mapped() -> Outcome {
    let alien = with_xmm0(7)?;
    let kernel = [0xffff_8000_0000_0000, 0xffff_ffff_8010_0000, 1 << 47, !63];
    for address in [crate::pool::WINDOW, 0].into_iter().chain(kernel) {
        refused!("reading", get(alien.id, address), Call Invalid);
        refused!("writing", set(alien.id, address), Call Invalid);
    }
    Ok(())
}

fn not_aligned() -> Outcome {
    let alien = with_xmm0(8)?;
    let at = buffer();
    for offset in [1, 8, 32] {
        refused!("reading", get(alien.id, at + offset), Call Invalid);
    }
    Ok(())
}

fn too_small() -> Outcome {
    let alien = with_xmm0(9)?;
    let at = buffer();
    for size in [0, 512, kip().fpu_size - 1] {
        refused!("reading", transfer(alien.id, EX_FPU_GET, at, size), Call Invalid);
    }
    Ok(())
}

fn denied() -> Outcome {
    refused!("the root task's", get(Id::ROOT, buffer()), Call Denied);
    Ok(())
}

/// The answer's label if xmm7 was wrong.
const DAMAGED: u32 = 1;
/// Asks a server for the value in xmm7.
pub const ASK: u32 = 1;

/// Answers messages, by reply and wait. If it uses the FPU, it keeps the last message's first word
/// in xmm7.
pub extern "C" fn serve(uses: u64) -> ! {
    let (mut next, mut last) = (wait(Timeout::Never), 0);
    while let Ok(got) = next {
        let asks = got.tag.label() == ASK;
        let value = if uses != 0 || asks { xmm7() } else { 0 };
        if uses != 0 && !asks {
            set_xmm7(got.words[0]);
        }
        let label = if asks || value == last { 0 } else { DAMAGED };
        last = if uses != 0 { got.words[0] } else { 0 };
        next = send_and_wait(got.from, Message::new(label, &[value]), Timeout::Zero, Timeout::Never);
    }
    park()
}

fn take_turns(client: bool, server: bool) -> Outcome {
    let id = helper(serve, server as u64)?;
    for round in 1..=ROUNDS {
        if client {
            set_xmm7(round << 32);
        }
        same!("the server's", call(id, Message::new(0, &[round]))?.tag.label(), 0);
        holds!("the client's", !client || xmm7() == round << 32);
    }
    let (servers, clients) = (call(id, Message::label(ASK))?.words[0], xmm7());
    same!("both", (servers, clients), (server as u64 * ROUNDS, (client as u64 * ROUNDS) << 32));
    Ok(())
}

fn server_uses() -> Outcome {
    take_turns(false, true)
}

fn client_uses() -> Outcome {
    take_turns(true, false)
}

fn both_use() -> Outcome {
    take_turns(true, true)
}

fn neither_uses() -> Outcome {
    take_turns(false, false)
}

/// Calls the server whose id is in cell 0; counts its rounds in cell 1 + the argument, damage in
/// cell 4.
extern "C" fn client(number: u64) -> ! {
    for round in 0..ROUNDS {
        let value = number << 32 | round;
        set_xmm7(value);
        let answered = call(Id(cell(0).load(SeqCst)), Message::label(0));
        let good = answered.is_ok() && xmm7() == value;
        cell(if good { 1 + number as usize } else { 4 }).fetch_add(1, SeqCst);
    }
    park()
}

fn natives_take_turns() -> Outcome {
    cell(0).store(helper(serve, 0)?.0, SeqCst);
    (0..3).try_for_each(|number| helper(client, number).map(|_| ()))?;
    pause(50_000_000);
    same!("rounds, damage", [1, 2, 3, 4].map(|index| cell(index).load(SeqCst)), [ROUNDS, ROUNDS, ROUNDS, 0]);
    Ok(())
}

/// Resumes an alien thread and waits for any sender, which takes the fast path if nothing special
/// is to be done.
pub fn answer(alien: &Alien, message: Message) -> Result<Received, Failure> {
    send_and_wait(alien.id, message, Timeout::Zero, Timeout::Never)
}

/// Alien threads, some of which use the FPU, are answered in turn.
fn answer_alien(handlers: u64) -> Outcome {
    let users = [with_xmm0(0x1111)?, with_xmm0(0x2222)?];
    let other = Alien::new(code_syscall, |_| ())?;
    other.start()?;
    for _ in 0..ROUNDS {
        same!("a call", answer(&other, Message::label(0))?.tag.kind(), KIND_SYSCALL);
        for (alien, value) in users.iter().zip([0x1111, 0x2222]).rev() {
            same!("xmm0", answer(alien, Message::label(0))?.words[0], value);
        }
    }
    same!("the handler's", xmm7(), handlers);
    other.edit(|frame| frame.ip = address(code_fpu_read));
    let mut got = answer(&other, Message::label(0))?;
    while got.tag.kind() == KIND_PAGE_FAULT {
        got = other.serve(got)?;
    }
    same!("the initial xmm0", got.words[0], 0);
    Ok(())
}

fn alien_answers() -> Outcome {
    answer_alien(0)
}

fn alien_answers_with() -> Outcome {
    set_xmm7(0x9999);
    answer_alien(0x9999)
}

fn other_registers() -> Outcome {
    let (alien, another) = (with_xmm0(0x3333)?, with_xmm0(0x4444)?);
    another.resume()?;
    alien.resume()?;
    for round in 0..ROUNDS {
        same!("another's xmm0", answer(&another, Message::label(0))?.words[0], 0x4444);
        let mut wanted = alien.regs();
        (wanted.bx, wanted.bp, wanted.dx, wanted.si, wanted.di) = (round, 2, 3, 4, 5);
        (wanted.r8, wanted.r9, wanted.r10, wanted.r12, wanted.r13) = (6, 7, 8, 9, 10);
        (wanted.r14, wanted.r15) = (11, 12);
        wanted.ip = address(code_fpu_read);
        alien.edit(|frame| *frame = wanted);
        same!("xmm0", answer(&alien, Message::label(0))?.words[0], 0x3333);
        let got = alien.regs();
        wanted.ax = got.ax;
        (wanted.ip, wanted.cx, wanted.r11, wanted.orig_ax) = (got.ip, got.cx, got.r11, got.orig_ax);
        holds!("all others are as set", got == wanted);
    }
    Ok(())
}

fn answer_faults() -> Outcome {
    let values = [0x5555, 0x6666];
    let mut users = [with_xmm0(0)?; 2];
    for (number, value) in values.into_iter().enumerate() {
        users[number] = Alien::new(code_fpu_load, |frame| (frame.di, frame.si) = (value, WINDOW))?;
        users[number].start()?;
    }
    let item = MapItem { send_base: WINDOW, fpage: Fpage::memory(page(), 12, FPAGE_RWX).0 };
    for page in 0..ROUNDS {
        for alien in &users {
            alien.edit(|frame| frame.si = WINDOW + page * PAGE_SIZE);
            same!("a fault", answer(alien, Message::label(0))?.tag.kind(), KIND_PAGE_FAULT);
        }
        let item = MapItem { send_base: WINDOW + page * PAGE_SIZE, ..item };
        for (alien, value) in users.iter().zip(values) {
            let mut got = answer(alien, Message::label(0).with_maps(&[item]))?;
            while got.tag.kind() == KIND_PAGE_FAULT {
                got = alien.serve(got)?;
            }
            same!("xmm0", got.words[0], value);
        }
    }
    Ok(())
}

fn fault_answers() -> Outcome {
    answer_faults()?;
    same!("the pager's", xmm7(), 0);
    Ok(())
}

fn fault_answers_with() -> Outcome {
    set_xmm7(0x8888);
    answer_faults()?;
    same!("the pager's", xmm7(), 0x8888);
    Ok(())
}

/// Reads pages of the window, and checks xmm7 after each; damage in cell 1.
extern "C" fn reader(value: u64) -> ! {
    set_xmm7(value);
    for page in 0..ROUNDS {
        crate::pool::peek(WINDOW + page * PAGE_SIZE);
        cell(1).fetch_add((xmm7() != value) as u64, SeqCst);
    }
    let _ = call(Id(cell(0).load(SeqCst)), Message::label(0));
    park()
}

fn native_faults() -> Outcome {
    cell(0).store(utcb::my_id().0, SeqCst);
    let id = Spawn::watched(reader, 0x1234).start()?;
    let memory = Fpage::memory(page(), 12, FPAGE_RWX).0;
    set_xmm7(0x4321);
    let mut got = wait(Timeout::Never)?;
    while got.tag.kind() == KIND_PAGE_FAULT {
        same!("the pager's", xmm7(), 0x4321);
        let item = MapItem { send_base: got.words[0] & !(PAGE_SIZE - 1), fpage: memory };
        got = send_and_wait(id, Message::label(0).with_maps(&[item]), Timeout::Zero, Timeout::Never)?;
    }
    same!("damage", cell(1).load(SeqCst), 0);
    Ok(())
}

fn read_to_two_pages() -> Outcome {
    /// Not even the first register is in the first page.
    const HEAD: u64 = 128;
    let alien = with_xmm0(0x5151)?;
    let at = pages(2) + PAGE_SIZE - HEAD;
    let around = [at - 8, at + kip().fpu_size];
    around.iter().for_each(|place| set_word(*place, 0x7e7e));
    get(alien.id, at)?;
    same!("xmm0", word(at + XMM0), 0x5151);
    same!("words around it", around.map(word), [0x7e7e; 2]);
    set_word(at + XMM0, 0x5252);
    set(alien.id, at)?;
    same!("xmm0 in the thread", alien.resume()?.words[0], 0x5252);
    Ok(())
}

fn buffer_content() -> Outcome {
    let alien = with_xmm0(0x6161)?;
    let at = buffer();
    (0..kip().fpu_size / 8).for_each(|index| set_word(at + index * 8, u64::MAX));
    get(alien.id, at)?;
    same!("xmm0", word(at + XMM0), 0x6161);
    same!("the header's other words", [1, 2, 3, 4, 5, 6, 7].map(|index| word(at + COMPONENTS + index * 8)), [0; 7]);
    set(alien.id, at)?;
    same!("xmm0 in the thread", alien.resume()?.words[0], 0x6161);
    Ok(())
}

fn is_initial(at: u64) -> Outcome {
    let (control, mxcsr) = (word(at + CONTROL_WORD) & 0xffff, word(at + MXCSR) & 0xffff_ffff);
    same!("control word, mxcsr", (control, mxcsr), INITIAL);
    same!("xmm0", word(at + XMM0), 0);
    Ok(())
}

fn reset() -> Outcome {
    let alien = with_xmm0(0x7171)?;
    let at = buffer();
    transfer(alien.id, EX_FPU_GET | EX_FPU_RESET, at, kip().fpu_size)?;
    same!("xmm0 before", word(at + XMM0), 0x7171);
    get(alien.id, at)?;
    is_initial(at)?;
    same!("xmm0 in the thread", alien.resume()?.words[0], 0);
    set_word(at + XMM0, 0x7272);
    set_word(at + MXCSR, word(at + MXCSR) & !0xffff_ffff | ROUND_DOWN);
    set_word(at + COMPONENTS, BOTH);
    transfer(alien.id, EX_FPU_SET | EX_FPU_RESET, at, kip().fpu_size)?;
    same!("xmm0, set before", alien.resume()?.words[0], 0);
    get(alien.id, at)?;
    is_initial(at)
}

/// A thread that got the processor by thread_switch has it until it enters the kernel.
fn reset_ends_a_donation() -> Outcome {
    extern "C" fn resets(alien: u64) -> ! {
        for turn in 1..=2 {
            cell(1).store(turn, SeqCst);
            if thread::act(Id(alien), EX_FPU_RESET).is_err() {
                park();
            }
            cell(2).store(turn, SeqCst);
        }
        park()
    }
    let alien = with_xmm0(0x7373)?;
    alien.resume()?;
    let taker = Spawn::new(resets, alien.id.0).create()?;
    set_priority(taker, base_priority() - 1)?;
    thread::act(taker, EX_START)?;
    while cell(1).load(SeqCst) < 2 {
        thread::switch(taker)?;
    }
    same!("resets that it returned from", cell(2).load(SeqCst), 1);
    Ok(())
}

fn reset_unused() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    alien.act(EX_FPU_RESET)?;
    let at = buffer();
    get(alien.id, at)?;
    is_initial(at)
}

/// Memory of components in their initial state is not what the thread has.
fn initial_components() -> Outcome {
    let alien = with_xmm0(0x8181)?;
    let at = buffer();
    get(alien.id, at)?;
    set_word(at + COMPONENTS, 0);
    set_word(at + MXCSR, word(at + MXCSR) & !0xffff_ffff | ROUND_DOWN);
    set(alien.id, at)?;
    // Without XSAVE the legacy state is used, whatever the header says.
    let kept = if has_xsave() { 0 } else { 0x8181 };
    for when in ["before it runs", "after it ran"] {
        get(alien.id, at)?;
        same!(when, (word(at + MXCSR) & 0xffff_ffff, word(at + XMM0)), (ROUND_DOWN, kept));
        same!("xmm0 in the thread", alien.resume()?.words[0], kept);
    }
    Ok(())
}

fn own() -> Outcome {
    let (me, at) = (utcb::my_id(), buffer());
    set_xmm7(0x9191);
    get(me, at)?;
    same!("read", (word(at + XMM7), xmm7()), (0x9191, 0x9191));
    set_word(at + XMM7, 0x9292);
    set(me, at)?;
    same!("set", xmm7(), 0x9292);
    let two_pages = pages(2) + PAGE_SIZE - 64;
    get(me, two_pages)?;
    same!("read to two pages", (word(two_pages + XMM7), xmm7()), (0x9292, 0x9292));
    thread::act(me, EX_FPU_RESET)?;
    same!("reset", xmm7(), 0);
    Ok(())
}

/// A chief that reads a state gets it only in memory.
fn stays_hidden() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    let at = buffer();
    get(alien.id, at)?;
    set_word(at + XMM7, 0xa1a1);
    set_word(at + COMPONENTS, BOTH);
    set(alien.id, at)?;
    alien.edit(|frame| frame.ip = address(code_fpu_read));
    alien.resume()?;
    get(alien.id, at)?;
    same!("its xmm7", word(at + XMM7), 0xa1a1);
    get(alien.id, pages(2) + PAGE_SIZE - 64)?;
    same!("the chief's xmm7", xmm7(), 0);
    Ok(())
}
