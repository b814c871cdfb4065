// SPDX-License-Identifier: BSD-2-Clause
//! The decisions of sigma0, free of any kernel call, so that they are tested on the host.
//!
//! `owners` remembers who has which range; `space` decides about memory, ports and lines.

#![cfg_attr(not(test), no_std)]

pub mod owners;
pub mod space;
