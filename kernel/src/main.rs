// SPDX-License-Identifier: GPL-2.0-only
//! The Keel µ-kernel: tasks, lthreads and IPC, and no policy.
//!
//! Principles. A message is copied once, or not at all. What a user asks is checked before anything changes; what
//! follows cannot fail. Kernel memory is paid for by whoever causes its use. Interrupts are off in the kernel, for a
//! bounded number of instructions. Several processors: `lock` says who may do what.
//! Reading order: `syscall`, `ipc`, `fault`, `sched`, `lock`, `space`; then `arch`.
//!
//! The tests in `tests/kernel` run all of it on the host, with `tests/kernel/machine.rs` in place of `arch`.

#![cfg_attr(not(test), no_std, no_main)]
// On the host nobody boots it.
#![cfg_attr(test, allow(dead_code))]

#[macro_use]
mod object;

mod across;
#[cfg(not(test))]
#[path = "arch/x86_64/mod.rs"]
mod arch;
#[cfg(test)]
#[path = "../../tests/kernel/machine.rs"]
mod arch;
mod boot;
mod clan;
mod deadlines;
#[cfg_attr(test, allow(clippy::absurd_extreme_comparisons))]
#[path = "../../debugger/mod.rs"]
mod debugger;
mod exregs;
mod fault;
mod global;
#[cfg(test)]
#[path = "../../tests/kernel/histories.rs"]
mod histories;
mod io;
mod ipc;
mod kernel_object;
mod list;
mod lock;
mod mapdb;
mod nospec;
mod panic;
mod pcid;
mod pool;
mod print;
#[cfg(test)]
#[path = "../../tests/kernel/random.rs"]
mod random;
mod refs;
mod runqueue;
mod sched;
mod space;
mod strings;
mod syscall;
mod task;
mod thread;
mod transfer;
mod umem;
