// SPDX-License-Identifier: BSD-2-Clause
//! Many pages, tables, threads and neighbours of small tasks change at once. The cases also make
//! the µ-kernel's longest walks over windows, for the plugin that finds how long interrupts are
//! off.

use crate::case::{Case, Fault, Outcome};
use crate::pool::{self, page, PAGE};
use crate::small::*;
use crate::small_code::*;
use crate::threads::{base_priority, helper, park, remove, remove_task};
use crate::topics::small_memory::{is_fault, load_new};
use crate::topics::window::fault_at;
use crate::{holds, refused, same};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::programs::AREA_UPPER;
use keel_l4::abi::{MapItem, UnmapRange};
use keel_l4::ipc::{send, Message, Timeout};
use keel_l4::mapping::{unmap, unmap_in};
use keel_l4::task::{create_empty, NewTask};
use keel_l4::thread::{reach, set_reach, NewThread};
use keel_l4::{utcb, Fpage, Id};

pub const CASES: &[Case] = &[
    ("rows-are-unmapped", rows_unmapped),
    ("rows-lose-rights", rows_reduced),
    ("a-row-is-unmapped-from-many-places", scattered),
    ("trees-are-unmapped", trees_unmapped),
    ("trees-lose-rights", trees_reduced),
    ("a-row-gets-more-rights", raised),
    ("a-window-of-a-gigabyte-closes", wide_closes),
    ("as-many-windows-as-there-can-be", many_windows),
    ("a-thread-beside-many-windows", beside_many_windows),
    ("a-host-of-many-threads-goes", host_of_many_goes),
    ("its-kernel-area-is-in-the-upper-half", upper_area),
];

/// Where the tasks have their pages: rows of them in tables in which nothing else is.
const ROWS: u64 = 0x40_0000;
const ROW: u64 = 16;
const ROW_LOG2: u8 = 16;
const TABLE: u64 = 512 * PAGE;
/// Pages of kernel memory for a task with many tables.
const LARGE_QUOTA: u64 = 200;
/// More of them for tables in the upper half.
const LOCAL_TABLES: u64 = 6;
/// Pages of kernel memory for a task that only has a window.
const SMALL_QUOTA: u64 = 12;

/// Makes a small task with a thread that has reported.
fn new_with(reach: u64, quota: u64) -> Result<Small, Fault> {
    let mut small = Small::with_quota(reach, quota)?;
    small.add()?;
    small.begin()?;
    Ok(small)
}

/// Fills a row of the suite's pages with words of this value.
fn new_row(value: u32) -> u64 {
    let from = pool::pages(ROW);
    (0..ROW).for_each(|number| fill(from + number * PAGE, value));
    from
}

/// Makes a small task with two tables full of one row, which the chief has.
fn with_rows() -> Result<(Small, u64), Fault> {
    let (small, from) = (new_with(USUAL, LARGE_QUOTA)?, new_row(7));
    for row in 0..2 * TABLE / PAGE / ROW {
        same!("a row", load_new(&small, ROWS + row * ROW * PAGE, from, ROW_LOG2, FPAGE_RWX)?, 7);
    }
    Ok((small, from))
}

const ALL_ROWS: u64 = 2 * TABLE / PAGE;

fn rows_unmapped() -> Outcome {
    let (small, _) = with_rows()?;
    unmap_in(small.task, &[UnmapRange { address: ROWS, pages: ALL_ROWS }])?;
    for at in [ROWS, ROWS + TABLE - PAGE, ROWS + 2 * TABLE - PAGE] {
        same!("nothing in the window", fault_at(WINDOW + at)?, 0);
    }
    is_fault(&small.try_it(small_load, ROWS, 0)?, &small, ROWS, FPAGE_READ, false)?;
    check()
}

fn rows_reduced() -> Outcome {
    let (small, _) = with_rows()?;
    let last = ROWS + 2 * TABLE - PAGE;
    same!("a store", small.ask(small_store, last, 7)?, 0);
    unmap_in(small.task, &[UnmapRange { address: ROWS | FPAGE_READ, pages: ALL_ROWS }])?;
    same!("it is there", small.ask(small_load, ROWS, 0)?, 7);
    is_fault(&small.try_it(small_store, last, 8)?, &small, last, FPAGE_WRITE, true)?;
    check()
}

/// Takes a row whose pages are in groups of their own of two tables, in which another page stays.
fn scattered() -> Outcome {
    const APART: u64 = 64 * PAGE;
    let (small, from, other) = (new_with(USUAL, LARGE_QUOTA)?, new_row(7), page());
    let stays = [ROWS + 9 * PAGE, ROWS + TABLE + 9 * PAGE];
    fill(other, 9);
    for at in stays {
        load_new(&small, at, other, 12, FPAGE_RWX)?;
    }
    for _ in 0..3 {
        for number in 0..ROW {
            load_new(&small, ROWS + number * APART, from + number * PAGE, 12, FPAGE_RWX)?;
        }
        unmap(Fpage::memory(from, ROW_LOG2, 0), UNMAP_RIGHTS)?;
        for number in 0..ROW {
            same!("nothing in the window", fault_at(WINDOW + ROWS + number * APART)?, 0);
        }
        for at in stays {
            same!("what stays", small.ask(small_load, at, 0)?, 9);
        }
    }
    check()
}

/// Makes a small task that has each of a row's pages at many places.
fn with_trees() -> Result<(Small, u64), Fault> {
    let (small, from) = (new_with(USUAL, LARGE_QUOTA)?, new_row(7));
    for row in 0..ALL_ROWS / ROW {
        load_new(&small, ROWS + row * ROW * PAGE, from, ROW_LOG2, FPAGE_RWX)?;
    }
    Ok((small, from))
}

fn trees_unmapped() -> Outcome {
    let (small, from) = with_trees()?;
    unmap(Fpage::memory(from, ROW_LOG2, 0), UNMAP_RIGHTS)?;
    is_fault(&small.try_it(small_load, ROWS, 0)?, &small, ROWS, FPAGE_READ, false)?;
    check()
}

fn trees_reduced() -> Outcome {
    let (small, from) = with_trees()?;
    unmap(Fpage::memory(from, ROW_LOG2, 0), FPAGE_WRITE)?;
    same!("it is there", small.ask(small_load, ROWS, 0)?, 7);
    is_fault(&small.try_it(small_store, ROWS, 8)?, &small, ROWS, FPAGE_WRITE, true)?;
    check()
}

/// Gives all pages of a row more rights by one answer.
fn raised() -> Outcome {
    let (small, from) = (new_with(USUAL, LARGE_QUOTA)?, new_row(7));
    for number in 0..ROW {
        load_new(&small, ROWS + number * PAGE, from + number * PAGE, 12, FPAGE_READ)?;
    }
    let items: [MapItem; ROW as usize] = core::array::from_fn(|number| {
        let offset = number as u64 * PAGE;
        MapItem { send_base: ROWS + offset, fpage: Fpage::memory(from + offset, 12, FPAGE_RWX).0 }
    });
    is_fault(&small.try_it(small_store, ROWS, 1)?, &small, ROWS, FPAGE_WRITE, true)?;
    send(small.thread, Message::label(0).with_maps(&items), Timeout::Zero)?;
    small.expect_report(&small.serve()?)?;
    let last = ROWS + (ROW - 1) * PAGE;
    same!("a store", small.ask(small_store, last, 8)?, 0);
    same!("it is there", small.ask(small_load, last, 0)?, 8);
    check()
}

fn wide_closes() -> Outcome {
    const BASE: u64 = 0xc000_0000;
    const TABLES: u64 = (1 << 30) / TABLE;
    let small = new_with(BASE | 30, TABLES + LARGE_QUOTA)?;
    let from = page();
    fill(from, 7);
    for table in 2..TABLES {
        same!("a table", load_new(&small, table * TABLE, from, 12, FPAGE_RWX)?, 7);
    }
    set_reach(small.thread, SMALL_ALL, Id::NIL)?;
    for table in [2, TABLES / 2, TABLES - 1] {
        same!("nothing in the window", fault_at(BASE + table * TABLE)?, 0);
        same!("in its own space", small.ask(small_load, table * TABLE, 0)?, 7);
    }
    check()
}

/// Makes a stopped thread in a new task that has nothing else.
fn new_thread() -> Result<Id, Fault> {
    let (number, me) = (pool::task_number(), utcb::my_id());
    let plan = NewTask { number, max_priority: base_priority(), quota: SMALL_QUOTA, area: AREA, ..NewTask::default() };
    let task = create_empty(&plan)?;
    Ok(NewThread { task, number: 0, ip: 0, sp: 0, pager: me, handler: me, argument: 0 }.create()?)
}

extern "C" fn idle(_: u64) -> ! {
    park()
}

/// Windows of the smallest size in the first 4 GB.
const WINDOWS: u64 = (4 << 30) / SIZE;

fn many_windows() -> Outcome {
    let (host, _) = home()?;
    for number in 0..WINDOWS {
        set_reach(new_thread()?, number << LOG2 | LOG2, host)?;
    }
    for number in [0, WINDOWS - 1] {
        refused!("one more", set_reach(new_thread()?, number << LOG2 | LOG2, host), Call Busy);
    }
    check()
}

/// Makes a thread while the suite's tables have windows in all 16 MB in which nothing else is.
fn beside_many_windows() -> Outcome {
    let mut opened = 0;
    for number in WINDOWS / 4..WINDOWS {
        opened += set_reach(new_thread()?, number << LOG2 | LOG2, Id::NIL).is_ok() as u64;
    }
    holds!("windows in most of it", opened > WINDOWS / 2);
    remove(helper(idle, 0)?)?;
    check()
}

/// Takes a UTCB in the upper half from a task with a window. (INVPCID faults at its number.)
fn upper_area() -> Outcome {
    let (number, me) = (pool::task_number(), utcb::my_id());
    let quota = SMALL_QUOTA + LOCAL_TABLES;
    let plan = NewTask { number, max_priority: base_priority(), quota, area: AREA_UPPER, ..NewTask::default() };
    let task = create_empty(&plan)?;
    let thread = |number| NewThread { task, number, ip: 0, sp: 0, pager: me, handler: me, argument: 0 }.create();
    let (first, second) = (thread(0)?, thread(1)?);
    set_reach(first, USUAL, Id::NIL)?;
    set_reach(second, USUAL, Id::NIL)?;
    remove(second)?;
    same!("its reach", reach(first)?, USUAL);
    remove_task(number)?;
    check()
}

/// Deletes the task in whose tables many threads have their window.
fn host_of_many_goes() -> Outcome {
    const THREADS: usize = 100;
    let ((host, number), me) = (home()?, utcb::my_id());
    let small = Small::with_quota(USUAL, 3 * LARGE_QUOTA)?;
    let mut threads = [Id::NIL; THREADS];
    for (number, thread) in threads.iter_mut().enumerate() {
        let (task, number) = (small.task, number as u16);
        *thread = NewThread { task, number, ip: 0, sp: 0, pager: me, handler: me, argument: 0 }.create()?;
        set_reach(*thread, USUAL, host)?;
    }
    remove_task(number)?;
    for thread in threads {
        let told = reach(thread)?;
        same!("its reach", told, SMALL_ALL);
    }
    check()
}
