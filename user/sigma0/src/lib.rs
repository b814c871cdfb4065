// SPDX-License-Identifier: BSD-2-Clause
//! The decisions of sigma0, without kernel calls, so that they are tested on the developer's
//! machine.
//!
//! `owners` records the owner of each range. `space` decides about memory, ports, GSIs and MSIs.

#![cfg_attr(not(test), no_std)]

pub mod owners;
pub mod space;
