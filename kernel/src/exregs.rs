// SPDX-License-Identifier: GPL-2.0-only
//! lthread_ex_regs: create, change, stop, delete an lthread of one's own task or clan.
//!
//! First everything is checked and what needs memory is made; then the changes are made, which cannot fail.

use crate::arch::{fpu, tables};
use crate::refs::Ref;
use crate::space::Stop;
use crate::syscall::{controlled_task, end};
use crate::task::Task;
use crate::thread::*;
use crate::word::Word;
use crate::{fault, ipc, sched, thread};
use core::cell::Cell;
use core::mem::offset_of;
use keel_abi::fpage::SPACE_SHIFT;
use keel_abi::ids::LTHREAD_TASK;
use keel_abi::memory::*;
use keel_abi::{Error, ExRegs, Id};

/// Operations that do not look at the record.
const WITHOUT_RECORD: u64 = EX_TRIGGER | EX_CANCEL | EX_START | EX_DELETE;

/// The record in the caller's UTCB.
struct Record<'a>(&'a [Word; 256]);

macro_rules! field {
    ($record:expr, $field:ident) => {
        &$record.0[offset_of!(ExRegs, $field) / 8]
    };
}

/// The system call.
pub fn call(caller: Ref<Thread>) -> Result<(), Stop> {
    match operate(caller) {
        Ok(true) => end(caller, Ok(())),
        // The caller deleted itself.
        Ok(false) => Ok(()),
        Err(error) => end(caller, Err(error.into())),
    }
}

fn operate(caller: Ref<Thread>) -> Result<bool, Error> {
    let frame = caller.frame();
    let (id, mask) = (Id(frame.di.get()), frame.si.get());
    if mask & !EX_ALL != 0 {
        return Err(Error::Invalid);
    }
    let utcb = caller.utcb().ok_or(Error::Invalid)?;
    let record = Record(&utcb.record);
    if mask & EX_CREATE != 0 {
        let thread = create(caller, id, mask, &record)?;
        frame.di.set(thread.id.0);
        return Ok(true);
    }
    let thread = target(caller, id)?;
    if mask & EX_DELETE != 0 {
        return Ok(!thread::delete(thread));
    }
    let plan = check(caller, thread, mask, &record)?;
    frame.di.set(thread.id.0);
    apply(thread, mask, &record, plan);
    Ok(true)
}

/// The lthread that is meant: of the caller's task or its clan; version 0: whichever is there.
fn target(caller: Ref<Thread>, id: Id) -> Result<Ref<Thread>, Error> {
    let thread = if id.version() == 0 {
        crate::task::at(id.task()).and_then(|task| task.lthread(id.lthread()))
    } else {
        thread::find(id)
    };
    let thread = thread.ok_or(Error::NoPartner)?;
    controlled_task(caller, thread.task.id())?;
    Ok(thread)
}

fn create(caller: Ref<Thread>, id: Id, mask: u64, record: &Record) -> Result<Ref<Thread>, Error> {
    const ALLOWED: u64 = EX_CREATE
        | EX_START
        | EX_IP
        | EX_SP
        | EX_ARGUMENT
        | EX_FOREIGN
        | EX_FRAME
        | EX_PAGER
        | EX_HANDLER
        | EX_PREEMPTER;
    if mask & !ALLOWED != 0 || (mask & EX_FOREIGN != 0) != (mask & EX_FRAME != 0) {
        return Err(Error::Invalid);
    }
    let task = task_of(caller, id)?;
    let frame = match mask & EX_FRAME {
        0 => None,
        _ => Some(frame_at(caller.task, field!(record, frame).get())?),
    };
    let priority = caller.priority.get().min(task.mcp.get());
    let plan = Plan { lthread: id.lthread(), frame, priority, pager: caller.pager.get() };
    let thread = thread::create(task, &plan)?;
    thread.handler.set(caller.handler.get());
    set_registers(thread, mask, record);
    if mask & EX_START != 0 {
        sched::wake(thread);
    }
    Ok(thread)
}

/// The task in which an lthread is to be made: version 0 is whichever task is there.
fn task_of(caller: Ref<Thread>, id: Id) -> Result<Ref<Task>, Error> {
    if id.version() != 0 {
        let task_id = Id::thread(id.version(), id.task(), LTHREAD_TASK as u16, id.nesting());
        return controlled_task(caller, task_id);
    }
    let task = crate::task::at(id.task()).ok_or(Error::NoPartner)?;
    controlled_task(caller, task.id())
}

/// What `check` made ready for `apply`.
struct Ready {
    frame: Option<Option<BoundFrame>>,
}

fn check(caller: Ref<Thread>, thread: Ref<Thread>, mask: u64, record: &Record) -> Result<Ready, Error> {
    if mask & EX_PREEMPTER != 0 && thread.priority.get() > caller.task.mcp.get() {
        return Err(Error::Denied);
    }
    let stopped = matches!(thread.state.get(), State::Inactive | State::Faulted);
    if mask & EX_FOREIGN != 0 || mask & EX_FRAME != 0 && (!thread.has(FOREIGN) || !stopped) {
        return Err(Error::Invalid);
    }
    if mask & EX_CALLS != 0 && field!(record, calls).get() > 1 {
        return Err(Error::Invalid);
    }
    let frame = match (mask & EX_FRAME, field!(record, frame).get()) {
        (0, _) => None,
        (_, keel_abi::call::FRAME_NONE) => Some(None),
        (_, index) if has_frame(thread, caller.task, index) => None,
        (_, index) => Some(Some(frame_at(caller.task, index)?)),
    };
    if mask & EX_START != 0 && thread.has(FOREIGN) {
        let bound = frame.map_or(thread.frame_index.get() as u64 != keel_abi::call::FRAME_NONE, |f| f.is_some());
        if !bound {
            return Err(Error::Invalid);
        }
    }
    if mask & (EX_DEBUG_GET | EX_DEBUG_SET | EX_TLS) != 0 {
        check_extra(thread, mask, record)?;
    }
    // Last, because it takes effect at once.
    if mask & (EX_FPU_GET | EX_FPU_SET) != 0 {
        fpu_buffer(caller, thread, mask, record)?;
    }
    Ok(Ready { frame })
}

fn apply(thread: Ref<Thread>, mask: u64, record: &Record, ready: Ready) {
    if mask & !EX_START != 0 {
        sched::settle_elsewhere(thread);
    }
    if let Some(frame) = ready.frame {
        bind(thread, frame);
    }
    if mask & EX_CANCEL != 0 {
        ipc::cancel(thread);
    }
    if mask & (EX_DEBUG_GET | EX_DEBUG_SET | EX_TLS) != 0 {
        exchange_extra(thread, mask, record);
    }
    if mask & !WITHOUT_RECORD != 0 {
        field!(record, state).set(thread.state.get() as u64);
        set_registers(thread, mask, record);
    }
    if mask & EX_CALLS != 0 {
        let (foreign, calls) = (thread.has(FOREIGN), field!(record, calls).get() != 0);
        field!(record, calls).set((foreign == thread.has(OTHER_CALLS)) as u64);
        thread.unset(OTHER_CALLS);
        thread.set(if foreign == calls { OTHER_CALLS } else { 0 });
    }
    if mask & EX_START != 0 && matches!(thread.state.get(), State::Inactive | State::Faulted) {
        ipc::leave_fault(thread);
        sched::wake(thread);
    }
    if mask & EX_TRIGGER != 0 {
        thread.set(TRIGGERED);
    }
}

fn set_registers(thread: Ref<Thread>, mask: u64, record: &Record) {
    let frame = thread.frame();
    let exchange = |bit: u64, value: &Word, register: &Word| {
        let old = register.get();
        if mask & bit != 0 {
            register.set(value.get());
        }
        value.set(old);
    };
    let exchange_id = |bit: u64, value: &Word, id: &Cell<Id>| {
        let old = id.get();
        if mask & bit != 0 {
            id.set(Id(value.get()));
        }
        value.set(old.0);
    };
    exchange(EX_IP, field!(record, ip), &frame.ip);
    thread.unset(BAD_IP);
    thread.set(if !thread.has(FOREIGN) && frame.ip.get() >> SPACE_SHIFT != 0 { BAD_IP } else { 0 });
    exchange(EX_SP, field!(record, sp), &frame.sp);
    if mask & EX_ARGUMENT != 0 {
        frame.di.set(field!(record, argument).get());
    }
    exchange_id(EX_PAGER, field!(record, pager), &thread.pager);
    exchange_id(EX_HANDLER, field!(record, handler), &thread.handler);
    let preempter = field!(record, preempter);
    let wanted = Id(preempter.get());
    preempter.set(thread.preempter.get().0);
    if mask & EX_PREEMPTER != 0 {
        fault::set_preempter(thread, wanted);
    }
    mark_far_handler(thread);
    field!(record, frame).set(thread.frame_index.get() as u64);
}

/// Copies the FPU state to or from the caller's buffer, which must be mapped.
fn fpu_buffer(caller: Ref<Thread>, thread: Ref<Thread>, mask: u64, record: &Record) -> Result<(), Error> {
    let (address, size) = (field!(record, fpu).get(), fpu::size() as u64);
    if address % 64 != 0 || field!(record, fpu_size).get() < size {
        return Err(Error::Invalid);
    }
    let buffer = crate::umem::Buffer::new(caller.task, address, size, mask & EX_FPU_GET != 0)?;
    if mask & EX_FPU_GET != 0 {
        fpu::copy_out(thread, &buffer);
    }
    if mask & EX_FPU_SET != 0 {
        fpu::copy_in(thread, &buffer)?;
    }
    field!(record, fpu_size).set(size);
    Ok(())
}

/// Words of the record: `count` from byte `offset` on.
fn words<'a>(record: &'a Record, offset: usize, count: usize) -> &'a [Word] {
    &record.0[offset / 8..offset / 8 + count]
}

/// Whether debug registers and thread-local descriptors can be written, and there is memory for them.
fn check_extra(thread: Ref<Thread>, mask: u64, record: &Record) -> Result<(), Error> {
    let debug = words(record, offset_of!(ExRegs, debug), 6);
    let tls = words(record, offset_of!(ExRegs, tls), 3);
    if mask & EX_DEBUG_SET != 0 && !fpu::is_valid_debug(debug) {
        return Err(Error::Invalid);
    }
    if mask & EX_TLS != 0 && !tls.iter().all(|descriptor| tables::is_user_descriptor(descriptor.get())) {
        return Err(Error::Invalid);
    }
    fpu::extra_of(thread).map(|_| ())
}

/// Writes and reads debug registers and thread-local descriptors that `check_extra` has checked.
fn exchange_extra(thread: Ref<Thread>, mask: u64, record: &Record) {
    let Some(state) = thread.extra.get() else { return };
    let debug = words(record, offset_of!(ExRegs, debug), 6);
    if mask & EX_DEBUG_SET != 0 {
        state.set_debug(debug);
    }
    if mask & EX_DEBUG_GET != 0 {
        state.get_debug(debug);
    }
    if mask & EX_TLS != 0 {
        state.set_tls(words(record, offset_of!(ExRegs, tls), 3));
    }
    fpu::extra_changed(thread);
}
