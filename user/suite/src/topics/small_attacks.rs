// SPDX-License-Identifier: BSD-2-Clause
//! Attacks of a small task on what else is in the tables that it runs on: a neighbour's window on
//! each side, and the memory of the host. All of that is filled with secrets. Beyond its window the
//! small task has decoys in its own space: what it gets there, after it was promoted, is right.

use crate::case::{Case, Outcome};
use crate::pool::{self, PAGE};
use crate::small::*;
use crate::small_code::*;
use crate::threads::remove_task;
use crate::topics::small::{code_page, returns, watch, PROMOTED};
use crate::{holds, same};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::FPAGE_RWX;
use keel_l4::abi::memory::EX_START;
use keel_l4::call::Failure;
use keel_l4::ipc::Received;
use keel_l4::thread::set_reach;
use keel_l4::{sigma0, thread, Fpage, Id};

/// Attacks that segments' limits stop: only where there are any.
pub const LIMITED: &[Case] = &[
    ("load-behind", || reads(small_load, SIZE + INSIDE, 0)),
    ("load-before", || reads(small_load, BEFORE, 0)),
    ("load-of-the-host", || reads(small_load, host_offset(), 0)),
    ("load-across-the-end", load_across),
    ("load-by-the-stack-segment", || reads(small_load_ss, SIZE + INSIDE, 0)),
    ("load-by-the-code-segment", || reads(small_load_cs, SIZE + INSIDE, 0)),
    ("load-by-the-code-segment-as-data", || reads(small_load_es, SIZE + INSIDE, CODE_SELECTOR)),
    // QEMU's translator lets programs use null selectors.
    ("null-segment", || raises(small_load_fs, 0, 0, (GP, 0), PROMOTED)),
    ("load-before-by-the-data-segment-again", || reads(small_load_ds, BEFORE, DATA_SELECTOR)),
    ("load-by-a-far-pointer", || reads(small_les, SIZE + INSIDE, DATA_SELECTOR)),
    ("pop-behind", || reads(small_pop, SIZE + INSIDE, 0)),
    ("leave-behind", || reads(small_leave, SIZE + INSIDE, 0)),
    ("store-behind", || writes(small_store, SIZE + INSIDE, 1, SIZE + INSIDE)),
    ("store-before", || writes(small_store, BEFORE, 1, BEFORE)),
    ("store-to-the-host", || writes(small_store, host_offset(), 1, host_offset())),
    ("push-behind", || writes(small_push, SIZE + INSIDE, 1, SIZE + INSIDE - 4)),
    ("push-before", || writes(small_push, 0, 1, BEFORE_END - 4)),
    ("store-of-16-bytes-across-the-end", store_across),
    ("copy-across-the-end", copy_across),
    ("copy-to-across-the-end", copy_to_across),
    ("fill-across-the-end", fill_across),
    ("fill-across-all-of-the-next-window", || fills(SIZE + INSIDE, 8)),
    ("copy-downwards-before-the-beginning", copy_down),
    ("call-behind", || calls(small_call, SIZE, 0)),
    ("far-call-behind", || calls(small_far_call, SIZE, CODE_SELECTOR)),
    ("off-the-end-of-its-code", || off_the_end(0)),
    ("off-the-end-with-a-local-segment", || off_the_end(descriptor(ALL_FROM, PAGE))),
    ("far-return-to-64-bits", || raises(small_far_return, SIZE, LONG_SELECTOR, (GP, 0x30), PROMOTED)),
    ("iret-to-64-bits", || raises(small_iret, SIZE, LONG_SELECTOR, (GP, 0x30), PROMOTED)),
    ("segment-of-the-processor-number", || raises(small_load_es, 0, NUMBER_SELECTOR, (GP, 0), PROMOTED)),
    ("beyond-the-segment-of-the-processor-number", || {
        raises(small_load_es, SIZE + INSIDE, NUMBER_SELECTOR, (GP, 0), PROMOTED)
    }),
    ("local-segment-of-4-gb-from-there", || local(ALL_FROM, SIZE, INSIDE)),
    ("local-segment-of-4-gb-beyond", || local(ALL_FROM, SIZE - PAGE, PAGE + INSIDE)),
    ("local-segment-of-4-gb-before", || local(ALL_FROM, PAGE, BEFORE - PAGE)),
    ("local-segment-of-4-gb-to-the-host", || local(ALL_FROM, PAGE, host_offset() - PAGE)),
    ("local-segment-with-a-limit-beyond", || local(BYTES_FROM, SIZE - PAGE, PAGE + INSIDE)),
    ("local-segment-with-a-limit-and-base-beyond", || local(BYTES_FROM, SIZE, INSIDE)),
    ("local-segment-that-expands-down", || local(DOWN_FROM, 0, SIZE + INSIDE)),
    ("local-segment-of-code", || local(CODE_FROM, 0, SIZE + INSIDE)),
    ("local-segment-of-code-from-there", || local(CODE_FROM, SIZE, INSIDE)),
    ("local-segment-of-the-host", || local(ALL_FROM, host_offset(), 0)),
    ("store-by-a-local-segment", local_store),
    ("both-sides-of-a-local-segment", || sides(PAGE)),
    ("both-sides-of-an-odd-base", || sides(PAGE + 0x240)),
    ("sides-in-turn-at-one-instruction", sides_in_turn),
    ("one-word-on-both-sides", across_the_base),
    ("watched-beyond-its-window", watched_beyond),
    ("bases-that-the-chief-writes", chiefs_bases),
];

/// Attacks that are stopped everywhere.
pub const CASES: &[Case] = &[
    ("far-jump-to-64-bits", || raises(small_far_jump, SIZE, LONG_SELECTOR, (GP, 0x30), PROMOTED)),
    ("far-call-to-64-bits", || raises(small_far_call, SIZE, LONG_SELECTOR, (GP, 0x30), PROMOTED)),
    ("far-jump-to-a-task", || raises(small_far_jump, 0, 0x40, (GP, 0x40), PROMOTED)),
    ("far-jump-to-data", || raises(small_far_jump, 0, DATA_SELECTOR, (GP, 0x28), PROMOTED)),
    ("segment-of-64-bits-in-ds", || raises(small_load_ds, SIZE, LONG_SELECTOR, (GP, 0x30), PROMOTED)),
    ("segment-of-64-bits-in-es", || raises(small_load_es, SIZE, LONG_SELECTOR, (GP, 0x30), PROMOTED)),
    ("segment-of-64-bits-in-ss", || raises(small_load_by_ss, SIZE, LONG_SELECTOR, (GP, 0x30), PROMOTED)),
    ("segment-of-64-bits-in-fs", || raises(small_load_fs, SIZE, LONG_SELECTOR, (GP, 0x30), PROMOTED)),
    ("segment-of-64-bits-in-gs", || raises(small_load_gs, SIZE, LONG_SELECTOR, (GP, 0x30), PROMOTED)),
    ("segment-of-64-bits-by-a-far-pointer", || raises(small_les, SIZE, LONG_SELECTOR, (GP, 0x30), PROMOTED)),
    ("processor-number-as-stack", || raises(small_load_by_ss, 0, NUMBER_SELECTOR, (GP, 0x78), PROMOTED)),
    ("kernel-data", || raises(small_load_ds, 0, 0x18, (GP, 0x18), PROMOTED)),
    ("kernel-data-for-users", || raises(small_load_ds, 0, 0x1b, (GP, 0x18), PROMOTED)),
    ("kernel-code", || raises(small_load_es, 0, 0x10, (GP, 0x10), PROMOTED)),
    ("task-segment", || raises(small_load_es, 0, 0x40, (GP, 0x40), PROMOTED)),
    ("local-table", || raises(small_load_fs, 0, 0x07, (GP, 0x04), PROMOTED)),
    ("beyond-the-table", || raises(small_load_fs, 0, 0xffff, (GP, 0xfffc), PROMOTED)),
    ("local-segment-that-there-is-not", || raises(small_load_gs, 0, TLS_SELECTOR, (GP, 0x60), PROMOTED)),
    ("sysenter", || raises(small_sysenter, 0, 0, (GP, 0), PROMOTED)),
    ("syscall", || raises(small_syscall, 0, 0, (UD, 0), VICTIM)),
    ("wrfsbase", || raises(small_wrfsbase, 0, 0, (UD, 0), VICTIM)),
    ("wrgsbase", || raises(small_wrgsbase, 0, 0, (UD, 0), VICTIM)),
    ("wrgsbase-of-32-bits", || raises(small_wrgsbase_32, 0, 0, (UD, 0), VICTIM)),
    ("software-interrupt", software_interrupt),
    ("what-selectors-tell", what_selectors_tell),
    ("ports-of-the-host", ports_of_the_host),
];

const GP: u64 = 13;
const UD: u64 = 6;
const DEBUG: u64 = 1;
/// Selectors: 32-bit code, 64-bit code, the processor's number.
const CODE_SELECTOR: u64 = 0x23;
const LONG_SELECTOR: u64 = 0x33;
const NUMBER_SELECTOR: u64 = 0x7b;
/// The window of the one that attacks, between its neighbours'.
pub const VICTIM: u64 = WINDOW + SIZE | LOG2;
/// An offset in a page, behind what code may be at its beginning.
const INSIDE: u64 = 16;
/// Addresses before its window, as 32 bits name them: of a word in the last page, and their end.
const BEFORE: u64 = BEFORE_END - PAGE + INSIDE;
const BEFORE_END: u64 = 1 << 32;
/// Words of the secrets, of the decoys, and of its own pages at both edges.
pub const SECRET: u32 = 0x5ec2_e75e;
const DECOY: u32 = 0xdec0_dec0;
const FIRST: u32 = 0x0f1_2575;
const SECOND: u32 = 0x5ec_0d00;
const LAST: u32 = 0x1a57_1a57;
/// What code returns: a neighbour's, and that of the decoy.
const BAD: u32 = 0xbad;
const GOOD: u32 = 0x600d;

/// All of them.
pub struct Siege {
    /// Between its neighbours.
    pub attacker: Small,
    /// The suite's pages that nobody may touch, and the number of words at their beginning that are
    /// code.
    secrets: [(u64, u64); 5],
}

/// A page of the host's, the last of those that cases use.
pub fn host_page() -> u64 {
    HOST_PAGE.0.get() as u64
}

#[repr(align(4096))]
struct HostPage(core::cell::UnsafeCell<[u32; 1024]>);

// SAFETY: one case at a time uses it, in one thread.
unsafe impl Sync for HostPage {}

static HOST_PAGE: HostPage = HostPage(core::cell::UnsafeCell::new([0; 1024]));

/// The offset by which the attacker would reach that page.
pub fn host_offset() -> u64 {
    (host_page() + INSIDE).wrapping_sub(VICTIM & !0xff) % BEFORE_END
}

/// The attacker between its neighbours, all of which have their pages.
pub fn siege() -> Result<Siege, crate::case::Fault> {
    let (mut left, mut right) = (Small::new(USUAL)?, Small::new(WINDOW + 2 * SIZE | LOG2)?);
    fill(host_page(), SECRET);
    let code = code_page(0, returns(BAD))?;
    (INSIDE..PAGE).step_by(4).for_each(|offset| set_word(code + offset, SECRET));
    right.give(0, code, FPAGE_RWX);
    let secrets = [
        (left.give_new(0, SECRET), 0),
        (left.give_new(SIZE - PAGE, SECRET), 0),
        (code, INSIDE),
        (right.give_new(SIZE - PAGE, SECRET), 0),
        (host_page(), 0),
    ];
    // They are in the host's tables now.
    for neighbour in [&left, &right] {
        for at in [INSIDE, SIZE - 4] {
            same!("a secret of a neighbour's", neighbour.ask(small_load, at, 0)?, SECRET as u64);
        }
    }
    let mut attacker = Small::new(VICTIM)?;
    attacker.give_new(0, FIRST);
    attacker.give_new(PAGE, SECOND);
    attacker.give_new(SIZE - PAGE, LAST);
    let code = code_page(1, returns(GOOD))?;
    (INSIDE..PAGE).step_by(4).for_each(|offset| set_word(code + offset, DECOY));
    attacker.give(SIZE, code, FPAGE_RWX);
    attacker.give_new(BEFORE_END - PAGE, DECOY);
    attacker.give_new(host_offset() & !(PAGE - 1), DECOY);
    Ok(Siege { attacker, secrets })
}

impl Siege {
    /// Fails if a secret was changed, or the attacker is elsewhere than it should be.
    pub fn end(&self, reach: u64) -> Outcome {
        for (number, (page, code)) in self.secrets.into_iter().enumerate() {
            let changed = (code..PAGE).step_by(4).find(|offset| word(page + offset) != SECRET);
            same!(number, changed, None);
        }
        same!("its reach", self.attacker.reach_now()?, reach);
        check()
    }

    /// The words that string instructions have copied.
    fn copied(&self, count: u64) -> impl Iterator<Item = u32> + '_ {
        (0..count).map(|number| word(self.attacker.block + BLOCK_BYTES + 4 * number))
    }
}

/// An attack that reads. What it gets is its own.
fn reads(code: unsafe extern "C" fn(), first: u64, second: u64) -> Outcome {
    let siege = siege()?;
    same!("what it read", siege.attacker.ask(code, first, second)?, DECOY as u64);
    siege.end(PROMOTED)
}

/// An attack that writes `value`. What it changes, at `place`, is its own.
fn writes(code: unsafe extern "C" fn(), first: u64, value: u64, place: u64) -> Outcome {
    let siege = siege()?;
    siege.attacker.ask(code, first, value)?;
    siege.end(PROMOTED)?;
    same!("what it wrote", siege.attacker.ask(small_load, place, 0)?, value);
    Ok(())
}

/// An attack that runs code elsewhere. What it runs is its own.
fn calls(code: unsafe extern "C" fn(), first: u64, second: u64) -> Outcome {
    let siege = siege()?;
    same!("what it called", siege.attacker.ask(code, first, second)?, GOOD as u64);
    siege.end(PROMOTED)
}

/// An attack that raises an exception, once, when it has this reach.
fn raises(code: unsafe extern "C" fn(), first: u64, second: u64, expected: (u64, u64), reach: u64) -> Outcome {
    let siege = siege()?;
    let got = siege.attacker.try_it(code, first, second)?;
    let what = (got.tag.kind(), got.tag.label() as u64, got.words[0]);
    same!("kind, vector, error code", what, (KIND_EXCEPTION, expected.0, expected.1));
    siege.end(reach)
}

/// The bytes of a word's higher half behind those of another's.
fn halves(low: u32, high: u32) -> u64 {
    (low >> 16 | high << 16) as u64
}

fn load_across() -> Outcome {
    let siege = siege()?;
    let behind = returns(GOOD)[0];
    same!("what it read", siege.attacker.ask(small_load, SIZE - 2, 0)?, halves(LAST, behind));
    siege.end(PROMOTED)
}

fn store_across() -> Outcome {
    let siege = siege()?;
    siege.attacker.ask(small_store_16, SIZE - 8, 7)?;
    siege.end(PROMOTED)?;
    for at in [SIZE - 8, SIZE - 4, SIZE, SIZE + 4] {
        same!("what it wrote", siege.attacker.ask(small_load, at, 0)?, 7);
    }
    Ok(())
}

fn copy_across() -> Outcome {
    let siege = siege()?;
    siege.attacker.ask(small_copy_from, SIZE - 8, 24)?;
    let behind = returns(GOOD);
    let expected = [LAST, LAST, behind[0], behind[1]];
    holds!("what it copied to be its own", siege.copied(4).eq(expected));
    siege.end(PROMOTED)
}

fn copy_to_across() -> Outcome {
    let siege = siege()?;
    (0..6).for_each(|number| set_word(siege.attacker.block + BLOCK_BYTES + 4 * number, 9));
    siege.attacker.ask(small_copy_to, SIZE - 8, 24)?;
    siege.end(PROMOTED)?;
    for at in [SIZE - 8, SIZE - 4, SIZE, SIZE + 12] {
        same!("what it copied", siege.attacker.ask(small_load, at, 0)?, 9);
    }
    Ok(())
}

fn fills(from: u64, count: u64) -> Outcome {
    let siege = siege()?;
    siege.attacker.ask(small_fill, from, count)?;
    siege.end(PROMOTED)?;
    same!("what it wrote", siege.attacker.ask(small_load, from + 4 * count - 4, 0)?, 0x5a5a_5a5a);
    Ok(())
}

fn fill_across() -> Outcome {
    fills(SIZE - 8, 8)
}

fn copy_down() -> Outcome {
    let siege = siege()?;
    siege.attacker.ask(small_copy_down, 4, 4)?;
    holds!("what it copied to be its own", siege.copied(4).eq([FIRST, FIRST, DECOY, DECOY]));
    siege.end(PROMOTED)
}

/// Its code reaches the last byte of its window, and the next instruction is after it. With a
/// thread-local segment of two sides, which the kernel turns at such an exception.
fn off_the_end(local: u64) -> Outcome {
    let mut siege = siege()?;
    siege.attacker.set_tls([local, 0, 0])?;
    let code = code_page(2, [0; 2])?;
    (0..PAGE).step_by(4).for_each(|offset| set_word(code + offset, 0x9090_9090));
    // In place of the page that it has there.
    siege.attacker.give_no_more(SIZE - PAGE);
    siege.attacker.give(SIZE - PAGE, code, FPAGE_RWX);
    same!("what it ran into", siege.attacker.ask(small_call, SIZE - 16, 0)?, GOOD as u64);
    siege.end(PROMOTED)
}

/// Kinds of thread-local descriptors, in all of their bits but the base's: data of 4 GB, data of
/// 64 KB, data from `SIZE` on, code of 4 GB.
pub const ALL_FROM: u64 = 0x00cf_f300_0000_ffff;
const BYTES_FROM: u64 = 0x0040_f300_0000_ffff;
const DOWN_FROM: u64 = 0x00c0_f700_0000_0000 | (SIZE / PAGE - 1);
const CODE_FROM: u64 = 0x00cf_fb00_0000_ffff;

pub fn descriptor(kind: u64, base: u64) -> u64 {
    kind | (base & 0xff_ffff) << 16 | (base >> 24 & 0xff) << 56
}

/// A load by a thread-local descriptor, at this offset from its base. What it gets is its own.
fn local(kind: u64, base: u64, offset: u64) -> Outcome {
    let siege = siege()?;
    siege.attacker.set_tls([descriptor(kind, base), 0, 0])?;
    let got = siege.attacker.ask(small_load_gs, offset & (BEFORE_END - 1), TLS_SELECTOR)?;
    same!("what it read", got, DECOY as u64);
    siege.end(PROMOTED)
}

fn local_store() -> Outcome {
    let siege = siege()?;
    siege.attacker.set_tls([descriptor(ALL_FROM, SIZE - PAGE), 0, 0])?;
    same!("inside", siege.attacker.ask(small_load_gs, 0, TLS_SELECTOR)?, LAST as u64);
    siege.attacker.ask(small_store_gs, PAGE + INSIDE, 3)?;
    siege.end(PROMOTED)?;
    same!("what it wrote", siege.attacker.ask(small_load, SIZE + INSIDE, 0)?, 3);
    Ok(())
}

/// Loads from the base and before it, with the segment turned each time, in the window.
fn sides(base: u64) -> Outcome {
    const ROUNDS: u64 = 100;
    let siege = siege()?;
    siege.attacker.set_tls([descriptor(ALL_FROM, base), 0, 0])?;
    siege.attacker.ask(small_store, base, 0x55)?;
    siege.attacker.ask(small_store, base - 4, 0x66)?;
    let got = siege.attacker.try_it(small_both_sides, ROUNDS, 0)?;
    siege.attacker.expect_report(&got)?;
    same!("at the base, and before it", got.words[..2], [0x55, 0x66]);
    siege.end(VICTIM)
}

fn sides_in_turn() -> Outcome {
    for (loads, reach) in [(8, VICTIM), (200, PROMOTED)] {
        let siege = siege()?;
        siege.attacker.set_tls([descriptor(ALL_FROM, PAGE), 0, 0])?;
        let sum = (FIRST as u64 + SECOND as u64) * (loads / 2) & u32::MAX as u64;
        same!("the sum of both", siege.attacker.ask(small_alternate, loads, 0)?, sum);
        siege.end(reach)?;
        for number in crate::pool::used_tasks() {
            remove_task(number)?;
        }
        pool::reset_tasks();
    }
    Ok(())
}

/// No segment covers a word whose last byte has offset 0.
fn across_the_base() -> Outcome {
    let siege = siege()?;
    siege.attacker.set_tls([descriptor(ALL_FROM, PAGE), 0, 0])?;
    let got = siege.attacker.try_it(small_across, 0, 0)?;
    let what = (got.tag.kind(), got.tag.label() as u64, got.words[0]);
    same!("kind, vector, error code", what, (KIND_EXCEPTION, GP, 0));
    siege.end(PROMOTED)
}

fn software_interrupt() -> Outcome {
    let siege = siege()?;
    let got = siege.attacker.try_it(small_int32, 0, 0)?;
    // QEMU's translator has another error code.
    same!("kind, vector", (got.tag.kind(), got.tag.label() as u64), (KIND_EXCEPTION, GP));
    siege.end(PROMOTED)
}

/// A debug register for an address that would be a neighbour's watches nothing in the window, and
/// the thread's own address after it has left.
fn watched_beyond() -> Outcome {
    let siege = siege()?;
    watch(siege.attacker.thread, SIZE + INSIDE)?;
    siege.attacker.ask(small_store, SIZE - PAGE + INSIDE, 1)?;
    siege.end(VICTIM)?;
    let got = siege.attacker.try_it(small_store, SIZE + INSIDE, 2)?;
    same!("kind, vector", (got.tag.kind(), got.tag.label() as u64), (KIND_EXCEPTION, DEBUG));
    siege.end(PROMOTED)
}

/// An alien thread of the attacker's task at `small_store_gs`, with these bases and selectors in
/// its frame: its first message.
fn with_bases(attacker: &mut Small, base: u64, segments: u64) -> Result<(Received, u64), Failure> {
    let index = pool::frame_index();
    let mut frame = crate::alien::fresh_frame(small_store_gs);
    (frame.ip, frame.sp, frame.cs) = (operation(small_store_gs), BLOCKS + PAGE - 16, crate::alien::CODE_32);
    (frame.cx, frame.bp, frame.segments) = (INSIDE, 0x77, segments);
    (frame.fs_base, frame.gs_base) = (base, base);
    pool::set_frame(index, &frame);
    attacker.thread = crate::alien::create(attacker.task, index, 0)?;
    set_reach(attacker.thread, attacker.reach, Id::NIL)?;
    thread::act(attacker.thread, EX_START)?;
    let got = attacker.serve().map_err(|_| Failure::call(keel_l4::Error::Timeout))?;
    Ok((got, index))
}

fn chiefs_bases() -> Outcome {
    let data = DATA_SELECTOR | DATA_SELECTOR << 16;
    let bases = [host_page(), WINDOW, WINDOW + 2 * SIZE, SIZE, BEFORE_END - PAGE];
    for base in bases {
        let mut siege = siege()?;
        // By the window's segment: its own first page.
        let (got, _) = with_bases(&mut siege.attacker, base, data | DATA_SELECTOR << 48)?;
        same!("kind", got.tag.kind(), KIND_SYSCALL);
        siege.end(VICTIM)?;
        // By no segment: it leaves its window, and then there is none either.
        let (got, index) = with_bases(&mut siege.attacker, base, data)?;
        same!("kind, vector", (got.tag.kind(), got.tag.label() as u64), (KIND_EXCEPTION, GP));
        same!("its code", pool::frame(index).cs, crate::alien::CODE_32);
        siege.end(SMALL_NONE | SMALL_PROMOTED)?;
        for number in pool::used_tasks() {
            remove_task(number)?;
        }
        pool::reset_tasks();
    }
    Ok(())
}

fn what_selectors_tell() -> Outcome {
    let siege = siege()?;
    let ask = |code, selector| -> Result<[u64; 2], crate::case::Fault> {
        let got = siege.attacker.try_it(code, selector, 0)?;
        siege.attacker.expect_report(&got)?;
        Ok([got.words[0], got.words[1]])
    };
    const NOTHING: [u64; 2] = [0, 0];
    for selector in [LONG_SELECTOR, 0x10, 0x18, 0x40, TLS_SELECTOR, 0x07, 0, 0xffff] {
        same!("rights", ask(small_lar, selector)?, NOTHING);
        same!("limit", ask(small_lsl, selector)?, NOTHING);
        same!("reads", ask(small_verr, selector)?[0], 0);
        same!("writes", ask(small_verw, selector)?[0], 0);
    }
    for selector in [CODE_SELECTOR, DATA_SELECTOR] {
        same!("limit", ask(small_lsl, selector)?, [SIZE - 1, 1]);
        holds!("no bits of a base among rights", ask(small_lar, selector)?[0] & !0x00f0_ff00 == 0);
    }
    same!("reads", ask(small_verr, DATA_SELECTOR)?[0], 1);
    same!("the number cannot be written", ask(small_verw, NUMBER_SELECTOR)?[0], 0);
    siege.end(VICTIM)
}

/// Eight ports without effect, as in topic ports.
const PORTS: Fpage = Fpage::io(0x80, 3);

fn ports_of_the_host() -> Outcome {
    sigma0::map(PORTS, Fpage::io(0, 16))?;
    for code in [small_in as unsafe extern "C" fn(), small_out] {
        let siege = siege()?;
        // SAFETY: reading this port has no effect.
        unsafe { core::arch::asm!("in al, dx", in("dx") 0x80u16, out("al") _, options(nostack, preserves_flags)) };
        let got = siege.attacker.try_it(code, 0x80, 0)?;
        same!("kind, vector", (got.tag.kind(), got.tag.label() as u64), (KIND_EXCEPTION, GP));
        siege.end(PROMOTED)?;
        for number in pool::used_tasks() {
            remove_task(number)?;
        }
        pool::reset_tasks();
    }
    Ok(())
}
