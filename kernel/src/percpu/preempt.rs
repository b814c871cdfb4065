// SPDX-License-Identifier: GPL-2.0-only
//! The preemption point of long operations.

use crate::arch::{cpu::cpu, switch};
use crate::percpu::lock;

/// Lets waiting interrupts in, inside a long operation. Whether somebody should run instead of us, here or on a
/// processor that waits for the locks.
pub fn poll() -> bool {
    switch::poll();
    if lock::is_contended() {
        return true;
    }
    let cpu = cpu();
    let Some(current) = cpu.current.get() else { return false };
    let priority = current.priority.get();
    cpu.handoff.get().is_some_and(|partner| partner.priority.get() > priority)
        || cpu.queue.top().is_some_and(|top| top > priority || top == priority && cpu.slice_over.get())
}
