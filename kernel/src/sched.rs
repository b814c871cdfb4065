// SPDX-License-Identifier: GPL-2.0-only
//! Who runs: priorities, time slices, timeouts. What is due before it runs is leave.rs's.
//!
//! The running thread is in no queue. Whoever becomes ready goes into the run queue, or, as an IPC partner,
//! into the one place beside it (`Cpu::handoff`) from which it is taken without touching the queue.

use crate::arch::cpu::{self, cpu, Cpu};
use crate::arch::{apic, clock, switch};
use crate::percpu::{deadlines::Deadline, lock, runqueue::NOBODY};
use crate::{base::Ref, object::thread::*};
use core::cell::Cell;
use keel_abi::call::{PREEMPTER_EVERY, TIME_NEVER};

/// No slice is shorter: a shorter one would only be interrupts.
const LEAST_SLICE_NS: u64 = 10_000;

/// Makes a thread ready that was not, on its processor.
pub fn wake(thread: Ref<Thread>) {
    thread.state.set(State::Ready);
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

fn enqueue(cpu: &Cpu, thread: Ref<Thread>) {
    thread.set(QUEUED);
    // Where another processor does this, no long way ends here at once.
    cpu.preemption_threshold.set(cpu.preemption_threshold.get().max(thread.priority.get() as u32 + 1));
    cpu.queue.push_back(thread, thread.priority.get());
}

/// Before the processor is left by a long way: what the short ones must know of its queue and its time slice.
pub fn set_preemption_threshold(cpu: &Cpu) {
    let slice = cpu.slice.is_armed() || cpu.slice_over.get() || cpu.handoff.get().is_some();
    cpu.preemption_threshold.set(if slice { NOBODY } else { cpu.queue.top().map_or(0, |top| top as u32 + 1) });
}

/// Takes a ready thread out of whatever it is in: it blocks, stops or goes.
pub fn unready(thread: Ref<Thread>) {
    let cpu = cpu::of(thread);
    if thread.has(QUEUED) {
        thread.unset(QUEUED);
        cpu.queue.remove(thread, thread.priority.get());
    } else if cpu.handoff.get() == Some(thread) {
        cpu.handoff.set(None);
    }
}

/// Drops every reference of the processor to a thread that is being deleted. Whether it was running on this one.
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

/// A thread, settled, was given another ip: what it came into the kernel for on another processor,
/// and waits there for the locks, is not served any more. On one processor it would have been, or
/// not yet begun.
pub fn redirect(thread: Ref<Thread>) {
    let home = cpu::of(thread);
    if home.index != cpu().index && home.current.get() == Some(thread) {
        home.redirected.set(true);
    }
}

/// Gives a thread to another processor: at once, or when it next leaves the kernel if it is running.
pub fn migrate(thread: Ref<Thread>, target: u8) {
    thread.target.set(target);
    let home = cpu::of(thread);
    if target == home.index {
        thread.unset(MIGRATING);
    } else if home.current.get() == Some(thread) {
        thread.set(MIGRATING);
        cpu::write_back_elsewhere(thread);
    } else {
        hand_over(thread);
    }
}

/// Takes a thread that does not run to the processor that it shall have.
pub fn hand_over(thread: Ref<Thread>) {
    let home = cpu::of(thread);
    if home.holds(thread) {
        lock::write_back(home);
    }
    unready(thread);
    let deadline = deadline_of(thread);
    let time = if thread.deadline.is_armed() { thread.deadline.time() } else { TIME_NEVER };
    home.deadlines.remove(deadline);
    thread.cpu.set(thread.target.get());
    thread.unset(MIGRATING);
    arm(thread, time);
    if thread.state.get() == State::Ready {
        wake(thread);
    }
}

fn deadline_of(thread: Ref<Thread>) -> Ref<Deadline<Due>> {
    thread.part(|thread| &thread.deadline)
}

/// Sets a thread's timeout, in kernel time; `TIME_NEVER` sets none.
pub fn arm(thread: Ref<Thread>, time: u64) {
    if time == TIME_NEVER {
        return;
    }
    let cpu = cpu::of(thread);
    cpu.deadlines.remove(deadline_of(thread));
    cpu.deadlines.insert(deadline_of(thread), time, Due::Thread(thread));
    thread.set(TIMED);
    program(cpu);
}

/// Clears a thread's timeout.
pub fn disarm(thread: Ref<Thread>) {
    if thread.has(TIMED) {
        thread.unset(TIMED);
        cpu::of(thread).deadlines.remove(deadline_of(thread));
    }
}

/// Sets the hardware's timer of a processor for its earliest deadline, if that changed.
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

/// Gives the processor to `to` (ready) or to the next of the same priority.
pub fn switch_to(to: Option<Ref<Thread>>) {
    let cpu = cpu();
    let Some(current) = cpu.current.get() else { return };
    let Some(to) = to else {
        // A donor keeps what is left of its slice: that is not the caller's to give up.
        if cpu.slice_owner.get() == current.id {
            cpu.deadlines.remove(Ref::to(&cpu.slice));
        }
        return slice_ended(cpu, Some(current));
    };
    let waits_here = to != current && to.cpu.get() == cpu.index && to.state.get() == State::Ready;
    if waits_here && to.priority.get() <= current.priority.get() {
        unready(to);
        enqueue(cpu, current);
        cpu.current.set(Some(to));
        // It keeps the processor although the donor may have the higher priority: until the next entry into the
        // kernel, at the latest when the donor's slice ends, which goes on.
        cpu.donated.set(true);
        cpu.slice_over.set(false);
        if !cpu.slice.is_armed() {
            run_slice(cpu, current);
        }
    }
}

/// Chooses who runs; idles until somebody can.
pub fn choose(cpu: &'static Cpu) -> Ref<Thread> {
    loop {
        if let Some(thread) = candidate(cpu) {
            return thread;
        }
        // A slice that nobody uses does not go on.
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

fn candidate(cpu: &Cpu) -> Option<Ref<Thread>> {
    let running = cpu.current.get().filter(|thread| thread.state.get() == State::Ready);
    if cpu.donated.take() && !cpu.slice_over.get() && running.is_some() {
        return running;
    }
    if running.is_some_and(|thread| thread.has(HAS_PREEMPTER) && tells_preempter(cpu, thread)) {
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

/// Whether the running thread, which has a preempter, sends it a message before anybody else runs: its time slice is over, or
/// somebody has_higher_priority it and it asked for that. What is to be done before first makes the message wait as well.
fn tells_preempter(cpu: &Cpu, thread: Ref<Thread>) -> bool {
    let rival = cpu.queue.top().max(cpu.handoff.get().map(|partner| partner.priority.get()));
    if rival > Some(thread.priority.get()) && thread.preempter.get().0 & PREEMPTER_EVERY != 0 {
        thread.set(PRIORITY_PREEMPTED);
    }
    let work = thread.flags.get() & WORK;
    work != 0 && work & !PREEMPTED == 0
}

fn put_back(cpu: &Cpu, thread: Ref<Thread>) {
    thread.set(QUEUED);
    cpu.queue.push_front(thread, thread.priority.get());
}

fn pop(cpu: &Cpu) -> Option<Ref<Thread>> {
    let thread = cpu.queue.pop()?;
    thread.unset(QUEUED);
    Some(thread)
}

/// Starts a time slice if somebody else of the same priority is ready, or a preempter wants to know its end. Who did not run to
/// the end of its own goes on with what is left: else a thread could keep its equals waiting by calling a server again and again.
pub fn start_slice(cpu: &'static Cpu, thread: Ref<Thread>, fresh: bool) {
    cpu.slice_over.set(false);
    if fresh && cpu.slice.is_armed() {
        cut_short(cpu);
    }
    let counts = thread.slice.get() != 0 && (cpu.queue.has(thread.priority.get()) || thread.has(HAS_PREEMPTER));
    if !counts {
        cpu.deadlines.remove(Ref::to(&cpu.slice));
    } else if !cpu.slice.is_armed() {
        run_slice(cpu, thread);
    }
}

/// The running time slice is interrupted: its owner keeps what is left of it. Where its end is over already, because the timer is
/// late, the preempter hears of it all the same: nobody gets more by leaving the processor just then.
#[cold]
fn cut_short(cpu: &'static Cpu) {
    if let Some(owner) = slice_owner(cpu) {
        match cpu.slice.time().saturating_sub(clock::now()) {
            0 if owner.has(HAS_PREEMPTER) => owner.set(SLICE_ENDED),
            left => owner.slice_left.set(left.max(1)),
        }
    }
    cpu.deadlines.remove(Ref::to(&cpu.slice));
}

/// Whose time slice the running one is. A thread that moved meanwhile has another one where it is.
pub fn slice_owner(cpu: &Cpu) -> Option<Ref<Thread>> {
    find(cpu.slice_owner.get()).filter(|owner| owner.cpu.get() == cpu.index)
}

/// A time slice is over, or was given up.
pub fn slice_ended(cpu: &Cpu, owner: Option<Ref<Thread>>) {
    cpu.slice_over.set(true);
    if let Some(owner) = owner.filter(|owner| owner.has(HAS_PREEMPTER)) {
        owner.set(SLICE_ENDED);
    }
}

/// Starts a thread's time slice, or what is left of it.
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

/// Changes a time slice; a new one begins, for a thread that runs too.
pub fn set_slice(thread: Ref<Thread>, slice: u64) {
    thread.slice.set(slice);
    thread.slice_left.set(0);
    let home = cpu::of(thread);
    if home.slice_owner.get() == thread.id {
        home.deadlines.remove(Ref::to(&home.slice));
        kick(home);
    }
}

/// Changes a priority, wherever the thread is.
pub fn set_priority(thread: Ref<Thread>, priority: u8) {
    let queued = thread.has(QUEUED);
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

/// Makes another processor look at what it has to do.
fn kick(target: &Cpu) {
    if target.index != cpu().index {
        apic::kick(target.apic_id);
    }
}

/// Stops a thread that is in no queue but perhaps the run queue.
pub fn stop(thread: Ref<Thread>) {
    unready(thread);
    disarm(thread);
    thread.state.set(State::Inactive);
}

#[cfg(test)]
#[path = "../../tests/kernel/sched.rs"]
mod tests;
