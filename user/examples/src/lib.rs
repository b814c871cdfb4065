// SPDX-License-Identifier: BSD-2-Clause
//! Decisions of the examples without kernel calls, tested on the developer's machine, and the
//! protocols that their servers and clients share.

#![cfg_attr(not(test), no_std)]
#![deny(missing_docs)]

pub mod deadlines;
pub mod pipe;
pub mod reserves;
pub mod ring;
pub mod typed;
