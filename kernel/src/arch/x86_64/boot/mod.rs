// SPDX-License-Identifier: GPL-2.0-only
//! The first instructions of each processor, and what starts them.

pub mod smp;
pub mod start;
