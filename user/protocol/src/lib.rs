// SPDX-License-Identifier: BSD-2-Clause
//! What programs on the Keel µ-kernel agree on beyond its binary interface, each fact once; the
//! kernel is built without it.
//!
//! `boot` is the interface between the root task and the tasks that it starts, `sigma0` that of the
//! initial task, `linux` that of native lthreads in a process of Linux, `small` that between a task
//! that runs 32-bit code and its parent; `status` decodes what a call returns, `text` cuts text
//! into messages. `cheader` writes all of it and the kernel's interface (the crate `keel-abi`) as
//! the C header for the Linux server and for 32-bit programs: `cargo run -p keel-protocol --example
//! cheader`.

#![cfg_attr(not(test), no_std)]

pub mod boot;
pub mod cheader;
pub mod linux;
pub mod sigma0;
pub mod small;
pub mod status;
pub mod text;
