// SPDX-License-Identifier: BSD-2-Clause
//! Debug registers, single steps and thread-local descriptors of alien threads.

use crate::alien::{address, code_load, code_load_fs, code_nops, code_store, code_syscall, code_tsc, Alien, CODE_32};
use crate::case::{Case, Outcome};
use crate::pool::page;
use crate::{refused, same};
use keel_l4::abi::call::{KIND_EXCEPTION, KIND_SYSCALL};
use keel_l4::abi::memory::{DEBUG_NO_TSC, EX_DEBUG_GET, EX_DEBUG_SET, EX_TLS};
use keel_l4::abi::ExRegs;
use keel_l4::call::Failure;
use keel_l4::ipc::{send_and_wait, wait, Message, Timeout};
use keel_l4::{thread, Id};

pub const CASES: &[Case] = &[
    ("selectors-of-ones", selectors_of_ones),
    ("single-step", single_step),
    ("breakpoint-register", breakpoint),
    ("watchpoint", watchpoint),
    ("private-to-the-thread", private),
    ("time-stamp-counter-refused", no_tsc),
    ("read-back", read_back),
    ("kernel-addresses-refused", kernel_addresses),
    ("reserved-bits-refused", reserved_bits),
    ("thread-local-descriptor", descriptor),
    ("system-descriptors-refused", system_descriptors),
];

/// Vectors of #DB and #GP.
const DEBUG: u32 = 1;
const GENERAL_PROTECTION: u32 = 13;
/// dr7: breakpoint 0 on, local; and the kinds of access, one byte or eight.
const ENABLE_0: u64 = 1;
const ON_WRITE_8: u64 = 0b1001 << 16;
/// The debug register number of dr7 in the record.
const CONTROL: usize = 5;

fn set(id: Id, debug: [u64; 6]) -> Result<(), Failure> {
    let mut record = ExRegs::zeroed();
    record.debug = debug;
    thread::exchange(id, EX_DEBUG_SET, &mut record).map(|_| ())
}

fn single_step() -> Outcome {
    let alien = Alien::new(code_nops, |f| f.flags |= 0x100)?;
    for n in 1..=3 {
        let got = if n == 1 { alien.start()? } else { alien.resume()? };
        same!("kind, vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, DEBUG));
        same!("ip", got.words[1], address(code_nops) + n);
        same!("single-step bit", got.words[3] & 0x4000, 0x4000);
    }
    alien.edit(|f| f.flags &= !0x100);
    same!("afterwards", alien.resume()?.tag.kind(), KIND_SYSCALL);
    Ok(())
}

fn breakpoint() -> Outcome {
    let alien = Alien::new(code_nops, |_| ())?;
    set(alien.id, [address(code_nops) + 2, 0, 0, 0, 0, ENABLE_0])?;
    let got = alien.start()?;
    same!("kind, vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, DEBUG));
    same!("ip, dr6", (got.words[1], got.words[3] & 0xf), (address(code_nops) + 2, 1));
    same!("dr6 in the frame", alien.regs().dr6 & 0xf, 1);
    set(alien.id, [0; 6])?;
    same!("without it", alien.resume()?.tag.kind(), KIND_SYSCALL);
    Ok(())
}

fn watchpoint() -> Outcome {
    let word = page();
    let alien = Alien::new(code_store, |f| (f.di, f.si) = (word, 9))?;
    set(alien.id, [word, 0, 0, 0, 0, ENABLE_0 | ON_WRITE_8])?;
    let got = alien.start()?;
    same!("kind, vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, DEBUG));
    same!("the word was written", crate::pool::peek(word), 9);
    Ok(())
}

fn private() -> Outcome {
    let word = page();
    let watched = Alien::new(code_store, |f| f.di = word)?;
    let other = Alien::new(code_store, |f| f.di = word)?;
    set(watched.id, [word, 0, 0, 0, 0, ENABLE_0 | ON_WRITE_8])?;
    same!("the other is not stopped", other.start()?.tag.kind(), KIND_SYSCALL);
    same!("the watched one is", watched.start()?.tag.kind(), KIND_EXCEPTION);
    same!("nor the other later", other.resume()?.tag.kind(), KIND_SYSCALL);
    Ok(())
}

/// One thread cannot read the TSC, by either instruction, while another and this one can.
fn no_tsc() -> Outcome {
    let refused = Alien::new(code_tsc, |_| ())?;
    let other = Alien::new(code_tsc, |_| ())?;
    set(refused.id, [0, 0, 0, 0, 0, DEBUG_NO_TSC])?;
    for n in 0..4 {
        let (got, free) =
            if n == 0 { (refused.start()?, other.start()?) } else { (refused.resume()?, other.resume()?) };
        same!("kind, vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, GENERAL_PROTECTION));
        same!("where", got.words[1], address(code_tsc) + 4 * (n & 1));
        same!("the other one", free.tag.kind(), KIND_SYSCALL);
        // SAFETY: reading the counter has no effect.
        unsafe { core::arch::x86_64::_rdtsc() };
        refused.edit(|f| f.ip = address(code_tsc) + 4 * (!n & 1));
    }
    set(refused.id, [0; 6])?;
    same!("without it", refused.resume()?.tag.kind(), KIND_SYSCALL);
    Ok(())
}

fn read_back() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    set(alien.id, [0x1000, 0x2000, 0x3000, 0x4000, 0, 0x55])?;
    let mut record = ExRegs::zeroed();
    thread::exchange(alien.id, EX_DEBUG_GET, &mut record)?;
    same!("addresses", record.debug[..4], [0x1000, 0x2000, 0x3000, 0x4000]);
    same!("enabled breakpoints", record.debug[CONTROL] & 0xff, 0x55);
    Ok(())
}

fn kernel_addresses() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    for bad in [1 << 47, 0xffff_8000_0000_0000, u64::MAX] {
        for place in 0..4 {
            let mut debug = [0; 6];
            debug[place] = bad;
            debug[CONTROL] = 0xff;
            refused!("a breakpoint there", set(alien.id, debug), Call Invalid);
        }
    }
    Ok(())
}

fn reserved_bits() -> Outcome {
    let alien = Alien::new(code_syscall, |_| ())?;
    for control in [1 << 33, 1 << 63, 1 << 13] {
        refused!("dr7", set(alien.id, [0, 0, 0, 0, 0, control]), Call Invalid);
    }
    Ok(())
}

/// A data segment for users: present, ring 3, writable, 4 GB, with `base`.
fn data_segment(base: u64) -> u64 {
    0x00cf_f300_0000_ffff | (base & 0xff_ffff) << 16 | (base >> 24 & 0xff) << 56
}

fn set_tls(id: Id, tls: [u64; 3]) -> Result<(), Failure> {
    let mut record = ExRegs::zeroed();
    record.tls = tls;
    thread::exchange(id, EX_TLS, &mut record).map(|_| ())
}

fn descriptor() -> Outcome {
    let word = page();
    crate::topics::window::fill(word, 1, 0x715);
    // Selector 0x63: descriptor 12, ring 3.
    let alien = Alien::new(code_load_fs, |f| f.di = 0x63)?;
    set_tls(alien.id, [data_segment(word), 0, 0])?;
    same!("loaded", alien.start()?.tag.kind(), KIND_SYSCALL);
    same!("selector in the frame", alien.regs().segments >> 32 & 0xffff, 0x63);
    same!("base in the frame", alien.regs().fs_base, word);
    Ok(())
}

fn system_descriptors() -> Outcome {
    let alien = Alien::new(code_load, |_| ())?;
    // A call gate, a TSS, a data segment of ring 0, 64-bit code of ring 0.
    for bad in [0x0000_ec00_0008_0000u64, 0x0000_8900_0000_0067, 0x00cf_9300_0000_ffff, 0x00af_9b00_0000_ffff] {
        for place in 0..3 {
            let mut tls = [0; 3];
            tls[place] = bad;
            refused!("a descriptor", set_tls(alien.id, tls), Call Invalid);
        }
    }
    Ok(())
}

/// Selectors in a frame that no call of the thread's had are not loaded as they are, whatever the
/// kernel keeps in place of such a call's.
fn selectors_of_ones() -> Outcome {
    const NOWHERE: u64 = 0x7000_0000;
    let alien = Alien::new(code_syscall, |f| f.ax = 0x600d)?;
    set_tls(alien.id, [data_segment(0), 0, 0])?;
    same!("kind", alien.start()?.tag.kind(), KIND_SYSCALL);
    set_tls(alien.id, [data_segment(0), 0, 0])?;
    // Nothing waits for this thread any more, so that the replies below take the fast path.
    let _ = wait(Timeout::Zero);
    for _ in 0..20 {
        alien.edit(|f| (f.segments, f.cs, f.ip, f.fs_base, f.gs_base) = (u64::MAX, CODE_32, NOWHERE, 0, 0));
        let got = send_and_wait(alien.id, Message::label(0), Timeout::Zero, Timeout::Never)?;
        same!("where it faults", got.words[0], NOWHERE);
    }
    Ok(())
}
