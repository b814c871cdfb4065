// SPDX-License-Identifier: BSD-2-Clause
//! The library of native L4 programs.
//!
//! `call` is the only entry to the kernel. `ipc`, `kernel_object`, `thread`, `task` and `mapping`
//! are typed wrappers of it, `strings` the one for long messages. `utcb` and `kip` read the pages
//! that the kernel shares with the task.
//!
//! On these are built `message` (requests and replies as types), `server` and `pager` (their loops;
//! `preempter` decodes what a scheduler receives), `pipe`, `timer`, and for drivers `device`, `pci`
//! and `serial`. `start` and `program` are a program's first steps. `memory` and `clan` provide
//! pages and child tasks, `small` child tasks of 32-bit code; `program`, `clan` and `small` need
//! the layout of `program.ld` and do not exist on the developer's machine. `root`, `print` and
//! `sigma0` are clients of the root task, the parent and sigma0. `processor` knows an emulator.
//! `record`, `elf` and `lines` parse and sort; `list` and `ranges` are containers without a heap.
//!
//! `docs/native.md` is a tutorial.

#![deny(missing_docs)]
#![cfg_attr(not(test), no_std)]

pub mod call;
#[cfg(target_os = "none")]
pub mod clan;
pub mod device;
pub mod elf;
pub mod ipc;
pub mod kernel_object;
pub mod kip;
pub mod lines;
pub mod mapping;
pub mod memory;
pub mod message;
pub mod pager;
pub mod pci;
pub mod pipe;
pub mod preempter;
pub mod print;
pub mod processor;
#[cfg(target_os = "none")]
pub mod program;
pub mod record;
pub mod root;
pub mod serial;
pub mod server;
pub mod sigma0;
#[cfg(target_os = "none")]
pub mod small;
pub mod start;
pub mod strings;
pub mod task;
pub mod thread;
pub mod timer;
pub mod utcb;

pub use keel_abi as abi;
pub use keel_abi::{list, ranges};
pub use keel_abi::{Error, Fpage, Id, Side, Tag};
pub use keel_protocol as protocol;
