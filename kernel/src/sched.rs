// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler: priorities, time slices, timeouts. The return to user mode is in sys/leave.rs.
//!
//! Owns each CPU's run queue, its deadlines and its time slice. The running thread is in no queue.
//! A thread that becomes ready is put into the run queue or, if it is the first one, into
//! `Cpu::handoff`: an IPC partner usually runs next, and is then switched to without the queue.
//!
//! Interrupts are off. `choose` and what it calls run with this CPU's lock at least,
//! and so does `program` for this CPU. The cross-CPU fast path calls `wake` and `disarm` with the
//! locks of both CPUs. All other functions run with all CPU locks held: they may change other
//! CPUs' queues.

use crate::arch::{apic, clock, cpu, cpu::cpu, cpu::Cpu, switch};
use crate::{base::abi::*, base::*, object::thread::*, percpu::deadlines::*, percpu::lock, percpu::runqueue::NOBODY};

/// Shortest slice: in a shorter one interrupts would take most of the time.
const LEAST_SLICE_NS: u64 = 10_000;

/// Makes a blocked or stopped thread ready, on its CPU. That CPU's lock is held, and that of the
/// current CPU. Another CPU gets an IPI if the thread should run there at once.
pub fn wake(thread: Ref<Thread>) {
    thread.change_state(State::Ready);
    let (own, home) = (cpu(), cpu::of(thread));
    if home.current.get() == Some(thread) {
        return;
    }
    if home.index != own.index {
        enqueue(home, thread);
        if home.current.get().is_none_or(|running| running.priority.get() <= thread.priority.get()) {
            apic::kick(home.apic_id);
        }
        return;
    }
    match own.handoff.get() {
        None => own.handoff.set(Some(thread)),
        Some(_) => enqueue(own, thread),
    }
}

/// Appends a ready thread to the run queue of `cpu`, which need not be the current CPU.
fn enqueue(cpu: &Cpu, thread: Ref<Thread>) {
    thread.set(Flags::QUEUED);
    // If another CPU calls this, fast paths of `cpu` may run before its next slow path computes the
    // threshold: they must see the thread.
    cpu.preemption_threshold.set(cpu.preemption_threshold.get().max(thread.priority.get() as u16 + 1));
    cpu.queue.push_back(thread, thread.priority.get());
}

/// Computes the preemption threshold of `cpu`, the current CPU, where a slow path has chosen: the
/// fast paths switch only to threads of this priority or higher. While a time slice runs, has
/// ended, or a thread is in `handoff`, they switch to none.
pub fn set_preemption_threshold(cpu: &Cpu) {
    let slice = cpu.slice.is_armed() || cpu.slice_over.get() || cpu.handoff.get().is_some();
    cpu.preemption_threshold.set(if slice { NOBODY } else { cpu.queue.top().map_or(0, |top| top as u16 + 1) });
}

/// Whether `choose` would choose the current thread of `cpu` once more, with nothing to do before
/// it runs on: the time slice that runs, if there are threads of its priority, runs on, too.
#[inline(always)]
pub fn goes_on(cpu: &Cpu, current: Ref<Thread>) -> bool {
    let (top, own) = (cpu.queue.top(), Some(current.priority.get()));
    !cpu.slice_over.get()
        && cpu.handoff.get().is_none()
        && !cpu.donated.get()
        && current.state() == State::Ready
        && !current.has(Flags::LEAVES_SLOWLY.union(Flags::HAS_PREEMPTER))
        && top <= own
        && cpu.slice.is_armed() == (top == own)
}

/// Takes a ready thread out of the run queue or `handoff`: it blocks, stops or migrates.
pub fn unready(thread: Ref<Thread>) {
    let cpu = cpu::of(thread);
    if thread.has(Flags::QUEUED) {
        thread.unset(Flags::QUEUED);
        cpu.queue.remove(thread, thread.priority.get());
    } else if cpu.handoff.get() == Some(thread) {
        cpu.handoff.set(None);
    }
}

/// Drops every reference of the CPUs to a thread that is being deleted. Returns true if it is the
/// current thread of the current CPU.
pub fn forget(thread: Ref<Thread>) -> bool {
    unready(thread);
    let home = cpu::of(thread);
    home.deadlines.remove(deadline_of(thread));
    cpu::all().for_each(|cpu| cpu.lookup_cache.forget(thread.id));
    cpu::write_back_elsewhere(thread);
    let leave = |place: &Cell<Option<Ref<Thread>>>| place.get() == Some(thread) && place.take().is_some();
    leave(&home.loaded);
    leave(&home.fpu_owner);
    leave(&home.current) && home.index == cpu().index
}

/// Notes that a thread was given another ip, after a write-back. If it is current on another CPU,
/// it may have entered the kernel there and spin for the locks; its call or fault is then not
/// served (`Cpu::arrived`). On a uniprocessor the call would be complete already, or not yet made.
pub fn redirect(thread: Ref<Thread>) {
    let home = cpu::of(thread);
    if home.index != cpu().index && home.current.get() == Some(thread) {
        home.redirected.set(true);
    }
}

/// Migrates a thread to another CPU: at once, or if it is running, as exit work when it next
/// returns to user mode.
pub fn migrate(thread: Ref<Thread>, target: u8) {
    thread.target.set(target);
    let home = cpu::of(thread);
    if target == home.index {
        thread.unset(Flags::MIGRATING);
    } else if home.current.get() == Some(thread) {
        thread.set(Flags::MIGRATING);
        cpu::write_back_elsewhere(thread);
    } else {
        hand_over(thread);
    }
}

/// Moves a thread that does not run to the CPU `target`, with its timeout.
pub fn hand_over(thread: Ref<Thread>) {
    let home = cpu::of(thread);
    if home.holds(thread) {
        lock::write_back(home);
    }
    unready(thread);
    let time = if thread.deadline.is_armed() { thread.deadline.time() } else { TIME_NEVER };
    disarm(thread);
    thread.cpu.set(thread.target.get());
    thread.unset(Flags::MIGRATING);
    arm(thread, time);
    if thread.state() == State::Ready {
        wake(thread);
    }
}

fn deadline_of(thread: Ref<Thread>) -> Ref<Deadline<Due>> {
    thread.part(|thread| &thread.deadline)
}

/// Sets a thread's timeout to a kernel time; `TIME_NEVER` sets none.
pub fn arm(thread: Ref<Thread>, time: u64) {
    if time == TIME_NEVER {
        return;
    }
    let cpu = cpu::of(thread);
    cpu.deadlines.remove(deadline_of(thread));
    cpu.deadlines.insert(deadline_of(thread), time, Due::Thread(thread));
    thread.set(Flags::TIMED);
    program(cpu);
}

/// Clears a thread's timeout, if it has one. Its CPU's lock is held.
pub fn disarm(thread: Ref<Thread>) {
    if thread.has(Flags::TIMED) {
        thread.unset(Flags::TIMED);
        cpu::of(thread).deadlines.remove(deadline_of(thread));
    }
}

/// Programs the hardware timer of a CPU for its earliest deadline, if that is earlier than the
/// programmed one. Another CPU gets an IPI, and does it itself.
pub fn program(target: &Cpu) {
    let earliest = target.deadlines.earliest();
    if earliest >= target.programmed.get() {
        return;
    }
    if target.index == cpu().index {
        target.programmed.set(earliest);
        apic::set_timer(earliest);
    } else {
        apic::kick(target.apic_id);
    }
}

/// Donates the CPU from the current thread to `to`, or yields to the next thread of the same
/// priority. A donation to a thread that is not ready, on another CPU, or of a higher priority
/// does nothing.
pub fn switch_to(to: Option<Ref<Thread>>) {
    let cpu = cpu();
    let Some(current) = cpu.current.get() else { return };
    let Some(to) = to else {
        // If the caller runs on a donor's slice, that slice continues: it is not the caller's to
        // give up.
        if cpu.slice_owner.get() == current.id {
            cpu.deadlines.remove(Ref::to(&cpu.slice));
        }
        return slice_ended(cpu, Some(current));
    };
    let waits_here = to != current && to.cpu.get() == cpu.index && to.state() == State::Ready;
    if waits_here && to.priority.get() <= current.priority.get() {
        unready(to);
        enqueue(cpu, current);
        cpu.current.set(Some(to));
        // It runs although the donor may have the higher priority: until the next kernel entry, at
        // the latest when the donor's slice ends, which continues.
        cpu.donated.set(true);
        cpu.slice_over.set(false);
        if !cpu.slice.is_armed() {
            run_slice(cpu, current);
        }
    }
}

/// Returns the thread that runs next on the current CPU; idles while none is ready. When it idles
/// it releases the locks, and then has this CPU's lock only.
pub fn choose(cpu: &'static Cpu) -> Ref<Thread> {
    loop {
        if let Some(thread) = candidate(cpu) {
            return thread;
        }
        // A time slice does not run while the CPU is idle.
        if cpu.slice.is_armed() {
            cut_short(cpu);
        }
        crate::debugger::trace::idle();
        lock::release(cpu);
        switch::wait_for_interrupt();
        lock::enter(cpu);
        program(cpu);
    }
}

/// Returns the thread that should run next on the current CPU, taken out of queue and `handoff`;
/// `None` if none is ready.
fn candidate(cpu: &Cpu) -> Option<Ref<Thread>> {
    let running = cpu.current.get().filter(|thread| thread.state() == State::Ready);
    if cpu.donated.take() && !cpu.slice_over.get() && running.is_some() {
        return running;
    }
    if running.is_some_and(|thread| thread.has(Flags::HAS_PREEMPTER) && tells_preempter(cpu, thread)) {
        return running;
    }
    if running.is_none() {
        cpu.current.set(None);
    }
    let partner = cpu.handoff.take();
    let best = match (running, partner) {
        (Some(running), Some(partner)) if partner.priority.get() > running.priority.get() => {
            put_back(cpu, running);
            partner
        }
        (Some(running), Some(partner)) => {
            enqueue(cpu, partner);
            running
        }
        (Some(thread), None) | (None, Some(thread)) => thread,
        (None, None) => return pop(cpu),
    };
    let top = cpu.queue.top();
    let over = cpu.slice_over.get() && Some(best) == running;
    if top.is_some_and(|top| top > best.priority.get() || over && top == best.priority.get()) {
        if over {
            enqueue(cpu, best);
        } else {
            put_back(cpu, best);
        }
        return pop(cpu);
    }
    Some(best)
}

/// Returns true if the running thread, which has a preempter, sends it a message before another
/// thread runs: its time slice has ended, or a thread of a higher priority is ready and
/// PREEMPTER_EVERY is set. Other exit work comes first, and then the message waits.
fn tells_preempter(cpu: &Cpu, thread: Ref<Thread>) -> bool {
    let rival = cpu.queue.top().max(cpu.handoff.get().map(|partner| partner.priority.get()));
    if rival > Some(thread.priority.get()) && thread.preempter.get().0 & PREEMPTER_EVERY != 0 {
        thread.set(Flags::PRIORITY_PREEMPTED);
    }
    thread.has(Flags::PREEMPTED) && !thread.has(Flags::WORK.without(Flags::PREEMPTED))
}

/// Puts a preempted thread at the head of its priority's queue: its time slice is not over.
fn put_back(cpu: &Cpu, thread: Ref<Thread>) {
    thread.set(Flags::QUEUED);
    cpu.queue.push_front(thread, thread.priority.get());
}

/// Takes the first thread of the highest priority out of the queue.
fn pop(cpu: &Cpu) -> Option<Ref<Thread>> {
    let thread = cpu.queue.pop()?;
    thread.unset(Flags::QUEUED);
    Some(thread)
}

/// Starts a time slice for the thread that runs next, if it must be limited: another thread of the
/// same priority is ready, or a preempter wants to know its end. `fresh`: the thread has not run
/// just now. A thread whose last slice did not end resumes what is left of it; otherwise a thread
/// could starve its equals by calling a server again and again.
pub fn start_slice(cpu: &'static Cpu, thread: Ref<Thread>, fresh: bool) {
    cpu.slice_over.set(false);
    if fresh && cpu.slice.is_armed() {
        cut_short(cpu);
    }
    let counts = thread.slice.get() != 0 && (cpu.queue.has(thread.priority.get()) || thread.has(Flags::HAS_PREEMPTER));
    if !counts {
        cpu.deadlines.remove(Ref::to(&cpu.slice));
    } else if !cpu.slice.is_armed() {
        run_slice(cpu, thread);
    }
}

/// Stops the running time slice; its owner keeps what is left of it. If the slice expired but the
/// timer has not fired yet, the preempter is still notified; otherwise a thread could gain time by
/// blocking just before the interrupt.
#[cold]
fn cut_short(cpu: &'static Cpu) {
    if let Some(owner) = slice_owner(cpu) {
        match cpu.slice.time().saturating_sub(clock::now()) {
            0 if owner.has(Flags::HAS_PREEMPTER) => owner.set(Flags::SLICE_ENDED),
            left => owner.slice_left.set(left.max(1)),
        }
    }
    cpu.deadlines.remove(Ref::to(&cpu.slice));
}

/// Returns the owner of the running time slice. A thread that has migrated since does not own it.
pub fn slice_owner(cpu: &Cpu) -> Option<Ref<Thread>> {
    find(cpu.slice_owner.get()).filter(|owner| owner.cpu.get() == cpu.index)
}

/// Ends a time slice: it has expired, or its owner yields. The owner's preempter is notified.
pub fn slice_ended(cpu: &Cpu, owner: Option<Ref<Thread>>) {
    cpu.slice_over.set(true);
    if let Some(owner) = owner.filter(|owner| owner.has(Flags::HAS_PREEMPTER)) {
        owner.set(Flags::SLICE_ENDED);
    }
}

/// Starts a thread's time slice, or what is left of its last one, on the current CPU.
fn run_slice(cpu: &'static Cpu, owner: Ref<Thread>) {
    let length = match (owner.slice_left.take(), owner.slice.get()) {
        (0, 0) => DEFAULT_SLICE_NS,
        (0, slice) => slice.max(LEAST_SLICE_NS),
        (left, _) => left,
    };
    cpu.slice_owner.set(owner.id);
    cpu.deadlines.insert(Ref::to(&cpu.slice), clock::now().saturating_add(length), Due::Slice);
    program(cpu);
}

/// Sets the length of a thread's time slice. A new one begins, also if the thread is running.
pub fn set_slice(thread: Ref<Thread>, slice: u64) {
    thread.slice.set(slice);
    thread.slice_left.set(0);
    let home = cpu::of(thread);
    if home.slice_owner.get() == thread.id {
        home.deadlines.remove(Ref::to(&home.slice));
        kick(home);
    }
}

/// Sets a thread's priority, on whichever CPU and in whichever state it is.
pub fn set_priority(thread: Ref<Thread>, priority: u8) {
    let queued = thread.has(Flags::QUEUED);
    if queued {
        unready(thread);
    }
    thread.priority.set(priority);
    let home = cpu::of(thread);
    if queued {
        enqueue(home, thread);
    }
    kick(home);
}

/// Sends another CPU an IPI that makes it choose again.
fn kick(target: &Cpu) {
    if target.index != cpu().index {
        apic::kick(target.apic_id);
    }
}

/// Stops a thread that is in no queue except perhaps the run queue.
pub fn stop(thread: Ref<Thread>) {
    unready(thread);
    disarm(thread);
    thread.change_state(State::Inactive);
}

#[cfg(test)]
#[path = "../../tests/kernel/sched.rs"]
mod tests;
