// SPDX-License-Identifier: GPL-2.0-only
//! lthread_ex_regs: creates, changes, stops and deletes an lthread of the caller's task or clan.
//!
//! All CPU locks are held and interrupts are off. First everything is checked, and memory is
//! allocated; then the changes are made, which cannot fail. The arguments are in a record in the
//! caller's UTCB, which another thread of the task may change at any time: what matters is read
//! once, or checked again.

use crate::{arch::cpu, arch::fpu, arch::segments, base::abi::*, base::*, ipc::fault, ipc::ipc, mm::umem, sched};
use crate::{object::task, object::thread, object::thread::*, object::TaskNumber, sys::lthreads, sys::lthreads::*};

/// Operations on the FPU state.
const OF_FPU: u64 = EX_FPU_GET | EX_FPU_SET | EX_FPU_RESET;
/// Operations that exchange no registers.
const WITHOUT_REGISTERS: u64 = EX_TRIGGER | EX_CANCEL | EX_START | EX_DELETE | EX_FPU_BORROW | OF_FPU;
/// Operations on debug registers and TLS descriptors, which few threads have.
const OF_DEBUG_TLS: u64 = EX_DEBUG_GET | EX_DEBUG_SET | EX_TLS;

/// The lthread_ex_regs system call of the current thread. Returns false if the caller deleted
/// itself: then it has no frame any more.
pub fn call(caller: Ref<Thread>) -> Result<bool, Error> {
    let frame = caller.frame();
    let (id, mask) = (Id(frame.di.get()), frame.si.get());
    Error::Invalid.when(mask & !EX_ALL != 0)?;
    let record = caller.utcb().ok_or(Error::Invalid)?.ex_regs();
    if mask & EX_CREATE != 0 {
        let thread = create(caller, id, mask, record)?;
        frame.di.set(thread.id.0);
        return Ok(true);
    }
    // Version 0 names the thread that exists.
    let thread = task::at(TaskNumber::of(id)).and_then(|task| task.lthread(id.lthread()));
    let thread = thread.filter(|thread| id.version() == 0 || thread.id == id).ok_or(Error::NoPartner)?;
    let thread = thread::controlled(caller, thread)?;
    if mask & EX_DELETE != 0 {
        // SAFETY: nothing after this looks at the thread; the caller is told if it was that.
        return Ok(!unsafe { lthreads::delete(thread) });
    }
    let checked = check(caller, thread, mask, record)?;
    frame.di.set(thread.id.0);
    apply(thread, mask, record, checked);
    Ok(true)
}

/// Creates a thread in the caller's task or clan, with the caller's pager and handler unless
/// others are given, and starts it if asked to. Errors: Invalid, NoPartner, Denied, Busy, or no
/// memory.
fn create(caller: Ref<Thread>, id: Id, mask: u64, record: &SharedExRegs) -> Result<Ref<Thread>, Error> {
    const NATIVE: u64 = EX_CREATE | EX_START | EX_IP | EX_SP | EX_ARGUMENT | EX_PAGER | EX_HANDLER | EX_PREEMPTER;
    const ALLOWED: u64 = NATIVE | EX_ALIEN | EX_FRAME;
    Error::Invalid.when(mask & !ALLOWED != 0 || (mask & EX_ALIEN != 0) != (mask & EX_FRAME != 0))?;
    // Version 0 names the task that exists.
    let task = task::at(TaskNumber::of(id)).filter(|task| id.version() == 0 || task.version == id.version());
    let task = caller.task.controls(task.ok_or(Error::NoPartner)?)?;
    let frame = if mask & EX_FRAME != 0 { Some(frame_at(caller.task, record.frame.get())?) } else { None };
    let priority = caller.priority.get().min(task.mcp.get());
    let plan = Plan { lthread: id.lthread(), frame, priority, pager: caller.pager.get() };
    let thread = lthreads::create(task, &plan)?;
    thread.handler.set(caller.handler.get());
    set_registers(thread, mask, record);
    if mask & EX_START != 0 {
        sched::wake(thread);
    }
    Ok(thread)
}

/// What was read of the record and checked: `Some(Some(frame))`: bind this frame, `Some(None)`:
/// unbind the old one, `None`: no change; and what becomes of system calls.
type Checked = (Option<Option<BoundFrame>>, u64);

/// Checks everything that `apply` relies on, and allocates what it needs.
fn check(caller: Ref<Thread>, thread: Ref<Thread>, mask: u64, record: &SharedExRegs) -> Result<Checked, Error> {
    Error::Denied.when(mask & EX_PREEMPTER != 0 && thread.priority.get() > caller.task.mcp.get())?;
    let stopped = matches!(thread.state(), State::Inactive | State::Faulted);
    Error::Invalid.when(mask & EX_ALIEN != 0 || mask & EX_FRAME != 0 && (!thread.has(Flags::ALIEN) || !stopped))?;
    let (calls, alien) = (record.dispatch.get(), thread.has(Flags::ALIEN));
    let entry = calls == canonical(calls) && calls >= PAGE_SIZE && alien == (calls >> HALF_SHIFT == 0);
    let entry = entry && (alien || !thread.has(Flags::SMALL));
    let known = calls <= DISPATCH_ON || entry;
    Error::Invalid.when(mask & EX_DISPATCH != 0 && !known)?;
    Error::Invalid
        .when(mask & EX_FPU_BORROW != 0 && (thread.has(Flags::ALIEN.union(Flags::FPU)) || mask & EX_FPU_SET != 0))?;
    let frame = match (mask & EX_FRAME, record.frame.get()) {
        (0, _) => None,
        (_, FRAME_NONE) => Some(None),
        (_, index) if has_frame(thread, caller.task, index) => None,
        (_, index) => Some(Some(frame_at(caller.task, index)?)),
    };
    let bound = frame.map_or(thread.frame_index.get() as u64 != FRAME_NONE, |frame| frame.is_some());
    Error::Invalid.when(mask & EX_START != 0 && thread.has(Flags::ALIEN) && !bound)?;
    if mask & OF_DEBUG_TLS != 0 {
        check_debug_tls(thread, mask, record)?;
    }
    // Last, because it takes effect at once: if it fails, nothing else was done.
    exchange_fpu(caller, thread, mask, record)?;
    Ok((frame, calls))
}

/// Makes the changes that `check` has checked; it cannot fail. If the thread runs on another CPU, a
/// write-back comes first, so that its registers are in its frame.
fn apply(thread: Ref<Thread>, mask: u64, record: &SharedExRegs, (frame, calls): Checked) {
    if mask & !EX_START != 0 {
        cpu::write_back_elsewhere(thread);
    }
    if let Some(frame) = frame {
        bind(thread, frame);
    }
    if mask & EX_CANCEL != 0 {
        ipc::cancel(thread);
    }
    thread.borrows_fpu.set(thread.borrows_fpu.get() || mask & EX_FPU_BORROW != 0);
    if mask & OF_DEBUG_TLS != 0 {
        exchange_debug_tls(thread, mask, record);
    }
    if mask & !WITHOUT_REGISTERS != 0 {
        record.state.set(thread.state() as u64);
        set_registers(thread, mask, record);
    }
    if mask & EX_DISPATCH != 0 {
        record.dispatch.set(thread.dispatch.replace(calls));
        thread.put(Flags::DISPATCHED, thread.has(Flags::ALIEN) == (calls != DISPATCH_OFF));
    }
    if mask & EX_START != 0 && matches!(thread.state(), State::Inactive | State::Faulted) {
        ipc::leave_fault(thread);
        sched::wake(thread);
    }
    if mask & EX_TRIGGER != 0 {
        thread.set(Flags::TRIGGERED);
        fault::leave_pager(thread);
    }
}

/// Exchanges the registers and ids that `mask` names; the record gets the old values of all. The
/// thread's registers are in its frame.
fn set_registers(thread: Ref<Thread>, mask: u64, record: &SharedExRegs) {
    let frame = thread.frame();
    // The new value, if that is asked for; the record gets the old one.
    let exchange = |bit: u64, value: &Word, old: u64| Some(value.replace(old)).filter(|_| mask & bit != 0);
    if let Some(ip) = exchange(EX_IP, &record.ip, frame.ip.get()) {
        frame.ip.set(ip);
        sched::redirect(thread);
    }
    thread.put(Flags::BAD_IP, !thread.has(Flags::ALIEN) && frame.ip.get() != canonical(frame.ip.get()));
    if let Some(sp) = exchange(EX_SP, &record.sp, frame.sp.get()) {
        frame.sp.set(sp);
    }
    if mask & (EX_IP | EX_SP | EX_ARGUMENT) != 0 {
        thread.found.set(0);
    }
    if mask & EX_ARGUMENT != 0 {
        frame.di.set(record.argument.get());
    }
    let exchange_id = |bit, value, id: Id| exchange(bit, value, id.0).map_or(id, Id);
    thread.pager.set(exchange_id(EX_PAGER, &record.pager, thread.pager.get()));
    thread.handler.set(exchange_id(EX_HANDLER, &record.handler, thread.handler.get()));
    if let Some(preempter) = exchange(EX_PREEMPTER, &record.preempter, thread.preempter.get().0) {
        fault::set_preempter(thread, Id(preempter));
    }
    mark_cross_clan_handler(thread);
    record.frame.set(thread.frame_index.get() as u64);
}

/// Reads, writes or resets the FPU state of a thread. The caller's buffer, to or from which it is
/// copied, must be mapped, large enough and aligned to 64 bytes. Errors: Invalid, or no memory.
fn exchange_fpu(caller: Ref<Thread>, thread: Ref<Thread>, mask: u64, record: &SharedExRegs) -> Result<(), Error> {
    if mask & (EX_FPU_GET | EX_FPU_SET) != 0 {
        let (address, size) = (record.fpu.get(), fpu::SIZE.get() as u64);
        Error::Invalid.when(address % 64 != 0 || record.fpu_size.get() < size)?;
        let buffer = umem::words(caller.task, VirtAddr::new(address), size, mask & EX_FPU_GET != 0)?;
        if mask & EX_FPU_GET != 0 {
            fpu::copy_out(thread, buffer);
        }
        if mask & EX_FPU_SET != 0 {
            fpu::copy_in(thread, buffer)?;
        }
        record.fpu_size.set(size);
    }
    if mask & EX_FPU_RESET != 0 {
        fpu::reset(thread);
    }
    Ok(())
}

/// Checks debug registers and TLS descriptors that are to be written, and allocates memory for
/// them.
fn check_debug_tls(thread: Ref<Thread>, mask: u64, record: &SharedExRegs) -> Result<(), Error> {
    Error::Invalid.when(mask & EX_DEBUG_SET != 0 && !fpu::is_valid_debug(&record.debug))?;
    Error::Invalid.when(
        mask & EX_TLS != 0 && !record.tls.iter().all(|descriptor| segments::is_user_descriptor(descriptor.get())),
    )?;
    fpu::debug_tls_of(thread).map(|_| ())
}

/// Writes and reads debug registers and TLS descriptors, after `check_debug_tls`. It cannot fail.
fn exchange_debug_tls(thread: Ref<Thread>, mask: u64, record: &SharedExRegs) {
    let Some(state) = thread.extra.get() else { return };
    let exchanges: [(_, &[Word], &[Word]); 3] = [
        (EX_DEBUG_SET, &record.debug, &state.debug),
        (EX_DEBUG_GET, &state.debug, &record.debug),
        (EX_TLS, &record.tls, &state.tls),
    ];
    exchanges.into_iter().filter(|(bit, ..)| mask & bit != 0).for_each(|(_, from, to)| word::copy(from, to));
    // The record is user memory, and may have changed since it was checked: the copy is checked
    // again, and cleared if it is not valid.
    let descriptors = state.tls.iter().all(|descriptor| segments::is_user_descriptor(descriptor.get()));
    if !descriptors || !fpu::is_valid_debug(&state.debug) {
        state.debug.iter().chain(&state.tls).for_each(|word| word.set(0));
    }
    fpu::debug_tls_changed(thread);
}
