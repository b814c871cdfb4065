// SPDX-License-Identifier: BSD-2-Clause
//! What user mode can observe of how the kernel protects itself and its users.

// Reading CPUID is unsafe up to Rust 1.93 and safe from then on.
#![allow(unused_unsafe)]

use crate::alien::*;
use crate::case::{Case, Fault, Outcome};
use crate::pool::{page, peek, poke, PAGE, WINDOW};
use crate::same;
use crate::threads::{park, pause, remove_task, Main, Spawn};
use crate::topics::window::slot;
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{FPAGE_RWX, HALF_SHIFT, USER_END};
use keel_l4::abi::memory::FEATURE_PCID;
use keel_l4::abi::MapItem;
use keel_l4::ipc::{call, receive, send_and_wait, wait, Message, Received, Timeout};
use keel_l4::kip::{kernel_words, kip};
use keel_l4::{mapping, sigma0, utcb, Fpage};

pub const CASES: &[Case] = &[
    ("tables-hidden-from-users", tables_hidden),
    ("alignment-flag-ends-at-the-kernel", alignment_flag),
    ("call-at-the-end-of-user-memory", last_call),
    ("native-call-at-the-end-of-user-memory", native_last_call),
    ("last-call-that-can-be", last_possible_call),
    ("large-page-at-the-end-of-user-memory", large_page_at_the_end),
    ("translations-tagged-where-that-can-be", tagged),
];

/// #GP.
const GENERAL_PROTECTION: u32 = 13;

/// UMIP: user mode cannot read the addresses of the kernel's tables.
fn has_umip() -> bool {
    // SAFETY: every 64-bit processor has CPUID.
    unsafe { __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & 1 << 2 != 0 }
}

/// OSXSAVE: the kernel has enabled XSAVE (Intel SDM 2A, CPUID).
pub fn has_xsave() -> bool {
    // SAFETY: as above.
    unsafe { __cpuid(1).ecx & 1 << 27 != 0 }
}

/// PCID: the TLB distinguishes spaces.
fn has_pcid() -> bool {
    // SAFETY: as above.
    unsafe { __cpuid(1).ecx & 1 << 17 != 0 }
}

fn tagged() -> Outcome {
    let unwanted = kernel_words(kip()).any(|word| word == b"nopcid" || word == b"noclear");
    let tagged = kip().features & FEATURE_PCID != 0;
    same!("the kernel's claim", tagged, has_pcid() && !unwanted);
    Ok(())
}

fn tables_hidden() -> Outcome {
    let expected = if has_umip() { (KIND_EXCEPTION, GENERAL_PROTECTION) } else { (KIND_SYSCALL, GATE_SYSCALL as u32) };
    for code in [code_sgdt as unsafe extern "C" fn(), code_sidt, code_sldt, code_str, code_smsw] {
        let alien = Alien::new(code, |f| f.di = page())?;
        let got = alien.start()?;
        same!("kind and label", (got.tag.kind(), got.tag.label()), expected);
        remove_task(alien.number)?;
    }
    Ok(())
}

/// Sets AC, then reads at `address`.
extern "C" fn aligned_reader(address: u64) -> ! {
    // SAFETY: the case expects the fault; the code after it makes only aligned accesses.
    unsafe {
        asm!("pushfq", "or dword ptr [rsp], {ac}", "popfq", "mov {word}, [{address}]",
            ac = const 1 << 18, address = in(reg) address, word = out(reg) _);
    }
    park()
}

/// In the kernel the flag would disable SMAP: the kernel panics if an interrupt finds it set.
fn alignment_flag() -> Outcome {
    let me = utcb::my_id();
    let id = Spawn { pager: me, ..Spawn::new(aligned_reader, WINDOW) }.start()?;
    // No thread serves the fault yet: the kernel is idle, and the end of the pause interrupts it.
    pause(2_000_000);
    let fault = receive(id, Timeout::Never)?;
    same!("kind, address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, WINDOW));
    Ok(())
}

/// The last possible `syscall`: the ip after it is not canonical, and SYSRET to it faults in the
/// kernel.
const LAST_CALL: u64 = (1 << HALF_SHIFT) - 2;

/// A page whose last two bytes are a `syscall`, as an answer for the page at `address`.
pub fn page_with_last_call(address: u64) -> Result<Message, Fault> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    sigma0::any(Fpage::memory(0, 12, FPAGE_RWX), slot(0))?;
    for (place, byte) in (WINDOW + PAGE - 2..).zip(SYSCALL) {
        // SAFETY: the page is the case's own.
        unsafe { (place as *mut u8).write_volatile(byte) };
    }
    let item = MapItem { send_base: address & !(PAGE - 1), fpage: Fpage::memory(WINDOW, 12, FPAGE_RWX).0 };
    Ok(Message::label(0).with_maps(&[item]))
}

/// No thread gets the page.
fn last_call() -> Outcome {
    let alien = Alien::new(code_syscall, |f| f.ip = LAST_CALL)?;
    same!("the fault's address", alien.start_raw()?.words[0], LAST_CALL);
    let again = call(alien.id, page_with_last_call(LAST_CALL)?)?;
    same!("kind, address", (again.tag.kind(), again.words[0]), (KIND_PAGE_FAULT, LAST_CALL));
    Ok(())
}

core::arch::global_asm!(
    // rdi: the address of two words, a server's id and the address of the second call.
    "code_calls: mov rbx, rdi",
    "call 2f",
    "push qword ptr [rbx + 8]",
    "2: mov rdi, [rbx]",
    "mov rdx, rdi",
    "xor esi, esi",
    "mov eax, {call}",
    // The first time here, the second time at that address.
    "mov rcx, [rsp]",
    "cmp rcx, [rbx + 8]",
    "je 3f",
    "syscall",
    "3: ret",
    call = const CALL_IPC | IPC_SEND | IPC_RECEIVE,
);

unsafe extern "C" {
    fn code_calls();
}

/// A native thread that calls the worker, and then again with the `syscall` at `place`. Returns the
/// fault that it raises there.
pub fn calls_from(place: u64) -> Result<Received, Fault> {
    let block = page();
    for (word, value) in (block..).step_by(8).zip([utcb::my_id().0, place]) {
        // SAFETY: the page belongs to the case.
        unsafe { poke(word, value) };
    }
    // SAFETY: the function takes one argument and never returns.
    let main = unsafe { core::mem::transmute::<unsafe extern "C" fn(), Main>(code_calls) };
    let id = Spawn::watched(main, block).start()?;
    let first = wait(Timeout::Never)?;
    same!("the first call: kind, sender", (first.tag.kind(), first.from), (KIND_USER, id));
    let fault = send_and_wait(id, Message::label(0), Timeout::Zero, Timeout::Never)?;
    same!("the fault: kind, address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, place));
    Ok(fault)
}

/// The same for a native thread to which the kernel returns by SYSRET after its call; only the page
/// is missing.
fn native_last_call() -> Outcome {
    let fault = calls_from(LAST_CALL)?;
    let again = send_and_wait(fault.from, page_with_last_call(LAST_CALL)?, Timeout::Zero, Timeout::Never)?;
    same!("again: kind, address", (again.tag.kind(), again.words[0]), (KIND_PAGE_FAULT, LAST_CALL));
    Ok(())
}

/// The last possible call: its thread resumes at the first non-canonical address.
fn last_possible_call() -> Outcome {
    let fault = calls_from(USER_END - 2)?;
    let called = send_and_wait(fault.from, page_with_last_call(USER_END - 2)?, Timeout::Zero, Timeout::Never)?;
    same!("kind, sender", (called.tag.kind(), called.from), (KIND_USER, fault.from));
    let end = send_and_wait(fault.from, Message::label(0), Timeout::Zero, Timeout::Never)?;
    same!("kind, address, ip", (end.tag.kind(), end.words[0], end.words[1]), (KIND_PAGE_FAULT, USER_END, USER_END));
    Ok(())
}

/// A large page that would end there is mapped as small pages, without the last one.
fn large_page_at_the_end() -> Outcome {
    const LOG2: u8 = 21;
    let first = (1 << HALF_SHIFT) - (1 << LOG2);
    let window = Fpage::memory(first, LOG2, FPAGE_RWX);
    same!("where it comes", sigma0::any(Fpage::memory(0, LOG2, FPAGE_RWX), window)?.send_base, first);
    for place in [first, USER_END - 8] {
        // SAFETY: new memory.
        unsafe { poke(place, place) };
        same!("a word", peek(place), place);
    }
    extern "C" fn reader(address: u64) -> ! {
        peek(address);
        park()
    }
    let fault = receive(Spawn::watched(reader, USER_END).start()?, Timeout::Never)?;
    same!("kind, address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, USER_END));
    mapping::unmap(window, UNMAP_RIGHTS | UNMAP_FLUSH)?;
    Ok(())
}
