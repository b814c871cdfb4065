// SPDX-License-Identifier: BSD-2-Clause
//! The cost of the µ-kernel's operations while the number of objects grows, with `args growth
//! ROW/SIZE...`. It prints the same as the Linux program bench/guest/growth.c: a line for each
//! stage of a row at a size, named STAGE/SIZE.

use crate::load::accept_lightly;
use crate::paper::part;
use crate::partner::*;
use crate::sample::{idled_between, spoil};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::{MAX_MAP_ITEMS, TASK_SHARED_QUOTA, UNMAP_FLUSH, UNMAP_RIGHTS};
use keel_l4::abi::fpage::{FPAGE_RWX, FPAGE_WRITE, PAGE_SHIFT, PAGE_SIZE};
use keel_l4::abi::ids::LTHREAD_TASK;
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, Message};
use keel_l4::protocol::boot::Start;
use keel_l4::task::{self, NewTask};
use keel_l4::thread::{self, NewThread};
use keel_l4::{mapping, println, sigma0, utcb, Error, Fpage, Id};

/// The most lthreads and tasks.
const MOST: usize = 8192;
/// Operations of a stage whose number does not grow.
const ONES: u64 = 8;
/// Pages of kernel memory for a space with many mappings.
const LARGE_QUOTA: u64 = 4096;
/// Ports of the upper half of the space, which no device of the machine has.
const PORTS: Fpage = Fpage::io(0x8000, 15);

static IDS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// Measures a row at a size.
type Row = fn(u64, &Start) -> Result<(), Failure>;

const ROWS: &[(&str, Row)] =
    &[("lthreads", lthreads), ("tasks", tasks), ("mappings", mappings), ("chain", chain), ("ports", ports)];

/// Measures the rows and sizes in `line` after the word `growth`.
pub fn measure(line: &str, record: &Start) -> Result<(), Failure> {
    let mut wanted = line.split_whitespace().skip_while(|word| *word != "growth").skip(1);
    wanted.try_for_each(|word| {
        let (name, size) = word.split_once('/').unwrap_or((word, ""));
        let row = ROWS.iter().find(|(known, _)| *known == name);
        let (Some((_, row)), Ok(size)) = (row, size.parse()) else {
            println!("bench: there is no {word}");
            spoil();
            return Ok(());
        };
        row(size, record)
    })
}

/// Measures `run`, which consists of `operations` operations of the stage.
fn stage(name: &str, size: u64, operations: u64, run: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    part::reset();
    let idled = idled_between(|| {
        part::begins();
        run().inspect(|()| part::ends())
    })?;
    let (parts, time) = part::sum();
    println!(
        "{{\"name\":\"{name}/{size}\",\"iterations\":{operations},\"parts\":{parts},\"idle_ticks\":{idled},\"tsc\":[{time}]}}"
    );
    Ok(())
}

fn slot(index: u64) -> Result<&'static AtomicU64, Failure> {
    IDS.get(index as usize).ok_or(Failure::call(Error::Invalid))
}

/// A stopped lthread of this task with any number.
fn new_lthread() -> Result<Id, Failure> {
    let (task, number, pager) = (utcb::my_id(), LTHREAD_TASK as u16, image_pager());
    NewThread { task, number, ip: echo as *const () as u64, sp: 0, pager, handler: pager, argument: 0 }.create()
}

/// Lthreads of one task: they are created, exist while one more is created and deleted, and are
/// deleted.
fn lthreads(size: u64, _: &Start) -> Result<(), Failure> {
    stage("lthreads-create", size, size, || {
        (0..size).try_for_each(|index| {
            slot(index)?.store(new_lthread()?.0, Relaxed);
            Ok(())
        })
    })?;
    stage("lthread-beside-lthreads", size, ONES, || (0..ONES).try_for_each(|_| thread::delete(new_lthread()?)))?;
    stage("lthreads-delete", size, size, || {
        (0..size).try_for_each(|index| thread::delete(Id(slot(index)?.load(Relaxed))))
    })
}

/// Creates a task of `main(argument)` without a stack, with the number `index` after the first free
/// one.
fn new_task(index: u64, quota: u64, main: Main, argument: u64) -> Result<Id, Failure> {
    let number = task_number() + index as u32;
    let task = task::create(&NewTask { number, ip: main as usize as u64, argument, quota, ..plan() })?;
    Ok(thread::first_of(task))
}

fn end_task(index: u64) -> Result<(), Failure> {
    task::delete(task_number() + index as u32, own_task())
}

/// Tasks without lthreads. With one, some of them would run before the deletion if that takes a
/// time slice.
fn tasks(size: u64, _: &Start) -> Result<(), Failure> {
    let new = |index| NewTask { number: task_number() + index as u32, quota: TASK_SHARED_QUOTA, ..plan() };
    stage("tasks-create", size, size, || (0..size).try_for_each(|index| task::create_empty(&new(index)).map(|_| ())))?;
    stage("tasks-delete", size, size, || (0..size).try_for_each(end_task))
}

/// Small pages of this task in another one, always the same 4 MB: mapped, made read-only, unmapped,
/// and deleted with the task.
fn mappings(size: u64, record: &Start) -> Result<(), Failure> {
    let memory = large_memory(record)?;
    let receiver = new_task(0, LARGE_QUOTA, accept_lightly, Fpage::memory(WINDOW, WINDOW_LOG2, FPAGE_RWX).0)?;
    let map = || {
        (0..size).step_by(MAX_MAP_ITEMS as usize).try_for_each(|first| {
            let items: [MapItem; MAX_MAP_ITEMS as usize] = core::array::from_fn(|number| {
                let offset = (first + number as u64) * PAGE_SIZE;
                let page = Fpage::memory(memory.base() + offset % memory.size(), PAGE_SHIFT as u8, FPAGE_RWX);
                MapItem { send_base: offset, fpage: page.0 }
            });
            call(receiver, Message::label(0).with_maps(&items)).map(|_| ())
        })
    };
    stage("mappings-map", size, size, map)?;
    stage("mappings-reduce", size, size, || mapping::unmap(memory, UNMAP_RIGHTS & FPAGE_WRITE).map(|_| ()))?;
    stage("mappings-unmap", size, size, || mapping::unmap(memory, UNMAP_RIGHTS).map(|_| ()))?;
    map()?;
    stage("mappings-end", size, size, || end_task(0))
}

/// A page that is mapped repeatedly, each time from its last mapping.
fn chain(size: u64, _: &Start) -> Result<(), Failure> {
    let window = Fpage::memory(WINDOW, WINDOW_LOG2, FPAGE_RWX);
    let first = pages(PAGE_SHIFT as u8);
    let passer = Partner::start(Space::Same, accepting, window.0)?;
    stage("chain-map", size, size, || {
        (0..size).try_for_each(|link| {
            let last = Fpage::memory(window.base() + link.saturating_sub(1) * PAGE_SIZE, PAGE_SHIFT as u8, FPAGE_RWX);
            let from = if link == 0 { first } else { last };
            let item = MapItem { send_base: link * PAGE_SIZE, fpage: from.0 };
            call(passer.id, Message::label(0).with_maps(&[item])).map(|_| ())
        })
    })?;
    stage("chain-reduce", size, size, || mapping::unmap(first, UNMAP_RIGHTS & FPAGE_WRITE).map(|_| ()))?;
    stage("chain-unmap", size, size, || mapping::unmap(first, UNMAP_RIGHTS).map(|_| ()))?;
    mapping::unmap(window, UNMAP_RIGHTS | UNMAP_FLUSH)?;
    passer.end()
}

/// Ports that many tasks have from this one.
fn ports(size: u64, _: &Start) -> Result<(), Failure> {
    sigma0::map(PORTS, PORTS)?;
    (0..size).try_for_each(|index| {
        let holder = new_task(index, TASK_SHARED_QUOTA, accept_lightly, PORTS.0)?;
        slot(index)?.store(holder.0, Relaxed);
        Ok(())
    })?;
    let item = MapItem { send_base: PORTS.port() as u64, fpage: PORTS.0 };
    stage("ports-map", size, size, || {
        (0..size).try_for_each(|index| {
            call(Id(slot(index)?.load(Relaxed)), Message::label(0).with_maps(&[item])).map(|_| ())
        })
    })?;
    stage("ports-unmap", size, size, || mapping::unmap(PORTS, UNMAP_RIGHTS).map(|_| ()))?;
    (0..size).try_for_each(end_task)
}
