// SPDX-License-Identifier: GPL-2.0-only
//! System calls and what only they do, the way out to user mode, and panics.

pub mod exregs;
pub mod leave;
pub mod lthreads;
pub mod panic;
pub mod syscall;
pub mod tasks;
