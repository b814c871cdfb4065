// SPDX-License-Identifier: GPL-2.0-only
//! Address spaces and ports: mapping, unmapping, and access to user memory.

pub mod io;
pub mod mapdb;
pub mod space;
pub mod umem;
