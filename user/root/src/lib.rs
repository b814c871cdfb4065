// SPDX-License-Identifier: BSD-2-Clause
//! The decisions of the root task, without kernel calls, so that they are tested on the developer's
//! machine.
//!
//! `config` parses the boot configuration. `plan` assigns memory to every task. `pages` answers
//! page faults, and `grants` requests to sigma0, within the `hardware` that a task may have.
//! `remapping` builds the tables by which an IOMMU confines devices. `power` decodes how the
//! machine is powered off and reset.

#![cfg_attr(not(test), no_std)]

pub mod config;
pub mod grants;
pub mod hardware;
pub mod pages;
pub mod plan;
pub mod power;
pub mod remapping;
