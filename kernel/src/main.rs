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
// What the compiler does not check stands in `arch`, and in the modules that say so where they are
// declared, each with its reason. Tests may do it anywhere.
#![cfg_attr(not(test), deny(unsafe_code))]
// On the host nobody boots it, and tests delete only what they have made.
#![cfg_attr(test, allow(dead_code, clippy::undocumented_unsafe_blocks))]

#[macro_use]
mod base;

#[cfg(not(test))]
#[allow(unsafe_code, reason = "the processor and its devices")]
#[path = "arch/x86_64/mod.rs"]
mod arch;
#[cfg(test)]
#[path = "../../tests/kernel/machine.rs"]
mod arch;
#[allow(unsafe_code, reason = "owns all memory until the pool has it, and fills the first tasks' images")]
mod boot;
#[allow(unsafe_code, reason = "only in the debug build: ports, and words at any address")]
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
