// SPDX-License-Identifier: BSD-2-Clause
//! Tasks: creation, deletion, and the transfer of task numbers.

use crate::call::{checked, Failure, Registers};
use keel_abi::call::{
    CALL_TASK_NEW, TASK_INACTIVE, TASK_NO_LTHREAD, TASK_RANGE_SHIFT, TASK_RESIDENT, TASK_SUPERVISOR, TASK_UPPER_HALF,
};
use keel_abi::Id;

/// A task to be created.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewTask {
    /// Its number.
    pub number: u32,
    /// The highest priority that it can control.
    pub max_priority: u64,
    /// The first instruction of its first lthread.
    pub ip: u64,
    /// That lthread's stack.
    pub sp: u64,
    /// Pager and exception handler of that lthread.
    pub pager: u64,
    /// Quota: pages of kernel memory that it may use; 0 shares the creator's quota.
    pub quota: u64,
    /// Address of its kernel area, or 0.
    pub area: u64,
    /// rdi of its first lthread.
    pub argument: u64,
    /// Whether it may have memory in the upper half of its space, as its creator must.
    pub upper_half: bool,
    /// Whether it runs in supervisor mode (TASK_SUPERVISOR).
    pub supervisor: bool,
    /// Whether 32-bit tasks of its clan may show its upper half, or it is such a task
    /// (TASK_RESIDENT).
    pub resident: bool,
}

const fn number_id(number: u32) -> u64 {
    Id::thread(0, number, 0, 0).0
}

/// Creates the task and returns its id. A task that has the number is deleted first.
pub fn create(task: &NewTask) -> Result<Id, Failure> {
    create_with(task, 0)
}

/// [`create`] without a first lthread.
pub fn create_empty(task: &NewTask) -> Result<Id, Failure> {
    create_with(task, TASK_NO_LTHREAD)
}

fn create_with(task: &NewTask, flags: u64) -> Result<Id, Failure> {
    let half = if task.upper_half { TASK_UPPER_HALF } else { 0 };
    let mode = if task.supervisor { TASK_SUPERVISOR } else { 0 } | if task.resident { TASK_RESIDENT } else { 0 };
    checked(Registers {
        ax: CALL_TASK_NEW,
        di: number_id(task.number),
        si: task.max_priority | flags | half | mode,
        dx: task.ip,
        words: [task.sp, task.pager, task.quota, task.area, task.argument, 0],
    })
    .map(|after| Id(after.di))
}

/// Makes 2^`log2` numbers from `first` on inactive and gives them to the task `owner`. Tasks that
/// have these numbers are deleted.
pub fn hand_over(first: u32, log2: u64, owner: Id) -> Result<(), Failure> {
    let si = TASK_INACTIVE | log2 << TASK_RANGE_SHIFT;
    checked(Registers { ax: CALL_TASK_NEW, di: number_id(first), si, dx: owner.0, ..Registers::default() }).map(|_| ())
}

/// Deletes the task `number`. The number stays with the task `me`.
pub fn delete(number: u32, me: Id) -> Result<(), Failure> {
    hand_over(number, 0, me)
}
