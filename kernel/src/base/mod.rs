// SPDX-License-Identifier: GPL-2.0-only
//! Structures and small tools that know nothing of the kernel.

#[macro_use]
pub mod object;
pub mod facts;
pub mod global;
pub mod list;
pub mod nospec;
pub mod refs;

pub use global::Global;
pub use list::{Linked, Links, List};
pub use refs::Ref;
