// SPDX-License-Identifier: BSD-2-Clause
//! The binary interface of the Keel µ-kernel: every fact that kernel and user programs share is
//! defined here, once. What user programs share among themselves is in `user/protocol`.
//! `docs/abi.md` describes the calls.
//! `list` and `ranges` are containers without a heap, which kernel and user programs use.

#![cfg_attr(not(test), no_std)]

pub mod acpi;
pub mod call;
pub mod define;
pub mod describe;
pub mod fpage;
pub mod ids;
pub mod list;
pub mod memory;
pub mod panic;
pub mod programs;
pub mod ranges;
pub mod trace;
pub mod word;

pub use call::{Error, Side, Status, Tag};
pub use fpage::Fpage;
pub use ids::Id;
pub use memory::{ExRegs, Frame, Info, MapItem, StringItem, Utcb};
pub use programs::{Region, UnmapRange};
pub use trace::TraceRecord;
