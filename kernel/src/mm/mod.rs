// SPDX-License-Identifier: GPL-2.0-only
//! Address spaces and ports: mapping, unmapping, and access to user memory.

#[allow(unsafe_code, reason = "ends grants of ports")]
pub mod io;
pub mod mapdb;
#[allow(unsafe_code, reason = "page tables and the nodes beside them, which it takes and gives back")]
pub mod space;
#[allow(unsafe_code, reason = "users' memory")]
pub mod umem;
pub mod windows;
