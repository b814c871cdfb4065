// SPDX-License-Identifier: GPL-2.0-only
//! The kernel interface page (KIP), which every task with a kernel area has.

use crate::{base::abi::*, base::*};

/// A page of its own.
#[repr(align(4096))]
pub struct InfoPage(pub Cell<Info>);

/// The kernel interface page. boot.rs fills it in.
pub static INFO: Global<InfoPage> = Global::new(InfoPage(Cell::new(Info::zeroed())));
