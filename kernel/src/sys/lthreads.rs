// SPDX-License-Identifier: GPL-2.0-only
//! Creation and deletion of lthreads, and the frames that alien threads share with their chief.

use crate::object::{thread::*, *};
use crate::{arch::direct_physical, arch::fpu, arch::switch, arch::tables, sys::small};
use crate::{base::abi::*, base::*, ipc::ipc, ipc::kernel_object, ipc::transfer, mm::space, percpu::preempt, sched};

// A thread's UTCB never lies where frames are.
const _: () = assert!(AREA_UTCBS + AREA_MAX_UTCBS * PAGE_SIZE <= AREA_FRAMES);

/// Creates a stopped thread.
pub fn create(task: Ref<Task>, plan: &Plan) -> Result<Ref<Thread>, Error> {
    // A thread there would read the windows of others, except for their chief's.
    Error::Denied.when(task.each_member().any(|member| member.chief != Some(task)))?;
    let id = task.reserve_lthread(plan.lthread)?;
    let alien = plan.frame.is_some();
    Error::Invalid.when(!alien && utcb_offset(id) >= task.area_size.min(AREA_FRAMES))?;
    let utcb = if alien { core::ptr::null_mut() } else { space::add_object(task, utcb_offset(id))?.cast() };
    let thread = POOL.make(task.account, Kind::Lthread, Thread::new(id, task, utcb, plan));
    let thread = thread.inspect_err(|_| space::remove_object(task, utcb_offset(id)))?;
    thread.frame.set(thread.as_ptr().cast());
    match plan.frame {
        Some(frame) => bind(thread, Some(frame)),
        None => prepare_native(thread),
    }
    if task.resident && !task.upper {
        small::change_reach(thread, Reach::ALL);
    }
    task.install(thread);
    mark_cross_clan_handler(thread);
    Ok(thread)
}

fn utcb_offset(id: Id) -> u64 {
    AREA_UTCBS + id.lthread() as u64 * PAGE_SIZE
}

fn prepare_native(thread: Ref<Thread>) {
    let address = canonical((thread.task.area + utcb_offset(thread.id)).raw());
    if let Some(utcb) = thread.utcb() {
        utcb.address.set(address);
        utcb.id.set(thread.id.0);
    }
    let frame = thread.frame();
    frame.gs_base.set(address);
    frame.cs.set(tables::USER_CS as u64);
    frame.ss.set(tables::USER_SS as u64);
    frame.flags.set(switch::FLAGS_FIXED);
}

/// Pool page of frame `index` of `chief`'s window, if it was bought.
fn frame_page(chief: Ref<Task>, index: u64) -> Option<PoolPage> {
    space::object_at(chief, AREA_FRAMES + index / FRAMES_PER_PAGE * PAGE_SIZE)
}

/// Finds frame `index` of `chief`'s window. It must have been bought and be bound to nobody.
pub fn frame_at(chief: Ref<Task>, index: u64) -> Result<BoundFrame, Error> {
    Error::Invalid.when(index >= AREA_FRAME_PAGES * FRAMES_PER_PAGE)?;
    let page = frame_page(chief, index).ok_or(Error::NoPartner)?;
    let bound = POOL.page(page).parts.get() & 1 << (index % FRAMES_PER_PAGE) != 0;
    Some(BoundFrame { page, index: index as u32 }).filter(|_| !bound).ok_or(Error::Busy)
}

/// Whether a thread's frame is `index` of `chief`'s window.
pub fn has_frame(thread: Ref<Thread>, chief: Ref<Task>, index: u64) -> bool {
    thread.frame_index.get() as u64 == index
        && frame_page(chief, index)
            .is_some_and(|page| POOL.address(page) as u64 == thread.frame.get() as u64 & !(PAGE_SIZE - 1))
}

/// Binds a frame to an alien thread in place of the one that it has; `None` leaves it without.
pub fn bind(thread: Ref<Thread>, frame: Option<BoundFrame>) {
    if thread.frame_index.get() as u64 != FRAME_NONE {
        let old = direct_physical(thread.frame.get().cast());
        let (page, number) = (POOL.index_of(old), old.offset_in(PAGE_SIZE) / FRAME_SIZE);
        POOL.page(page).parts.set(POOL.page(page).parts.get() & !(1 << number));
        thread.frame().thread.set(0);
    }
    match frame {
        None => {
            thread.frame.set(thread.as_ptr().cast());
            thread.frame_index.set(FRAME_NONE as u32);
        }
        Some(BoundFrame { page, index }) => {
            let number = index % FRAMES_PER_PAGE as u32;
            POOL.page(page).parts.set(POOL.page(page).parts.get() | 1 << number);
            thread.frame.set(POOL.address(page).wrapping_add(number as usize * FRAME_SIZE as usize).cast());
            thread.frame_index.set(index);
            thread.frame().thread.set(thread.id.0);
        }
    }
}

/// Deletes a thread. Whether it was the current one.
///
/// # Safety
/// The caller uses no `Ref` to it any more.
pub unsafe fn delete(thread: Ref<Thread>) -> bool {
    if thread.has(Flags::TRANSFER) {
        transfer::fail(thread, Error::Aborted);
    }
    ipc::leave_queues(thread);
    // It waits for nobody any more: interrupts that are let in on the way find it so.
    thread.change_state(State::Inactive);
    while let Some(sender) = thread.senders.first() {
        ipc::fail(sender, Side::Send, Error::NoPartner);
        preempt::poll();
    }
    if thread.waiters.get() > 0 {
        ipc::fail_waiters(thread);
    }
    kernel_object::thread_deleted(thread);
    let current = sched::forget(thread);
    small::forget(thread);
    thread.task.vacate(thread);
    fpu::drop_states(thread);
    if thread.has(Flags::ALIEN) {
        bind(thread, None);
    } else {
        space::remove_object(thread.task, utcb_offset(thread.id));
    }
    // SAFETY: it is in no queue, table or field any more; the caller's contract.
    unsafe { POOL.delete(thread, Kind::Lthread) };
    current
}
