// SPDX-License-Identifier: BSD-2-Clause
//! System calls of alien threads that run 32-bit code and have thread-local descriptors, as the
//! i386 programs of Linux do: `int 0x80` to the handler, and its reply with open wait. They are
//! large, in a window, or have 4 GB of their own.
//!
//! A thread runs `small_monitor`, whose call is an alien thread's here: its handler writes the next
//! operation and its arguments into the frame, and finds the results there.

use crate::alien::{code_int80, create, fresh_frame, Alien, CODE_32, CODE_64};
use crate::case::{Case, Fault, Outcome};
use crate::pool::{cell, frame, frame_index, page, peek, poke, set_frame, PAGE};
use crate::small::*;
use crate::small_code::*;
use crate::threads::{base_priority, helper, park, remove, remove_task, Spawn};
use crate::topics::fpu::{set_xmm7, xmm7};
use crate::topics::small::watch;
use crate::topics::small_attacks::{descriptor, ALL_FROM};
use crate::{refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{FPAGE_EXEC, FPAGE_RWX};
use keel_l4::abi::memory::*;
use keel_l4::abi::{ExRegs, Frame};
use keel_l4::ipc::{receive, send, send_and_wait, sleep, wait, Message, Received, Timeout};
use keel_l4::kip::kip;
use keel_l4::thread::{self, set_processor, set_reach};
use keel_l4::{mapping, sigma0, utcb, Fpage, Id};

pub const CASES: &[Case] = &[
    ("selectors-and-bases-are-kept", || each(selectors_kept)),
    ("bases-in-the-frame", || each(bases_in_frame)),
    ("the-handler-is-interrupted", || each(handler_interrupted)),
    ("the-handler-has-selectors", || each(handler_has_selectors)),
    ("open-and-closed-waits-in-turn", || each(waits_in_turn)),
    ("another-descriptor-during-a-call", || each(other_descriptor)),
    ("no-descriptor-any-more", || each(no_descriptor)),
    ("selectors-that-the-handler-writes", || each(selectors_written)),
    ("bases-that-the-handler-writes", bases_written),
    ("bases-that-no-window-has", bases_of_window),
    ("code-selectors-that-the-handler-writes", || each(code_written)),
    ("ip-beyond-the-window", || each(ip_beyond)),
    ("ip-above-4-gb", || each(ip_above)),
    ("flags-that-the-handler-writes", || each(flags_written)),
    ("one-step-after-a-call", || each(one_step)),
    ("a-breakpoint-set-before-a-call", || each(breakpoint_before)),
    ("a-breakpoint-set-during-a-call", || each(breakpoint_during)),
    ("a-breakpoint-is-not-the-handler's", || each(breakpoint_of_thread)),
    ("fpu-state-kept", || each(fpu_kept)),
    ("fpu-state-borrowed", || each(fpu_borrowed)),
    ("handler-with-an-fpu-state", || each(fpu_of_both)),
    ("served-in-turn", in_turn),
    ("reach-changed-during-a-call", reach_changed),
    ("promoted-and-back-between-calls", promoted),
    ("a-window-of-another-task's", window_of_another),
    ("thread-deleted-during-a-call", || each(deleted)),
    ("task-deleted-during-a-call", || each(task_deleted)),
    ("moved-during-a-call", || each(moved)),
    ("ports-of-the-host", || each(ports)),
    ("int-0x80-of-64-bit-code", from_64_bits),
    ("a-higher-priority-wakes", || each(preempted)),
];

/// Where the first and the second thread-local segment begin, and the words there.
const BASES: [u64; 2] = [BLOCKS + 0x800, BLOCKS + 0x900];
const VALUES: [u32; 2] = [0x0f1_2570, 0x5ec_0d0d];
/// The selectors of the thread-local segments.
const SELECTORS: [u64; 2] = [TLS_SELECTOR, TLS_SELECTOR + 8];
/// The selector of the segment with the processor's number.
const NUMBER_SELECTOR: u64 = 0x7b;
/// Selectors as the monitor has them: ds and es.
const PLAIN: u64 = DATA_SELECTOR | DATA_SELECTOR << 16;
/// Round trips that suffice for caches of partners and slices of time.
const ROUNDS: u64 = 200;
const DEBUG: u64 = 1;
const GP: u64 = 13;
/// Flags.
const CARRY: u64 = 1;
const OVERFLOW: u64 = 1 << 11;
const TF: u64 = 1 << 8;
const IF: u64 = 1 << 9;
const IOPL: u64 = 3 << 12;
const NT: u64 = 1 << 14;
const RF: u64 = 1 << 16;
/// Bytes of `int 0x80`.
const INT80_BYTES: u64 = 2;

/// A 32-bit alien thread.
#[derive(Clone, Copy)]
struct Caller {
    /// Its task, of which this is the only thread.
    small: Small,
    /// Its frame.
    frame: u64,
    /// Its stack pointer at its calls.
    stack: u64,
}

/// Runs a case with a thread that is large, one in a window, and one with 4 GB of its own.
fn each(case: fn(&Caller) -> Outcome) -> Outcome {
    for reach in [SMALL_NONE, USUAL, SMALL_ALL] {
        let caller = Caller::new(reach)?;
        case(&caller).map_err(|fault| Fault::new(format_args!("reach {reach:#x}: {}", fault.text())))?;
        // The case may have deleted it.
        let _ = remove_task(caller.small.number);
    }
    check()
}

/// The handler's selectors: of this thread.
fn own_selectors() -> [u32; 4] {
    let (ds, es, fs, gs): (u32, u32, u32, u32);
    // SAFETY: reading selectors has no effect.
    unsafe {
        core::arch::asm!("mov {:e}, ds", "mov {:e}, es", "mov {:e}, fs", "mov {:e}, gs",
            out(reg) ds, out(reg) es, out(reg) fs, out(reg) gs, options(nomem, nostack, preserves_flags));
    }
    [ds, es, fs, gs]
}

/// Loads ds and es, which 64-bit code does not use.
fn set_own_selectors(selector: u64) {
    // SAFETY: a selector of user data, or null.
    unsafe {
        core::arch::asm!("mov ds, {0:e}", "mov es, {0:e}", in(reg) selector, options(nomem, nostack, preserves_flags));
    }
}

/// Fails unless the handler has null selectors and no thread-local descriptor, and all segments of
/// its own.
fn handler_is_clean() -> Outcome {
    same!("the handler's selectors", own_selectors(), [0; 4]);
    for selector in [TLS_SELECTOR, TLS_SELECTOR + 8, TLS_SELECTOR + 16] {
        same!("a limit of a thread-local segment in the handler", has_limit(selector), false);
    }
    for selector in [CODE_32, CODE_64, DATA_SELECTOR] {
        same!("a limit of the handler's segments", has_limit(selector), true);
    }
    Ok(())
}

fn has_limit(selector: u64) -> bool {
    let found: u8;
    // SAFETY: LSL changes a register and the flags.
    unsafe {
        core::arch::asm!("lsl {limit:e}, {selector:e}", "setz {found}", selector = in(reg) selector, limit = out(reg) _,
            found = out(reg_byte) found, options(nomem, nostack));
    }
    found != 0
}

impl Caller {
    /// It is at its first call.
    fn new(reach: u64) -> Result<Caller, Fault> {
        Caller::hosted(reach, Id::NIL)
    }

    /// [`Caller::new`] in a window of another task's tables.
    fn hosted(reach: u64, host: Id) -> Result<Caller, Fault> {
        let mut small = Small::empty(reach)?;
        small.host = host;
        small.block = small.give_new(BLOCKS, 0);
        for (base, value) in BASES.into_iter().zip(VALUES) {
            set_word(small.block + base - BLOCKS, value);
        }
        let index = frame_index();
        let mut start = fresh_frame(small_monitor);
        (start.ip, start.sp, start.cs) = (operation(small_monitor), BLOCKS + PAGE - 16, CODE_32);
        set_frame(index, &start);
        small.thread = create(small.task, index, 0)?;
        set_reach(small.thread, reach, host)?;
        let mut caller = Caller { small, frame: index, stack: 0 };
        caller.set_bases([BASES[0], BASES[1]])?;
        thread::act(small.thread, EX_START)?;
        let got = caller.serve(receive(small.thread, Timeout::Never)?)?;
        caller.stack = caller.regs().sp;
        caller.expect_call(&got)?;
        Ok(caller)
    }

    /// Gives it two thread-local segments of 4 GB from there, as the C library's.
    fn set_bases(&self, bases: [u64; 2]) -> Outcome {
        Ok(self.small.set_tls([descriptor(ALL_FROM, bases[0]), descriptor(ALL_FROM, bases[1]), 0])?)
    }

    fn regs(&self) -> Frame {
        frame(self.frame)
    }

    fn edit(&self, change: impl FnOnce(&mut Frame)) {
        let mut frame = self.regs();
        change(&mut frame);
        set_frame(self.frame, &frame);
    }

    /// Answers its page faults until another message comes.
    fn serve(&self, mut got: Received) -> Result<Received, Fault> {
        handler_is_clean()?;
        while got.tag.kind() == KIND_PAGE_FAULT && self.small.answers(&got)? {
            got = wait(Timeout::After(PATIENCE))?;
            handler_is_clean()?;
        }
        Ok(got)
    }

    /// Replies, and returns the next message of any thread that is no page fault of this one's.
    fn go(&self) -> Result<Received, Fault> {
        let got = send_and_wait(self.small.thread, Message::label(0), Timeout::Zero, Timeout::Never)?;
        self.serve(got)
    }

    /// Fails unless a message is a call of this thread's.
    fn expect_call(&self, got: &Received) -> Outcome {
        let what = (got.tag.kind(), got.tag.label() as u64, got.from, got.words[2]);
        same!("kind, gate, thread, frame", what, (KIND_SYSCALL, GATE_INT80, self.small.thread, self.frame));
        same!("ip in the message", got.words[1], self.regs().ip);
        same!("its stack pointer", self.regs().sp, self.stack);
        Ok(())
    }

    fn set_operation(&self, code: unsafe extern "C" fn(), first: u64, second: u64) {
        self.edit(|f| (f.dx, f.cx, f.bp) = (operation(code), first, second));
    }

    /// Has it do something, and returns the next message.
    fn try_it(&self, code: unsafe extern "C" fn(), first: u64, second: u64) -> Result<Received, Fault> {
        self.set_operation(code, first, second);
        self.go()
    }

    /// Has it do something and call again; its two results.
    fn ask(&self, code: unsafe extern "C" fn(), first: u64, second: u64) -> Result<[u64; 2], Fault> {
        let got = self.try_it(code, first, second)?;
        self.results(&got)
    }

    fn results(&self, got: &Received) -> Result<[u64; 2], Fault> {
        self.expect_call(got)?;
        Ok([self.regs().dx, self.regs().cx])
    }

    /// The word that it reads by gs, of which it loads the selector or not.
    fn by_gs(&self, selector: Option<u64>) -> Result<u64, Fault> {
        let got = match selector {
            Some(selector) => self.ask(small_load_gs, 0, selector),
            None => self.ask(small_load_by_gs, 0, 0),
        };
        got.map(|words| words[0])
    }

    /// The code and the vector of the next message, which is an exception.
    fn exception(&self, got: &Received) -> Result<u64, Fault> {
        same!("kind, thread", (got.tag.kind(), got.from), (KIND_EXCEPTION, self.small.thread));
        Ok(got.tag.label() as u64)
    }

    fn is_window(&self) -> bool {
        self.small.reach == USUAL
    }
}

/// Four selectors as `small_call_with` takes them.
fn arguments(selectors: [u64; 4]) -> [u64; 2] {
    [selectors[0] | selectors[1] << 16, selectors[2] | selectors[3] << 16]
}

/// The base that a selector has.
fn base_of(selector: u64) -> u64 {
    SELECTORS.into_iter().zip(BASES).find(|(one, _)| *one == selector).map_or(0, |(_, base)| base)
}

fn selectors_kept(caller: &Caller) -> Outcome {
    let [first, second] = SELECTORS;
    let sets = [
        [DATA_SELECTOR, DATA_SELECTOR, 0, first],
        [DATA_SELECTOR, DATA_SELECTOR, 0, 0],
        [DATA_SELECTOR, first, second, DATA_SELECTOR],
        [second, 0, first, second],
        [0, second, DATA_SELECTOR, first],
        [DATA_SELECTOR, CODE_32, 0, first],
        [DATA_SELECTOR, NUMBER_SELECTOR, 0, first],
        [0; 4],
    ];
    for set in sets {
        let [low, high] = arguments(set);
        for _ in 0..3 {
            caller.expect_call(&caller.try_it(small_call_with, low, high)?)?;
            let f = caller.regs();
            same!("selectors in the frame", f.segments, low | high << 32);
            same!("bases in the frame", (f.fs_base, f.gs_base), (base_of(set[2]), base_of(set[3])));
            same!("after the call", caller.results(&caller.go()?)?, [low, high]);
        }
    }
    Ok(())
}

fn bases_in_frame(caller: &Caller) -> Outcome {
    for (selector, value) in SELECTORS.into_iter().zip(VALUES) {
        same!("by gs", caller.by_gs(Some(selector))?, value as u64);
        for _ in 0..ROUNDS {
            same!("the base", caller.regs().gs_base, base_of(selector));
            same!("by gs again", caller.by_gs(None)?, value as u64);
        }
        same!("by fs", caller.ask(small_load_fs, 0, selector)?[0], value as u64);
        same!("by fs again", caller.ask(small_load_by_fs, 0, 0)?[0], value as u64);
        same!("both bases", (caller.regs().fs_base, caller.regs().gs_base), (base_of(selector), base_of(selector)));
    }
    same!("the reach", caller.small.reach_now()?, caller.small.reach);
    Ok(())
}

fn handler_interrupted(caller: &Caller) -> Outcome {
    let own = page();
    for round in 0..20 {
        same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
        // A page fault, and an interrupt while nobody runs.
        mapping::unmap(Fpage::memory(own, 12, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
        same!("the handler's page", peek(own), 0);
        handler_is_clean()?;
        sleep(100_000);
        handler_is_clean()?;
        let _ = utcb::my_id();
        same!("by gs afterwards", caller.by_gs(None)?, VALUES[0] as u64);
        same!("its registers", caller.ask(small_registers, 100, round)?, [round, 100]);
    }
    Ok(())
}

fn handler_has_selectors(caller: &Caller) -> Outcome {
    caller.by_gs(Some(TLS_SELECTOR))?;
    set_own_selectors(DATA_SELECTOR);
    for round in 0..20 {
        caller.set_operation(small_load_by_gs, 0, 0);
        let got = send_and_wait(caller.small.thread, Message::label(0), Timeout::Zero, Timeout::Never)?;
        let data = DATA_SELECTOR as u32;
        same!("the handler's", (round, own_selectors()), (round, [data, data, 0, 0]));
        same!("by gs", caller.results(&got)?[0], VALUES[0] as u64);
        same!("the thread's", caller.regs().segments, PLAIN | TLS_SELECTOR << 48);
    }
    set_own_selectors(0);
    same!("by gs afterwards", caller.by_gs(None)?, VALUES[0] as u64);
    Ok(())
}

fn waits_in_turn(caller: &Caller) -> Outcome {
    caller.by_gs(Some(TLS_SELECTOR))?;
    for round in 0..ROUNDS {
        if round % 3 == 0 {
            same!("by gs, open", caller.by_gs(None)?, VALUES[0] as u64);
        } else {
            caller.set_operation(small_load_by_gs, 0, 0);
            let got = keel_l4::ipc::call(caller.small.thread, Message::label(0))?;
            handler_is_clean()?;
            same!("by gs, closed", caller.results(&got)?[0], VALUES[0] as u64);
        }
        same!("selectors", caller.regs().segments, PLAIN | TLS_SELECTOR << 48);
        same!("base", (caller.regs().fs_base, caller.regs().gs_base), (0, BASES[0]));
    }
    Ok(())
}

fn other_descriptor(caller: &Caller) -> Outcome {
    for round in 0..4 {
        let (now, value) = (round % 2, VALUES[round % 2] as u64);
        caller.by_gs(Some(TLS_SELECTOR))?;
        caller.set_bases([BASES[now], BASES[1 - now]])?;
        // A large thread's base is the frame's until it loads the selector.
        let expected = if caller.small.reach == SMALL_NONE { VALUES[1 - now] as u64 } else { value };
        if round > 0 {
            same!("before the selector is loaded", caller.by_gs(None)?, expected);
        }
        same!("the new base", caller.by_gs(Some(TLS_SELECTOR))?, value);
        same!("again", caller.by_gs(None)?, value);
        same!("in the frame", caller.regs().gs_base, BASES[now]);
        same!("the second segment", caller.by_gs(Some(SELECTORS[1]))?, VALUES[1 - now] as u64);
    }
    Ok(())
}

fn no_descriptor(caller: &Caller) -> Outcome {
    let [low, high] = arguments([DATA_SELECTOR, TLS_SELECTOR, TLS_SELECTOR, TLS_SELECTOR]);
    caller.expect_call(&caller.try_it(small_call_with, low, high)?)?;
    caller.small.set_tls([0; 3])?;
    same!("no selectors of it", caller.results(&caller.go()?)?, [DATA_SELECTOR, 0]);
    same!("nor a limit", caller.ask(small_lsl, TLS_SELECTOR, 0)?, [0, 0]);
    // The other one alone is there again.
    caller.small.set_tls([0, descriptor(ALL_FROM, BASES[0]), 0])?;
    same!("still none", caller.ask(small_lsl, TLS_SELECTOR, 0)?[1], 0);
    same!("by the other", caller.by_gs(Some(SELECTORS[1]))?, VALUES[0] as u64);
    same!("and again", caller.by_gs(None)?, VALUES[0] as u64);
    Ok(())
}

fn selectors_written(caller: &Caller) -> Outcome {
    let long = if caller.small.reach == SMALL_NONE { CODE_64 } else { 0 };
    let known = [DATA_SELECTOR, SELECTORS[0], SELECTORS[1], CODE_32, NUMBER_SELECTOR, long, 0];
    let [low, high] = arguments([DATA_SELECTOR, DATA_SELECTOR, 0, TLS_SELECTOR]);
    for selector in [DATA_SELECTOR, SELECTORS[0], SELECTORS[1], 0x73, 0x33, 0x23, 0x18, 0x10, 0x40, 0x7b, 0xffff, 0] {
        for place in [0, 16, 32, 48] {
            caller.expect_call(&caller.try_it(small_call_with, low, high)?)?;
            let written = (low | high << 32) & !(0xffff << place);
            caller.edit(|f| f.segments = written | selector << place);
            let all = written | if known.contains(&selector) { selector << place } else { 0 };
            same!(selector, caller.results(&caller.go()?)?, [all & 0xffff_ffff, all >> 32]);
        }
    }
    Ok(())
}

/// Of a large thread.
fn bases_written() -> Outcome {
    let caller = Caller::new(SMALL_NONE)?;
    let [low, high] = arguments([DATA_SELECTOR, DATA_SELECTOR, DATA_SELECTOR, TLS_SELECTOR]);
    caller.expect_call(&caller.try_it(small_call_with, low, high)?)?;
    caller.results(&caller.go()?)?;
    for _ in 0..3 {
        for (fs, gs) in [(0, 1), (1, 0), (1, 1), (0, 0)] {
            caller.edit(|f| (f.fs_base, f.gs_base) = (BASES[fs], BASES[gs]));
            same!("by gs", caller.by_gs(None)?, VALUES[gs] as u64);
            same!("by fs", caller.ask(small_load_by_fs, 0, 0)?[0], VALUES[fs] as u64);
            same!("in the frame", (caller.regs().fs_base, caller.regs().gs_base), (BASES[fs], BASES[gs]));
        }
    }
    let bases = [(1 << 47, 0), (1 << 63, 0), (0xffff_7fff_ffff_ffff, 0), (u64::MAX, u64::MAX), (1 << 46, 1 << 46)];
    for (base, expected) in bases {
        caller.edit(|f| (f.fs_base, f.gs_base) = (base, base));
        caller.ask(small_nothing, 0, 0)?;
        same!(base, (caller.regs().fs_base, caller.regs().gs_base), (expected, expected));
    }
    Ok(())
}

/// Of threads that have what their descriptors say.
fn bases_of_window() -> Outcome {
    for reach in [USUAL, SMALL_ALL] {
        let caller = Caller::new(reach)?;
        same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
        for base in [BASES[1], 0, WINDOW, 1 << 40, 1 << 47, 1 << 63, u64::MAX] {
            caller.edit(|f| (f.fs_base, f.gs_base) = (base, base));
            same!("by gs again", caller.by_gs(None)?, VALUES[0] as u64);
            same!(base, (caller.regs().fs_base, caller.regs().gs_base), (0, BASES[0]));
        }
    }
    check()
}

fn code_written(caller: &Caller) -> Outcome {
    for cs in [CODE_64, 0x10, 0, CODE_32 | 4, u64::MAX, CODE_32 << 32, CODE_32] {
        // Where the bytes of `int 0x80` are, which all code has.
        caller.edit(|f| (f.cs, f.ip) = (cs, f.ip - INT80_BYTES));
        caller.expect_call(&caller.go()?)?;
        let large = caller.small.reach == SMALL_NONE;
        let expected = if large && cs != CODE_32 { CODE_64 } else { CODE_32 };
        same!(cs, caller.regs().cs, expected);
    }
    same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
    Ok(())
}

fn ip_beyond(caller: &Caller) -> Outcome {
    let reach = caller.small.reach;
    for ip in [SIZE, SIZE + 7, 0xffff_fff0] {
        let back = caller.regs().ip;
        caller.edit(|f| f.ip = ip);
        let got = caller.go()?;
        let what = (got.tag.kind(), got.tag.label() as u64, got.words[0], got.words[1]);
        same!("kind, access, address, ip", what, (KIND_PAGE_FAULT, FPAGE_EXEC, ip, ip));
        let expected = if caller.is_window() { SMALL_NONE | SMALL_PROMOTED } else { reach };
        same!("the reach", caller.small.reach_now()?, expected);
        caller.edit(|f| f.ip = back);
        set_reach(caller.small.thread, reach, Id::NIL)?;
        same!("back", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
    }
    Ok(())
}

fn ip_above(caller: &Caller) -> Outcome {
    same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
    for bit in [32, 40, 46, 47, 63] {
        caller.edit(|f| f.ip |= 1 << bit);
        same!(bit, caller.by_gs(None)?, VALUES[0] as u64);
    }
    Ok(())
}

fn flags_written(caller: &Caller) -> Outcome {
    const CHOSEN: u64 = NT | CARRY | OVERFLOW;
    for (written, expected) in [(0, IF), (!TF & !RF, IF | CHOSEN), (IF | NT, IF | NT), (IOPL, IF), (CARRY, IF | CARRY)]
    {
        caller.edit(|f| (f.ip, f.flags) = (f.ip - INT80_BYTES, written));
        caller.expect_call(&caller.go()?)?;
        same!(written, caller.regs().flags & (CHOSEN | IF | IOPL | TF), expected);
    }
    // The processor clears it after an instruction.
    caller.edit(|f| f.flags |= RF);
    caller.ask(small_nothing, 0, 0)?;
    same!("RF", caller.regs().flags & RF, 0);
    Ok(())
}

fn one_step(caller: &Caller) -> Outcome {
    for _ in 0..3 {
        let ip = caller.regs().ip;
        caller.set_operation(small_nothing, 0, 0);
        caller.edit(|f| f.flags |= TF);
        let got = caller.go()?;
        same!("vector", caller.exception(&got)?, DEBUG);
        // One instruction of two bytes.
        same!("ip", caller.regs().ip, ip + 2);
        caller.edit(|f| f.flags &= !TF);
        caller.results(&caller.go()?)?;
    }
    Ok(())
}

/// Writes to a watched address, and calls before and afterwards.
fn is_watched(caller: &Caller, at: u64) -> Outcome {
    for _ in 0..3 {
        caller.ask(small_store, at + 8, 1)?;
        same!("vector", caller.exception(&caller.try_it(small_store, at, 2)?)?, DEBUG);
        caller.results(&caller.go()?)?;
        same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
    }
    // No more.
    let mut record = ExRegs::zeroed();
    thread::exchange(caller.small.thread, EX_DEBUG_SET, &mut record)?;
    caller.ask(small_store, at, 3)?;
    same!("by gs", caller.by_gs(None)?, VALUES[0] as u64);
    Ok(())
}

fn breakpoint_before(caller: &Caller) -> Outcome {
    let at = BLOCKS + BLOCK_BYTES;
    watch(caller.small.thread, at)?;
    caller.ask(small_nothing, 0, 0)?;
    is_watched(caller, at)
}

fn breakpoint_during(caller: &Caller) -> Outcome {
    let at = BLOCKS + BLOCK_BYTES;
    caller.ask(small_store, at, 0)?;
    watch(caller.small.thread, at)?;
    is_watched(caller, at)
}

fn breakpoint_of_thread(caller: &Caller) -> Outcome {
    let own = page();
    for round in 0..3 {
        // Where the handler writes: an exception of the worker's fails the case.
        watch(caller.small.thread, own)?;
        // SAFETY: the page is the case's.
        unsafe { poke(own, round) };
        caller.ask(small_nothing, 0, 0)?;
        // SAFETY: as above.
        unsafe { poke(own, round) };
        caller.ask(small_nothing, 0, 0)?;
    }
    Ok(())
}

fn fpu_kept(caller: &Caller) -> Outcome {
    let other = Caller::new(SMALL_NONE)?;
    caller.ask(small_set_xmm3, 0x1111, 0)?;
    other.ask(small_set_xmm3, 0x2222, 0)?;
    for _ in 0..ROUNDS {
        same!("its own", caller.ask(small_xmm3, 0, 0)?[0], 0x1111);
        same!("the other's", other.ask(small_xmm3, 0, 0)?[0], 0x2222);
    }
    remove_task(other.small.number)?;
    Ok(())
}

fn set_xmm3(value: u64) {
    // SAFETY: code that is compiled without SSE does not use xmm3.
    unsafe { core::arch::asm!("movq xmm3, {}", in(reg) value, options(nomem, nostack)) };
}

fn fpu_borrowed(caller: &Caller) -> Outcome {
    thread::act(utcb::my_id(), EX_FPU_BORROW)?;
    caller.ask(small_set_xmm3, 0x1111, 0)?;
    for round in 0..ROUNDS {
        set_xmm3(round);
        same!("what the handler wrote", caller.ask(small_xmm3, 0, 0)?[0], round);
        same!("and not twice", caller.ask(small_xmm3, 0, 0)?[0], round);
    }
    Ok(())
}

fn fpu_of_both(caller: &Caller) -> Outcome {
    set_xmm7(7);
    caller.ask(small_set_xmm3, 0x1111, 0)?;
    for round in 0..ROUNDS {
        set_xmm3(round);
        same!("the thread's", caller.ask(small_xmm3, 0, 0)?[0], 0x1111);
        same!("the handler's", xmm7(), 7);
        same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
    }
    Ok(())
}

/// Serves them so that each reply resumes another one than the last call's.
fn in_turn() -> Outcome {
    let reaches = [SMALL_NONE, USUAL, SMALL_NONE, WINDOW + SIZE | LOG2, SMALL_ALL];
    let mut all = [const { None }; 5];
    for (number, reach) in reaches.into_iter().enumerate() {
        let caller = Caller::new(reach)?;
        // Each has a value of its own, at a base of its own.
        let base = BASES[0] + 16 * number as u64;
        set_word(caller.small.block + base - BLOCKS, 100 + number as u32);
        caller.set_bases([base, base])?;
        same!("at first", caller.by_gs(Some(TLS_SELECTOR))?, 100 + number as u64);
        if number > 2 {
            caller.ask(small_set_xmm3, number as u64, 0)?;
        }
        all[number] = Some(caller);
    }
    for round in 0..20 * ROUNDS as usize {
        let number = round * 3 % all.len();
        let caller = all[number].as_ref();
        let caller = caller.ok_or_else(|| Fault::new(format_args!("expected a thread {number}, got none")))?;
        same!("by gs", (number, caller.by_gs(None)?), (number, 100 + number as u64));
        same!("the base", caller.regs().gs_base, BASES[0] + 16 * number as u64);
        same!("the selectors", caller.regs().segments, PLAIN | TLS_SELECTOR << 48);
        if number > 2 && round % 7 == 0 {
            same!("xmm3", caller.ask(small_xmm3, 0, 0)?[0], number as u64);
        }
    }
    check()
}

/// What another thread does to a `Caller`, on another processor if there is one.
#[derive(Clone, Copy)]
enum Deed {
    Reach(u64),
    Delete,
    DeleteTask(u32),
    Move(u64),
}

extern "C" fn doer(_: u64) -> ! {
    let [victim, kind, word, chief] = [1, 2, 3, 4].map(|number| cell(number).load(SeqCst));
    let done = match kind {
        0 => set_reach(Id(victim), word, Id::NIL).is_ok(),
        1 => remove(Id(victim)).is_ok(),
        2 => remove_task(word as u32).is_ok(),
        _ => set_processor(Id(victim), word).is_ok(),
    };
    let _ = send(Id(chief), Message::label(done as u32), Timeout::Never);
    park()
}

/// Has it done, and waits until it is.
fn have_done(caller: &Caller, deed: Deed) -> Outcome {
    let (kind, word) = match deed {
        Deed::Reach(reach) => (0, reach),
        Deed::Delete => (1, 0),
        Deed::DeleteTask(number) => (2, number as u64),
        Deed::Move(processor) => (3, processor),
    };
    for (number, value) in [caller.small.thread.0, kind, word, utcb::my_id().0].into_iter().enumerate() {
        cell(number + 1).store(value, SeqCst);
    }
    let thread = Spawn::light(doer, 0).create()?;
    set_processor(thread, kip().processors - 1)?;
    thread::act(thread, EX_START)?;
    let got = receive(thread, Timeout::Never)?;
    remove(thread)?;
    same!("done by the other", got.tag.label(), 1);
    Ok(())
}

fn reach_changed() -> Outcome {
    let reaches = [SMALL_NONE, USUAL, SMALL_ALL, USUAL, SMALL_NONE, SMALL_ALL];
    let caller = Caller::new(SMALL_NONE)?;
    same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
    for _ in 0..5 {
        for reach in reaches {
            have_done(&caller, Deed::Reach(reach))?;
            same!("by gs again", (reach, caller.by_gs(None)?), (reach, VALUES[0] as u64));
            same!("the base", caller.regs().gs_base, BASES[0]);
            same!("its reach", caller.small.reach_now()?, reach);
            same!("by gs, loaded", (reach, caller.by_gs(Some(TLS_SELECTOR))?), (reach, VALUES[0] as u64));
        }
    }
    // Its window closes, and another task's opens there.
    have_done(&caller, Deed::Reach(USUAL))?;
    caller.by_gs(None)?;
    have_done(&caller, Deed::Reach(SMALL_NONE))?;
    let other = Caller::new(USUAL)?;
    set_word(other.small.block + BASES[0] - BLOCKS, 77);
    same!("the other", other.by_gs(Some(TLS_SELECTOR))?, 77);
    same!("the first one", caller.by_gs(None)?, VALUES[0] as u64);
    same!("the other again", other.by_gs(None)?, 77);
    check()
}

fn promoted() -> Outcome {
    let mut caller = Caller::new(USUAL)?;
    caller.small.give_new(SIZE, 0x600d);
    for _ in 0..5 {
        same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
        same!("beyond", caller.ask(small_load, SIZE, 0)?[0], 0x600d);
        same!("its reach", caller.small.reach_now()?, SMALL_NONE | SMALL_PROMOTED);
        same!("by gs again", caller.by_gs(None)?, VALUES[0] as u64);
        have_done(&caller, Deed::Reach(USUAL))?;
        same!("by gs, back", caller.by_gs(None)?, VALUES[0] as u64);
        same!("its reach", caller.small.reach_now()?, USUAL);
    }
    check()
}

/// Its handler has other tables; and the host dies during a call.
fn window_of_another() -> Outcome {
    let (host, number) = home()?;
    let (first, second) = (Caller::hosted(USUAL, host)?, Caller::hosted(WINDOW + SIZE | LOG2, host)?);
    let large = Caller::new(SMALL_NONE)?;
    set_word(second.small.block + BASES[0] - BLOCKS, 77);
    set_word(large.small.block + BASES[0] - BLOCKS, 88);
    let all = [(&first, VALUES[0] as u64), (&second, 77), (&large, 88)];
    for (caller, value) in all {
        same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, value);
    }
    for round in 0..3 * ROUNDS as usize {
        let (caller, value) = all[round % all.len()];
        same!("by gs again", caller.by_gs(None)?, value);
        same!("the base", caller.regs().gs_base, BASES[0]);
    }
    have_done(&first, Deed::DeleteTask(number))?;
    for (caller, value) in all {
        same!("by gs, without the host", caller.by_gs(None)?, value);
    }
    same!("promoted", first.small.reach_now()? & !SMALL_PROMOTED, SMALL_NONE);
    check()
}

fn deleted(caller: &Caller) -> Outcome {
    caller.by_gs(Some(TLS_SELECTOR))?;
    have_done(caller, Deed::Delete)?;
    let end = send_and_wait(caller.small.thread, Message::label(0), Timeout::Zero, Timeout::Zero);
    refused!("the reply", end, Send NoPartner);
    handler_is_clean()
}

fn task_deleted(caller: &Caller) -> Outcome {
    caller.by_gs(Some(TLS_SELECTOR))?;
    have_done(caller, Deed::DeleteTask(caller.small.number))?;
    let end = send_and_wait(caller.small.thread, Message::label(0), Timeout::Zero, Timeout::Zero);
    refused!("the reply", end, Send NoPartner);
    handler_is_clean()
}

fn moved(caller: &Caller) -> Outcome {
    for round in 0..10 {
        have_done(caller, Deed::Move((kip().processors - 1) * (round % 2)))?;
        same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
        same!("by gs again", caller.by_gs(None)?, VALUES[0] as u64);
    }
    Ok(())
}

fn ports(caller: &Caller) -> Outcome {
    // Eight ports without effect, as in topic ports.
    sigma0::map(Fpage::io(0x80, 3), Fpage::io(0, 16))?;
    let read = || {
        // SAFETY: reading this port has no effect.
        unsafe { core::arch::asm!("in al, dx", in("dx") 0x80u16, out("al") _, options(nostack, preserves_flags)) };
    };
    same!("by gs", caller.by_gs(Some(TLS_SELECTOR))?, VALUES[0] as u64);
    read();
    same!("by gs", caller.by_gs(None)?, VALUES[0] as u64);
    read();
    same!("vector", caller.exception(&caller.try_it(small_in, 0x80, 0)?)?, GP);
    read();
    Ok(())
}

fn from_64_bits() -> Outcome {
    let (fs, gs) = (page(), page());
    let alien = Alien::new(code_int80, |f| (f.ax, f.fs_base, f.gs_base) = (20, fs, gs))?;
    let mut record = ExRegs::zeroed();
    record.tls = [descriptor(ALL_FROM, BASES[0]), 0, 0];
    thread::exchange(alien.id, EX_TLS, &mut record)?;
    alien.start()?;
    for round in 0..ROUNDS {
        alien.edit(|f| (f.ax, f.r8, f.r15) = (round, round << 40, !round));
        let got = send_and_wait(alien.id, Message::label(0), Timeout::Zero, Timeout::Never)?;
        let what = (got.tag.kind(), got.tag.label() as u64, got.words[0], got.words[2]);
        same!("kind, gate, rax, frame", what, (KIND_SYSCALL, GATE_INT80, round, alien.frame));
        let f = alien.regs();
        same!("cs, selectors, bases", (f.cs, f.segments, f.fs_base, f.gs_base), (CODE_64, 0, fs, gs));
        same!("registers", (f.r8, f.r15), (round << 40, !round));
        handler_is_clean()?;
    }
    // Bases that 64-bit code may have.
    for base in [1 << 46, 0xffff_8000_0000_0000, u64::MAX] {
        alien.edit(|f| (f.fs_base, f.gs_base) = (base, base));
        send_and_wait(alien.id, Message::label(0), Timeout::Zero, Timeout::Never)?;
        same!("bases", (alien.regs().fs_base, alien.regs().gs_base), (base, base));
    }
    Ok(())
}

/// Wakes all the time, and counts in cell 8.
extern "C" fn waker(_: u64) -> ! {
    loop {
        sleep(50_000);
        cell(8).fetch_add(1, SeqCst);
    }
}

fn preempted(caller: &Caller) -> Outcome {
    const WAKES: u64 = 50;
    let waker = helper(waker, 0)?;
    thread::set_priority(waker, base_priority() + 1)?;
    cell(8).store(0, SeqCst);
    caller.by_gs(Some(TLS_SELECTOR))?;
    while cell(8).load(SeqCst) < WAKES {
        same!("by gs", caller.by_gs(None)?, VALUES[0] as u64);
        same!("its registers", caller.ask(small_registers, 300, 5)?, [5, 300]);
        same!("the base", caller.regs().gs_base, BASES[0]);
    }
    remove(waker)?;
    Ok(())
}
