// SPDX-License-Identifier: GPL-2.0-only
//! Windows: tasks with 32-bit threads, in the tables of another task, their host.
//!
//! Whoever runs on the host's tables changes to such a thread, or from one to another, without a
//! write of CR3, which segments take the place of (`arch::segments`). The host and its members are
//! a group (Uhlig et al., "Performance of address-space multiplexing on the Pentium", section 5.2):
//! what a member loses is taken from one space, whatever runs elsewhere.
//!
//! A window lies in one entry of a table of the host's for 1 GB each. That entry leads to a table
//! of the kernel's own, whose entries lead to the member's tables of small pages, or are copies of
//! its large pages' entries. They are copied when the member faults, and go with what they are of
//! (`paging::hide`). Like the kernel's own entries they lack `MAPPED`: walks of the host's tables
//! take them for empty, and nothing is mapped there. The member keeps its own tables, on which
//! mapping, unmapping and accounting work.

use super::space::{drop_if_empty, new_table, table_for, walk};
use crate::{arch::paging::*, base::abi::*, base::*, object::task::Window, object::*};

/// Level of the entries of a window's table.
const LEVEL: u8 = 1;

/// Gives a task a window in the tables of `host`, or sees that it has this one. Errors: Busy if it
/// has another one, or others lie there; or no memory. Interrupts are let in.
pub fn open(task: Ref<Task>, host: Ref<Task>, reach: Reach) -> Result<(), Error> {
    if let Some(window) = task.window.get() {
        return Error::Busy.when(window.host != host || window.reach != reach);
    }
    let other = |member: Ref<Task>| member.window.get().is_some_and(|window| window.reach.overlaps(reach));
    Error::Busy.when(host.each_member().any(other))?;
    let base = VirtAddr::new(reach.base());
    let above = table_for(host, walk(host, base, LEVEL + 1), base, LEVEL + 1)?;
    let cell = POOL.word(above, slot(base, LEVEL + 1));
    Error::Busy.when(cell.get() & MAPPED != 0)?;
    if cell.get() == 0 {
        let table = new_table(host.account, LEVEL, base.align_down(span(LEVEL + 1)), above);
        let table = table.inspect_err(|_| drop_if_empty(above))?;
        POOL.page(above).count_entries(1);
        POOL.page(above).fill(slot(base, LEVEL + 1), 1);
        cell.set(POOL.physical(table).raw() | TASK_TABLE & !MAPPED);
    }
    let table = POOL.index_of(leads_to(cell.get()));
    POOL.page(table).count_entries(1);
    host.members.push_back(task);
    task.window.set(Some(Window { host, reach, table }));
    task.space.set(PhysAddr::new(POOL.physical(task.root_table).raw() | WINDOWED));
    Ok(())
}

/// Takes a task's window away, if it has one. None of its threads runs there. Interrupts are let
/// in.
pub fn close(task: Ref<Task>) {
    let Some(window) = task.window.get() else { return };
    // The tables that are hidden still have pages: all translations go.
    flush_all(POOL.physical(window.host.root_table), || hide(window, TOP_LEVEL, VirtAddr::new(0)));
    window.host.members.remove(task);
    task.window.set(None);
    task.space.set(POOL.physical(task.root_table));
    POOL.page(window.table).count_entries(-1);
    drop_if_empty(window.table);
}

/// Shows in a task's window what the task has at an address of its own. False if that is nothing,
/// shown already, or beyond the window.
pub fn show(task: Ref<Task>, address: VirtAddr) -> bool {
    let shows = |window: &Window| address.raw() < window.reach.size();
    let Some(window) = task.window.get().filter(shows) else { return false };
    let (table, level) = walk(task, address, 0);
    let leaf = POOL.word(table, slot(address, level));
    let shown = match level {
        0 => POOL.physical(table).raw() | TASK_TABLE & !MAPPED,
        _ if leaf.get() & MAPPED == 0 => return false,
        _ => {
            // The processor sets these in the copy, from which they are not read back.
            leaf.set(leaf.get() | ACCESSED | if leaf.get() & WRITE != 0 { DIRTY } else { 0 });
            leaf.get() & !MAPPED | address.align_down(TABLE_SPAN).offset_in(span(level))
        }
    };
    (window.cell(address).replace(shown) ^ shown) & !(ACCESSED | DIRTY) != 0
}

#[cfg(test)]
#[path = "../../../tests/kernel/windows.rs"]
mod tests;
