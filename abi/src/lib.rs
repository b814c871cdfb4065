// SPDX-License-Identifier: BSD-2-Clause
//! The binary interface of the Keel µ-kernel: every fact that kernel and user programs share is
//! defined here, once.
//! `docs/abi.md` describes the calls. The C header for the Linux server is generated from this
//! crate by `cargo run -p keel-abi --example cheader`.
//! `list` and `ranges` are containers without a heap, which kernel and user programs use.

#![cfg_attr(not(test), no_std)]

pub mod acpi;
pub mod boot;
pub mod call;
pub mod cheader;
pub mod define;
pub mod fpage;
pub mod ids;
pub mod list;
pub mod memory;
pub mod random;
pub mod ranges;
pub mod trace;
pub mod word;

pub use call::{Error, Side, Status, Tag};
pub use fpage::Fpage;
pub use ids::Id;
pub use memory::{ExRegs, Frame, Info, LinuxNative, MapItem, Region, StringItem, UnmapRange, Utcb};
pub use trace::TraceRecord;
