// SPDX-License-Identifier: GPL-2.0-only
//! The Keel µ-kernel: tasks, lthreads and IPC, and no policy.
//!
//! Principles. A message is copied once, or not at all. What a user asks is checked before anything changes; what
//! follows cannot fail. Kernel memory is paid for by whoever causes its use. Interrupts are off in the kernel, for a
//! bounded number of instructions. Several processors: `lock` says who may do what.
//! Reading order: `syscall`, `ipc`, `fault`, `sched`, `lock`, `space`; then `arch`.
//!
//! Modules without hardware are compiled on the host too, for their tests in `tests/kernel`: `clan`, `list`, `deadlines`, `runqueue`, `mapdb`,
//! `random`, `refs`, `strings`, `mask`, `tags`.

#![cfg_attr(not(test), no_std, no_main)]
// On the host only the portable modules are built, and only their tests use them.
#![cfg_attr(test, allow(dead_code))]

#[macro_use]
mod object;

mod clan;
mod deadlines;
mod list;
mod mapdb;
mod mask;
mod random;
mod refs;
mod runqueue;
mod strings;
mod tags;

#[cfg(not(test))]
mod across;
#[cfg(not(test))]
#[path = "arch/x86_64/mod.rs"]
mod arch;
#[cfg(not(test))]
mod boot;
#[cfg(not(test))]
#[path = "../../debugger/mod.rs"]
mod debugger;
#[cfg(not(test))]
mod exregs;
#[cfg(not(test))]
mod fault;
#[cfg(not(test))]
mod global;
#[cfg(not(test))]
mod io;
#[cfg(not(test))]
mod ipc;
#[cfg(not(test))]
mod lock;
#[cfg(not(test))]
mod panic;
#[cfg(not(test))]
mod pool;
#[cfg(not(test))]
mod print;
#[cfg(not(test))]
mod sched;
#[cfg(not(test))]
mod source;
#[cfg(not(test))]
mod space;
#[cfg(not(test))]
mod syscall;
#[cfg(not(test))]
mod task;
#[cfg(not(test))]
mod thread;
#[cfg(not(test))]
mod transfer;
#[cfg(not(test))]
mod umem;
#[cfg(not(test))]
mod word;
