// SPDX-License-Identifier: BSD-2-Clause
//! What can be seen from user mode of how the kernel protects itself and its users.

// Reading CPUID is unsafe up to Rust 1.93 and safe from then on.
#![allow(unused_unsafe)]

use crate::case::{Case, Outcome};
use crate::foreign::*;
use crate::pool::{page, PAGE, WINDOW};
use crate::same;
use crate::threads::{park, pause, remove_task, Spawn};
use crate::topics::window::slot;
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use keel_l4::abi::call::{GATE_SYSCALL, KIND_EXCEPTION, KIND_PAGE_FAULT, KIND_SYSCALL};
use keel_l4::abi::fpage::{FPAGE_RWX, SPACE_SHIFT};
use keel_l4::abi::memory::FEATURE_TAGGED_TLB;
use keel_l4::abi::MapItem;
use keel_l4::info::{info, kernel_words};
use keel_l4::ipc::{call, receive, Message, Timeout};
use keel_l4::{sigma0, utcb, Fpage};

pub const CASES: &[Case] = &[
    ("tables-hidden-from-users", tables_hidden),
    ("alignment-flag-ends-at-the-kernel", alignment_flag),
    ("call-at-the-end-of-user-memory", last_call),
    ("translations-tagged-where-that-can-be", tagged),
];

/// #GP.
const GENERAL_PROTECTION: u32 = 13;

/// UMIP: user mode cannot see where the kernel's tables lie.
fn has_umip() -> bool {
    // SAFETY: every 64-bit processor has CPUID.
    unsafe { __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & 1 << 2 != 0 }
}

/// PCID: the TLB tells spaces apart.
fn has_pcid() -> bool {
    // SAFETY: as above.
    unsafe { __cpuid(1).ecx & 1 << 17 != 0 }
}

fn tagged() -> Outcome {
    let unwanted = kernel_words(info()).any(|word| word == b"nopcid" || word == b"noclear");
    let tagged = info().features & FEATURE_TAGGED_TLB != 0;
    same!("the kernel's claim", tagged, has_pcid() && !unwanted);
    Ok(())
}

fn tables_hidden() -> Outcome {
    let expected = if has_umip() { (KIND_EXCEPTION, GENERAL_PROTECTION) } else { (KIND_SYSCALL, GATE_SYSCALL as u32) };
    for code in [code_sgdt as unsafe extern "C" fn(), code_sidt, code_sldt, code_str, code_smsw] {
        let foreign = Foreign::new(code, |f| f.di = page())?;
        let got = foreign.start()?;
        same!("kind and label", (got.tag.kind(), got.tag.label()), expected);
        remove_task(foreign.number)?;
    }
    Ok(())
}

/// Sets AC, then reads at `address`.
extern "C" fn aligned_reader(address: u64) -> ! {
    // SAFETY: the case wants the fault; what follows accesses nothing that is not aligned.
    unsafe {
        asm!("pushfq", "or dword ptr [rsp], {ac}", "popfq", "mov {word}, [{address}]",
            ac = const 1 << 18, address = in(reg) address, word = out(reg) _);
    }
    park()
}

/// In the kernel the flag would switch SMAP off: the kernel panics if an interrupt finds it so.
fn alignment_flag() -> Outcome {
    let me = utcb::my_id();
    let id = Spawn { pager: me, ..Spawn::new(aligned_reader, WINDOW) }.start()?;
    // Nobody takes the fault yet: the kernel has nothing to run, and the end of the pause interrupts it.
    pause(2_000_000);
    let fault = receive(id, Timeout::Never)?;
    same!("kind, address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, WINDOW));
    Ok(())
}

/// The address behind the instruction is not canonical: SYSRET to it would fault in the kernel.
fn last_call() -> Outcome {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let end = 1u64 << SPACE_SHIFT;
    sigma0::any(Fpage::memory(0, 12, FPAGE_RWX), slot(0))?;
    let code = WINDOW;
    for (number, byte) in SYSCALL.into_iter().enumerate() {
        // SAFETY: the page is the case's own.
        unsafe { ((code + PAGE - 2 + number as u64) as *mut u8).write_volatile(byte) };
    }
    let foreign = Foreign::new(code_syscall, |f| f.ip = end - 2)?;
    same!("the fault's address", foreign.start_raw()?.words[0], end - 2);
    let item = MapItem { send_base: end - PAGE, fpage: Fpage::memory(code, 12, FPAGE_RWX).0 };
    let got = call(foreign.id, Message::label(0).with_maps(&[item]))?;
    same!("kind, ip", (got.tag.kind(), got.words[1]), (KIND_SYSCALL, end));
    let got = foreign.resume()?;
    same!("kind, vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, GENERAL_PROTECTION));
    Ok(())
}
