// SPDX-License-Identifier: GPL-2.0-only
//! System calls and what only they do, the way out to user mode, and panics.

#[allow(unsafe_code, reason = "deletes threads")]
pub mod exregs;
pub mod leave;
#[allow(unsafe_code, reason = "deletes threads")]
pub mod lthreads;
#[allow(unsafe_code, reason = "reads the stack that it is on")]
pub mod panic;
pub mod small;
#[allow(unsafe_code, reason = "deletes tasks")]
pub mod syscall;
#[allow(unsafe_code, reason = "deletes threads and tasks")]
pub mod tasks;
