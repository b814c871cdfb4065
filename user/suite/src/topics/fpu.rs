// SPDX-License-Identifier: BSD-2-Clause
//! FPU states: private to each thread, read and written by the chief.

use crate::case::{Case, Outcome};
use crate::foreign::{code_fpu, code_syscall, Foreign};
use crate::pool::pages;
use crate::threads::{helper, park, pause};
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::memory::{EX_FPU_GET, EX_FPU_SET};
use keel_l4::abi::ExRegs;
use keel_l4::call::Failure;
use keel_l4::info::info;
use keel_l4::ipc::sleep;
use keel_l4::{thread, Id};

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
];

/// Offsets in the standard format: control word, mxcsr, xmm0, the state-component bitmap, what follows it.
const CONTROL_WORD: u64 = 0;
const MXCSR: u64 = 24;
const XMM0: u64 = 160;
const COMPONENTS: u64 = 512;
const COMPACTION: u64 = 520;
/// x87 and SSE.
const BOTH: u64 = 3;

fn buffer() -> u64 {
    pages(4)
}

fn word(address: u64) -> u64 {
    crate::pool::peek(address)
}

fn set_word(address: u64, value: u64) {
    // SAFETY: the buffers of this topic are pages of their own.
    unsafe { crate::pool::poke(address, value) };
}

fn transfer(id: Id, mask: u64, address: u64, size: u64) -> Result<u64, Failure> {
    let mut record = ExRegs::zeroed();
    (record.fpu, record.fpu_size) = (address, size);
    thread::exchange(id, mask, &mut record).map(|_| record.fpu_size)
}

fn get(id: Id, address: u64) -> Result<u64, Failure> {
    transfer(id, EX_FPU_GET, address, info().fpu_size)
}

fn set(id: Id, address: u64) -> Result<u64, Failure> {
    transfer(id, EX_FPU_SET, address, info().fpu_size)
}

/// A foreign thread whose xmm0 holds `value`, at its first call.
fn with_xmm0(value: u64) -> Result<Foreign, Failure> {
    let foreign = Foreign::new(code_fpu, |f| f.di = value)?;
    foreign.start()?;
    Ok(foreign)
}

fn two_threads() -> Outcome {
    let (first, second) = (with_xmm0(0x1111)?, with_xmm0(0x2222)?);
    for _ in 0..20 {
        same!("the first's xmm0", first.resume()?.words[0], 0x1111);
        same!("the second's xmm0", second.resume()?.words[0], 0x2222);
    }
    Ok(())
}

/// Keeps its argument in xmm7 and looks whether it stays; counts rounds in cell 2 + the argument, damage in cell 1.
extern "C" fn keeper(value: u64) -> ! {
    // SAFETY: xmm7 is no register of code compiled without SSE.
    unsafe { core::arch::asm!("movq xmm7, {}", in(reg) value, options(nomem, nostack)) };
    for _ in 0..100 {
        sleep(200_000);
        let now: u64;
        // SAFETY: as above.
        unsafe { core::arch::asm!("movq {}, xmm7", out(reg) now, options(nomem, nostack)) };
        if now != value {
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
    let foreign = with_xmm0(0xabcd_ef01_2345_6789)?;
    let at = buffer();
    same!("bytes", get(foreign.id, at)?, info().fpu_size);
    same!("xmm0", word(at + XMM0), 0xabcd_ef01_2345_6789);
    holds!("SSE among the components", word(at + COMPONENTS) & 2 != 0);
    same!("standard format", word(at + COMPACTION), 0);
    Ok(())
}

fn written() -> Outcome {
    let foreign = with_xmm0(1)?;
    let at = buffer();
    get(foreign.id, at)?;
    set_word(at + XMM0, 0x7777);
    set(foreign.id, at)?;
    same!("xmm0 in the thread", foreign.resume()?.words[0], 0x7777);
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
    let foreign = Foreign::new(code_syscall, |_| ())?;
    foreign.start()?;
    let at = buffer();
    set_word(at + XMM0, 0xffff);
    get(foreign.id, at)?;
    same!("control word", word(at + CONTROL_WORD) & 0xffff, 0x37f);
    same!("mxcsr", word(at + MXCSR) & 0xffff_ffff, 0x1f80);
    same!("xmm0", word(at + XMM0), 0);
    Ok(())
}

fn reserved_bits() -> Outcome {
    let foreign = with_xmm0(5)?;
    let at = buffer();
    get(foreign.id, at)?;
    for (offset, value) in
        [(COMPONENTS, 1 << 62 | BOTH), (COMPACTION, 1 << 63), (COMPACTION + 8, 1), (COMPONENTS, u64::MAX)]
    {
        let before = word(at + offset);
        set_word(at + offset, value);
        refused!("a state with reserved bits", set(foreign.id, at), Call Invalid);
        set_word(at + offset, before);
    }
    same!("the thread's xmm0", foreign.resume()?.words[0], 5);
    Ok(())
}

fn reserved_mxcsr() -> Outcome {
    let foreign = with_xmm0(6)?;
    let at = buffer();
    get(foreign.id, at)?;
    set_word(at + MXCSR, word(at + MXCSR) | 0x8000_0000);
    refused!("reserved bits of mxcsr", set(foreign.id, at), Call Invalid);
    same!("the thread's xmm0", foreign.resume()?.words[0], 6);
    Ok(())
}

fn not_mapped() -> Outcome {
    let foreign = with_xmm0(7)?;
    let kernel = [0xffff_8000_0000_0000, 0xffff_ffff_8010_0000, 1 << 47, !63];
    for address in [crate::pool::WINDOW, 0].into_iter().chain(kernel) {
        refused!("reading", get(foreign.id, address), Call Invalid);
        refused!("writing", set(foreign.id, address), Call Invalid);
    }
    Ok(())
}

fn not_aligned() -> Outcome {
    let foreign = with_xmm0(8)?;
    let at = buffer();
    for offset in [1, 8, 32] {
        refused!("reading", get(foreign.id, at + offset), Call Invalid);
    }
    Ok(())
}

fn too_small() -> Outcome {
    let foreign = with_xmm0(9)?;
    let at = buffer();
    for size in [0, 512, info().fpu_size - 1] {
        refused!("reading", transfer(foreign.id, EX_FPU_GET, at, size), Call Invalid);
    }
    Ok(())
}

fn denied() -> Outcome {
    refused!("the root task's", get(Id::ROOT, buffer()), Call Denied);
    Ok(())
}
