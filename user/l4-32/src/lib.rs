// SPDX-License-Identifier: BSD-2-Clause
//! The library of native L4 programs of 32 bits. They run in a window of another task's page
//! tables (a small address space), or in a space of their own.
//!
//! `call` is the only entry to the kernel, by `int 0x80`; `ipc` and `mapping` wrap it. `utcb` is
//! the page that the kernel shares with the task's thread. `parent` is the client of the task that
//! started this one; `print` and `program` use it. The parent's side is `keel_l4::small`. A task
//! has one thread. `keel32.h` is the same for C.
//!
//! `docs/small-spaces.md` says how to write one. Other processors have none of the modules.

#![no_std]
#![deny(missing_docs)]

#[cfg(target_arch = "x86")]
pub mod call;
#[cfg(target_arch = "x86")]
pub mod ipc;
#[cfg(target_arch = "x86")]
pub mod mapping;
#[cfg(target_arch = "x86")]
pub mod parent;
#[cfg(target_arch = "x86")]
pub mod print;
#[cfg(target_arch = "x86")]
pub mod program;
#[cfg(target_arch = "x86")]
pub mod utcb;

pub use keel_abi as abi;
pub use keel_abi::{Error, Fpage, Id, Side, Tag};
pub use keel_protocol as protocol;
