// SPDX-License-Identifier: BSD-2-Clause
//! Threads: ids, creation, register exchange, scheduling.

use crate::call::{checked, Failure, Registers};
use crate::ipc::{receive, Timeout};
use crate::start::Stack;
use crate::{root, utcb};
use keel_abi::call::{
    CALL_ID_NEAREST, CALL_LTHREAD_EX_REGS, CALL_THREAD_SCHEDULE, CALL_THREAD_SWITCH, SCHEDULE_PREEMPTER,
    SCHEDULE_PRIORITY, SCHEDULE_PROCESSOR, SCHEDULE_SMALL,
};
use keel_abi::ids::{ID_LTHREAD_SHIFT, LTHREAD_TASK};
use keel_abi::memory::{EX_ARGUMENT, EX_CREATE, EX_DELETE, EX_HANDLER, EX_IP, EX_PAGER, EX_SP, EX_START};
use keel_abi::{ExRegs, Id};

const RECORD_WORDS: usize = size_of::<ExRegs>() / 8;

/// Exchanges registers of `thread` as `mask` (`EX_*`) says. `record` has the new values, and gets
/// the old ones.
pub fn exchange(thread: Id, mask: u64, record: &mut ExRegs) -> Result<Id, Failure> {
    let words = (record as *mut ExRegs).cast::<u64>();
    for index in 0..RECORD_WORDS {
        // SAFETY: the record consists of RECORD_WORDS words.
        utcb::set_record_word(index, unsafe { words.add(index).read() });
    }
    let after = checked(Registers { ax: CALL_LTHREAD_EX_REGS, di: thread.0, si: mask, ..Registers::default() })?;
    for index in 0..RECORD_WORDS {
        // SAFETY: as above; every bit pattern is a valid word.
        unsafe { words.add(index).write(utcb::record_word(index)) };
    }
    Ok(Id(after.di))
}

/// Applies `mask` to `thread` where no value is passed or returned (trigger, cancel, start,
/// delete).
pub fn act(thread: Id, mask: u64) -> Result<Id, Failure> {
    exchange(thread, mask, &mut ExRegs::zeroed())
}

/// The id of the task of `thread`.
pub const fn task_of(thread: Id) -> Id {
    Id(thread.0 | LTHREAD_TASK << ID_LTHREAD_SHIFT)
}

/// The first lthread of a new task, from the task's id.
pub const fn first_of(task: Id) -> Id {
    Id::thread(task.version(), task.task(), 0, task.nesting())
}

/// Lthread `number` of the task of `thread`, of any version.
pub const fn lthread(thread: Id, number: u16) -> Id {
    Id::thread(0, thread.task(), number, thread.nesting())
}

/// A thread's main function. The creator chooses the argument.
pub type Main = extern "C" fn(u64) -> !;

/// A native lthread to be created.
#[derive(Clone, Copy, Debug)]
pub struct NewThread {
    /// Its task: any thread of it, or the task's own id. It is the caller's task or one of the
    /// caller's clan.
    pub task: Id,
    /// Its number; `LTHREAD_TASK` means any free one.
    pub number: u16,
    /// Its first instruction.
    pub ip: u64,
    /// Its stack.
    pub sp: u64,
    /// Its pager.
    pub pager: Id,
    /// Its exception handler.
    pub handler: Id,
    /// rdi.
    pub argument: u64,
}

impl NewThread {
    /// Creates it, stopped.
    pub fn create(&self) -> Result<Id, Failure> {
        self.make(0)
    }

    /// Creates and starts it.
    pub fn start(&self) -> Result<Id, Failure> {
        self.make(EX_START)
    }

    fn make(&self, more: u64) -> Result<Id, Failure> {
        let mut record = ExRegs::zeroed();
        record.ip = self.ip;
        record.sp = self.sp;
        record.pager = self.pager.0;
        record.handler = self.handler.0;
        record.argument = self.argument;
        let mask = EX_CREATE | EX_IP | EX_SP | EX_PAGER | EX_HANDLER | EX_ARGUMENT | more;
        exchange(lthread(self.task, self.number), mask, &mut record)
    }
}

/// Creates and starts a thread of this task that runs `main(argument)` on `stack`. The parent
/// serves its faults. `Busy` if the stack is taken.
pub fn spawn<const BYTES: usize>(stack: &'static Stack<BYTES>, main: Main, argument: u64) -> Result<Id, Failure> {
    let parent = root::parent();
    let new = NewThread {
        task: utcb::my_id(),
        number: LTHREAD_TASK as u16,
        ip: main as usize as u64,
        sp: stack.take()?,
        pager: parent,
        handler: parent,
        argument,
    };
    new.start().inspect_err(|_| {
        // SAFETY: the thread was not created.
        unsafe { stack.give_back() }
    })
}

/// Waits without end.
pub fn park() -> ! {
    loop {
        // Only a cancellation ends the wait; it has no meaning here.
        let _ = receive(Id::NIL, Timeout::Never);
    }
}

/// Deletes `thread`.
pub fn delete(thread: Id) -> Result<(), Failure> {
    act(thread, EX_DELETE).map(|_| ())
}

/// The thread that would receive a message to `destination`, and its relation to the caller
/// (`NEAREST_*`).
pub fn nearest(destination: Id) -> Result<(Id, u64), Failure> {
    let after = checked(Registers { ax: CALL_ID_NEAREST, di: destination.0, ..Registers::default() })?;
    Ok((Id(after.di), after.si))
}

/// Yields the processor to `thread`, or to the next ready thread (nil).
pub fn switch(thread: Id) -> Result<(), Failure> {
    checked(Registers { ax: CALL_THREAD_SWITCH, di: thread.0, ..Registers::default() }).map(|_| ())
}

/// The state of a thread, as thread_schedule returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Its priority.
    pub priority: u64,
    /// `STATE_*`.
    pub state: u64,
    /// The thread for which it waits.
    pub partner: Id,
    /// Nanoseconds of processor time that it has used.
    pub consumed: u64,
    /// Its time slice in nanoseconds.
    pub slice: u64,
    /// Number of its processor.
    pub processor: u64,
    /// Its preempter, with `PREEMPTER_EVERY` or without.
    pub preempter: Id,
}

/// Sets the priority and the time slice as `mask` (`SCHEDULE_*`) says. Returns all values from
/// before the call.
pub fn schedule(thread: Id, mask: u64, priority: u64, slice: u64) -> Result<Schedule, Failure> {
    set_schedule(thread, mask, priority, [slice, 0, 0])
}

/// [`schedule`] for all values; `words` are the time slice, the preempter and the processor.
pub fn set_schedule(thread: Id, mask: u64, priority: u64, words: [u64; 3]) -> Result<Schedule, Failure> {
    let [slice, preempter, processor] = words;
    let words = [slice, preempter, processor, 0, 0, 0];
    let after = checked(Registers { ax: CALL_THREAD_SCHEDULE, di: thread.0, si: mask, dx: priority, words })?;
    Ok(Schedule {
        priority: after.di,
        state: after.si,
        partner: Id(after.dx),
        consumed: after.words[0],
        slice: after.words[1],
        processor: after.words[2],
        preempter: Id(after.words[3]),
    })
}

/// Moves `thread` to another processor.
pub fn set_processor(thread: Id, processor: u64) -> Result<(), Failure> {
    set_schedule(thread, SCHEDULE_PROCESSOR, 0, [0, 0, processor]).map(|_| ())
}

/// Sets the preempter of `thread` (nil: none), to which the kernel sends a message when the time
/// slice ends ([`crate::preempter`]).
pub fn set_preempter(thread: Id, preempter: Id) -> Result<(), Failure> {
    set_schedule(thread, SCHEDULE_PREEMPTER, 0, [0, preempter.0, 0]).map(|_| ())
}

/// Sets what the segments of a thread of the caller's clan reach: a window (base | log2 of the
/// size) in the tables of `host` (nil: the caller's task), `SMALL_ALL` or `SMALL_NONE`. Returns
/// what it was before, perhaps with `SMALL_PROMOTED`.
pub fn set_reach(thread: Id, reach: u64, host: Id) -> Result<u64, Failure> {
    let words = [0, 0, 0, host.0, reach, 0];
    let call = Registers { ax: CALL_THREAD_SCHEDULE, di: thread.0, si: SCHEDULE_SMALL, dx: 0, words };
    checked(call).map(|after| after.words[4])
}

/// What the segments of a thread reach, as [`set_reach`] returns it.
pub fn reach(thread: Id) -> Result<u64, Failure> {
    checked(Registers { ax: CALL_THREAD_SCHEDULE, di: thread.0, ..Registers::default() }).map(|after| after.words[4])
}

/// Sets the priority of `thread`.
pub fn set_priority(thread: Id, priority: u64) -> Result<(), Failure> {
    schedule(thread, SCHEDULE_PRIORITY, priority, 0).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_id_keeps_version_and_number() {
        let task = task_of(Id::thread(7, 9, 3, 1));
        assert_eq!((task.version(), task.task(), task.lthread(), task.nesting()), (7, 9, 0xffff, 1));
        assert_eq!(first_of(task), Id::thread(7, 9, 0, 1));
        assert_eq!(lthread(task, 5), Id::thread(0, 9, 5, 1));
    }
}
