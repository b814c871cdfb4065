// SPDX-License-Identifier: BSD-2-Clause
//! The library of native L4 programs.
//!
//! `call` is the only door to the kernel; `ipc`, `source`, `thread`, `task` and `mapping` put types
//! on it, and `strings` for long messages; `utcb` and `info` read what the kernel shows. On these stand `message` (requests and
//! replies as types), `server` and `pager` (their loops; `preempter` is what a scheduler hears), `pipe`, `timer`, and a driver's `device`, `pci` and `serial`. `start` and `program` are a
//! program's first steps; `memory` and `clan` let it have pages and child tasks (`program` and `clan` need
//! the layout of `program.ld`, so they are not there on the host); `root`, `print` and
//! `sigma0` ask those above. `record`, `elf` and `lines` read and sort; `list` and `ranges` are
//! containers that need no heap.
//!
//! `docs/native.md` is a tutorial.

#![deny(missing_docs)]
#![cfg_attr(not(test), no_std)]

pub mod call;
#[cfg(target_os = "none")]
pub mod clan;
pub mod device;
pub mod info;
pub mod ipc;
pub mod lines;
pub mod mapping;
pub mod memory;
pub mod message;
pub mod pager;
pub mod pci;
pub mod pipe;
pub mod preempter;
pub mod print;
#[cfg(target_os = "none")]
pub mod program;
pub mod record;
pub mod root;
pub mod serial;
pub mod server;
pub mod sigma0;
pub mod source;
pub mod start;
pub mod strings;
pub mod task;
pub mod thread;
pub mod timer;
pub mod utcb;

pub use keel_abi as abi;
pub use keel_abi::{elf, list, ranges};
pub use keel_abi::{Error, Fpage, Id, Side, Tag};
