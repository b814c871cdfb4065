// SPDX-License-Identifier: GPL-2.0-only
//! I/O ports: which task holds which, and from whom.
//!
//! A task that holds ports has an `IoSpace`: a bitmap of the ports it may use, in the polarity of
//! the processor's (a set bit forbids). A `Grant` records which ports one space got from another. A
//! port that a task holds came from exactly one other (the first), so the grants of a port form a
//! tree with sigma0 at the root.

use crate::{arch::tables, base::abi::*, base::*, percpu::preempt};
use crate::{mm::space::Done, mm::space::Work, mm::space::PAGE_COST, object::io_space::*, object::*};

/// How far ports may be passed on: bounds the walk when they are taken back.
const MAX_DEPTH: u8 = 16;

/// The words of a bitmap, from number `from` on, that hold ports [first, first + 2^log2), with the
/// bits of these in each.
fn words(from: usize, first: u16, log2: u8) -> impl Iterator<Item = (usize, u64)> {
    let (start, end) = (first as usize, first as usize + (1 << log2));
    (from.max(start / 64)..end.div_ceil(64)).map(move |index| {
        let (low, high) = (start.max(index * 64), end.min(index * 64 + 64));
        (index, u64::MAX >> (64 - (high - low)) << (low % 64))
    })
}

/// An object with a bitmap of such bytes; the task pays for both.
fn make<T>(task: Ref<Task>, fill: u8, object: impl FnOnce([PoolPage; 2]) -> T) -> Result<Ref<T>, Error> {
    preempt::poll();
    let first = POOL.take_filled(task.account, Kind::Part, fill)?;
    let second = POOL.take_filled(task.account, Kind::Part, fill);
    // SAFETY: nobody has seen it.
    let bitmap = [first, second.inspect_err(|_| unsafe { POOL.free_page(first, Kind::Part) })?];
    let object = POOL.make(task.account, Kind::Part, object(bitmap));
    // SAFETY: nobody has seen it.
    object.inspect_err(|_| unsafe { free_bitmap(&bitmap) })
}

/// Gives a bitmap back.
///
/// # Safety
/// Nothing refers to it any more.
unsafe fn free_bitmap(bitmap: &[PoolPage; 2]) {
    // SAFETY: the caller's contract.
    bitmap.iter().for_each(|page| unsafe { POOL.free_page(*page, Kind::Part) });
}

/// The I/O space of a task, made if need be.
fn space_of(task: Ref<Task>, depth: u8, fill: u8) -> Result<Ref<IoSpace>, Error> {
    if let Some(space) = task.io.get() {
        return Ok(space);
    }
    let space = make(task, fill, |bitmap| IoSpace { task, depth, bitmap, given: List::new(), got: List::new() })?;
    task.io.set(Some(space));
    Ok(space)
}

/// Maps ports from one task to another; with `grant` the sender loses them. False if it holds none
/// of them.
pub fn map(from: Ref<Task>, to: Ref<Task>, first: u16, log2: u8, grant: bool) -> Result<bool, Error> {
    let source = if task::is_sigma0(from) { Some(space_of(from, 0, 0)?) } else { from.io.get() };
    let Some(source) = source else { return Ok(false) };
    if from == to || words(0, first, log2).all(|(i, ports)| !word(&source.bitmap, i).get() & ports == 0) {
        return Ok(false);
    }
    Error::Denied.when(source.depth >= MAX_DEPTH)?;
    let target = space_of(to, source.depth + 1, u8::MAX)?;
    // Ports go down the tree only: no cycles, and the walk that takes them back is as short as the
    // tree is low.
    Error::Denied.when(target.depth <= source.depth)?;
    let record = grant_between(source, target)?;
    for (index, ports) in words(0, first, log2) {
        let wanted = ports & !word(&source.bitmap, index).get();
        let held = word(&target.bitmap, index);
        let new = wanted & held.get();
        held.set(held.get() & !new);
        let granted = word(&record.bitmap, index);
        granted.set(granted.get() | new);
    }
    tables::forget_ports(to);
    if grant {
        // A grant is a mapping that cannot be taken back by the sender, who has lost the ports:
        // they stay recorded as his, because his own source may take them back.
        words(0, first, log2).for_each(|(index, ports)| hide(source, index, ports));
    }
    Ok(true)
}

/// A space no longer has these ports of a word.
fn hide(space: Ref<IoSpace>, index: usize, ports: u64) {
    let held = word(&space.bitmap, index);
    held.set(held.get() | ports);
    tables::forget_ports(space.task);
}

fn grant_between(source: Ref<IoSpace>, target: Ref<IoSpace>) -> Result<Ref<Grant>, Error> {
    let mut work = Work::default();
    if let Some(grant) = target.got.iter().inspect(|_| work.climb_step()).find(|grant| grant.from == source) {
        return Ok(grant);
    }
    let new = |bitmap| Grant { from: source, to: target, bitmap, given: Links::new(), got: Links::new() };
    let grant = make(target.task, 0, new)?;
    source.given.push_back(grant);
    target.got.push_back(grant);
    Ok(grant)
}

/// Takes ports back from all who got them from `task`; with `itself` from it as well. After
/// `Restart` it goes on at the word `at`.
pub fn unmap(task: Ref<Task>, at: &mut usize, (first, log2): (u16, u8), itself: bool, work: &mut Work) -> Done {
    let Some(space) = task.io.get() else { return Ok(()) };
    for (index, ports) in words(*at, first, log2) {
        *at = index;
        work.arrive()?;
        take_back(space, index, ports, work)?;
        if itself && !task::is_sigma0(task) {
            hide(space, index, ports);
        }
    }
    Ok(())
}

/// Takes ports of one word back from all who got them from a space.
fn take_back(space: Ref<IoSpace>, index: usize, ports: u64, work: &mut Work) -> Done {
    space.given.iter().try_for_each(|grant| take_from(grant, index, ports, work))
}

/// Takes ports of one word back from who got them by one grant. Who loses them can give them to
/// nobody from here on. Those that got them from there come next, and the grant last: after
/// `Restart` what is left is found by way of it. The depth is bounded by MAX_DEPTH, so recursion is
/// too.
fn take_from(grant: Ref<Grant>, index: usize, ports: u64, work: &mut Work) -> Done {
    work.climb_step();
    let granted = word(&grant.bitmap, index);
    let gone = granted.get() & ports;
    if gone == 0 {
        return Ok(());
    }
    hide(grant.to, index, gone);
    take_back(grant.to, index, gone, work)?;
    granted.set(granted.get() & !gone);
    work.found(0);
    work.step(PAGE_COST)
}

/// Takes back all ports that others got from a task, which has no lthreads any more. Meant to be
/// called again after `Restart`.
pub fn clear(task: Ref<Task>) -> Done {
    let (mut work, space) = (Work::default(), task.io.get());
    while let Some(grant) = space.and_then(|space| space.given.first()) {
        work.arrive()?;
        (0..WORDS).try_for_each(|index| take_from(grant, index, u64::MAX, &mut work))?;
        drop_grant(grant);
    }
    Ok(())
}

fn drop_grant(grant: Ref<Grant>) {
    grant.from.given.remove(grant);
    grant.to.got.remove(grant);
    // SAFETY: in no list any more.
    unsafe {
        free_bitmap(&grant.bitmap);
        POOL.delete(grant, Kind::Part);
    }
}

/// A task goes: its ports, and those that others got from it.
pub fn drop_space(task: Ref<Task>) {
    while clear(task).is_err() {}
    let Some(space) = task.io.take() else { return };
    while let Some(grant) = space.got.first() {
        drop_grant(grant);
        preempt::poll();
    }
    tables::forget_ports(task);
    // SAFETY: no grant and no task refers to it any more, and no processor has its ports.
    unsafe {
        free_bitmap(&space.bitmap);
        POOL.delete(space, Kind::Part);
    }
}

#[cfg(test)]
#[path = "../../../tests/kernel/io.rs"]
mod tests;
