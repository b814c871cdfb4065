// SPDX-License-Identifier: BSD-2-Clause
//! Creation and deletion of tasks and lthreads. A new task has a kernel area and one lthread, which
//! is ready. A new lthread is stopped.

use crate::clock::Timed;
use crate::partner::*;
use crate::rows::syscall;
use crate::sample::rows;
use keel_l4::abi::call::{CALL_LTHREAD_EX_REGS, CALL_TASK_NEW, TASK_INACTIVE};
use keel_l4::abi::memory::{EX_CREATE, EX_DELETE, EX_IP, EX_SP};
use keel_l4::call::Failure;
use keel_l4::{thread, utcb, Id};

/// The number of the lthread that is created and deleted.
const LTHREAD: u16 = 3;

/// All of them.
pub fn measure() -> Result<(), Failure> {
    let plan = plan();
    let number = Id::thread(0, plan.number, 0, 0).0;
    let words = [plan.sp, plan.pager, plan.quota, plan.area, plan.argument, 0];
    let create = Timed { ax: CALL_TASK_NEW, di: number, si: plan.max_priority, words, ..Timed::default() };
    let delete = Timed { ax: CALL_TASK_NEW, di: number, si: TASK_INACTIVE, dx: own_task().0, ..Timed::default() };
    rows(["task-create", "task-delete"], || Ok([syscall(create)?, syscall(delete)?]))?;
    let id = thread::lthread(utcb::my_id(), LTHREAD).0;
    let create = Timed { ax: CALL_LTHREAD_EX_REGS, di: id, si: EX_CREATE | EX_IP | EX_SP, ..Timed::default() };
    let delete = Timed { ax: CALL_LTHREAD_EX_REGS, di: id, si: EX_DELETE, ..Timed::default() };
    rows(["lthread-create", "lthread-delete"], || Ok([syscall(create)?, syscall(delete)?]))
}
