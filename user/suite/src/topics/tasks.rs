// SPDX-License-Identifier: BSD-2-Clause
//! task_new: creation, deletion, hand-over, and that nothing of a deleted task is left.

use crate::alien::{code_spin, code_syscall, Alien};
use crate::case::{Case, Outcome};
use crate::pool::{cell, page, pages, peek, task_number, task_range};
use crate::threads::*;
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::{AREA_DEFAULT, AREA_MAX_UTCBS, AREA_SIZE};
use keel_l4::abi::programs::{AREA_UPPER, TASK_MAX};
use keel_l4::abi::MapItem;
use keel_l4::call::{checked, Failure, Registers};
use keel_l4::ipc::{call, send, wait, Message, Timeout};
use keel_l4::protocol::status::ERROR_DENIED;
use keel_l4::task::{create, create_empty, hand_over, NewTask};
use keel_l4::thread::NewThread;
use keel_l4::{kernel_object, thread, utcb, Fpage, Id};

pub const CASES: &[Case] = &[
    ("create-and-delete", create_and_delete),
    ("argument-arrives", argument),
    ("deletion-leaves-nothing", leaves_nothing),
    ("deletion-of-a-mapped-task-leaves-nothing", mapped_leaves_nothing),
    ("deletion-of-alien-tasks-leaves-nothing", alien_leaves_nothing),
    ("deletion-takes-what-was-derived", takes_derived),
    ("deletion-of-a-running-task", running),
    ("deletion-of-lthreads-with-numbers-far-apart", far_apart),
    ("creation-replaces", replaces),
    ("number-of-another's", not_ours),
    ("number-out-of-range", out_of_range),
    ("sigma0-and-root-are-safe", first_tasks_safe),
    ("kernel-area-malformed", bad_area),
    ("two-kernel-areas-places", other_area),
    ("unknown-flags", unknown_flags),
    ("supervisor-mode-is-not-ours-to-give", supervisor_mode),
    ("mcp-is-limited", mcp_limited),
    ("hand-over-to-a-child", to_child),
    ("clan-of-a-child-dies-with-it", clan_dies),
    ("grandchild-is-not-ours-to-change", grandchild),
    ("hand-over-of-what-is-not-ours", hand_over_denied),
    ("hand-over-to-a-stranger", to_stranger),
    ("child-cannot-delete-itself", child_denied),
    ("all-numbers-at-once", all_numbers),
    ("thousand-tasks-one-after-another", thousand),
];

extern "C" fn idle(_: u64) -> ! {
    park()
}

extern "C" fn tell(argument: u64) -> ! {
    cell(1).store(argument, SeqCst);
    park()
}

pub fn used() -> Result<[u64; ACCOUNT_WORDS as usize], Failure> {
    kernel_object::account(Id::NIL)
}

fn create_and_delete() -> Outcome {
    let child = child(idle, 0)?;
    pause(2_000_000);
    same!("it lives", thread::nearest(child.thread)?.0, child.thread);
    remove_task(child.number)?;
    refused!("it is gone", thread::nearest(child.thread), Call NoPartner);
    Ok(())
}

fn argument() -> Outcome {
    child(tell, 77)?;
    pause(5_000_000);
    same!("argument", cell(1).load(SeqCst), 77);
    Ok(())
}

fn leaves_nothing() -> Outcome {
    let plan = child_plan(idle, 0);
    make_child(&plan)?;
    pause(5_000_000);
    remove_task(plan.number)?;
    let before = used()?;
    for _ in 0..50 {
        make_child(&plan)?;
        pause(500_000);
        remove_task(plan.number)?;
    }
    same!("the account", used()?, before);
    Ok(())
}

fn mapped_leaves_nothing() -> Outcome {
    let from = pages(16);
    let item = MapItem { send_base: 0x7000_0000, fpage: Fpage::memory(from, 16, FPAGE_RWX).0 };
    let round = || -> Outcome {
        let alien = Alien::new(code_syscall, |_| ())?;
        alien.start_raw()?;
        call(alien.id, Message::label(0).with_maps(&[item, same_place(from, FPAGE_RWX)]))?;
        remove_task(alien.number)?;
        Ok(())
    };
    round()?;
    let before = used()?;
    (0..20).try_for_each(|_| round())?;
    same!("the account", used()?, before);
    Ok(())
}

fn alien_leaves_nothing() -> Outcome {
    let (task, number) = crate::alien::empty_task()?;
    let index = crate::pool::frame_index();
    let round = |task: Id| -> Outcome {
        crate::pool::set_frame(index, &crate::alien::fresh_frame(code_spin));
        crate::alien::create(task, index, 0)?;
        Ok(())
    };
    round(task)?;
    remove_task(number)?;
    let before = used()?;
    for _ in 0..5 {
        let task = create_empty(&NewTask { number, quota: QUOTA, ..NewTask::default() })?;
        round(task)?;
        remove_task(number)?;
    }
    same!("the account", used()?, before);
    Ok(())
}

/// Receives a page at the window, then sends it to every caller.
extern "C" fn relay(_: u64) -> ! {
    utcb::set_receive_window(crate::topics::window::slot(0));
    let Ok(first) = wait(Timeout::Never) else { park() };
    let _ = send(first.from, Message::label(0), Timeout::Zero);
    let Ok(second) = wait(Timeout::Never) else { park() };
    let item = MapItem { send_base: 0, fpage: crate::topics::window::slot(0).0 };
    let _ = send(second.from, Message::label(0).with_maps(&[item]), Timeout::Zero);
    park()
}

fn takes_derived() -> Outcome {
    let from = page();
    crate::topics::window::fill(from, 1, 9);
    let child = child(relay, 0)?;
    call(child.thread, Message::label(0).with_maps(&[MapItem { send_base: 0, fpage: Fpage::memory(from, 12, 7).0 }]))?;
    utcb::set_receive_window(crate::topics::window::slot(1));
    let came = call(child.thread, Message::label(0));
    utcb::set_receive_window(Fpage::NIL);
    same!("items", came?.tag.maps(), 1);
    let place = crate::pool::WINDOW + crate::pool::PAGE;
    same!("content", peek(place), 9);
    remove_task(child.number)?;
    same!("cause afterwards", crate::topics::window::fault_at(place)?, 0);
    same!("the first owner's page", peek(from), 9);
    Ok(())
}

extern "C" fn count(_: u64) -> ! {
    loop {
        cell(2).fetch_add(1, SeqCst);
    }
}

/// Deletes two lthreads whose numbers are far from each other, and as many as can each have a
/// directory page and a table of their own.
fn far_apart() -> Outcome {
    const SLOTS: u64 = 512;
    const QUOTA: u64 = 900;
    for (step, end) in [(SLOTS - 1, SLOTS), (SLOTS, AREA_MAX_UTCBS)] {
        let before = used()?;
        let number = task_number();
        let plan =
            NewTask { number, quota: QUOTA, area: AREA_DEFAULT, max_priority: base_priority(), ..NewTask::default() };
        let (task, me) = (create_empty(&plan)?, utcb::my_id());
        for lthread in (0..end).step_by(step as usize) {
            let number = lthread as u16;
            NewThread { task, number, ip: 0, sp: 0, pager: me, handler: me, argument: 0 }.create()?;
        }
        remove_task(number)?;
        same!("what is in use", used()?, before);
    }
    Ok(())
}

fn running() -> Outcome {
    let child = child(count, 0)?;
    pause(20_000_000);
    remove_task(child.number)?;
    let counted = cell(2).load(SeqCst);
    holds!("it had run", counted > 0);
    pause(5_000_000);
    same!("it does not run any more", cell(2).load(SeqCst), counted);
    Ok(())
}

fn replaces() -> Outcome {
    let plan = child_plan(idle, 0);
    let first = make_child(&plan)?;
    let second = make_child(&plan)?;
    refused!("the first is gone", thread::nearest(first.thread), Call NoPartner);
    same!("the second lives", thread::nearest(second.thread)?.0, second.thread);
    Ok(())
}

fn not_ours() -> Outcome {
    let (first, count) = task_range();
    for number in [first + count, first + count + 1000] {
        refused!("creating it", create(&NewTask { number, ..child_plan(idle, 0) }), Call Denied);
    }
    Ok(())
}

fn out_of_range() -> Outcome {
    for number in [TASK_MAX, TASK_MAX - 1, 1 << 19] {
        holds!("a refusal", create(&NewTask { number, ..child_plan(idle, 0) }).is_err());
    }
    Ok(())
}

fn first_tasks_safe() -> Outcome {
    for number in [0, 1, 2] {
        holds!("a refusal to create", create(&NewTask { number, ..child_plan(idle, 0) }).is_err());
        holds!("a refusal to delete", remove_task(number).is_err());
    }
    let own_number = own(RUNNER).task();
    refused!("deleting oneself without being chief", remove_task(own_number), Call Denied);
    Ok(())
}

fn bad_area() -> Outcome {
    for area in [AREA_DEFAULT + 4096, 1 << 47, !0 << 47, UPPER_START - AREA_SIZE, UPPER_END, !(AREA_SIZE - 1), 4096] {
        refused!("creating it", create(&NewTask { area, ..child_plan(idle, 0) }), Call Invalid);
    }
    Ok(())
}

extern "C" fn utcb_tell(_: u64) -> ! {
    cell(1).store(utcb::address() as u64, SeqCst);
    park()
}

fn other_area() -> Outcome {
    for area in [0x3000_0000_0000, USER_END + PAGE_SIZE - AREA_SIZE, AREA_UPPER, UPPER_START, UPPER_END - AREA_SIZE] {
        make_child(&NewTask { area, ..child_plan(utcb_tell, 0) })?;
        pause(10_000_000);
        same!("UTCB", cell(1).load(SeqCst), area + 0x1000);
    }
    Ok(())
}

fn unknown_flags() -> Outcome {
    let number = task_number();
    for bit in [13, 15, 24, 40, 63] {
        let si = base_priority() | 1 << bit;
        let di = Id::thread(0, number, 0, 0).0;
        refused!("a flag", checked(Registers { ax: CALL_TASK_NEW, di, si, ..Registers::default() }), Call Invalid);
    }
    Ok(())
}

/// Only the root task makes a server in supervisor mode, and only such a server other tasks there.
fn supervisor_mode() -> Outcome {
    for upper_half in [true, false] {
        for area in [0, AREA_UPPER] {
            let plan = NewTask { area, upper_half, supervisor: true, ..child_plan(raise_itself, 0) };
            refused!("in supervisor mode", create_empty(&plan), Call Denied);
        }
    }
    Ok(())
}

extern "C" fn raise_itself(wanted: u64) -> ! {
    let result = thread::set_priority(utcb::my_id(), wanted);
    cell(1).store(result.map_or_else(|f| f.error as u64, |()| 1000), SeqCst);
    park()
}

fn mcp_limited() -> Outcome {
    make_child(&NewTask { max_priority: 255, ..child_plan(raise_itself, 200) })?;
    pause(10_000_000);
    same!("a priority above the creator's limit", cell(1).load(SeqCst), ERROR_DENIED);
    make_child(&NewTask { max_priority: 20, ..child_plan(raise_itself, 21) })?;
    pause(10_000_000);
    same!("a priority above the child's limit", cell(1).load(SeqCst), ERROR_DENIED);
    Ok(())
}

/// Creates an idle task at the number in its argument, and stores the result in cell 1 and the
/// grandchild's thread in cell 2.
extern "C" fn parent(number: u64) -> ! {
    let mut plan = NewTask { number: number as u32, ip: idle as Main as usize as u64, ..NewTask::default() };
    (plan.sp, plan.area, plan.quota) = (cell(5).load(SeqCst), AREA_DEFAULT, 8);
    plan.pager = own(PAGER).0;
    match create(&plan) {
        Ok(task) => {
            cell(2).store(thread::first_of(task).0, SeqCst);
            cell(1).store(1000, SeqCst);
        }
        Err(failure) => cell(1).store(failure.error as u64, SeqCst),
    }
    park()
}

/// A child with a child: both.
fn family() -> Result<(Child, Id), crate::case::Fault> {
    let number = task_number();
    cell(5).store(crate::pool::stack(), SeqCst);
    let child = make_child(&NewTask { max_priority: 1, ..child_plan(parent, number as u64) })?;
    hand_over(number, 0, child.task)?;
    pause(20_000_000);
    same!("the child's creation of a task", cell(1).load(SeqCst), 1000);
    Ok((child, Id(cell(2).load(SeqCst))))
}

fn to_child() -> Outcome {
    let (child, grandchild) = family()?;
    same!("the grandchild exists below its chief", thread::nearest(grandchild)?, (child.thread, NEAREST_INNER));
    holds!("it is nested deeper", grandchild.nesting() > child.thread.nesting());
    remove_task(child.number)?;
    Ok(())
}

fn clan_dies() -> Outcome {
    let before = used()?;
    let (child, grandchild) = family()?;
    remove_task(child.number)?;
    refused!("the grandchild is gone", thread::nearest(grandchild), Call NoPartner);
    let number = grandchild.task();
    make_child(&NewTask { number, ..child_plan(idle, 0) })?;
    remove_task(number)?;
    same!("used pages", used()?[ACCOUNT_TASKS as usize], before[ACCOUNT_TASKS as usize]);
    Ok(())
}

fn grandchild() -> Outcome {
    let (child, grandchild) = family()?;
    refused!("its lthread", thread::act(grandchild, keel_l4::abi::memory::EX_CANCEL), Call Denied);
    refused!("its number", remove_task(grandchild.task()), Call Denied);
    remove_task(child.number)?;
    Ok(())
}

fn hand_over_denied() -> Outcome {
    let child = child(idle, 0)?;
    let (first, count) = task_range();
    refused!("numbers after ours", hand_over(first + count, 0, child.task), Call Denied);
    refused!("more than ours", hand_over(first + 1, (2 * count).ilog2() as u64, child.task), Call Denied);
    Ok(())
}

fn to_stranger() -> Outcome {
    let number = task_number();
    refused!("the root task", hand_over(number, 0, thread::task_of(Id::ROOT)), Call Denied);
    refused!("no task", hand_over(number, 0, Id::INVALID), Call NoPartner);
    Ok(())
}

extern "C" fn delete_own_task(number: u64) -> ! {
    let result = keel_l4::task::delete(number as u32, thread::task_of(utcb::my_id()));
    cell(1).store(result.map_or_else(|f| f.error as u64, |()| 1000), SeqCst);
    park()
}

fn child_denied() -> Outcome {
    let mut plan = child_plan(delete_own_task, 0);
    plan.argument = plan.number as u64;
    make_child(&plan)?;
    pause(10_000_000);
    same!("the child's status", cell(1).load(SeqCst), ERROR_DENIED);
    Ok(())
}

fn all_numbers() -> Outcome {
    let (first, count) = task_range();
    let before = used()?[ACCOUNT_USED as usize];
    for number in first..first + count {
        create_empty(&NewTask { number, ..NewTask::default() })?;
    }
    same!("tasks", used()?[ACCOUNT_TASKS as usize] >= count as u64, true);
    for number in first..first + count {
        remove_task(number)?;
    }
    same!("pages used", used()?[ACCOUNT_USED as usize], before);
    Ok(())
}

fn thousand() -> Outcome {
    let number = task_number();
    create_empty(&NewTask { number, ..NewTask::default() })?;
    remove_task(number)?;
    let before = used()?;
    for _ in 0..1000 {
        create_empty(&NewTask { number, ..NewTask::default() })?;
        remove_task(number)?;
    }
    same!("the account", used()?, before);
    Ok(())
}
