// SPDX-License-Identifier: BSD-2-Clause
//! The upper half of a space: everything works there as in the lower one, for tasks that may have
//! memory there, and nothing of the µ-kernel's own part of it is reached.

use crate::alien::{code_bases, code_flags, code_load, code_syscall, Alien};
use crate::case::{Case, Fault, Outcome};
use crate::pool::{cell, page, pages, peek, poke, reset_stacks, task_number, PAGE, WINDOW};
use crate::post::{failed, Job, Post};
use crate::threads::{base_priority, child_plan, make_child, park, pause, remove, remove_task, Main, Spawn, QUOTA};
use crate::topics::exceptions::{field, FRAME_TAG};
use crate::topics::exchange::switch_calls;
use crate::topics::fpu::get as fpu_get;
use crate::topics::hardening::{calls_from, page_with_last_call};
use crate::topics::maps::{item, map_here, one};
use crate::topics::strings::{arrived, fill, item as string, passes};
use crate::topics::tasks::used;
use crate::topics::window::{fault_at, slot};
use crate::{holds, refused, same};
use core::mem::offset_of;
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::*;
use keel_l4::abi::programs::*;
use keel_l4::abi::{ExRegs, Frame, MapItem, StringItem, UnmapRange, Utcb};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, send_and_wait, wait, Message, Timeout};
use keel_l4::mapping::{move_in, unmap, unmap_in};
use keel_l4::protocol::status::ERROR_DENIED;
use keel_l4::task::{create, create_empty, hand_over, NewTask};
use keel_l4::{sigma0, thread, utcb, Error, Fpage, Id, Side, Tag};

pub const CASES: &[Case] = &[
    ("pages-at-the-edges", edges),
    ("nothing-beyond-them", beyond),
    ("large-pages-at-the-end", large_pages),
    ("a-whole-half-into-it", whole_half),
    ("mapped-and-granted-from-there", from_there),
    ("nothing-from-the-kernel's-pages", from_the_kernel),
    ("unmapped-with-the-rest", unmapped),
    ("a-table-moves-there", table_moves),
    ("faults-and-answers", faults),
    ("tasks-without-the-right", without_right),
    ("the-right-comes-from-the-creator", right_of_creator),
    ("too-little-memory-for-it", little_memory),
    ("aliens-run-there", aliens),
    ("natives-call-from-its-last-bytes", natives),
    ("upcalls-to-an-entry", upcalls),
    ("a-native-thread-is-sent-there", sent_there),
    ("stack-and-bases", stack_and_bases),
    ("strings", strings),
    ("strings-with-page-faults", string_faults),
    ("strings-not-of-the-kernel", kernel_strings),
    ("fpu-buffer", fpu_buffer),
];

/// A place in the middle.
const PLACE: u64 = 0xffff_e000_0000_0000;
/// The last page, which is never mapped.
const LAST: u64 = 0u64.wrapping_sub(PAGE);
/// The first address of the half.
const HALF: u64 = !0 << HALF_SHIFT;
/// The µ-kernel's text: at its link address, and in its map of physical memory.
const KERNEL: [u64; 2] = [0xffff_ffff_8010_0000, 0xffff_8000_0010_0000];
/// Where the processors' own memory is.
const PROCESSORS: u64 = 0xffff_c000_0000_1000;
const SUPERPAGE_LOG2: u8 = 21;
const SUPERPAGE: u64 = 1 << SUPERPAGE_LOG2;

fn flush(place: u64, log2: u8) -> Result<u64, Failure> {
    unmap(Fpage::memory(place, log2, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)
}

/// Maps a new page of this task's to `place`; its address.
fn put(place: u64) -> Result<u64, Fault> {
    let from = page();
    let came = map_here(item(0, one(from, FPAGE_RWX)), one(place, FPAGE_RWX))?;
    same!("place, fpage", (came.send_base, Fpage(came.fpage).base()), (place, number(place)));
    Ok(from)
}

fn edges() -> Outcome {
    for place in [UPPER_START, PLACE, AREA_UPPER, UPPER_END - PAGE, UPPER_LAST, LAST - PAGE] {
        let from = put(place)?;
        // SAFETY: the page is this case's own.
        unsafe { poke(place + 8, place) };
        same!("what was written there", peek(from + 8), place);
        unmap(one(from, FPAGE_RWX), FPAGE_WRITE)?;
        same!("after its rights went", fault_at(place)?, 1);
        same!("what is read there", peek(place + 8), place);
        unmap(one(from, FPAGE_RWX), UNMAP_RIGHTS)?;
        same!("after it was unmapped", fault_at(place)?, 0);
    }
    Ok(())
}

fn beyond() -> Outcome {
    let from = page();
    for place in [
        USER_END,
        HALF,
        PROCESSORS,
        UPPER_START - PAGE,
        UPPER_END,
        KERNEL[0] - PAGE,
        KERNEL[0],
        KERNEL[1],
        0xffff_ffff_8000_0000,
        UPPER_LAST - PAGE,
        LAST,
    ] {
        for grant in [0, MAP_GRANT] {
            let came = map_here(item(grant, one(from, FPAGE_RWX)), one(place, FPAGE_RWX))?;
            same!(format_args!("what came at {place:#x}"), came.fpage, 0);
        }
    }
    holds!("the page stays", peek(from) == 0);
    Ok(())
}

fn large_pages() -> Outcome {
    let from = Fpage::memory(WINDOW, SUPERPAGE_LOG2, FPAGE_RWX);
    sigma0::any(Fpage::memory(0, SUPERPAGE_LOG2, FPAGE_RWX), from)?;
    for (first, size) in [
        (UPPER_START, SUPERPAGE),
        (UPPER_END - SUPERPAGE, SUPERPAGE),
        (UPPER_LAST, SUPERPAGE),
        (0u64.wrapping_sub(SUPERPAGE), SUPERPAGE - PAGE),
    ] {
        let window = Fpage::memory(first, SUPERPAGE_LOG2, FPAGE_RWX);
        same!("where it comes", map_here(item(0, from), window)?.send_base, first);
        for offset in [0, size - 8] {
            // SAFETY: the memory is this case's own.
            unsafe { poke(first + offset, first + offset) };
            same!("a word", peek(WINDOW + offset), first + offset);
        }
        flush(first + SUPERPAGE / 2, 12)?;
        same!("a page in the middle, after it went", fault_at(first + SUPERPAGE / 2)?, 0);
        same!("its neighbour", peek(first), first);
        flush(first, SUPERPAGE_LOG2)?;
        same!("after all of it went", fault_at(first)?, 0);
    }
    same!("the last page", fault_at(LAST)?, 0);
    Ok(())
}

/// The window has the µ-kernel's pages at the addresses where the sender has its own.
fn whole_half() -> Outcome {
    let lower = Fpage::memory(0, HALF_SHIFT as u8, FPAGE_RWX);
    let upper = Fpage::memory(HALF, HALF_SHIFT as u8, FPAGE_RWX);
    same!("nothing comes", map_here(item(0, lower), upper)?.fpage, 0);
    // From the whole space only what is in the window's place could come.
    same!("nothing comes", map_here(item(0, Fpage::WHOLE), one(KERNEL[0], FPAGE_RWX))?.fpage, 0);
    Ok(())
}

fn from_there() -> Outcome {
    let from = put(PLACE)?;
    // SAFETY: the page is this case's own.
    unsafe { poke(from, 5) };
    for (number, grant) in [(0, 0), (1, MAP_GRANT)] {
        let came = map_here(item(grant, one(PLACE, FPAGE_RWX)), slot(number))?;
        same!("place", came.send_base, WINDOW + number * PAGE);
        same!("what is there", peek(WINDOW + number * PAGE), 5);
    }
    same!("after the grant", fault_at(PLACE)?, 0);
    same!("granted back", map_here(item(MAP_GRANT, slot(1)), one(UPPER_LAST, FPAGE_RWX))?.send_base, UPPER_LAST);
    same!("what is there", peek(UPPER_LAST), 5);
    unmap(one(from, FPAGE_RWX), UNMAP_RIGHTS)?;
    same!("after it was unmapped", fault_at(UPPER_LAST)?, 0);
    Ok(())
}

fn from_the_kernel() -> Outcome {
    for place in KERNEL.into_iter().chain([HALF, PROCESSORS, LAST, AREA_DEFAULT]) {
        for grant in [0, MAP_GRANT] {
            let came = map_here(item(grant, one(place, FPAGE_RWX)), slot(0))?;
            same!(format_args!("what came from {place:#x}"), came.fpage, 0);
            // The same page, as a part of all there is.
            let came = map_here(item(number(place) | grant, Fpage::WHOLE), slot(0))?;
            same!(format_args!("what came of all at {place:#x}"), came.fpage, 0);
        }
        same!("state", unmap(one(place, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?, 0);
    }
    same!("nothing is there", fault_at(WINDOW)?, 0);
    Ok(())
}

/// A task that may have memory in the upper half.
fn upper_task(quota: u64) -> Result<(Id, u32), Failure> {
    let number = task_number();
    let plan = NewTask { number, max_priority: base_priority(), quota, upper_half: true, ..NewTask::default() };
    Ok((create_empty(&plan)?, number))
}

/// An alien thread of such a task that loads from `place`, where it has faulted. No page may be
/// there.
fn loads_from(place: u64) -> Result<Alien, Fault> {
    let (task, number) = upper_task(QUOTA)?;
    let alien = Alien::in_task(task, number, code_load, |f| f.di = place)?;
    let fault = alien.start()?;
    let access = (fault.tag.kind(), fault.tag.label() as u64, fault.words[0], fault.words[3]);
    same!("kind, access, address, cause", access, (KIND_PAGE_FAULT, FPAGE_READ, place, 0));
    Ok(alien)
}

/// Answers a fault of `alien` with the page `from` at `place`.
fn answer(alien: &Alien, from: u64, place: u64) -> Result<u32, Failure> {
    let item = MapItem { send_base: place, fpage: one(from, FPAGE_RWX).0 };
    let got = call(alien.id, Message::label(0).with_maps(&[item]))?;
    alien.serve(got).map(|got| got.tag.kind() as u32)
}

fn unmapped() -> Outcome {
    let range = |first: u64, last: u64| UnmapRange { address: first, pages: (last - first) / PAGE };
    for range in [range(0, 1 << SPACE_SHIFT), range(number(HALF), 1 << SPACE_SHIFT)] {
        for place in [PLACE, UPPER_LAST] {
            let alien = loads_from(place)?;
            same!("after the answer", answer(&alien, page(), place)?, KIND_SYSCALL as u32);
            unmap_in(alien.task, &[range])?;
            // Its code may be gone as well.
            let again = alien.resume()?;
            same!("kind, address", (again.tag.kind(), again.words[0]), (KIND_PAGE_FAULT, place));
            remove_task(alien.number)?;
        }
    }
    Ok(())
}

fn table_moves() -> Outcome {
    const TABLE_PAGES: u64 = SUPERPAGE / PAGE;
    let alien = loads_from(PLACE)?;
    let from = page();
    answer(&alien, from, PLACE)?;
    let range = |place| UnmapRange { address: number(place), pages: TABLE_PAGES };
    move_in(alien.task, range(PLACE), number(UPPER_LAST))?;
    alien.edit(|f| f.di = UPPER_LAST);
    same!("where it is now", alien.resume()?.tag.kind(), KIND_SYSCALL);
    move_in(alien.task, range(UPPER_LAST), WINDOW)?;
    alien.edit(|f| f.di = WINDOW);
    same!("in the lower half", alien.resume()?.tag.kind(), KIND_SYSCALL);
    for place in [HALF, KERNEL[0], KERNEL[1], UPPER_END, 0u64.wrapping_sub(SUPERPAGE)] {
        // What cannot be moved is unmapped.
        move_in(alien.task, range(WINDOW), number(place) / SUPERPAGE * SUPERPAGE)?;
        let fault = alien.resume()?;
        same!("kind, address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, WINDOW));
        same!("after the answer", answer(&alien, from, WINDOW)?, KIND_SYSCALL as u32);
    }
    for place in KERNEL {
        move_in(alien.task, range(place / SUPERPAGE * SUPERPAGE), number(PLACE))?;
    }
    alien.edit(|f| f.di = PLACE);
    same!("nothing came from the kernel", alien.resume()?.tag.kind(), KIND_PAGE_FAULT);
    Ok(())
}

fn faults() -> Outcome {
    for place in [UPPER_START, PLACE, UPPER_END - PAGE, UPPER_LAST, LAST - PAGE] {
        let alien = loads_from(place)?;
        let from = page();
        // SAFETY: the page is this case's own.
        unsafe { poke(from, place) };
        same!("after the answer", answer(&alien, from, place)?, KIND_SYSCALL as u32);
        same!("what it read", alien.regs().ax, place);
        remove_task(alien.number)?;
    }
    for place in [UPPER_START - PAGE, UPPER_END, UPPER_LAST - PAGE, LAST] {
        let alien = loads_from(place)?;
        same!("after an answer that maps nothing", answer(&alien, page(), place)?, KIND_PAGE_FAULT as u32);
        remove_task(alien.number)?;
    }
    Ok(())
}

fn without_right() -> Outcome {
    for place in [PLACE, UPPER_LAST] {
        let alien = Alien::new(code_load, |f| f.di = place)?;
        same!("the fault's address", alien.start()?.words[0], place);
        same!("after an answer", answer(&alien, page(), place)?, KIND_PAGE_FAULT as u32);
        move_in(alien.task, UnmapRange { address: 0, pages: SUPERPAGE / PAGE }, number(PLACE))?;
        same!("the lower half", answer(&alien, page(), WINDOW)?, KIND_PAGE_FAULT as u32);
        alien.edit(|f| f.di = WINDOW);
        same!("there it has a page", alien.resume()?.tag.kind(), KIND_SYSCALL);
        remove_task(alien.number)?;
    }
    Ok(())
}

/// Creates an idle task with the right at the number in its argument, and stores the result in cell
/// 1.
extern "C" fn creator(number: u64) -> ! {
    let plan = NewTask { number: number as u32, upper_half: true, ..NewTask::default() };
    cell(1).store(create_empty(&plan).map_or_else(|failure| failure.error as u64, |_| 1000), SeqCst);
    park()
}

fn right_of_creator() -> Outcome {
    for (upper_half, expected) in [(true, 1000), (false, ERROR_DENIED)] {
        let number = task_number();
        let child = make_child(&NewTask { upper_half, ..child_plan(creator, number as u64) })?;
        hand_over(number, 0, child.task)?;
        cell(1).store(0, SeqCst);
        pause(20_000_000);
        same!("what the child got", cell(1).load(SeqCst), expected);
        remove_task(child.number)?;
    }
    Ok(())
}

/// Its table costs memory; without it nothing is left over.
fn little_memory() -> Outcome {
    const MOST: u64 = 24;
    let before = used()?[ACCOUNT_USED as usize];
    let mut made = 0;
    for quota in 1..MOST {
        let plan = NewTask { quota, upper_half: true, ..child_plan(creator, 0) };
        match create(&plan) {
            Ok(_) => {
                made += 1;
                remove_task(plan.number)?;
            }
            Err(failure) => same!("error", failure.error, Error::NoMemory),
        }
    }
    holds!("some were refused, some not", made > 0 && made < MOST - 1);
    same!("used pages", used()?[ACCOUNT_USED as usize], before);
    Ok(())
}

/// Two bytes of a call, and a jump back to it.
const CODE: u64 = 0xfceb_050f;

fn aliens() -> Outcome {
    for place in [PLACE, UPPER_LAST, LAST - PAGE] {
        let (task, number) = upper_task(QUOTA)?;
        let alien = Alien::in_task(task, number, code_syscall, |f| f.ip = place)?;
        let fault = alien.start()?;
        same!("access, address", (fault.tag.label() as u64, fault.words[0]), (FPAGE_EXEC, place));
        sigma0::any(Fpage::memory(0, 12, FPAGE_RWX), slot(0))?;
        // SAFETY: the page is this case's own.
        unsafe { poke(WINDOW, CODE) };
        same!("after the answer", answer(&alien, WINDOW, place)?, KIND_SYSCALL as u32);
        for _ in 0..3 {
            let got = alien.resume()?;
            same!("kind, ip", (got.tag.kind(), got.words[1]), (KIND_SYSCALL, place + 2));
        }
        // An exit by IRET.
        alien.edit(|f| f.cx = 0);
        same!("ip", alien.resume()?.words[1], place + 2);
        remove_task(alien.number)?;
    }
    Ok(())
}

/// The ip after the call is the first address beyond the range.
fn natives() -> Outcome {
    for end in [PLACE + PAGE, UPPER_END, LAST] {
        let fault = calls_from(end - 2)?;
        let called = send_and_wait(fault.from, page_with_last_call(end - 2)?, Timeout::Zero, Timeout::Never)?;
        same!("kind, sender", (called.tag.kind(), called.from), (KIND_USER, fault.from));
        let fault = send_and_wait(fault.from, Message::label(0), Timeout::Zero, Timeout::Never)?;
        same!("kind, address, ip", (fault.tag.kind(), fault.words[0], fault.words[1]), (KIND_PAGE_FAULT, end, end));
        remove(fault.from)?;
        flush(end - PAGE, 12)?;
    }
    Ok(())
}

/// The number of a system call that L4 does not have. An alien thread could send a message by it.
const ANOTHER_SYSTEMS: u64 = CALL_HANDLER | 39;

/// A wait for anybody in L4, and a call without a partner, which another system may have, too.
const OPEN_WAIT: u64 = CALL_IPC | IPC_RECEIVE | IPC_OPEN;

extern "C" fn calls_of_another_system(number: u64) -> ! {
    // SAFETY: the kernel, or the worker, lets the thread go on after it.
    unsafe { core::arch::asm!("syscall", in("rax") number, lateout("rax") _, out("rcx") _, out("r11") _) };
    park()
}

extern "C" fn writes(address: u64) -> ! {
    // SAFETY: the case expects a fault here.
    unsafe { poke(address, 0) };
    park()
}

extern "C" fn undefined(_: u64) -> ! {
    // SAFETY: the thread goes on elsewhere.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}

/// Goes to 32-bit code, which raises #UD there.
extern "C" fn narrow(_: u64) -> ! {
    // SAFETY: the thread goes on elsewhere.
    unsafe {
        core::arch::asm!("lea rax, [rip + 2f]", "push {cs}", "push rax", "mov dword ptr [rsp + 4], {cs}",
            "jmp fword ptr [rsp]", "2: ud2", cs = const USER_CS32, options(noreturn))
    }
}

/// The selector of 32-bit code.
const USER_CS32: u64 = 0x23;

/// UD2: the entry's registers become a message to the worker.
const UNDEFINED: u64 = 0x0b0f;

/// RF: QEMU leaves it out where hardware and Bochs push it with a fault.
const FLAG_RESUME: u64 = 1 << 16;

/// A word of another thread's UTCB.
fn word_of(id: Id, index: usize) -> u64 {
    let page = (id.lthread() as u64).wrapping_sub(utcb::my_id().lthread() as u64).wrapping_mul(PAGE);
    peek((utcb::address() as u64).wrapping_add(page) + (offset_of!(Utcb, words) + 8 * index) as u64)
}

/// What a thread gets at its entry, whose code says so to the worker: kind, label and first word of
/// the message from itself. Its UTCB has its registers.
fn called_up(id: Id) -> Result<(u64, u64, u64), Fault> {
    let got = wait(Timeout::Never)?;
    same!("sender", got.from, id);
    same!("where it went on", (got.tag.kind(), got.words[1]), (KIND_EXCEPTION, PLACE));
    same!("from itself", (field(offset_of!(Frame, ax)), field(offset_of!(Frame, di))), (0, id.0));
    // The processor sets the resume flag for the entry's own fault.
    same!("flags", field(offset_of!(Frame, flags)) & !FLAG_RESUME, 0x202);
    let tag = Tag(field(offset_of!(Frame, si)));
    same!("nothing else in the tag", tag.0, Tag::kernel(tag.kind(), tag.label(), FRAME_TAG.words()).0);
    let ip = word_of(id, REGISTER_WORDS as usize + offset_of!(Frame, ip) / 8);
    same!("words, its ip", (tag.words(), ip), (FRAME_TAG.words(), field(offset_of!(Frame, r9))));
    holds!("it was in the lower half", ip >> HALF_SHIFT == 0);
    Ok((tag.kind(), tag.label() as u64, field(offset_of!(Frame, r8))))
}

/// With an entry in the upper half a native thread gets its faults, exceptions, triggers and calls
/// from the lower half itself. Its calls from the upper half are L4's, and its faults there are its
/// handler's, also if it is its own pager.
fn upcalls() -> Outcome {
    let fault = calls_from(PLACE + PAGE - 2)?;
    same!("as before", switch_calls(fault.from, PLACE)?, DISPATCH_ON);
    let called = send_and_wait(fault.from, page_with_last_call(PLACE + PAGE - 2)?, Timeout::Zero, Timeout::Never)?;
    same!("from the upper half", (called.tag.kind(), called.from), (KIND_USER, fault.from));
    remove(fault.from)?;
    flush(PLACE, 12)?;
    let unmapped = page();
    flush(unmapped, 12)?;
    sigma0::any(Fpage::memory(0, 12, FPAGE_RWX), slot(0))?;
    // SAFETY: the page is this case's own.
    unsafe { poke(WINDOW, UNDEFINED) };
    for (main, argument, its_own, mask, expected) in [
        (calls_of_another_system as Main, ANOTHER_SYSTEMS, true, 0, (KIND_SYSCALL, GATE_SYSCALL, ANOTHER_SYSTEMS)),
        (calls_of_another_system, OPEN_WAIT, true, 0, (KIND_SYSCALL, GATE_SYSCALL, OPEN_WAIT)),
        (writes, unmapped, true, 0, (KIND_PAGE_FAULT, FPAGE_WRITE, unmapped)),
        (undefined, 0, false, 0, (KIND_EXCEPTION, 6, 0)),
        (narrow, 0, true, 0, (KIND_EXCEPTION, 6, 0)),
        (undefined, 0, true, EX_TRIGGER, (KIND_TRIGGER, 0, 0)),
    ] {
        let id = Spawn::watched(main, argument).create()?;
        same!("as before", switch_calls(id, PLACE)?, DISPATCH_ON);
        let mut record = ExRegs::zeroed();
        record.pager = if its_own { id.0 } else { utcb::my_id().0 };
        thread::exchange(id, EX_PAGER | mask, &mut record)?;
        thread::act(id, EX_START)?;
        let fault = wait(Timeout::Never)?;
        same!("its handler's", (fault.from, fault.tag.kind()), (id, KIND_PAGE_FAULT));
        same!("address, ip", (fault.words[0], fault.words[1]), (PLACE, PLACE));
        map_here(item(0, one(WINDOW, FPAGE_RWX)), one(PLACE, FPAGE_RWX))?;
        send(id, Message::label(0), Timeout::Zero)?;
        same!("kind, label, first word", called_up(id)?, expected);
        remove(id)?;
        flush(PLACE, 12)?;
    }
    Ok(())
}

extern "C" fn waiting(_: u64) -> ! {
    let _ = wait(Timeout::Never);
    park()
}

/// The message to it takes the fast path.
fn sent_there() -> Outcome {
    for ip in KERNEL.into_iter().chain([PLACE, UPPER_LAST, LAST, u64::MAX]) {
        let id = Spawn::watched(waiting, 0).start()?;
        pause(1_000_000);
        let mut record = ExRegs::zeroed();
        record.ip = ip;
        thread::exchange(id, EX_IP, &mut record)?;
        let fault = call(id, Message::new(0, &[1]))?;
        same!("kind, address, ip", (fault.tag.kind(), fault.words[0], fault.words[1]), (KIND_PAGE_FAULT, ip, ip));
        remove(id)?;
    }
    Ok(())
}

fn stack_and_bases() -> Outcome {
    let (task, number) = upper_task(QUOTA)?;
    let alien = Alien::in_task(task, number, code_flags, |f| f.sp = PLACE + PAGE)?;
    same!("the stack's fault", alien.start()?.words[0], PLACE + PAGE - 8);
    same!("after the answer", answer(&alien, page(), PLACE)?, KIND_SYSCALL as u32);
    let from = page();
    // SAFETY: the page is this case's own.
    unsafe { poke(from, 0xba5e) };
    alien.edit(|f| {
        f.ip = code_bases as *const () as u64;
        (f.fs_base, f.gs_base) = (UPPER_LAST, UPPER_LAST);
    });
    same!("the base's fault", alien.resume()?.words[0], UPPER_LAST);
    same!("after the answer", answer(&alien, from, UPPER_LAST)?, KIND_SYSCALL as u32);
    same!("what fs and gs reach", (alien.regs().ax, alien.regs().bx), (0xba5e, 0xba5e));
    Ok(())
}

/// Maps two new pages to `place`; their address.
fn put_two(place: u64) -> Result<u64, Failure> {
    let from = pages(2);
    map_here(item(0, Fpage::memory(from, 13, FPAGE_RWX)), Fpage::memory(place, 13, FPAGE_RWX))?;
    Ok(from)
}

fn strings() -> Outcome {
    let (from, to) = (put_two(PLACE)?, put_two(UPPER_LAST)?);
    fill(PLACE, 2 * PAGE);
    for (sent, buffer, queued) in [(PLACE, to, false), (PLACE, UPPER_LAST, true), (from, UPPER_LAST, false)] {
        let size = PAGE + 100;
        passes(&[string(sent + 9, size)], &[string(buffer + 7, size)], queued, &[string(buffer + 7, size)])?;
        if sent == PLACE {
            arrived(sent + 9, buffer + 7, size)?;
        }
    }
    // The last byte that can be sent.
    put(LAST - PAGE)?;
    passes(&[string(LAST - 1, 1)], &[string(to, 1)], false, &[string(to, 1)])
}

fn string_faults() -> Outcome {
    let from = page();
    fill(from, PAGE);
    let me = utcb::my_id();
    let (sender, receiver) = (Post::paged_by(me, 0)?, Post::create(1)?);
    let to = page();
    receiver.start_and_wait(Job::receive(sender.id, &[string(to, 8)]).within(Timeout::Never))?;
    sender.start(Job::send(receiver.id, &[string(PLACE + 16, 8)]))?;
    let fault = receive(sender.id, Timeout::Never)?;
    same!("kind, address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, PLACE + 16));
    let item = MapItem { send_base: PLACE, fpage: one(from, FPAGE_READ).0 };
    send(sender.id, Message::label(0).with_maps(&[item]), Timeout::Zero)?;
    same!("both statuses", (sender.end()?.status, receiver.end()?.status), (Ok(()), Ok(())));
    same!("what came", peek(to), peek(from + 16));
    Ok(())
}

/// To the sender or receiver such pages are missing ones.
fn kernel_strings() -> Outcome {
    let own = page();
    let meet = |from: StringItem, to: StringItem| {
        let (sender, receiver) = (Post::create(0)?, Post::create(1)?);
        let job = Job::receive(sender.id, &[to]).within(Timeout::Zero);
        receiver.start_and_wait(job)?;
        sender.start(Job::send(receiver.id, &[from]).within(Timeout::Zero))?;
        let ends = (sender.end()?, receiver.end()?);
        remove(sender.id)?;
        remove(receiver.id)?;
        reset_stacks();
        Ok::<_, Fault>(ends)
    };
    for place in KERNEL.into_iter().chain([HALF, PROCESSORS, LAST]) {
        let part: StringItem = string(place, 8);
        let (sent, got) = meet(part, string(own, 8))?;
        let missing = (failed(Side::Send, Error::ReceiveFault), failed(Side::Receive, Error::ReceiveFault));
        same!("statuses of a string there", (sent.status, got.status), missing);
        let (sent, got) = meet(string(own, 8), part)?;
        let missing = (failed(Side::Send, Error::SendFault), failed(Side::Receive, Error::SendFault));
        same!("statuses of a buffer there", (sent.status, got.status), missing);
    }
    same!("what came", peek(own), 0);
    Ok(())
}

fn fpu_buffer() -> Outcome {
    let from = put_two(PLACE)?;
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start()?;
    for offset in [0, PAGE - 64] {
        holds!("bytes", fpu_get(alien.id, PLACE + offset)? > 0);
        same!("the control word", peek(from + offset) & 0xffff, 0x37f);
    }
    for place in KERNEL.into_iter().chain([HALF, LAST]) {
        refused!("a state there", fpu_get(alien.id, place), Call Invalid);
    }
    Ok(())
}
