// SPDX-License-Identifier: GPL-2.0-only
//! The seven system calls: decode, dispatch, encode. docs/abi.md lists their registers.
//!
//! All CPU locks are held and interrupts are off; long operations have preemption points. `caller`
//! is the current thread, whose registers are in its frame. A call that is preempted returns
//! `Stop::Restart`, and the caller executes the `syscall` instruction again when it next runs.

use crate::mm::{io, space, space::Done, space::Stop, space::Work};
use crate::object::{thread::Flags, thread::State, *};
use crate::sys::{exregs, lthreads, small, tasks};
use crate::{arch::paging::TABLE_SPAN, arch::*, base::abi::*, base::*, ipc::fault, ipc::ipc, percpu::preempt, sched};

/// Length of the `syscall` instruction: to restart a call, the ip is set back by that.
const INSTRUCTION: u64 = 2;

/// Serves a system call instruction on the slow path. The result is in the caller's frame.
pub fn enter(caller: Ref<Thread>) {
    crate::debugger::trace::call(caller);
    let asked = caller.frame().orig_ax.get();
    if caller.has(Flags::ALIEN.union(Flags::DISPATCHED)) || caller.is_called_up() {
        // If an unmap was preempted before its calls became messages, the handler gets that call,
        // and no later unmap may use its progress.
        caller.found.set(0);
        fault::handlers_call(caller);
        return;
    }
    let result = match asked & CALL_MASK {
        CALL_IPC => ipc::call(caller).map_err(Stop::Failed),
        CALL_ID_NEAREST => id_nearest(caller),
        CALL_FPAGE_UNMAP => fpage_unmap(caller),
        CALL_THREAD_SWITCH => thread_switch(caller),
        CALL_THREAD_SCHEDULE => thread_schedule(caller),
        CALL_LTHREAD_EX_REGS => exregs::call(caller).map_err(Stop::Failed),
        CALL_TASK_NEW => task_new(caller),
        _ => Err(Error::Invalid.into()),
    };
    // The upper bits of eax must be zero in all calls but ipc.
    match result {
        Ok(true) => caller.frame().ax.set(Status::OK.0),
        // Its status is there already, or comes later, or the caller was deleted.
        Ok(false) => {}
        Err(Stop::Failed(error)) => caller.frame().ax.set(Status::error(Side::Call, error).0),
        Err(Stop::Restart) => {
            let frame = caller.frame();
            frame.ax.set(asked);
            frame.ip.set(frame.ip.get() - INSTRUCTION);
        }
    }
}

/// What a system call returns: true if its status is success, which `enter` writes.
type Outcome = Result<bool, Stop>;

/// id_nearest: returns the thread that receives a message to the destination, and its relation;
/// for nil the caller's own id.
fn id_nearest(caller: Ref<Thread>) -> Outcome {
    let frame = caller.frame();
    let destination = Id(frame.di.get());
    frame.si.set(NEAREST_SAME_CLAN);
    if destination == Id::NIL {
        frame.di.set(caller.id.0);
    } else if !destination.is_source() {
        let (thread, relation) = ipc::nearest(caller, thread::find(destination).ok_or(Error::NoPartner)?)?;
        frame.di.set(thread.id.0);
        frame.si.set(relation);
    }
    Ok(true)
}

/// Returns the task of an id, if it is the caller's task or one of its clan. Errors: NoPartner,
/// Denied.
fn controlled_task(caller: Ref<Thread>, id: Id) -> Result<Ref<Task>, Error> {
    caller.task.controls(task::find(id).ok_or(Error::NoPartner)?)
}

/// fpage_unmap: an fpage of the caller's task, or ranges of a task in its clan. Preemptible: the
/// progress and the state found so far are kept in `Thread::found` while the call is restarted.
fn fpage_unmap(caller: Ref<Thread>) -> Outcome {
    let frame = caller.frame();
    let (mut work, range, at) = Work::resume(caller.found.take());
    let (fpage, flags) = (Fpage(frame.di.get()), frame.si.get());
    Error::Invalid.when(flags & !(UNMAP_RIGHTS | UNMAP_FLUSH | UNMAP_TASK | UNMAP_MOVE) != 0)?;
    Error::Invalid.when(flags & UNMAP_MOVE != 0 && (flags & UNMAP_TASK == 0 || frame.r8.get() != 1))?;
    if flags & UNMAP_TASK != 0 {
        return unmap_ranges(caller, work, (range, at));
    }
    Error::Invalid.when(!fpage.is_valid())?;
    let itself = flags & UNMAP_FLUSH != 0;
    if fpage.is_io() {
        let mut word = (at / PAGE_SIZE) as usize;
        let done = io::unmap(caller.task, &mut word, (fpage.port(), fpage.log2()), itself, &mut work);
        return report_state(caller, done, work.keep(0, word as u64 * PAGE_SIZE));
    }
    let keep = FPAGE_RWX & !flags & if flags & FPAGE_READ != 0 { 0 } else { FPAGE_RWX };
    let (base, mut at) = (VirtAddr::new(fpage.base()), VirtAddr::new(at.max(fpage.base())));
    let done = space::unmap(caller.task, &mut at, base + fpage.size(), keep, itself, &mut work);
    report_state(caller, done, work.keep(0, at.raw()))
}

/// Unmaps the ranges of the caller's record, from `place` on: the number of a range, and an
/// address in it. The record is read again after a restart.
fn unmap_ranges(caller: Ref<Thread>, mut work: Work, place: (usize, u64)) -> Outcome {
    let frame = caller.frame();
    let task = controlled_task(caller, Id(frame.dx.get()))?;
    let (count, utcb) = (frame.r8.get(), caller.utcb().ok_or(Error::Invalid)?);
    Error::Invalid.when(count > MAX_RANGES)?;
    let mut at = VirtAddr::new(place.1);
    for (range, pair) in utcb.record.chunks_exact(2).take(count as usize).enumerate().skip(place.0) {
        work.begin_range();
        let (address, pages) = (pair[0].get(), pair[1].get());
        let start = address & !(PAGE_SIZE - 1);
        let end = pages.checked_mul(PAGE_SIZE).and_then(|size| start.checked_add(size)).ok_or(Error::Invalid)?;
        Error::Invalid.when(end > 1 << SPACE_SHIFT || address & (PAGE_SIZE - 1) & !FPAGE_RWX != 0)?;
        let (start, end) = (VirtAddr::new(start), VirtAddr::new(end));
        if frame.si.get() & UNMAP_MOVE != 0 && move_table(task, (start, end), frame.r9.get(), place == (0, 0))? {
            break;
        }
        at = at.max(start);
        let done = space::unmap(task, &mut at, end, address & FPAGE_RWX, true, &mut work);
        if done.is_err() {
            return report_state(caller, done, work.keep(range, at.raw()));
        }
        at = VirtAddr::new(0);
    }
    report_state(caller, Ok(()), work.keep(0, 0))
}

/// Moves the page table of the only range of an unmap (UNMAP_MOVE), unless the call was restarted.
/// Returns false if the range must be unmapped instead. Error: Invalid.
fn move_table(task: Ref<Task>, (start, end): (VirtAddr, VirtAddr), to: u64, begins: bool) -> Result<bool, Error> {
    Error::Invalid.when(end - start != TABLE_SPAN || (start.raw() | to) % TABLE_SPAN != 0 || to >> SPACE_SHIFT != 0)?;
    Ok(begins && space::move_table(task, start, VirtAddr::new(to)))
}

/// Ends an unmap: returns the page state found to the caller, or, if the call is restarted, keeps
/// progress and state (`kept`, made by `Work::keep`).
fn report_state(caller: Ref<Thread>, done: Done, kept: u64) -> Outcome {
    match done {
        Ok(()) => caller.frame().di.set(Work::resume(kept).0.state()),
        Err(Stop::Restart) => caller.found.set(kept),
        Err(Stop::Failed(_)) => {}
    }
    done.map(|()| true)
}

/// thread_switch: donates the CPU to a thread, or yields (nil).
fn thread_switch(caller: Ref<Thread>) -> Outcome {
    let id = Id(caller.frame().di.get());
    sched::switch_to(if id == Id::NIL { None } else { Some(thread::find(id).ok_or(Error::NoPartner)?) });
    Ok(true)
}

/// thread_schedule: returns a thread's scheduling parameters and state, and sets those that the
/// mask names. Everything is checked before anything is set. Errors: NoPartner, Denied, Invalid.
fn thread_schedule(caller: Ref<Thread>) -> Outcome {
    const MASK: u64 = SCHEDULE_PRIORITY | SCHEDULE_SLICE | SCHEDULE_PREEMPTER | SCHEDULE_PROCESSOR | SCHEDULE_SMALL;
    let frame = caller.frame();
    let thread = thread::controlled(caller, thread::find(Id(frame.di.get())).ok_or(Error::NoPartner)?)?;
    let (mask, priority, slice) = (frame.si.get(), frame.dx.get(), frame.r8.get());
    Error::Invalid.when(mask & !MASK != 0 || mask & SCHEDULE_PRIORITY != 0 && priority >= PRIORITIES)?;
    let (preempter, processor) = (Id(frame.r9.get()), frame.r10.get());
    Error::Invalid.when(mask & SCHEDULE_PROCESSOR != 0 && processor >= cpu::count() as u64)?;
    let limit = caller.task.mcp.get();
    let sets_priority = mask & SCHEDULE_PRIORITY != 0;
    Error::Denied.when(mask != 0 && thread.priority.get() > limit || sets_priority && priority > limit as u64)?;
    // A thread is not told where its own task's window is.
    let reach = if thread.task == caller.task { 0 } else { small::told(thread) };
    if mask & SCHEDULE_SMALL != 0 {
        // Last of what can fail, because it takes effect at once.
        small::set_reach(caller, thread, frame.r13.get(), Id(frame.r12.get()))?;
    }
    frame.r13.set(reach);
    frame.di.set(thread.priority.get() as u64);
    frame.si.set(thread.state() as u64);
    frame.dx.set(if thread.state() == State::Ready { ID_NIL } else { thread.partner.get().0 });
    frame.r8.set(clock::ticks_to_ns(switch::consumed(thread)));
    frame.r9.set(thread.slice.get());
    frame.r10.set(if thread.has(Flags::MIGRATING) { thread.target.get() } else { thread.cpu.get() } as u64);
    frame.r12.set(thread.preempter.get().0);
    if sets_priority {
        sched::set_priority(thread, priority as u8);
    }
    if mask & SCHEDULE_SLICE != 0 {
        sched::set_slice(thread, slice);
    }
    if mask & SCHEDULE_PREEMPTER != 0 {
        fault::set_preempter(thread, preempter);
    }
    if mask & SCHEDULE_PROCESSOR != 0 {
        sched::migrate(thread, processor as u8);
    }
    Ok(true)
}

/// task_new: deletes the task that has the number, if there is one, with all tasks inside
/// its clan; this is preemptible. The caller is none of them: it is that task's chief. Then creates
/// a task, or hands over the numbers. Errors: Invalid, Denied, NoPartner, or no memory.
fn task_new(caller: Ref<Thread>) -> Outcome {
    const TASK_KIND: u64 = TASK_UPPER_HALF | TASK_SUPERVISOR | TASK_RESIDENT;
    const FLAGS: u64 = TASK_MCP_MASK | TASK_INACTIVE | TASK_NO_LTHREAD | TASK_KIND | 0xff << TASK_RANGE_SHIFT;
    let frame = caller.frame();
    let (id, control) = (Id(frame.di.get()), frame.si.get());
    let (number, log2) = (TaskNumber::of(id), control >> TASK_RANGE_SHIFT & 0xff);
    Error::Invalid.when(control & !FLAGS != 0 || number < TaskNumber::FIRST_FREE || log2 > ID_TASK_BITS)?;
    if let Some(old) = task::at(number) {
        Error::Denied.when(!caller.task.is_chief_of(old))?;
        // Its lthreads first: on other CPUs they could map faster than this unmaps.
        // SAFETY: none of them is used here.
        unsafe { tasks::delete_lthreads(old) };
        // Innermost tasks first, one after the other, each emptied before it is deleted:
        // `tasks::delete` is not preemptible, and must have little to do.
        loop {
            let inner = task::innermost(old);
            io::clear(inner)?;
            space::clear(inner)?;
            // SAFETY: from here on it is only compared.
            unsafe { tasks::delete(inner) };
            if inner == old {
                break;
            }
            Stop::Restart.when(preempt::poll())?;
        }
    } else {
        Error::Denied.when(control & TASK_INACTIVE == 0 && !task::may_create(caller.task, number))?;
    }
    if control & TASK_INACTIVE != 0 {
        let taker = controlled_task(caller, Id(frame.dx.get()))?;
        task::hand_over(caller.task, number, 1 << log2, taker)?;
        frame.di.set(Id::thread(0, number.raw(), LTHREAD_TASK as u16, 0).0);
    } else {
        frame.di.set(create(caller, number, control)?.0);
    }
    Ok(true)
}

/// Creates a task and, unless TASK_NO_LTHREAD is set, its first lthread, which is ready.
fn create(caller: Ref<Thread>, number: TaskNumber, control: u64) -> Result<Id, Stop> {
    let frame = caller.frame();
    let mcp = ((control & TASK_MCP_MASK) as u8).min(caller.task.mcp.get());
    let (quota, area, upper) = (frame.r10.get(), frame.r12.get(), control & TASK_UPPER_HALF != 0);
    let (supervisor, resident) = (control & TASK_SUPERVISOR != 0, control & TASK_RESIDENT != 0);
    let plan = task::Plan { number, chief: Some(caller.task), mcp, quota, area, upper, supervisor, resident };
    let task = tasks::create(&plan)?;
    preempt::poll();
    if control & TASK_NO_LTHREAD != 0 {
        return Ok(task.id());
    }
    let first =
        thread::Plan { lthread: 0, frame: None, priority: caller.priority.get().min(mcp), pager: Id(frame.r9.get()) };
    // SAFETY: nobody has got it.
    let thread = lthreads::create(task, &first).inspect_err(|_| unsafe { tasks::delete(task) })?;
    let start = thread.frame();
    start.ip.set(frame.dx.get());
    start.sp.set(frame.r8.get());
    start.di.set(frame.r13.get());
    sched::wake(thread);
    Ok(task.id())
}
