// SPDX-License-Identifier: BSD-2-Clause
//! What the examples decide without the kernel, so that it is tested on the host, and the protocols
//! that their servers and clients share.

#![cfg_attr(not(test), no_std)]
#![deny(missing_docs)]

pub mod deadlines;
pub mod pipe;
pub mod reserves;
pub mod ring;
pub mod typed;
