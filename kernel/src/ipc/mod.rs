// SPDX-License-Identifier: GPL-2.0-only
//! Messages: between threads, about faults, and to and from kernel objects.

pub mod across;
pub mod fault;
// The room is named after its main file.
#[allow(clippy::module_inception)]
pub mod ipc;
#[allow(unsafe_code, reason = "the page of a task's timers")]
pub mod kernel_object;
pub mod strings;
pub mod transfer;
