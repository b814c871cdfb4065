// SPDX-License-Identifier: BSD-2-Clause
//! Small address spaces, the interface: what threads reach, windows and their ends, promotion.
//!
//! The other files of the topic have messages (`small_ipc`), memory (`small_memory`), attacks
//! (`small_attacks`) and several processors (`small_processors`).

use crate::alien::address;
use crate::case::{Case, Fault, Outcome};
use crate::pool::{page, task_number, PAGE};
use crate::small::*;
use crate::small_code::*;
use crate::threads::{base_priority, helper, park, remove, remove_task, QUOTA};
use crate::topics::tasks::used;
use crate::{holds, refused, same};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{FPAGE_RWX, FPAGE_WRITE};
use keel_l4::abi::memory::*;
use keel_l4::abi::programs::*;
use keel_l4::abi::{ExRegs, MapItem};
use keel_l4::call::Failure;
use keel_l4::ipc::{receive, send, Message, Timeout};
use keel_l4::kip::kip;
use keel_l4::task::{create_empty, NewTask};
use keel_l4::thread::{reach, set_reach, NewThread};
use keel_l4::{kernel_object, mapping, sigma0, thread, utcb, Error, Fpage, Id};

/// Where neither segments have limits nor windows are wanted all the same.
pub const REFUSED: &[Case] = &[("refused-without-limits", refused_without_limits)];

pub const CASES: &[Case] = &[
    ("a-new-thread-reaches-all", new_reaches_all),
    ("what-is-no-reach", no_reach),
    ("no-such-thread-and-no-such-host", nobody),
    ("only-the-chief", only_the_chief),
    ("no-host-of-others", no_host_of_others),
    ("no-host-with-lthreads", no_host_with_lthreads),
    ("no-task-with-an-upper-half", no_upper_half),
    ("one-window-a-task", one_window),
    ("windows-do-not-overlap", no_overlap),
    ("not-where-the-host-has-memory", host_has_memory),
    ("the-same-window-again", same_again),
    ("windows-of-every-size", every_size),
    ("windows-in-one-gigabyte", in_one_gigabyte),
    ("windows-in-several-gigabytes", in_several_gigabytes),
    ("first-and-last-window-of-a-home", edges_of_a_home),
    ("closes-with-its-last-thread", closes_with_last),
    ("closes-when-its-threads-leave", closes_when_left),
    ("closes-with-its-task", closes_with_task),
    ("one-thread-inside-one-outside", one_outside),
    ("all-of-its-own-space", all_of_its_own),
    ("back-to-64-bits", back_to_64_bits),
    ("a-home-dies-with-members", home_dies),
    ("no-lthread-in-a-home-with-members", no_lthread_in_a_home),
    ("no-memory-for-a-window", no_memory),
    ("memory-in-a-window-is-refused", memory_refused),
    ("unmapping-the-host-leaves-windows", unmap_leaves_windows),
    ("nothing-is-left", nothing_left),
    ("kernel-area-below-4-gb", small_area),
    ("kernel-areas-that-are-none", bad_areas),
    ("promoted-by-a-load", by_load),
    ("promoted-by-a-store", by_store),
    ("promoted-by-a-push", by_push),
    ("promoted-by-a-call", by_call),
    ("demoted-and-promoted-again", demoted),
    ("a-true-exception-comes-once", true_exception),
    ("exceptions-without-promotion", exceptions),
    ("an-alien-thread-is-promoted", alien_promoted),
    ("an-alien-thread-calls-its-handler", alien_calls),
    ("registers-stay-when-windows-change", registers_stay),
    ("a-debug-register-in-the-window", watched_inside),
    ("processor-number-by-its-segment", processor_number),
];

/// What a window's word is after its thread was promoted.
pub const PROMOTED: u64 = SMALL_ALL | SMALL_PROMOTED;

fn refused_without_limits() -> Outcome {
    let mut small = Small::empty(USUAL)?;
    small.make(1)?;
    for wanted in [USUAL, SMALL_ALL] {
        refused!("a reach", set_reach(small.thread, wanted, Id::NIL), Call NotSupported);
    }
    same!("64 bits, as it has", set_reach(small.thread, SMALL_NONE, Id::NIL)?, SMALL_NONE);
    same!("no limits", kip().features & FEATURE_SEGMENT_LIMITS, 0);
    Ok(())
}

/// Whether windows can be opened on this machine.
pub fn is_supported() -> bool {
    // The worker's own thread is not its task's chief, which is looked at later.
    set_reach(utcb::my_id(), SMALL_ALL, Id::NIL) != Err(Failure::call(Error::NotSupported))
}

fn new_reaches_all() -> Outcome {
    let mut small = Small::empty(USUAL)?;
    small.make(1)?;
    same!("at first", small.reach_now()?, SMALL_NONE);
    same!("returned", set_reach(small.thread, USUAL, Id::NIL)?, SMALL_NONE);
    same!("read", small.reach_now()?, USUAL);
    same!("returned again", set_reach(small.thread, SMALL_ALL, Id::NIL)?, USUAL);
    same!("returned at last", set_reach(small.thread, SMALL_NONE, Id::NIL)?, SMALL_ALL);
    same!("the worker itself", reach(utcb::my_id())?, SMALL_NONE);
    Ok(())
}

fn no_reach() -> Outcome {
    let mut small = Small::empty(USUAL)?;
    small.make(1)?;
    let log2s = [1, 12, SMALL_MIN_LOG2 - 1, SMALL_MAX_LOG2 + 1, 31, 33, 63, 255].map(|log2| WINDOW | log2);
    let unaligned = [WINDOW | 29, WINDOW | 30, WINDOW + 4096 + LOG2, WINDOW + (1 << 24) | 25, 1 << 24 | 25];
    let high = [1 << 32 | LOG2, 1 << 63 | LOG2, u64::MAX, 1 << 32 | SMALL_ALL];
    let others =
        [1, 16, 31, 33, SMALL_PROMOTED, SMALL_PROMOTED | SMALL_ALL, SMALL_PROMOTED | USUAL, WINDOW, WINDOW | 32];
    for word in log2s.into_iter().chain(unaligned).chain(high).chain(others) {
        match set_reach(small.thread, word, Id::NIL) {
            Err(failure) if failure == Failure::call(Error::Invalid) => {}
            got => return Err(Fault::new(format_args!("{word:#x}: expected Invalid, got {got:x?}"))),
        }
    }
    same!("its reach", small.reach_now()?, SMALL_NONE);
    Ok(())
}

fn nobody() -> Outcome {
    let mut small = Small::empty(USUAL)?;
    refused!("no thread", set_reach(thread::first_of(small.task), USUAL, Id::NIL), Call NoPartner);
    small.make(1)?;
    let (task, number) = home()?;
    remove_task(number)?;
    refused!("a host that is gone", set_reach(small.thread, USUAL, task), Call NoPartner);
    refused!("no host", set_reach(small.thread, USUAL, Id::INVALID), Call NoPartner);
    same!("its reach", small.reach_now()?, SMALL_NONE);
    Ok(())
}

extern "C" fn idle(_: u64) -> ! {
    park()
}

fn only_the_chief() -> Outcome {
    let own = helper(idle, 0)?;
    for wanted in [USUAL, SMALL_ALL, SMALL_NONE] {
        refused!("of the own task", set_reach(own, wanted, Id::NIL), Call Denied);
    }
    refused!("of another clan", set_reach(Id::ROOT, USUAL, Id::NIL), Call Denied);
    Ok(())
}

fn no_host_of_others() -> Outcome {
    let mut small = Small::empty(USUAL)?;
    small.make(1)?;
    for host in [Id::ROOT, Id::SIGMA0] {
        refused!("a host", set_reach(small.thread, USUAL, thread::task_of(host)), Call Denied);
    }
    Ok(())
}

fn no_host_with_lthreads() -> Outcome {
    let mut small = Small::empty(USUAL)?;
    small.make(1)?;
    refused!("the task itself", set_reach(small.thread, USUAL, small.task), Call Denied);
    let sibling = crate::threads::child(idle, 0)?;
    refused!("a sibling", set_reach(small.thread, USUAL, sibling.task), Call Denied);
    Ok(())
}

fn no_upper_half() -> Outcome {
    let plan = NewTask {
        number: task_number(),
        max_priority: base_priority(),
        quota: QUOTA,
        area: AREA_UPPER,
        upper_half: true,
        ..NewTask::default()
    };
    match create_empty(&plan) {
        Ok(task) => {
            let me = utcb::my_id();
            let new = NewThread { task, number: 1, ip: 0, sp: 0, pager: me, handler: me, argument: 0 };
            let thread = new.create()?;
            refused!("a window", set_reach(thread, USUAL, Id::NIL), Call Denied);
            refused!("32 bits", set_reach(thread, SMALL_ALL, Id::NIL), Call Denied);
            Ok(())
        }
        // The suite itself may have none to give.
        Err(failure) => {
            same!("the only reason", failure, Failure::call(Error::Denied));
            Ok(())
        }
    }
}

fn one_window() -> Outcome {
    let mut small = Small::new(USUAL)?;
    small.make(LTHREAD)?;
    for other in [WINDOW + SIZE | LOG2, WINDOW | LOG2 + 1, WINDOW + (1 << 28) | LOG2] {
        refused!("another window", set_reach(small.thread, other, Id::NIL), Call Busy);
    }
    let (home, _) = home()?;
    refused!("another host", set_reach(small.thread, USUAL, home), Call Busy);
    same!("its reach", small.reach_now()?, SMALL_NONE);
    same!("the same window", set_reach(small.thread, USUAL, Id::NIL)?, SMALL_NONE);
    Ok(())
}

/// An lthread number for a second thread.
const LTHREAD: u16 = 7;

fn no_overlap() -> Outcome {
    let _first = Small::new(WINDOW + SIZE | LOG2)?;
    let mut small = Small::empty(USUAL)?;
    small.make(1)?;
    for other in [WINDOW + SIZE | LOG2, WINDOW | LOG2 + 1, 0x8000_0000 | 29, 0x8000_0000 | 30] {
        refused!("a window", set_reach(small.thread, other, Id::NIL), Call Busy);
    }
    same!("beside it", set_reach(small.thread, WINDOW | LOG2, Id::NIL)?, SMALL_NONE);
    Ok(())
}

fn host_has_memory() -> Outcome {
    let mut small = Small::empty(LOG2)?;
    small.make(1)?;
    let image = address(crate::alien::code_ud2) >> SMALL_MAX_LOG2 << SMALL_MAX_LOG2;
    for other in [image | SMALL_MAX_LOG2, image + (1 << 29) | LOG2] {
        refused!("where the suite's image is", set_reach(small.thread, other, Id::NIL), Call Busy);
    }
    let before = used()?;
    refused!("once more", set_reach(small.thread, image | LOG2, Id::NIL), Call Busy);
    same!("the account", used()?, before);
    Ok(())
}

fn same_again() -> Outcome {
    let small = Small::new(USUAL)?;
    small.ask(small_store, BLOCKS + BLOCK_BYTES, 7)?;
    for _ in 0..3 {
        same!("returned", set_reach(small.thread, USUAL, Id::NIL)?, USUAL);
        same!("its memory", small.ask(small_load, BLOCKS + BLOCK_BYTES, 0)?, 7);
    }
    Ok(())
}

/// Checks that a task has its last page, and is in its window.
fn reaches_its_end(small: &mut Small, value: u32) -> Outcome {
    let size = 1 << (small.reach & 0xff);
    small.give_new(size - PAGE, value);
    same!("its last word", small.ask(small_load, size - 4, 0)?, value as u64);
    same!("its reach", small.reach_now()?, small.reach);
    Ok(())
}

fn every_size() -> Outcome {
    for log2 in SMALL_MIN_LOG2..=SMALL_MAX_LOG2 {
        let mut small = Small::new(0x8000_0000 | log2)?;
        reaches_its_end(&mut small, log2 as u32)?;
        remove_task(small.number)?;
    }
    check()
}

fn in_one_gigabyte() -> Outcome {
    let mut all = [const { None }; 4];
    for (number, slot) in all.iter_mut().enumerate() {
        *slot = Some(Small::new(0x8000_0000 + ((number as u64) << 28) | 28)?);
    }
    for (number, small) in all.iter_mut().flatten().enumerate() {
        reaches_its_end(small, number as u32)?;
    }
    for (number, small) in all.iter().flatten().enumerate() {
        same!("each its own", small.ask(small_load, (1 << 28) - 4, 0)?, number as u64);
    }
    check()
}

fn in_several_gigabytes() -> Outcome {
    let mut all = [None, None, None];
    for (number, slot) in all.iter_mut().enumerate() {
        *slot = Some(Small::new((number as u64 + 1) << 30 | 24 + 3 * number as u64)?);
    }
    for (number, small) in all.iter_mut().flatten().enumerate() {
        reaches_its_end(small, number as u32 + 70)?;
    }
    for (number, small) in all.iter().flatten().enumerate() {
        let size: u64 = 1 << (small.reach & 0xff);
        same!("each its own", small.ask(small_load, size - 4, 0)?, number as u64 + 70);
    }
    check()
}

fn edges_of_a_home() -> Outcome {
    let (home, number) = home()?;
    let mut first = Small::hosted(LOG2, home)?;
    let mut last = Small::hosted(0xff00_0000 | LOG2, home)?;
    reaches_its_end(&mut first, 1)?;
    reaches_its_end(&mut last, 2)?;
    same!("the first one's", first.ask(small_load, SIZE - 4, 0)?, 1);
    check()?;
    for member in [first.number, last.number, number] {
        remove_task(member)?;
    }
    Ok(())
}

/// Fails unless a window is free, or unless it is not.
fn is_open(window: u64, open: bool) -> Outcome {
    let mut other = Small::empty(window)?;
    other.make(1)?;
    let got = set_reach(other.thread, window, Id::NIL);
    remove_task(other.number)?;
    same!("the window is taken", got == Err(Failure::call(Error::Busy)), open);
    Ok(())
}

fn closes_with_last() -> Outcome {
    let mut small = Small::new(USUAL)?;
    let first = small.thread;
    small.add()?;
    small.begin()?;
    remove(first)?;
    is_open(USUAL, true)?;
    same!("the other thread", small.ask(small_load, BLOCKS + PAGE, 0)?, utcb::my_id().0 & u32::MAX as u64);
    remove(small.thread)?;
    is_open(USUAL, false)?;
    // Its memory is still there, for a thread in another window.
    small.reach = WINDOW + SIZE | LOG2;
    small.add()?;
    small.begin()?;
    same!("as before", small.ask(small_load, BLOCKS + PAGE, 0)?, utcb::my_id().0 & u32::MAX as u64);
    check()
}

fn closes_when_left() -> Outcome {
    let mut small = Small::new(USUAL)?;
    let first = small.thread;
    small.add()?;
    small.begin()?;
    same!("the first leaves", set_reach(first, SMALL_ALL, Id::NIL)?, USUAL);
    is_open(USUAL, true)?;
    same!("the second leaves", set_reach(small.thread, SMALL_ALL, Id::NIL)?, USUAL);
    is_open(USUAL, false)?;
    same!("it is in its own space", small.ask(small_load, BLOCKS, 0)?, utcb::my_id().0 & u32::MAX as u64);
    // Another window, and the same one at last.
    for window in [WINDOW + SIZE | LOG2, USUAL] {
        same!("its reach", set_reach(small.thread, window, Id::NIL)?, SMALL_ALL);
        same!("it is there", small.ask(small_load, BLOCKS, 0)?, utcb::my_id().0 & u32::MAX as u64);
        set_reach(small.thread, SMALL_ALL, Id::NIL)?;
    }
    check()
}

fn closes_with_task() -> Outcome {
    for round in 0..10 {
        let mut small = Small::new(USUAL)?;
        reaches_its_end(&mut small, round)?;
        remove_task(small.number)?;
        crate::pool::reset_tasks();
    }
    is_open(USUAL, false)?;
    check()
}

fn one_outside() -> Outcome {
    let mut inside = Small::new(USUAL)?;
    inside.give_new(SIZE, 0xabc);
    let mut outside = inside;
    outside.add_with(SMALL_ALL)?;
    outside.begin()?;
    same!("beyond the window", outside.ask(small_load, SIZE, 0)?, 0xabc);
    inside.ask(small_store, BLOCKS + BLOCK_BYTES, 5)?;
    same!("what the one inside wrote", outside.ask(small_load, BLOCKS + BLOCK_BYTES, 0)?, 5);
    outside.ask(small_store, BLOCKS + BLOCK_BYTES, 6)?;
    same!("what the one outside wrote", inside.ask(small_load, BLOCKS + BLOCK_BYTES, 0)?, 6);
    same!("their reach", (inside.reach_now()?, outside.reach_now()?), (USUAL, SMALL_ALL));
    Ok(())
}

fn all_of_its_own() -> Outcome {
    let mut small = Small::new(SMALL_ALL)?;
    for (number, at) in [0x3fff_f000, 0x9000_0000, 0xffff_f000].into_iter().enumerate() {
        small.give_new(at, number as u32 + 1);
        same!("a word", small.ask(small_load, at + 8, 0)?, number as u64 + 1);
    }
    same!("its reach", small.reach_now()?, SMALL_ALL);
    // Two of them at once, which are in each other's way nowhere.
    let mut other = Small::new(SMALL_ALL)?;
    other.give_new(0x9000_0000, 77);
    same!("the other's", other.ask(small_load, 0x9000_0000, 0)?, 77);
    same!("its own", small.ask(small_load, 0x9000_0000, 0)?, 2);
    Ok(())
}

/// Has a thread, which waits, go on in 64-bit code of the suite's image, which pushes a word at a
/// place that 32 bits do not name. Returns the address at which it then faults.
fn pushes_far(small: &mut Small) -> Result<u64, Fault> {
    let code = crate::alien::code_flags;
    small.give(address(code) / PAGE * PAGE, address(code) / PAGE * PAGE, FPAGE_RWX);
    let mut record = ExRegs::zeroed();
    (record.ip, record.sp) = (address(code), crate::pool::WINDOW + PAGE);
    thread::exchange(small.thread, EX_IP | EX_SP | EX_CANCEL, &mut record)?;
    let got = small.serve()?;
    same_kind(got.tag.kind(), KIND_PAGE_FAULT)?;
    Ok(got.words[0])
}

fn same_kind(got: u64, expected: u64) -> Outcome {
    same!("kind", got, expected);
    Ok(())
}

fn back_to_64_bits() -> Outcome {
    let mut small = Small::new(USUAL)?;
    same!("its reach", set_reach(small.thread, SMALL_NONE, Id::NIL)?, USUAL);
    is_open(USUAL, false)?;
    same!("where it pushes", pushes_far(&mut small)?, crate::pool::WINDOW + PAGE - 8);
    check()
}

fn home_dies() -> Outcome {
    let (home, number) = home()?;
    let mut first = Small::hosted(USUAL, home)?;
    let second = Small::hosted(WINDOW + SIZE | LOG2, home)?;
    remove_task(number)?;
    for small in [&first, &second] {
        same!("its reach", small.reach_now()?, SMALL_ALL);
        same!("it goes on", small.ask(small_load, BLOCKS, 0)?, utcb::my_id().0 & u32::MAX as u64);
    }
    first.give_new(SIZE, 3);
    same!("beyond what was its window", first.ask(small_load, SIZE, 0)?, 3);
    same!("a window of the suite's", set_reach(first.thread, USUAL, Id::NIL)?, SMALL_ALL);
    same!("there", first.ask(small_load, BLOCKS, 0)?, utcb::my_id().0 & u32::MAX as u64);
    check()
}

fn no_lthread_in_a_home() -> Outcome {
    let (home, _) = home()?;
    let small = Small::hosted(USUAL, home)?;
    let index = crate::pool::frame_index();
    refused!("an lthread", crate::alien::create(home, index, 0), Call Denied);
    remove_task(small.number)?;
    let thread = crate::alien::create(home, index, 0)?;
    let mut late = Small::empty(USUAL)?;
    late.make(1)?;
    refused!("a window there then", set_reach(late.thread, USUAL, home), Call Denied);
    remove(thread)?;
    same!("and without it", set_reach(late.thread, USUAL, home)?, SMALL_NONE);
    Ok(())
}

fn no_memory() -> Outcome {
    let mut small = Small::empty(USUAL)?;
    small.make(1)?;
    let (number, mut refusals) = (task_number(), 0);
    // From the least that a task can have on, one page more each time.
    for quota in 1.. {
        let plan = NewTask { number, max_priority: base_priority(), quota, ..NewTask::default() };
        let Ok(home) = create_empty(&plan) else { continue };
        let before = kernel_object::account(home)?;
        match set_reach(small.thread, USUAL, home) {
            Ok(_) => {
                same!("for a table, and for the one above it", refusals, 2);
                return check();
            }
            Err(failure) => {
                refusals += 1;
                same!("the error", failure, Failure::call(Error::NoMemory));
            }
        }
        same!("the account", kernel_object::account(home)?, before);
        same!("its reach", small.reach_now()?, SMALL_NONE);
        check()?;
    }
    Ok(())
}

/// Sends the page at its argument to the thread in cell 31.
extern "C" fn giver(from: u64) -> ! {
    let to = Id(crate::pool::cell(31).load(core::sync::atomic::Ordering::SeqCst));
    let item = MapItem { send_base: 0, fpage: Fpage::memory(from, 12, FPAGE_RWX).0 };
    let _ = send(to, Message::label(0).with_maps(&[item]), Timeout::Never);
    park()
}

/// Receives a page of the suite's at an address of the suite's, and returns whether it came.
fn receive_at(at: u64, from: u64) -> Result<bool, Fault> {
    crate::pool::cell(31).store(utcb::my_id().0, core::sync::atomic::Ordering::SeqCst);
    utcb::set_receive_window(Fpage::memory(at, 12, FPAGE_RWX));
    let giver = helper(giver, from)?;
    let got = receive(giver, Timeout::After(PATIENCE));
    utcb::set_receive_window(Fpage::NIL);
    remove(giver)?;
    Ok(got.is_ok_and(|got| got.tag.maps() == 1 && Fpage(utcb::map_item(0).fpage).rights() != 0))
}

fn memory_refused() -> Outcome {
    let mut small = Small::new(USUAL)?;
    reaches_its_end(&mut small, 9)?;
    let from = page();
    for at in [WINDOW, WINDOW + SIZE - PAGE, WINDOW + SIZE, 0x8000_0000, 0xbfff_f000] {
        same!("a page came", receive_at(at, from)?, false);
    }
    same!("the small task's memory", small.ask(small_load, SIZE - 4, 0)?, 9);
    check()?;
    remove_task(small.number)?;
    same!("a page comes when it is gone", receive_at(WINDOW, from)?, true);
    let mut other = Small::empty(USUAL)?;
    other.make(1)?;
    refused!("then no window", set_reach(other.thread, USUAL, Id::NIL), Call Busy);
    mapping::unmap(Fpage::memory(WINDOW, 12, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    same!("without it", set_reach(other.thread, USUAL, Id::NIL)?, SMALL_NONE);
    check()
}

fn unmap_leaves_windows() -> Outcome {
    let mut small = Small::new(USUAL)?;
    reaches_its_end(&mut small, 4)?;
    for (at, log2) in [(WINDOW, 24), (0x8000_0000, 30), (WINDOW, 12)] {
        mapping::unmap(Fpage::memory(at, log2, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
        mapping::unmap(Fpage::memory(at, log2, FPAGE_RWX), FPAGE_WRITE | UNMAP_FLUSH)?;
    }
    same!("its memory", small.ask(small_load, SIZE - 4, 0)?, 4);
    small.ask(small_store, SIZE - 4, 5)?;
    same!("its reach", small.reach_now()?, USUAL);
    check()
}

/// Nothing of small tasks stays in any account.
fn nothing_left() -> Outcome {
    let round = || -> Outcome {
        crate::pool::reset_tasks();
        let (home, number) = home()?;
        let mut all = [Small::new(USUAL)?, Small::new(0xc000_0000 | 26)?, Small::hosted(USUAL, home)?];
        for small in &all {
            small.ask(small_store, BLOCKS + BLOCK_BYTES, 1)?;
        }
        all[1].add()?;
        all[1].begin()?;
        set_reach(all[0].thread, SMALL_NONE, Id::NIL)?;
        set_reach(all[0].thread, USUAL, Id::NIL)?;
        remove(all[1].thread)?;
        for small in &all {
            remove_task(small.number)?;
        }
        Ok(remove_task(number)?)
    };
    round()?;
    let before = used()?;
    for _ in 0..10 {
        round()?;
    }
    same!("the account", used()?, before);
    check()
}

fn small_area() -> Outcome {
    let small = Small::new(USUAL)?;
    let magic = small.ask(small_load, AREA + AREA_KIP, 0)?;
    same!("the KIP", magic, KIP_MAGIC & u32::MAX as u64);
    same!("the UTCB", small.ask(small_load, small.utcb(), 0)?, small.utcb());
    same!("its id", small.utcb_word(8)?, small.thread.0);
    // The last lthread that has a place there, and the first that has none.
    let mut other = Small::empty(USUAL)?;
    let last = (AREA_SMALL_SIZE / PAGE) as u16 - 2;
    other.make(last)?;
    set_reach(other.thread, WINDOW + SIZE | LOG2, Id::NIL)?;
    other.begin()?;
    same!("its UTCB", other.ask(small_load, AREA + AREA_SMALL_SIZE - PAGE, 0)?, AREA + AREA_SMALL_SIZE - PAGE);
    refused!("one more", other.make(last + 1), Call Invalid);
    Ok(())
}

fn bad_areas() -> Outcome {
    let number = task_number();
    for area in
        [AREA_SMALL_SIZE + PAGE, AREA_SMALL_SIZE / 2, (1 << 32) + AREA_SMALL_SIZE, AREA_DEFAULT + AREA_SMALL_SIZE]
    {
        let plan = NewTask { number, max_priority: base_priority(), quota: QUOTA, area, ..NewTask::default() };
        refused!("an area", create_empty(&plan), Call Invalid);
    }
    Ok(())
}

/// A small task with pages beyond its window, in which every word is `VALUE`.
fn with_more() -> Result<Small, Fault> {
    let mut small = Small::new(USUAL)?;
    small.give_new(SIZE, VALUE);
    Ok(small)
}

const VALUE: u32 = 0x1357_9bdf;

/// Fails unless the thread was promoted. On machines without segment limits an access beyond the
/// window that finds no page promotes it too.
fn is_promoted(small: &Small) -> Outcome {
    same!("its reach", small.reach_now()?, PROMOTED);
    Ok(())
}

fn by_load() -> Outcome {
    let small = with_more()?;
    same!("beyond its window", small.ask(small_load, SIZE + 16, 0)?, VALUE as u64);
    is_promoted(&small)?;
    same!("and inside", small.ask(small_load, BLOCKS, 0)?, utcb::my_id().0 & u32::MAX as u64);
    check()
}

fn by_store() -> Outcome {
    let small = with_more()?;
    small.ask(small_store, SIZE + 16, 11)?;
    is_promoted(&small)?;
    same!("what it wrote", small.ask(small_load, SIZE + 16, 0)?, 11);
    Ok(())
}

fn by_push() -> Outcome {
    let small = with_more()?;
    small.ask(small_push, SIZE + 64, 12)?;
    is_promoted(&small)?;
    same!("what it pushed", small.ask(small_load, SIZE + 60, 0)?, 12);
    same!("beside it", small.ask(small_load, SIZE + 64, 0)?, VALUE as u64);
    Ok(())
}

/// Code that returns this number.
pub fn returns(value: u32) -> [u32; 2] {
    // mov eax, value; ret; nop; nop
    [0xb8 | value << 8, 0x9090_c300 | value >> 24]
}

/// A page of the case with code at its beginning, at this place of those where it maps memory.
pub fn code_page(place: u64, code: [u32; 2]) -> Result<u64, Failure> {
    let slot = crate::topics::window::slot(place);
    sigma0::any(Fpage::memory(0, 12, FPAGE_RWX), slot)?;
    set_word(slot.base(), code[0]);
    set_word(slot.base() + 4, code[1]);
    Ok(slot.base())
}

fn by_call() -> Outcome {
    let mut small = Small::new(USUAL)?;
    small.give(SIZE, code_page(0, returns(0x600d))?, FPAGE_RWX);
    same!("what it called", small.ask(small_call, SIZE, 0)?, 0x600d);
    is_promoted(&small)
}

fn demoted() -> Outcome {
    let small = with_more()?;
    for _ in 0..5 {
        same!("beyond its window", small.ask(small_load, SIZE, 0)?, VALUE as u64);
        is_promoted(&small)?;
        same!("returned", set_reach(small.thread, USUAL, Id::NIL)?, PROMOTED);
        same!("inside", small.ask(small_load, BLOCKS, 0)?, utcb::my_id().0 & u32::MAX as u64);
        same!("its reach", small.reach_now()?, USUAL);
    }
    // A window is kept for a thread that was promoted.
    small.ask(small_load, SIZE, 0)?;
    is_open(USUAL, true)?;
    set_reach(small.thread, SMALL_ALL, Id::NIL)?;
    same!("no more promoted", small.reach_now()?, SMALL_ALL);
    is_open(USUAL, false)
}

const DE: u64 = 0;
const UD: u64 = 6;
const GP: u64 = 13;

fn true_exception() -> Outcome {
    for code in [small_hlt as unsafe extern "C" fn(), small_cli, small_dr0] {
        let small = Small::new(USUAL)?;
        let got = small.try_it(code, 0, 0)?;
        let what = (got.tag.kind(), got.tag.label() as u64, got.words[0]);
        same!("kind, vector, error code", what, (KIND_EXCEPTION, GP, 0));
        holds!("where it was", (operation(code)..operation(code) + 16).contains(&got.words[1]));
        same!("nothing else", receive(small.thread, Timeout::After(1_000_000)).is_err(), true);
        remove_task(small.number)?;
    }
    Ok(())
}

fn exceptions() -> Outcome {
    for (code, vector) in [(small_ud2 as unsafe extern "C" fn(), UD), (small_divide, DE)] {
        let small = Small::new(USUAL)?;
        let got = small.try_it(code, 0, 0)?;
        same!("kind, vector", (got.tag.kind(), got.tag.label() as u64), (KIND_EXCEPTION, vector));
        holds!("where it was", (operation(code)..operation(code) + 16).contains(&got.words[1]));
        same!("its reach", small.reach_now()?, USUAL);
        remove_task(small.number)?;
    }
    Ok(())
}

/// An alien thread of a small task at a piece of code, started: its first message that is no fault
/// which its pager answers.
fn alien(small: &mut Small, code: unsafe extern "C" fn()) -> Result<(u64, keel_l4::ipc::Received), Fault> {
    let index = crate::pool::frame_index();
    let mut frame = crate::alien::fresh_frame(code);
    small.give_new(BLOCKS, 0);
    (frame.ip, frame.sp, frame.cs) = (operation(code), BLOCKS + PAGE - 16, crate::alien::CODE_32);
    (frame.cx, frame.segments) = (SIZE, DATA_SELECTOR | DATA_SELECTOR << 16);
    crate::pool::set_frame(index, &frame);
    small.thread = crate::alien::create(small.task, index, 0)?;
    set_reach(small.thread, small.reach, small.host)?;
    thread::act(small.thread, EX_START)?;
    Ok((index, small.serve()?))
}

fn alien_promoted() -> Outcome {
    let mut small = Small::empty(USUAL)?;
    small.give_new(SIZE, VALUE);
    let (index, got) = alien(&mut small, small_load)?;
    // It reports by a call, which comes to its handler.
    same!("kind, gate", (got.tag.kind(), got.tag.label() as u64), (KIND_SYSCALL, GATE_INT80));
    same!("what it read", crate::pool::frame(index).dx, VALUE as u64);
    same!("its reach", small.reach_now()?, SMALL_NONE | SMALL_PROMOTED);
    same!("its code", crate::pool::frame(index).cs, crate::alien::CODE_32);
    Ok(())
}

fn alien_calls() -> Outcome {
    let mut small = Small::empty(USUAL)?;
    let (index, got) = alien(&mut small, small_nothing)?;
    same!("kind, gate", (got.tag.kind(), got.tag.label() as u64), (KIND_SYSCALL, GATE_INT80));
    let frame = crate::pool::frame(index);
    same!("its stack pointer is its own", frame.sp, BLOCKS + PAGE - 16);
    holds!("its ip is its own", (CODE..CODE + PAGE).contains(&frame.ip));
    same!("cs, ss", (frame.cs, frame.ss), (crate::alien::CODE_32, crate::alien::DATA));
    same!("bases", (frame.fs_base, frame.gs_base), (0, 0));
    same!("its reach", small.reach_now()?, USUAL);
    Ok(())
}

fn registers_stay() -> Outcome {
    const ROUNDS: u64 = 20_000;
    let (first, second) = (Small::new(USUAL)?, Small::new(WINDOW + SIZE | LOG2)?);
    // Each of them loses its processor to the others now and then.
    for (small, value) in [(&first, 0x1111), (&second, 0x2222)] {
        thread::schedule(small.thread, SCHEDULE_SLICE, 0, 50_000)?;
        small.tell(small_registers, ROUNDS, value)?;
    }
    for _ in 0..2 {
        let got = serve(&[&first, &second])?;
        let small = if got.from == first.thread { &first } else { &second };
        small.expect_report(&got)?;
        same!("its registers", got.words[..2], [if got.from == first.thread { 0x1111 } else { 0x2222 }, ROUNDS]);
    }
    Ok(())
}

/// Debug register 0 watches writes to an address.
const WATCH: u64 = 1 | 1 << 16 | 3 << 18;
const DEBUG: u64 = 1;

/// Sets it, for a thread.
pub fn watch(thread: Id, address: u64) -> Result<(), Failure> {
    let mut record = ExRegs::zeroed();
    (record.debug[0], record.debug[5]) = (address, WATCH);
    thread::exchange(thread, EX_DEBUG_SET, &mut record).map(|_| ())
}

fn watched_inside() -> Outcome {
    let (small, other) = (Small::new(USUAL)?, Small::new(WINDOW + SIZE | LOG2)?);
    let at = BLOCKS + BLOCK_BYTES;
    watch(small.thread, at)?;
    other.ask(small_store, at, 1)?;
    small.ask(small_store, at + 8, 1)?;
    let got = small.try_it(small_store, at, 2)?;
    same!("kind, vector", (got.tag.kind(), got.tag.label() as u64), (KIND_EXCEPTION, DEBUG));
    same!("which one", got.words[3] & 0xf, 1);
    same!("what it wrote", word(small.block + BLOCK_BYTES), 2);
    Ok(())
}

fn processor_number() -> Outcome {
    const SELECTOR: u64 = 15 << 3 | 3;
    let small = Small::new(USUAL)?;
    for _ in 0..2 {
        let got = small.try_it(small_lsl, SELECTOR, 0)?;
        same!("a limit, and that there is one", got.words[..2], [0, 1]);
        set_reach(small.thread, SMALL_ALL, Id::NIL)?;
    }
    Ok(())
}
