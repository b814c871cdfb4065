// SPDX-License-Identifier: BSD-2-Clause
//! Memory of small tasks: page faults, rights, unmapping, large pages, tables that move or go; and
//! that a window shows what its task has, and nothing that it had.

use crate::case::{Case, Fault, Outcome};
use crate::pool::{self, page, peek, poke, PAGE};
use crate::small::*;
use crate::small_code::*;
use crate::threads::{pause, remove_task};
use crate::topics::small::code_page;
use crate::topics::window::fault_at;
use crate::{holds, same};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::MAP_GRANT;
use keel_l4::abi::{MapItem, UnmapRange};
use keel_l4::ipc::{receive, send, Message, Received, Timeout};
use keel_l4::mapping::{move_in, unmap, unmap_in};
use keel_l4::thread::set_reach;
use keel_l4::{sigma0, Fpage, Id};

pub const CASES: &[Case] = &[
    ("a-fault-has-its-own-address", own_address),
    ("faults-of-each-kind", each_kind),
    ("read-only", read_only),
    ("not-to-be-executed", not_executed),
    ("more-rights", more_rights),
    ("first-and-last-page", first_and_last),
    ("a-refused-fault-goes-to-the-handler", refused_fault),
    ("unmapped-by-the-mapper", unmapped),
    ("unmapped-while-it-runs", unmapped_while_it_runs),
    ("write-taken", write_taken),
    ("write-taken-while-it-runs", write_taken_while_it_runs),
    ("accessed-and-dirty", accessed_and_dirty),
    ("granted", granted),
    ("one-page-at-two-addresses", two_addresses),
    ("one-page-in-two-windows", two_windows),
    ("large-page", large_page),
    ("large-page-read-only", large_read_only),
    ("large-page-cut", large_cut),
    ("large-page-in-place-of-small-ones", large_for_small),
    ("small-pages-in-place-of-a-large-one", small_for_large),
    ("a-table-goes-and-comes-back", table_comes_back),
    ("a-table-moves", table_moves),
    ("a-table-moves-beyond-the-window", table_moves_beyond),
    ("many-tables", many_tables),
    ("all-of-a-task-unmapped", all_unmapped),
    ("no-memory-for-a-table", no_memory_for_a_table),
    ("nothing-stays-in-a-closed-window", nothing_in_closed),
    ("nothing-stays-for-the-next-task", nothing_for_the_next),
    ("beyond-its-window-is-no-window-of-others", beyond_is_not_shown),
    ("closed-and-opened-elsewhere", elsewhere),
];

/// Where a small task is given pages, each in a table of its own.
const THERE: u64 = 0x50_0000;
const OTHER: u64 = 0x90_0000;
const TABLE: u64 = 512 * PAGE;
const LARGE_LOG2: u8 = 21;

/// Fails unless a message is a page fault of a small thread at this address.
pub fn is_fault(got: &Received, small: &Small, address: u64, access: u64, present: bool) -> Outcome {
    let what = (got.tag.kind(), got.from, got.words[0], got.tag.label() as u64, got.words[3]);
    same!("the fault", what, (KIND_PAGE_FAULT, small.thread, address, access, present as u64));
    holds!("its ip in its code", (CODE..CODE + 2 * PAGE).contains(&got.words[1]));
    Ok(())
}

/// Answers a fault with a page of the suite's (address | MAP_GRANT), and returns what comes next.
fn answer(small: &Small, at: u64, from: u64, log2: u8, rights: u64) -> Result<Received, Fault> {
    let (page, grant) = (from & !MAP_GRANT, from & MAP_GRANT);
    let item = MapItem { send_base: at | grant, fpage: Fpage::memory(page, log2, rights).0 };
    send(small.thread, Message::label(0).with_maps(&[item]), Timeout::Zero)?;
    small.serve()
}

/// Has a small thread load from where it has nothing, and gives it a page there.
pub fn load_new(small: &Small, at: u64, from: u64, log2: u8, rights: u64) -> Result<u64, Fault> {
    let got = small.try_it(small_load, at, 0)?;
    is_fault(&got, small, at, FPAGE_READ, false)?;
    let got = answer(small, at & !((1 << log2) - 1), from, log2, rights)?;
    small.expect_report(&got)?;
    Ok(got.words[0])
}

fn own_address() -> Outcome {
    for window in [USUAL, WINDOW + SIZE | LOG2, 0xc000_0000 | 30] {
        let small = Small::new(window)?;
        for at in [0, 0x12_3458, SIZE - 4] {
            let got = small.try_it(small_load, at, 0)?;
            is_fault(&got, &small, at, FPAGE_READ, false)?;
            let from = page();
            fill(from, at as u32 + 1);
            let got = answer(&small, at & !(PAGE - 1), from, 12, FPAGE_RWX)?;
            small.expect_report(&got)?;
            same!("what it read", got.words[0], at + 1);
        }
        same!("its reach", small.reach_now()?, window);
        remove_task(small.number)?;
    }
    check()
}

fn each_kind() -> Outcome {
    for (code, access, at) in [
        (small_load as unsafe extern "C" fn(), FPAGE_READ, THERE),
        (small_store, FPAGE_WRITE, THERE),
        (small_copy_to, FPAGE_WRITE, THERE),
        (small_copy_from, FPAGE_READ, THERE),
    ] {
        let small = Small::new(USUAL)?;
        is_fault(&small.try_it(code, at, 1)?, &small, at, access, false)?;
        remove_task(small.number)?;
    }
    let small = Small::new(USUAL)?;
    let got = small.try_it(small_call, THERE, 0)?;
    let what = (got.tag.kind(), got.tag.label() as u64, got.words[0], got.words[1]);
    same!("the fault", what, (KIND_PAGE_FAULT, FPAGE_EXEC, THERE, THERE));
    let small = Small::new(WINDOW + SIZE | LOG2)?;
    is_fault(&small.try_it(small_push, THERE + 8, 1)?, &small, THERE + 4, FPAGE_WRITE, false)
}

fn read_only() -> Outcome {
    let small = Small::new(USUAL)?;
    let from = page();
    fill(from, 5);
    same!("what it read", load_new(&small, THERE, from, 12, FPAGE_READ)?, 5);
    is_fault(&small.try_it(small_store, THERE, 6)?, &small, THERE, FPAGE_WRITE, true)?;
    same!("unchanged", word(from), 5);
    Ok(())
}

fn not_executed() -> Outcome {
    let small = Small::new(USUAL)?;
    let from = code_page(0, super::small::returns(0x42))?;
    load_new(&small, THERE, from, 12, FPAGE_READ | FPAGE_WRITE)?;
    let got = small.try_it(small_call, THERE, 0)?;
    let what = (got.tag.kind(), got.tag.label() as u64, got.words[0], got.words[3]);
    same!("the fault", what, (KIND_PAGE_FAULT, FPAGE_EXEC, THERE, 1));
    let got = answer(&small, THERE, from, 12, FPAGE_RWX)?;
    small.expect_report(&got)?;
    same!("with that right", got.words[0], 0x42);
    Ok(())
}

fn more_rights() -> Outcome {
    let small = Small::new(USUAL)?;
    let from = page();
    load_new(&small, THERE, from, 12, FPAGE_READ)?;
    is_fault(&small.try_it(small_store, THERE, 6)?, &small, THERE, FPAGE_WRITE, true)?;
    let got = answer(&small, THERE, from, 12, FPAGE_READ | FPAGE_WRITE)?;
    small.expect_report(&got)?;
    same!("what it wrote", word(from), 6);
    Ok(())
}

fn first_and_last() -> Outcome {
    let (small, size) = (Small::new(0xc000_0000 | 30)?, 1 << 30);
    for (number, at) in [0, size - PAGE, size / 2].into_iter().enumerate() {
        let from = page();
        fill(from, number as u32 + 1);
        same!("what it read", load_new(&small, at, from, 12, FPAGE_RWX)?, number as u64 + 1);
        same!("its end", small.ask(small_load, at + PAGE - 4, 0)?, number as u64 + 1);
    }
    Ok(())
}

fn refused_fault() -> Outcome {
    let small = Small::new(USUAL)?;
    is_fault(&small.try_it(small_load, THERE, 0)?, &small, THERE, FPAGE_READ, false)?;
    keel_l4::ipc::answer_fault(small.thread, keel_l4::pager::refused())?;
    let got = small.serve()?;
    same!("again", (got.from, got.words[0]), (small.thread, THERE));
    Ok(())
}

/// A small task with a page of the suite's at `THERE`.
fn with_page(window: u64, value: u32) -> Result<(Small, u64), Fault> {
    let mut small = Small::new(window)?;
    let from = small.give_new(THERE, value);
    same!("what it read", small.ask(small_load, THERE, 0)?, value as u64);
    Ok((small, from))
}

/// Takes rights to a page of the suite's from all that have it from the suite.
fn take(from: u64, rights: u64) -> Result<u64, Fault> {
    Ok(unmap(Fpage::memory(from, 12, 0), rights)?)
}

fn unmapped() -> Outcome {
    let (mut small, from) = with_page(USUAL, 1)?;
    for round in 2..6 {
        take(from, UNMAP_RIGHTS)?;
        same!("nothing in the window", fault_at(WINDOW + THERE)?, 0);
        fill(from, round);
        same!("by a new fault", small.ask(small_load, THERE, 0)?, round as u64);
    }
    take(from, UNMAP_RIGHTS)?;
    small.give_no_more(THERE);
    is_fault(&small.try_it(small_load, THERE, 0)?, &small, THERE, FPAGE_READ, false)
}

/// Has a small thread count loads from `THERE`, or stores to it, without end, and waits until it
/// does.
fn counting(small: &Small, code: unsafe extern "C" fn(), counter: u64) -> Outcome {
    set_word(counter, 0);
    small.tell(code, THERE, 0)?;
    while word(counter) < 10 {
        answer_next(small, 1_000_000)?;
    }
    Ok(())
}

fn unmapped_while_it_runs() -> Outcome {
    let (mut small, from) = with_page(USUAL, 1)?;
    small.give_no_more(THERE);
    let counter = small.block + BLOCK_SCRATCH;
    counting(&small, small_load_count, counter)?;
    take(from, UNMAP_RIGHTS)?;
    let last = word(counter);
    is_fault(&receive(small.thread, Timeout::After(PATIENCE))?, &small, THERE, FPAGE_READ, false)?;
    holds!("one more count at most", word(counter) <= last + 1);
    let item = MapItem { send_base: THERE, fpage: Fpage::memory(from, 12, FPAGE_READ).0 };
    send(small.thread, Message::label(0).with_maps(&[item]), Timeout::Zero)?;
    let last = word(counter);
    while word(counter) < last + 10 {
        pause(100_000);
    }
    Ok(())
}

fn write_taken() -> Outcome {
    let (mut small, from) = with_page(USUAL, 1)?;
    small.ask(small_store, THERE, 2)?;
    take(from, FPAGE_WRITE)?;
    same!("it reads", small.ask(small_load, THERE, 0)?, 2);
    small.give_no_more(THERE);
    is_fault(&small.try_it(small_store, THERE, 3)?, &small, THERE, FPAGE_WRITE, true)?;
    same!("unchanged", word(from), 2);
    Ok(())
}

fn write_taken_while_it_runs() -> Outcome {
    let (mut small, from) = with_page(USUAL, 1)?;
    small.give_no_more(THERE);
    counting(&small, small_count, from)?;
    let state = take(from, FPAGE_WRITE)?;
    let last = word(from);
    same!("it was written", state & UNMAP_DIRTY, UNMAP_DIRTY);
    is_fault(&receive(small.thread, Timeout::After(PATIENCE))?, &small, THERE, FPAGE_WRITE, true)?;
    same!("not one more count", word(from), last);
    Ok(())
}

fn accessed_and_dirty() -> Outcome {
    let (small, from) = with_page(USUAL, 1)?;
    same!("read", take(from, UNMAP_RIGHTS)? & (UNMAP_REFERENCED | UNMAP_DIRTY), UNMAP_REFERENCED);
    same!("again", small.ask(small_load, THERE, 0)?, 1);
    small.ask(small_store, THERE, 2)?;
    let both = UNMAP_REFERENCED | UNMAP_DIRTY;
    same!("written", take(from, FPAGE_WRITE)? & both, both);
    same!("the page", word(from), 2);
    Ok(())
}

fn granted() -> Outcome {
    let small = Small::new(USUAL)?;
    let from = code_page(0, [7, 8])?;
    same!("what it read", load_new(&small, THERE, from | MAP_GRANT, 12, FPAGE_RWX)?, 7);
    same!("the suite's is gone", fault_at(from)?, 0);
    small.ask(small_store, THERE + 4, 9)?;
    same!("it has it", small.ask(small_load, THERE + 4, 0)?, 9);
    check()
}

fn two_addresses() -> Outcome {
    let mut small = Small::new(USUAL)?;
    let from = small.give_new(THERE, 1);
    small.give(OTHER, from, FPAGE_RWX);
    small.give(THERE + PAGE, from, FPAGE_RWX);
    small.ask(small_store, THERE, 2)?;
    for at in [OTHER, THERE + PAGE] {
        same!("the same page", small.ask(small_load, at, 0)?, 2);
    }
    take(from, UNMAP_RIGHTS)?;
    for at in [THERE, OTHER, THERE + PAGE] {
        small.give_no_more(at);
        same!("nothing in the window", fault_at(WINDOW + at)?, 0);
    }
    is_fault(&small.try_it(small_load, OTHER, 0)?, &small, OTHER, FPAGE_READ, false)
}

fn two_windows() -> Outcome {
    let (home, _) = home()?;
    let (mut first, from) = with_page(USUAL, 1)?;
    let mut others = [Small::new(WINDOW + SIZE | LOG2)?, Small::hosted(USUAL, home)?, Small::new(SMALL_ALL)?];
    for (number, other) in others.iter_mut().enumerate() {
        other.give(OTHER, from, FPAGE_RWX);
        other.ask(small_store, OTHER, 10 + number as u64)?;
        same!("the same page", first.ask(small_load, THERE, 0)?, 10 + number as u64);
    }
    take(from, UNMAP_RIGHTS)?;
    first.give_no_more(THERE);
    is_fault(&first.try_it(small_load, THERE, 0)?, &first, THERE, FPAGE_READ, false)?;
    for other in &mut others {
        other.give_no_more(OTHER);
        is_fault(&other.try_it(small_load, OTHER, 0)?, other, OTHER, FPAGE_READ, false)?;
    }
    check()
}

/// 2 MB of the suite's, in a large page, with a number in the first word of each small page.
fn large() -> Result<u64, Fault> {
    let slot = Fpage::memory(pool::WINDOW, LARGE_LOG2, FPAGE_RWX);
    sigma0::any(Fpage::memory(0, LARGE_LOG2, FPAGE_RWX), slot)?;
    for number in 0..TABLE / PAGE {
        // SAFETY: the case's own memory.
        unsafe { poke(slot.base() + number * PAGE, number) };
    }
    Ok(slot.base())
}

/// A small task that has them at an address of its own.
fn with_large(rights: u64) -> Result<(Small, u64), Fault> {
    let small = Small::new(USUAL)?;
    let from = large()?;
    let at = 2 * TABLE;
    same!("in its middle", load_new(&small, at + 100 * PAGE, from, LARGE_LOG2, rights)?, 100);
    Ok((small, from))
}

/// Where that is.
const LARGE: u64 = 2 * TABLE;

fn large_page() -> Outcome {
    let (small, from) = with_large(FPAGE_RWX)?;
    for number in [0, 1, 255, 511] {
        same!("a word", small.ask(small_load, LARGE + number * PAGE, 0)?, number);
        small.ask(small_store, LARGE + number * PAGE, number + 1000)?;
        same!("what it wrote", peek(from + number * PAGE), number + 1000);
    }
    let both = UNMAP_REFERENCED | UNMAP_DIRTY;
    same!("its state", unmap(Fpage::memory(from, LARGE_LOG2, 0), UNMAP_RIGHTS)? & both, both);
    is_fault(&small.try_it(small_load, LARGE, 0)?, &small, LARGE, FPAGE_READ, false)?;
    same!("nothing in the window", fault_at(WINDOW + LARGE + 100 * PAGE)?, 0);
    check()
}

fn large_read_only() -> Outcome {
    let (small, from) = with_large(FPAGE_READ)?;
    is_fault(&small.try_it(small_store, LARGE, 1)?, &small, LARGE, FPAGE_WRITE, true)?;
    let got = answer(&small, LARGE, from, LARGE_LOG2, FPAGE_RWX)?;
    small.expect_report(&got)?;
    same!("what it wrote", word(from), 1);
    unmap(Fpage::memory(from, LARGE_LOG2, 0), FPAGE_WRITE)?;
    same!("it reads", small.ask(small_load, LARGE, 0)?, 1);
    is_fault(&small.try_it(small_store, LARGE + PAGE, 1)?, &small, LARGE + PAGE, FPAGE_WRITE, true)?;
    check()
}

fn large_cut() -> Outcome {
    let (small, _) = with_large(FPAGE_RWX)?;
    unmap_in(small.task, &[UnmapRange { address: LARGE + 7 * PAGE, pages: 1 }])?;
    same!("nothing in the window", fault_at(WINDOW + LARGE + 7 * PAGE)?, 0);
    for number in [6, 8, 511] {
        same!("its neighbours", small.ask(small_load, LARGE + number * PAGE, 0)?, number);
    }
    unmap_in(small.task, &[UnmapRange { address: LARGE + 8 * PAGE | FPAGE_READ, pages: 1 }])?;
    same!("one that it may read", small.ask(small_load, LARGE + 8 * PAGE, 0)?, 8);
    let at = LARGE + 8 * PAGE;
    is_fault(&small.try_it(small_store, at, 1)?, &small, at, FPAGE_WRITE, true)?;
    check()
}

fn large_for_small() -> Outcome {
    let mut small = Small::new(USUAL)?;
    for number in 0..3 {
        small.give_new(LARGE + number * PAGE, 0x99);
        small.ask(small_load, LARGE + number * PAGE, 0)?;
    }
    let from = large()?;
    let at = LARGE + 3 * PAGE;
    is_fault(&small.try_it(small_load, at, 0)?, &small, at, FPAGE_READ, false)?;
    let got = answer(&small, LARGE, from, LARGE_LOG2, FPAGE_RWX)?;
    small.expect_report(&got)?;
    for number in [0, 1, 2, 3, 400] {
        same!("of the large page", small.ask(small_load, LARGE + number * PAGE, 0)?, number);
    }
    check()
}

fn small_for_large() -> Outcome {
    let (mut small, from) = with_large(FPAGE_RWX)?;
    unmap(Fpage::memory(from, LARGE_LOG2, 0), UNMAP_RIGHTS)?;
    for number in [0, 100] {
        small.give_new(LARGE + number * PAGE, number as u32 + 0x100);
        same!("of a small page", small.ask(small_load, LARGE + number * PAGE, 0)?, number + 0x100);
    }
    is_fault(&small.try_it(small_load, LARGE + PAGE, 0)?, &small, LARGE + PAGE, FPAGE_READ, false)?;
    check()
}

fn table_comes_back() -> Outcome {
    let (mut small, mut from) = with_page(USUAL, 1)?;
    for round in 2..12 {
        // The only page of its table.
        take(from, UNMAP_RIGHTS)?;
        small.give_no_more(THERE);
        if round % 3 == 0 {
            // Another table may come from the memory of that one.
            small.give_new(OTHER + round as u64 * TABLE % SIZE, round);
            small.ask(small_load, OTHER + round as u64 * TABLE % SIZE, 0)?;
        }
        same!("nothing in the window", fault_at(WINDOW + THERE)?, 0);
        from = small.give_new(THERE, round);
        same!("the new page", small.ask(small_load, THERE, 0)?, round as u64);
    }
    check()
}

fn table_moves() -> Outcome {
    let (mut small, from) = with_page(USUAL, 1)?;
    let (at, to) = (THERE & !(TABLE - 1), OTHER & !(TABLE - 1));
    let offset = THERE - at;
    for round in 1..5 {
        small.give_no_more(THERE);
        move_in(small.task, UnmapRange { address: at, pages: TABLE / PAGE }, to)?;
        same!("nothing where it was", fault_at(WINDOW + THERE)?, 0);
        same!("where it is", small.ask(small_load, to + offset, 0)?, round);
        small.ask(small_store, to + offset, round + 1)?;
        move_in(small.task, UnmapRange { address: to, pages: TABLE / PAGE }, at)?;
        same!("nothing there now", fault_at(WINDOW + to + offset)?, 0);
        same!("back", small.ask(small_load, THERE, 0)?, round + 1);
    }
    take(from, UNMAP_RIGHTS)?;
    is_fault(&small.try_it(small_load, THERE, 0)?, &small, THERE, FPAGE_READ, false)?;
    check()
}

fn table_moves_beyond() -> Outcome {
    let (mut small, from) = with_page(USUAL, 1)?;
    let (at, to) = (THERE & !(TABLE - 1), 4 * SIZE);
    small.give_no_more(THERE);
    move_in(small.task, UnmapRange { address: at, pages: TABLE / PAGE }, to)?;
    same!("nothing where it was", fault_at(WINDOW + THERE)?, 0);
    let mut outside = small;
    outside.add_with(SMALL_ALL)?;
    outside.begin()?;
    same!("beyond the window", outside.ask(small_load, to + (THERE - at), 0)?, 1);
    take(from, UNMAP_RIGHTS)?;
    let there = to + (THERE - at);
    is_fault(&outside.try_it(small_load, there, 0)?, &outside, there, FPAGE_READ, false)?;
    is_fault(&small.try_it(small_load, THERE, 0)?, &small, THERE, FPAGE_READ, false)?;
    check()
}

fn many_tables() -> Outcome {
    const QUOTA: u64 = 200;
    const LOG2: u64 = 28;
    let mut small = Small::with_quota(0xd000_0000 | LOG2, QUOTA)?;
    small.add()?;
    small.begin()?;
    let from = page();
    fill(from, 0x5a);
    for table in 2..1 << (LOG2 - LARGE_LOG2 as u64) {
        same!("a table", load_new(&small, table * TABLE, from, 12, FPAGE_RWX)?, 0x5a);
    }
    check()?;
    take(from, UNMAP_RIGHTS)?;
    for table in [2, 50, 127] {
        let at = table * TABLE;
        same!("nothing in the window", fault_at(0xd000_0000 + at)?, 0);
    }
    is_fault(&small.try_it(small_load, 2 * TABLE, 0)?, &small, 2 * TABLE, FPAGE_READ, false)?;
    check()
}

fn all_unmapped() -> Outcome {
    let (mut small, _) = with_page(USUAL, 1)?;
    unmap_in(small.task, &[UnmapRange { address: 0, pages: (1 << SPACE_SHIFT) / PAGE }])?;
    same!("nothing in the window", fault_at(WINDOW + THERE)?, 0);
    same!("all of it comes again", small.ask(small_load, THERE, 0)?, 1);
    same!("its UTCB", small.ask(small_load, small.utcb(), 0)?, small.utcb());
    small.give_no_more(THERE);
    same!("its reach", small.reach_now()?, USUAL);
    check()
}

fn no_memory_for_a_table() -> Outcome {
    let mut small = Small::new(USUAL)?;
    let (from, at) = (page(), 3 * TABLE);
    is_fault(&small.try_it(small_load, at, 0)?, &small, at, FPAGE_READ, false)?;
    let words = keel_l4::kernel_object::account(small.task)?;
    let rest = words[ACCOUNT_LIMIT as usize] - words[ACCOUNT_USED as usize];
    keel_l4::kernel_object::shrink(small.task, rest)?;
    let item = MapItem { send_base: at, fpage: Fpage::memory(from, 12, FPAGE_RWX).0 };
    let sent = send(small.thread, Message::label(0).with_maps(&[item]), Timeout::Zero);
    holds!("no page came", sent.is_err() || receive(small.thread, Timeout::After(PATIENCE))?.words[0] == at);
    keel_l4::kernel_object::enlarge(small.task, rest)?;
    small.give(at, from, FPAGE_RWX);
    check()
}

fn nothing_in_closed() -> Outcome {
    for deleted in [false, true] {
        let (mut small, _) = with_page(USUAL, 1)?;
        small.give_new(SIZE - PAGE, 2);
        small.ask(small_load, SIZE - PAGE, 0)?;
        if deleted {
            remove_task(small.number)?;
        } else {
            set_reach(small.thread, SMALL_ALL, Id::NIL)?;
        }
        for at in [THERE, SIZE - PAGE, CODE, BLOCKS, AREA, small.utcb()] {
            same!("nothing in the window", fault_at(WINDOW + at)?, 0);
        }
    }
    check()
}

fn nothing_for_the_next() -> Outcome {
    let (small, _) = with_page(USUAL, 1)?;
    remove_task(small.number)?;
    let next = Small::new(USUAL)?;
    for at in [THERE, THERE + PAGE, 0, SIZE - PAGE] {
        let got = next.try_it(small_load, at, 0)?;
        is_fault(&got, &next, at, FPAGE_READ, false)?;
        let got = answer(&next, at, page(), 12, FPAGE_READ)?;
        next.expect_report(&got)?;
        same!("its own", got.words[0], 0);
    }
    check()
}

fn beyond_is_not_shown() -> Outcome {
    let mut small = Small::new(USUAL)?;
    let right = Small::new(WINDOW + SIZE | LOG2)?;
    small.give_new(SIZE + THERE, 0x31);
    let mut outside = small;
    outside.add_with(SMALL_ALL)?;
    outside.begin()?;
    same!("its own space", outside.ask(small_load, SIZE + THERE, 0)?, 0x31);
    is_fault(&right.try_it(small_load, THERE, 0)?, &right, THERE, FPAGE_READ, false)?;
    same!("nothing in the window", fault_at(WINDOW + SIZE + THERE)?, 0);
    check()
}

fn elsewhere() -> Outcome {
    let (home, _) = home()?;
    let (small, _) = with_page(USUAL, 1)?;
    for (window, host) in [(0xc000_0000 | 26, Id::NIL), (USUAL, home), (WINDOW + SIZE | LOG2, Id::NIL), (LOG2, home)] {
        set_reach(small.thread, SMALL_ALL, Id::NIL)?;
        same!("its reach", set_reach(small.thread, window, host)?, SMALL_ALL);
        same!("it is there", small.ask(small_load, THERE, 0)?, 1);
        same!("nothing in the first window", fault_at(WINDOW + THERE)?, 0);
    }
    check()
}
