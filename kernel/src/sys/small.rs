// SPDX-License-Identifier: GPL-2.0-only
//! Threads that run 32-bit code in windows: how they come there, what they do at the edge, and
//! their system calls.
//!
//! All CPU locks are held and interrupts are off. `thread` is the current thread of this CPU in the
//! functions that entry/mod.rs calls.

use crate::{arch::cpu, arch::fpu, arch::segments, arch::tables::USER_CS, ipc::fault, mm::windows};
use crate::{base::abi::*, base::facts::Word, base::*, object::thread::Flags, object::*, percpu::preempt};

/// How often thread-local segments are turned at one instruction, one after the other, before the
/// thread is taken for one that needs all of its space.
const MOST_TURNS: u32 = 16;

/// What a thread reaches, as thread_schedule tells it.
pub fn told(thread: Ref<Thread>) -> u64 {
    let promoted = thread.given_reach.get().is_window() && !thread.reach.get().is_window();
    thread.reach.get().raw() | if promoted { SMALL_PROMOTED } else { 0 }
}

/// Makes a thread reach what `word` says, in the tables of the task `host`. Only the chief of its
/// task may do that, which could read all of its memory anyway. The host is the chief's task, or
/// one of its clan that runs nothing, because 64-bit code there reads all windows. Errors: Invalid,
/// NotSupported where segments have no limits, NoPartner, Denied, Busy, or no memory.
pub fn set_reach(caller: Ref<Thread>, thread: Ref<Thread>, word: u64, host: Id) -> Result<(), Error> {
    let (reach, task) = (Reach::of(word).ok_or(Error::Invalid)?, thread.task);
    Error::NotSupported.when(reach != Reach::NONE && !facts::has_word(Word::SmallUnsafe))?;
    Error::Denied.when(!caller.task.is_chief_of(task) || task.upper || task.supervisor || task.resident)?;
    Error::Invalid.when(thread.has_entry() && reach != Reach::NONE)?;
    if reach.is_window() {
        let host = if host == Id::NIL { caller.task } else { task::find(host).ok_or(Error::NoPartner)? };
        let idle = caller.task.is_chief_of(host) && host.lthreads.get() == 0;
        Error::Denied.when(host.is_shown() || host.resident || host != caller.task && !idle)?;
        windows::open(task, host, reach)?;
    }
    give_reach(thread, reach);
    Ok(())
}

/// A thread has this reach from now on. The last one that leaves its task's window closes it.
fn give_reach(thread: Ref<Thread>, reach: Reach) {
    let (task, old) = (thread.task, thread.given_reach.replace(reach));
    task.window_users.set(task.window_users.get() + reach.is_window() as u32 - old.is_window() as u32);
    change_reach(thread, reach);
    if task.window_users.get() == 0 {
        windows::close(task);
    }
}

/// Its segments reach that from now on.
pub fn change_reach(thread: Ref<Thread>, reach: Reach) {
    cpu::write_back_elsewhere(thread);
    if cpu::cpu().loaded.get() == Some(thread) {
        cpu::cpu().loaded_changed();
    }
    let window = thread.task.window.get().filter(|_| reach.is_window());
    let runs_in = window.map_or(thread.task, |window| window.host);
    thread.space.set(POOL.physical(runs_in.root_table));
    thread.half.set(runs_in.half());
    thread.reach.set(reach);
    thread.segments.set(segments::descriptors(reach));
    fpu::confine(thread);
    thread.put(Flags::SMALL, reach != Reach::NONE);
    if reach == Reach::NONE && !thread.has(Flags::ALIEN) {
        thread.frame().cs.set(USER_CS as u64);
    }
}

/// What a thread reaches that leaves its window: all of its own space, a native one with 32 bits.
fn own_space(thread: Ref<Thread>) -> Reach {
    if thread.has(Flags::ALIEN) {
        return Reach::NONE;
    }
    Reach::ALL
}

/// A thread is deleted.
pub fn forget(thread: Ref<Thread>) {
    if thread.given_reach.get().is_window() {
        give_reach(thread, own_space(thread));
    }
}

/// A task is deleted: what had windows in its tables goes on in spaces of its own.
pub fn forget_host(host: Ref<Task>) {
    while let Some(member) = host.members.first() {
        for thread in member.each_lthread() {
            forget(thread);
            preempt::poll();
        }
    }
}

/// A page fault at a linear address: the window shows more from now on, or the program has that
/// fault at an address of its own. Where segments have no limits it can be beyond the window.
pub fn page_fault(thread: Ref<Thread>, linear: u64, error_code: u64) {
    let reach = thread.reach.get();
    let address = VirtAddr::new(linear.wrapping_sub(reach.base()));
    if reach.is_window() && address.raw() >= reach.size() {
        leaves_window(thread);
    } else if !windows::show(thread.task, address) {
        fault::page_fault(thread, address, error_code);
    }
}

/// #GP or #SS. Whether it may have been an address beyond a segment's limit, or a selector that
/// only large threads have: then the instruction is tried again. Thread-local segments that cover
/// all are turned, so that the other side of their base can be reached; otherwise the thread goes
/// on in its own space, where a true exception comes again.
pub fn goes_beyond(thread: Ref<Thread>, error_code: u64) -> bool {
    if thread.reach.get().is_window() && error_code == 0 && turn(thread) {
        cpu::cpu().loaded_changed();
        return true;
    }
    leaves_window(thread)
}

/// A thread leaves its window, if it is in one: it goes on in its own space.
pub fn leaves_window(thread: Ref<Thread>) -> bool {
    let window = thread.reach.get().is_window();
    if window {
        change_reach(thread, own_space(thread));
    }
    window
}

/// fast32.s has the fast path, for an instruction that is not the one of the last turn.
fn turn(thread: Ref<Thread>) -> bool {
    let two_sided = thread.extra.get().is_some_and(|own| (0..3).any(|n| own.shown[n].get() != own.other[n].get()));
    let ip = thread.frame().ip.get();
    let turns = if ip == thread.turned_at.get() { thread.turns.get() + 1 } else { 1 };
    if !two_sided || turns > MOST_TURNS {
        return false;
    }
    thread.turned_at.set(ip);
    thread.turns.set(turns);
    thread.down.set(!thread.down.get());
    fpu::confine(thread);
    true
}
