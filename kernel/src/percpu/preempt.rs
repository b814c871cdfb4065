// SPDX-License-Identifier: GPL-2.0-only
//! The preemption point of long operations.

use crate::{arch::cpu::cpu, arch::switch, percpu::lock};

/// A preemption point in a long operation: serves pending interrupts. All CPU locks are held, and
/// no reference into a global is in use that an interrupt may change.
///
/// Returns true if the operation should stop: another CPU waits for the locks, or a thread should
/// run instead of the current one.
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
