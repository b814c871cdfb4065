// SPDX-License-Identifier: GPL-2.0-only
//! The Keel µ-kernel: tasks, lthreads and IPC, and no policy.
//!
//! Principles. A message is copied once, or not at all. What a user asks is checked before anything
//! changes; what follows cannot fail. Kernel memory is paid for by whoever causes its use.
//! Interrupts are off in the kernel, for a bounded number of instructions. Several processors:
//! `lock` says who may do what. Rooms, each of which imports from those before it: `base`, `arch`,
//! `percpu`, `object`, `sched`, `mm`, `ipc`, `sys`, `arch::entry`, then `boot` with `arch::boot`.
//! docs/tour.md draws them; a test of the command holds the exceptions. Reading order:
//! `sys::syscall`, `ipc::ipc`, `ipc::fault`, `sched`, `percpu::lock`, `mm::space`; then `arch`.
//!
//! The tests in `tests/kernel` run all of it on the host, with `tests/kernel/machine.rs` in place
//! of `arch`.

#![cfg_attr(not(test), no_std, no_main)]
// On the host nobody boots it.
#![cfg_attr(test, allow(dead_code))]

#[macro_use]
mod base;

#[cfg(not(test))]
#[path = "arch/x86_64/mod.rs"]
mod arch;
#[cfg(test)]
#[path = "../../tests/kernel/machine.rs"]
mod arch;
mod boot;
#[cfg_attr(test, allow(clippy::absurd_extreme_comparisons))]
#[path = "../debugger/mod.rs"]
mod debugger;
#[cfg(test)]
#[path = "../../tests/kernel/histories.rs"]
mod histories;
mod ipc;
mod mm;
mod object;
mod percpu;
#[cfg(test)]
#[path = "../../tests/kernel/random.rs"]
mod random;
mod sched;
mod sys;
