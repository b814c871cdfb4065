// SPDX-License-Identifier: BSD-2-Clause
//! The decisions of the root task, free of any kernel call, so that they are tested on the host.
//!
//! `config` reads the boot configuration, `plan` gives every task its memory, `pages` answers page
//! faults, `grants` requests to sigma0, within the `hardware` that a task may have.
//! `remapping` makes the tables by which an IOMMU confines devices, `power` reads how the machine is powered off and reset.

#![cfg_attr(not(test), no_std)]

pub mod config;
pub mod grants;
pub mod hardware;
pub mod pages;
pub mod plan;
pub mod power;
pub mod remapping;
